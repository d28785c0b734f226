//! One round of carrying out a plan: which writes its steps need now, and what their results will mean.
//!
//! Upstream executes strictly one step after the other and reads owners from the API server as it goes. Here a round is decided on
//! one observation: a step whose owner is itself still to be created is passed over, and done in the next round, when the owner's
//! uid is known. The first step that cannot be done ends the round, as upstream.

mod complete;
mod step;
mod upgrade;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use k8s_openapi::api::core::v1::ObjectReference;
use olm_api::crd;
use olm_api::v1alpha1::{Step, StepStatus};
use olm_runtime::plan::Action;

pub(super) use self::complete::encode_string_data;
use self::step::{Decision, StepDecider, StepWrite};
use self::upgrade::{Upgrade, check_crd};
use super::crd_upgrade::CrdUpgradeError;
use super::csv_ownership::OwnershipError;
use super::observe::{self as observed, Observed, StepState};
use super::operator_group;
use crate::object;
use crate::step_kind::StepKind;

/// Time between two looks at what no watch tells.
const POLL: Duration = Duration::from_secs(5);

/// Why a step cannot be carried out now; the texts are upstream's where upstream has one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StepError {
    /// A kind that plans may not contain.
    #[error("the InstallPlan contains invalid data: no plan may contain {kind} {name}")]
    UnsupportedKind {
        /// The kind.
        kind: String,
        /// Name of the object.
        name: String,
    },
    /// A step status nobody writes.
    #[error("the InstallPlan contains invalid data")]
    InvalidData,
    /// The step's object cannot be had.
    #[error("{message}")]
    Manifest {
        /// What is wrong.
        message: String,
        /// False when waiting can help, as with a registry that does not answer.
        lasting: bool,
    },
    /// The API of the step's object is not served.
    #[error(
        "api-server resource not found installing {kind} {name}: GroupVersionKind {api_version}, Kind={kind} not found on the cluster. \
         This API may have been deprecated and removed, see https://kubernetes.io/docs/reference/using-api/deprecation-guide/ for more information."
    )]
    ApiNotServed {
        /// Kind of the object.
        kind: String,
        /// Name of the object.
        name: String,
        /// Group and version.
        api_version: String,
    },
    /// A CustomResourceDefinition in a form nobody has ever served.
    #[error("CRD APIVersion from manifest not supported: {0}")]
    CrdVersion(String),
    /// The ClusterServiceVersion that is to own the object does not exist.
    #[error(
        "error generating ownerrefs for {kind}: {name}: clusterserviceversions.operators.coreos.com \"{csv}\" not found"
    )]
    OwnerMissing {
        /// Kind of the object in lower case.
        kind: String,
        /// Name of the object.
        name: String,
        /// The missing owner.
        csv: String,
    },
    /// Changing the CustomResourceDefinition would lose data.
    #[error(transparent)]
    CrdUpgrade(#[from] CrdUpgradeError),
    /// The ClusterServiceVersion would take an API away from another one.
    #[error(transparent)]
    Ownership(#[from] OwnershipError),
}

impl StepError {
    /// Whether trying again for long is pointless: such an error makes the plan fail once the retry window is over.
    pub fn is_lasting(&self) -> bool {
        match self {
            Self::Manifest { lasting, .. } => *lasting,
            Self::CrdUpgrade(error) => error.is_lasting(),
            _ => true,
        }
    }

    /// True if a user can end it by a change that a watch reports.
    pub fn waits_for_people(&self) -> bool {
        matches!(self, Self::CrdUpgrade(error) if error.waits_for_people())
    }
}

/// What becomes of a step in a round.
#[derive(Debug, Clone, PartialEq)]
pub struct StepChange {
    /// Index of the step in the plan.
    pub step: usize,
    /// Its status once `action` has succeeded.
    pub status: StepStatus,
    /// Index of the round's action it depends on; none when nothing has to be written.
    pub action: Option<usize>,
    /// What goes before the cause when the action fails.
    pub error_prefix: String,
}

/// The writes of a round and their meaning.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct StepWrites {
    /// In order; the decider stops at the first failure. They go into the plan: a verdict has none.
    pub actions: Vec<Action>,
    /// Indices of those that change what is there.
    pub patches: BTreeSet<usize>,
    /// Steps that change.
    pub changes: Vec<StepChange>,
    /// The step that stopped the round, and why.
    pub error: Option<(usize, StepError)>,
    /// What is waited for, when it is nothing this round could do.
    pub waiting: Option<Wait>,
    /// By step, what is told once its object is written: custom resources that do not fit, left to a conversion webhook.
    pub crd_warnings: BTreeMap<usize, String>,
}

/// Something to wait for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wait {
    /// What, for people.
    pub text: String,
    /// When to look again; none when a watch or the unpacker tells.
    pub look_again: Option<Duration>,
    /// True when it is too early to tell anybody.
    pub is_debounced: bool,
}

impl Wait {
    /// Waits for something that a watch tells.
    fn watched(text: String) -> Self {
        Self {
            text,
            look_again: None,
            is_debounced: false,
        }
    }

    /// Waits for something that nobody tells.
    fn polled(text: String) -> Self {
        Self {
            text,
            look_again: Some(POLL),
            is_debounced: false,
        }
    }
}

/// Decides the round for the plan's steps as observed.
pub(crate) fn decide_round(observed: &Observed, service_account: Option<&ObjectReference>) -> StepWrites {
    // Told before anything is applied, instead of halfway through.
    let refused = |(index, step)| Some((index, refused_crd(step, observed.state(index))?));
    let error = observed.steps_to_do().find_map(refused);
    let mut round = StepWrites {
        error,
        ..StepWrites::default()
    };
    if round.error.is_some() || !are_crds_upgradable(observed, &mut round) {
        return round;
    }
    let decider = StepDecider::new(observed, operator_group::identity(service_account));
    for (index, step) in observed.steps_to_do() {
        match decider.decide_step(index, step) {
            Ok(Decision::Write(write)) => round.add_write(index, write),
            Ok(Decision::Settled(status)) => round.changes.push(StepChange {
                step: index,
                status,
                action: None,
                error_prefix: String::new(),
            }),
            Ok(Decision::PassedOver) => {}
            Ok(Decision::Waits(wait)) => round.waiting = round.waiting.or(Some(wait)),
            Ok(Decision::Blocks(wait)) => {
                round.waiting = Some(wait);
                return round;
            }
            Err(error) => {
                round.error = Some((index, error));
                return round;
            }
        }
    }
    round
}

/// Whether no definition stands in the way: an operator that came without the definitions it needs would replace one that works.
/// Otherwise `round` says what is wrong or waited for.
fn are_crds_upgradable(observed: &Observed, round: &mut StepWrites) -> bool {
    for (index, step) in observed.steps_to_do() {
        let StepState::Known(known) = observed.state(index) else {
            continue;
        };
        if StepKind::of(&step.resource.kind) != Some(StepKind::CustomResourceDefinition) {
            continue;
        }
        match check_crd(observed, index, step, known) {
            Ok(Upgrade::Safe) => {}
            Ok(Upgrade::Warned(warning)) => {
                round.crd_warnings.insert(index, warning);
            }
            Ok(Upgrade::Waits(wait)) => round.waiting = round.waiting.take().or(Some(wait)),
            Err(error) => round.error = round.error.take().or(Some((index, error.into()))),
        }
    }
    round.error.is_none() && round.waiting.is_none()
}

/// Decides the round that brings back what is missing of a plan that is over; only what was observed as missing is known.
pub(crate) fn decide_restoration(
    observed: &Observed,
    service_account: Option<&ObjectReference>,
) -> StepWrites {
    let decider = StepDecider::new(observed, operator_group::identity(service_account));
    let mut round = StepWrites::default();
    for (index, step) in observed::steps(&observed.install_plan).iter().enumerate() {
        let StepState::Known(known) = observed.state(index) else {
            continue;
        };
        match decider.restore(step, known) {
            Ok(Decision::Write(write)) => round.add_write(index, write),
            Ok(Decision::Waits(wait) | Decision::Blocks(wait)) => round.waiting = Some(wait),
            Ok(Decision::Settled(_) | Decision::PassedOver) => {}
            Err(error) => round.error = round.error.or(Some((index, error))),
        }
    }
    round
}

impl StepWrites {
    /// Bundles often bring a ServiceAccount that their permissions imply as well, and two bundles may bring the same object:
    /// what this round writes already is not written again. An equal write does for both steps, one that differs is looked at
    /// in the next round, when it can be compared with what has become of the first.
    fn add_write(&mut self, step: usize, write: StepWrite) {
        let StepWrite {
            action,
            mut status,
            error_prefix,
        } = write;
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
            Some(_) => return,
        };
        self.changes.push(StepChange {
            step,
            status,
            action: Some(index),
            error_prefix,
        });
    }
}

/// A CustomResourceDefinition step in a version that is not served any more, or never was. Only the version counts, as for
/// upstream: the kind leaves no doubt about the group.
fn refused_crd(step: &Step, state: &StepState) -> Option<StepError> {
    let StepState::Known(known) = state else {
        return None;
    };
    if StepKind::of(&step.resource.kind) != Some(StepKind::CustomResourceDefinition) {
        return None;
    }
    let (_, version) = object::group_version(object::api_version(&known.object));
    match version {
        crd::VERSION => None,
        crd::OLD_VERSION => Some(StepError::ApiNotServed {
            kind: step.resource.kind.clone(),
            name: step.resource.name.clone(),
            api_version: crd::OLD_API_VERSION.to_owned(),
        }),
        other => Some(StepError::CrdVersion(other.to_owned())),
    }
}
