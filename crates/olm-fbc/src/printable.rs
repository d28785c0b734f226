//! Escaping of catalog and cluster texts for a terminal. Their authors are not trusted, so control sequences must not reach it.

/// Letters that are displayed as nothing or as a blank, although Unicode classifies them as letters.
const BLANKS: [char; 5] = ['\u{115f}', '\u{1160}', '\u{2800}', '\u{3164}', '\u{ffa0}'];

/// Returns true if a letter is displayed as itself: it does not move the cursor, is visible, and does not change text direction.
pub fn is_printed(letter: char) -> bool {
    match letter {
        // Rust's escaping would escape them.
        '\\' | '\'' | '"' => true,
        _ => letter.escape_debug().len() == 1 && !BLANKS.contains(&letter),
    }
}

/// Appends a letter, escaped unless it is displayed as itself. A tab becomes a blank.
pub fn push_escaped(to: &mut String, letter: char) {
    match letter {
        '\t' => to.push(' '),
        _ if is_printed(letter) => to.push(letter),
        _ => to.extend(letter.escape_unicode()),
    }
}

/// Returns an escaped text as one line, cut with a mark if it has more letters than `length`.
pub fn line(text: &str, length: usize) -> String {
    let mut line = String::new();
    for (at, letter) in text.trim().chars().enumerate() {
        if at == length {
            line.push('…');
            break;
        }
        push_escaped(&mut line, if letter == '\n' { ' ' } else { letter });
    }
    line
}

/// Escapes text so that nothing in its lines moves the cursor, is invisible or changes text direction. Escapes are not escaped
/// again.
pub fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '\n' => escaped.push(letter),
            _ => push_escaped(&mut escaped, letter),
        }
    }
    escaped
}

/// Returns an equivalent JSON document whose texts use JSON escapes. Such letters occur only inside JSON strings.
pub fn escape_json(document: &str) -> String {
    let mut escaped = String::with_capacity(document.len());
    for letter in document.chars() {
        if letter == '\n' || is_printed(letter) {
            escaped.push(letter);
            continue;
        }
        for unit in letter.encode_utf16(&mut [0; 2]) {
            escaped.push_str(&format!("\\u{unit:04x}"));
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_would_obey_is_escaped_and_else_nothing() {
        assert_eq!(
            escape("a\u{1b}[2J\u{202e}b\u{200b}\tc\n\"größe\" \\ 値"),
            "a\\u{1b}[2J\\u{202e}b\\u{200b} c\n\"größe\" \\ 値"
        );
        let json = "{\"a\": \"\u{9b}\u{e0001}\"}\n";
        assert_eq!(escape_json(json), "{\"a\": \"\\u009b\\udb40\\udc01\"}\n");
    }
}
