//! Versions of operators: kept as written, parsed tolerantly.

use semver::Version;

/// A version text does not make a semantic version, not even tolerantly read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("version `{text}` is not a semantic version: {reason}")]
pub struct VersionError {
    /// The text as written.
    pub text: String,
    /// What does not fit.
    pub reason: String,
}

/// Parses a version as the lifecycle manager always has: blanks around it, one leading `v` and leading zeros are
/// dropped, missing minor and patch numbers are zero. A shortened version must not have a pre-release or build part.
///
/// Compare the result by [`Version::cmp_precedence`]: build metadata does not count.
///
/// # Errors
/// [`VersionError`] with text and reason; an empty text is an error too.
pub fn parse_tolerant(text: &str) -> Result<Version, VersionError> {
    let error = |reason: String| VersionError {
        text: text.to_owned(),
        reason,
    };
    let trimmed = text.trim();
    let trimmed = trimmed.strip_prefix('v').unwrap_or(trimmed);
    let mut parts: Vec<String> = trimmed.splitn(3, '.').map(without_leading_zeros).collect();
    if parts.len() < 3 {
        if parts.last().is_some_and(|part| part.contains(['+', '-'])) {
            return Err(error(
                "a shortened version cannot have a pre-release or build part".to_owned(),
            ));
        }
        parts.resize(3, "0".to_owned());
    }
    Version::parse(&parts.join(".")).map_err(|cause| error(cause.to_string()))
}

fn without_leading_zeros(part: &str) -> String {
    let rest = part.trim_start_matches('0');
    if rest.len() < part.len() && !rest.starts_with(|c: char| c.is_ascii_digit()) {
        return format!("0{rest}");
    }
    rest.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tolerant_readings() {
        for (text, expected) in [
            ("1.2.3", "1.2.3"),
            (" v1.2.3\n", "1.2.3"),
            ("1", "1.0.0"),
            ("v1.2", "1.2.0"),
            ("01.002.0003", "1.2.3"),
            ("0.0.0", "0.0.0"),
            ("1.00.0", "1.0.0"),
            ("1.2.00-alpha.1+b", "1.2.0-alpha.1+b"),
            ("1.2.03-rc1", "1.2.3-rc1"),
        ] {
            assert_eq!(
                parse_tolerant(text).map(|version| version.to_string()).as_deref(),
                Ok(expected),
                "{text:?}"
            );
        }
    }

    #[test]
    fn what_is_refused() {
        for text in [
            "",
            "v",
            "vv1.0.0",
            "a.b.c",
            "1-alpha",
            "1.2-alpha",
            "1.2.3.4",
            "1.-2.3",
        ] {
            let error = parse_tolerant(text).unwrap_err();
            assert_eq!(error.text, text);
        }
        assert_eq!(
            parse_tolerant("1.2-alpha").unwrap_err().to_string(),
            "version `1.2-alpha` is not a semantic version: a shortened version cannot have a pre-release or build part"
        );
    }
}
