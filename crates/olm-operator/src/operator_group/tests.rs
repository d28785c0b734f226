//! OperatorGroups in the model cluster: targets, conditions, provided APIs, namespace labels.

use std::sync::Arc;

use olm_api::{api_key::parse_api_set, v1::OperatorGroup, v1alpha1::ClusterServiceVersionPhase as Phase};
use olm_runtime::{plan::Action, store::Change};
use serde_json::{Value, json};

use crate::{
    operator_group::{
        Group,
        decide::decide,
        observe::{GroupAccount, Member, Observed},
        triggers,
    },
    world::{World, crd, csv, decode, group, namespace_object, service_account},
};

fn status(world: &World, name: &str) -> Value {
    world.get("OperatorGroup", "ns", name).unwrap()["status"].clone()
}

fn labelled(world: &World) -> Vec<String> {
    let carries = |name: &String| {
        let labels = &world.get("Namespace", "", name.trim_start_matches('/')).unwrap()["metadata"]["labels"];
        labels
            .as_object()
            .is_some_and(|labels| labels.keys().any(|key| key.starts_with("olm.operatorgroup.uid/")))
    };
    world.names("Namespace").into_iter().filter(carries).collect()
}

#[test]
fn targets_are_sorted_and_the_time_moves_only_with_them() {
    let mut world = World::new();
    world.put(group("ns", "og", &["z", "a"]));
    world.settle();
    assert_eq!(
        status(&world, "og"),
        json!({"namespaces": ["a", "z"], "lastUpdated": "2026-01-01T00:00:00Z"})
    );
    let writes = world.writes.len();
    world.advance(60);
    world.settle();
    assert_eq!(world.writes.len(), writes);
    world.edit(
        "OperatorGroup",
        "ns",
        "og",
        json!({"spec": {"targetNamespaces": ["a"]}}),
    );
    world.settle();
    assert_eq!(
        status(&world, "og"),
        json!({"namespaces": ["a"], "lastUpdated": "2026-01-01T00:01:00Z"})
    );
}

#[test]
fn a_group_without_targets_is_for_all_namespaces() {
    let mut world = World::new();
    world.put(group("ns", "og", &[]));
    world.settle();
    assert_eq!(status(&world, "og")["namespaces"], json!([""]));
    assert!(labelled(&world).is_empty());
}

#[test]
fn a_selector_follows_namespaces_as_they_come_and_are_labelled() {
    let mut world = World::new();
    let mut selecting = group("ns", "og", &[]);
    selecting["spec"] = json!({"selector": {"matchLabels": {"team": "x"}}});
    world.put(selecting);
    world.settle();
    assert_eq!(status(&world, "og"), Value::Null, "nothing selected is no status");
    let mut one = namespace_object("one");
    one["metadata"]["labels"]["team"] = json!("x");
    world.put(one);
    world.settle();
    assert_eq!(status(&world, "og")["namespaces"], json!(["one"]));
    world.edit(
        "Namespace",
        "",
        "one",
        json!({"metadata": {"labels": {"team": null}}}),
    );
    world.settle();
    assert_eq!(status(&world, "og").get("namespaces"), None);
}

#[test]
fn several_groups_of_a_namespace_say_so_until_one_is_left() {
    let mut world = World::new();
    world.put(group("ns", "og", &["ns"]));
    world.put(group("ns", "other", &["ns"]));
    world.settle();
    for name in ["og", "other"] {
        let condition = &status(&world, name)["conditions"][0];
        assert_eq!(condition["type"], "MultipleOperatorGroup");
        assert_eq!(condition["status"], "True");
        assert_eq!(condition["reason"], "MultipleOperatorGroupsFound");
        assert_eq!(
            condition["message"],
            "Multiple OperatorGroup found in the same namespace"
        );
    }
    world.delete("OperatorGroup", "ns", "other");
    world.settle();
    assert_eq!(status(&world, "og").get("conditions"), None);
}

#[test]
fn conditions_of_others_are_kept() {
    let mut world = World::new();
    let mut scoped = group("ns", "og", &["ns"]);
    scoped["status"] = json!({"lastUpdated": null,
        "conditions": [{"type": "Mine", "status": "True", "reason": "R", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}]});
    world.put(scoped);
    world.settle();
    let status = status(&world, "og");
    assert_eq!(status["conditions"][0]["type"], "Mine");
    assert_eq!(status["namespaces"], json!(["ns"]));
}

/// A group that names the account `scoped`.
fn scoped() -> World {
    let mut world = World::new();
    let mut scoped = group("ns", "og", &["ns"]);
    scoped["spec"]["serviceAccountName"] = json!("scoped");
    world.put(scoped);
    world.settle();
    world
}

/// The account is there and nothing is wrong with it.
#[track_caller]
fn refers_to_account(world: &World) {
    let account = world.get("ServiceAccount", "ns", "scoped").unwrap();
    let found = &status(world, "og")["serviceAccountRef"];
    assert_eq!(found["kind"], "ServiceAccount");
    assert_eq!(found["apiVersion"], "v1");
    assert_eq!(found["namespace"], "ns");
    assert_eq!(found["name"], "scoped");
    assert_eq!(found["uid"], account["metadata"]["uid"]);
    assert!(found["resourceVersion"].is_string());
    assert_eq!(status(world, "og").get("conditions"), None);
}

#[track_caller]
fn misses_account(world: &World) {
    let status = status(world, "og");
    assert_eq!(status.get("serviceAccountRef"), None);
    let condition = &status["conditions"][0];
    assert_eq!(condition["type"], "OperatorGroupServiceAccount");
    assert_eq!(condition["status"], "True");
    assert_eq!(condition["reason"], "ServiceAccountNotFound");
    assert_eq!(condition["message"], "ServiceAccount scoped not found");
    assert_eq!(status["namespaces"], json!(["ns"]));
}

#[test]
fn the_account_is_followed_as_it_comes_changes_and_goes() {
    let mut world = scoped();
    misses_account(&world);
    world.put(service_account("another"));
    world.settle();
    misses_account(&world);
    world.advance(60);
    world.put(service_account("scoped"));
    world.settle();
    refers_to_account(&world);
    let updated = status(&world, "og")["lastUpdated"].clone();
    assert!(updated.as_str().unwrap() >= "2026-01-01T00:01:00Z", "{updated}");

    let writes = world.writes.len();
    let secret = json!({"secrets": [{"name": "token"}]});
    world.edit("ServiceAccount", "ns", "scoped", secret);
    world.settle();
    assert_eq!(world.writes.len(), writes, "an edit is no other account");

    world.delete("ServiceAccount", "ns", "scoped");
    world.settle();
    misses_account(&world);
    world.put(service_account("scoped"));
    world.settle();
    refers_to_account(&world);
    let none = json!({"spec": {"serviceAccountName": null}});
    world.edit("OperatorGroup", "ns", "og", none);
    world.settle();
    assert_eq!(status(&world, "og").get("serviceAccountRef"), None);
}

#[test]
fn a_missing_account_that_is_not_named_any_more_is_nothing_to_complain_about() {
    let mut world = scoped();
    misses_account(&world);
    let none = json!({"spec": {"serviceAccountName": ""}});
    world.edit("OperatorGroup", "ns", "og", none);
    world.settle();
    assert_eq!(status(&world, "og").get("conditions"), None);
}

/// Nothing is kept of accounts, so one that goes while the watch is away is missed by looking again.
#[test]
fn an_account_that_goes_unheard_is_missed_after_the_next_list() {
    let mut world = scoped();
    world.put(service_account("scoped"));
    world.settle();
    refers_to_account(&world);
    world.cluster.hold("ServiceAccount");
    world.delete("ServiceAccount", "ns", "scoped");
    world.settle();
    assert_eq!(status(&world, "og")["serviceAccountRef"]["name"], "scoped");
    world.cluster.forget_history();
    world.cluster.release("ServiceAccount");
    world.settle_for(10);
    misses_account(&world);
}

#[test]
fn namespace_labels_follow_the_targets_and_foreign_labels_stay() {
    let mut world = World::new();
    for name in ["a", "b", "c"] {
        world.put(namespace_object(name));
    }
    world.put(group("ns", "og", &["a"]));
    for (targets, expected) in [
        (json!(["a"]), vec!["/a"]),
        (json!(["a", "b"]), vec!["/a", "/b"]),
        (json!(["a", "b", "c"]), vec!["/a", "/b", "/c"]),
        (json!(["b", "c"]), vec!["/b", "/c"]),
        (json!(null), vec![]),
        (json!(["c"]), vec!["/c"]),
    ] {
        world.edit(
            "OperatorGroup",
            "ns",
            "og",
            json!({"spec": {"targetNamespaces": targets}}),
        );
        world.settle();
        assert_eq!(labelled(&world), expected);
    }
    world.delete("OperatorGroup", "ns", "og");
    world.settle();
    assert!(labelled(&world).is_empty());
    let labels = &world.get("Namespace", "", "c").unwrap()["metadata"]["labels"];
    assert_eq!(*labels, json!({"kubernetes.io/metadata.name": "c"}));
}

#[test]
fn apis_that_nobody_provides_any_more_leave_the_list_and_a_static_one_stays() {
    for (fixed, expected) in [
        (false, "Demo.v1.example.com"),
        (true, "Demo.v1.example.com,Old.v1.example.com"),
    ] {
        let mut world = World::new();
        world.put(crd("demos.example.com"));
        let mut listing = group("ns", "og", &["ns"]);
        listing["spec"]["staticProvidedAPIs"] = json!(fixed);
        listing["metadata"]["annotations"] =
            json!({"olm.providedAPIs": "Demo.v1.example.com,Old.v1.example.com"});
        world.put(listing);
        world.put(csv("a", ""));
        world.settle_for(5);
        let annotations = &world.get("OperatorGroup", "ns", "og").unwrap()["metadata"]["annotations"];
        assert_eq!(annotations["olm.providedAPIs"], expected);
    }
}

#[test]
fn a_group_that_comes_or_goes_wakes_the_others_of_its_namespace() {
    let typed = |name: &str| Arc::new(decode::<OperatorGroup>(group("ns", name, &["ns"])));
    let all = [typed("og"), typed("other")];
    let woken = |change: &Change<OperatorGroup>| triggers::by_group(change, &all).len();
    assert_eq!(
        woken(&Change::Applied {
            old: None,
            new: typed("og")
        }),
        2
    );
    assert_eq!(
        woken(&Change::Applied {
            old: Some(typed("og")),
            new: typed("og")
        }),
        1
    );
    assert_eq!(
        triggers::by_group(&Change::Deleted { old: typed("og") }, &all[1..]).len(),
        2
    );
}

/// What becomes of a list of two APIs, `Demo` and `Old`, with these members.
fn pruned(members: Vec<Member>, ambiguous: bool) -> Option<Action> {
    let mut listing = group("ns", "og", &["ns"]);
    listing["metadata"]["resourceVersion"] = json!("7");
    listing["metadata"]["annotations"] =
        json!({"olm.providedAPIs": "Demo.v1.example.com,Old.v1.example.com"});
    let observed = Observed {
        group: Arc::new(decode(listing)),
        ambiguous,
        namespaces: Vec::new(),
        members,
        account: GroupAccount::default(),
    };
    decide(&observed).0.actions.pop()
}

fn provider(apis: &str, phase: Phase) -> Member {
    Member {
        provides: parse_api_set(apis),
        phase,
        deleting: false,
    }
}

#[test]
fn a_list_of_apis_is_pruned_as_it_was_read_to_what_members_provide() {
    let demo = || provider("Demo.v1.example.com", Phase::Succeeded);
    let Some(Action::Patch { patch, guard, .. }) = pruned(vec![demo()], false) else {
        panic!("a patch")
    };
    let listed = |patch: &Value| patch["metadata"]["annotations"]["olm.providedAPIs"].clone();
    assert_eq!(listed(&patch), "Demo.v1.example.com");
    assert_eq!(guard.resource_version.as_deref(), Some("7"));
    assert_eq!(
        pruned(vec![demo()], true),
        None,
        "of several groups none is pruned"
    );

    let arriving = provider("New.v1.example.com", Phase::Pending);
    assert_eq!(
        pruned(vec![demo(), arriving], false),
        None,
        "who comes in adds its own first"
    );

    let going = Member {
        deleting: true,
        ..demo()
    };
    let Some(Action::Patch { patch, .. }) = pruned(vec![going], false) else {
        panic!("a patch")
    };
    assert_eq!(listed(&patch), "", "who goes provides nothing");
}

#[test]
fn members_wait_until_the_status_names_the_account_of_the_spec() {
    let awaits = |in_spec: Value, in_status: Value| {
        let mut object = group("ns", "og", &["ns"]);
        object["spec"]["serviceAccountName"] = in_spec;
        object["status"] = json!({"lastUpdated": null, "serviceAccountRef": {"name": in_status}});
        Group::read(&decode(object), |_| false).awaits_service_account
    };
    assert!(awaits(json!("scoped"), json!(null)));
    assert!(awaits(json!("scoped"), json!("other")));
    assert!(!awaits(json!("scoped"), json!("scoped")));
    assert!(!awaits(json!(null), json!("other")));
}
