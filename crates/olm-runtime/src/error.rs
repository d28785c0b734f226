//! Errors of a round that could not observe.

use thiserror::Error;

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
