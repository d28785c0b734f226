//! What became of a plan. Only the executor constructs these, so a status computed from them
//! describes what really happened.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

/// How a failed write is to be treated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailureClass {
    /// 5xx, 429, 401, timeouts, broken connections: the same write may go through later.
    Retry,
    /// 409: somebody else changed the object; observe again.
    Conflict,
    /// 403: the account may not do this, or admission refuses it.
    Forbidden,
    /// 400, 413, 415 or 422: the object itself is refused.
    Invalid,
    /// 404: the object, its namespace or its API is not there.
    NotFound,
    /// 409 with reason `AlreadyExists`.
    AlreadyExists,
    /// The namespace is being deleted.
    Terminating,
}

impl FailureClass {
    /// One word for it, as in metrics.
    pub(crate) fn label(self) -> &'static str {
        match self {
            Self::Retry => "retry",
            Self::Conflict => "conflict",
            Self::Forbidden => "forbidden",
            Self::Invalid => "invalid",
            Self::NotFound => "not_found",
            Self::AlreadyExists => "already_exists",
            Self::Terminating => "terminating",
        }
    }
}

/// A write that did not go through.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// How to treat it.
    pub class: FailureClass,
    /// HTTP code, 0 when there was no answer.
    pub code: u16,
    /// The API server's own words, or the transport's.
    pub message: String,
    /// The write, for example `create Deployment ns/name`.
    pub action: String,
}

impl Failure {
    /// True when there was no answer: the write may or may not have been carried out.
    pub fn is_unanswered(&self) -> bool {
        self.class == FailureClass::Retry && self.code == 0
    }

    /// True when the server refused it for a reason that lasts longer than a moment: a right, a quota, an admission webhook, the
    /// object itself, or a namespace on its way out.
    pub fn is_refusal(&self) -> bool {
        let class = self.class;
        matches!(
            class,
            FailureClass::Forbidden | FailureClass::Invalid | FailureClass::Terminating
        ) || self.code == 403
    }
}

/// The result of one action.
#[derive(Debug, Clone)]
pub enum Outcome {
    /// Done; the object as the server returned it (`null` after a deletion of several objects).
    Done(Arc<Value>),
    /// It was already there and was left alone.
    Kept,
    /// It was already gone.
    Gone,
    /// Refused or unanswered.
    Failed(Failure),
    /// An earlier action failed.
    NotAttempted,
}

/// The results of a plan's actions, in their order.
#[derive(Debug, Clone, Default)]
pub struct Outcomes {
    results: Vec<Outcome>,
    /// By action.
    warnings: BTreeMap<usize, Vec<String>>,
    is_silent: bool,
}

impl Outcomes {
    pub(crate) fn new(results: Vec<Outcome>) -> Self {
        Self {
            results,
            ..Self::default()
        }
    }

    /// The same of an API server that answers nothing.
    pub(crate) fn of_silent_server(self, is_silent: bool) -> Self {
        Self { is_silent, ..self }
    }

    /// True when the last action had no answer, nor had the look for what became of it: whatever is asked next waits as long.
    pub(crate) fn is_silent(&self) -> bool {
        self.is_silent
    }

    #[doc(hidden)]
    #[must_use]
    pub fn with_warnings(self, warnings: BTreeMap<usize, Vec<String>>) -> Self {
        Self { warnings, ..self }
    }

    /// The actions that went through with warnings of the API server, and its words.
    pub fn warnings(&self) -> impl Iterator<Item = (usize, &[String])> {
        let done = |(index, _): &(&usize, _)| matches!(self.get(**index), Outcome::Done(_));
        let warnings = self.warnings.iter().filter(done);
        warnings.map(|(index, texts)| (*index, texts.as_slice()))
    }

    /// The result of action `index`; an index beyond the plan was not attempted.
    pub fn get(&self, index: usize) -> &Outcome {
        self.results.get(index).unwrap_or(&Outcome::NotAttempted)
    }

    /// All results in order.
    pub fn iter(&self) -> impl Iterator<Item = &Outcome> {
        self.results.iter()
    }

    /// The first action that failed, if any, with its index.
    pub fn failure(&self) -> Option<(usize, &Failure)> {
        self.failures().next()
    }

    /// All actions that failed, with their indices: several when a plan has independent ones.
    pub fn failures(&self) -> impl Iterator<Item = (usize, &Failure)> {
        self.results
            .iter()
            .enumerate()
            .filter_map(|(index, outcome)| match outcome {
                Outcome::Failed(failure) => Some((index, failure)),
                _ => None,
            })
    }

    /// True when every action went through.
    pub fn all_done(&self) -> bool {
        self.failure().is_none()
    }
}

/// Outcomes for tests of `status` functions, which cannot run an executor.
#[doc(hidden)]
pub fn outcomes_for_tests(results: Vec<Outcome>) -> Outcomes {
    Outcomes::new(results)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_lasts_and_an_answer_that_fails_does_not() {
        let failed = |class, code| Failure {
            class,
            code,
            message: String::new(),
            action: String::new(),
        };
        for (class, code, is_refusal) in [
            (FailureClass::Forbidden, 403, true),
            (FailureClass::Retry, 403, true),
            (FailureClass::Invalid, 422, true),
            (FailureClass::Terminating, 403, true),
            (FailureClass::Retry, 503, false),
            (FailureClass::Conflict, 409, false),
            (FailureClass::NotFound, 404, false),
        ] {
            assert_eq!(failed(class, code).is_refusal(), is_refusal, "{class:?} {code}");
        }
    }
}
