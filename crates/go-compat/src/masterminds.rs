//! Version ranges as Masterminds/semver v3 reads them: the ranges users write in a ClusterExtension.
//!
//! They differ from [`semver::Range`](crate::semver::Range), which catalogs use in `skipRange`: missing parts are wildcards, `~` and
//! `^` exist, a comma means AND like a space, and pre-releases match only if the range names one. This is the one grammar for
//! checking a range and for using it.

use crate::quote;
use crate::semver::{Identifier, Version};

/// A parsed range: alternatives (`||`) of comparisons that must all hold. Equality follows the text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Range {
    text: Box<str>,
    alternatives: Box<[Alternative]>,
}

/// Error for a text that is not a range. The wording is that of Masterminds/semver, as it occurs in conditions.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RangeError {
    /// An alternative is not a list of comparisons; the value is its text, spaces included.
    #[error("improper constraint: {}", quote(.0))]
    Improper(String),
    /// A part of a version is neither a number of 64 bits nor a wildcard, or a pre-release is a number with leading zeros.
    #[error("constraint parser error")]
    Version,
}

/// Comparisons between two `||`.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Alternative {
    /// True if a comparison names a pre-release. Only then pre-releases match.
    allows_prereleases: bool,
    comparisons: Box<[Comparison]>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Comparison {
    operator: Operator,
    /// The version; 0 for wildcards.
    version: Version,
    wildcard: Option<Wildcard>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operator {
    /// `=`, or none.
    Equal,
    /// `!=`
    NotEqual,
    /// `>`
    Greater,
    /// `>=` or `=>`
    GreaterOrEqual,
    /// `<`
    Less,
    /// `<=` or `=<`
    LessOrEqual,
    /// `~` or `~>`
    Tilde,
    /// `^`
    Caret,
}

/// First part of a version that is missing, or `x`, `X` or `*`; later parts are ignored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wildcard {
    Major,
    Minor,
    Patch,
}

/// Operators by their text. A text is listed before its own beginning.
const OPERATORS: [(&str, Operator); 11] = [
    ("!=", Operator::NotEqual),
    (">=", Operator::GreaterOrEqual),
    ("=>", Operator::GreaterOrEqual),
    ("<=", Operator::LessOrEqual),
    ("=<", Operator::LessOrEqual),
    ("~>", Operator::Tilde),
    ("=", Operator::Equal),
    (">", Operator::Greater),
    ("<", Operator::Less),
    ("~", Operator::Tilde),
    ("^", Operator::Caret),
];

impl Range {
    /// Parses a range such as `>=1.11, <1.13 || ~2.x`.
    ///
    /// # Errors
    /// The first error, in the words of Masterminds/semver. Empty text is an error.
    pub fn parse(text: &str) -> Result<Self, RangeError> {
        let alternatives = text
            .split("||")
            .map(Alternative::parse)
            .collect::<Result<_, RangeError>>()?;
        Ok(Self {
            text: text.into(),
            alternatives,
        })
    }

    /// Returns true if `version` is in the range. Build metadata is ignored.
    pub fn contains(&self, version: &Version) -> bool {
        self.alternatives
            .iter()
            .any(|alternative| alternative.contains(version))
    }

    /// Returns the text the range was parsed from.
    pub fn as_str(&self) -> &str {
        &self.text
    }
}

impl Alternative {
    fn parse(text: &str) -> Result<Self, RangeError> {
        let written = scan(text).ok_or_else(|| RangeError::Improper(text.to_owned()))?;
        let comparisons: Box<[Comparison]> = written
            .into_iter()
            .map(|(operator, version)| Comparison::read(operator, version))
            .collect::<Option<_>>()
            .ok_or(RangeError::Version)?;
        Ok(Self {
            allows_prereleases: comparisons
                .iter()
                .any(|comparison| comparison.version.is_prerelease()),
            comparisons,
        })
    }

    fn contains(&self, version: &Version) -> bool {
        (self.allows_prereleases || !version.is_prerelease())
            && self
                .comparisons
                .iter()
                .all(|comparison| comparison.holds(version))
    }
}

impl Comparison {
    /// Reads the numbers of a written version; `None` if one is invalid.
    fn read(operator: Operator, written: Written<'_>) -> Option<Self> {
        let Written {
            major,
            minor,
            patch,
            pre,
        } = written;
        let number = |part: &str| part.parse::<u64>().ok();
        let (mut version, wildcard) = (Version::new(0, 0, 0), first_wildcard(major, minor, patch));
        if wildcard != Some(Wildcard::Major) {
            version.major = number(major)?;
        }
        if let (Some(minor), None | Some(Wildcard::Patch)) = (minor, wildcard) {
            version.minor = number(minor)?;
        }
        if let (Some(patch), None) = (patch, wildcard) {
            version.patch = number(patch)?;
        }
        if let Some(pre) = pre {
            version.pre = pre
                .split('.')
                .map(Identifier::parse)
                .collect::<Result<_, _>>()
                .ok()?;
        }
        Some(Self {
            operator,
            version,
            wildcard,
        })
    }

    fn holds(&self, version: &Version) -> bool {
        let bound = &self.version;
        let minor_of = |version: &Version| (version.major, version.minor);
        match (self.operator, self.wildcard) {
            (Operator::Equal, None) => version == bound,
            (Operator::Equal, Some(_)) | (Operator::Tilde, _) => self.holds_tilde(version),
            (Operator::NotEqual, None | Some(Wildcard::Major)) => version != bound,
            (Operator::NotEqual, Some(Wildcard::Minor)) => version.major != bound.major,
            (Operator::NotEqual, Some(Wildcard::Patch)) => {
                minor_of(version) != minor_of(bound) || version.pre != bound.pre
            }
            (Operator::Greater, None | Some(Wildcard::Major)) => version > bound,
            (Operator::Greater, Some(Wildcard::Minor)) => version.major > bound.major,
            (Operator::Greater, Some(Wildcard::Patch)) => minor_of(version) > minor_of(bound),
            (Operator::GreaterOrEqual, _) => version >= bound,
            (Operator::Less, _) => version < bound,
            (Operator::LessOrEqual, None) => version <= bound,
            (Operator::LessOrEqual, Some(Wildcard::Minor)) => version.major <= bound.major,
            (Operator::LessOrEqual, Some(Wildcard::Major | Wildcard::Patch)) => {
                minor_of(version) <= minor_of(bound)
            }
            (Operator::Caret, _) => self.holds_caret(version),
        }
    }

    /// From the bound to the next minor version, or to the next major one if the range names no minor version. `~0.0.0` and `~*`
    /// have no upper bound.
    fn holds_tilde(&self, version: &Version) -> bool {
        let bound = &self.version;
        let is_zero = (bound.major, bound.minor, bound.patch) == (0, 0, 0);
        if version < bound {
            return false;
        }
        match self.wildcard {
            None | Some(Wildcard::Major) if is_zero => true,
            Some(Wildcard::Minor) => version.major == bound.major,
            _ => (version.major, version.minor) == (bound.major, bound.minor),
        }
    }

    /// From the bound up to a change of its first number that is not zero. `^*` contains only 0.0.0, as upstream.
    fn holds_caret(&self, version: &Version) -> bool {
        let bound = &self.version;
        if version < bound || version.major != bound.major {
            return false;
        }
        if bound.major > 0 || self.wildcard == Some(Wildcard::Minor) {
            return true;
        }
        version.minor == bound.minor
            && (bound.minor > 0 || self.wildcard == Some(Wildcard::Patch) || version.patch == bound.patch)
    }
}

/// A version of a range as it is written.
#[derive(Clone, Copy)]
struct Written<'a> {
    major: &'a str,
    minor: Option<&'a str>,
    patch: Option<&'a str>,
    pre: Option<&'a str>,
}

fn first_wildcard(major: &str, minor: Option<&str>, patch: Option<&str>) -> Option<Wildcard> {
    let is_wild = |part: &str| matches!(part, "x" | "X" | "*");
    if is_wild(major) {
        Some(Wildcard::Major)
    } else if minor.is_none_or(is_wild) {
        Some(Wildcard::Minor)
    } else if patch.is_none_or(is_wild) {
        Some(Wildcard::Patch)
    } else {
        None
    }
}

/// Splits an alternative into its comparisons; `None` if it is something else. Spaces or one comma separate comparisons. `a - b` is
/// `>=a <=b`.
fn scan(text: &str) -> Option<Vec<(Operator, Written<'_>)>> {
    let mut scanner = Scanner { rest: text };
    let mut found = Vec::new();
    loop {
        scanner.skip_spaces();
        let operator = scanner.operator();
        scanner.skip_spaces();
        let version = scanner.version()?;
        let mut is_separated = scanner.skip_spaces();
        let upper = match operator {
            None if is_separated => scanner.hyphen_and_version(),
            _ => None,
        };
        if let Some(upper) = upper {
            found.push((Operator::GreaterOrEqual, version));
            found.push((Operator::LessOrEqual, upper));
            is_separated = scanner.skip_spaces();
        } else {
            found.push((operator.unwrap_or(Operator::Equal), version));
        }
        if scanner.rest.is_empty() {
            return Some(found);
        }
        if let Some(rest) = scanner.rest.strip_prefix(',') {
            scanner.rest = rest;
        } else if !is_separated {
            return None;
        }
    }
}

struct Scanner<'a> {
    rest: &'a str,
}

impl<'a> Scanner<'a> {
    /// Returns true if there was a space.
    fn skip_spaces(&mut self) -> bool {
        let rest = self.rest.trim_start_matches([' ', '\t', '\n', '\x0c', '\r']);
        let is_shorter = rest.len() < self.rest.len();
        self.rest = rest;
        is_shorter
    }

    fn operator(&mut self) -> Option<Operator> {
        let (rest, operator) = OPERATORS
            .iter()
            .find_map(|(text, operator)| Some((self.rest.strip_prefix(text)?, *operator)))?;
        self.rest = rest;
        Some(operator)
    }

    fn version(&mut self) -> Option<Written<'a>> {
        let mut inner = Scanner {
            rest: self.rest.strip_prefix('v').unwrap_or(self.rest),
        };
        let major = inner.take(is_part)?;
        let minor = inner.take_after('.', is_part);
        let patch = minor.and_then(|_| inner.take_after('.', is_part));
        let pre = inner.take_after('-', is_identifiers);
        let build = inner.take_after('+', is_identifiers);
        let has_empty = |text: &str| text.split('.').any(str::is_empty);
        if pre.is_some_and(has_empty) || build.is_some_and(has_empty) {
            return None;
        }
        self.rest = inner.rest;
        Some(Written {
            major,
            minor,
            patch,
            pre,
        })
    }

    /// Takes the second half of a hyphen range.
    fn hyphen_and_version(&mut self) -> Option<Written<'a>> {
        let mut inner = Scanner {
            rest: self.rest.strip_prefix('-')?,
        };
        if !inner.skip_spaces() {
            return None;
        }
        let version = inner.version()?;
        self.rest = inner.rest;
        Some(version)
    }

    /// Takes characters as long as they match; `None` if the first does not.
    fn take(&mut self, matches: fn(char) -> bool) -> Option<&'a str> {
        let end = self
            .rest
            .find(|char: char| !matches(char))
            .unwrap_or(self.rest.len());
        let (taken, rest) = self.rest.split_at(end);
        self.rest = rest;
        (!taken.is_empty()).then_some(taken)
    }

    /// Takes a mark and matching characters, of which there must be one.
    fn take_after(&mut self, mark: char, matches: fn(char) -> bool) -> Option<&'a str> {
        let mut inner = Scanner {
            rest: self.rest.strip_prefix(mark)?,
        };
        let taken = inner.take(matches)?;
        self.rest = inner.rest;
        Some(taken)
    }
}

/// Returns true for characters of a number or wildcard. Upstream's expression also has the single `|`, which no number has.
fn is_part(char: char) -> bool {
    char.is_ascii_digit() || matches!(char, 'x' | 'X' | '*' | '|')
}

fn is_identifiers(char: char) -> bool {
    char.is_ascii_alphanumeric() || matches!(char, '-' | '.')
}

#[cfg(test)]
mod tests;
