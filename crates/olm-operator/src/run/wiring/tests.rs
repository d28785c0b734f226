//! Which queue hears of a change in which store: each row would be silent without its line in the wiring.

use std::{collections::BTreeSet, time::Duration};

use olm_runtime::{NamespacedName, queue::Queue};
use serde_json::{Value, json};

use super::connect;
use crate::{
    run::Queues,
    stores::Stores,
    test_env::{crd, csv, decode, group, subscription},
};

struct Rig {
    stores: Stores,
    queues: Queues,
}

async fn drain(name: &str, queue: &Queue<NamespacedName>, into: &mut BTreeSet<String>) {
    while let Ok(key) = tokio::time::timeout(Duration::from_millis(1), queue.next()).await {
        queue.done(&key);
        into.insert(format!("{name} {}", key.name));
    }
}

impl Rig {
    /// The ClusterServiceVersion `a`, its successor `b` and the group `og` of namespace `ns`, which everybody has heard of.
    async fn new() -> Self {
        let (stores, queues) = (Stores::empty(), Queues::default());
        connect(&stores, &queues);
        let rig = Self { stores, queues };
        let mut needing = csv("a", "");
        needing["spec"]["apiservicedefinitions"] =
            json!({"required": [{"name": "x", "group": "example.org", "version": "v1", "kind": "X"}]});
        rig.stores.csvs.put(decode(needing));
        let mut successor = csv("b", "a");
        successor["spec"]["customresourcedefinitions"] = json!({});
        successor["spec"]["install"]["spec"] = json!({"deployments": []});
        rig.stores.csvs.put(decode(successor));
        rig.stores.groups.put(decode(og(&["ns"], "one")));
        rig.woken().await;
        rig
    }

    /// Who was woken since the last time, as `queue key`.
    async fn woken(&self) -> BTreeSet<String> {
        let mut woken = BTreeSet::new();
        drain("csv", &self.queues.csvs, &mut woken).await;
        drain("group", &self.queues.groups, &mut woken).await;
        drain("condition", &self.queues.conditions, &mut woken).await;
        drain("namespace", &self.queues.namespaces, &mut woken).await;
        drain("mislabelled csv", &self.queues.mislabelled_csvs, &mut woken).await;
        woken
    }

    async fn check(&self, expected: &[&str]) {
        let expected: BTreeSet<String> = expected.iter().map(|key| (*key).to_owned()).collect();
        assert_eq!(self.woken().await, expected);
    }
}

/// The group `og`, which selects namespaces by label.
fn og(targets: &[&str], uid: &str) -> Value {
    let mut og = group("ns", "og", &[]);
    og["metadata"]["uid"] = json!(uid);
    og["spec"] = json!({"selector": {"matchLabels": {"a": "b"}}});
    og["status"] = json!({"namespaces": targets, "lastUpdated": null});
    og
}

/// An object that was made for `a`.
fn made_for_a() -> Value {
    json!({"metadata": {"namespace": "ns", "name": "x", "labels": {
        "olm.owner": "a", "olm.owner.namespace": "ns", "olm.owner.kind": "ClusterServiceVersion"}}})
}

fn with(mut object: Value, field: &str, value: Value) -> Value {
    object[field] = value;
    object
}

fn role_ref() -> Value {
    json!({"apiGroup": "", "kind": "Role", "name": "x"})
}

#[tokio::test(start_paused = true)]
async fn what_was_made_for_a_csv_wakes_it() {
    let rig = Rig::new().await;
    let stores = &rig.stores;
    let spec = json!({"selector": {}, "template": {}});
    stores.deployments.put(decode(with(made_for_a(), "spec", spec)));
    rig.check(&["csv a"]).await;
    stores.replica_sets.put(decode(made_for_a()));
    rig.check(&["csv a"]).await;
    stores.roles.put(decode(made_for_a()));
    rig.check(&["csv a"]).await;
    stores
        .role_bindings
        .put(decode(with(made_for_a(), "roleRef", role_ref())));
    rig.check(&["csv a"]).await;
    stores.cluster_roles.put(decode(made_for_a()));
    rig.check(&["csv a"]).await;
    stores
        .cluster_role_bindings
        .put(decode(with(made_for_a(), "roleRef", role_ref())));
    rig.check(&["csv a"]).await;
}

#[tokio::test(start_paused = true)]
async fn the_rights_of_an_operator_condition_wake_it() {
    let rig = Rig::new().await;
    let owned = json!({"metadata": {"namespace": "ns", "name": "a", "ownerReferences": [
        {"apiVersion": "operators.coreos.com/v2", "kind": "OperatorCondition", "name": "a", "uid": "u"}]}});
    rig.stores.roles.put(decode(owned.clone()));
    rig.check(&["condition a"]).await;
    rig.stores
        .role_bindings
        .put(decode(with(owned, "roleRef", role_ref())));
    rig.check(&["condition a"]).await;
}

#[tokio::test(start_paused = true)]
async fn a_csv_wakes_itself_its_chain_its_group_and_its_condition() {
    let rig = Rig::new().await;
    let mut moved = csv("a", "");
    moved["status"] = json!({"phase": "Succeeded"});
    rig.stores.csvs.put(decode(moved.clone()));
    rig.check(&["csv a", "csv b", "group og"]).await;
    moved["metadata"]["generation"] = json!(2);
    rig.stores.csvs.put(decode(moved));
    rig.check(&["csv a", "condition a"]).await;
}

#[tokio::test(start_paused = true)]
async fn a_group_wakes_its_members_itself_and_its_targets() {
    let rig = Rig::new().await;
    rig.stores.groups.put(decode(og(&["ns", "more"], "one")));
    rig.check(&["csv a", "csv b", "group og", "namespace more", "namespace ns"])
        .await;
}

#[tokio::test(start_paused = true)]
async fn a_namespace_wakes_itself_who_selects_it_and_who_works_in_it() {
    let rig = Rig::new().await;
    let namespace = |labels: Value| decode(json!({"metadata": {"name": "ns", "labels": labels}}));
    rig.stores.namespaces.put(namespace(json!({})));
    rig.check(&["csv a", "csv b", "group og", "namespace ns"]).await;
    rig.stores.namespaces.put(namespace(json!({"a": "b"})));
    rig.check(&["group og", "namespace ns"]).await;
}

#[tokio::test(start_paused = true)]
async fn what_a_csv_needs_wakes_it() {
    let rig = Rig::new().await;
    let stores = &rig.stores;
    stores
        .accounts
        .put(decode(json!({"metadata": {"namespace": "ns", "name": "demo"}})));
    rig.check(&["csv a"]).await;
    stores.crds.put(decode(crd("demos.example.com")));
    rig.check(&["csv a"]).await;
    stores
        .api_services
        .put(decode(json!({"metadata": {"name": "v1.example.org"}})));
    rig.check(&["csv a"]).await;
    stores.subscriptions.put(decode(subscription("a", json!({}))));
    rig.check(&["csv a"]).await;
    let step = json!({"resolving": "a", "status": "Created", "resource": {"sourceName": "", "sourceNamespace": "",
        "group": "rbac.authorization.k8s.io", "version": "v1", "kind": "Role", "name": "r", "manifest": "{}"}});
    stores.install_plans.put(decode(
        json!({"apiVersion": "operators.coreos.com/v1alpha1", "kind": "InstallPlan",
            "metadata": {"namespace": "ns", "name": "p"},
            "spec": {"clusterServiceVersionNames": [], "approval": "", "approved": true},
            "status": {"phase": "Complete", "catalogSources": [], "plan": [step]}}),
    ));
    rig.check(&["csv a"]).await;
    stores.conditions.put(decode(
        json!({"apiVersion": "operators.coreos.com/v2", "kind": "OperatorCondition",
            "metadata": {"namespace": "ns", "name": "a"}}),
    ));
    rig.check(&["csv b", "condition a"]).await;
}

#[tokio::test(start_paused = true)]
async fn what_passes_for_a_copy_is_looked_at() {
    let rig = Rig::new().await;
    rig.stores.mislabelled_csvs.put(decode(made_for_a()));
    rig.check(&["mislabelled csv x"]).await;
}
