//! What refused writes mean for the status.

use std::time::Duration;

use olm_api::{condition::csv as reason, v1alpha1::ClusterServiceVersionPhase as Phase};
use olm_runtime::{
    driver::TELL_AFTER,
    outcome::{Failure, FailureClass, Outcomes},
    plan::Identity,
};

use crate::csv::{
    decide::transitions::{Stage, Transition},
    observed::Observed,
    rbac::{self, objects::identity},
};

/// How a refusal is told.
pub(super) enum Telling {
    /// It decides about the phase.
    Transition(Transition),
    /// The phase stays, and this holds it up.
    Besides(String),
    /// Not before it has lasted so much longer.
    Later(Duration),
}

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

    /// How it is told, when writes have been refused for as long as `lasted`. A refusal that another attempt may get past never ends in
    /// phase Failed.
    pub(super) fn telling(&self, observed: &Observed, stage: Stage, lasted: Duration) -> Telling {
        let left = TELL_AFTER.checked_sub(lasted).filter(|left| !left.is_zero());
        match stage {
            Stage::Removal => self.besides(left, String::new()),
            Stage::Membership => self.besides(
                left,
                "membership in the OperatorGroup could not be written: ".to_owned(),
            ),
            Stage::Adoption => self.besides(
                left,
                "what another OLM made could not be taken over, and is left as it is: ".to_owned(),
            ),
            Stage::Install => self.of_install(observed, left),
            Stage::Grants => self.of_grants(observed, left),
        }
    }

    /// The phase is not what is refused, so it stays.
    fn besides(&self, left: Option<Duration>, what: String) -> Telling {
        let lasts = matches!(self.class, FailureClass::Forbidden | FailureClass::Invalid);
        match left.filter(|_| !lasts) {
            Some(left) => Telling::Later(left),
            None => Telling::Besides(what + &self.message),
        }
    }

    fn of_install(&self, observed: &Observed, left: Option<Duration>) -> Telling {
        match self.class {
            FailureClass::Invalid => self.failed(reason::INSTALL_COMPONENT_FAILED),
            FailureClass::Forbidden if is_to_account(observed) => self.refused_to_account(observed),
            FailureClass::Forbidden
            | FailureClass::Retry
            | FailureClass::Conflict
            | FailureClass::NotFound
            | FailureClass::AlreadyExists
            | FailureClass::Terminating => left.map_or_else(|| self.waiting(), Telling::Later),
        }
    }

    fn of_grants(&self, observed: &Observed, left: Option<Duration>) -> Telling {
        match self.class {
            // The round was behind: a namespace or an object has changed, and the next one sees it.
            FailureClass::Conflict
            | FailureClass::AlreadyExists
            | FailureClass::NotFound
            | FailureClass::Terminating => self.besides(left, String::new()),
            FailureClass::Invalid => self.failed(reason::INSTALL_COMPONENT_FAILED),
            FailureClass::Forbidden if is_to_account(observed) => self.refused_to_account(observed),
            FailureClass::Forbidden | FailureClass::Retry => self.waiting(),
        }
    }

    /// Of whom the API server speaks is told, too: whoever reads its words may never have heard of the account.
    fn refused_to_account(&self, observed: &Observed) -> Telling {
        let group = observed
            .group()
            .map(|group| format!("{}/{}", group.namespace, group.name));
        let message = format!(
            "install strategy failed: {} (account of OperatorGroup {})",
            self.message,
            group.unwrap_or_default()
        );
        let reason = reason::INSTALL_COMPONENT_FAILED_NO_RETRY;
        Telling::Transition(Transition::new(Phase::Failed, reason, message))
    }

    fn failed(&self, reason: &'static str) -> Telling {
        let message = format!("install strategy failed: {}", self.message);
        Telling::Transition(Transition::new(Phase::Failed, reason, message))
    }

    fn waiting(&self) -> Telling {
        let message = format!("installing: {}", self.message);
        Telling::Transition(Transition::new(
            Phase::InstallReady,
            reason::INSTALL_WAITING,
            message,
        ))
    }
}

/// True when the account of the OperatorGroup is the one that is refused, and so on purpose. Our own is meant to be allowed
/// everything: its refusal is admission's, or a broken install of ours.
fn is_to_account(observed: &Observed) -> bool {
    identity(observed) != Identity::Operator
}
