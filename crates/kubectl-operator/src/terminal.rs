//! Texts for a terminal: escaped, coloured if supported, and cut to its width.

use std::io::{self, IsTerminal as _};

use jiff::Timestamp;
use olm_fbc::printable::push_escaped;
pub(crate) use olm_fbc::printable::{escape, escape_json, line};

/// Maximum length of a text from a cluster or catalog. The way out is at the end of a cause, which may have several long names.
const MAX_TEXT: usize = 2000;
/// Maximum number of further lines of such a text.
const MAX_LINES: usize = 30;
/// Maximum indentation of such a line.
const MAX_BLANKS: usize = 20;
/// Default number of lines and columns.
const SIZE: (usize, usize) = (24, 80);

/// Escape sequence that ends a colour.
const UNPAINTED: &str = "\u{1b}[0m";

/// Escapes a line like [`escape`], but keeps colours.
pub(crate) fn escape_painted(line: &str) -> String {
    let mut escaped = String::with_capacity(line.len());
    let mut rest = line;
    while let Some(letter) = rest.chars().next() {
        let codes = [Mark::Fine, Mark::Waits, Mark::Bad].map(Mark::code);
        let mut codes = codes.iter().map(String::as_str).chain([UNPAINTED]);
        let length = match codes.find(|code| rest.starts_with(code)) {
            Some(code) => {
                escaped.push_str(code);
                code.len()
            }
            None => {
                push_escaped(&mut escaped, letter);
                letter.len_utf8()
            }
        };
        rest = rest.get(length..).unwrap_or_default();
    }
    escaped
}

/// Returns a text as part of a line: escaped, in one line and of limited length.
pub(crate) fn plain(text: &str) -> String {
    line(text, MAX_TEXT)
}

/// Returns the first line of a text, with a mark if there are more.
pub(crate) fn first_line(text: &str) -> String {
    let mut lines = text.trim().lines();
    let first = plain(lines.next().unwrap_or_default());
    match lines.next() {
        None => first,
        Some(_) => format!("{first} …"),
    }
}

/// Returns the lines after the first with their indentation, up to a maximum.
pub(crate) fn below_first(text: &str) -> Vec<String> {
    let below = text.trim().lines().skip(1).filter(|line| !line.trim().is_empty());
    let mut below: Vec<String> = below
        .take(MAX_LINES + 1)
        .map(|line| {
            let trimmed = line.trim_start();
            let blanks = (line.len() - trimmed.len()).min(MAX_BLANKS);
            format!("{}{}", " ".repeat(blanks), plain(trimmed))
        })
        .collect();
    if below.len() > MAX_LINES {
        below.truncate(MAX_LINES);
        below.push("…".to_owned());
    }
    below
}

/// Returns a number with a noun, whose plural ends in s.
pub(crate) fn count(number: usize, of: &str) -> String {
    match number {
        1 => format!("1 {of}"),
        _ => format!("{number} {of}s"),
    }
}

/// Returns NAMESPACE/NAME, or NAME without a namespace.
pub(crate) fn full_name(namespace: &str, name: &str) -> String {
    match namespace {
        "" => name.to_owned(),
        namespace => format!("{namespace}/{name}"),
    }
}

/// Returns the first few names, at most `most`, and the number of the others.
pub(crate) fn listed(names: &[String], most: usize) -> String {
    let named = names.get(..most).unwrap_or(names).join(", ");
    match names.len().saturating_sub(most) {
        0 => named,
        more => format!("{named} and {more} more"),
    }
}

/// Returns the time by the user's clock.
#[expect(
    clippy::disallowed_methods,
    reason = "no operator: somebody asks once how things are by their clock"
)]
pub(crate) fn now() -> Timestamp {
    Timestamp::now()
}

/// Returns the age in the largest unit that fits; zero for a time in the future.
pub(crate) fn age(now: Timestamp, then: Timestamp) -> String {
    let seconds = seconds(now, then);
    match seconds {
        ..120 => format!("{seconds}s"),
        120..7200 => format!("{}m", seconds / 60),
        7200..172_800 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86_400),
    }
}

/// Returns the seconds between two times; zero if `then` is later, which a wrong clock can cause.
pub(crate) fn seconds(now: Timestamp, then: Timestamp) -> i64 {
    now.as_second().saturating_sub(then.as_second()).max(0)
}

/// Mark of an object's state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Mark {
    /// Nothing needs to be done.
    Fine,
    /// It waits for something.
    Waits,
    /// Something failed.
    Bad,
}

impl Mark {
    /// Returns the escape sequence of its colour.
    fn code(self) -> String {
        let code = match self {
            Self::Fine => 32,
            Self::Waits => 33,
            Self::Bad => 31,
        };
        format!("\u{1b}[{code}m")
    }
}

/// True if texts are coloured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Colours(pub bool);

impl Colours {
    /// Returns the setting for stdout: no colours in a pipe, with `NO_COLOR`, or if the terminal does not support them.
    pub(crate) fn of_stdout() -> Self {
        Self::when(io::stdout().is_terminal(), |name| std::env::var(name).ok())
    }

    /// Returns the setting for stderr.
    pub(crate) fn of_stderr() -> Self {
        Self::when(io::stderr().is_terminal(), |name| std::env::var(name).ok())
    }

    fn when(is_terminal: bool, variable: impl Fn(&str) -> Option<String>) -> Self {
        let refused = variable("NO_COLOR").is_some_and(|value| !value.is_empty());
        let is_dumb = variable("TERM").is_some_and(|value| value == "dumb");
        Self(is_terminal && !refused && !is_dumb)
    }

    /// Returns the text in the colour of the mark.
    pub(crate) fn paint(self, mark: Mark, text: &str) -> String {
        if !self.0 {
            return text.to_owned();
        }
        format!("{}{text}{UNPAINTED}", mark.code())
    }
}

/// Returns the number of lines and columns of the terminal.
pub(crate) fn size() -> (usize, usize) {
    terminal_size::terminal_size().map_or(SIZE, |(width, height)| {
        (usize::from(height.0), usize::from(width.0))
    })
}

/// Cuts a line to a number of columns, with a mark as the last one. Colours take no columns.
pub(crate) fn cut(line: &str, columns: usize) -> String {
    match beginning(line, columns) {
        None => line.to_owned(),
        Some(_) => beginning(line, columns.saturating_sub(1))
            .map_or_else(|| line.to_owned(), |cut| format!("{cut}…")),
    }
}

/// Returns the beginning of a line that has more columns than these; `None` if it fits.
fn beginning(line: &str, columns: usize) -> Option<String> {
    let (mut cut, mut width, mut in_code) = (String::new(), 0, false);
    for letter in line.chars() {
        if letter == '\u{1b}' {
            in_code = true;
        }
        if !in_code {
            if width == columns {
                // The rest may include the end of a colour.
                if line.contains('\u{1b}') {
                    cut.push_str(UNPAINTED);
                }
                return Some(cut);
            }
            width += 1;
        }
        cut.push(letter);
        if in_code && letter == 'm' {
            in_code = false;
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_terminal_obeys_what_a_cluster_says() {
        for (text, expected) in [
            ("a b, 'c' \\ \"d\"", "a b, 'c' \\ \"d\""),
            ("\u{1b}[2J", r"\u{1b}[2J"),
            ("get \u{202e}x\u{200b}y", r"get \u{202e}x\u{200b}y"),
            ("one\ntwo\r", "one two"),
            (
                "a\u{2066}b\u{feff}\u{2028}c\u{9b}2J",
                r"a\u{2066}b\u{feff}\u{2028}c\u{9b}2J",
            ),
            // Letters that look like blanks.
            ("a\u{3164}b\u{2800}c", r"a\u{3164}b\u{2800}c"),
            ("größe 値", "größe 値"),
        ] {
            assert_eq!(plain(text), expected);
            assert_eq!(plain(expected), expected, "it is not escaped again");
        }
        assert_eq!(escape("one\n\ttwo\u{1b}\r\n"), "one\n two\\u{1b}\\u{d}\n");
    }

    #[test]
    fn only_our_own_colours_are_obeyed() {
        let painted = Colours(true).paint(Mark::Bad, "x");
        assert_eq!(escape_painted(&painted), painted);
        for text in ["\u{1b}[2J", "\u{1b}[31;1m", "\u{1b}]0;x\u{7}", "\u{1b}"] {
            let told = escape_painted(&format!("{painted}{text}"));
            let rest = told.strip_prefix(&painted).unwrap();
            assert_eq!(rest, escape(text));
            assert!(!rest.contains('\u{1b}'), "{text:?}");
        }
    }

    #[test]
    fn an_endless_text_is_cut() {
        let told = plain(&"x".repeat(100_000));
        assert_eq!(told.chars().count(), MAX_TEXT + 1);
        assert!(told.ends_with('…'));
    }

    #[test]
    fn colours_are_for_terminals_that_want_them() {
        let none = |_: &str| None;
        let some = |wanted: &'static str, value: &'static str| {
            move |name: &str| (name == wanted).then(|| value.to_owned())
        };
        assert_eq!(Colours::when(true, none), Colours(true));
        assert_eq!(Colours::when(false, none), Colours(false));
        assert_eq!(Colours::when(true, some("NO_COLOR", "1")), Colours(false));
        assert_eq!(Colours::when(true, some("NO_COLOR", "")), Colours(true));
        assert_eq!(Colours::when(true, some("TERM", "dumb")), Colours(false));
        assert_eq!(Colours(false).paint(Mark::Bad, "x"), "x");
        assert_eq!(Colours(true).paint(Mark::Bad, "x"), "\u{1b}[31mx\u{1b}[0m");
    }

    #[test]
    fn a_text_of_several_lines_is_its_first_and_what_is_below() {
        assert_eq!(first_line("one"), "one");
        assert_eq!(first_line("\n one\n  two"), "one …");
        assert!(below_first("one").is_empty());
        assert_eq!(
            below_first("one\n  two\u{1b}\n\n - three\r\n"),
            ["  two\\u{1b}", " - three"]
        );
        let many = below_first(&"x\n".repeat(10_000));
        assert_eq!(
            (many.len(), many.last().map(String::as_str)),
            (MAX_LINES + 1, Some("…"))
        );
        let far = below_first(&format!("x\n{}y", " ".repeat(10_000)));
        assert_eq!(far, [format!("{}y", " ".repeat(MAX_BLANKS))]);
        assert_eq!(
            (count(1, "catalog"), count(2, "catalog")),
            ("1 catalog".to_owned(), "2 catalogs".to_owned())
        );
    }

    #[test]
    fn a_line_is_cut_where_the_terminal_ends() {
        assert_eq!(cut("abc", 3), "abc");
        assert_eq!(cut("abcd", 3), "ab…", "what goes on is marked");
        assert_eq!(cut("abcd", 1), "…");
        assert_eq!(cut("a\u{1b}[31mbcd\u{1b}[0m", 3), "a\u{1b}[31mb\u{1b}[0m…");
        assert_eq!(cut("a\u{1b}[31mb\u{1b}[0m", 2), "a\u{1b}[31mb\u{1b}[0m");
    }
}
