//! Durations in Go's syntax, such as `1h30m`, `1.5s` or `250ms`.

use std::time::Duration;

use crate::quote;

/// Nanoseconds per unit.
const UNITS: [(&str, u64); 8] = [
    ("ns", 1),
    ("us", 1_000),
    ("\u{b5}s", 1_000),
    ("\u{3bc}s", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("h", 3_600_000_000_000),
];

/// Maximum number of fraction digits that matter: the next digit is below a nanosecond, even for hours.
const MAX_FRACTION_DIGITS: usize = 15;

/// Error for a text that is not a duration, in the words of Go's `time.ParseDuration`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DurationError {
    /// The text does not have the form number, unit, number, unit. Contains Go's words about it.
    #[error("time: {0}")]
    Invalid(String),
    /// The duration is longer than 292 years, Go's maximum.
    #[error("time: invalid duration {}", quote(.0))]
    TooLong(String),
}

/// A duration with its sign.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signed {
    /// Zero or more.
    Forward(Duration),
    /// Negative, with this absolute value; never zero.
    Backward(Duration),
}

/// Parses a duration that is not negative.
///
/// # Errors
/// Go's error; a negative duration is invalid.
pub fn parse(text: &str) -> Result<Duration, DurationError> {
    match parse_signed(text)? {
        Signed::Forward(duration) => Ok(duration),
        Signed::Backward(_) => Err(invalid(text)),
    }
}

/// Parses a duration.
///
/// # Errors
/// Go's error.
pub fn parse_signed(text: &str) -> Result<Signed, DurationError> {
    let (is_negative, unsigned) = match text.strip_prefix(['-', '+']) {
        Some(rest) => (text.starts_with('-'), rest),
        None => (false, text),
    };
    let nanoseconds = if unsigned == "0" {
        0
    } else {
        nanoseconds(unsigned, text)?
    };
    let duration = Duration::from_nanos(nanoseconds);
    // Go's range has one nanosecond more below zero than above.
    if nanoseconds > i64::MAX as u64 + u64::from(is_negative) {
        return Err(DurationError::TooLong(text.to_owned()));
    }
    Ok(if is_negative && nanoseconds > 0 {
        Signed::Backward(duration)
    } else {
        Signed::Forward(duration)
    })
}

fn invalid(text: &str) -> DurationError {
    DurationError::Invalid(format!("invalid duration {}", quote(text)))
}

/// Returns the sum of the parts; `text` is for errors. Sums saturate at 64 bits.
fn nanoseconds(mut rest: &str, text: &str) -> Result<u64, DurationError> {
    if rest.is_empty() {
        return Err(invalid(text));
    }
    let mut total = 0_u64;
    while !rest.is_empty() {
        let whole = take(&mut rest, |char| char.is_ascii_digit());
        let fraction = match rest.strip_prefix('.') {
            Some(behind) => {
                rest = behind;
                take(&mut rest, |char| char.is_ascii_digit())
            }
            None => "",
        };
        if whole.is_empty() && fraction.is_empty() {
            return Err(invalid(text));
        }
        let unit = take(&mut rest, |char| char != '.' && !char.is_ascii_digit());
        if unit.is_empty() {
            let fault = format!("missing unit in duration {}", quote(text));
            return Err(DurationError::Invalid(fault));
        }
        let Some((_, length)) = UNITS.iter().find(|(name, _)| *name == unit) else {
            let (unit, text) = (quote(unit), quote(text));
            let fault = format!("unknown unit {unit} in duration {text}");
            return Err(DurationError::Invalid(fault));
        };
        total = total.saturating_add(part(whole, fraction, *length));
    }
    Ok(total)
}

/// Removes the longest matching prefix from `rest` and returns it.
fn take<'a>(rest: &mut &'a str, fits: impl Fn(char) -> bool) -> &'a str {
    let end = rest.find(|char| !fits(char)).unwrap_or(rest.len());
    let (found, behind) = rest.split_at(end);
    *rest = behind;
    found
}

/// Returns `whole.fraction` times `unit`, truncated to whole nanoseconds. Both texts are digits.
fn part(whole: &str, fraction: &str, unit: u64) -> u64 {
    let number = |digits: &str| match digits {
        "" => 0,
        digits => digits.parse().unwrap_or(u64::MAX),
    };
    let fraction = fraction.get(..MAX_FRACTION_DIGITS).unwrap_or(fraction);
    let scale = (0..fraction.len()).fold(1_u128, |scale, _| scale * 10);
    let below = u128::from(number(fraction)) * u128::from(unit) / scale;
    number(whole)
        .saturating_mul(unit)
        .saturating_add(u64::try_from(below).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Results of Go 1.26.
    #[test]
    fn durations_are_read_as_go_reads_them() {
        for (text, nanoseconds) in [
            ("10m", 600_000_000_000),
            ("5m", 300_000_000_000),
            ("1h30m", 5_400_000_000_000),
            ("1.5s", 1_500_000_000),
            ("0", 0),
            ("+0", 0),
            ("-0", 0),
            ("-0s", 0),
            ("250ms", 250_000_000),
            ("+2s", 2_000_000_000),
            ("1us", 1_000),
            ("1\u{b5}s", 1_000),
            ("1\u{3bc}s", 1_000),
            ("1ns", 1),
            ("1.s", 1_000_000_000),
            (".5s", 500_000_000),
            ("1m.5s", 60_500_000_000),
            ("0.0000000019s", 1),
            ("0.3333333333333333333h", 1_200_000_000_000),
            ("1h1h", 7_200_000_000_000),
            ("2562047h47m16.854775807s", i64::MAX as u64),
        ] {
            let read = parse(text).map(|duration| duration.as_nanos());
            // Go multiplies fractions as floats, so it sometimes rounds to the next nanosecond.
            let is_near = read
                .as_ref()
                .is_ok_and(|read| read.abs_diff(u128::from(nanoseconds)) <= 1);
            assert!(is_near, "{text}: {read:?}");
        }
    }

    #[test]
    fn negative_durations_are_distinguished() {
        let second = Duration::from_secs(1);
        assert_eq!(parse_signed("-1s"), Ok(Signed::Backward(second)));
        assert_eq!(parse_signed("+1s"), Ok(Signed::Forward(second)));
        assert_eq!(
            parse_signed("-9223372036854775808ns"),
            Ok(Signed::Backward(Duration::from_nanos(1 << 63)))
        );
        assert_eq!(parse("-1s"), Err(invalid("-1s")));
    }

    /// Go's message for each.
    #[test]
    fn what_is_no_duration_is_reported_in_gos_words() {
        for (text, expected) in [
            ("", r#"time: invalid duration """#),
            ("10", r#"time: missing unit in duration "10""#),
            ("5", r#"time: missing unit in duration "5""#),
            ("1.5", r#"time: missing unit in duration "1.5""#),
            ("1.2.3s", r#"time: missing unit in duration "1.2.3s""#),
            ("m", r#"time: invalid duration "m""#),
            ("s1", r#"time: invalid duration "s1""#),
            (".s", r#"time: invalid duration ".s""#),
            ("--1s", r#"time: invalid duration "--1s""#),
            ("1x", r#"time: unknown unit "x" in duration "1x""#),
            ("1d", r#"time: unknown unit "d" in duration "1d""#),
            ("1s ", r#"time: unknown unit "s " in duration "1s ""#),
            ("soon", r#"time: invalid duration "soon""#),
        ] {
            let error = parse_signed(text).expect_err(text);
            assert_eq!(error.to_string(), expected);
        }
    }

    #[test]
    fn what_go_cannot_hold_is_too_long() {
        for text in [
            "2562047h47m16.854775808s",
            "3000000000000000h",
            "9223372036854775808ns",
            "-9223372036854775809ns",
            "99999999999999999999999999999999h",
            "2000000h2000000h",
        ] {
            let error = parse_signed(text).expect_err(text);
            assert_eq!(error, DurationError::TooLong(text.to_owned()));
            assert_eq!(error.to_string(), format!("time: invalid duration {text:?}"));
        }
    }
}
