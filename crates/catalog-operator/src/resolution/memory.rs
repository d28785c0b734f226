//! State passed to a namespace's next reconcile.

use jiff::Timestamp;

/// State that no object contains.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Memory {
    /// All current warnings, so that each is reported once as long as its cause lasts.
    pub reported: Vec<String>,
    /// Time since every reconcile has failed to make a plan.
    pub failing_since: Option<Timestamp>,
}
