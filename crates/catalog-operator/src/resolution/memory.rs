//! What a round of a namespace leaves for the next.
//!
//! A plan that is refused concerns several Subscriptions, whose statuses are actions of the plan of a round; so they hear of it
//! in the round that follows, which comes by itself since this one failed.

/// What no object holds and the next round has to know.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Memory {
    /// What the API server said when a plan was last to be made, if it refused.
    pub refusal: Option<String>,
    /// Warnings about annotations that were told, so that each is told once.
    pub told: Vec<String>,
}
