//! Text shared by the command lines of the operators.

/// The two lines upstream's binaries print for `--version`.
pub fn version_text(version: &str, commit: &str) -> String {
    format!("OLM version: {version}\ngit commit: {commit}\n")
}

/// Seconds of a Go duration such as `5m`, `1h30m`, `1.5s` or `250ms`.
///
/// # Errors
/// A message that names the text and shows a valid one.
pub fn parse_duration(text: &str) -> Result<std::time::Duration, String> {
    let fail = || format!("`{text}` is not a duration; write for example `90s`, `5m` or `1h30m`");
    if text == "0" {
        return Ok(std::time::Duration::ZERO);
    }
    let mut rest = text.strip_prefix('+').unwrap_or(text);
    if rest.is_empty() {
        return Err(fail());
    }
    let mut seconds = 0.0f64;
    while !rest.is_empty() {
        let digits = rest
            .find(|c: char| !c.is_ascii_digit() && c != '.')
            .ok_or_else(fail)?;
        let number: f64 = rest[..digits].parse().map_err(|_| fail())?;
        rest = &rest[digits..];
        let units = [
            ("ms", 1e-3),
            ("us", 1e-6),
            ("µs", 1e-6),
            ("ns", 1e-9),
            ("h", 3600.0),
            ("m", 60.0),
            ("s", 1.0),
        ];
        let (unit, factor) = units
            .into_iter()
            .find(|(unit, _)| rest.starts_with(unit))
            .ok_or_else(fail)?;
        rest = &rest[unit.len()..];
        seconds += number * factor;
    }
    std::time::Duration::try_from_secs_f64(seconds).map_err(|_| fail())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn durations_are_read_as_go_reads_them() {
        for (text, millis) in [
            ("5m", 300_000),
            ("1h30m", 5_400_000),
            ("1.5s", 1_500),
            ("250ms", 250),
            ("0", 0),
        ] {
            assert_eq!(parse_duration(text), Ok(Duration::from_millis(millis)), "{text}");
        }
        for text in ["", "5", "m", "5x", "-5m", "1.2.3s"] {
            assert!(parse_duration(text).is_err(), "{text}");
        }
    }
}
