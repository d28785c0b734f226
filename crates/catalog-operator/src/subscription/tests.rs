//! The status of one Subscription, row by row. Numbers only distinguish cases; the rules are in
//! `docs/reference/resolution.md`.

// Fixtures read better with literals.
#![allow(clippy::needless_pass_by_value)]

mod catalogs;
mod health;
mod plans;
mod resolution_state;

use olm_api::v1alpha1::CatalogSource;
use serde_json::{Value, json};

use super::*;

fn now() -> Timestamp {
    "2026-11-20T22:00:00Z".parse().unwrap()
}

fn subscription(status: Value) -> Subscription {
    let mut value = json!({
        "apiVersion": "operators.coreos.com/v1alpha1", "kind": "Subscription",
        "metadata": {"name": "demo-sub", "namespace": "ns", "uid": "s1"},
        "spec": {"channel": "stable", "name": "demo", "source": "cat", "sourceNamespace": "ns"},
    });
    if !status.is_null() {
        value["status"] = status;
    }
    serde_json::from_value(value).unwrap()
}

fn plan(name: &str, status: Value) -> Arc<InstallPlan> {
    let mut value = json!({
        "apiVersion": "operators.coreos.com/v1alpha1", "kind": "InstallPlan",
        "metadata": {"name": name, "namespace": "ns", "uid": format!("uid-{name}"), "resourceVersion": "7"},
        "spec": {"approval": "Automatic", "approved": true, "clusterServiceVersionNames": ["demo.v1"], "generation": 1},
    });
    if !status.is_null() {
        value["status"] = status;
    }
    Arc::new(serde_json::from_value(value).unwrap())
}

fn in_phase(phase: &str) -> Value {
    json!({"phase": phase, "catalogSources": []})
}

fn csv_in_phase(name: &str, phase: &str) -> (String, Arc<ClusterServiceVersion>) {
    let value =
        json!({"metadata": {"name": name, "namespace": "ns"}, "spec": {}, "status": {"phase": phase}});
    (name.to_owned(), Arc::new(serde_json::from_value(value).unwrap()))
}

fn namespace_state(plans: &[Arc<InstallPlan>], csvs: &[&str]) -> NamespaceState {
    NamespaceState {
        plans: plans
            .iter()
            .map(|plan| (plan.name_any(), Arc::clone(plan)))
            .collect(),
        csvs: csvs.iter().map(|csv| csv_in_phase(csv, "Succeeded")).collect(),
        ..NamespaceState::default()
    }
}

fn catalog(namespace: &str, name: &str, status: Value) -> CatalogFact {
    let source: CatalogSource = serde_json::from_value(json!({
        "apiVersion": "operators.coreos.com/v1alpha1", "kind": "CatalogSource",
        "metadata": {"name": name, "namespace": namespace, "uid": format!("uid-{name}")},
        "spec": {"sourceType": "grpc", "image": "i"}, "status": status,
    }))
    .unwrap();
    CatalogFact::of(&source)
}

fn healthy(name: &str) -> CatalogFact {
    let status = json!({"registryService": {"protocol": "grpc"}, "connectionState": {"address": "a", "lastObservedState": "READY"}});
    catalog("ns", name, status)
}

fn reference(name: &str) -> Value {
    json!({
        "installPlanRef": {"apiVersion": "operators.coreos.com/v1alpha1", "kind": "InstallPlan", "name": name, "namespace": "ns", "uid": format!("uid-{name}"), "resourceVersion": "3"},
        "installplan": {"apiVersion": "operators.coreos.com/v1alpha1", "kind": "InstallPlan", "name": name, "uuid": format!("uid-{name}")},
    })
}

fn merged(parts: &[Value]) -> Value {
    let mut all = serde_json::Map::new();
    for part in parts {
        all.extend(part.as_object().unwrap().clone());
    }
    Value::Object(all)
}

fn composed(
    object: &Subscription,
    namespace_state: &NamespaceState,
    facts: &Facts<'_>,
) -> SubscriptionStatus {
    compose(object, namespace_state, facts, now())
}

fn quiet<'a>(catalogs: &'a [CatalogFact]) -> Facts<'a> {
    Facts {
        catalogs,
        outcome: &ResolutionOutcome::Unknown,
        deprecation: None,
        assignment: None,
    }
}

/// Returns `type=status/reason: message` of all conditions except `Ready`, which follows from them
/// (`health.rs`).
fn conditions_text(status: &SubscriptionStatus) -> String {
    let told = status
        .conditions
        .iter()
        .filter(|condition| condition.type_ != reasons::READY);
    let lines = told.map(|condition| {
        let text = |part: &Option<String>| part.clone().unwrap_or_default();
        format!(
            "{}={}/{}: {}",
            condition.type_,
            condition.status,
            text(&condition.reason),
            text(&condition.message)
        )
    });
    lines
        .collect::<Vec<_>>()
        .join("\n")
        .replace(": \n", "\n")
        .trim_end_matches([':', ' '])
        .to_owned()
}

fn with(object: &Subscription, status: SubscriptionStatus) -> Subscription {
    Subscription {
        status: Some(status),
        ..object.clone()
    }
}

// Plan and state ------------------------------------------------------------------------------------------------------

// Catalogs ------------------------------------------------------------------------------------------------------------

// Outcome of resolution and deprecation -------------------------------------------------------------------------------
