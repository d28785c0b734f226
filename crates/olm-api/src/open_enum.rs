//! Enums for fields with known values that are not enforced.

/// Defines an enum of known words that keeps any other word as written, in `Other`.
///
/// The wire form is the word; the schema is a plain string, because the API server has never enforced these fields and
/// objects with odd values must stay writable. `null` and absence read as the empty word.
macro_rules! open_enum {
    ($(#[$meta:meta])* pub enum $name:ident { $($(#[$variant_meta:meta])* $variant:ident = $text:literal,)+ }) => {
        $(#[$meta])*
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name {
            $($(#[$variant_meta])* $variant,)+
            /// Any other word, as written.
            Other(String),
        }

        impl $name {
            /// Returns the word in the wire form.
            pub fn as_str(&self) -> &str {
                match self {
                    $(Self::$variant => $text,)+
                    Self::Other(word) => word,
                }
            }

            /// Returns true for the empty word, which means not set.
            pub fn is_unset(&self) -> bool {
                self.as_str().is_empty()
            }
        }

        impl From<&str> for $name {
            fn from(word: &str) -> Self {
                match word {
                    $($text => Self::$variant,)+
                    other => Self::Other(other.to_owned()),
                }
            }
        }

        impl Default for $name {
            fn default() -> Self {
                Self::from("")
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.as_str())
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let word = <std::borrow::Cow<'de, str> as serde::Deserialize>::deserialize(deserializer)?;
                Ok(Self::from(word.as_ref()))
            }
        }
    };
}
pub(crate) use open_enum;

#[cfg(test)]
mod tests {
    open_enum! {
        /// Test subject.
        pub enum Speed {
            /// Not set.
            None = "",
            /// Fast.
            Fast = "fast",
        }
    }

    #[test]
    fn unknown_words_survive() {
        let words = [Speed::None, Speed::Fast, Speed::Other("odd".into())];
        let json = serde_json::to_string(&words).unwrap();
        assert_eq!(json, r#"["","fast","odd"]"#);
        assert_eq!(serde_json::from_str::<Vec<Speed>>(&json).unwrap(), words);
        assert!(Speed::default().is_unset());
    }
}
