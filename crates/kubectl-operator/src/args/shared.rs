//! Flags shared by several commands.

use std::str::FromStr;
use std::time::Duration;

use clap::{Args as ClapArgs, ValueEnum};

/// How a list is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// Table with more columns
    Wide,
    /// JSON
    Json,
    /// YAML, with the same fields as JSON
    Yaml,
}

impl Format {
    /// Returns the document format; `None` for a table.
    pub(crate) fn document(self) -> Option<Document> {
        match self {
            Self::Wide => None,
            Self::Json => Some(Document::Json),
            Self::Yaml => Some(Document::Yaml),
        }
    }
}

/// How a list is printed whose objects have names to pass to other commands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ListFormat {
    /// Table with more columns
    Wide,
    /// Names only, as RESOURCE.GROUP/NAME
    Name,
    /// JSON
    Json,
    /// YAML, with the same fields as JSON
    Yaml,
}

impl ListFormat {
    /// Returns the document format; `None` for a table or names.
    pub(crate) fn document(self) -> Option<Document> {
        match self {
            Self::Wide | Self::Name => None,
            Self::Json => Some(Document::Json),
            Self::Yaml => Some(Document::Yaml),
        }
    }
}

/// How something is printed for programs, where people get no table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Document {
    /// JSON
    Json,
    /// YAML, with the same fields as JSON
    Yaml,
}

/// Default time to wait for an operator or catalog to become ready.
const READY_IN: Duration = Duration::from_secs(600);
/// Default timeout of commands that upstream's plugin also has.
pub(crate) const UPSTREAM_TIMEOUT: Duration = Duration::from_secs(60);

/// How long something is waited for.
#[derive(Debug, Clone, Default, ClapArgs)]
pub(crate) struct WaitArgs {
    /// Maximum time to wait, such as 90s, 5m or 1h30m; 0 means no limit
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub timeout: Option<Duration>,
}

impl WaitArgs {
    /// Returns the same flags with another default timeout.
    pub(crate) fn or(&self, default: Duration) -> Self {
        Self {
            timeout: Some(self.timeout.unwrap_or(default)),
        }
    }

    /// Returns the timeout; zero means no limit.
    pub(crate) fn timeout(&self) -> Duration {
        self.timeout.unwrap_or(READY_IN)
    }

    /// Returns the timeout; `None` means no limit.
    pub(crate) fn limit(&self) -> Option<Duration> {
        Some(self.timeout()).filter(|timeout| !timeout.is_zero())
    }
}

/// Parses a boolean flag of Go: `--flag`, `--flag=false`, `-f=0`.
pub(super) fn boolean(text: &str) -> Result<bool, String> {
    go_compat::boolean::parse(text).map_err(|error| error.to_string())
}

/// Splits the values of a Go list flag at commas. A repeated flag adds to the list.
pub(crate) fn slice(given: &[String]) -> Vec<String> {
    let given = given.iter().filter(|words| !words.is_empty());
    given
        .flat_map(|words| words.split(','))
        .map(|word| {
            let quoted = word.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
            quoted.unwrap_or(word).to_owned()
        })
        .collect()
}

/// Quotes a word of a suggested command for the shell, because names and paths come from other users.
pub(crate) fn quoted(word: &str) -> String {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "._-/:@=".contains(letter);
    match !word.is_empty() && word.chars().all(is_plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

/// Parses a duration as kubectl does. A bare number is invalid, except 0.
pub(super) fn duration(text: &str) -> Result<Duration, String> {
    go_compat::duration::parse(text)
        .map_err(|_| format!("invalid duration {text:?}: expected for example 90s, 5m or 1h30m"))
}

/// Checks a duration, and returns it as it was written.
pub(super) fn duration_text(text: &str) -> Result<String, String> {
    duration(text).map(|_| text.to_owned())
}

/// Parses a whole number. The error names what is expected.
pub(super) fn whole<T: FromStr>(text: &str, expected: &str) -> Result<T, String> {
    text.parse().map_err(|_| format!("expected {expected}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_to_paste_is_one_word() {
        for (word, expected) in [
            ("arn:aws:eks:a/b@c", "arn:aws:eks:a/b@c"),
            ("", "''"),
            ("a b", "'a b'"),
            ("a';rm -rf .", r"'a'\'';rm -rf .'"),
            ("$(x)`y`", "'$(x)`y`'"),
        ] {
            assert_eq!(quoted(word), expected);
        }
    }

    #[test]
    fn durations_are_those_of_kubectl() {
        for (text, seconds) in [
            ("0", 0),
            ("0s", 0),
            ("90s", 90),
            ("5m", 300),
            ("1h30m", 5400),
            ("1.5h", 5400),
        ] {
            assert_eq!(duration(text), Ok(Duration::from_secs(seconds)), "{text}");
        }
        for text in [
            "",
            "5",
            "m",
            "5d",
            "-5s",
            "1h5",
            "99999999999999999999s",
            "18446744073709551615h",
        ] {
            assert!(duration(text).is_err(), "{text}");
        }
    }
}
