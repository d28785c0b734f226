//! The release of a bundle: a second ordering key behind its version.

use std::fmt;

use go_compat::quote;
use go_compat::semver::{Identifier, Version};

/// Maximum length of a release text.
const MAX_RELEASE_BYTES: usize = 20;

/// Dot-separated pre-release identifiers that order bundles of one version; empty means none.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Release(Box<[Identifier]>);

impl Release {
    /// Parses a release; empty text means no release.
    ///
    /// # Errors
    /// The text is too long, or a segment is not a semver pre-release identifier; the error says which.
    pub fn parse(text: &str) -> Result<Self, String> {
        if text.is_empty() {
            return Ok(Self::default());
        }
        if text.len() > MAX_RELEASE_BYTES {
            return Err(format!(
                "invalid release {}: exceeds maximum length of {MAX_RELEASE_BYTES} characters",
                quote(text)
            ));
        }
        text.split('.')
            .enumerate()
            .map(|(segment, part)| {
                Identifier::parse(part)
                    .map_err(|reason| format!("invalid release {}: segment {segment}: {reason}", quote(text)))
            })
            .collect::<Result<_, _>>()
            .map(Self)
    }

    /// Returns true if there is no release.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Display for Release {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, identifier) in self.0.iter().enumerate() {
            if position > 0 {
                f.write_str(".")?;
            }
            write!(f, "{identifier}")?;
        }
        Ok(())
    }
}

/// A version with its release. Order: version, then no release before any release, then release by identifiers.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VersionRelease {
    /// The version; its build metadata is not compared.
    pub version: Version,
    /// The release, possibly none.
    pub release: Release,
}

/// Prints `version`, or `version-release`. This text must be unique within a package.
impl fmt::Display for VersionRelease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.release.is_empty() {
            write!(f, "{}", self.version)
        } else {
            write!(f, "{}-{}", self.version, self.release)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases() {
        for text in ["1", "alpha.1", "a-b", "0", "0abc", "12345678901234567890"] {
            assert_eq!(
                Release::parse(text).map(|release| release.to_string()),
                Ok(text.to_owned())
            );
        }
        for (text, expected) in [
            (
                "01",
                r#"invalid release "01": segment 0: Numeric PreRelease version must not contain leading zeroes "01""#,
            ),
            (
                "a..b",
                r#"invalid release "a..b": segment 1: Prerelease is empty"#,
            ),
            (
                "!!!",
                r#"invalid release "!!!": segment 0: Invalid character(s) found in prerelease "!!!""#,
            ),
            (
                "a12345678901234567890",
                r#"invalid release "a12345678901234567890": exceeds maximum length of 20 characters"#,
            ),
        ] {
            assert_eq!(Release::parse(text), Err(expected.to_owned()));
        }
        let with = |version: &str, release: &str| VersionRelease {
            version: Version::parse(version).expect("version"),
            release: Release::parse(release).expect("release"),
        };
        let ordered = [
            with("1.0.0", ""),
            with("1.0.0", "1"),
            with("1.0.0", "2"),
            with("1.0.0", "a"),
            with("1.0.1", ""),
        ];
        assert!(ordered.is_sorted());
        assert_eq!(with("1.0.0", "a.1").to_string(), "1.0.0-a.1");
        assert_eq!(with("1.0.0", "").to_string(), "1.0.0");
    }
}
