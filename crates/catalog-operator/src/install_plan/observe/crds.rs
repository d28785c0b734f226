//! What else there is to know of CustomResourceDefinitions that a plan changes.

use std::collections::{BTreeMap, BTreeSet};

use kube::ResourceExt;
use olm_api::v1alpha1::Step;
use olm_runtime::NamespacedName;
use serde_json::Value;

use super::{KnownStep, Observed, Reads, StepState, replaced_by, steps};
use crate::install_plan::crd_upgrade;
use crate::install_plan::custom_resources::{CheckRequest, CheckState};
use crate::object;
use crate::step_kind::StepKind;

/// Steps that change a definition which is there, with their index and the definition.
fn upgrades(observed: &Observed) -> impl Iterator<Item = (usize, &Step, &KnownStep, &Value)> {
    observed.steps_to_do().filter_map(|(index, step)| {
        let StepState::Known(known) = observed.state(index) else {
            return None;
        };
        let current = known.current.as_ref()?;
        let is_crd = StepKind::of(&step.resource.kind) == Some(StepKind::CustomResourceDefinition);
        (is_crd && crd_upgrade::is_upgraded(&step.status, current))
            .then_some((index, step, &**known, current))
    })
}

/// Who upgrades itself shares with nobody: the plan's own ClusterServiceVersions do not count, nor do those they replace.
pub(super) fn other_owners(reads: &impl Reads, observed: &Observed) -> BTreeMap<String, usize> {
    let namespace = observed.namespace();
    let own = own_csvs(observed);
    let is_own = |owner: &NamespacedName| owner.namespace == namespace && own.contains(&owner.name);
    let crds: BTreeMap<&String, &Value> = upgrades(observed)
        .map(|(_, step, _, current)| (&step.resource.name, current))
        .collect();
    let count = |crd: &String, current: &Value| {
        let noted: BTreeSet<&str> = crd_upgrade::installed_alongside(current).collect();
        // Anybody may write a ClusterServiceVersion that says it owns what it likes; the note is made with the definition.
        let is_proven = |owner: &NamespacedName| noted.contains(owner.to_string().as_str());
        let owners = reads.crd_owners(crd);
        let others = owners.iter().filter(|owner| is_proven(owner) && !is_own(owner));
        others.count()
    };
    crds.into_iter()
        .map(|(crd, current)| (crd.clone(), count(crd, current)))
        .collect()
}

/// Names of the plan's ClusterServiceVersions, and of all that they replace.
fn own_csvs(observed: &Observed) -> BTreeSet<String> {
    let plan = &observed.install_plan;
    let of_plan = |name: &str| {
        let is_its = |step: &&Step| {
            step.resource.name == name
                && StepKind::of(&step.resource.kind) == Some(StepKind::ClusterServiceVersion)
        };
        let step = steps(plan).iter().find(is_its)?;
        replaced_by(plan, step)
    };
    let mut own = BTreeSet::new();
    let mut left = plan.spec.cluster_service_version_names.to_vec();
    while let Some(name) = left.pop() {
        left.extend(of_plan(&name));
        left.extend(observed.find_csv(&name).and_then(|csv| csv.spec.replaces.clone()));
        if !own.insert(name) {
            // A circle of those that replace each other.
            left.retain(|name| !own.contains(name));
        }
    }
    own
}

/// A definition whose schema stays as it is costs nothing, nor does one that is not served: it has no resources.
pub(super) fn check_custom_resources(reads: &impl Reads, observed: &Observed) -> BTreeMap<usize, CheckState> {
    let mut checks = BTreeMap::new();
    for (index, step, known, current) in upgrades(observed) {
        let versions = crd_upgrade::changed_schemas(current, &known.object);
        let text = |pointer| {
            current
                .pointer(pointer)
                .and_then(Value::as_str)
                .unwrap_or_default()
        };
        let plural = text("/spec/names/plural");
        if versions.is_empty() || plural.is_empty() || !crd_upgrade::is_established(current) {
            continue;
        }
        let generation = current
            .pointer("/metadata/generation")
            .cloned()
            .unwrap_or_default();
        let request = CheckRequest {
            plan: NamespacedName::new(observed.namespace(), observed.install_plan.name_any()),
            crd: step.resource.name.clone(),
            group: text("/spec/group").to_owned(),
            plural: plural.to_owned(),
            versions,
            of: format!(
                "{} {generation}",
                object::metadata_text(current, "uid").unwrap_or_default()
            ),
        };
        checks.insert(index, reads.check_custom_resources(request));
    }
    checks
}
