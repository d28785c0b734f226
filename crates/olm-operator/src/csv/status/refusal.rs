//! What refused writes mean for the status.

use std::time::Duration;

use jiff::Timestamp;
use olm_api::{condition::csv as reason, v1alpha1::ClusterServiceVersionPhase as Phase};
use olm_runtime::{
    outcome::{Failure, FailureClass, Outcomes},
    plan::Identity,
};

use crate::csv::{
    decide::transitions::{Stage, Transition},
    observed::Observed,
    rbac::{self, objects::identity},
};

/// How long refused writes of an install are just repeated before the status speaks of them.
const PATIENCE: Duration = Duration::from_secs(5);

/// What was refused in a round.
pub(super) struct Refusal {
    class: FailureClass,
    /// The write and the cause, for people.
    message: String,
}

impl Refusal {
    /// The refusal that ended the round, else all places where rights could not be granted, with the first cause. `None` when all
    /// writes went through.
    pub(super) fn of(grants: &[rbac::Place], outcomes: &Outcomes) -> Option<Self> {
        let describe = |failure: &Failure| format!("{}: {}", failure.action, failure.message);
        if let Some((_, failure)) = outcomes.failures().find(|(index, _)| *index >= grants.len()) {
            return Some(Self {
                class: failure.class,
                message: describe(failure),
            });
        }
        let (_, first) = outcomes.failure()?;
        let refused = outcomes.failures().filter_map(|(index, _)| grants.get(index));
        let places = rbac::describe_places(refused);
        Some(Self {
            class: first.class,
            message: format!("rights are missing {places}: {}", describe(first)),
        })
    }

    /// Where it leads; `None` while the round is just repeated. A refusal that another attempt may get past never ends in phase
    /// Failed.
    pub(super) fn transition(&self, observed: &Observed, stage: Stage, now: Timestamp) -> Option<Transition> {
        match stage {
            Stage::Removal => None,
            Stage::Membership => self.of_membership(),
            Stage::Install => self.of_install(observed, now),
            Stage::Grants => self.of_grants(observed),
        }
    }

    fn of_membership(&self) -> Option<Transition> {
        let lasts = matches!(self.class, FailureClass::Forbidden | FailureClass::Invalid);
        lasts.then(|| {
            let message = format!(
                "membership in the OperatorGroup could not be written: {}",
                self.message
            );
            Transition::new(Phase::Pending, reason::REQUIREMENTS_UNKNOWN, message)
        })
    }

    fn of_install(&self, observed: &Observed, now: Timestamp) -> Option<Transition> {
        match self.class {
            FailureClass::Invalid => Some(self.failed(reason::INSTALL_COMPONENT_FAILED)),
            FailureClass::Forbidden if is_to_account(observed) => {
                Some(self.failed(reason::INSTALL_COMPONENT_FAILED_NO_RETRY))
            }
            FailureClass::Forbidden
            | FailureClass::Retry
            | FailureClass::Conflict
            | FailureClass::NotFound
            | FailureClass::AlreadyExists
            | FailureClass::Terminating => {
                (super::since_update(observed, now) >= PATIENCE).then(|| self.waiting())
            }
        }
    }

    fn of_grants(&self, observed: &Observed) -> Option<Transition> {
        match self.class {
            // The round was behind: a namespace or an object has changed, and the next one sees it.
            FailureClass::Conflict
            | FailureClass::AlreadyExists
            | FailureClass::NotFound
            | FailureClass::Terminating => None,
            FailureClass::Invalid => Some(self.failed(reason::INSTALL_COMPONENT_FAILED)),
            FailureClass::Forbidden if is_to_account(observed) => {
                Some(self.failed(reason::INSTALL_COMPONENT_FAILED_NO_RETRY))
            }
            FailureClass::Forbidden | FailureClass::Retry => Some(self.waiting()),
        }
    }

    fn failed(&self, reason: &'static str) -> Transition {
        let message = format!("install strategy failed: {}", self.message);
        Transition::new(Phase::Failed, reason, message)
    }

    fn waiting(&self) -> Transition {
        let message = format!("installing: {}", self.message);
        Transition::new(Phase::InstallReady, reason::INSTALL_WAITING, message)
    }
}

/// True when the account of the OperatorGroup is the one that is refused, and so on purpose. Our own is meant to be allowed
/// everything: its refusal is admission's, or a broken install of ours.
fn is_to_account(observed: &Observed) -> bool {
    identity(observed) != Identity::Operator
}
