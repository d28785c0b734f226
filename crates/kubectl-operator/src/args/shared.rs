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

/// How long is waited for an operator or catalog to get ready, unless it is given.
const READY_IN: Duration = Duration::from_secs(600);
/// How long commands that upstream's plugin has, too, wait unless it is given.
pub(crate) const UPSTREAM_TIMEOUT: Duration = Duration::from_secs(60);

/// How long something is waited for.
#[derive(Debug, Clone, Default, ClapArgs)]
pub(crate) struct WaitArgs {
    /// How long to wait, such as 90s, 5m or 1h30m; 0 is for ever [default: 1m, or 10m until something is ready]
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub timeout: Option<Duration>,
}

impl WaitArgs {
    /// The same with another default.
    pub(crate) fn or(&self, default: Duration) -> Self {
        Self {
            timeout: Some(self.timeout.unwrap_or(default)),
        }
    }

    /// How long is waited; zero is for ever.
    pub(crate) fn timeout(&self) -> Duration {
        self.timeout.unwrap_or(READY_IN)
    }

    /// The limit; none is for ever.
    pub(crate) fn limit(&self) -> Option<Duration> {
        Some(self.timeout()).filter(|timeout| !timeout.is_zero())
    }
}

/// A boolean of Go's flags: `--flag`, `--flag=false`, `-f=0`.
pub(super) fn boolean(text: &str) -> Result<bool, String> {
    go_compat::boolean::parse(text).map_err(|error| error.to_string())
}

/// What a flag of Go that takes a list was given: words with commas between them, each flag adding its own.
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
