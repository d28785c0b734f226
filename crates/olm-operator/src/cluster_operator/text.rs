//! Texts of others in what the whole cluster reads.

/// `text` on one line, with what is not shown as itself escaped, and cut behind `most` characters.
pub(super) fn shown(text: &str, most: usize) -> String {
    let mut shown = String::new();
    for (index, char) in text.chars().enumerate() {
        if index == most {
            shown.push('…');
            break;
        }
        match char {
            '"' | '\'' | '\\' => shown.push(char),
            _ => shown.extend(char.escape_debug()),
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_of_others_makes_no_line_of_its_own_and_ends() {
        assert_eq!(shown("a\n- b \"c\"\u{202e}", 20), "a\\n- b \"c\"\\u{202e}");
        assert_eq!(shown("abc", 3), "abc");
        assert_eq!(shown("abcd", 3), "abc…");
    }
}
