//! Results of a plan. Only the executor constructs these, so a status computed from them describes what really happened.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

/// Category of a failed write, which decides how it is handled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailureClass {
    /// 5xx, 429, 401, timeouts, broken connections: the same write may succeed later.
    Retry,
    /// 409: another client changed the object; observe again.
    Conflict,
    /// 403: the account lacks permission, or admission refuses the write.
    Forbidden,
    /// 400, 413, 415 or 422: the server refuses the object itself.
    Invalid,
    /// 404: the object, its namespace or its API does not exist.
    NotFound,
    /// 409 with reason `AlreadyExists`.
    AlreadyExists,
    /// The namespace is being deleted.
    Terminating,
}

impl FailureClass {
    /// Returns the class as one word, as in metrics.
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

/// A write that failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// Category of the failure.
    pub class: FailureClass,
    /// HTTP status code; 0 if there was no answer.
    pub code: u16,
    /// Message of the API server or the transport.
    pub message: String,
    /// Description of the write, for example `create Deployment ns/name`.
    pub action: String,
}

impl Failure {
    /// True if there was no answer: the write may or may not have been executed.
    pub fn is_unanswered(&self) -> bool {
        self.class == FailureClass::Retry && self.code == 0
    }

    /// True if the server refused it for a reason that lasts. Examples are a missing permission, a quota, an admission webhook, the
    /// object itself, or a namespace that is being deleted.
    pub fn is_refusal(&self) -> bool {
        let class = self.class;
        matches!(
            class,
            FailureClass::Forbidden | FailureClass::Invalid | FailureClass::Terminating
        ) || self.code == 403
    }
}

/// Result of one action.
#[derive(Debug, Clone)]
pub enum Outcome {
    /// Done, with the object as the server returned it (`null` after a deletion of several objects).
    Done(Arc<Value>),
    /// The object already existed and was not changed.
    Kept,
    /// The object was already deleted.
    Gone,
    /// Refused or unanswered.
    Failed(Failure),
    /// An earlier action failed.
    NotAttempted,
}

/// Results of a plan's actions, in order.
#[derive(Debug, Clone, Default)]
pub struct Outcomes {
    results: Vec<Outcome>,
    /// Warnings by index of the action.
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

    /// Sets whether the API server stopped answering.
    pub(crate) fn of_silent_server(self, is_silent: bool) -> Self {
        Self { is_silent, ..self }
    }

    /// True if neither the last action nor the read after it was answered; a further request would wait as long.
    pub(crate) fn is_silent(&self) -> bool {
        self.is_silent
    }

    #[doc(hidden)]
    #[must_use]
    pub fn with_warnings(self, warnings: BTreeMap<usize, Vec<String>>) -> Self {
        Self { warnings, ..self }
    }

    /// Returns the indices of successful actions for which the API server sent warnings, with their texts.
    pub fn warnings(&self) -> impl Iterator<Item = (usize, &[String])> {
        let done = |(index, _): &(&usize, _)| matches!(self.get(**index), Outcome::Done(_));
        let warnings = self.warnings.iter().filter(done);
        warnings.map(|(index, texts)| (*index, texts.as_slice()))
    }

    /// Returns the result of action `index`; an index beyond the plan was not attempted.
    pub fn get(&self, index: usize) -> &Outcome {
        self.results.get(index).unwrap_or(&Outcome::NotAttempted)
    }

    /// Returns all results in order.
    pub fn iter(&self) -> impl Iterator<Item = &Outcome> {
        self.results.iter()
    }

    /// Returns the first failed action with its index, if any.
    pub fn failure(&self) -> Option<(usize, &Failure)> {
        self.failures().next()
    }

    /// Returns all failed actions with their indices; a plan with independent actions may have several.
    pub fn failures(&self) -> impl Iterator<Item = (usize, &Failure)> {
        self.results
            .iter()
            .enumerate()
            .filter_map(|(index, outcome)| match outcome {
                Outcome::Failed(failure) => Some((index, failure)),
                _ => None,
            })
    }
}

/// Creates outcomes for tests of `status` functions, which cannot run an executor.
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
