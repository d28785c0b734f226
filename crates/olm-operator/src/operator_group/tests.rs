//! OperatorGroups in the model cluster: targets, conditions, provided APIs, namespace labels.

mod trigger_rows;

use std::sync::Arc;

use olm_api::{api_key::parse_api_set, v1::OperatorGroup, v1alpha1::ClusterServiceVersionPhase as Phase};
use olm_runtime::{NamespacedName, plan::Action, store::Change};
use serde_json::{Value, json};

use crate::{
    operator_group::{
        Group,
        decide::decide,
        observe::{GroupAccount, Member, Observed, from_stores},
        triggers,
    },
    stores::Stores,
    test_env::{TestEnv, crd, csv, decode, group, is_for_users, namespace_object, service_account},
};

fn status(env: &TestEnv, name: &str) -> Value {
    env.get("OperatorGroup", "ns", name).unwrap()["status"].clone()
}

fn labelled(env: &TestEnv) -> Vec<String> {
    let carries = |name: &String| {
        let labels = &env.get("Namespace", "", name.trim_start_matches('/')).unwrap()["metadata"]["labels"];
        labels
            .as_object()
            .is_some_and(|labels| labels.keys().any(|key| key.starts_with("olm.operatorgroup.uid/")))
    };
    env.names("Namespace").into_iter().filter(carries).collect()
}

#[test]
fn og_018_targets_are_sorted_and_the_time_moves_only_with_them() {
    let mut env = TestEnv::new();
    env.put(group("ns", "og", &["z", "a"]));
    env.settle();
    assert_eq!(
        status(&env, "og"),
        json!({"namespaces": ["a", "z"], "lastUpdated": "2026-01-01T00:00:00Z"})
    );
    let writes = |env: &TestEnv| env.writes.iter().filter(|write| !is_for_users(write)).count();
    let before = writes(&env);
    env.advance(60);
    env.settle();
    assert_eq!(writes(&env), before);
    env.edit(
        "OperatorGroup",
        "ns",
        "og",
        json!({"spec": {"targetNamespaces": ["a"]}}),
    );
    env.settle();
    assert_eq!(
        status(&env, "og"),
        json!({"namespaces": ["a"], "lastUpdated": "2026-01-01T00:01:00Z"})
    );
}

#[test]
fn og_014_a_list_names_the_targets() {
    let mut env = TestEnv::new().with(namespace_object("my-namespace"));
    env.put(group("my-namespace", "my-group", &["my-namespace"]));
    env.settle();
    let group = env.get("OperatorGroup", "my-namespace", "my-group").unwrap();
    assert_eq!(group["status"]["namespaces"], json!(["my-namespace"]));
}

#[test]
fn og_019_a_group_without_targets_is_for_all_namespaces() {
    let mut env = TestEnv::new();
    env.put(group("ns", "og", &[]));
    env.settle();
    assert_eq!(status(&env, "og")["namespaces"], json!([""]));
    assert!(labelled(&env).is_empty());
}

#[test]
fn og_015_a_selector_follows_namespaces_as_they_come_and_are_labelled() {
    let mut env = TestEnv::new();
    let mut selecting = group("ns", "og", &[]);
    selecting["spec"] = json!({"selector": {"matchLabels": {"team": "x"}}});
    env.put(selecting);
    env.settle();
    assert_eq!(status(&env, "og"), Value::Null, "nothing selected is no status");
    let mut one = namespace_object("one");
    one["metadata"]["labels"]["team"] = json!("x");
    env.put(one);
    env.settle();
    assert_eq!(status(&env, "og")["namespaces"], json!(["one"]));
    env.edit(
        "Namespace",
        "",
        "one",
        json!({"metadata": {"labels": {"team": null}}}),
    );
    env.settle();
    assert_eq!(status(&env, "og").get("namespaces"), None);
}

#[test]
fn a_selector_that_makes_no_sense_leaves_the_targets_and_says_so() {
    let mut env = TestEnv::new().with(group("ns", "og", &["ns"]));
    env.settle();
    assert_eq!(status(&env, "og")["namespaces"], json!(["ns"]));
    let selector = json!({"matchExpressions": [{"key": "team", "operator": "Near", "values": ["x"]}]});
    env.edit(
        "OperatorGroup",
        "ns",
        "og",
        json!({"spec": {"targetNamespaces": null, "selector": selector}}),
    );
    env.settle();
    assert_eq!(status(&env, "og")["namespaces"], json!(["ns"]), "they stay");
    let told = |env: &TestEnv| -> Vec<String> {
        let events = env.events.iter();
        events
            .filter(|event| event.contains("InvalidSelector"))
            .cloned()
            .collect()
    };
    assert_eq!(told(&env).len(), 1, "{:?}", env.events);
    assert!(told(&env)[0].contains("spec.selector: "), "{:?}", env.events);
    env.put(namespace_object("another"));
    env.settle();
    assert_eq!(
        told(&env).len(),
        1,
        "a namespace that comes is no news of the selector"
    );
}

#[test]
fn several_groups_of_a_namespace_say_so_until_one_is_left() {
    let mut env = TestEnv::new();
    env.put(group("ns", "og", &["ns"]));
    env.put(group("ns", "other", &["ns"]));
    env.settle();
    for name in ["og", "other"] {
        let condition = &status(&env, name)["conditions"][0];
        assert_eq!(condition["type"], "MultipleOperatorGroup");
        assert_eq!(condition["status"], "True");
        assert_eq!(condition["reason"], "MultipleOperatorGroupsFound");
        assert_eq!(
            condition["message"],
            "Multiple OperatorGroup found in the same namespace"
        );
    }
    env.delete("OperatorGroup", "ns", "other");
    env.settle();
    assert_eq!(status(&env, "og").get("conditions"), None);
}

#[test]
fn conditions_of_others_are_kept() {
    let mut env = TestEnv::new();
    let mut scoped = group("ns", "og", &["ns"]);
    scoped["status"] = json!({"lastUpdated": null,
        "conditions": [{"type": "Mine", "status": "True", "reason": "R", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}]});
    env.put(scoped);
    env.settle();
    let status = status(&env, "og");
    assert_eq!(status["conditions"][0]["type"], "Mine");
    assert_eq!(status["namespaces"], json!(["ns"]));
}

/// A group that names the account `scoped`.
fn scoped() -> TestEnv {
    let mut env = TestEnv::new();
    let mut scoped = group("ns", "og", &["ns"]);
    scoped["spec"]["serviceAccountName"] = json!("scoped");
    env.put(scoped);
    env.settle();
    env
}

/// Asserts that the account exists and the conditions report no problem.
#[track_caller]
fn refers_to_account(env: &TestEnv) {
    let account = env.get("ServiceAccount", "ns", "scoped").unwrap();
    let found = &status(env, "og")["serviceAccountRef"];
    assert_eq!(found["kind"], "ServiceAccount");
    assert_eq!(found["apiVersion"], "v1");
    assert_eq!(found["namespace"], "ns");
    assert_eq!(found["name"], "scoped");
    assert_eq!(found["uid"], account["metadata"]["uid"]);
    assert!(found["resourceVersion"].is_string());
    assert_eq!(status(env, "og").get("conditions"), None);
}

#[track_caller]
fn misses_account(env: &TestEnv) {
    let status = status(env, "og");
    assert_eq!(status.get("serviceAccountRef"), None);
    let condition = &status["conditions"][0];
    assert_eq!(condition["type"], "OperatorGroupServiceAccount");
    assert_eq!(condition["status"], "True");
    assert_eq!(condition["reason"], "ServiceAccountNotFound");
    assert_eq!(condition["message"], "ServiceAccount scoped not found");
    assert_eq!(status["namespaces"], json!(["ns"]));
}

#[test]
fn og_021_the_account_is_followed_as_it_comes_changes_and_goes() {
    let mut env = scoped();
    misses_account(&env);
    env.put(service_account("another"));
    env.settle();
    misses_account(&env);
    env.advance(60);
    env.put(service_account("scoped"));
    env.settle();
    refers_to_account(&env);
    let updated = status(&env, "og")["lastUpdated"].clone();
    assert!(updated.as_str().unwrap() >= "2026-01-01T00:01:00Z", "{updated}");

    let writes = env.writes.len();
    let secret = json!({"secrets": [{"name": "token"}]});
    env.edit("ServiceAccount", "ns", "scoped", secret);
    env.settle();
    assert_eq!(env.writes.len(), writes, "an edit is no other account");

    env.delete("ServiceAccount", "ns", "scoped");
    env.settle();
    misses_account(&env);
    env.put(service_account("scoped"));
    env.settle();
    refers_to_account(&env);
    let none = json!({"spec": {"serviceAccountName": null}});
    env.edit("OperatorGroup", "ns", "og", none);
    env.settle();
    assert_eq!(status(&env, "og").get("serviceAccountRef"), None);
}

#[test]
fn a_missing_account_that_is_not_named_any_more_is_nothing_to_complain_about() {
    let mut env = scoped();
    misses_account(&env);
    let none = json!({"spec": {"serviceAccountName": ""}});
    env.edit("OperatorGroup", "ns", "og", none);
    env.settle();
    assert_eq!(status(&env, "og").get("conditions"), None);
}

/// Accounts are not stored, so a deletion while the watch is interrupted is only found by another read.
#[test]
fn an_account_whose_deletion_was_not_reported_is_missed_after_the_next_list() {
    let mut env = scoped();
    env.put(service_account("scoped"));
    env.settle();
    refers_to_account(&env);
    env.cluster.hold("ServiceAccount");
    env.delete("ServiceAccount", "ns", "scoped");
    env.settle();
    assert_eq!(status(&env, "og")["serviceAccountRef"]["name"], "scoped");
    env.cluster.forget_history();
    env.cluster.release("ServiceAccount");
    env.settle_for(10);
    misses_account(&env);
}

#[test]
fn namespace_labels_follow_the_targets_and_foreign_labels_stay() {
    let mut env = TestEnv::new();
    for name in ["a", "b", "c"] {
        env.put(namespace_object(name));
    }
    env.put(group("ns", "og", &["a"]));
    for (targets, expected) in [
        (json!(["a"]), vec!["/a"]),
        (json!(["a", "b"]), vec!["/a", "/b"]),
        (json!(["a", "b", "c"]), vec!["/a", "/b", "/c"]),
        (json!(["b", "c"]), vec!["/b", "/c"]),
        (json!(null), vec![]),
        (json!(["c"]), vec!["/c"]),
    ] {
        env.edit(
            "OperatorGroup",
            "ns",
            "og",
            json!({"spec": {"targetNamespaces": targets}}),
        );
        env.settle();
        assert_eq!(labelled(&env), expected);
    }
    env.delete("OperatorGroup", "ns", "og");
    env.settle();
    assert!(labelled(&env).is_empty());
    let labels = &env.get("Namespace", "", "c").unwrap()["metadata"]["labels"];
    assert_eq!(*labels, json!({"kubernetes.io/metadata.name": "c"}));
}

/// Returns the result for a list of two APIs, one of which the demo provides.
fn listed_beside_the_demo(is_static: bool) -> Value {
    let mut env = TestEnv::new();
    env.put(crd("demos.example.com"));
    let mut listing = group("ns", "og", &["ns"]);
    listing["spec"]["staticProvidedAPIs"] = json!(is_static);
    listing["metadata"]["annotations"] =
        json!({"olm.providedAPIs": "Demo.v1.example.com,Old.v1.example.com"});
    env.put(listing);
    env.put(csv("a", ""));
    env.settle_for(5);
    assert!(env.status("a").starts_with("Succeeded"), "{}", env.status("a"));
    env.get("OperatorGroup", "ns", "og").unwrap()["metadata"]["annotations"]["olm.providedAPIs"].clone()
}

#[test]
fn apis_that_nobody_provides_any_more_leave_the_list() {
    assert_eq!(listed_beside_the_demo(false), "Demo.v1.example.com");
}

#[test]
fn og_028_a_static_list_stays_as_it_was_set() {
    assert_eq!(
        listed_beside_the_demo(true),
        "Demo.v1.example.com,Old.v1.example.com"
    );
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

/// Returns the result for a list of two APIs, `Demo` and `Old`, with these members.
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
    decide(&observed, None).0.actions.pop()
}

fn provider(apis: &str, phase: Phase) -> Member {
    Member {
        provides: parse_api_set(apis),
        phase,
        deleting: false,
    }
}

#[test]
fn ogx_011_a_list_of_apis_is_pruned_as_it_was_read_to_what_members_provide() {
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
fn ogx_011_copies_provide_nothing() {
    let stores = Stores::default();
    stores.groups.put(decode(group("ns", "og", &["ns"])));
    let mut copy = csv("copied", "");
    copy["metadata"]["annotations"]["olm.operatorNamespace"] = json!("elsewhere");
    copy["status"] = json!({"phase": "Succeeded", "reason": "Copied"});
    stores.csvs.put(decode(copy));
    let members = || {
        let observed = from_stores(&stores, &NamespacedName::new("ns", "og")).unwrap();
        observed.members
    };
    assert_eq!(members(), []);
    stores.csvs.put(decode(csv("a", "")));
    assert_eq!(members(), [provider("Demo.v1.example.com", Phase::None)]);
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
