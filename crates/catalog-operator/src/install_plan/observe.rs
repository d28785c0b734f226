//! Everything one reconcile of an InstallPlan reads, as values.

mod contents;
mod crds;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures::{StreamExt, TryStreamExt};
use kube::{ResourceExt, core::ApiResource};
use olm_api::approval;
use olm_api::v1::OperatorGroup;
use olm_api::v1alpha1::{
    ClusterServiceVersion, InstallPlan, InstallPlanPhase, Step, StepResource, StepStatus,
};
use olm_runtime::NamespacedName;
use olm_runtime::discovery::ServedKind;
use olm_runtime::error::ObserveError;
use olm_runtime::plan::Target;
use serde_json::Value;

use self::contents::Contents;
pub use self::contents::NoObject;
use super::custom_resources::{CheckRequest, CheckState};
use super::{crd_upgrade, operator_group};
use crate::bundle_unpack::UnpackedBundle;
use crate::manifest::{BundleImageReference, Manifest};
use crate::object;
use crate::step_kind::StepKind;

/// How many objects are read at once.
const PARALLEL_READS: usize = 8;

/// An InstallPlan and the objects around it.
#[derive(Debug, Clone, Default)]
pub struct Observed {
    /// The plan, with the status that the last reconcile left unwritten.
    pub install_plan: Arc<InstallPlan>,
    /// The plan in the cluster, if its status is an older one.
    pub stored: Option<Arc<InstallPlan>>,
    /// OperatorGroups of its namespace.
    pub operator_groups: Vec<Arc<OperatorGroup>>,
    /// ClusterServiceVersions of its namespace, copies left out.
    pub csvs: Vec<Arc<ClusterServiceVersion>>,
    /// One entry for each step, in order; empty when no step is to be carried out now.
    pub steps: Vec<StepState>,
    /// Those of the ClusterServiceVersions noted on CustomResourceDefinitions of the plan that exist, as `namespace/name`.
    pub living_csvs: BTreeSet<String>,
    /// CustomResourceDefinitions of the plan whose conversion a living ClusterServiceVersion serves that is none of the plan's.
    pub converted_crds: BTreeSet<String>,
    /// By step: whether custom resources fit the changed schema of its CustomResourceDefinition; nothing where it does not change.
    pub custom_resources: BTreeMap<usize, CheckState>,
    /// By CustomResourceDefinition of the plan: how many ClusterServiceVersions of the cluster own it besides the plan's own and
    /// those they replace.
    pub other_crd_owners: BTreeMap<String, usize>,
    /// How long an error may last before it makes the plan fail.
    pub retry_timeout: Duration,
}

/// Observation of a step.
#[derive(Debug, Clone, PartialEq)]
pub enum StepState {
    /// It is done and was not read.
    Done,
    /// Its object waits for a ClusterServiceVersion of the same plan; it was not read.
    OwnerPending,
    /// Its object is not available.
    Missing(NoObject),
    /// The cluster does not serve the kind in this group and version.
    NotServed(String),
    /// Its object, and the object of that name in the cluster.
    Known(Box<KnownStep>),
}

/// A step that can be decided on.
#[derive(Debug, Clone, PartialEq)]
pub struct KnownStep {
    /// The object as bundle or plan have it.
    pub object: Value,
    /// Its API resource.
    pub api: ApiResource,
    /// Whether it has a namespace.
    pub namespaced: bool,
    /// The object in the cluster; `None` also for kinds that are not read.
    pub current: Option<Value>,
}

/// The reads of a reconcile that no store can answer. They happen only while a plan is being carried out.
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
    /// Returns the content of a bundle image for this plan; if it is being fetched, the plan is triggered when it arrives.
    async fn bundle(
        &self,
        reference: &BundleImageReference,
        plan: &InstallPlan,
    ) -> Result<UnpackedBundle, NoObject>;
    /// Whether a ClusterServiceVersion that is no copy exists; the argument is `namespace/name`.
    fn csv_exists(&self, csv: &str) -> bool;
    /// Names of the ClusterServiceVersions of a namespace, copies left out, that declare a conversion webhook for this
    /// CustomResourceDefinition.
    fn converters(&self, crd: &str, namespace: &str) -> Vec<String>;
    /// ClusterServiceVersions of all namespaces, copies left out, that own this CustomResourceDefinition.
    fn crd_owners(&self, crd: &str) -> Vec<NamespacedName>;
    /// Whether the existing custom resources fit a changed schema. All of them are read.
    async fn check_custom_resources(&self, request: CheckRequest) -> CheckState;
    /// The namespace pull secrets are copied from.
    fn global_namespace(&self) -> &str;
}

impl Observed {
    /// True if plans of the namespace are executed with the rights of a ServiceAccount: their authors have no more rights than that
    /// account.
    pub(crate) fn is_limited(&self) -> bool {
        let names = |group: &Arc<OperatorGroup>| {
            let account = group.spec.service_account_name.as_deref();
            account.is_some_and(|name| !name.is_empty())
        };
        self.operator_groups.iter().any(names)
    }

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

    /// Steps for CustomResourceDefinitions that are not done, with their index, where the object is known.
    pub(crate) fn definitions(&self) -> impl Iterator<Item = (usize, &Step, &KnownStep)> {
        let known = self
            .steps_to_do()
            .filter_map(|(index, step)| match self.state(index) {
                StepState::Known(known) => Some((index, step, &**known)),
                _ => None,
            });
        known.filter(|(_, step, _)| {
            StepKind::of(&step.resource.kind) == Some(StepKind::CustomResourceDefinition)
        })
    }

    /// Returns the observation of a step.
    pub fn state(&self, index: usize) -> &StepState {
        self.steps.get(index).unwrap_or(&StepState::Done)
    }

    /// A ClusterServiceVersion of the plan's namespace.
    pub fn find_csv(&self, name: &str) -> Option<&Arc<ClusterServiceVersion>> {
        self.csvs.iter().find(|csv| csv.name_any() == name)
    }

    /// Whether a step that is still to be done creates this ClusterServiceVersion.
    pub fn creates_csv(&self, name: &str) -> bool {
        self.steps_to_do().any(|(_, step)| {
            StepKind::of(&step.resource.kind) == Some(StepKind::ClusterServiceVersion)
                && step.resource.name == name
        })
    }
}

/// Reads what the next reconcile of a plan needs, of which `observed` has what is in its namespace: nothing for plans that wait for
/// approval or are over.
///
/// # Errors
/// A read failed.
pub async fn observe(reads: &impl Reads, mut observed: Observed) -> Result<Observed, ObserveError> {
    if is_to_be_executed(&observed) {
        observed.steps = observe_steps(reads, &observed, Horizon::Reconcile).await?;
        observed.living_csvs = living_csvs(reads, &observed.steps);
        observe_definitions(reads, &mut observed).await;
    }
    Ok(observed)
}

/// Reads what decides whether the definitions of a plan may be changed.
pub(crate) async fn observe_definitions(reads: &impl Reads, observed: &mut Observed) {
    observed.converted_crds = converted_crds(reads, observed);
    observed.other_crd_owners = crds::other_owners(reads, observed);
    for (index, request) in crds::checks(observed) {
        let state = reads.check_custom_resources(request).await;
        observed.custom_resources.insert(index, state);
    }
}

/// Steps of a plan, none when it has no status yet.
pub(crate) fn steps(install_plan: &InstallPlan) -> &[Step] {
    install_plan.status.as_ref().map_or(&[], |status| &status.plan)
}

/// The ClusterServiceVersion that the one of a step replaces: as its lookup says, or else its manifest, as bundles that the catalog
/// carries itself have no lookup.
pub(crate) fn replaced_by(install_plan: &InstallPlan, step: &Step) -> Option<String> {
    let status = install_plan.status.as_ref();
    let lookups = status.map_or(&[][..], |status| &status.bundle_lookups);
    let lookup = lookups
        .iter()
        .find(|lookup| lookup.identifier == step.resource.name);
    let replaced = match lookup {
        Some(lookup) => lookup.replaces.clone(),
        None => match Manifest::parse(step.resource.manifest.as_deref()?).ok()? {
            Manifest::Inline(csv) => csv.pointer("/spec/replaces")?.as_str()?.to_owned(),
            Manifest::ConfigMap(reference) => reference.replaces,
            Manifest::BundleImage(_) => return None,
        },
    };
    Some(replaced).filter(|name| !name.is_empty())
}

/// Whether a step's object is in the cluster.
pub(crate) fn is_done(step: &Step) -> bool {
    matches!(step.status, StepStatus::Created | StepStatus::Present)
}

/// Whether the plan's steps are to be carried out as far as phase, approval and OperatorGroup go.
fn is_to_be_executed(observed: &Observed) -> bool {
    let started = match observed.install_plan.phase() {
        InstallPlanPhase::Installing => true,
        InstallPlanPhase::RequiresApproval => observed.install_plan.spec.approved,
        _ => false,
    };
    started
        && find_other_approval(&observed.install_plan).is_none()
        && operator_group::find_service_account(&observed.operator_groups).is_ok()
}

/// Hash of the approved steps, and that of the current ones, if they differ. An approval without a hash covers any steps.
pub(crate) fn find_other_approval(install_plan: &InstallPlan) -> Option<(String, String)> {
    let approved =
        approval::approved_hash(install_plan.annotations()).filter(|_| install_plan.spec.approved)?;
    let found = approval::plan_hash(install_plan);
    (approved != found).then(|| (approved.to_owned(), found))
}

/// Extent of an observation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Horizon {
    /// The steps that can be executed in this reconcile.
    Reconcile,
    /// All steps, whichever reconcile executes them.
    Plan,
}

/// Reads what the steps of a plan find.
///
/// # Errors
/// A read failed.
pub(crate) async fn observe_steps(
    reads: &impl Reads,
    observed: &Observed,
    horizon: Horizon,
) -> Result<Vec<StepState>, ObserveError> {
    let mut contents = Contents::default();
    let mut found = Vec::new();
    for step in steps(&observed.install_plan) {
        let object = match is_done(step) {
            true => Err(StepState::Done),
            false => contents
                .find_object(reads, &observed.install_plan, step)
                .await?
                .map_err(StepState::Missing),
        };
        found.push((step, object));
    }
    // In order, but several at once: a plan has dozens of steps and every read is a round trip.
    let mut states = Vec::with_capacity(found.len());
    for (step, object) in found {
        states.push(observe_step(reads, observed, step, object, horizon));
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
    horizon: Horizon,
) -> Result<StepState, ObserveError> {
    let object = match object {
        Ok(object) => object,
        Err(state) => return Ok(state),
    };
    let resource = &step.resource;
    let api_version = api_version(resource, &object);
    let Some(kind) = StepKind::of(&resource.kind) else {
        // Whether plans may contain the kind is not decided here.
        return Ok(StepState::NotServed(api_version));
    };
    let Some((api, namespaced)) = find_api(reads, kind, resource, &api_version).await? else {
        return Ok(StepState::NotServed(api_version));
    };
    let waits_for_owner = horizon == Horizon::Reconcile
        && kind.has_owner()
        && namespaced
        && observed.find_csv(&step.resolving).is_none()
        && observed.creates_csv(&step.resolving);
    if waits_for_owner {
        return Ok(StepState::OwnerPending);
    }
    // Execution keeps an existing object and need not read it; a preview does.
    let current = if kind.reads_current() || horizon == Horizon::Plan {
        let namespace = namespaced.then(|| observed.namespace());
        reads
            .get(&Target::dynamic(
                api.clone(),
                namespace.as_deref(),
                &resource.name,
            ))
            .await?
    } else {
        None
    };
    Ok(StepState::Known(Box::new(KnownStep {
        object,
        api,
        namespaced,
        current,
    })))
}

/// Those of the object, as for upstream: a step made by hand may have others, or none.
fn api_version(resource: &StepResource, object: &Value) -> String {
    match (object::api_version(object), resource.group.as_str()) {
        ("", "") => resource.version.clone(),
        ("", group) => format!("{group}/{}", resource.version),
        (of_object, _) => of_object.to_owned(),
    }
}

/// API resource and scope of a step's kind; none when the cluster does not serve it.
async fn find_api(
    reads: &impl Reads,
    kind: StepKind,
    resource: &StepResource,
    api_version: &str,
) -> Result<Option<(ApiResource, bool)>, ObserveError> {
    if let (Some(api), Some(cluster_scoped)) = (kind.api_resource(), kind.is_cluster_scoped()) {
        return Ok(Some((api, !cluster_scoped)));
    }
    let (group, version) = object::group_version(api_version);
    let served = reads.find_kind(group, version, &resource.kind).await?;
    Ok(served.map(|served| (served.api, served.namespaced)))
}

fn living_csvs(reads: &impl Reads, states: &[StepState]) -> BTreeSet<String> {
    let currents = states.iter().filter_map(|state| match state {
        StepState::Known(known) => known.current.as_ref(),
        _ => None,
    });
    let noted = currents.flat_map(crd_upgrade::installed_alongside);
    noted
        .filter(|csv| reads.csv_exists(csv))
        .map(str::to_owned)
        .collect()
}

/// Only an operator in the namespace of the webhook's service can serve it: others could declare any conversion.
/// ClusterServiceVersions of the plan itself do not count, so that a repeated step has the same result.
fn converted_crds(reads: &impl Reads, observed: &Observed) -> BTreeSet<String> {
    let plan = &observed.install_plan;
    let is_own = |namespace: &str, csv: &String| {
        plan.metadata.namespace.as_deref() == Some(namespace)
            && plan.spec.cluster_service_version_names.contains(csv)
    };
    let converted = observed.definitions().filter_map(|(_, step, known)| {
        let namespace = crd_upgrade::conversion_namespace(known.current.as_ref()?)?;
        let converters = reads.converters(&step.resource.name, namespace);
        let is_converted = converters.iter().any(|csv| !is_own(namespace, csv));
        is_converted.then(|| step.resource.name.clone())
    });
    converted.collect()
}
