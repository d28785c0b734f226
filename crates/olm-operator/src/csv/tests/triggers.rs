//! ClusterServiceVersions that a change triggers.

use std::{collections::BTreeSet, sync::Arc};

use k8s_openapi::api::core::v1::Namespace;
use kube::core::PartialObjectMeta;
use olm_api::v1alpha1::{ClusterServiceVersion, Subscription};
use olm_runtime::store::Change;
use serde_json::{Value, json};

use crate::{
    csv::{observe::accounts::AccountSketch, triggers},
    stores::CustomResourceDefinition,
    test_env::{crd, csv, csv_key, decode, group, subscription},
};

fn typed(value: Value) -> Arc<ClusterServiceVersion> {
    Arc::new(decode(value))
}

fn names(keys: triggers::Keys) -> BTreeSet<String> {
    keys.into_iter().map(|key| key.name).collect()
}

fn set(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

fn applied<K>(old: Option<K>, new: K) -> Change<K> {
    Change::Applied {
        old: old.map(Arc::new),
        new: Arc::new(new),
    }
}

fn unrelated() -> Value {
    let mut other = csv("z", "");
    other["spec"]["customresourcedefinitions"] = json!({});
    other["spec"]["install"]["spec"] = json!({"deployments": []});
    other
}

#[test]
fn a_new_phase_wakes_the_chain_and_owners_of_the_same_crd() {
    let mut succeeded = csv("b", "a");
    succeeded["status"] = json!({"phase": "Succeeded"});
    let all = [
        typed(csv("a", "")),
        typed(csv("b", "a")),
        typed(csv("c", "b")),
        typed(unrelated()),
    ];
    let change = applied(Some(decode(csv("b", "a"))), decode(succeeded));
    assert_eq!(names(triggers::by_csv(&change, &all)), set(&["a", "b", "c"]));
    let same = applied(Some(decode(csv("b", "a"))), decode(csv("b", "a")));
    assert_eq!(names(triggers::by_csv(&same, &all)), set(&["b"]));
}

#[test]
fn an_owned_object_wakes_its_owners_by_reference_and_by_label() {
    let metadata = json!({"metadata": {"namespace": "ns", "name": "x",
        "labels": {"olm.owner": "label", "olm.owner.namespace": "ns", "olm.owner.kind": "ClusterServiceVersion"},
        "ownerReferences": [{"apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion", "name": "ref", "uid": "u"}]}});
    let role: k8s_openapi::api::rbac::v1::Role = decode(metadata.clone());
    assert_eq!(
        names(triggers::by_owned(&Change::Deleted { old: Arc::new(role) })),
        set(&["label", "ref"])
    );
    let mut handed_over = metadata.clone();
    handed_over["metadata"]["labels"]["olm.owner"] = json!("next");
    let change = applied::<k8s_openapi::api::rbac::v1::Role>(Some(decode(metadata)), decode(handed_over));
    assert_eq!(names(triggers::by_owned(&change)), set(&["label", "next", "ref"]));
}

#[test]
fn what_belongs_to_a_copy_wakes_its_original() {
    let role: k8s_openapi::api::rbac::v1::Role = decode(json!({"metadata": {"namespace": "far", "name": "x",
        "labels": {"olm.copiedFrom": "ns", "olm.owner": "a", "olm.owner.namespace": "far", "olm.owner.kind": "ClusterServiceVersion"}}}));
    let keys = triggers::by_owned(&Change::Deleted { old: Arc::new(role) });
    assert!(keys.contains(&csv_key("a")), "{keys:?}");
}

#[test]
fn a_deployment_that_goes_wakes_those_that_wait_for_its_name() {
    let deployment = |deleted: Value| -> k8s_openapi::api::apps::v1::Deployment {
        decode(
            json!({"metadata": {"namespace": "ns", "name": "demo", "deletionTimestamp": deleted,
            "labels": {"olm.owner": "old", "olm.owner.namespace": "ns", "olm.owner.kind": "ClusterServiceVersion"}}}),
        )
    };
    let all = [typed(csv("a", "")), typed(unrelated())];
    let stays = applied(None, deployment(Value::Null));
    assert_eq!(names(triggers::by_deployment(&stays, &all)), set(&["old"]));
    let leaving = applied(None, deployment(json!("2026-01-01T00:00:00Z")));
    assert_eq!(names(triggers::by_deployment(&leaving, &all)), set(&["old", "a"]));
    let gone = Change::Deleted {
        old: Arc::new(deployment(Value::Null)),
    };
    assert_eq!(names(triggers::by_deployment(&gone, &all)), set(&["old", "a"]));
}

#[test]
fn an_account_wakes_those_that_give_it_rights() {
    let account =
        AccountSketch::from_object(decode(json!({"metadata": {"namespace": "ns", "name": "demo"}})));
    let all = [typed(csv("a", "")), typed(unrelated())];
    assert_eq!(
        names(triggers::by_account(&applied(None, account), &all)),
        set(&["a"])
    );
}

#[test]
fn a_crd_wakes_those_that_name_it_only_when_something_they_read_changes() {
    let mut needing = unrelated();
    needing["metadata"]["name"] = json!("n");
    needing["spec"]["customresourcedefinitions"] =
        json!({"required": [{"name": "demos.example.com", "version": "v1", "kind": "Demo"}]});
    let all = [typed(csv("a", "")), typed(needing), typed(unrelated())];
    let typed_crd = |crd: Value| decode::<CustomResourceDefinition>(crd);
    let mut not_yet = crd("demos.example.com");
    not_yet["status"] = json!({});
    let established = applied(Some(typed_crd(not_yet)), typed_crd(crd("demos.example.com")));
    assert_eq!(names(triggers::by_crd(&established, &all)), set(&["a", "n"]));
    let same = applied(
        Some(typed_crd(crd("demos.example.com"))),
        typed_crd(crd("demos.example.com")),
    );
    assert!(triggers::by_crd(&same, &all).is_empty());
}

#[test]
fn a_subscription_wakes_what_it_named_and_names() {
    let typed_sub = |csv: &str, config: Value| decode::<Subscription>(subscription(csv, config));
    let moved = applied(Some(typed_sub("a", json!({}))), typed_sub("b", json!({})));
    assert_eq!(names(triggers::by_subscription(&moved)), set(&["a", "b"]));
    let configured = applied(
        Some(typed_sub("a", json!({}))),
        typed_sub("a", json!({"nodeSelector": {}})),
    );
    assert_eq!(names(triggers::by_subscription(&configured)), set(&["a"]));
    let same = applied(Some(typed_sub("a", json!({}))), typed_sub("a", json!({})));
    assert!(triggers::by_subscription(&same).is_empty());
}

#[test]
fn the_account_in_a_groups_status_wakes_its_members() {
    let named = |account: &str| {
        let mut group = group("ns", "og", &["ns"]);
        group["status"] =
            json!({"namespaces": ["ns"], "lastUpdated": null, "serviceAccountRef": {"name": account}});
        decode(group)
    };
    let all = [typed(csv("a", ""))];
    let change = applied(Some(named("one")), named("two"));
    assert_eq!(names(triggers::by_group(&change, &all)), set(&["a"]));
}

#[test]
fn ogx_012_a_group_wakes_its_members_and_providers_of_what_it_lists() {
    let mut elsewhere = csv("far", "");
    elsewhere["metadata"]["namespace"] = json!("elsewhere");
    let mut unconcerned = unrelated();
    unconcerned["metadata"]["namespace"] = json!("elsewhere");
    let all = [typed(csv("a", "")), typed(elsewhere), typed(unconcerned)];
    let mut listing = group("ns", "og", &["ns"]);
    listing["metadata"]["annotations"] = json!({"olm.providedAPIs": "Demo.v1.example.com"});
    let change = applied(Some(decode(listing)), decode(group("ns", "og", &["ns"])));
    assert_eq!(names(triggers::by_group(&change, &all)), set(&["a", "far"]));
    let same = applied(
        Some(decode(group("ns", "og", &["ns"]))),
        decode(group("ns", "og", &["ns"])),
    );
    assert!(triggers::by_group(&same, &all).is_empty());
}

#[test]
fn a_condition_wakes_those_that_replace_its_operator() {
    let condition = decode(
        json!({"apiVersion": "operators.coreos.com/v2", "kind": "OperatorCondition",
        "metadata": {"namespace": "ns", "name": "a"}}),
    );
    let all = [typed(csv("a", "")), typed(csv("b", "a"))];
    assert_eq!(
        names(triggers::by_condition(&applied(None, condition), &all)),
        set(&["b"])
    );
}

#[test]
fn a_namespace_that_comes_wakes_the_members_of_groups_that_target_it() {
    let mut targeting = group("ns", "og", &["later"]);
    targeting["status"] = json!({"namespaces": ["later"], "lastUpdated": null});
    let mut elsewhere = csv("b", "");
    elsewhere["metadata"]["namespace"] = json!("other");
    let all = [typed(csv("a", "")), typed(elsewhere)];
    let groups = [Arc::new(decode(targeting))];
    let namespace = |name: &str| -> PartialObjectMeta<Namespace> {
        decode(json!({"metadata": {"name": name, "uid": name}}))
    };
    let came = applied(None, namespace("later"));
    assert_eq!(names(triggers::by_namespace(&came, &groups, &all)), set(&["a"]));
    let same = applied(Some(namespace("later")), namespace("later"));
    assert_eq!(names(triggers::by_namespace(&same, &groups, &all)), set(&[]));
    let other = applied(None, namespace("unrelated"));
    assert_eq!(names(triggers::by_namespace(&other, &groups, &all)), set(&[]));
}

/// Builds the change of one field of an object, with the versions before and after.
fn edited<K: serde::de::DeserializeOwned>(before: &Value, pointer: &str, value: Value) -> Change<K> {
    let mut after = before.clone();
    let (parent, field) = pointer.rsplit_once('/').unwrap();
    let parent = after.pointer_mut(parent).unwrap();
    parent[field] = value;
    applied(Some(decode(before.clone())), decode(after))
}

#[test]
fn a_changed_chain_is_reported_in_both_directions() {
    let all = [typed(unrelated()), typed(csv("a", "")), typed(csv("c", "b"))];
    let mut old = csv("b", "");
    old["spec"]["customresourcedefinitions"] = json!({});
    // ClusterServiceVersions that name the same Deployment are triggered, too.
    old["spec"]["install"]["spec"]["deployments"] = json!([]);
    let replaces = edited::<ClusterServiceVersion>(&old, "/spec/replaces", json!("a"));
    assert_eq!(names(triggers::by_csv(&replaces, &all)), set(&["a", "b", "c"]));
    let owned = json!({"owned": [{"name": "demos.example.com", "version": "v1", "kind": "Demo"}]});
    let owns = edited::<ClusterServiceVersion>(&old, "/spec/customresourcedefinitions", owned);
    assert_eq!(names(triggers::by_csv(&owns, &all)), set(&["a", "b", "c"]));
    old["status"] = json!({"phase": "Pending"});
    let mut next = csv("n", "b");
    next["spec"]["customresourcedefinitions"] = json!({});
    let phase = edited::<ClusterServiceVersion>(&old, "/status/phase", json!("Succeeded"));
    let chain = [typed(next), typed(unrelated())];
    assert_eq!(names(triggers::by_csv(&phase, &chain)), set(&["b", "n"]));
    let mut last = csv("l", "p");
    last["spec"]["customresourcedefinitions"] = json!({});
    last["spec"]["install"]["spec"]["deployments"] = json!([]);
    let phase = edited::<ClusterServiceVersion>(&last, "/status", json!({"phase": "Succeeded"}));
    let chain = [typed(csv("p", "")), typed(unrelated())];
    assert_eq!(names(triggers::by_csv(&phase, &chain)), set(&["l", "p"]));
}

#[test]
fn each_field_that_is_read_of_a_definition_is_news() {
    let all = [typed(csv("a", ""))];
    let before = crd("demos.example.com");
    for (pointer, value) in [
        ("/spec/versions", json!([{"name": "v1", "served": false}])),
        ("/status/conditions", json!([])),
        (
            "/metadata/annotations",
            json!({"operatorframework.io/installed-alongside-1": "ns/a"}),
        ),
        ("/metadata/uid", json!("another")),
    ] {
        let change = edited::<CustomResourceDefinition>(&before, pointer, value);
        assert_eq!(names(triggers::by_crd(&change, &all)), set(&["a"]), "{pointer}");
    }
    let unread = edited::<CustomResourceDefinition>(&before, "/metadata/resourceVersion", json!("7"));
    assert!(triggers::by_crd(&unread, &all).is_empty());
}

#[test]
fn each_field_that_is_read_of_a_group_is_news() {
    let all = [typed(csv("a", ""))];
    let mut before = group("ns", "og", &["ns"]);
    before["metadata"]["annotations"] = json!({});
    before["status"] = json!({"namespaces": ["ns"], "lastUpdated": null});
    for (pointer, value) in [
        ("/spec/targetNamespaces", json!(["other"])),
        (
            "/metadata/annotations/olm.providedAPIs",
            json!("Demo.v1.example.com"),
        ),
        ("/status/namespaces", json!(["ns", "other"])),
        ("/status/serviceAccountRef", json!({"name": "one"})),
        ("/metadata/uid", json!("another")),
    ] {
        let change = edited(&before, pointer, value);
        assert_eq!(names(triggers::by_group(&change, &all)), set(&["a"]), "{pointer}");
    }
}

#[test]
fn a_namespace_that_goes_or_is_another_is_news() {
    let mut targeting = group("ns", "og", &["far"]);
    targeting["status"] = json!({"namespaces": ["far"], "lastUpdated": null});
    let (groups, all) = ([Arc::new(decode(targeting))], [typed(csv("a", ""))]);
    let before = json!({"metadata": {"name": "far", "uid": "one"}});
    for (pointer, value) in [
        ("/metadata/deletionTimestamp", json!("2026-01-01T00:00:00Z")),
        ("/metadata/uid", json!("another")),
    ] {
        let change = edited::<PartialObjectMeta<Namespace>>(&before, pointer, value);
        assert_eq!(
            names(triggers::by_namespace(&change, &groups, &all)),
            set(&["a"]),
            "{pointer}"
        );
    }
}

#[test]
fn an_api_service_that_becomes_available_is_news() {
    let mut needing = csv("a", "");
    needing["spec"]["apiservicedefinitions"] =
        json!({"required": [{"name": "x", "group": "example.org", "version": "v1", "kind": "X"}]});
    let all = [typed(needing), typed(unrelated())];
    let before = json!({"metadata": {"name": "v1.example.org", "uid": "one"}, "status": {"conditions": []}});
    for (pointer, value) in [
        (
            "/status/conditions",
            json!([{"type": "Available", "status": "True"}]),
        ),
        ("/metadata/uid", json!("another")),
    ] {
        let change = edited(&before, pointer, value);
        assert_eq!(
            names(triggers::by_api_service(&change, &all)),
            set(&["a"]),
            "{pointer}"
        );
    }
    let unread = edited(&before, "/metadata/resourceVersion", json!("7"));
    assert!(triggers::by_api_service(&unread, &all).is_empty());
}
