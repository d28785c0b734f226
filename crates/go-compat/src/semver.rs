//! Versions and version ranges as blang/semver reads and orders them.
//!
//! Upstream uses blang/semver v4 everywhere. Its rules differ from Cargo's and npm's: comparisons ignore build metadata, ranges
//! have no pre-release gating, a space means AND and `||` means OR. Rules: `docs/reference/catalog-files.md`.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};

use crate::quote;

mod range;

pub use range::Range;

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

/// Error for a text that is not a version or a range. The wording is blang/semver's, as it occurs in validation messages.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct VersionError(String);

impl VersionError {
    /// Returns the error about a part of the text.
    fn about(fault: &str, text: &str) -> Self {
        Self(format!("{fault} {}", quote(text)))
    }

    fn plain(fault: &str) -> Self {
        Self(fault.to_owned())
    }
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
            return Err(VersionError::plain("Version string empty"));
        }
        let mut parts = text.splitn(3, '.');
        let (Some(major), Some(minor), Some(rest)) = (parts.next(), parts.next(), parts.next()) else {
            return Err(VersionError::plain("No Major.Minor.Patch elements found"));
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
                return Err(VersionError::plain(
                    "Short version cannot contain PreRelease/Build meta data",
                ));
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
            return Err(VersionError::plain("Prerelease is empty"));
        }
        if text.bytes().all(|byte| byte.is_ascii_digit()) {
            if text.len() > 1 && text.starts_with('0') {
                return Err(VersionError::about(
                    "Numeric PreRelease version must not contain leading zeroes",
                    text,
                ));
            }
            return in_range(text).map(Self::Number);
        }
        if is_identifier(text) {
            Ok(Self::Text(text.into()))
        } else {
            Err(VersionError::about(
                "Invalid character(s) found in prerelease",
                text,
            ))
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
        let fault = format!("Invalid character(s) found in {part} number");
        return Err(VersionError::about(&fault, text));
    }
    if text.len() > 1 && text.starts_with('0') {
        let fault = format!("{capital} number must not contain leading zeroes");
        return Err(VersionError::about(&fault, text));
    }
    in_range(text)
}

/// Returns the number that digits form.
fn in_range(digits: &str) -> Result<u64, VersionError> {
    let out_of_range = |_| VersionError(format!("number {} is out of range", quote(digits)));
    digits.parse().map_err(out_of_range)
}

fn is_identifier(text: &str) -> bool {
    text.bytes()
        .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
}

fn check_build(build: &str) -> Result<(), VersionError> {
    for part in build.split('.') {
        if part.is_empty() {
            return Err(VersionError::plain("Build meta data is empty"));
        }
        if !is_identifier(part) {
            return Err(VersionError::about(
                "Invalid character(s) found in build meta data",
                part,
            ));
        }
    }
    Ok(())
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
