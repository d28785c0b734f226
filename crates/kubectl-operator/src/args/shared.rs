//! Flags that several commands have.

use std::time::Duration;

use clap::{Args as ClapArgs, ValueEnum};

/// How a list is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// A table with more columns
    Wide,
    /// One JSON document
    Json,
    /// The same as YAML
    Yaml,
}

impl Format {
    /// The document it is; none for a table.
    pub(crate) fn document(self) -> Option<Document> {
        match self {
            Self::Wide => None,
            Self::Json => Some(Document::Json),
            Self::Yaml => Some(Document::Yaml),
        }
    }
}

/// How something is printed for programs, where people get no table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Document {
    /// One JSON document
    Json,
    /// The same as YAML
    Yaml,
}

/// How long something is waited for.
#[derive(Debug, Clone, ClapArgs)]
pub(crate) struct WaitArgs {
    /// How long to wait, such as 90s, 5m or 1h30m; 0 is for ever
    #[arg(long, value_name = "DURATION", default_value = "10m", value_parser = duration)]
    pub timeout: Duration,
}

impl WaitArgs {
    /// The limit; none is for ever.
    pub(crate) fn limit(&self) -> Option<Duration> {
        (!self.timeout.is_zero()).then_some(self.timeout)
    }
}

/// A word of a command that is to be pasted into a shell: names and paths that are told are whoever's who wrote them.
pub(crate) fn quoted(word: &str) -> String {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "._-/:@=".contains(letter);
    match !word.is_empty() && word.chars().all(is_plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

/// A duration as kubectl takes it; a bare number is none but 0.
pub(super) fn duration(text: &str) -> Result<Duration, String> {
    go_compat::duration::parse(text).map_err(|_| format!("{text:?} is no duration such as 90s, 5m or 1h30m"))
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
