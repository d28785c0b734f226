//! The gates before the phases: membership in one OperatorGroup that fits.

use serde_json::json;

use super::{changed, installed, prepared, rests, succeeded};
use crate::world::{World, crd, csv, csv_key, group, namespace_object};

#[test]
fn no_operator_group_and_two_of_them_fail_with_their_reasons_and_recover() {
    let mut world = World::new();
    world.put(crd("demos.example.com"));
    rests(
        &mut world,
        csv("a", ""),
        "Failed NoOperatorGroup: csv in namespace with no operatorgroups",
    );
    let writes = world.writes.len();
    world.settle_for(5);
    assert_eq!(world.writes.len(), writes, "told once");
    world.put(group("ns", "og", &["ns"]));
    world.put(group("ns", "other", &["ns"]));
    world.settle();
    assert_eq!(
        world.status("a"),
        "Failed TooManyOperatorGroups: csv created in namespace with multiple operatorgroups, can't pick one automatically"
    );
    world.log.clear();
    world.delete("OperatorGroup", "ns", "other");
    world.settle_for(3);
    assert_eq!(
        world.log[0],
        "a: Pending (RequirementsUnknown) InstallModes now support target namespaces"
    );
    succeeded(&world, "a");
}

#[test]
fn a_running_operator_fails_when_its_group_goes_or_gets_company() {
    let mut world = installed();
    world.put(group("ns", "other", &["ns"]));
    world.settle();
    assert!(
        world.status("a").starts_with("Failed TooManyOperatorGroups"),
        "{}",
        world.status("a")
    );
    world.delete("OperatorGroup", "ns", "other");
    world.delete("OperatorGroup", "ns", "og");
    world.settle();
    assert!(
        world.status("a").starts_with("Failed NoOperatorGroup"),
        "{}",
        world.status("a")
    );
}

#[test]
fn the_first_round_writes_membership_and_apis_and_leaves_the_phase() {
    let mut world = prepared();
    world.settle();
    world.writes.clear();
    world.put(csv("a", ""));
    world.round_of_csv(&csv_key("a"));
    assert_eq!(world.status("a"), "- -: -");
    insta::assert_snapshot!(world.writes.join("\n"), @r#"
    patch ClusterServiceVersion ns/a {"metadata":{"annotations":{"olm.operatorGroup":"og","olm.operatorNamespace":"ns","olm.targetNamespaces":"ns"},"finalizers":["operators.coreos.com/csv-cleanup"]}}
    patch OperatorGroup ns/og {"metadata":{"annotations":{"olm.providedAPIs":"Demo.v1.example.com"}}}
    "#);
    world.round_of_csv(&csv_key("a"));
    assert!(
        world.status("a").starts_with("Installing"),
        "{}",
        world.status("a")
    );
}

#[test]
fn changed_targets_rewrite_the_annotations_first_and_leave_the_phase() {
    let mut world = installed();
    world.put(namespace_object("other"));
    world.edit(
        "OperatorGroup",
        "ns",
        "og",
        json!({"spec": {"targetNamespaces": ["ns", "other"]}}),
    );
    world.settle_namespace_and_group();
    world.round_of_csv(&csv_key("a"));
    succeeded(&world, "a");
    let csv = world.get("ClusterServiceVersion", "ns", "a").unwrap();
    assert_eq!(csv["metadata"]["annotations"]["olm.targetNamespaces"], "ns,other");
    world.settle();
    let deployment = world.get("Deployment", "ns", "demo").unwrap();
    assert_eq!(
        deployment["spec"]["template"]["metadata"]["annotations"]["olm.targetNamespaces"],
        "ns,other"
    );
    succeeded(&world, "a");
}

#[test]
fn install_modes_that_do_not_fit_are_named() {
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
        let mut world = World::new();
        world.put(group("ns", "og", &targets));
        let csv = changed("a", |spec| spec["installModes"] = modes);
        rests(&mut world, csv, &format!("Failed {expected}"));
        assert!(world.names("Deployment").is_empty());
    }
}

#[test]
fn a_mode_that_becomes_supported_brings_the_csv_back() {
    let mut world = prepared();
    world.put(changed("a", |spec| spec["installModes"] = json!([])));
    world.settle_for(2);
    assert!(
        world.status("a").starts_with("Failed UnsupportedOperatorGroup"),
        "{}",
        world.status("a")
    );
    let own = json!([{"type": "OwnNamespace", "supported": true}]);
    world.edit(
        "ClusterServiceVersion",
        "ns",
        "a",
        json!({"spec": {"installModes": own}}),
    );
    world.settle_for(2);
    succeeded(&world, "a");
}

#[test]
fn a_group_that_selects_nothing_or_nonsense_fails_its_members() {
    let mut world = World::new();
    let mut selecting = group("ns", "og", &[]);
    selecting["spec"] = json!({"selector": {"matchLabels": {"team": "x"}}});
    world.put(selecting);
    world.put(crd("demos.example.com"));
    rests(
        &mut world,
        csv("a", ""),
        "Failed NoTargetNamespaces: no targetNamespaces are matched operatorgroups namespace selection",
    );
    let annotations = &world.get("ClusterServiceVersion", "ns", "a").unwrap()["metadata"]["annotations"];
    assert_eq!(annotations["olm.operatorGroup"], "og");
    assert_eq!(annotations.get("olm.targetNamespaces"), None);
    world.edit(
        "Namespace",
        "",
        "ns",
        json!({"metadata": {"labels": {"team": "x"}}}),
    );
    world.settle_for(3);
    succeeded(&world, "a");
    world.edit(
        "OperatorGroup",
        "ns",
        "og",
        json!({"spec": {"targetNamespaces": ["ns", ""]}}),
    );
    world.settle();
    assert_eq!(
        world.status("a"),
        "Failed NoTargetNamespaces: no targetNamespaces are matched operatorgroups namespace selection: TargetNamespaces cannot contain NamespaceAll: [ns ]"
    );
}

#[test]
fn a_crd_name_without_a_group_is_told() {
    let mut world = prepared();
    rests(
        &mut world,
        changed("a", |spec| {
            spec["customresourcedefinitions"] =
                json!({"owned": [{"name": "demos", "version": "v1", "kind": "Demo"}]});
        }),
        "Failed InvalidInstallStrategy: install strategy invalid: custom resource definition name `demos` is not of the form plural.group",
    );
}

/// A second namespace whose group provides the demo's API to `targets`.
fn provider(world: &mut World, targets: &[&str]) {
    world.put(namespace_object("far"));
    let mut other = group("far", "incumbent", targets);
    other["metadata"]["annotations"] = json!({"olm.providedAPIs": "Demo.v1.example.com"});
    other["spec"]["staticProvidedAPIs"] = json!(true);
    world.put(other);
}

#[test]
fn an_api_that_an_intersecting_group_provides_is_a_conflict_and_the_way_is_free_once_it_goes() {
    let mut world = prepared();
    provider(&mut world, &["ns"]);
    rests(
        &mut world,
        csv("a", ""),
        "Failed InterOperatorGroupOwnerConflict: intersecting operatorgroups provide the same apis",
    );
    let own = &world.get("OperatorGroup", "ns", "og").unwrap()["metadata"]["annotations"];
    assert_eq!(own.get("olm.providedAPIs"), None);
    let writes = world.writes.len();
    world.settle_for(5);
    assert_eq!(world.writes.len(), writes, "told once");
    world.log.clear();
    world.delete("OperatorGroup", "far", "incumbent");
    world.settle_for(3);
    assert_eq!(
        world.log[0],
        "a: Pending (RequirementsUnknown) OperatorGroup no longer intersecting with conflicting owner"
    );
    succeeded(&world, "a");
}

#[test]
fn the_same_api_is_fine_where_no_namespace_is_shared() {
    let mut world = prepared();
    provider(&mut world, &["far"]);
    world.put(csv("a", ""));
    world.settle_for(5);
    succeeded(&world, "a");
}

#[test]
fn a_group_that_grows_into_a_provider_loses_its_operator_and_its_listing() {
    let mut world = installed();
    world.put({
        let mut mine = unlabelled_deployment();
        mine["metadata"]["name"] = json!("mine");
        mine
    });
    provider(&mut world, &["far"]);
    world.edit(
        "OperatorGroup",
        "ns",
        "og",
        json!({"spec": {"targetNamespaces": ["ns", "far"]}}),
    );
    world.settle_for(3);
    assert!(
        world
            .status("a")
            .starts_with("Failed InterOperatorGroupOwnerConflict"),
        "{}",
        world.status("a")
    );
    let own = &world.get("OperatorGroup", "ns", "og").unwrap()["metadata"]["annotations"];
    assert_eq!(own["olm.providedAPIs"], "");
    assert_eq!(
        world.names("Deployment"),
        ["ns/mine"],
        "only the operator's own Deployments are withdrawn"
    );
}

fn unlabelled_deployment() -> serde_json::Value {
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"namespace": "ns", "name": "demo"},
        "spec": {"selector": {}, "template": {}}})
}

#[test]
fn a_static_group_is_never_changed() {
    let mut world = World::new();
    world.put(crd("demos.example.com"));
    let mut fixed = group("ns", "og", &["ns"]);
    fixed["spec"]["staticProvidedAPIs"] = json!(true);
    world.put(fixed);
    rests(
        &mut world,
        csv("a", ""),
        "Failed CannotModifyStaticOperatorGroupProvidedAPIs: static provided api operatorgroup cannot be modified by these apis",
    );
    world.log.clear();
    let listed = json!({"metadata": {"annotations": {"olm.providedAPIs": "Demo.v1.example.com"}}});
    world.edit("OperatorGroup", "ns", "og", listed);
    world.settle_for(3);
    assert_eq!(
        world.log[0],
        "a: Pending (RequirementsUnknown) static OperatorGroup and intersecting groups now support providedAPIs"
    );
    succeeded(&world, "a");
}

#[test]
fn a_csv_pasted_from_another_namespace_is_ignored_as_a_copy() {
    let mut world = prepared();
    let mut copy = csv("a", "");
    copy["metadata"]["annotations"]["olm.operatorNamespace"] = json!("elsewhere");
    world.put(copy);
    world.settle_for(5);
    assert_eq!(world.status("a"), "- -: -");
    assert!(world.names("OperatorCondition").is_empty());
}
