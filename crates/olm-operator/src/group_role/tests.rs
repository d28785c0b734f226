//! The ClusterRoles of OperatorGroups, compared with recordings of upstream and in the model cluster.

use std::{collections::BTreeMap, sync::Arc};

use k8s_openapi::api::rbac::v1::ClusterRole;
use olm_api::api_key::parse_api_set;
use olm_runtime::{NamespacedName, clock, plan::Action, store::Change};
use serde_json::{Value, json};

use super::{Observed, decide::decide, triggers};
use crate::test_env::{TestEnv, crd, csv, decode, golden_roles, group, is_for_users};

fn own(env: &TestEnv) -> Vec<String> {
    let names = env.names("ClusterRole").into_iter();
    names.filter(|name| name.starts_with("/olm.og.")).collect()
}

#[track_caller]
fn of_level<'a>(env: &'a TestEnv, level: &str) -> &'a Value {
    let begin = format!("/olm.og.og.{level}-");
    let name = own(env).into_iter().find(|name| name.starts_with(&begin));
    env.get("ClusterRole", "", name.unwrap().trim_start_matches('/'))
        .unwrap()
}

fn selector(level: &str) -> Value {
    let key = format!("olm.opgroup.permissions/aggregate-to-ddb619aba476937e-{level}");
    json!({"clusterRoleSelectors": [{"matchLabels": {key: "true"}}]})
}

/// The demo and its group, in their final state.
fn installed() -> TestEnv {
    let mut env = TestEnv::new()
        .with(group("ns", "og", &["ns"]))
        .with(crd("demos.example.com"))
        .with(csv("a", ""));
    env.settle_for(5);
    env
}

/// Returns the writes for a new group without ClusterRoles, a minute after its creation.
fn first_writes(namespace: &str, name: &str, apis: &str) -> Vec<Action> {
    let observed = Observed {
        key: NamespacedName::new(namespace, name),
        group: Some(Arc::new(decode(group(namespace, name, &[])))),
        apis: parse_api_set(apis),
        found: BTreeMap::new(),
    };
    decide(&observed, None, clock::now()).0.actions
}

#[test]
fn rbac_002_the_roles_of_a_group_are_those_recorded_of_upstream() {
    let Some(golden) = golden_roles("05-all-namespaces/cluster-rbac.yaml") else {
        return;
    };
    for (namespace, name, apis) in [
        ("operators", "global-operators", "Demo.v1.example.com"),
        (
            "olm",
            "olm-operators",
            "PackageManifest.v1.packages.operators.coreos.com",
        ),
    ] {
        let writes = first_writes(namespace, name, apis);
        assert_eq!(writes.len(), 3);
        for write in writes {
            let Action::Create { target, object, .. } = write else {
                panic!("{write}");
            };
            let recorded = &golden[&target.name];
            assert_eq!(object["metadata"]["labels"], recorded["metadata"]["labels"]);
            assert_eq!(object["aggregationRule"], recorded["aggregationRule"]);
            assert_eq!(object.get("rules"), None, "Kubernetes writes them");
        }
    }
}

#[test]
fn what_is_labelled_as_anothers_stays_when_a_group_goes() {
    let mut env = TestEnv::new().with(group("ns", "og", &["ns"]));
    env.settle_for(31);
    let admin = of_level(&env, "admin")["metadata"]["name"]
        .as_str()
        .unwrap()
        .to_owned();
    env.kill();
    let labels = json!({"metadata": {"labels": {"olm.owner": "mine"}}});
    env.edit("ClusterRole", "", &admin, labels);
    env.delete("OperatorGroup", "ns", "og");
    env.settle_for(60);
    assert_eq!(own(&env), [format!("/{admin}")]);
}

#[test]
fn rbac_001_a_group_without_operators_has_its_three_roles_after_a_while_until_it_goes() {
    let mut env = TestEnv::new().with(group("ns", "og", &["ns"]));
    env.settle_for(25);
    assert_eq!(own(&env), [""; 0]);
    env.settle_for(6);
    assert_eq!(own(&env).len(), 3);
    for level in ["admin", "edit", "view"] {
        let role = of_level(&env, level);
        assert_eq!(role.get("aggregationRule"), None);
        assert_eq!(
            role["metadata"]["labels"],
            json!({"olm.managed": "true", "olm.owner": "og", "olm.owner.namespace": "ns", "olm.owner.kind": "OperatorGroup"})
        );
    }
    let writes = env.writes.len();
    env.settle_for(120);
    assert_eq!(env.writes.len(), writes, "they are at rest");
    env.put(group("ns", "other", &["ns"]));
    env.delete("OperatorGroup", "ns", "og");
    env.settle_for(60);
    let left = own(&env);
    assert_eq!(left.len(), 3, "those of the other group: {left:?}");
    assert!(
        left.iter().all(|name| name.starts_with("/olm.og.other.")),
        "{left:?}"
    );
}

#[test]
fn rbac_002_the_roles_are_written_once_when_an_operator_comes_with_its_group() {
    let mut env = installed();
    for level in ["admin", "edit", "view"] {
        assert_eq!(of_level(&env, level)["aggregationRule"], selector(level));
    }
    let writes: Vec<&String> = env
        .writes
        .iter()
        .filter(|write| write.contains("olm.og."))
        .collect();
    assert_eq!(writes.len(), 3, "{writes:#?}");
    // Kubernetes writes their rules.
    let name = own(&env).remove(0);
    let rules = json!({"rules": [{"verbs": ["*"], "apiGroups": ["example.com"], "resources": ["demos"]}]});
    env.edit("ClusterRole", "", name.trim_start_matches('/'), rules.clone());
    let writes = env.writes.len();
    env.settle_for(60);
    assert_eq!(env.writes.len(), writes);
    assert_eq!(of_level(&env, "admin")["rules"], rules["rules"]);
}

/// The demo cannot run without its definition; recorded as 15-groups-intersect-second.
#[test]
fn rbac_002_the_roles_of_a_group_follow_their_members_whatever_their_phase() {
    let mut fixed = group("ns", "og", &["ns"]);
    fixed["spec"]["staticProvidedAPIs"] = json!(true);
    let mut env = TestEnv::new().with(fixed).with(csv("a", ""));
    env.settle_for(5);
    assert!(!env.status("a").starts_with("Succeeded"), "{}", env.status("a"));
    assert_eq!(of_level(&env, "edit")["aggregationRule"], selector("edit"));
}

/// Upstream keeps the rules of a ClusterRole that no longer aggregates anything.
#[test]
fn a_role_that_takes_up_nothing_any_more_allows_nothing() {
    let mut env = installed();
    let name = own(&env).remove(0);
    let rules = json!({"rules": [{"verbs": ["*"], "apiGroups": ["example.com"], "resources": ["demos"]}]});
    env.edit("ClusterRole", "", name.trim_start_matches('/'), rules);
    env.settle();
    env.delete("ClusterServiceVersion", "ns", "a");
    env.settle_for(5);
    for level in ["admin", "edit", "view"] {
        let role = of_level(&env, level);
        assert!(
            role["aggregationRule"].is_null() && role["rules"] == json!([]),
            "{role}"
        );
    }
    let writes = env.writes.len();
    env.settle_for(60);
    assert_eq!(env.writes.len(), writes);
}

/// APIs in the group's list count, regardless of their author.
#[test]
fn rbac_002_a_list_that_was_set_in_advance_is_taken_up() {
    let mut fixed = group("ns", "og", &["ns"]);
    fixed["spec"]["staticProvidedAPIs"] = json!(true);
    fixed["metadata"]["annotations"] = json!({"olm.providedAPIs": "Demo.v1.example.com"});
    let mut env = TestEnv::new().with(fixed);
    env.settle();
    assert_eq!(of_level(&env, "view")["aggregationRule"], selector("view"));
    let more = json!({"metadata": {"annotations": {"olm.providedAPIs": "Demo.v1.example.com,Other.v1.example.com"}}});
    env.edit("OperatorGroup", "ns", "og", more);
    env.settle();
    let selectors = &of_level(&env, "view")["aggregationRule"]["clusterRoleSelectors"];
    assert_eq!(selectors.as_array().unwrap().len(), 2);
}

#[test]
fn what_is_edited_comes_back_and_what_others_add_stays() {
    let mut env = installed();
    let name = own(&env).remove(0).trim_start_matches('/').to_owned();
    let edit =
        json!({"metadata": {"labels": {"mine": "yes", "olm.owner": "other"}}, "aggregationRule": null});
    env.edit("ClusterRole", "", &name, edit);
    env.settle();
    // Also after a trigger for the group in the label, which does not exist.
    let is_deletion = |write: &String| write.starts_with("delete ClusterRole");
    assert!(!env.writes.iter().any(is_deletion), "{:#?}", env.writes);
    let role = env.get("ClusterRole", "", &name).unwrap();
    assert_eq!(role["metadata"]["labels"]["olm.owner"], "og");
    assert_eq!(role["metadata"]["labels"]["mine"], "yes");
    assert_eq!(role["aggregationRule"], selector("admin"));
    env.delete("ClusterRole", "", &name);
    env.settle();
    assert!(env.get("ClusterRole", "", &name).is_some());
}

#[test]
fn rbac_003_groups_of_one_name_in_two_namespaces_have_roles_of_their_own() {
    let mut env = installed();
    let first = own(&env);
    env.put(group("elsewhere", "og", &["elsewhere"]));
    env.settle_for(120);
    let both = own(&env);
    assert_eq!((first.len(), both.len()), (3, 6), "{both:?}");
    env.delete("OperatorGroup", "elsewhere", "og");
    env.settle_for(20);
    assert_eq!(own(&env), first, "what is left is the other's, whole");
}

/// A ClusterRole without OLM's label belongs to others: it is neither written nor deleted.
#[test]
fn rbac_003_a_role_of_another_user_is_left_alone_and_reported_once() {
    let env = installed();
    let name = own(&env).remove(0).trim_start_matches('/').to_owned();
    let theirs = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": name},
        "rules": [{"verbs": ["get"], "apiGroups": [""], "resources": ["nodes"]}]});
    let mut env = TestEnv::new()
        .with(theirs.clone())
        .with(group("ns", "og", &["ns"]))
        .with(crd("demos.example.com"))
        .with(csv("a", ""));
    env.settle_for(120);
    assert_eq!(own(&env).len(), 3);
    let told = |env: &TestEnv| {
        env.events
            .iter()
            .filter(|event| event.contains("NameTaken"))
            .count()
    };
    assert_eq!(told(&env), 1, "{:?}", env.events);
    let writes = env.writes.len();
    env.settle_for(120);
    assert_eq!((told(&env), env.writes.len()), (1, writes));
    env.delete("OperatorGroup", "ns", "og");
    env.settle_for(20);
    let left = env.get("ClusterRole", "", &name).unwrap();
    assert_eq!(left["rules"], theirs["rules"]);
    assert_eq!(own(&env).len(), 1);
}

/// A process that was down when the group was deleted finds its objects by the labels, including upstream's
/// older names.
#[test]
fn the_rest_of_a_group_deleted_unnoticed_is_removed() {
    let mut env = installed();
    let labels = of_level(&env, "view")["metadata"]["labels"].clone();
    let older = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": {"name": "og-admin", "labels": labels}, "rules": []});
    env.put(older);
    env.settle();
    assert!(
        env.get("ClusterRole", "", "og-admin").is_some(),
        "as long as the group is there"
    );
    env.kill();
    env.delete("OperatorGroup", "ns", "og");
    env.settle();
    assert_eq!(own(&env), [""; 0]);
    assert_eq!(env.get("ClusterRole", "", "og-admin"), None);
}

/// A label may be observed before the group it names, so the API server is asked.
#[test]
fn objects_of_a_group_that_is_not_observed_yet_are_not_deleted() {
    let mut env = TestEnv::new();
    env.settle();
    env.cluster.hold("OperatorGroup");
    env.put(group("ns", "og", &["ns"]));
    let labels = json!({"olm.managed": "true", "olm.owner": "og", "olm.owner.namespace": "ns", "olm.owner.kind": "OperatorGroup"});
    env.put(
        json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": {"name": "og-admin", "labels": labels}, "rules": []}),
    );
    env.settle();
    assert!(env.get("ClusterRole", "", "og-admin").is_some());
}

#[test]
fn a_group_whose_name_fits_no_label_is_reported_once() {
    let name = "g".repeat(64);
    let mut env = TestEnv::new()
        .with(group("ns", &name, &["ns"]))
        .with(crd("demos.example.com"));
    env.settle_for(60);
    env.put(csv("a", ""));
    env.settle_for(10);
    assert_eq!(own(&env), [""; 0]);
    let told: Vec<&String> = env
        .events
        .iter()
        .filter(|event| event.contains("NameTooLong"))
        .collect();
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(told[0].contains("64 characters"), "{told:?}");
    assert!(
        env.names("ClusterRole").iter().any(|name| is_for_users(name)),
        "those of its APIs are made"
    );
}

#[test]
fn a_role_wakes_the_groups_that_it_was_of_and_is_of() {
    let role = |owner: &str| -> Arc<ClusterRole> {
        let labels =
            json!({"olm.owner": owner, "olm.owner.namespace": "ns", "olm.owner.kind": "OperatorGroup"});
        Arc::new(decode(json!({"metadata": {"name": "x", "labels": labels}})))
    };
    let relabelled = Change::Applied {
        old: Some(role("a")),
        new: role("b"),
    };
    assert_eq!(
        triggers::by_cluster_role(&relabelled).len(),
        2,
        "whose it was, and whose it is"
    );
}
