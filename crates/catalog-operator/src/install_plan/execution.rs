//! One reconcile of an executing plan: the writes of its steps, and the meaning of their results.
//!
//! Upstream executes strictly one step after the other and reads owners from the API server. Here a reconcile
//! is based on one observation. A step whose owner is still to be created is skipped, and done in the next
//! reconcile, when the owner's uid is known. The first step that fails ends the reconcile, as upstream.

mod complete;
mod step;
mod upgrade;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use k8s_openapi::api::core::v1::ObjectReference;
use olm_api::crd;
use olm_api::v1alpha1::{Step, StepResource, StepStatus};
use olm_runtime::plan::Action;

pub(super) use self::complete::encode_string_data;
use self::step::{Decision, StepDecider};
pub(super) use self::upgrade::{check_crd, shows_fields};
use super::observe::{self as observed, KnownStep, Observed, StepState};
use super::operator_group;
use crate::object;

/// Interval of the checks for states without a watch.
const POLL: Duration = Duration::from_secs(5);

/// Reason why a step cannot be executed now; the texts are upstream's where it has one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct StepError {
    /// Description of the error.
    pub message: String,
    /// Its meaning for the plan.
    pub class: ErrorClass,
}

/// Meaning of an error for the plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorClass {
    /// A kind that plans may not contain; lasting.
    UnsupportedKind,
    /// Long retries are pointless: it fails the plan once the retry window has passed.
    Lasting,
    /// Waiting can help, for example for an unresponsive registry.
    Passing,
    /// A user can resolve it with a change that a watch reports, which may take days.
    ForPeople,
}

impl StepError {
    pub(crate) fn lasting(message: String) -> Self {
        let class = ErrorClass::Lasting;
        Self { message, class }
    }

    /// The API of the step's object is not served.
    fn api_not_served(resource: &StepResource, api_version: &str) -> Self {
        let (kind, name) = (&resource.kind, &resource.name);
        Self::lasting(format!(
            "api-server resource not found installing {kind} {name}: GroupVersionKind {api_version}, Kind={kind} not found on the cluster. \
             This API may have been deprecated and removed, see https://kubernetes.io/docs/reference/using-api/deprecation-guide/ for more information."
        ))
    }

    /// True when long retries are pointless: such an error fails the plan once the retry window has passed.
    pub fn is_lasting(&self) -> bool {
        matches!(self.class, ErrorClass::UnsupportedKind | ErrorClass::Lasting)
    }

    /// True if a user can resolve it with a change that a watch reports.
    pub fn waits_for_people(&self) -> bool {
        self.class == ErrorClass::ForPeople
    }
}

/// Change of a step in a reconcile.
#[derive(Debug, Clone, PartialEq)]
pub struct StepChange {
    /// Index of the step in the plan.
    pub step: usize,
    /// Its status once `action` has succeeded.
    pub status: StepStatus,
    /// Index of the reconcile's action it depends on; `None` when no write is needed.
    pub action: Option<usize>,
}

/// The writes of a reconcile, with their meaning.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct StepWrites {
    /// In order; the decider stops at the first failure. They are moved into the plan: a verdict has none.
    pub actions: Vec<Action>,
    /// Indexes of the actions that change existing objects.
    pub patches: BTreeSet<usize>,
    /// Steps that change.
    pub changes: Vec<StepChange>,
    /// The step that stopped the reconcile, with its error.
    pub error: Option<(usize, StepError)>,
    /// Reason for a wait, if this reconcile cannot resolve it.
    pub waiting: Option<Wait>,
    /// True if steps are left that the next reconcile can do once these writes are done.
    pub goes_on: bool,
    /// Warnings by step, reported once its object is written: custom resources that do not match, left to a
    /// conversion webhook.
    pub crd_warnings: BTreeMap<usize, String>,
}

/// Reason and time of a wait.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wait {
    /// Message for users.
    pub text: String,
    /// Delay of the next check; `None` when a watch or the unpacker triggers it.
    pub look_again: Option<Duration>,
    /// True when it is too early for a report.
    pub is_debounced: bool,
}

impl Wait {
    /// Creates a wait for work in this process, which is not reported for some time.
    fn debounced(text: String, debounce: Option<Duration>) -> Self {
        Self {
            text,
            look_again: debounce,
            is_debounced: debounce.is_some(),
        }
    }

    /// Creates a wait for a change that is watched.
    fn watched(text: String) -> Self {
        Self::debounced(text, None)
    }

    /// Creates a wait for a change that is not watched.
    fn polled(text: String) -> Self {
        Self {
            text,
            look_again: Some(POLL),
            is_debounced: false,
        }
    }
}

/// Decides the writes for the plan's steps as observed.
pub(crate) fn decide_steps(observed: &Observed, service_account: Option<&ObjectReference>) -> StepWrites {
    // Reported before anything is applied, not halfway through.
    let refused = |(index, step, known)| Some((index, refused_crd(step, known)?));
    let error = observed.definitions().find_map(refused);
    let mut writes = StepWrites {
        error,
        ..StepWrites::default()
    };
    if writes.error.is_some() || !are_crds_upgradable(observed, &mut writes) {
        return writes;
    }
    let decider = StepDecider::new(observed, operator_group::identity(service_account));
    for (index, step) in observed.steps_to_do() {
        match decider.decide_step(index, step) {
            Ok(Decision::Write(action, status)) => writes.add_write(index, action, status),
            Ok(Decision::Settled(status)) => writes.changes.push(StepChange {
                step: index,
                status,
                action: None,
            }),
            Ok(Decision::PassedOver) => writes.goes_on = true,
            Ok(Decision::Waits(wait)) => writes.waiting = writes.waiting.or(Some(wait)),
            Ok(Decision::Blocks(wait)) => {
                writes.waiting = Some(wait);
                return writes;
            }
            Err(error) => {
                writes.error = Some((index, error));
                return writes;
            }
        }
    }
    writes
}

/// True when no definition blocks the plan: an operator without the definitions it needs would replace one
/// that works. Otherwise `writes` contains the error.
fn are_crds_upgradable(observed: &Observed, writes: &mut StepWrites) -> bool {
    for (index, step, known) in observed.definitions() {
        match check_crd(observed, index, step, known) {
            Ok(warning) => {
                let warning = warning.map(|warning| (index, warning));
                writes.crd_warnings.extend(warning);
            }
            Err(error) => writes.error = writes.error.take().or(Some((index, error))),
        }
    }
    writes.error.is_none()
}

/// Decides the writes that restore missing objects of a finished plan; only objects observed as missing are
/// known.
pub(crate) fn decide_restoration(
    observed: &Observed,
    service_account: Option<&ObjectReference>,
) -> StepWrites {
    let decider = StepDecider::new(observed, operator_group::identity(service_account));
    let mut writes = StepWrites::default();
    for (index, step) in observed::steps(&observed.install_plan).iter().enumerate() {
        let StepState::Known(known) = observed.state(index) else {
            continue;
        };
        match decider.restore(step, known) {
            Ok(Decision::Write(action, status)) => writes.add_write(index, action, status),
            Ok(Decision::Waits(wait) | Decision::Blocks(wait)) => writes.waiting = Some(wait),
            Ok(Decision::Settled(_) | Decision::PassedOver) => {}
            Err(error) => writes.error = writes.error.or(Some((index, error))),
        }
    }
    writes
}

impl StepWrites {
    /// Returns the first change that depends on the action of this index.
    pub(crate) fn change_of(&self, action: usize) -> Option<&StepChange> {
        self.changes.iter().find(|change| change.action == Some(action))
    }

    /// Adds a write. Bundles often contain a ServiceAccount that their permissions imply as well, and two
    /// bundles may contain the same object, so a write is not repeated. An equal write counts for both steps.
    /// A different one is left to the next reconcile, which compares it with the result of the first.
    fn add_write(&mut self, step: usize, action: Action, mut status: StepStatus) {
        let index = match self
            .actions
            .iter()
            .position(|earlier| earlier.target() == action.target())
        {
            None => {
                if matches!(action, Action::Patch { .. }) {
                    self.patches.insert(self.actions.len());
                }
                self.actions.push(action);
                self.actions.len() - 1
            }
            Some(earlier) if self.actions[earlier] == action => {
                status = if status == StepStatus::Created {
                    StepStatus::Present
                } else {
                    status
                };
                earlier
            }
            Some(_) => {
                self.goes_on = true;
                return;
            }
        };
        self.changes.push(StepChange {
            step,
            status,
            action: Some(index),
        });
    }
}

/// Returns an error for a CustomResourceDefinition step in a version that is not served any more, or never
/// was. Only the version counts, as for upstream, because the kind determines the group.
fn refused_crd(step: &Step, known: &KnownStep) -> Option<StepError> {
    let (_, version) = object::group_version(object::api_version(&known.object));
    match version {
        crd::VERSION => None,
        crd::OLD_VERSION => Some(StepError::api_not_served(&step.resource, crd::OLD_API_VERSION)),
        other => Some(StepError::lasting(format!(
            "CRD APIVersion from manifest not supported: {other}"
        ))),
    }
}
