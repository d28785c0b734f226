//! Texts for a terminal: nothing in them that it would obey, colour where somebody sees it, lines that fit.

use std::io::{self, IsTerminal as _};

/// Longest text of others that is told whole.
const MAX_TEXT: usize = 600;
/// Lines and columns where the terminal does not say.
const SIZE: (usize, usize) = (24, 80);

/// A line in which nothing moves the cursor, hides, or turns its letters around: texts of a cluster are whoever's who may write
/// there. One that is too long is cut, and says so.
pub(crate) fn plain(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    for (at, letter) in text.trim().chars().enumerate() {
        if at == MAX_TEXT {
            plain.push('…');
            break;
        }
        match letter {
            '\n' | '\t' => plain.push(' '),
            // They would be escaped as in Rust.
            '\\' | '\'' | '"' => plain.push(letter),
            _ => plain.extend(letter.escape_debug()),
        }
    }
    plain
}

/// How something is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Mark {
    /// Nothing is to be done.
    Fine,
    /// It waits for something.
    Waits,
    /// Something went wrong.
    Bad,
}

/// Whether texts are coloured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Colours(pub bool);

impl Colours {
    /// As stdout wants them: none in a pipe, and none where `NO_COLOR` is set or the terminal knows none.
    pub(crate) fn of_stdout() -> Self {
        Self::when(io::stdout().is_terminal(), |name| std::env::var(name).ok())
    }

    fn when(is_terminal: bool, variable: impl Fn(&str) -> Option<String>) -> Self {
        let refused = variable("NO_COLOR").is_some_and(|value| !value.is_empty());
        let is_dumb = variable("TERM").is_some_and(|value| value == "dumb");
        Self(is_terminal && !refused && !is_dumb)
    }

    /// The text in the colour of its mark.
    pub(crate) fn paint(self, mark: Mark, text: &str) -> String {
        if !self.0 {
            return text.to_owned();
        }
        let code = match mark {
            Mark::Fine => 32,
            Mark::Waits => 33,
            Mark::Bad => 31,
        };
        format!("\u{1b}[{code}m{text}\u{1b}[0m")
    }
}

/// Lines and columns of the terminal.
pub(crate) fn size() -> (usize, usize) {
    terminal_size::terminal_size().map_or(SIZE, |(width, height)| {
        (usize::from(height.0), usize::from(width.0))
    })
}

/// The beginning of a line that has this many columns at most; colours take none.
pub(crate) fn cut(line: &str, columns: usize) -> String {
    let (mut cut, mut width, mut in_code) = (String::new(), 0, false);
    for letter in line.chars() {
        if letter == '\u{1b}' {
            in_code = true;
        }
        if !in_code {
            if width == columns {
                // What is left may end a colour.
                if line.contains('\u{1b}') {
                    cut.push_str("\u{1b}[0m");
                }
                return cut;
            }
            width += 1;
        }
        cut.push(letter);
        if in_code && letter == 'm' {
            in_code = false;
        }
    }
    cut
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
            ("größe 値", "größe 値"),
        ] {
            assert_eq!(plain(text), expected);
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
    fn a_line_is_cut_where_the_terminal_ends() {
        assert_eq!(cut("abc", 3), "abc");
        assert_eq!(cut("abcd", 3), "abc");
        assert_eq!(cut("a\u{1b}[31mbcd\u{1b}[0m", 2), "a\u{1b}[31mb\u{1b}[0m");
        assert_eq!(cut("a\u{1b}[31mb\u{1b}[0m", 2), "a\u{1b}[31mb\u{1b}[0m");
    }
}
