//! Uids in little memory.

use std::fmt;

/// A uid. The API server makes UUIDs, which take sixteen bytes here; any other text stays one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Uid(Form);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Form {
    Uuid([u8; 16]),
    Text(Box<str>),
}

/// The bytes of a UUID before which its text has a dash.
const DASHES: [usize; 4] = [4, 6, 8, 10];

impl Uid {
    /// The uid with this text.
    pub fn of(text: &str) -> Self {
        let uuid = uuid(text).map(Form::Uuid);
        Self(uuid.unwrap_or_else(|| Form::Text(text.into())))
    }
}

/// The bytes of a UUID whose text is this very one: in lower case, with dashes where they belong.
fn uuid(text: &str) -> Option<[u8; 16]> {
    let mut left = text.as_bytes();
    let mut bytes = [0; 16];
    for (at, byte) in bytes.iter_mut().enumerate() {
        if DASHES.contains(&at) {
            left = left.strip_prefix(b"-")?;
        }
        let ([high, low], rest) = left.split_first_chunk()?;
        *byte = digit(*high)? << 4 | digit(*low)?;
        left = rest;
    }
    left.is_empty().then_some(bytes)
}

fn digit(letter: u8) -> Option<u8> {
    match letter {
        b'0'..=b'9' => Some(letter - b'0'),
        b'a'..=b'f' => Some(letter - b'a' + 10),
        _ => None,
    }
}

impl fmt::Display for Uid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Form::Text(text) => f.write_str(text),
            Form::Uuid(bytes) => {
                for (at, byte) in bytes.iter().enumerate() {
                    let dash = if DASHES.contains(&at) { "-" } else { "" };
                    write!(f, "{dash}{byte:02x}")?;
                }
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A guard with another text than the server's would hold for nothing.
    #[test]
    fn a_uid_says_what_it_was_made_of() {
        let uuid = "0f8fad5b-d9cb-469f-a165-70867728950e";
        assert!(matches!(Uid::of(uuid).0, Form::Uuid(_)));
        let others = [
            "",
            "uid-1",
            "0F8FAD5B-d9cb-469f-a165-70867728950e",
            "0f8fad5bd9cb-469f-a165-70867728950e-",
            "0f8fad5b-d9cb-469f-a165-70867728950e0",
            "0f8fad5b-d9cb-469f-a165-70867728950",
            "0f8fad5bd9cb469fa16570867728950e",
        ];
        for text in others {
            assert!(matches!(Uid::of(text).0, Form::Text(_)), "{text}");
        }
        for text in others.into_iter().chain([uuid]) {
            assert_eq!(Uid::of(text).to_string(), text);
        }
        assert_ne!(Uid::of(uuid), Uid::of("0f8fad5b-d9cb-469f-a165-70867728950f"));
    }
}
