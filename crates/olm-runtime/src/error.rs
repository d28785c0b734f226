//! Errors of a round that could not observe, and how errors are told.

use std::error::Error as StdError;

use thiserror::Error;

/// What `error` says and what its causes say, each once: many say their cause themselves, and those of connections nothing else.
pub fn with_causes(error: &(dyn StdError + 'static)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let told = error.to_string();
        if !text.contains(&told) {
            text += &format!(": {told}");
        }
        cause = error.source();
    }
    text
}

/// Observation failed; the round ends here and is tried again with backoff.
#[derive(Debug, Error)]
pub enum ObserveError {
    /// A live read did not go through.
    #[error("failed to read {what}: {source}")]
    Read {
        /// What was read, for example `CustomResourceDefinition demos.example.com`.
        what: String,
        /// The cause.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// A read took longer than its deadline.
    #[error("reading {what} took longer than {seconds} s")]
    Deadline {
        /// What was read.
        what: String,
        /// The deadline.
        seconds: u64,
    },
}

impl ObserveError {
    /// Wraps the failure of reading `what`.
    pub fn read(
        what: impl Into<String>,
        source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Self {
        Self::Read {
            what: what.into(),
            source: source.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    #[derive(Debug, Error)]
    #[error("{text}")]
    struct Told {
        text: &'static str,
        #[source]
        cause: io::Error,
    }

    #[test]
    fn a_cause_is_told_once() {
        for (text, told) in [
            ("cannot connect", "cannot connect: refused"),
            ("cannot connect: refused", "cannot connect: refused"),
        ] {
            let cause = io::Error::other("refused");
            let inner = Told { text, cause };
            assert_eq!(with_causes(&inner), told);
            let outer = Told {
                text: "no metrics",
                cause: io::Error::other(inner),
            };
            assert_eq!(with_causes(&outer), format!("no metrics: {told}"));
        }
    }
}
