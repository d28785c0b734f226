//! Queues triggered by a change in each store: each row would be missing without its line in the wiring.

use std::{collections::BTreeSet, hash::Hash, time::Duration};

use olm_runtime::{NamespacedName, queue::Queue};
use serde_json::{Value, json};

use super::connect;
use crate::{
    csv::observe::accounts::AccountSketch,
    csv_sketch::Sketch,
    run::Queues,
    stores::Stores,
    test_env::{crd, csv, decode, group, subscription},
};

struct Rig {
    stores: Stores,
    queues: Queues,
}

async fn drain<T: Clone + Ord + Hash>(
    name: &str,
    queue: &Queue<T>,
    shown: impl Fn(&T) -> String,
    into: &mut BTreeSet<String>,
) {
    while let Ok(key) = tokio::time::timeout(Duration::from_millis(1), queue.next()).await {
        queue.done(&key);
        into.insert(format!("{name} {}", shown(&key)));
    }
}

impl Rig {
    /// The ClusterServiceVersion `a`, its successor `b` and the group `og` of namespace `ns`, with no change
    /// pending.
    async fn new() -> Self {
        let (stores, queues) = (Stores::default(), Queues::default());
        connect(&stores, &queues);
        let rig = Self { stores, queues };
        let mut needing = csv("a", "");
        needing["spec"]["apiservicedefinitions"] =
            json!({"required": [{"name": "x", "group": "example.org", "version": "v1", "kind": "X"}]});
        rig.put_csv(&needing);
        let mut successor = csv("b", "a");
        successor["spec"]["customresourcedefinitions"] = json!({});
        successor["spec"]["install"]["spec"] = json!({"deployments": []});
        rig.put_csv(&successor);
        rig.stores.groups.put(decode(og(&["ns"], "one")));
        rig.woken().await;
        rig
    }

    /// Stores it in both stores, as their watches would.
    fn put_csv(&self, csv: &Value) {
        self.stores.csvs.put(decode(csv.clone()));
        self.stores
            .csv_sketches
            .put(Sketch::from_object(decode(csv.clone())));
    }

    /// Returns the keys triggered since the last call, as `queue key`.
    async fn woken(&self) -> BTreeSet<String> {
        let mut woken = BTreeSet::new();
        let queues = &self.queues;
        let name = |key: &NamespacedName| key.name.clone();
        drain("csv", &queues.csvs, name, &mut woken).await;
        drain("group", &queues.groups, name, &mut woken).await;
        drain("condition", &queues.conditions, name, &mut woken).await;
        drain("namespace", &queues.namespaces, name, &mut woken).await;
        drain(
            "orphan",
            &queues.orphaned_callers,
            ToString::to_string,
            &mut woken,
        )
        .await;
        drain("copy", &queues.copies, ToString::to_string, &mut woken).await;
        woken
    }

    /// Returns the triggered keys of the controllers of ClusterRoles for users.
    async fn woken_for_users(&self) -> BTreeSet<String> {
        let mut woken = BTreeSet::new();
        let queues = &self.queues;
        drain("group role", &queues.group_roles, ToString::to_string, &mut woken).await;
        drain("api role", &queues.api_roles, ToString::to_string, &mut woken).await;
        woken
    }

    async fn check_for_users(&self, expected: &[&str]) {
        let expected: BTreeSet<String> = expected.iter().map(|key| (*key).to_owned()).collect();
        assert_eq!(self.woken_for_users().await, expected);
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
    stores.services.put(decode(made_for_a()));
    rig.check(&["csv a"]).await;
    stores.secrets.put(decode(made_for_a()));
    rig.check(&["csv a"]).await;
    stores.validating_webhooks.put(decode(made_for_a()));
    rig.check(&["csv a", "orphan ns/a"]).await;
    stores.mutating_webhooks.put(decode(made_for_a()));
    rig.check(&["csv a", "orphan ns/a"]).await;
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
    rig.check(&["csv a", "csv b", "condition a", "group og"]).await;
    moved["metadata"]["generation"] = json!(2);
    rig.stores.csvs.put(decode(moved));
    rig.check(&["csv a", "condition a"]).await;
}

#[tokio::test(start_paused = true)]
async fn a_group_wakes_its_members_itself_and_its_targets() {
    let rig = Rig::new().await;
    rig.stores.groups.put(decode(og(&["ns", "more"], "one")));
    rig.check(&[
        "copy ns/a in more",
        "copy ns/b in more",
        "csv a",
        "csv b",
        "group og",
        "namespace more",
        "namespace ns",
    ])
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
async fn copies_hear_of_their_original_of_its_group_of_their_namespace_and_of_settings() {
    let rig = Rig::new().await;
    let stores = &rig.stores;
    let namespace = |name: &str| decode(json!({"metadata": {"name": name}}));
    stores.namespaces.put(namespace("far"));
    rig.woken().await;
    stores.groups.put(decode(og(&[""], "one")));
    let of_both = ["copy ns/a in far", "copy ns/b in far"];
    let copies = async || {
        let woken = rig.woken().await.into_iter();
        woken.filter(|key| key.starts_with("copy")).collect::<Vec<_>>()
    };
    assert_eq!(copies().await, of_both);
    stores.namespaces.put(namespace("farther"));
    assert_eq!(copies().await, ["copy ns/a in farther", "copy ns/b in farther"]);
    let mut original = csv("a", "");
    original["status"] = json!({"phase": "Succeeded"});
    stores.csv_sketches.put(Sketch::from_object(decode(original)));
    assert_eq!(copies().await, ["copy ns/a in far", "copy ns/a in farther"]);
    let config = |is_off: bool| {
        decode(
            json!({"apiVersion": "operators.coreos.com/v1", "kind": "OLMConfig", "metadata": {"name": "cluster"},
            "spec": {"features": {"disableCopiedCSVs": is_off}}}),
        )
    };
    stores.olm_configs.put(config(true));
    assert_eq!(copies().await.len(), 4);
    stores.olm_configs.put(config(true));
    assert_eq!(copies().await, [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn what_a_csv_needs_wakes_it() {
    let rig = Rig::new().await;
    let stores = &rig.stores;
    let account = decode(json!({"metadata": {"namespace": "ns", "name": "demo"}}));
    stores.account_sketches.put(AccountSketch::from_object(account));
    rig.check(&["csv a"]).await;
    stores.crds.put(decode(crd("demos.example.com")));
    rig.check(&["csv a"]).await;
    stores
        .api_services
        .put(decode(json!({"metadata": {"name": "v1.example.org"}})));
    rig.check(&["csv a"]).await;
    stores.subscriptions.put(decode(subscription("a", json!({}))));
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
    let mut labelled = csv("x", "");
    labelled["metadata"]["labels"] = json!({"olm.copiedFrom": "elsewhere"});
    rig.stores.csv_sketches.put(Sketch::from_object(decode(labelled)));
    rig.check(&["copy elsewhere/x in ns"]).await;
}

#[tokio::test(start_paused = true)]
async fn what_roles_for_users_follow_from_wakes_their_controllers() {
    let rig = Rig::new().await;
    let stores = &rig.stores;
    rig.woken_for_users().await;
    let mut running = csv("a", "");
    running["spec"]["apiservicedefinitions"] =
        json!({"owned": [{"name": "x", "group": "example.org", "version": "v1", "kind": "X"}]});
    running["status"] = json!({"phase": "Succeeded"});
    stores.csvs.put(decode(running.clone()));
    rig.check_for_users(&[
        "api role APIService v1.example.org",
        "api role CustomResourceDefinition demos.example.com",
        "group role ns/og",
    ])
    .await;
    running["metadata"]["generation"] = json!(2);
    stores.csvs.put(decode(running));
    rig.check_for_users(&["group role ns/og"]).await;

    let definition = crd("demos.example.com");
    stores.crds.put(decode(definition.clone()));
    rig.check_for_users(&["api role CustomResourceDefinition demos.example.com"])
        .await;
    stores
        .crds
        .put(decode(with(definition.clone(), "status", json!({}))));
    rig.check_for_users(&["api role CustomResourceDefinition demos.example.com"])
        .await;
    let mut versions = definition["spec"].clone();
    versions["versions"] = json!([{"name": "v2", "served": true}]);
    stores.crds.put(decode(with(definition, "spec", versions)));
    rig.check_for_users(&["api role CustomResourceDefinition demos.example.com"])
        .await;

    let service = |name: &str, labels: Value| decode(json!({"metadata": {"name": name, "labels": labels}}));
    let owner =
        json!({"olm.owner": "a", "olm.owner.namespace": "ns", "olm.owner.kind": "ClusterServiceVersion"});
    stores.api_services.put(service("v1.example.org", owner));
    rig.check_for_users(&["api role APIService v1.example.org"]).await;
    stores.api_services.put(service("v2.example.org", json!({})));
    rig.check_for_users(&["api role APIService v1.example.org"]).await;
    stores.api_services.put(service("v2.example.com", json!({})));
    rig.check_for_users(&[]).await;

    let labels = json!({"olm.owner": "gone", "olm.owner.namespace": "ns", "olm.owner.kind": "OperatorGroup"});
    let owners = json!([
        {"apiVersion": "apiextensions.k8s.io/v1", "kind": "customresourcedefinition", "name": "c", "uid": "u"},
        {"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "name": "s", "uid": "u"},
        {"apiVersion": "v1", "kind": "ConfigMap", "name": "m", "uid": "u"}]);
    stores.cluster_roles.put(decode(
        json!({"metadata": {"name": "x", "labels": labels, "ownerReferences": owners}}),
    ));
    rig.check_for_users(&[
        "api role APIService s",
        "api role CustomResourceDefinition c",
        "group role ns/gone",
    ])
    .await;

    let mut listing = og(&["ns"], "one");
    stores.groups.put(decode(listing.clone()));
    rig.check_for_users(&["group role ns/og"]).await;
    listing["metadata"]["annotations"] = json!({"olm.providedAPIs": "Demo.v1.example.com"});
    stores.groups.put(decode(listing));
    rig.check_for_users(&["group role ns/og"]).await;
}
