//! Statements with what they rest on.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Hints, Lack};
use crate::bundle_id::BundleId;
use crate::predicate::Predicate;
use crate::problem::Subscription;

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
    /// A statement that rests on nothing.
    pub(crate) fn leaf(text: impl Into<String>) -> Self {
        Tree {
            text: text.into(),
            because: Vec::new(),
        }
    }
}

/// A statement of a tree that is not cut yet. Hints are looked for once it is known what is shown.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Draft<'a> {
    pub(super) text: String,
    pub(super) because: Vec<Draft<'a>>,
    hint: Option<Hint<'a>>,
}

/// What a hint is asked for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Hint<'a> {
    /// What a Subscription does not find.
    Lack(Lack, &'a Subscription),
    /// What nothing meets.
    Requirement(&'a Predicate),
}

impl<'a> Draft<'a> {
    pub(super) fn new(text: impl Into<String>, because: Vec<Draft<'a>>) -> Self {
        Draft {
            text: text.into(),
            because,
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

/// The first of the names, and how many there are besides.
pub(super) fn together(bundles: &[&BundleId]) -> String {
    named(bundles, bundles.len())
}

/// The same for `count` bundles of which two or more are given.
pub(super) fn named(bundles: &[&BundleId], count: usize) -> String {
    match bundles {
        [] => String::new(),
        [only] => only.plain(),
        [first, second, ..] if count == 2 => format!("{} and {}", first.plain(), second.plain()),
        [first, ..] => format!("{} and {} more", first.plain(), count - 1),
    }
}
