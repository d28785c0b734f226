//! Quantities of Kubernetes, such as `500m` of a processor or `1Gi` of memory.

/// Suffixes for powers of a thousand, from the smallest.
const DECIMAL: [&str; 10] = ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"];
/// Suffixes for powers of 1024, from the first.
const BINARY: [&str; 6] = ["Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];

/// Parses a quantity without a sign into billionths; `None` if it is invalid, has more than nine decimals or is too large.
pub fn billionths(text: &str) -> Option<i128> {
    let end = text.find(|letter: char| !letter.is_ascii_digit() && letter != '.');
    let (digits, unit) = text.split_at(end.unwrap_or(text.len()));
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let decimals = u32::try_from(fraction.len())
        .ok()
        .filter(|decimals| *decimals <= 9)?;
    let number: i128 = format!("{whole}{fraction}").parse().ok()?;
    let power = |suffixes: &[&str]| {
        let at = suffixes.iter().position(|suffix| *suffix == unit)?;
        u32::try_from(at).ok()
    };
    let factor = if let Some(power) = power(&DECIMAL) {
        1000_i128.pow(power)
    } else if let Some(power) = power(&BINARY) {
        1_000_000_000 * 1024_i128.pow(power + 1)
    } else {
        let exponent = unit.strip_prefix(['e', 'E'])?.parse::<u32>().ok();
        10_i128.pow(9 + exponent.filter(|exponent| *exponent <= 18)?)
    };
    Some(number.checked_mul(factor)? / 10_i128.pow(decimals))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_are_equal_in_any_unit() {
        for (one, other) in [
            ("0.5", "500m"),
            ("1.", "1"),
            ("1Ki", "1024"),
            ("1.5Gi", "1536Mi"),
            ("1e3", "1k"),
            ("2E3", "2000"),
            ("1E", "1000P"),
            ("5u", "5000n"),
        ] {
            assert!(billionths(one).is_some(), "{one}");
            assert_eq!(billionths(one), billionths(other), "{one} {other}");
        }
        assert_eq!(billionths("1"), Some(1_000_000_000));
        for none in ["x", "", ".", "1.2.3", "1Xi", "1e99", "0.12345678901", "-1"] {
            assert_eq!(billionths(none), None, "{none}");
        }
    }
}
