//! Queues triggered by changes in each store. Without its line in the wiring, a row would trigger nothing.

use std::collections::BTreeSet;
use std::time::Duration;

use clap::Parser;
use olm_runtime::NamespacedName;
use olm_runtime::store::Projected;
use olm_testing::cluster::FakeCluster;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::args::Args;
use crate::bundle_unpack::Subscriber;
use crate::metrics::Figures;
use crate::pruning::prune_role;
use crate::run::{Outside, Parts, build};

struct Rig {
    parts: Parts,
    /// Nothing comes from it; the client is its.
    _cluster: FakeCluster,
}

fn of<K: DeserializeOwned>(value: Value) -> K {
    serde_json::from_value(value).unwrap()
}

fn metadata(name: &str) -> Value {
    json!({"namespace": "ns", "name": name, "uid": name})
}

fn source(image: &str) -> Value {
    json!({"apiVersion": "operators.coreos.com/v1alpha1", "kind": "CatalogSource", "metadata": metadata("cat"),
        "spec": {"sourceType": "grpc", "image": image}})
}

fn subscription() -> Value {
    json!({"apiVersion": "operators.coreos.com/v1alpha1", "kind": "Subscription", "metadata": metadata("sub"),
        "spec": {"source": "cat", "sourceNamespace": "ns", "name": "demo"}})
}

fn step(kind: &str, name: &str, status: &str) -> Value {
    json!({"resolving": "a", "status": status, "resource": {"sourceName": "", "sourceNamespace": "", "group": "g",
        "version": "v1", "kind": kind, "name": name}})
}

/// A plan that the Subscription owns, with one step for each kind.
fn plan(name: &str, phase: &str, status: &str) -> Value {
    let kinds = [
        "CustomResourceDefinition",
        "ServiceAccount",
        "Role",
        "RoleBinding",
        "ClusterRole",
        "ClusterRoleBinding",
    ];
    let mut metadata = metadata(name);
    metadata["ownerReferences"] = json!([{"apiVersion": "operators.coreos.com/v1alpha1", "kind": "Subscription", "name": "sub", "uid": "sub"}]);
    json!({"apiVersion": "operators.coreos.com/v1alpha1", "kind": "InstallPlan", "metadata": metadata,
        "spec": {"clusterServiceVersionNames": [], "approval": "", "approved": true, "generation": 1},
        "status": {"phase": phase, "catalogSources": [], "plan": kinds.map(|kind| step(kind, "x", status))}})
}

fn owned() -> Value {
    let mut metadata = metadata("x");
    metadata["ownerReferences"] = json!([{"apiVersion": "operators.coreos.com/v1alpha1", "kind": "CatalogSource", "name": "cat", "uid": "cat"}]);
    json!({ "metadata": metadata })
}

fn unowned() -> Value {
    json!({"metadata": metadata("x")})
}

fn with_role(mut object: Value) -> Value {
    object["roleRef"] = json!({"apiGroup": "", "kind": "Role", "name": "x"});
    object
}

impl Rig {
    /// The CatalogSource `cat`, a Subscription, a running plan and a finished one, all of them already observed by every queue.
    async fn new() -> Self {
        let cluster = FakeCluster::new();
        let (client, _link) = cluster.connect();
        let args = Args::parse_from(["catalog-operator"]);
        let (_, parts) = build(args, &client, Outside::default(), Figures::default());
        let rig = Self {
            parts,
            _cluster: cluster,
        };
        let stores = &rig.parts.stores;
        stores.sources.put(of(source("one")));
        stores.subscriptions.put(of(subscription()));
        stores.plans.put(of(plan("going", "Installing", "Unknown")));
        stores.plans.put(of(plan("over", "Complete", "Created")));
        rig.woken().await;
        rig
    }

    /// Keys woken since the last call, as `queue key`.
    async fn woken(&self) -> BTreeSet<String> {
        let mut woken = BTreeSet::new();
        let queues = &self.parts.queues;
        // Longer than changes are gathered before a resolution.
        let patience = Duration::from_secs(1);
        while let Ok(key) = tokio::time::timeout(patience, queues.namespaces.next()).await {
            queues.namespaces.done(&key);
            woken.insert(format!("namespace {key}"));
        }
        for (name, queue) in [("source", &queues.sources), ("plan", &queues.plans)] {
            while let Ok(key) = tokio::time::timeout(patience, queue.next()).await {
                queue.done(&key);
                woken.insert(format!("{name} {}", key.name));
            }
        }
        woken
    }

    async fn check(&self, expected: &[&str]) {
        let expected: BTreeSet<String> = expected.iter().map(|key| (*key).to_owned()).collect();
        assert_eq!(self.woken().await, expected);
    }
}

#[tokio::test(start_paused = true)]
async fn what_was_made_for_a_catalog_wakes_it() {
    let rig = Rig::new().await;
    let stores = &rig.parts.stores;
    stores.pods.put(of(owned()));
    rig.check(&["source cat"]).await;
    stores.services.put(of(owned()));
    rig.check(&["source cat"]).await;
    stores.policies.put(of(owned()));
    rig.check(&["source cat"]).await;
    let mut account = owned();
    account["metadata"]["name"] = json!("of the catalog");
    stores.accounts.put(of(account));
    rig.check(&["source cat"]).await;
}

#[tokio::test(start_paused = true)]
async fn a_catalog_wakes_itself_and_who_uses_it() {
    let rig = Rig::new().await;
    rig.parts.stores.sources.put(of(source("two")));
    rig.check(&["source cat", "namespace ns"]).await;
}

#[tokio::test(start_paused = true)]
async fn a_namespace_with_changed_labels_wakes_its_catalogs() {
    let rig = Rig::new().await;
    let namespace = |level: &str| {
        of(json!({"metadata": {"name": "ns", "labels": {"pod-security.kubernetes.io/enforce": level}}}))
    };
    rig.parts.stores.namespaces.put(namespace("baseline"));
    rig.woken().await;
    rig.parts.stores.namespaces.put(namespace("restricted"));
    rig.check(&["source cat"]).await;
}

#[tokio::test(start_paused = true)]
async fn a_subscription_wakes_resolution_and_the_plans_it_adopts() {
    let rig = Rig::new().await;
    let mut adopting = subscription();
    adopting["status"] = json!({"installPlanGeneration": 1, "lastUpdated": null});
    rig.parts.stores.subscriptions.put(of(adopting));
    rig.check(&["namespace ns", "plan going"]).await;
}

#[tokio::test(start_paused = true)]
async fn a_plan_wakes_resolution_and_itself() {
    let rig = Rig::new().await;
    rig.parts
        .stores
        .plans
        .put(of(plan("new", "Installing", "Unknown")));
    rig.check(&["namespace ns", "plan new"]).await;
}

#[tokio::test(start_paused = true)]
async fn a_csv_wakes_resolution_and_the_plans_that_concern_it() {
    let rig = Rig::new().await;
    rig.parts.stores.csvs.put(of(
        json!({"apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion",
            "metadata": metadata("a"), "spec": {}}),
    ));
    rig.check(&["namespace ns", "plan going", "plan over"]).await;
}

#[tokio::test(start_paused = true)]
async fn a_group_wakes_resolution_and_the_plans_of_its_namespace() {
    let rig = Rig::new().await;
    rig.parts.stores.groups.put(of(
        json!({"apiVersion": "operators.coreos.com/v1", "kind": "OperatorGroup", "metadata": metadata("og"), "spec": {}}),
    ));
    rig.check(&["namespace ns", "plan going", "plan over"]).await;
}

#[tokio::test(start_paused = true)]
async fn a_definition_wakes_the_plans_that_wait_for_it() {
    let rig = Rig::new().await;
    let definition = Projected::from_object(of(json!({"metadata": {"name": "x"}})));
    rig.parts.stores.crds.put(definition);
    rig.check(&["plan going"]).await;
}

#[tokio::test(start_paused = true)]
async fn accounts_and_rights_wake_the_plan_that_restores_them() {
    let rig = Rig::new().await;
    let stores = &rig.parts.stores;
    stores.accounts.put(of(unowned()));
    rig.check(&["plan over"]).await;
    stores.roles.put(of(unowned()));
    rig.check(&["plan over"]).await;
    stores.role_bindings.put(of(with_role(unowned())));
    rig.check(&["plan over"]).await;
    stores.cluster_roles.put(of(json!({"metadata": {"name": "x"}})));
    rig.check(&["plan over"]).await;
    stores
        .cluster_role_bindings
        .put(of(with_role(json!({"metadata": {"name": "x"}}))));
    rig.check(&["plan over"]).await;
}

#[tokio::test(start_paused = true)]
async fn rights_that_change_or_go_wake_the_plan_and_others_do_not() {
    let rig = Rig::new().await;
    let role = |verb: &str, more: Value| {
        let mut role = unowned();
        role["rules"] = json!([{"verbs": [verb]}]);
        for (key, value) in more.as_object().unwrap() {
            role["metadata"][key] = value.clone();
        }
        let mut role = of(role);
        prune_role(&mut role);
        role
    };
    let roles = &rig.parts.stores.roles;
    roles.put(role("get", json!({})));
    rig.woken().await;
    roles.put(role("get", json!({"labels": {"a": "b"}})));
    rig.check(&[]).await;
    roles.put(role("list", json!({})));
    rig.check(&["plan over"]).await;
    roles.put(role("list", json!({"uid": "another"})));
    rig.check(&["plan over"]).await;
    roles.put(role(
        "list",
        json!({"uid": "another", "deletionTimestamp": "2026-01-01T00:00:00Z"}),
    ));
    rig.check(&["plan over"]).await;
}

#[tokio::test(start_paused = true)]
async fn subscribers_of_a_bundle_are_woken() {
    let rig = Rig::new().await;
    super::wake(&rig.parts.queues, &Subscriber::Namespace("ns".into()));
    rig.check(&["namespace ns"]).await;
    super::wake(
        &rig.parts.queues,
        &Subscriber::InstallPlan(NamespacedName::new("ns", "going")),
    );
    rig.check(&["plan going"]).await;
}
