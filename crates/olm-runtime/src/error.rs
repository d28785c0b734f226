//! Errors of a reconcile that could not observe, and the text of errors.

use std::error::Error as StdError;

use thiserror::Error;

/// Returns the text of `error` and its causes, without repetition. Many errors include their cause in their text, and those of
/// connections have no other information.
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

/// Observation failed; the reconcile ends and is retried with backoff.
#[derive(Debug, Error)]
pub enum ObserveError {
    /// A live read failed.
    #[error("failed to read {what}: {source}")]
    Read {
        /// Subject of the read, for example `CustomResourceDefinition demos.example.com`.
        what: String,
        /// Cause of the failure.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// A read took longer than its deadline.
    #[error("reading {what} took longer than {seconds} s")]
    Deadline {
        /// Subject of the read.
        what: String,
        /// Deadline in seconds.
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
    fn a_cause_is_reported_once() {
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
