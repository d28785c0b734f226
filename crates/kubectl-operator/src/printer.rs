//! Output: data to stdout, messages to stderr. Texts from clusters and catalogs may contain terminal control characters; this
//! module alone escapes them.

use std::io::{self, Write as _};

use anyhow::Context as _;
use serde::Serialize;

use crate::args::shared::Document;
use crate::terminal::{escape, escape_json, escape_painted, line};

/// Maximum length of a line of a message.
const MAX_TALK: usize = 4000;
/// Maximum number of lines of a message.
const MAX_LINES: usize = 500;

/// Writes lines to stdout. A closed pipe (`| head`) ends the output without error.
///
/// # Errors
/// Writing to stdout fails.
pub(crate) fn data(text: &str) -> anyhow::Result<()> {
    script(&escape(text))
}

/// Writes lines that may be coloured, each about one object.
///
/// # Errors
/// Writing to stdout fails.
pub(crate) fn painted(lines: impl IntoIterator<Item = impl AsRef<str>>) -> anyhow::Result<()> {
    let lines = lines.into_iter().map(|line| escape_painted(line.as_ref()));
    let lines: Vec<String> = lines.collect();
    script(&format!("{}\n", lines.join("\n")))
}

/// Writes a text of this program to stdout without escaping, for other programs.
///
/// # Errors
/// Writing to stdout fails.
pub(crate) fn script(text: &str) -> anyhow::Result<()> {
    match io::stdout().lock().write_all(text.as_bytes()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        result => result.context("cannot write to stdout"),
    }
}

/// Writes a value as a document in the requested format.
///
/// # Errors
/// Writing to stdout fails.
pub(crate) fn document<T: Serialize>(value: &T, format: Document) -> anyhow::Result<()> {
    script(&document_text(value, format)?)
}

fn document_text<T: Serialize>(value: &T, format: Document) -> anyhow::Result<String> {
    let json = || {
        anyhow::Ok(format!(
            "{}\n",
            escape_json(&serde_json::to_string_pretty(value)?)
        ))
    };
    match format {
        Document::Yaml => {
            let yaml = olm_fbc::yaml::to_string(value)?;
            // Some YAML texts cannot contain escapes. JSON can, and is valid YAML.
            match escape_json(&yaml) == yaml {
                true => Ok(yaml),
                false => json(),
            }
        }
        Document::Json => json(),
    }
}

/// Prints progress to stderr.
pub(crate) fn progress(text: &str) {
    let _ = writeln!(io::stderr(), "{}", talk(text));
}

/// Indents all lines of a text but the first, so that no text of a cluster looks like a message of this program.
fn talk(text: &str) -> String {
    let lines = text.trim().lines().take(MAX_LINES);
    let lines: Vec<String> = lines.map(|next| line(next, MAX_TALK)).collect();
    lines.join("\n  ")
}

/// Prints a warning to stderr.
pub(crate) fn warning(text: &str) {
    let _ = writeln!(io::stderr(), "warning: {}", line(text, MAX_TALK));
}

/// Prints why the command failed, with the causes in one line.
pub(crate) fn error(error: &anyhow::Error) {
    let _ = writeln!(io::stderr(), "Error: {}", error_text(error));
}

/// Most texts are escaped at their source; the others are escaped here.
fn error_text(error: &anyhow::Error) -> String {
    line(&format!("{error:#}"), MAX_TALK)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn an_error_of_whatever_origin_is_escaped() {
        let error = anyhow::anyhow!("\u{1b}[2J").context("cannot\nread");
        let text = error_text(&error);
        assert!(!text.contains(['\u{1b}', '\n']), "{text}");
    }

    #[test]
    fn talk_of_several_lines_stays_lines_and_none_of_others_looks_like_ours() {
        assert_eq!(
            talk("17 files\n not read: 3\nLook"),
            "17 files\n  not read: 3\n  Look"
        );
        assert_eq!(talk("waits:\nError: \u{1b}[2J"), "waits:\n  Error: \\u{1b}[2J");
        assert_eq!(talk(&"x\n".repeat(10_000)).lines().count(), MAX_LINES);
    }

    #[test]
    fn a_document_says_the_same_without_letters_that_a_terminal_obeys() {
        let poison = json!({"a\u{9b}": "x\u{1b}[2J\u{202e}y\u{200b}\u{7f}\nz größe", "b": "\u{e0001}"});
        for format in [Document::Json, Document::Yaml] {
            let text = document_text(&poison, format).unwrap();
            let is_raw = |letter: char| "\u{9b}\u{1b}\u{202e}\u{200b}\u{7f}\u{e0001}".contains(letter);
            assert!(!text.contains(is_raw), "{text:?}");
            assert!(text.contains("größe"), "{text}");
            assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), poison);
        }
        let fine = document_text(&json!({"a": "größe 値"}), Document::Yaml).unwrap();
        assert_eq!(fine, "a: größe 値\n");
    }
}
