//! Shortens foreign texts for messages that the whole cluster can read.

/// Returns `text` as one line, with unprintable characters escaped, truncated to `most` printed characters.
pub(super) fn shown(text: &str, most: usize) -> String {
    let (mut shown, mut length) = (String::new(), 0);
    for char in text.chars() {
        let escaped = match char {
            '"' | '\'' | '\\' => char.to_string(),
            _ => char.escape_debug().to_string(),
        };
        length += escaped.chars().count();
        if length > most {
            shown.push('…');
            break;
        }
        shown.push_str(&escaped);
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_of_others_makes_no_line_of_its_own_and_ends() {
        assert_eq!(shown("a\n- b \"c\"\u{202e}", 20), "a\\n- b \"c\"\\u{202e}");
        assert_eq!(shown("a\u{202e}\u{202e}", 12), "a\\u{202e}…");
        assert_eq!(shown("abc", 3), "abc");
        assert_eq!(shown("abcd", 3), "abc…");
    }
}
