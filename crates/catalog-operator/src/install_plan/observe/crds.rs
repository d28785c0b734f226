//! Further facts about CustomResourceDefinitions that a plan changes.

use std::collections::{BTreeMap, BTreeSet};

use olm_api::v1alpha1::Step;
use olm_runtime::NamespacedName;
use serde_json::Value;

use super::{KnownStep, Observed, Reads, replaced_by, steps};
use crate::install_plan::crd_upgrade;
use crate::install_plan::custom_resources::CheckRequest;
use crate::step_kind::StepKind;

/// Steps that change a definition which is there, with their index and the definition.
fn upgrades(observed: &Observed) -> impl Iterator<Item = (usize, &Step, &KnownStep, &Value)> {
    observed.definitions().filter_map(|(index, step, known)| {
        let current = known.current.as_ref()?;
        crd_upgrade::is_upgraded(&step.status, current).then_some((index, step, known, current))
    })
}

/// An upgrade shares nothing: the plan's own ClusterServiceVersions do not count, nor do those they replace.
pub(super) fn other_owners(reads: &impl Reads, observed: &Observed) -> BTreeMap<String, usize> {
    let namespace = observed.namespace();
    let own = own_csvs(observed);
    let is_own = |owner: &NamespacedName| owner.namespace == namespace && own.contains(&owner.name);
    let crds: BTreeMap<&String, &Value> = upgrades(observed)
        .map(|(_, step, _, current)| (&step.resource.name, current))
        .collect();
    let count = |crd: &String, current: &Value| {
        let noted: BTreeSet<&str> = crd_upgrade::installed_alongside(current).collect();
        // Any user may write a ClusterServiceVersion that claims any definition; the annotation is only written with the
        // definition.
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
            // A cycle of ClusterServiceVersions that replace each other.
            left.retain(|name| !own.contains(name));
        }
    }
    own
}

/// The definitions whose custom resources are to be checked, with the index of their step. One whose schema stays as it is
/// costs nothing, nor does one that is not served, since it has no resources, or one that cannot be changed anyway.
pub(super) fn checks(observed: &Observed) -> Vec<(usize, CheckRequest)> {
    let request = |(index, step, known, current): (usize, &Step, &KnownStep, &Value)| {
        let versions = crd_upgrade::changed_schemas(current, &known.object);
        let text = |pointer| {
            let text = current.pointer(pointer).and_then(Value::as_str);
            text.unwrap_or_default().to_owned()
        };
        let plural = text("/spec/names/plural");
        let is_checked = !versions.is_empty()
            && !plural.is_empty()
            && crd_upgrade::is_established(current)
            && crd_upgrade::check_stored_versions(current, &known.object).is_ok();
        is_checked.then(|| {
            let request = CheckRequest {
                crd: step.resource.name.clone(),
                group: text("/spec/group"),
                plural,
                versions,
            };
            (index, request)
        })
    };
    upgrades(observed).filter_map(request).collect()
}
