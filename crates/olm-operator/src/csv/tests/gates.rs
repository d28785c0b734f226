//! The preconditions before the phases: membership in one matching OperatorGroup. The rules are tested one by
//! one in `membership`, and those about APIs of other groups in `intersection`.

use serde_json::json;

use super::{changed, installed, prepared, rests, succeeded};
use crate::test_env::{TestEnv, crd, csv, csv_key, group, namespace_object};

pub(super) const CANNOT_MODIFY: &str = "Failed CannotModifyStaticOperatorGroupProvidedAPIs: static provided api operatorgroup cannot be modified by these apis";

#[test]
fn arch_009_no_operator_group_and_two_of_them_fail_with_their_reasons_and_recover() {
    let mut env = TestEnv::new();
    env.put(crd("demos.example.com"));
    rests(
        &mut env,
        csv("a", ""),
        "Failed NoOperatorGroup: csv in namespace with no operatorgroups: namespace ns has none",
    );
    let writes = env.writes.len();
    env.settle_for(5);
    assert_eq!(env.writes.len(), writes, "told once");
    assert!(env.names("Deployment").is_empty());
    env.put(group("ns", "og", &["ns"]));
    env.put(group("ns", "other", &["ns"]));
    env.settle();
    assert_eq!(
        env.status("a"),
        "Failed TooManyOperatorGroups: csv created in namespace with multiple operatorgroups, can't pick one automatically: og, other"
    );
    assert!(env.names("Deployment").is_empty());
    for more in ["p", "q", "r", "s", "t"] {
        env.put(group("ns", more, &["ns"]));
    }
    env.settle_for(3);
    let status = env.status("a");
    assert!(status.ends_with(": og, other, p, q, r and 2 more"), "{status}");
    for more in ["p", "q", "r", "s", "t"] {
        env.delete("OperatorGroup", "ns", more);
    }
    env.settle_for(3);
    env.log.clear();
    env.delete("OperatorGroup", "ns", "other");
    env.settle_for(3);
    assert_eq!(
        env.log[0],
        "a: Pending (RequirementsUnknown) InstallModes now support target namespaces"
    );
    succeeded(&env, "a");
    assert_eq!(env.names("Deployment"), ["ns/demo"]);
}

#[test]
fn a_running_operator_fails_when_its_group_is_deleted_or_not_the_only_one() {
    let mut env = installed();
    env.put(group("ns", "other", &["ns"]));
    env.settle();
    assert!(
        env.status("a").starts_with("Failed TooManyOperatorGroups"),
        "{}",
        env.status("a")
    );
    env.delete("OperatorGroup", "ns", "other");
    env.delete("OperatorGroup", "ns", "og");
    env.settle();
    assert!(
        env.status("a").starts_with("Failed NoOperatorGroup"),
        "{}",
        env.status("a")
    );
}

#[test]
fn og_022_the_first_round_writes_membership_and_apis_and_leaves_the_phase() {
    let mut env = prepared();
    env.settle();
    env.writes.clear();
    env.put(csv("a", ""));
    env.round_of_csv(&csv_key("a"));
    assert_eq!(env.status("a"), "- -: -");
    insta::assert_snapshot!(env.writes.join("\n"), @r#"
    patch ClusterServiceVersion ns/a {"metadata":{"annotations":{"olm.operatorGroup":"og","olm.operatorNamespace":"ns","olm.targetNamespaces":"ns"},"finalizers":["operators.coreos.com/csv-cleanup"]}}
    patch OperatorGroup ns/og {"metadata":{"annotations":{"olm.providedAPIs":"Demo.v1.example.com"}}}
    "#);
    env.round_of_csv(&csv_key("a"));
    assert!(env.status("a").starts_with("Installing"), "{}", env.status("a"));
}

#[test]
fn og_024_changed_targets_rewrite_the_annotations_first_and_leave_the_phase() {
    let mut env = installed();
    env.put(namespace_object("other"));
    env.edit(
        "OperatorGroup",
        "ns",
        "og",
        json!({"spec": {"targetNamespaces": ["ns", "other"]}}),
    );
    env.settle_namespace_and_group();
    env.round_of_csv(&csv_key("a"));
    succeeded(&env, "a");
    let csv = env.get("ClusterServiceVersion", "ns", "a").unwrap();
    assert_eq!(csv["metadata"]["annotations"]["olm.targetNamespaces"], "ns,other");
    env.settle();
    let deployment = env.get("Deployment", "ns", "demo").unwrap();
    assert_eq!(
        deployment["spec"]["template"]["metadata"]["annotations"]["olm.targetNamespaces"],
        "ns,other"
    );
    succeeded(&env, "a");
}

#[test]
fn og_010_install_modes_that_do_not_fit_are_named() {
    let cases = [
        (
            vec!["ns"],
            json!([]),
            "UnsupportedOperatorGroup: OwnNamespace InstallModeType not supported, cannot configure to watch own namespace",
        ),
        (
            vec!["x"],
            json!([]),
            "UnsupportedOperatorGroup: SingleNamespace InstallModeType not supported, cannot configure to watch one namespace",
        ),
        (
            vec!["x", "y"],
            json!([]),
            "UnsupportedOperatorGroup: MultiNamespace InstallModeType not supported, cannot configure to watch 2 namespaces",
        ),
        (
            vec![],
            json!([]),
            "UnsupportedOperatorGroup: AllNamespaces InstallModeType not supported, cannot configure to watch all namespaces",
        ),
        (
            vec!["ns"],
            json!([{"type": "OwnNamespace", "supported": true}, {"type": "OwnNamespace", "supported": false}]),
            "InvalidInstallModes: InstallMode list contains duplicates, cannot make set: [{OwnNamespace true} {OwnNamespace false}]",
        ),
    ];
    for (targets, modes, expected) in cases {
        let mut env = TestEnv::new();
        env.put(group("ns", "og", &targets));
        let csv = changed("a", |spec| spec["installModes"] = modes);
        rests(&mut env, csv, &format!("Failed {expected}"));
        assert!(env.names("Deployment").is_empty());
    }
}

#[test]
fn og_012_a_mode_that_becomes_supported_brings_the_csv_back() {
    let mut env = prepared();
    env.put(changed("a", |spec| spec["installModes"] = json!([])));
    env.settle_for(2);
    assert!(
        env.status("a").starts_with("Failed UnsupportedOperatorGroup"),
        "{}",
        env.status("a")
    );
    env.log.clear();
    let own = json!([{"type": "OwnNamespace", "supported": true}]);
    env.edit(
        "ClusterServiceVersion",
        "ns",
        "a",
        json!({"spec": {"installModes": own}}),
    );
    env.settle_for(2);
    assert_eq!(
        env.log[0],
        "a: Pending (RequirementsUnknown) InstallModes now support target namespaces"
    );
    succeeded(&env, "a");
}

#[test]
fn a_group_that_selects_nothing_fails_its_members() {
    let mut env = TestEnv::new();
    let mut selecting = group("ns", "og", &[]);
    selecting["spec"] = json!({"selector": {"matchLabels": {"team": "x"}}});
    env.put(selecting);
    env.put(crd("demos.example.com"));
    rests(
        &mut env,
        csv("a", ""),
        "Failed NoTargetNamespaces: no targetNamespaces are matched operatorgroups namespace selection",
    );
    let annotations = &env.get("ClusterServiceVersion", "ns", "a").unwrap()["metadata"]["annotations"];
    assert_eq!(annotations["olm.operatorGroup"], "og");
    assert_eq!(annotations.get("olm.targetNamespaces"), None);
    env.edit(
        "Namespace",
        "",
        "ns",
        json!({"metadata": {"labels": {"team": "x"}}}),
    );
    env.settle_for(3);
    succeeded(&env, "a");
}

#[test]
fn a_crd_name_without_a_group_is_reported() {
    let mut env = prepared();
    rests(
        &mut env,
        changed("a", |spec| {
            spec["customresourcedefinitions"] =
                json!({"owned": [{"name": "demos", "version": "v1", "kind": "Demo"}]});
        }),
        "Failed InvalidInstallStrategy: install strategy invalid: custom resource definition name `demos` is not of the form plural.group",
    );
}

/// Adds a second namespace whose group provides the demo's API to `targets`.
pub(super) fn provider(env: &mut TestEnv, targets: &[&str]) {
    provider_of(env, "far", targets, "Demo.v1.example.com");
}

/// Adds a namespace whose group provides these APIs to `targets`, with any members.
pub(super) fn provider_of(env: &mut TestEnv, namespace: &str, targets: &[&str], apis: &str) {
    env.put(namespace_object(namespace));
    let mut other = group(namespace, "incumbent", targets);
    other["metadata"]["annotations"] = json!({"olm.providedAPIs": apis});
    other["spec"]["staticProvidedAPIs"] = json!(true);
    env.put(other);
}

#[test]
fn og_029_an_api_that_an_intersecting_group_provides_is_a_conflict_and_the_way_is_free_once_it_goes() {
    let mut env = prepared();
    provider(&mut env, &["ns"]);
    rests(
        &mut env,
        csv("a", ""),
        "Failed InterOperatorGroupOwnerConflict: intersecting operatorgroups provide the same apis: Demo.v1.example.com is provided by OperatorGroup far/incumbent",
    );
    let own = &env.get("OperatorGroup", "ns", "og").unwrap()["metadata"]["annotations"];
    assert_eq!(own.get("olm.providedAPIs"), None);
    let writes = env.writes.len();
    env.settle_for(5);
    assert_eq!(env.writes.len(), writes, "told once");
    env.log.clear();
    env.delete("OperatorGroup", "far", "incumbent");
    env.settle_for(3);
    assert_eq!(
        env.log[0],
        "a: Pending (RequirementsUnknown) OperatorGroup no longer intersecting with conflicting owner"
    );
    succeeded(&env, "a");
}

#[test]
fn ogx_001_the_same_api_is_fine_where_no_namespace_is_shared_and_another_where_one_is() {
    for (targets, apis) in [
        (["far"], "Demo.v1.example.com"),
        (["ns"], "Demo.v2.example.com,Other.v1.example.com"),
    ] {
        let mut env = prepared();
        provider_of(&mut env, "far", &targets, apis);
        env.put(csv("a", ""));
        env.settle_for(5);
        succeeded(&env, "a");
    }
}

#[test]
fn ogx_009_a_group_that_grows_into_a_provider_loses_its_operator_and_its_listing() {
    let mut env = installed();
    env.put({
        let mut mine = unlabelled_deployment();
        mine["metadata"]["name"] = json!("mine");
        mine
    });
    provider(&mut env, &["far"]);
    env.edit(
        "OperatorGroup",
        "ns",
        "og",
        json!({"spec": {"targetNamespaces": ["ns", "far"]}}),
    );
    env.settle_for(3);
    assert!(
        env.status("a")
            .starts_with("Failed InterOperatorGroupOwnerConflict"),
        "{}",
        env.status("a")
    );
    let own = &env.get("OperatorGroup", "ns", "og").unwrap()["metadata"]["annotations"];
    assert_eq!(own["olm.providedAPIs"], "");
    assert_eq!(
        env.names("Deployment"),
        ["ns/mine"],
        "only the operator's own Deployments are withdrawn"
    );
}

fn unlabelled_deployment() -> serde_json::Value {
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"namespace": "ns", "name": "demo"},
        "spec": {"selector": {}, "template": {}}})
}

#[test]
fn ogx_005_a_static_group_is_never_changed_and_who_does_not_fit_it_stops_running() {
    let mut env = installed();
    let fixed =
        json!({"spec": {"staticProvidedAPIs": true}, "metadata": {"annotations": {"olm.providedAPIs": ""}}});
    env.edit("OperatorGroup", "ns", "og", fixed);
    env.settle_for(5);
    let told = format!("{CANNOT_MODIFY}: OperatorGroup ns/og does not list Demo.v1.example.com");
    assert_eq!(env.status("a"), told);
    assert!(env.names("Deployment").is_empty());
    let list = &env.get("OperatorGroup", "ns", "og").unwrap()["metadata"]["annotations"]["olm.providedAPIs"];
    assert_eq!(*list, "");
    env.log.clear();
    let listed = json!({"metadata": {"annotations": {"olm.providedAPIs": "Demo.v1.example.com"}}});
    env.edit("OperatorGroup", "ns", "og", listed);
    env.settle_for(3);
    assert_eq!(
        env.log[0],
        "a: Pending (RequirementsUnknown) static OperatorGroup and intersecting groups now support providedAPIs"
    );
    succeeded(&env, "a");
}

#[test]
fn a_csv_pasted_from_another_namespace_is_ignored_as_a_copy() {
    let mut env = prepared();
    let mut copy = csv("a", "");
    copy["metadata"]["annotations"]["olm.operatorNamespace"] = json!("elsewhere");
    env.put(copy);
    env.settle_for(5);
    assert_eq!(env.status("a"), "- -: -");
    assert!(env.names("OperatorCondition").is_empty());
}
