//! One round of carrying out a plan: which writes its steps need now, and what their results will mean.
//!
//! Upstream executes strictly one step after the other and reads owners from the API server as it goes. Here a round is decided on
//! one observation: a step whose owner is itself still to be created is passed over, and done in the next round, when the owner's
//! uid is known. The first step that cannot be done ends the round, as upstream.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::ObjectReference;
use kube::{ResourceExt, core::ApiResource};
use olm_api::labels;
use olm_api::v1alpha1::{Step, StepStatus};
use olm_runtime::plan::{Action, Exists, Guard, Identity, Target};
use serde_json::Value;

use super::crd_upgrade::{self, CrdUpgradeError};
use super::csv_ownership::{OwnershipError, check_owned_crds};
use super::kind::StepKind;
use super::observe::{Observed, StepState};
use super::step_write::{Write, write_for};
use super::{FIELD_MANAGER, object, operator_group};

/// Why a step cannot be carried out now; the texts are upstream's where upstream has one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StepError {
    /// A kind that plans may not contain, or a step status nobody writes.
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
        !matches!(self, Self::Manifest { lasting: false, .. })
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
pub struct Round {
    /// In order; the executor stops at the first failure.
    pub actions: Vec<Action>,
    /// Steps that change.
    pub changes: Vec<StepChange>,
    /// The step that stopped the round, and why.
    pub error: Option<(usize, StepError)>,
    /// What is waited for, when it is nothing this round could do.
    pub waiting: Option<String>,
}

/// Decides the round for the plan's steps as observed.
pub fn decide_round(observed: &Observed, service_account: Option<&ObjectReference>) -> Round {
    let mut round = Round::default();
    // Told before anything is applied, instead of halfway through.
    round.error = observed
        .steps_to_do()
        .find_map(|(index, step)| Some((index, refused_crd(step, observed.state(index))?)));
    if round.error.is_some() {
        return round;
    }
    let mut written = BTreeSet::new();
    let executor = StepExecutor {
        observed,
        identity: operator_group::identity(service_account),
    };
    for (index, step) in observed.steps_to_do() {
        match executor.execute(index, step) {
            // Written by an earlier step of this round: how it differs from this one's is seen in the next.
            Ok(Decision::Write { ref action, .. }) if !written.insert(target_text(action)) => {}
            Ok(Decision::Write {
                action,
                status,
                error_prefix,
            }) => {
                let action_index = round.actions.len();
                round.actions.push(action);
                round.changes.push(StepChange {
                    step: index,
                    status,
                    action: Some(action_index),
                    error_prefix,
                });
            }
            Ok(Decision::Settled(status)) => {
                round.changes.push(StepChange {
                    step: index,
                    status,
                    action: None,
                    error_prefix: String::new(),
                });
            }
            Ok(Decision::PassedOver) => {}
            Ok(Decision::Waits(text)) => round.waiting = round.waiting.or(Some(text)),
            Ok(Decision::Blocks(text)) => {
                round.waiting = Some(text);
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

/// A CustomResourceDefinition step in a version that is not served any more, or never was.
fn refused_crd(step: &Step, state: &StepState) -> Option<StepError> {
    let StepState::Known { object, .. } = state else {
        return None;
    };
    if StepKind::of(&step.resource.kind) != Some(StepKind::CustomResourceDefinition) {
        return None;
    }
    match object::api_version(object) {
        crd_upgrade::V1 => None,
        crd_upgrade::V1BETA1 => Some(StepError::ApiNotServed {
            kind: step.resource.kind.clone(),
            name: step.resource.name.clone(),
            api_version: crd_upgrade::V1BETA1.to_owned(),
        }),
        other => Some(StepError::CrdVersion(object::group_version(other).1.to_owned())),
    }
}

enum Decision {
    /// One write, and the step's status after it.
    Write {
        action: Action,
        status: StepStatus,
        error_prefix: String,
    },
    /// Nothing to write: the step has this status.
    Settled(StepStatus),
    /// The step's owner is created in this round.
    PassedOver,
    /// Nothing to do but wait; later steps go on.
    Waits(String),
    /// Nothing to do but wait, and later steps wait too.
    Blocks(String),
}

struct StepExecutor<'a> {
    observed: &'a Observed,
    identity: Identity,
}

impl StepExecutor<'_> {
    fn execute(&self, index: usize, step: &Step) -> Result<Decision, StepError> {
        let kind = StepKind::of(&step.resource.kind).ok_or(StepError::InvalidData)?;
        if !matches!(
            step.status,
            StepStatus::Unknown | StepStatus::NotPresent | StepStatus::WaitingForApi
        ) {
            return Err(StepError::InvalidData);
        }
        let (object, api, namespaced, current) = match self.observed.state(index) {
            StepState::Known {
                object,
                api,
                namespaced,
                current,
            } => (object, api, *namespaced, current.as_deref()),
            StepState::OwnerPending => return Ok(Decision::PassedOver),
            StepState::Fetching { message } => return Ok(Decision::Blocks(message.clone())),
            StepState::Broken { message, lasting } => {
                return Err(StepError::Manifest {
                    message: message.clone(),
                    lasting: *lasting,
                });
            }
            StepState::NotServed => {
                let resource = &step.resource;
                return Err(StepError::ApiNotServed {
                    kind: resource.kind.clone(),
                    name: resource.name.clone(),
                    api_version: join_group_version(&resource.group, &resource.version),
                });
            }
            StepState::Done => return Ok(Decision::Settled(step.status.clone())),
        };
        if kind == StepKind::CustomResourceDefinition {
            return self.execute_crd(step, object, current);
        }
        let Some(object) = self.complete(kind, step, object, namespaced)? else {
            return Ok(Decision::PassedOver);
        };
        if kind == StepKind::ClusterServiceVersion {
            if !self
                .observed
                .install_plan
                .spec
                .cluster_service_version_names
                .contains(&step.resource.name)
            {
                check_owned_crds(&object, &self.observed.namespace(), &self.observed.csvs)?;
            }
            if self.observed.find_csv(object::name(&object)).is_some() {
                return Ok(Decision::Settled(StepStatus::Present));
            }
        }
        let namespace = namespaced.then(|| self.observed.namespace());
        let target = Target::dynamic(api.clone(), namespace.as_deref(), &step.resource.name);
        Ok(self.decision(kind, step, target, current, object, &self.identity))
    }

    /// The decision for the difference between the object in the cluster and the step's.
    fn decision(
        &self,
        kind: StepKind,
        step: &Step,
        target: Target,
        current: Option<&Value>,
        object: Value,
        identity: &Identity,
    ) -> Decision {
        let error_prefix = kind.error_prefix(&step.resource.name, current.is_none());
        let status = if current.is_none() {
            StepStatus::Created
        } else {
            StepStatus::Present
        };
        let identity = identity.clone();
        let action = match write_for(kind, current, object) {
            Write::Nothing => return Decision::Settled(status),
            // Not read before: whether it is there is seen from the answer.
            Write::Create(object) if !kind.reads_current() => Action::Create {
                target,
                object,
                exists: Exists::Keep,
                identity,
            },
            Write::Create(object) => Action::Create {
                target,
                object,
                exists: Exists::Fail,
                identity,
            },
            Write::Apply(object) => Action::Apply {
                target,
                object,
                manager: FIELD_MANAGER,
                identity,
            },
            Write::Patch(patch) => Action::Patch {
                target,
                patch,
                subresource: None,
                guard: guard(current),
                identity,
            },
        };
        Decision::Write {
            action,
            status,
            error_prefix,
        }
    }

    /// The object with everything that only the plan knows: namespace, labels, owners. `None` while an owner is still to come.
    fn complete(
        &self,
        kind: StepKind,
        step: &Step,
        object: &Value,
        namespaced: bool,
    ) -> Result<Option<Value>, StepError> {
        let namespace = self.observed.namespace();
        let mut object = object.clone();
        object::strip_server_fields(&mut object);
        set_type(&mut object, step);
        object::metadata_map_mut(&mut object, "labels")
            .insert(labels::MANAGED.to_owned(), labels::TRUE.into());
        if namespaced {
            object::map_mut(&mut object, "metadata").insert("namespace".to_owned(), namespace.clone().into());
        }
        if kind == StepKind::Subscription {
            let generated_by = self.observed.install_plan.name_any();
            object::metadata_map_mut(&mut object, "annotations")
                .insert(labels::GENERATED_BY.to_owned(), generated_by.into());
        }
        if kind == StepKind::BundleSecret {
            encode_string_data(&mut object);
        }
        let mut owners = object::owner_references(&object).to_vec();
        if kind.has_owner() && !step.resolving.is_empty() {
            if !namespaced {
                object::set_owner_labels(&mut object, &step.resolving, &namespace);
            } else if !owners
                .iter()
                .any(|owner| object::is_csv_reference(owner) && owner["name"] == *step.resolving)
            {
                owners.push(object::csv_owner_reference(&step.resolving, ""));
            }
        }
        for owner in owners.iter_mut().filter(|owner| object::is_csv_reference(owner)) {
            let name = owner.get("name").and_then(Value::as_str).unwrap_or_default();
            match self.observed.find_csv(name).and_then(|csv| csv.uid()) {
                Some(uid) => owner["uid"] = uid.into(),
                None if self.observed.creates_csv(name) => return Ok(None),
                None => {
                    return Err(StepError::OwnerMissing {
                        kind: step.resource.kind.to_lowercase(),
                        name: step.resource.name.clone(),
                        csv: name.to_owned(),
                    });
                }
            }
        }
        if !owners.is_empty() {
            object::map_mut(&mut object, "metadata").insert("ownerReferences".to_owned(), owners.into());
        }
        Ok(Some(object))
    }

    /// CustomResourceDefinitions are shared by the whole cluster: created with a note of who brought them, changed only when no
    /// stored object can be lost, and always in the operator's own name.
    fn execute_crd(
        &self,
        step: &Step,
        object: &Value,
        current: Option<&Value>,
    ) -> Result<Decision, StepError> {
        let name = &step.resource.name;
        let waits = || {
            Decision::Waits(format!(
                "waiting for CustomResourceDefinition {name} to be established"
            ))
        };
        if step.status == StepStatus::WaitingForApi
            && let Some(current) = current
        {
            let established = crd_upgrade::is_established(current);
            return Ok(if established {
                Decision::Settled(StepStatus::Created)
            } else {
                waits()
            });
        }
        let mut wanted = object.clone();
        object::strip_server_fields(&mut wanted);
        object::metadata_map_mut(&mut wanted, "labels")
            .insert(labels::MANAGED.to_owned(), labels::TRUE.into());
        crd_upgrade::note_installed_alongside(&mut wanted, &self.observed.namespace(), &step.resolving);
        let target = Target::dynamic(crd_resource(), None, name);
        let Some(current) = current else {
            let created = self.decision(
                StepKind::CustomResourceDefinition,
                step,
                target,
                None,
                wanted,
                &Identity::Operator,
            );
            return Ok(match created {
                Decision::Write {
                    action, error_prefix, ..
                } => Decision::Write {
                    action,
                    status: StepStatus::WaitingForApi,
                    error_prefix,
                },
                other => other,
            });
        };
        crd_upgrade::check_stored_versions(current, &wanted)?;
        // A definition found unestablished was made a moment ago, perhaps by this very plan before a restart.
        let status = if crd_upgrade::is_established(current) {
            StepStatus::Present
        } else {
            StepStatus::WaitingForApi
        };
        let merged = crd_upgrade::merged(current, &wanted, |csv| self.observed.living_csvs.contains(csv));
        let error_prefix = StepKind::CustomResourceDefinition.error_prefix(name, false);
        Ok(match olm_runtime::plan::merge_patch(current, &merged) {
            Some(patch) => Decision::Write {
                action: Action::patch(target, patch, guard(Some(current))),
                status,
                error_prefix,
            },
            None if status == StepStatus::WaitingForApi => waits(),
            None => Decision::Settled(status),
        })
    }
}

fn target_text(action: &Action) -> String {
    match action {
        Action::Apply { target, .. }
        | Action::Create { target, .. }
        | Action::Patch { target, .. }
        | Action::Delete { target, .. } => target.to_string(),
        Action::DeleteSelected { .. } => action.to_string(),
    }
}

fn guard(current: Option<&Value>) -> Guard {
    let text = |field| {
        current
            .and_then(|current| object::metadata_text(current, field))
            .map(str::to_owned)
    };
    Guard {
        uid: text("uid"),
        resource_version: text("resourceVersion"),
    }
}

fn crd_resource() -> ApiResource {
    ApiResource::erase::<
        k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
    >(&())
}

/// Objects in plans may lack type and name at their head (upstream's generated Subscriptions do); the step has them.
fn set_type(object: &mut Value, step: &Step) {
    let resource = &step.resource;
    if object::api_version(object).is_empty() {
        object["apiVersion"] = join_group_version(&resource.group, &resource.version).into();
    }
    if object::kind(object).is_empty() {
        object["kind"] = resource.kind.trim_start_matches("Bundle").into();
    }
}

fn join_group_version(group: &str, version: &str) -> String {
    if group.is_empty() {
        version.to_owned()
    } else {
        format!("{group}/{version}")
    }
}

/// `stringData` is write-only; as `data` it can be compared with what is in the cluster.
fn encode_string_data(secret: &mut Value) {
    let Some(Value::Object(text)) = secret.as_object_mut().and_then(|map| map.remove("stringData")) else {
        return;
    };
    let data = object::map_mut(secret, "data");
    for (key, value) in text {
        let bytes = k8s_openapi::ByteString(value.as_str().unwrap_or_default().as_bytes().to_vec());
        data.insert(key, olm_runtime::plan::to_value(&bytes));
    }
}
