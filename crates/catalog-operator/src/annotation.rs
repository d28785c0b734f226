//! Durations that users write into annotations, kept within bounds.
//!
//! Whoever may write an annotation must not be able to stop the process or to keep a registry busy with it: whatever a text
//! says, what comes out can be added to any time of this century and is no reason for work without pause. A value that was
//! changed is told in words that name the annotation and the bound.

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
    /// The duration, if the annotation is there and not negative; zero stays zero. A warning is added to `warnings` when the
    /// text asks for less or more than the bounds allow, and the bound is taken instead.
    ///
    /// # Errors
    /// The text is no duration; the error is upstream's.
    pub fn read(
        &self,
        annotations: &BTreeMap<String, String>,
        warnings: &mut Vec<String>,
    ) -> Result<Option<Duration>, String> {
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
        let used = match asked {
            Duration::ZERO => asked,
            _ => asked.clamp(self.least, self.most),
        };
        if used != asked {
            let bound = if used == self.least { "minimum" } else { "maximum" };
            warnings.push(format!(
                "annotation {}: {} is out of bounds; using {} s, the {bound}",
                self.key,
                shortened(text),
                used.as_secs(),
            ));
        }
        Ok(Some(used))
    }
}

/// The beginning of a text that may be as long as annotations are.
fn shortened(text: &str) -> String {
    const SHOWN: usize = 40;
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
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

    fn read(text: &str) -> (Result<Option<Duration>, String>, Vec<String>) {
        let mut warnings = Vec::new();
        let annotations = [(WAIT.key.to_owned(), text.to_owned())].into();
        (WAIT.read(&annotations, &mut warnings), warnings)
    }

    #[test]
    fn what_is_out_of_bounds_is_replaced_by_the_bound_and_told() {
        for (text, used) in [
            ("1ms", WAIT.least),
            ("1ns", WAIT.least),
            ("25h", LONGEST),
            ("3000000000000000h", LONGEST),
            ("9999999999999999999999999999h", LONGEST),
            ("99999999999999999999999999999999999999999999s", LONGEST),
        ] {
            let (value, warnings) = read(text);
            assert_eq!(value, Ok(Some(used)), "{text}");
            assert_eq!(warnings.len(), 1, "{text}");
            assert!(warnings[0].contains(WAIT.key), "{warnings:?}");
        }
        insta::assert_snapshot!(read("1ms").1[0], @"annotation example.com/wait: 1ms is out of bounds; using 5 s, the minimum");
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
            assert_eq!(read(text), (Ok(used), Vec::new()), "{text}");
        }
        assert!(read("soon").0.is_err() && read("-soon").0.is_err() && read("").0.is_err());
    }
}
