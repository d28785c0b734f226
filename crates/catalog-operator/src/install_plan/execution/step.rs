//! Decides the action of one step: a write, a status without a write, or a wait. No I/O.
//!
//! `complete.rs` completes the object of the step, and `step_write.rs` finds what differs from the live one. A
//! ClusterServiceVersion that exists is never changed. A CustomResourceDefinition is changed only if `upgrade.rs` finds no
//! stored object that would be lost. An object that is being deleted is waited for. Restoring a finished plan's objects uses
//! the same decisions ([`StepDecider::restore`]).

use std::collections::BTreeMap;

use olm_api::v1alpha1::{Step, StepStatus};
use olm_api::{crd, labels};
use olm_runtime::plan::{Action, Exists, Guard, Identity, Target, merge_patch};
use serde_json::Value;

use super::complete::complete;
use super::{ErrorClass, StepError, Wait};
use crate::component;
use crate::install_plan::conversion_ca;
use crate::install_plan::crd_upgrade;
use crate::install_plan::csv_ownership::check_owned_crds;
use crate::install_plan::observe::{KnownStep, NoObject, Observed, StepState};
use crate::install_plan::step_write::{Write, write_for};
use crate::object;
use crate::step_kind::StepKind;

/// Action of a step.
// Only one exists at a time, on the stack.
#[allow(clippy::large_enum_variant)]
pub(super) enum Decision {
    /// A single write, and the status of the step after it.
    Write(Action, StepStatus),
    /// No write: the step has this status.
    Settled(StepStatus),
    /// The step's owner is created in this reconcile.
    PassedOver,
    /// The step waits; later steps continue.
    Waits(Wait),
    /// The step waits, and so do later steps.
    Blocks(Wait),
}

/// Decides the steps of one plan.
pub(super) struct StepDecider<'a> {
    observed: &'a Observed,
    identity: Identity,
    /// Component labels, by ClusterServiceVersion.
    labels: BTreeMap<String, String>,
}

impl<'a> StepDecider<'a> {
    pub(super) fn new(observed: &'a Observed, identity: Identity) -> Self {
        Self {
            observed,
            identity,
            labels: component::labels_of_plan(&observed.install_plan),
        }
    }

    pub(super) fn decide_step(&self, index: usize, step: &Step) -> Result<Decision, StepError> {
        let resource = &step.resource;
        let kind = supported_kind(step)?;
        if !matches!(
            step.status,
            StepStatus::Unknown | StepStatus::NotPresent | StepStatus::WaitingForApi
        ) {
            // OLM never writes another status here.
            let message = "the InstallPlan contains invalid data".to_owned();
            return Err(StepError::lasting(message));
        }
        match self.observed.state(index) {
            StepState::Known(known) => self.decide_known(kind, step, known),
            StepState::OwnerPending => Ok(Decision::PassedOver),
            StepState::Missing(NoObject::Fetching { message, debounce }) => {
                Ok(Decision::Blocks(Wait::debounced(message.clone(), *debounce)))
            }
            StepState::Missing(NoObject::Broken(error)) => Err(error.clone()),
            StepState::NotServed(api_version) => Err(StepError::api_not_served(resource, api_version)),
            StepState::Done => Ok(Decision::Settled(step.status.clone())),
        }
    }

    /// Decides the action that restores the object of a step of a finished plan.
    pub(super) fn restore(&self, step: &Step, known: &KnownStep) -> Result<Decision, StepError> {
        let kind = supported_kind(step)?;
        self.decide_known(kind, step, known)
    }

    fn decide_known(&self, kind: StepKind, step: &Step, known: &KnownStep) -> Result<Decision, StepError> {
        let KnownStep {
            object,
            api,
            namespaced,
            current,
        } = known;
        let (namespaced, current) = (*namespaced, current.as_ref());
        let name = &step.resource.name;
        if current.is_some_and(|current| object::metadata_text(current, "deletionTimestamp").is_some()) {
            // A change would be lost in a moment.
            let text = format!("waiting for deletion of {} {name}", api.kind);
            return Ok(Decision::Waits(Wait::polled(text)));
        }
        if kind == StepKind::CustomResourceDefinition {
            let target = Target::dynamic(api.clone(), None, name);
            return self.decide_crd(step, object, target, current);
        }
        let label = self.labels.get(&step.resolving).map(String::as_str);
        let Some(object) = complete(self.observed, kind, step, known, label)? else {
            return Ok(Decision::PassedOver);
        };
        if kind == StepKind::ClusterServiceVersion {
            if let Some(decision) = self.existing_csv(name) {
                return Ok(decision);
            }
            if !self
                .observed
                .install_plan
                .spec
                .cluster_service_version_names
                .contains(name)
            {
                check_owned_crds(&object, &self.observed.namespace(), &self.observed.csvs)
                    .map_err(StepError::lasting)?;
            }
        }
        let namespace = namespaced.then(|| self.observed.namespace());
        let target = Target::dynamic(api.clone(), namespace.as_deref(), name);
        Ok(self.decision(kind, target, current, object))
    }

    /// An existing ClusterServiceVersion is kept. If it is being deleted, everything it owns would be deleted
    /// with it.
    fn existing_csv(&self, name: &str) -> Option<Decision> {
        let csv = self.observed.find_csv(name)?;
        Some(match csv.metadata.deletion_timestamp {
            None => Decision::Settled(StepStatus::Present),
            Some(_) => Decision::Blocks(Wait::watched(format!(
                "waiting for deletion of ClusterServiceVersion {name}"
            ))),
        })
    }

    /// Decides the action for the difference between the object in the cluster and the step's.
    fn decision(&self, kind: StepKind, target: Target, current: Option<&Value>, object: Value) -> Decision {
        let status = if current.is_none() {
            StepStatus::Created
        } else {
            StepStatus::Present
        };
        let identity = self.identity.clone();
        let action = match write_for(kind, current, object) {
            Write::Nothing => return Decision::Settled(status),
            Write::Create(object) => {
                // Without a read before, the response shows whether the object existed. An existing
                // ClusterServiceVersion that is not in the store is a copy, which cannot be an owner.
                let exists = if kind.reads_current() || kind == StepKind::ClusterServiceVersion {
                    Exists::Fail
                } else {
                    Exists::Keep
                };
                Action::Create {
                    target,
                    object,
                    exists,
                    identity,
                }
            }
            Write::Patch(patch) => Action::Patch {
                target,
                patch,
                subresource: None,
                guard: guard(current),
                identity,
            },
        };
        Decision::Write(action, status)
    }

    /// Decides a CustomResourceDefinition step. The whole cluster shares definitions. They are created with
    /// an annotation of their origin, and changed only when no stored object can be lost. They are always
    /// written with the operator's own rights.
    fn decide_crd(
        &self,
        step: &Step,
        object: &Value,
        target: Target,
        current: Option<&Value>,
    ) -> Result<Decision, StepError> {
        let name = &step.resource.name;
        let why = current.and_then(crd_upgrade::why_not_established);
        let why = why.map(|why| format!(": {why}")).unwrap_or_default();
        let waits = Wait::watched(format!(
            "waiting for CustomResourceDefinition {name} to be established{why}"
        ));
        let Some(current) = current else {
            let object = self.wanted_crd(step, object);
            let action = Action::Create {
                target,
                object,
                exists: Exists::Fail,
                identity: Identity::Operator,
            };
            return Ok(Decision::Write(action, StepStatus::WaitingForApi));
        };
        let is_established = crd_upgrade::is_established(current);
        if step.status == StepStatus::WaitingForApi {
            return Ok(if is_established {
                Decision::Settled(StepStatus::Created)
            } else {
                Decision::Waits(waits)
            });
        }
        let wanted = self.wanted_crd(step, object);
        let is_alive = |csv: &str| self.observed.living_csvs.contains(csv);
        let converted = self.observed.converted_crds.contains(name);
        let merged = crd_upgrade::merged(current, &wanted, is_alive, converted);
        // A definition that is not established was created a moment ago, perhaps by this plan before a
        // restart.
        let status = if is_established {
            StepStatus::Present
        } else {
            StepStatus::WaitingForApi
        };
        Ok(match merge_patch(current, &merged) {
            Some(patch) => Decision::Write(Action::patch(target, patch, guard(Some(current))), status),
            None if is_established => Decision::Settled(status),
            None => Decision::Waits(waits),
        })
    }

    fn wanted_crd(&self, step: &Step, object: &Value) -> Value {
        let mut wanted = object.clone();
        object::strip_server_fields(&mut wanted);
        object::set(&mut wanted, "apiVersion", crd::API_VERSION.into());
        object::set(&mut wanted, "kind", crd::KIND.into());
        if let Some(spec) = wanted.get_mut("spec") {
            conversion_ca::drop_unusable(spec);
        }
        object::metadata_map_mut(&mut wanted, "labels")
            .insert(labels::MANAGED.to_owned(), labels::TRUE.into());
        if let Some(label) = self.labels.get(&step.resolving) {
            object::metadata_map_mut(&mut wanted, "labels").insert(label.clone(), "".into());
        }
        crd_upgrade::note_installed_alongside(&mut wanted, &self.observed.namespace(), &step.resolving);
        wanted
    }
}

fn supported_kind(step: &Step) -> Result<StepKind, StepError> {
    let resource = &step.resource;
    StepKind::of(&resource.kind).ok_or_else(|| StepError {
        message: format!(
            "the InstallPlan contains invalid data: {} {} is not allowed",
            resource.kind, resource.name
        ),
        class: ErrorClass::UnsupportedKind,
    })
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
