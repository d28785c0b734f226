//! Versions and version ranges as blang/semver reads and orders them.
//!
//! Upstream uses blang/semver v4 everywhere. Its rules differ from Cargo's and npm's: comparisons ignore build metadata, ranges
//! have no pre-release gating, a space means AND and `||` means OR. Rules: `docs/reference/catalog-files.md`.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::str::FromStr;

use crate::quote;

mod range;

pub use range::{Range, RangeError};

/// A semantic version. Equality, order and hash follow precedence, so build metadata is ignored.
#[derive(Clone, Debug)]
pub struct Version {
    /// First number.
    pub major: u64,
    /// Second number.
    pub minor: u64,
    /// Third number.
    pub patch: u64,
    /// Pre-release identifiers; empty for a release.
    pub pre: Box<[Identifier]>,
    /// Build metadata without the `+`; empty for none.
    pub build: Box<str>,
}

/// One dot-separated part of a pre-release.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Identifier {
    /// Only digits; sorts before every text.
    Number(u64),
    /// Anything else, ordered by bytes.
    Text(Box<str>),
}

/// Error for a text that is not a version. The wording is blang/semver's, as it occurs in validation messages.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum VersionError {
    /// The text is empty.
    #[error("Version string empty")]
    Empty,
    /// The text has fewer than two dots.
    #[error("No Major.Minor.Patch elements found")]
    TooFewParts,
    /// A number holds something else than digits.
    #[error("Invalid character(s) found in {part} number {}", quote(text))]
    NotDigits {
        /// `major`, `minor` or `patch`.
        part: &'static str,
        /// The offending text.
        text: String,
    },
    /// A number is written with leading zeros.
    #[error("{part} number must not contain leading zeroes {}", quote(text))]
    LeadingZero {
        /// `Major`, `Minor` or `Patch`.
        part: &'static str,
        /// The offending text.
        text: String,
    },
    /// A number does not fit 64 bits.
    #[error("number {} is out of range", quote(text))]
    OutOfRange {
        /// The offending text.
        text: String,
    },
    /// A pre-release identifier is empty.
    #[error("Prerelease is empty")]
    EmptyPre,
    /// A numeric pre-release identifier has leading zeros.
    #[error("Numeric PreRelease version must not contain leading zeroes {}", quote(text))]
    PreLeadingZero {
        /// The offending text.
        text: String,
    },
    /// A pre-release identifier holds a forbidden character.
    #[error("Invalid character(s) found in prerelease {}", quote(text))]
    PreCharacter {
        /// The offending text.
        text: String,
    },
    /// A build identifier is empty.
    #[error("Build meta data is empty")]
    EmptyBuild,
    /// A build identifier holds a forbidden character.
    #[error("Invalid character(s) found in build meta data {}", quote(text))]
    BuildCharacter {
        /// The offending text.
        text: String,
    },
    /// A tolerant version of one or two parts with pre-release or build metadata.
    #[error("Short version cannot contain PreRelease/Build meta data")]
    ShortWithSuffix,
}

impl Version {
    /// A release without build metadata.
    pub fn new(major: u64, minor: u64, patch: u64) -> Self {
        Self {
            major,
            minor,
            patch,
            pre: Box::default(),
            build: Box::default(),
        }
    }

    /// Parses `major.minor.patch[-pre][+build]` strictly: no `v`, no leading zeros, no missing part.
    ///
    /// # Errors
    /// The first error of the text, in blang/semver's words.
    pub fn parse(text: &str) -> Result<Self, VersionError> {
        if text.is_empty() {
            return Err(VersionError::Empty);
        }
        let mut parts = text.splitn(3, '.');
        let (Some(major), Some(minor), Some(rest)) = (parts.next(), parts.next(), parts.next()) else {
            return Err(VersionError::TooFewParts);
        };
        let major = parse_number(major, "major", "Major")?;
        let minor = parse_number(minor, "minor", "Minor")?;
        // Build metadata may contain hyphens, so it is split off first.
        let (rest, build) = match rest.split_once('+') {
            Some((rest, build)) => (rest, Some(build)),
            None => (rest, None),
        };
        let (patch, pre) = match rest.split_once('-') {
            Some((patch, pre)) => (patch, Some(pre)),
            None => (rest, None),
        };
        let patch = parse_number(patch, "patch", "Patch")?;
        let pre = pre
            .map(|pre| pre.split('.').map(Identifier::parse).collect())
            .transpose()?
            .unwrap_or_default();
        build.map(check_build).transpose()?;
        Ok(Self {
            major,
            minor,
            patch,
            pre,
            build: build.unwrap_or_default().into(),
        })
    }

    /// Parses a version as CSVs and bundles may write it. Surrounding spaces, one leading `v`, leading zeros and a missing minor
    /// or patch are accepted.
    ///
    /// # Errors
    /// The first error after these corrections.
    pub fn parse_tolerant(text: &str) -> Result<Self, VersionError> {
        let text = text.trim();
        let text = text.strip_prefix('v').unwrap_or(text);
        let mut parts: Vec<String> = text.splitn(3, '.').map(strip_zeros).collect();
        if parts.len() < 3 {
            if parts.last().is_some_and(|last| last.contains(['+', '-'])) {
                return Err(VersionError::ShortWithSuffix);
            }
            parts.resize(3, "0".to_owned());
        }
        Self::parse(&parts.join("."))
    }

    /// Returns true for a pre-release.
    pub fn is_prerelease(&self) -> bool {
        !self.pre.is_empty()
    }
}

impl Identifier {
    /// Parses one part of a pre-release.
    ///
    /// # Errors
    /// It is empty, a number with leading zeros or beyond 64 bits, or contains other characters than letters, digits and hyphens.
    pub fn parse(text: &str) -> Result<Self, VersionError> {
        if text.is_empty() {
            return Err(VersionError::EmptyPre);
        }
        if text.bytes().all(|byte| byte.is_ascii_digit()) {
            if text.len() > 1 && text.starts_with('0') {
                return Err(VersionError::PreLeadingZero {
                    text: text.to_owned(),
                });
            }
            return text
                .parse()
                .map(Self::Number)
                .map_err(|_| VersionError::OutOfRange {
                    text: text.to_owned(),
                });
        }
        if is_identifier(text) {
            Ok(Self::Text(text.into()))
        } else {
            Err(VersionError::PreCharacter {
                text: text.to_owned(),
            })
        }
    }
}

/// Removes leading zeros but keeps one if no digit would remain.
fn strip_zeros(part: &str) -> String {
    if part.len() < 2 {
        return part.to_owned();
    }
    let stripped = part.trim_start_matches('0');
    if stripped.starts_with(|char: char| char.is_ascii_digit()) {
        stripped.to_owned()
    } else {
        format!("0{stripped}")
    }
}

fn parse_number(text: &str, part: &'static str, capital: &'static str) -> Result<u64, VersionError> {
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(VersionError::NotDigits {
            part,
            text: text.to_owned(),
        });
    }
    if text.len() > 1 && text.starts_with('0') {
        return Err(VersionError::LeadingZero {
            part: capital,
            text: text.to_owned(),
        });
    }
    text.parse().map_err(|_| VersionError::OutOfRange {
        text: text.to_owned(),
    })
}

fn is_identifier(text: &str) -> bool {
    text.bytes()
        .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
}

fn check_build(build: &str) -> Result<(), VersionError> {
    for part in build.split('.') {
        if part.is_empty() {
            return Err(VersionError::EmptyBuild);
        }
        if !is_identifier(part) {
            return Err(VersionError::BuildCharacter {
                text: part.to_owned(),
            });
        }
    }
    Ok(())
}

impl FromStr for Version {
    type Err = VersionError;

    fn from_str(text: &str) -> Result<Self, VersionError> {
        Self::parse(text)
    }
}

impl Ord for Version {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.major, self.minor, self.patch)
            .cmp(&(other.major, other.minor, other.patch))
            // A release is above its pre-releases.
            .then_with(|| self.pre.is_empty().cmp(&other.pre.is_empty()))
            .then_with(|| self.pre.cmp(&other.pre))
    }
}

impl PartialOrd for Version {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Version {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Version {}

impl Hash for Version {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.major, self.minor, self.patch, &self.pre).hash(state);
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)?;
        for (position, identifier) in self.pre.iter().enumerate() {
            write!(f, "{}{identifier}", if position == 0 { '-' } else { '.' })?;
        }
        if !self.build.is_empty() {
            write!(f, "+{}", self.build)?;
        }
        Ok(())
    }
}

impl fmt::Display for Identifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => write!(f, "{number}"),
            Self::Text(text) => f.write_str(text),
        }
    }
}

#[cfg(test)]
mod tests;
