//! What goes where: data to stdout, talk to stderr. Texts of a cluster and its catalogs are whoever's who may write there; this is the
//! one place where they are made such that no terminal obeys them.

use std::io::{self, Write as _};

use anyhow::Context as _;
use serde::Serialize;

use crate::args::shared::Document;
use crate::terminal::{escape, escape_json, escape_painted, line};

/// Longest line of talk.
const MAX_TALK: usize = 4000;
/// Most lines of it.
const MAX_LINES: usize = 500;

/// Writes lines to stdout. A reader that hangs up (`| head`) ends the output quietly.
///
/// # Errors
/// When stdout cannot be written to.
pub(crate) fn data(text: &str) -> anyhow::Result<()> {
    script(&escape(text))
}

/// The same of lines that may be painted, each of one object.
///
/// # Errors
/// When stdout cannot be written to.
pub(crate) fn painted<'a>(lines: impl IntoIterator<Item = &'a str>) -> anyhow::Result<()> {
    let lines: Vec<String> = lines.into_iter().map(escape_painted).collect();
    script(&format!("{}\n", lines.join("\n")))
}

/// Writes text to stdout as it is: of this program alone, for programs.
///
/// # Errors
/// When stdout cannot be written to.
pub(crate) fn script(text: &str) -> anyhow::Result<()> {
    match io::stdout().lock().write_all(text.as_bytes()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        result => result.context("cannot write to stdout"),
    }
}

/// Writes a value as the document that was asked for.
///
/// # Errors
/// When stdout cannot be written to.
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
            // Not every text of YAML has a place for escapes, but JSON is YAML and has.
            match escape_json(&yaml) == yaml {
                true => Ok(yaml),
                false => json(),
            }
        }
        Document::Json => json(),
    }
}

/// Tells how it goes on, on stderr.
pub(crate) fn progress(text: &str) {
    let _ = writeln!(io::stderr(), "{}", talk(text));
}

/// A line for each of a text, those below the first moved to the right: whatever a cluster says, none looks like one of ours.
fn talk(text: &str) -> String {
    let lines = text.trim().lines().take(MAX_LINES);
    let lines: Vec<String> = lines.map(|told| line(told, MAX_TALK)).collect();
    lines.join("\n  ")
}

/// Tells something the user should know, on stderr.
pub(crate) fn warning(text: &str) {
    let _ = writeln!(io::stderr(), "warning: {}", line(text, MAX_TALK));
}

/// Tells why the command failed, with the causes in one line.
pub(crate) fn error(error: &anyhow::Error) {
    let _ = writeln!(io::stderr(), "Error: {}", error_text(error));
}

/// Most are escaped where they are made; whatever is not is here.
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
