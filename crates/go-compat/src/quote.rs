//! Quoted names as in upstream's messages, because users compare the texts.

use std::fmt::{self, Write as _};

/// A text in double quotes, escaped as Go's `%q` does.
#[derive(Clone, Copy, Debug)]
pub struct Quoted<'a>(&'a str);

/// Wraps `text`, to be printed in double quotes as `%q` does.
pub fn quote(text: &str) -> Quoted<'_> {
    Quoted(text)
}

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_char('"')?;
        for char in self.0.chars() {
            match char {
                '"' | '\\' => write!(f, "\\{char}")?,
                '\x07' => f.write_str("\\a")?,
                '\x08' => f.write_str("\\b")?,
                '\x0c' => f.write_str("\\f")?,
                '\n' => f.write_str("\\n")?,
                '\r' => f.write_str("\\r")?,
                '\t' => f.write_str("\\t")?,
                '\x0b' => f.write_str("\\v")?,
                ' '..='~' => f.write_char(char)?,
                char if is_printable(char) => f.write_char(char)?,
                char => match u32::from(char) {
                    code @ 0..0x80 => write!(f, "\\x{code:02x}")?,
                    code @ 0x80..0x1_0000 => write!(f, "\\u{code:04x}")?,
                    code => write!(f, "\\U{code:08x}")?,
                },
            }
        }
        f.write_char('"')
    }
}

/// Returns true if a character is printed unescaped. Rust's table of such characters equals Go's: letters, marks, numbers,
/// punctuation, symbols and the ASCII space.
fn is_printable(char: char) -> bool {
    // A letter precedes the character, because Rust escapes marks at the beginning of a text.
    let mut text = String::from("a");
    text.push(char);
    text.escape_debug().eq(text.chars())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Output of Go 1.26.
    #[test]
    fn texts_are_quoted_as_go_quotes_them() {
        for (text, quoted) in [
            ("plain", r#""plain""#),
            ("", r#""""#),
            ("a\"b\\c", r#""a\"b\\c""#),
            ("\x07\x08\x0c\n\r\t\x0b", r#""\a\b\f\n\r\t\v""#),
            ("\0\x1b\x7f", r#""\x00\x1b\x7f""#),
            ("\u{e9}\u{200b}\u{a0}\u{feff}", "\"\u{e9}\\u200b\\u00a0\\ufeff\""),
            ("e\u{301}\u{301}", "\"e\u{301}\u{301}\""),
            ("\u{1f600}\u{e0001}'", "\"\u{1f600}\\U000e0001'\""),
        ] {
            assert_eq!(quote(text).to_string(), quoted, "{text:?}");
        }
    }
}
