//! Statements with their reasons.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::bundle_id::BundleId;

/// Maximum statements of one kind that are shown one by one; the rest are counted.
pub(super) const SHOWN: usize = 4;

/// A statement and what it rests on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Tree {
    /// The statement, in one line.
    pub text: String,
    /// Why it holds.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub because: Vec<Tree>,
}

impl Tree {
    pub(super) fn new(text: impl Into<String>, because: Vec<Tree>) -> Self {
        let text = text.into();
        Tree { text, because }
    }

    /// Returns a statement without reasons.
    pub(crate) fn leaf(text: impl Into<String>) -> Self {
        Self::new(text, Vec::new())
    }
}

/// Returns the first of the names, and the number of the others.
pub(super) fn together(bundles: &[&BundleId]) -> String {
    match bundles {
        [] => String::new(),
        [only] => only.plain(),
        [first, second] => format!("{} and {}", first.plain(), second.plain()),
        [first, rest @ ..] => format!("{} and {} more", first.plain(), rest.len()),
    }
}
