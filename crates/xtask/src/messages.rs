//! The page [`PAGE`] with the texts that people see, collected from the sources of the crates.
//!
//! A text is a string literal with at least two words, outside of tests. The macro or method around it says what kind it is.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow, bail};
use proc_macro2::TokenTree::{self, Group, Ident, Literal, Punct};
use proc_macro2::{Delimiter, TokenStream};

use crate::{files, workspace};

/// The generated page.
const PAGE: &str = "docs/reference/messages.md";
/// Crates without texts for users.
const LEFT_OUT: [&str; 2] = ["olm-testing", "xtask"];
const INTRODUCTION: &str = "# Messages

All texts of the programs, with the file that writes each: search for a part of a message that has no names and no numbers. `{…}` stands
for a value. File names are below `src` of the crate. [Troubleshooting](../guides/troubleshooting.md) says what to do about frequent
messages. `cargo xtask gen` makes this page from the sources.
";
/// Headings of the kinds of texts, in the page's order. The first is also for parts of texts and for what commands print.
const SHOWN: &str = "Conditions, Events and output";
const ERRORS: &str = "Errors";
const LOG: &str = "Log";

/// Writes the page or, with `check`, verifies that it is up to date.
///
/// # Errors
/// A source cannot be read, or the page cannot be written. With `check`, the page is outdated.
pub(crate) fn generate(check: bool) -> anyhow::Result<()> {
    let page = page(&workspace::root().join("crates"))?;
    let file = workspace::root().join(PAGE);
    let is_fresh = fs::read_to_string(&file).is_ok_and(|text| text == page);
    if check && !is_fresh {
        bail!("{PAGE} does not have the texts of the sources; run `cargo xtask gen`");
    }
    if !is_fresh {
        fs::write(&file, page).with_context(|| format!("cannot write {PAGE}"))?;
    }
    eprintln!("{PAGE} is up to date");
    Ok(())
}

/// Returns the page for the crates in a folder.
fn page(crates: &Path) -> anyhow::Result<String> {
    let mut page = INTRODUCTION.to_owned();
    for folder in files::entries(crates)? {
        let name = folder.file_name().unwrap_or_default().to_string_lossy();
        let mut texts = Texts {
            sources: folder.join("src"),
            found: BTreeMap::new(),
        };
        for root in ["lib.rs", "main.rs"].map(|root| texts.sources.join(root)) {
            if root.is_file() && !LEFT_OUT.contains(&&*name) {
                texts.read(&root)?;
            }
        }
        if !texts.found.is_empty() {
            page.push_str(&format!("\n## {name}\n"));
        }
        for (kind, found) in texts.found {
            page.push_str(&format!("\n### {kind}\n\n"));
            for (text, files) in found {
                let (start, end) = if text.contains('`') {
                    ("`` ", " ``")
                } else {
                    ("`", "`")
                };
                let files = Vec::from_iter(files).join(", ");
                page.push_str(&format!("- {start}{text}{end} ({files})\n"));
            }
        }
    }
    Ok(page)
}

/// Texts of a crate.
struct Texts {
    /// Its folder `src`.
    sources: PathBuf,
    /// The files that contain a text, by kind and text.
    found: BTreeMap<&'static str, BTreeMap<String, BTreeSet<String>>>,
}

impl Texts {
    /// Adds the texts of a file and of the modules that it declares.
    fn read(&mut self, file: &Path) -> anyhow::Result<()> {
        let tokens = files::read(file)?
            .parse::<TokenStream>()
            .map_err(|error| anyhow!("cannot parse {}: {error}", file.display()))?;
        self.add(tokens, SHOWN, file)
    }

    /// Adds the texts among the tokens. `kind` is that of the macro or call around them.
    fn add(&mut self, tokens: TokenStream, kind: &'static str, file: &Path) -> anyhow::Result<()> {
        let tokens = Vec::from_iter(tokens);
        let mut rest = tokens.as_slice();
        while !rest.is_empty() {
            rest = match rest {
                // `#![…]` and `//!`
                [Punct(hash), Punct(mark), Group(_), after @ ..]
                    if hash.as_char() == '#' && mark.as_char() == '!' =>
                {
                    after
                }
                [Punct(hash), Group(attribute), after @ ..] if hash.as_char() == '#' => {
                    let text = attribute.stream().to_string().replace(' ', "");
                    if text.starts_with("error(") {
                        self.add(attribute.stream(), ERRORS, file)?;
                    }
                    if text == "cfg(test)" {
                        after_item(after)
                    } else {
                        after
                    }
                }
                [Ident(word), Ident(name), Punct(end), after @ ..]
                    if word == "mod" && end.as_char() == ';' =>
                {
                    self.module(&name.to_string(), file)?;
                    after
                }
                [Ident(name), Punct(mark), Group(body), after @ ..] if mark.as_char() == '!' => {
                    if let Some(kind) = kind_within(&format!("{name}!"), kind) {
                        self.add(body.stream(), kind, file)?;
                    }
                    after
                }
                [Ident(name), Group(body), after @ ..] if body.delimiter() == Delimiter::Parenthesis => {
                    if let Some(kind) = kind_within(&name.to_string(), kind) {
                        self.add(body.stream(), kind, file)?;
                    }
                    after
                }
                [Group(group), after @ ..] => {
                    self.add(group.stream(), kind, file)?;
                    after
                }
                [Literal(literal), after @ ..] => {
                    if let Some(text) = text(&literal.to_string()) {
                        let file = file.strip_prefix(&self.sources).unwrap_or(file).display();
                        let texts = self.found.entry(kind).or_default();
                        texts.entry(text).or_default().insert(file.to_string());
                    }
                    after
                }
                _ => &rest[1..],
            };
        }
        Ok(())
    }

    /// Adds the texts of a module in another file.
    fn module(&mut self, name: &str, declared_in: &Path) -> anyhow::Result<()> {
        let name = format!("{}.rs", name.trim_start_matches("r#"));
        let file = if declared_in.ends_with("lib.rs") || declared_in.ends_with("main.rs") {
            declared_in.with_file_name(name)
        } else {
            declared_in.with_extension("").join(name)
        };
        // A module with `#[path]` is generated and has no texts.
        if file.is_file() { self.read(&file) } else { Ok(()) }
    }
}

/// Returns the kind of the texts in a macro or call, `around` if it may be any, `None` if they are for developers.
fn kind_within(name: &str, around: &'static str) -> Option<&'static str> {
    match name {
        "anyhow!" | "bail!" | "ensure!" | "Err" | "context" | "map_err" | "ok_or" | "ok_or_else"
        | "with_context" => Some(ERRORS),
        "debug!" | "error!" | "info!" | "trace!" | "warn!" => Some(LOG),
        "assert!" | "assert_eq!" | "debug_assert!" | "expect" | "panic!" | "unreachable!" => None,
        _ => Some(around),
    }
}

/// Returns the tokens after the item with which they begin.
fn after_item(tokens: &[TokenTree]) -> &[TokenTree] {
    let last = tokens.iter().position(|token| match token {
        Group(group) => group.delimiter() == Delimiter::Brace,
        Punct(mark) => mark.as_char() == ';',
        Ident(_) | Literal(_) => false,
    });
    &tokens[last.map_or(tokens.len(), |last| last + 1)..]
}

/// Returns the text of a string literal in one line, `None` if it has less than two words.
fn text(literal: &str) -> Option<String> {
    let quoted = literal.trim_start_matches('r').trim_matches('#');
    let inner = quoted.strip_prefix('"')?.strip_suffix('"')?;
    // The compiler leaves out the space at the start of a continued line.
    let text: String = inner.split("\\\n").map(str::trim_start).collect();
    let text = text.trim().replace("\\\"", "\"").replace('\n', "\\n");
    let words = text.split_whitespace().filter(|word| {
        let word = word.trim_matches(|c: char| c.is_ascii_punctuation() && c != '{' && c != '}');
        word.len() > 1 && word.chars().all(char::is_alphabetic)
    });
    (words.count() > 1).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_listed_under_its_crate_and_kind_with_its_files() -> anyhow::Result<()> {
        let crates = tempfile::tempdir()?;
        let sources = crates.path().join("catalogd/src");
        fs::create_dir_all(sources.join("serving"))?;
        fs::write(
            sources.join("lib.rs"),
            r##"//! Text of a comment.
            #![doc = "not for users"]
            mod serving;
            #[cfg(test)]
            mod tests;
            #[derive(Debug, thiserror::Error)]
            enum Error {
                #[error("file `{path}` is \"large\", \
                         the limit is 1 MiB")]
                Large { path: String },
            }
            #[cfg(test)]
            fn only_in_tests() -> &'static str { "text of a test" }
            const WAITING: &str = "waiting for the catalog";
            "##,
        )?;
        fs::write(sources.join("tests.rs"), "const TEXT: &str = \"text of a test\";")?;
        fs::write(
            sources.join("serving.rs"),
            r#"mod again;
            fn serve() -> anyhow::Result<String> {
                tracing::warn!(%error, "catalog evicted from memory");
                read().with_context(|| format!("cannot read {path}"))?;
                assert!(read, "text of a panic");
                Ok(format!("{kind} {name}"))
            }"#,
        )?;
        fs::write(
            sources.join("serving/again.rs"),
            "fn again() -> String { String::from(\"waiting for the catalog\") }",
        )?;
        fs::create_dir_all(crates.path().join("xtask/src"))?;
        fs::write(
            crates.path().join("xtask/src/lib.rs"),
            "const TEXT: &str = \"for developers only\";",
        )?;
        assert_eq!(
            page(crates.path())?.strip_prefix(INTRODUCTION),
            Some(
                "
## catalogd

### Conditions, Events and output

- `waiting for the catalog` (lib.rs, serving/again.rs)

### Errors

- `cannot read {path}` (serving.rs)
- `` file `{path}` is \"large\", the limit is 1 MiB `` (lib.rs)

### Log

- `catalog evicted from memory` (serving.rs)
"
            )
        );
        Ok(())
    }
}
