//! Which labels are missing on what. Pure.

use std::collections::{BTreeMap, BTreeSet};

use kube::{Resource, ResourceExt};
use olm_api::{
    labels,
    v1alpha1::{InstallPlan, Subscription},
};
use olm_runtime::plan::{Action, Guard, Plan, Target};
use serde_json::{Map, Value, json};

use crate::{
    adoption::{Labelled, Observed},
    component,
};

/// One patch for each object that lacks labels, or has one that is another's by now. Each stands for itself.
pub(crate) fn decide(observed: &Observed) -> Plan {
    let mut patches = Patches::default();
    adopt_installs(observed, &mut patches);
    for csv in &observed.csvs {
        let name = csv.name_any();
        for (_, object) in observed.owned.iter().filter(|(owner, _)| *owner == name) {
            for label in component::labels_of(&csv.metadata) {
                patches.add(object, label);
            }
        }
    }
    let actions: Vec<Action> = patches.0.into_values().map(Patch::into_action).collect();
    Plan {
        independent: actions.len(),
        actions,
        ..Plan::default()
    }
}

/// A Subscription, what it installed, and the plan it refers to are components; plans before that are no more.
fn adopt_installs(observed: &Observed, patches: &mut Patches) {
    // By label, as two Subscriptions may be about one package.
    let mut referred: BTreeMap<String, BTreeSet<&str>> = BTreeMap::new();
    for subscription in &observed.subscriptions {
        let Some(label) = labels::component_label(&subscription.spec.name, &observed.namespace) else {
            continue;
        };
        patches.add_to(subscription.as_ref(), &label);
        let status = subscription.status.as_ref();
        let installed = status.and_then(|status| status.installed_csv.as_deref());
        let csv = observed
            .csvs
            .iter()
            .find(|csv| Some(csv.name_any().as_str()) == installed);
        if let Some(csv) = csv {
            patches.add_to(csv.as_ref(), &label);
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
        for plan in current {
            patches.add_to(plan.as_ref(), &label);
        }
        // A later one is on its way to be referred to.
        for plan in others.into_iter().filter(|plan| Some(generation(plan)) < newest) {
            patches.remove_from(plan.as_ref(), &label);
        }
    }
}

fn plan_of(subscription: &Subscription) -> Option<&str> {
    let status = subscription.status.as_ref()?;
    status.install_plan_ref.as_ref()?.name.as_deref()
}

/// What is to be written, by the text of its target.
#[derive(Default)]
struct Patches(BTreeMap<String, Patch>);

/// Labels of one object.
struct Patch {
    target: Target,
    uid: Option<String>,
    labels: Map<String, Value>,
}

impl Patches {
    fn add_to<K: Resource<DynamicType = ()>>(&mut self, object: &K, label: &str) {
        if let Some(object) = Labelled::of(object) {
            self.add(&object, label);
        }
    }

    fn add(&mut self, object: &Labelled, label: &str) {
        if !object.labels.contains(label) {
            self.set(object, label, Value::String(String::new()));
        }
    }

    fn remove_from<K: Resource<DynamicType = ()>>(&mut self, object: &K, label: &str) {
        if let Some(object) = Labelled::of(object).filter(|object| object.labels.contains(label)) {
            self.set(&object, label, Value::Null);
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
        let guard = Guard {
            uid: self.uid,
            resource_version: None,
        };
        Action::patch(self.target, json!({"metadata": {"labels": self.labels}}), guard)
    }
}
