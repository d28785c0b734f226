//! Errors with their causes.

use std::error::Error;

/// Returns an error with its causes in one line, as wrapped errors read in Go: `outer: inner: innermost`. A cause whose text
/// already ends the line is not repeated; HTTP libraries have such causes.
pub fn error_chain(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = error.to_string();
        if !text.ends_with(&more) {
            text.push_str(": ");
            text.push_str(&more);
        }
        cause = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("{text}")]
    struct Link {
        text: &'static str,
        source: Option<Box<Link>>,
    }

    fn linked(texts: &[&'static str]) -> Option<Box<Link>> {
        let (text, rest) = texts.split_first()?;
        let source = linked(rest);
        Some(Box::new(Link { text, source }))
    }

    #[test]
    fn causes_are_appended_and_reported_once() {
        for (texts, expected) in [
            (&["a"][..], "a"),
            (&["a", "b", "c"], "a: b: c"),
            (&["a: b", "b", "c"], "a: b: c"),
        ] {
            let error = linked(texts).expect("an error");
            assert_eq!(error_chain(&*error), expected);
        }
    }
}
