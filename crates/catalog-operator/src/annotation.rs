//! Durations that users write into annotations, kept within bounds.
//!
//! Users who can write an annotation must not be able to stop the process or to keep a registry busy: any parsed duration can be
//! added to any time of this century, and causes no work without pause.

use std::collections::BTreeMap;
use std::time::Duration;

use go_compat::duration::{self, DurationError, Signed};

/// A day, the longest time that any annotation may ask for.
pub const LONGEST: Duration = Duration::from_secs(24 * 3600);

/// Returns the duration in the annotation `key`, if it is there and not negative; zero stays zero. A text that asks for less than
/// `least` or more than [`LONGEST`] counts as that. `purpose` is its name in upstream's error.
///
/// # Errors
/// The text is no duration; the error is upstream's.
pub fn read_duration(
    annotations: &BTreeMap<String, String>,
    (key, purpose): (&str, &str),
    least: Duration,
) -> Result<Option<Duration>, String> {
    let Some(text) = annotations.get(key) else {
        return Ok(None);
    };
    let asked = match duration::parse_signed(text) {
        Ok(Signed::Forward(asked)) => asked,
        // Upstream's "not set".
        Ok(Signed::Backward(_)) => return Ok(None),
        Err(DurationError::TooLong(_)) if !text.starts_with('-') => Duration::MAX,
        Err(error) => {
            return Err(format!(
                "failed to parse unpack {purpose} annotation({key}: {text}): {error}"
            ));
        }
    };
    Ok(Some(match asked {
        Duration::ZERO => asked,
        _ => asked.clamp(least, LONGEST),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEAST: Duration = Duration::from_secs(5);

    fn read(text: &str) -> Result<Option<Duration>, String> {
        let key = "example.com/wait";
        read_duration(&[(key.to_owned(), text.to_owned())].into(), (key, "retry"), LEAST)
    }

    #[test]
    fn what_is_out_of_bounds_counts_as_the_bound() {
        for (text, used) in [
            ("1ms", LEAST),
            ("1ns", LEAST),
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
            ("5s", Some(LEAST)),
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
