//! Finds the component labels that objects lack or should lose. No I/O.

use std::collections::{BTreeMap, BTreeSet};

use kube::ResourceExt;
use olm_api::{
    labels,
    v1alpha1::{ClusterServiceVersion, InstallPlan, Subscription},
};
use olm_runtime::plan::{Action, Guard, Plan, Target};
use serde_json::{Map, Value, json};

use crate::{
    adoption::{Labelled, Observed},
    component,
};

/// Returns one patch for each object with missing or obsolete labels. The patches are independent of each
/// other.
pub(crate) fn decide(observed: &Observed) -> Plan {
    let mut patches = Patches::default();
    adopt_installs(observed, &mut patches);
    let given = given(observed);
    let worn: BTreeMap<String, BTreeSet<String>> = observed
        .csvs
        .iter()
        .map(|csv| (csv.name_any(), worn(observed, csv, given.get(&csv.name_any()))))
        .collect();
    for csv in &observed.csvs {
        let Some(given) = given.get(&csv.name_any()) else {
            continue;
        };
        if let Some(object) = Labelled::of(csv.as_ref()) {
            given.iter().for_each(|label| patches.add(&object, label));
            patches.remove_own(&object, &observed.namespace, given);
        }
    }
    pass_on(observed, &worn, &mut patches);
    let actions: Vec<Action> = patches.0.into_values().map(Patch::into_action).collect();
    Plan {
        independent: actions.len(),
        actions,
        ..Plan::default()
    }
}

/// Returns the labels of each ClusterServiceVersion, by its name, from the packages of the Subscriptions that
/// installed it. A ClusterServiceVersion without such a Subscription keeps the labels that its author wrote.
fn given(observed: &Observed) -> BTreeMap<String, BTreeSet<String>> {
    let mut given: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for subscription in &observed.subscriptions {
        let status = subscription.status.as_ref();
        let installed = status.and_then(|status| status.installed_csv.clone());
        let label = labels::component_label(&subscription.spec.name, &observed.namespace);
        if let (Some(csv), Some(label)) = (installed, label) {
            given.entry(csv).or_default().insert(label);
        }
    }
    given
}

/// Labels that a ClusterServiceVersion has after this reconcile, limited to those that count.
fn worn(
    observed: &Observed,
    csv: &ClusterServiceVersion,
    given: Option<&BTreeSet<String>>,
) -> BTreeSet<String> {
    let stays = |label: &&str| given.is_none() || !is_own(label, &observed.namespace);
    let there = component::labels_of(&csv.metadata).filter(stays);
    let given = given.into_iter().flatten().cloned();
    there.map(str::to_owned).chain(given).collect()
}

/// Copies the labels of ClusterServiceVersions to the objects they own. Other labels of this namespace are
/// removed, because long-lived objects would otherwise collect one label for each package a Subscription ever
/// named.
fn pass_on(observed: &Observed, worn: &BTreeMap<String, BTreeSet<String>>, patches: &mut Patches) {
    let namespace = &observed.namespace;
    let mut wanted: BTreeMap<String, (&Labelled, BTreeSet<String>)> = BTreeMap::new();
    for (owner, object) in &observed.owned {
        let key = object.target.to_string();
        let (_, all) = wanted.entry(key).or_insert_with(|| (object, BTreeSet::new()));
        all.extend(worn.get(owner).into_iter().flatten().cloned());
    }
    for (object, all) in wanted.into_values() {
        // Objects without a namespace get only labels of this namespace, because nothing would remove the
        // others.
        let is_passed_on = |label: &&String| object.target.namespace.is_some() || is_own(label, namespace);
        all.iter()
            .filter(is_passed_on)
            .for_each(|label| patches.add(object, label));
        if all.iter().any(|label| is_own(label, namespace)) {
            patches.remove_own(object, namespace, &all);
        }
    }
}

fn is_own(label: &str, namespace: &str) -> bool {
    labels::operator_of_component(label).is_some_and(|operator| component::is_own(operator, namespace))
}

/// Labels a Subscription and the InstallPlan it refers to as components. Older plans lose the label.
fn adopt_installs(observed: &Observed, patches: &mut Patches) {
    // Grouped by label, because two Subscriptions may be for one package.
    let mut referred: BTreeMap<String, BTreeSet<&str>> = BTreeMap::new();
    for subscription in &observed.subscriptions {
        let Some(label) = labels::component_label(&subscription.spec.name, &observed.namespace) else {
            continue;
        };
        if let Some(object) = Labelled::of(subscription.as_ref()) {
            patches.add(&object, &label);
            patches.remove_own(&object, &observed.namespace, &BTreeSet::from([label.clone()]));
        }
        referred.entry(label).or_default().extend(plan_of(subscription));
    }
    for (label, names) in referred {
        let (current, others): (Vec<_>, Vec<_>) = observed
            .plans
            .iter()
            .partition(|plan| names.contains(plan.name_any().as_str()));
        let generation = |plan: &InstallPlan| plan.spec.generation.unwrap_or_default();
        let newest = current.iter().map(|plan| generation(plan)).max();
        for plan in current.into_iter().filter_map(|plan| Labelled::of(plan.as_ref())) {
            patches.add(&plan, &label);
        }
        // A newer plan will soon be the one referred to.
        let older = others.into_iter().filter(|plan| Some(generation(plan)) < newest);
        for plan in older.filter_map(|plan| Labelled::of(plan.as_ref())) {
            patches.remove(&plan, &label);
        }
    }
}

fn plan_of(subscription: &Subscription) -> Option<&str> {
    let status = subscription.status.as_ref()?;
    status.install_plan_ref.as_ref()?.name.as_deref()
}

/// Pending patches by the text of their target.
#[derive(Default)]
struct Patches(BTreeMap<String, Patch>);

/// Pending label changes of one object.
struct Patch {
    target: Target,
    uid: Option<String>,
    labels: Map<String, Value>,
}

impl Patches {
    fn add(&mut self, object: &Labelled, label: &str) {
        if !object.labels.contains(label) {
            self.set(object, label, Value::String(String::new()));
        }
    }

    fn remove(&mut self, object: &Labelled, label: &str) {
        if object.labels.contains(label) {
            self.set(object, label, Value::Null);
        }
    }

    /// Removes the labels of a namespace, except these.
    fn remove_own(&mut self, object: &Labelled, namespace: &str, kept: &BTreeSet<String>) {
        let is_anothers = |label: &str| object.others.iter().any(|other| is_own(label, other));
        let own = object.labels.iter().filter(|label| is_own(label, namespace));
        for label in own.filter(|label| !kept.contains(*label) && !is_anothers(label)) {
            self.set(object, label, Value::Null);
        }
    }

    fn set(&mut self, object: &Labelled, label: &str, value: Value) {
        let patch = self.0.entry(object.target.to_string()).or_insert_with(|| Patch {
            target: object.target.clone(),
            uid: object.uid.clone(),
            labels: Map::new(),
        });
        patch.labels.insert(label.to_owned(), value);
    }
}

impl Patch {
    fn into_action(self) -> Action {
        let guard = Guard::of_uid(self.uid);
        Action::patch(self.target, json!({"metadata": {"labels": self.labels}}), guard)
    }
}
