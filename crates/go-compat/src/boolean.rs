//! Booleans in Go's spelling, as its flags accept them.

use crate::quote;

/// Error for a text that is not a boolean, in the words of Go's `strconv.ParseBool`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("strconv.ParseBool: parsing {}: invalid syntax", quote(.0))]
pub struct BoolError(String);

/// Parses one of the twelve texts that Go accepts.
///
/// # Errors
/// Go's error for all other texts.
pub fn parse(text: &str) -> Result<bool, BoolError> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(false),
        _ => Err(BoolError(text.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The table of Go's own test of `ParseBool`, and similar texts.
    #[test]
    fn the_texts_are_those_of_go() {
        for text in ["1", "t", "T", "true", "TRUE", "True"] {
            assert_eq!(parse(text), Ok(true), "{text}");
        }
        for text in ["0", "f", "F", "false", "FALSE", "False"] {
            assert_eq!(parse(text), Ok(false), "{text}");
        }
        for text in ["", "asdf", "yes", "no", "on", "tRUE", "fALSE", " true", "01"] {
            assert_eq!(parse(text), Err(BoolError(text.to_owned())), "{text}");
        }
        let error = parse("yes").unwrap_err().to_string();
        assert_eq!(error, r#"strconv.ParseBool: parsing "yes": invalid syntax"#);
    }
}
