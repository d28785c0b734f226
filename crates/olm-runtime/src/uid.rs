//! Compact uids.

use std::fmt;

use uuid::Uuid;

/// Uid of an object. The API server creates UUIDs, which are stored in sixteen bytes; any other text is stored as text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Uid(Form);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Form {
    Uuid(Uuid),
    Text(Box<str>),
}

impl Uid {
    /// Creates a uid from its text.
    pub fn of(text: &str) -> Self {
        let uuid = Uuid::try_parse(text).ok();
        // A precondition needs the server's exact text, and a UUID can be written in several ways.
        let same = uuid.filter(|uuid| uuid.hyphenated().encode_lower(&mut Uuid::encode_buffer()) == text);
        Self(same.map_or_else(|| Form::Text(text.into()), Form::Uuid))
    }
}

impl fmt::Display for Uid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Form::Text(text) => f.write_str(text),
            Form::Uuid(uuid) => uuid.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A precondition whose text differs from the server's would never hold.
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
