//! Everything one round of an InstallPlan reads, as values.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::{ResourceExt, core::ApiResource};
use olm_api::v1::OperatorGroup;
use olm_api::v1alpha1::{ClusterServiceVersion, InstallPlan, InstallPlanPhase, Step, StepStatus};
use olm_runtime::discovery::ServedKind;
use olm_runtime::error::ObserveError;
use olm_runtime::plan::Target;
use serde_json::Value;

use super::kind::StepKind;
use super::manifest::{BundleImageReference, ConfigMapReference, Manifest};
use super::steps::{BundleStep, Projection, bundle_steps, find_step};
use super::{crd_upgrade, operator_group};
use crate::bundle_unpack::{UnpackedBundle, config_map};

/// How many objects are read at once.
const PARALLEL_READS: usize = 8;

/// One InstallPlan and what it stands in.
#[derive(Debug, Clone)]
pub struct Observed {
    /// The plan.
    pub install_plan: Arc<InstallPlan>,
    /// OperatorGroups of its namespace.
    pub operator_groups: Vec<Arc<OperatorGroup>>,
    /// ClusterServiceVersions of its namespace, copies left out.
    pub csvs: Vec<Arc<ClusterServiceVersion>>,
    /// One entry for each step, in order; empty when no step is to be carried out now.
    pub steps: Vec<StepState>,
    /// Those of the ClusterServiceVersions noted on CustomResourceDefinitions of the plan that exist, as `namespace/name`.
    pub living_csvs: BTreeSet<String>,
    /// How long an error may last before it makes the plan fail.
    pub retry_timeout: Duration,
}

/// What is known of a step.
#[derive(Debug, Clone, PartialEq)]
pub enum StepState {
    /// It is done and was not looked at.
    Done,
    /// Its object waits for a ClusterServiceVersion of the same plan; it was not looked at.
    OwnerPending,
    /// The bundle is being fetched.
    Fetching {
        /// What is waited for, for people.
        message: String,
    },
    /// Its object cannot be had.
    Broken {
        /// Why.
        message: String,
        /// False when waiting can help.
        lasting: bool,
    },
    /// The cluster does not serve the kind.
    NotServed,
    /// Its object, and the object of that name in the cluster.
    Known {
        /// The object as bundle or plan have it.
        object: Value,
        /// Its API resource.
        api: ApiResource,
        /// Whether it has a namespace.
        namespaced: bool,
        /// The object in the cluster; `None` also for kinds that need no look.
        current: Option<Arc<Value>>,
    },
}

/// A bundle's content as far as it is there.
#[derive(Debug, Clone)]
pub enum BundleContent {
    /// There it is.
    Ready(Arc<UnpackedBundle>),
    /// It is on its way; the plan will be looked at again when it arrives.
    Fetching {
        /// What is waited for, for people.
        message: String,
    },
    /// It cannot be had.
    Failed {
        /// Why.
        message: String,
        /// False when waiting can help.
        lasting: bool,
    },
}

/// The reads of a round that no store can answer. They happen only while a plan is being carried out.
#[async_trait]
pub trait Reads: Send + Sync {
    /// An object, live: a plan must not overwrite what it has not seen, and caching every object an operator may bring would mean
    /// caching the cluster.
    async fn get(&self, target: &Target) -> Result<Option<Value>, ObserveError>;
    /// A kind found by discovery.
    async fn find_kind(
        &self,
        group: &str,
        version: &str,
        kind: &str,
    ) -> Result<Option<ServedKind>, ObserveError>;
    /// The content of a bundle image for this plan.
    fn bundle(&self, reference: &BundleImageReference, plan: &InstallPlan) -> BundleContent;
    /// Whether a ClusterServiceVersion that is no copy exists; the argument is `namespace/name`.
    fn csv_exists(&self, csv: &str) -> bool;
    /// The namespace pull secrets are copied from.
    fn global_namespace(&self) -> &str;
}

impl Observed {
    /// Namespace of the plan.
    pub fn namespace(&self) -> String {
        self.install_plan.namespace().unwrap_or_default()
    }

    /// Steps that are not done, with their index.
    pub fn steps_to_do(&self) -> impl Iterator<Item = (usize, &Step)> {
        steps(&self.install_plan)
            .iter()
            .enumerate()
            .filter(|(_, step)| !is_done(step))
    }

    /// What is known of a step.
    pub fn state(&self, index: usize) -> &StepState {
        self.steps.get(index).unwrap_or(&StepState::Done)
    }

    /// A ClusterServiceVersion of the plan's namespace.
    pub fn find_csv(&self, name: &str) -> Option<&Arc<ClusterServiceVersion>> {
        self.csvs.iter().find(|csv| csv.name_any() == name)
    }

    /// Whether a step that is still to be done creates this ClusterServiceVersion.
    pub fn creates_csv(&self, name: &str) -> bool {
        creates_csv(&self.install_plan, name)
    }
}

/// Reads what the next round of `install_plan` needs: nothing for plans that wait for approval or are over.
///
/// # Errors
/// A read did not go through.
pub async fn observe(
    reads: &impl Reads,
    install_plan: Arc<InstallPlan>,
    operator_groups: Vec<Arc<OperatorGroup>>,
    csvs: Vec<Arc<ClusterServiceVersion>>,
    retry_timeout: Duration,
) -> Result<Observed, ObserveError> {
    let mut observed = Observed {
        install_plan,
        operator_groups,
        csvs,
        steps: Vec::new(),
        living_csvs: BTreeSet::new(),
        retry_timeout,
    };
    if is_to_be_executed(&observed) {
        observed.steps = observe_steps(reads, &observed).await?;
        observed.living_csvs = living_csvs(reads, &observed.steps);
    }
    Ok(observed)
}

/// Steps of a plan, none when it has no status yet.
pub fn steps(install_plan: &InstallPlan) -> &[Step] {
    install_plan.status.as_ref().map_or(&[], |status| &status.plan)
}

/// Phase of a plan; unset when it has no status yet.
pub fn phase(install_plan: &InstallPlan) -> InstallPlanPhase {
    install_plan
        .status
        .as_ref()
        .map(|status| status.phase.clone())
        .unwrap_or_default()
}

/// Whether a plan is over, one way or the other.
pub fn is_over(install_plan: &InstallPlan) -> bool {
    matches!(
        phase(install_plan),
        InstallPlanPhase::Complete | InstallPlanPhase::Failed
    )
}

/// Whether a step's object is in the cluster.
pub fn is_done(step: &Step) -> bool {
    matches!(step.status, StepStatus::Created | StepStatus::Present)
}

/// Whether the plan's steps are to be carried out as far as phase, approval and OperatorGroup go.
fn is_to_be_executed(observed: &Observed) -> bool {
    let started = match phase(&observed.install_plan) {
        InstallPlanPhase::Installing => true,
        InstallPlanPhase::RequiresApproval => observed.install_plan.spec.approved,
        _ => false,
    };
    started && operator_group::find_service_account(&observed.operator_groups).is_ok()
}

fn creates_csv(install_plan: &InstallPlan, name: &str) -> bool {
    steps(install_plan).iter().any(|step| {
        StepKind::of(&step.resource.kind) == Some(StepKind::ClusterServiceVersion)
            && step.resource.name == name
            && !is_done(step)
    })
}

async fn observe_steps(reads: &impl Reads, observed: &Observed) -> Result<Vec<StepState>, ObserveError> {
    let mut contents = Contents::default();
    let mut found = Vec::new();
    for step in steps(&observed.install_plan) {
        found.push((
            step,
            if is_done(step) {
                Err(StepState::Done)
            } else {
                contents.find_object(reads, &observed.install_plan, step).await?
            },
        ));
    }
    // In order, but several at once: a plan has dozens of steps and every read is a round trip.
    let mut states = Vec::with_capacity(found.len());
    for (step, object) in found {
        states.push(observe_step(reads, observed, step, object));
    }
    futures::stream::iter(states)
        .buffered(PARALLEL_READS)
        .try_collect()
        .await
}

async fn observe_step(
    reads: &impl Reads,
    observed: &Observed,
    step: &Step,
    object: Result<Value, StepState>,
) -> Result<StepState, ObserveError> {
    match object {
        Ok(object) => observe_object(reads, observed, step, object).await,
        Err(state) => Ok(state),
    }
}

async fn observe_object(
    reads: &impl Reads,
    observed: &Observed,
    step: &Step,
    object: Value,
) -> Result<StepState, ObserveError> {
    let resource = &step.resource;
    let Some(kind) = StepKind::of(&resource.kind) else {
        // Whether plans may contain the kind is not decided here.
        return Ok(StepState::NotServed);
    };
    let (api, namespaced) = match (kind.api_resource(), kind.is_cluster_scoped()) {
        (Some(api), Some(cluster_scoped)) => (api, !cluster_scoped),
        _ => match reads
            .find_kind(&resource.group, &resource.version, &resource.kind)
            .await?
        {
            Some(served) => (served.api, served.namespaced),
            None => return Ok(StepState::NotServed),
        },
    };
    let waits_for_owner = kind.has_owner()
        && namespaced
        && !resolved(observed, &step.resolving)
        && creates_csv(&observed.install_plan, &step.resolving);
    if waits_for_owner {
        return Ok(StepState::OwnerPending);
    }
    let current = if kind.reads_current() {
        let namespace = namespaced.then(|| observed.namespace());
        reads
            .get(&Target::dynamic(
                api.clone(),
                namespace.as_deref(),
                &resource.name,
            ))
            .await?
            .map(Arc::new)
    } else {
        None
    };
    Ok(StepState::Known {
        object,
        api,
        namespaced,
        current,
    })
}

fn resolved(observed: &Observed, csv: &str) -> bool {
    observed.find_csv(csv).is_some()
}

fn living_csvs(reads: &impl Reads, states: &[StepState]) -> BTreeSet<String> {
    let currents = states.iter().filter_map(|state| match state {
        StepState::Known {
            current: Some(current),
            ..
        } => Some(current),
        _ => None,
    });
    let noted = currents.flat_map(|current| crd_upgrade::installed_alongside(current));
    noted
        .filter(|csv| reads.csv_exists(csv))
        .map(str::to_owned)
        .collect()
}

/// Steps rebuilt from bundles, kept for the length of one observation: all steps of a bundle have the same manifest text.
#[derive(Default)]
struct Contents {
    by_manifest: BTreeMap<String, Result<Arc<Vec<BundleStep>>, StepState>>,
}

impl Contents {
    /// The object of a step, or the state that stands for not having it.
    async fn find_object(
        &mut self,
        reads: &impl Reads,
        plan: &InstallPlan,
        step: &Step,
    ) -> Result<Result<Value, StepState>, ObserveError> {
        let resource = &step.resource;
        let text = resource.manifest.as_deref().unwrap_or_default();
        let broken = |message: String| {
            Ok(Err(StepState::Broken {
                message,
                lasting: true,
            }))
        };
        let manifest = match Manifest::parse(text) {
            Ok(Manifest::Inline(Value::Object(object))) if resource.kind != "Secret" => {
                return Ok(Ok(Value::Object(object)));
            }
            // A pull secret's content is not in the plan at all.
            Ok(Manifest::Inline(_)) if resource.kind == "Secret" => {
                return Ok(read_pull_secret(reads, step).await?);
            }
            Ok(Manifest::Inline(_)) => {
                return broken(format!(
                    "error parsing step manifest: {}: not an object",
                    resource.name
                ));
            }
            Err(error) => return broken(format!("error parsing step manifest: {}: {error}", resource.name)),
            Ok(reference) => reference,
        };
        if !self.by_manifest.contains_key(text) {
            let steps = read_steps(reads, plan, &manifest).await?;
            self.by_manifest.insert(text.to_owned(), steps.map(Arc::new));
        }
        match &self.by_manifest[text] {
            Err(state) => Ok(Err(state.clone())),
            Ok(steps) => match find_step(steps, resource) {
                Some(found) => Ok(Ok(found.object.clone())),
                None => broken(format!(
                    "couldn't find unpacked step for {} {} in the bundle of {}",
                    resource.kind, resource.name, step.resolving
                )),
            },
        }
    }
}

/// The steps of the bundle a manifest refers to, or the state of every step that refers to it.
async fn read_steps(
    reads: &impl Reads,
    plan: &InstallPlan,
    manifest: &Manifest,
) -> Result<Result<Vec<BundleStep>, StepState>, ObserveError> {
    let namespace = plan.namespace().unwrap_or_default();
    let broken = |message: String| StepState::Broken {
        message,
        lasting: true,
    };
    match manifest {
        Manifest::Inline(_) => Ok(Ok(Vec::new())),
        Manifest::BundleImage(reference) => Ok(read_image_steps(reads, plan, reference, &namespace)),
        Manifest::ConfigMap(reference) => {
            let ConfigMapReference {
                name,
                namespace: from,
                replaces,
                properties,
                ..
            } = reference;
            let Some(found) = reads.get(&Target::of::<ConfigMap>(from, name)).await? else {
                let cause = format!("configmaps \"{name}\" not found");
                return Ok(Err(broken(format!(
                    "error finding unpacked bundle configmap for ref {from}/{name}: {cause}"
                ))));
            };
            let bundle = match config_map::decode(&found) {
                Ok(bundle) => bundle,
                Err(error) => {
                    return Ok(Err(broken(format!(
                        "error loading unpacked bundle configmap for ref {from}/{name}: {error}"
                    ))));
                }
            };
            let projection = Projection {
                namespace: &namespace,
                replaces,
                properties,
            };
            let steps = bundle_steps(&bundle, &projection);
            Ok(steps
                .map_err(|error| broken(format!("error calculating steps for ref {from}/{name}: {error}"))))
        }
    }
}

fn read_image_steps(
    reads: &impl Reads,
    plan: &InstallPlan,
    reference: &BundleImageReference,
    namespace: &str,
) -> Result<Vec<BundleStep>, StepState> {
    let broken = |message: String| StepState::Broken {
        message,
        lasting: true,
    };
    let lookups = plan
        .status
        .as_ref()
        .map_or(&[][..], |status| &status.bundle_lookups);
    // The lookup has what the resolver decided about the bundle; without it an upgrade would lose its predecessor.
    let Some(lookup) = lookups
        .iter()
        .find(|lookup| lookup.identifier == reference.identifier)
    else {
        return Err(broken(format!(
            "couldn't find the bundle lookup of {} in status.bundleLookups of the InstallPlan; delete the InstallPlan to have it made again",
            reference.identifier
        )));
    };
    let bundle = match reads.bundle(reference, plan) {
        BundleContent::Ready(bundle) => bundle,
        BundleContent::Fetching { message } => return Err(StepState::Fetching { message }),
        BundleContent::Failed { message, lasting } => return Err(StepState::Broken { message, lasting }),
    };
    let projection = Projection {
        namespace,
        replaces: &lookup.replaces,
        properties: lookup.properties.as_deref().unwrap_or_default(),
    };
    bundle_steps(&bundle, &projection).map_err(|error| {
        broken(format!(
            "error calculating steps for ref {}: {error}",
            reference.image
        ))
    })
}

/// The object of a `Secret` step: type and data of the secret of that name in the global catalog namespace.
async fn read_pull_secret(reads: &impl Reads, step: &Step) -> Result<Result<Value, StepState>, ObserveError> {
    let name = &step.resource.name;
    let source = reads
        .get(&Target::of::<Secret>(reads.global_namespace(), name))
        .await?;
    let Some(source) = source else {
        let message = format!("secret {name} does not exist - secrets \"{name}\" not found");
        return Ok(Err(StepState::Broken {
            message,
            lasting: true,
        }));
    };
    let mut copy = serde_json::json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": name } });
    for field in ["type", "data"] {
        if let Some(value) = source.get(field) {
            copy[field] = value.clone();
        }
    }
    Ok(Ok(copy))
}
