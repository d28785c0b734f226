//! Links in Markdown, and examples in doc comments.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Component, Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, bail};

use crate::workspace;

/// Where examples begin and end.
const FENCE: &str = "```";
/// What rustdoc takes for a word about Rust code, beside `edition…`.
const ABOUT_RUST: [&str; 6] = [
    "rust",
    "no_run",
    "should_panic",
    "compile_fail",
    "test_harness",
    "standalone_crate",
];

/// Relative links of the workspace's Markdown that lead nowhere: `file:line: link: why`.
///
/// # Errors
/// When git does not answer or a file cannot be read.
pub(super) fn dead_links() -> anyhow::Result<Vec<String>> {
    let root = workspace::root();
    let mut documents = BTreeMap::new();
    for file in known_files(&root, "*.md")? {
        let text =
            fs::read_to_string(root.join(&file)).with_context(|| format!("read {}", file.display()))?;
        documents.insert(file, text);
    }
    Ok(dead(&documents, &|path| root.join(path).exists()))
}

/// Examples in doc comments. `cargo xtask test` compiles no documentation, so nobody would know when one is wrong.
///
/// # Errors
/// When git does not answer or a file cannot be read.
pub(super) fn examples() -> anyhow::Result<Vec<String>> {
    let root = workspace::root();
    let mut found = Vec::new();
    for file in known_files(&root, "*.rs")? {
        let text =
            fs::read_to_string(root.join(&file)).with_context(|| format!("read {}", file.display()))?;
        found.extend(
            examples_in(&text)
                .into_iter()
                .map(|line| format!("{}:{line}: an example that no test runs", file.display())),
        );
    }
    Ok(found)
}

/// Files that git knows or would take, as far as they are there.
pub(super) fn known_files(root: &Path, pattern: &str) -> anyhow::Result<Vec<PathBuf>> {
    let listed = Command::new("git")
        .current_dir(root)
        .args([
            "ls-files",
            "-z",
            "--cached",
            "--others",
            "--exclude-standard",
            pattern,
        ])
        .output()
        .context("cannot run git")?;
    if !listed.status.success() {
        bail!("git ls-files failed: {}", String::from_utf8_lossy(&listed.stderr));
    }
    let names = String::from_utf8(listed.stdout).context("names of files")?;
    Ok(names
        .split('\0')
        .filter(|name| !name.is_empty())
        .map(PathBuf::from)
        .filter(|file| root.join(file).is_file())
        .collect())
}

fn dead(documents: &BTreeMap<PathBuf, String>, exists: &dyn Fn(&Path) -> bool) -> Vec<String> {
    let anchors: BTreeMap<&Path, BTreeSet<String>> = documents
        .iter()
        .map(|(file, text)| (file.as_path(), anchors(text)))
        .collect();
    let mut found = Vec::new();
    for (file, text) in documents {
        for (line, link) in links(text) {
            let (path, anchor) = match link.split_once('#') {
                Some((path, anchor)) => (path, Some(anchor)),
                None => (link.as_str(), None),
            };
            let target = if path.is_empty() {
                Some(file.clone())
            } else {
                resolve(file, path)
            };
            let why = match (&target, anchor) {
                (None, _) => Some("leads out of the repository".to_owned()),
                (Some(target), _) if !exists(target) => Some(format!("there is no {}", target.display())),
                (Some(target), Some(anchor)) => anchors
                    .get(target.as_path())
                    .filter(|known| !known.contains(anchor))
                    .map(|_| format!("{} has no heading for it", target.display())),
                (Some(_), None) => None,
            };
            found.extend(why.map(|why| format!("{}:{line}: {link}: {why}", file.display())));
        }
    }
    found
}

/// A path from the root; `None` when it leads above it.
fn resolve(file: &Path, link: &str) -> Option<PathBuf> {
    let mut target = file.parent().unwrap_or(Path::new("")).to_path_buf();
    for part in Path::new(link).components() {
        match part {
            Component::ParentDir if !target.pop() => return None,
            Component::Normal(name) => target.push(name),
            Component::RootDir | Component::Prefix(_) => return None,
            Component::ParentDir | Component::CurDir => {}
        }
    }
    Some(target)
}

/// The lines outside of code blocks with their numbers, code within them blanked.
fn prose(text: &str) -> impl Iterator<Item = (usize, String)> + '_ {
    let mut is_code = false;
    (1..).zip(text.lines()).filter_map(move |(number, line)| {
        if line.trim_start().starts_with(FENCE) {
            is_code = !is_code;
            return None;
        }
        (!is_code).then(|| (number, line.to_owned()))
    })
}

/// Relative links with the line they are in: `[text](link)` and `[name]: link`.
fn links(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (number, line) in prose(text) {
        // Every other piece is code.
        let line: String = line.split('`').step_by(2).collect();
        let inline = line
            .split("](")
            .skip(1)
            .filter_map(|rest| rest.split([')', ' ']).next().map(str::to_owned));
        let named = line
            .strip_prefix('[')
            .and_then(|rest| rest.split_once("]: "))
            .map(|(_, link)| link.trim().to_owned());
        found.extend(
            inline
                .chain(named)
                .filter(|link| !link.contains("://") && !link.starts_with("mailto:"))
                .map(|link| (number, link)),
        );
    }
    found
}

/// The anchors of a document's headings, as GitHub makes them.
fn anchors(text: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for (_, line) in prose(text) {
        let heading = line.trim_start_matches('#');
        let level = line.len() - heading.len();
        let Some(heading) = heading.strip_prefix(' ').filter(|_| (1..=6).contains(&level)) else {
            continue;
        };
        let slug: String = visible(heading.trim())
            .to_lowercase()
            .chars()
            .filter(|c| c.is_alphanumeric() || matches!(c, '-' | '_' | ' '))
            .map(|c| if c == ' ' { '-' } else { c })
            .collect();
        let mut name = slug.clone();
        for number in 1.. {
            if found.insert(name) {
                break;
            }
            name = format!("{slug}-{number}");
        }
    }
    found
}

/// A heading without the addresses of links in it.
fn visible(heading: &str) -> String {
    let mut pieces = heading.split("](");
    let first = pieces.next().unwrap_or_default().to_owned();
    pieces.fold(first, |text, piece| {
        text + piece.split_once(')').map_or("", |(_, rest)| rest)
    })
}

/// The lines in which examples begin that rustdoc would run: code blocks in fences that name no other language.
fn examples_in(source: &str) -> Vec<usize> {
    let mut found = Vec::new();
    let mut is_code = false;
    for (number, line) in (1..).zip(source.lines()) {
        let line = line.trim_start();
        let Some(comment) = line.strip_prefix("///").or_else(|| line.strip_prefix("//!")) else {
            is_code = false;
            continue;
        };
        let Some(words) = comment.trim_start().strip_prefix(FENCE) else {
            continue;
        };
        if !is_code && is_rust(words) {
            found.push(number);
        }
        is_code = !is_code;
    }
    found
}

fn is_rust(words: &str) -> bool {
    words
        .split([',', ' '])
        .filter(|word| !word.is_empty())
        .all(|word| ABOUT_RUST.contains(&word) || word.starts_with("edition"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(documents: &[(&str, &str)]) -> Vec<String> {
        let documents: BTreeMap<PathBuf, String> = documents
            .iter()
            .map(|(file, text)| (PathBuf::from(file), (*text).to_owned()))
            .collect();
        dead(&documents, &|path| {
            documents.contains_key(path) || path == Path::new("docs") || path == Path::new("LICENSE")
        })
    }

    #[test]
    fn links_that_lead_nowhere_are_told() {
        let other = ("docs/b.md", "# Two words, and `code`\n\n## Same\n\n## Same\n");
        assert!(
            found(&[
                (
                    "README.md",
                    "[a](docs/b.md), [b](docs/b.md#two-words-and-code) [c](docs/b.md#same-1)\n[d](docs) [e](#here)\n\
                     [f](https://x/#y) `[g](nowhere.md)`\n# Here\n```\n[h](nowhere.md)\n```\n[i]: LICENSE\n"
                ),
                other,
                ("docs/c.md", "[up](../README.md#here) [beside](b.md)")
            ])
            .is_empty()
        );
        assert_eq!(
            found(&[
                (
                    "README.md",
                    "text\n[a](docs/c.md) [b](docs/b.md#three)\n[i]: LICENCE\n"
                ),
                other,
                ("docs/d.md", "[away](../../x.md) [none](#none)")
            ]),
            [
                "README.md:2: docs/c.md: there is no docs/c.md",
                "README.md:2: docs/b.md#three: docs/b.md has no heading for it",
                "README.md:3: LICENCE: there is no LICENCE",
                "docs/d.md:1: ../../x.md: leads out of the repository",
                "docs/d.md:1: #none: docs/d.md has no heading for it",
            ]
        );
    }

    #[test]
    fn headings_with_links_have_the_anchors_of_their_text() {
        let anchors = anchors("## The [plan](x.md): `a_b`\n#no heading\n####### nor this\n");
        assert_eq!(anchors.into_iter().collect::<Vec<_>>(), ["the-plan-a_b"]);
    }

    #[test]
    fn examples_that_rustdoc_would_run_are_found() {
        let source = [
            "//! ```text",
            "//! a",
            "//! ```",
            "",
            "/// ```",
            "/// let a = 1;",
            "/// ```",
            "fn a() {}",
            "/// ```rust,no_run",
            "/// ```",
            "fn b() {}",
            "/// ```yaml",
            "/// ```",
            "fn c() {}",
        ]
        .join("\n");
        assert_eq!(examples_in(&source), [5, 9]);
    }

    #[test]
    fn this_repository_has_neither() {
        assert_eq!(dead_links().unwrap(), Vec::<String>::new());
        assert_eq!(examples().unwrap(), Vec::<String>::new());
    }
}
