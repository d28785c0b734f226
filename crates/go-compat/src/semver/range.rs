//! Version ranges, with blang/semver's grammar including its peculiarities.

use std::cmp::Ordering::{self, Equal, Greater, Less};
use std::fmt;

use super::{Version, VersionError};
use crate::quote;

/// A parsed range: alternatives (`||`) of comparisons that must all hold. Equality and order follow the text.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Range {
    text: Box<str>,
    alternatives: Box<[Box<[Comparison]>]>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Comparison {
    /// How versions in the range compare with `version`.
    accepted: &'static [Ordering],
    version: Version,
}

impl Range {
    /// Parses a range such as `>=1.0.0 <2.0.0 || 3.x`.
    ///
    /// # Errors
    /// The first error, in blang/semver's words. Empty text is an error.
    pub fn parse(text: &str) -> Result<Self, VersionError> {
        let tokens = tokenise(text);
        let alternatives = split_alternatives(&tokens)?
            .into_iter()
            .map(|tokens| {
                let mut comparisons = Vec::with_capacity(tokens.len());
                for token in tokens {
                    if token.contains('x') {
                        for expanded in expand_wildcard(token)? {
                            comparisons.push(parse_comparison(&expanded)?);
                        }
                    } else {
                        comparisons.push(parse_comparison(token)?);
                    }
                }
                Ok(comparisons.into_boxed_slice())
            })
            .collect::<Result<_, VersionError>>()?;
        Ok(Self {
            text: text.into(),
            alternatives,
        })
    }

    /// Returns true if `version` is in the range. Pre-releases are compared like any version.
    pub fn contains(&self, version: &Version) -> bool {
        self.alternatives
            .iter()
            .any(|comparisons| comparisons.iter().all(|comparison| comparison.holds(version)))
    }

    /// Returns the text the range was parsed from.
    pub fn as_str(&self) -> &str {
        &self.text
    }
}

impl Comparison {
    fn holds(&self, version: &Version) -> bool {
        self.accepted.contains(&version.cmp(&self.version))
    }
}

impl fmt::Display for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Splits at spaces, except after `<`, `>` and `=`; single characters between spaces are dropped.
fn tokenise(text: &str) -> Vec<String> {
    let mut tokens = Vec::new();
    let mut start = 0;
    let mut last = b'\0';
    for (at, byte) in text.bytes().enumerate() {
        if byte != b' ' {
            last = byte;
        } else if !matches!(last, b'<' | b'>' | b'=') {
            if at > start + 1 {
                tokens.push(text[start..at].replace(' ', ""));
            }
            start = at + 1;
        }
    }
    if text.len() > start + 1 {
        tokens.push(text[start..].replace(' ', ""));
    }
    tokens
}

fn split_alternatives(tokens: &[String]) -> Result<Vec<&[String]>, VersionError> {
    if tokens.first().is_some_and(|token| token == "||") {
        return Err(VersionError("First element in range is '||'".to_owned()));
    }
    if tokens.last().is_none_or(|token| token == "||") {
        return Err(VersionError("Last element in range is '||'".to_owned()));
    }
    let alternatives: Vec<&[String]> = tokens.split(|token| token == "||").collect();
    if alternatives.iter().any(|tokens| tokens.is_empty()) {
        // Upstream accepts this and crashes when the range is used.
        return Err(VersionError("Empty element between '||' in range".to_owned()));
    }
    Ok(alternatives)
}

/// Splits a token into operator and version; the operator is all text before the first digit.
fn split_operator(token: &str) -> Result<(&str, &str), VersionError> {
    let no_version = || VersionError(format!("Could not get version from string: {}", quote(token)));
    let at = token.find(char::is_numeric).ok_or_else(no_version)?;
    Ok((token[..at].trim(), &token[at..]))
}

/// Kind of the version after the wildcard.
enum Next {
    Minor,
    Major,
    /// The token has an `x` but no wildcard position: upstream has no upper bound then and fails to parse an empty version.
    Unknown,
}

/// Rewrites a token that contains an `x` anywhere.
fn expand_wildcard(token: &str) -> Result<Vec<String>, VersionError> {
    let (operator, version) = split_operator(token)?;
    let parts: Vec<&str> = version.split('.').collect();
    let next_kind = match (parts.last(), parts.len()) {
        (Some(&"x"), 3) => Next::Minor,
        (Some(&"x"), 2) => Next::Major,
        _ => Next::Unknown,
    };
    let flat = flatten(version);
    let next = || match next_kind {
        Next::Minor => increment(&flat, 1),
        Next::Major => increment(&flat, 0),
        Next::Unknown => String::new(),
    };
    Ok(match operator {
        ">" => vec![format!(">={}", next())],
        ">=" => vec![format!(">={flat}")],
        "<" => vec![format!("<{flat}")],
        "<=" => vec![format!("<{}", next())],
        "" | "=" | "==" => vec![format!(">={flat}"), format!("<{}", next())],
        // Never true, because upstream joins the two with AND.
        "!=" | "!" => vec![format!("<{flat}"), format!(">={}", next())],
        _ => vec![flat],
    })
}

fn flatten(version: &str) -> String {
    let flat = version.replacen(".x.x", ".x", 1).replacen(".x", ".0", 1);
    if flat.split('.').count() == 2 {
        format!("{flat}.0")
    } else {
        flat
    }
}

/// Returns `version` with the number at `position` incremented. Empty if that is not a number; parsing then fails.
fn increment(version: &str, position: usize) -> String {
    let mut parts: Vec<String> = version.split('.').map(str::to_owned).collect();
    let Some(next) = parts
        .get(position)
        .and_then(|part| part.parse::<i64>().ok())
        .map(|number| number.wrapping_add(1).to_string())
    else {
        return String::new();
    };
    if let Some(part) = parts.get_mut(position) {
        *part = next;
    }
    parts.join(".")
}

fn parse_comparison(token: &str) -> Result<Comparison, VersionError> {
    let (operator_text, version_text) = split_operator(token)?;
    let accepted: &[Ordering] = match operator_text {
        "" | "=" | "==" => &[Equal],
        ">" => &[Greater],
        ">=" => &[Greater, Equal],
        "<" => &[Less],
        "<=" => &[Less, Equal],
        "!" | "!=" => &[Less, Greater],
        other => {
            let (part, operator) = (quote(token), quote(other));
            return Err(VersionError(format!(
                "Could not parse Range {part}: Could not parse comparator {operator} in {part}"
            )));
        }
    };
    let version = Version::parse(version_text).map_err(|reason| {
        let (part, version) = (quote(token), quote(version_text));
        VersionError(format!(
            "Could not parse Range {part}: Could not parse version {version} in {part}: {reason}"
        ))
    })?;
    Ok(Comparison { accepted, version })
}
