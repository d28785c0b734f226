//! Durations that users write into annotations, kept within bounds.
//!
//! Whoever may write an annotation must not be able to stop the process or to keep a registry busy with it: whatever a text
//! says, what comes out can be added to any time of this century and is no reason for work without pause.

use std::collections::BTreeMap;
use std::time::Duration;

use go_compat::duration::{self, DurationError, Signed};

/// A day, the longest time that any annotation may ask for.
pub const LONGEST: Duration = Duration::from_secs(24 * 3600);

/// An annotation that holds a duration in Go's syntax.
#[derive(Debug, Clone, Copy)]
pub struct DurationAnnotation {
    /// Key.
    pub key: &'static str,
    /// What it is for, as upstream's error names it.
    pub purpose: &'static str,
    /// The shortest time that is not zero.
    pub least: Duration,
    /// The longest time.
    pub most: Duration,
}

impl DurationAnnotation {
    /// The duration, if the annotation is there and not negative; zero stays zero. A text that asks for less or more than the bounds
    /// allow counts as the bound.
    ///
    /// # Errors
    /// The text is no duration; the error is upstream's.
    pub fn read(&self, annotations: &BTreeMap<String, String>) -> Result<Option<Duration>, String> {
        let Some(text) = annotations.get(self.key) else {
            return Ok(None);
        };
        let asked = match duration::parse_signed(text) {
            Ok(Signed::Forward(asked)) => asked,
            // Upstream's "not set".
            Ok(Signed::Backward(_)) => return Ok(None),
            Err(DurationError::TooLong(_)) if !text.starts_with('-') => Duration::MAX,
            Err(error) => {
                let (key, purpose) = (self.key, self.purpose);
                return Err(format!(
                    "failed to parse unpack {purpose} annotation({key}: {text}): {error}"
                ));
            }
        };
        Ok(Some(match asked {
            Duration::ZERO => asked,
            _ => asked.clamp(self.least, self.most),
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WAIT: DurationAnnotation = DurationAnnotation {
        key: "example.com/wait",
        purpose: "retry",
        least: Duration::from_secs(5),
        most: LONGEST,
    };

    fn read(text: &str) -> Result<Option<Duration>, String> {
        WAIT.read(&[(WAIT.key.to_owned(), text.to_owned())].into())
    }

    #[test]
    fn what_is_out_of_bounds_counts_as_the_bound() {
        for (text, used) in [
            ("1ms", WAIT.least),
            ("1ns", WAIT.least),
            ("25h", LONGEST),
            ("3000000000000000h", LONGEST),
            ("9999999999999999999999999999h", LONGEST),
            ("99999999999999999999999999999999999999999999s", LONGEST),
        ] {
            assert_eq!(read(text), Ok(Some(used)), "{text}");
        }
    }

    #[test]
    fn what_is_within_bounds_and_what_means_nothing_is_left_alone() {
        for (text, used) in [
            ("5s", Some(WAIT.least)),
            ("24h", Some(LONGEST)),
            ("0", Some(Duration::ZERO)),
            ("0s", Some(Duration::ZERO)),
            ("-1m", None),
        ] {
            assert_eq!(read(text), Ok(used), "{text}");
        }
        assert!(read("soon").is_err() && read("-soon").is_err() && read("").is_err());
    }
}
