//! Statements with their reasons.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Hints, Lack};
use crate::bundle_id::BundleId;
use crate::predicate::Predicate;
use crate::problem::Subscription;

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
    /// Returns a statement without reasons.
    pub(crate) fn leaf(text: impl Into<String>) -> Self {
        Tree {
            text: text.into(),
            because: Vec::new(),
        }
    }
}

/// A statement of a tree before it is cut. Hints are computed once it is known which statements are shown.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Draft<'a> {
    pub(super) text: String,
    pub(super) because: Vec<Draft<'a>>,
    /// The bundles that meet a requirement. What rules them out is added to `because` where the statement is
    /// shown.
    pub(super) candidates: &'a [BundleId],
    pub(super) hint: Option<Hint<'a>>,
}

/// Subject of a hint.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Hint<'a> {
    /// The missing object of a Subscription.
    Lack(Lack, &'a Subscription),
    /// An unmet requirement.
    Requirement(&'a Predicate),
}

impl<'a> Draft<'a> {
    pub(super) fn new(text: impl Into<String>, because: Vec<Draft<'a>>) -> Self {
        Draft {
            text: text.into(),
            because,
            candidates: &[],
            hint: None,
        }
    }

    pub(super) fn leaf(text: impl Into<String>) -> Self {
        Self::new(text, Vec::new())
    }

    pub(super) fn hinted(text: impl Into<String>, hint: Hint<'a>) -> Self {
        Draft {
            hint: Some(hint),
            ..Self::leaf(text)
        }
    }

    pub(super) fn told(self, hints: &Hints) -> Tree {
        let Draft {
            mut text,
            because,
            hint,
            ..
        } = self;
        let mut because: Vec<Tree> = because.into_iter().map(|draft| draft.told(hints)).collect();
        match hint {
            None => {}
            Some(Hint::Lack(lack, asked)) => {
                because.extend(hints.of_lack(lack, asked).into_iter().map(Tree::leaf));
            }
            Some(Hint::Requirement(requirement)) => {
                let near = hints.near(requirement);
                text.push_str(": ");
                text.push_str(&match near.as_slice() {
                    [] => "add a catalog that does".to_owned(),
                    near => near.join("; "),
                });
            }
        }
        Tree { text, because }
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
