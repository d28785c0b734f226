//! Maps refused writes to the status.
//!
//! The stage of the reconcile decides. During an install, an invalid object, or one refused to the account of the OperatorGroup,
//! leads to phase Failed; other refusals lead to InstallReady with the cause, once they have lasted for [`TELL_AFTER`]. In the
//! other stages the phase stays, and the cause is added to its message (`csv/held_up.rs`). Rights beyond the namespace that
//! were refused never affect the phase: they become rows of the requirements ([`MissingRights`]).

use std::{collections::BTreeMap, time::Duration};

use olm_api::{
    condition::csv as reason,
    v1alpha1::{ClusterServiceVersionPhase as Phase, RequirementStatus},
};
use olm_runtime::{
    driver::TELL_AFTER,
    outcome::{FailureClass, Outcomes},
    plan::Identity,
};

use crate::csv::{
    decide::transitions::{Stage, Transition},
    observed::Observed,
    rbac::{self, identity},
    requirements,
};

/// The way in which a refusal is reported.
pub(super) enum Telling {
    /// It determines the phase.
    Transition(Transition),
    /// The phase does not change, and this is added to its message.
    Besides(String),
    /// It is reported once it has lasted this much longer.
    Later(Duration),
}

/// Refused write of a reconcile.
pub(super) struct Refusal {
    class: FailureClass,
    /// The write and the cause, for users.
    message: String,
}

/// Rights that could not be granted beyond the namespace. They do not affect the phase.
pub(super) struct MissingRights {
    /// Rows to report, by the name of the role or binding.
    rows: Vec<RequirementStatus>,
    /// True when another attempt may succeed, so it is not reported at once.
    passes: bool,
}

impl MissingRights {
    /// Returns the refusals among the first `grants` writes; `None` when all succeeded.
    pub(super) fn of(grants: &[rbac::Place], outcomes: &Outcomes) -> Option<Self> {
        let mut by_cause: BTreeMap<String, (String, Vec<&rbac::Place>)> = BTreeMap::new();
        let mut passes = true;
        for (index, failure) in outcomes.failures() {
            let Some(place) = grants.get(index) else { continue };
            // A binding to a Role that was just refused fails for that reason.
            let name = failure.action.rsplit(['/', ' ']).next().unwrap_or_default();
            passes &= !matches!(
                failure.class,
                FailureClass::Forbidden | FailureClass::Invalid | FailureClass::AlreadyExists
            );
            let cause = match failure.class {
                FailureClass::AlreadyExists => {
                    format!("{}: the name is in use by another object", failure.action)
                }
                _ => format!("{}: {}", failure.action, failure.message),
            };
            let (_, places) = by_cause.entry(name.to_owned()).or_insert((cause, Vec::new()));
            places.push(place);
        }
        let rows: Vec<RequirementStatus> = by_cause
            .iter()
            .map(|(name, (cause, places))| {
                let places = rbac::describe_places(places.iter().copied());
                requirements::missing_rights(name, &places, cause)
            })
            .collect();
        (!rows.is_empty()).then_some(Self { rows, passes })
    }

    /// Returns the rows to report after this duration; `None` when it is too early.
    pub(super) fn report(self, lasted: Duration) -> Option<Vec<RequirementStatus>> {
        (!self.passes || lasted >= TELL_AFTER).then_some(self.rows)
    }
}

impl Refusal {
    /// Returns the refusal that ended the reconcile, without the first `grants` writes, which grant rights
    /// beyond the namespace. `None` when all others succeeded.
    pub(super) fn of(grants: usize, outcomes: &Outcomes) -> Option<Self> {
        let (_, failure) = outcomes.failures().find(|(index, _)| *index >= grants)?;
        Some(Self {
            class: failure.class,
            message: format!("{}: {}", failure.action, failure.message),
        })
    }

    /// Returns how it is reported, after writes have been refused for `lasted`. A refusal that another
    /// attempt may overcome never leads to phase Failed.
    pub(super) fn telling(self, observed: &Observed, stage: Stage, lasted: Duration) -> Telling {
        let left = TELL_AFTER.checked_sub(lasted).filter(|left| !left.is_zero());
        let Self { class, message } = self;
        let besides = match stage {
            Stage::Install => return of_install(observed, class, &message, left),
            // The operator runs, or is removed: the writes are retried.
            Stage::Grants | Stage::Removal => "",
            Stage::Membership => "cannot write the membership in the OperatorGroup: ",
            Stage::Adoption => "cannot adopt objects that another OLM has created, leaving them unchanged: ",
        };
        let lasts = matches!(class, FailureClass::Forbidden | FailureClass::Invalid);
        match left.filter(|_| !lasts) {
            Some(left) => Telling::Later(left),
            None => Telling::Besides(format!("{besides}{message}")),
        }
    }
}

fn of_install(observed: &Observed, class: FailureClass, message: &str, left: Option<Duration>) -> Telling {
    Telling::Transition(match (class, left) {
        (FailureClass::Invalid, _) => {
            let message = format!("install strategy failed: {message}");
            Transition::new(Phase::Failed, reason::INSTALL_COMPONENT_FAILED, message)
        }
        // The write was refused to the account of the OperatorGroup, which is intended. OLM's own account may do everything, so a refusal
        // of it comes from admission or a broken installation.
        (FailureClass::Forbidden, _) if identity(observed) != Identity::Operator => {
            // Readers of the API server's message may not know the account.
            let group = observed.group();
            let group = group.map(|group| format!("{}/{}", group.namespace, group.name));
            let message = format!(
                "install strategy failed: {message} (account of OperatorGroup {})",
                group.unwrap_or_default()
            );
            Transition::new(Phase::Failed, reason::INSTALL_COMPONENT_FAILED_NO_RETRY, message)
        }
        (_, Some(left)) => return Telling::Later(left),
        (_, None) => {
            let message = format!("installing: {message}");
            Transition::new(Phase::InstallReady, reason::INSTALL_WAITING, message)
        }
    })
}
