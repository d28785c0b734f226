//! Texts of catalogs and clusters on a terminal. Their authors are strangers, so nothing in them reaches it that it would obey.

/// Letters that are printed as nothing, or as a blank, though they are none.
const BLANKS: [char; 5] = ['\u{115f}', '\u{1160}', '\u{2800}', '\u{3164}', '\u{ffa0}'];

/// Whether a letter is printed as itself: it moves no cursor, is seen, and turns no others around.
pub fn is_printed(letter: char) -> bool {
    match letter {
        // They would be escaped as in Rust.
        '\\' | '\'' | '"' => true,
        _ => letter.escape_debug().len() == 1 && !BLANKS.contains(&letter),
    }
}

/// Adds a letter, escaped unless it is printed as itself. A tab is a blank.
pub fn push_escaped(to: &mut String, letter: char) {
    match letter {
        '\t' => to.push(' '),
        _ if is_printed(letter) => to.push(letter),
        _ => to.extend(letter.escape_unicode()),
    }
}

/// Lines in which nothing moves the cursor, hides, or turns its letters around. What is escaped is not escaped again.
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

/// A document of JSON that says the same, its texts escaped as JSON does it. Outside of texts it has no such letters.
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
