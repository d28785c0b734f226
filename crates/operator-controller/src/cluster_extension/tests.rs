//! ClusterExtensions on the cluster in memory: the cases of upstream's documentation and acceptance tests.

mod accounts;
mod adoption;
mod certificates;
mod flows;
mod removal;
mod stories;

use serde_json::{Value, json};

use super::test_env::{TestBundle, TestEnv, condition};

const INSTALLED_1: &str = "True Succeeded: Installed bundle reg.example/p:1.0.0 successfully";
const REACHED: &str = "True Succeeded: Desired state reached";
const AVAILABLE: &str = "True ProbesSucceeded: Objects are available and pass all probes.";

/// An extension `e` with version 1.0.0 installed.
fn installed() -> TestEnv {
    let mut env = TestEnv::new();
    env.extension(&json!({"version": "1.0.0"}));
    assert_eq!(env.condition("Progressing"), REACHED);
    env
}

fn names(values: &[&str]) -> Vec<String> {
    values.iter().map(|&value| value.to_owned()).collect()
}

/// Asserts that nothing is written, pulled or rendered at rest, nor after a restart.
#[track_caller]
fn assert_rests(env: &mut TestEnv) {
    env.settle_for(20);
    env.stage.cluster.take_log();
    let pulls = env.outside().pulls.len();
    env.settle_for(1000);
    assert_eq!(env.stage.cluster.take_log().writes, [""; 0], "at rest");
    env.stage.kill();
    env.settle_for(1000);
    let writes = env.stage.cluster.take_log().writes;
    let writes: Vec<&String> = writes.iter().filter(|write| !write.contains("Lease")).collect();
    assert_eq!(writes, [""; 0], "after a restart");
    assert_eq!(env.outside().pulls.len(), pulls);
}

#[test]
fn v1_001_v1_003_v1_013_the_newest_bundle_is_installed_and_reported() {
    let mut env = TestEnv::new();
    env.extension(&json!({}));
    assert_eq!(env.condition("Progressing"), REACHED);
    assert_eq!(
        env.condition("Installed"),
        "True Succeeded: Installed bundle reg.example/p:1.1.0 successfully"
    );
    assert_eq!(env.condition("Available"), AVAILABLE);
    assert_eq!(env.condition("Deprecated"), "False NotDeprecated: not deprecated");
    assert_eq!(
        env.condition("BundleDeprecated"),
        "False NotDeprecated: bundle not deprecated"
    );
    assert_eq!(env.installed(), ("1.1.0".to_owned(), names(&["e-1"])));
    let map = env.get("ConfigMap", "a");
    assert_eq!(map["data"]["version"], "1.1.0");
    assert_eq!(map["metadata"]["ownerReferences"][0]["name"], "e-1");
    let set = env.get("ClusterObjectSet", "e-1");
    assert_eq!(
        set["metadata"]["annotations"]["olm.operatorframework.io/bundle-name"],
        "p.v1.1.0"
    );
    for (key, secret) in env.stage.cluster.objects() {
        if key.kind == "Secret" {
            assert_eq!(
                secret["metadata"]["ownerReferences"][0]["name"], "e-1",
                "{secret}"
            );
        }
    }
    assert_rests(&mut env);
}

#[test]
fn v1_an_upgrade_makes_the_next_revision_and_removes_what_is_gone() {
    let mut env = TestEnv::new();
    env.bundle(&TestBundle {
        config_maps: &["a", "old"],
        ..TestBundle::default()
    });
    env.extension(&json!({"version": "1.0.0"}));
    assert!(env.get("ConfigMap", "old").is_object());
    env.ask_for("1.1.0");
    env.settle_for(20);
    assert_eq!(env.installed(), ("1.1.0".to_owned(), names(&["e-2"])));
    assert_eq!(env.condition("Progressing"), REACHED);
    assert_eq!(
        env.get("ClusterObjectSet", "e-1")["spec"]["lifecycleState"],
        "Archived"
    );
    assert_eq!(env.get("ConfigMap", "old"), Value::Null);
    assert_eq!(env.get("ConfigMap", "a")["data"]["version"], "1.1.0");
    assert_rests(&mut env);
}

#[test]
fn v1_drift_is_corrected_and_what_users_add_stays() {
    let mut env = installed();
    env.delete("ConfigMap", "a");
    assert_eq!(env.get("ConfigMap", "a")["data"]["version"], "1.0.0");
    let edit = json!({"metadata": {"labels": {"mine": "1"}}, "data": {"version": "9"}});
    env.edit("ConfigMap", "a", &edit);
    let map = env.get("ConfigMap", "a");
    assert_eq!(
        (&map["data"]["version"], &map["metadata"]["labels"]["mine"]),
        (&json!("1.0.0"), &json!("1"))
    );
}

#[test]
fn v1_006_v1u_008_only_successors_follow_unless_the_user_answers_for_it() {
    let mut env = TestEnv::new();
    env.catalog("c", &["1.0.0", "1.1.0", "2.0.0"]);
    env.extension(&json!({"version": "1.0.0"}));
    env.ask_for("2.0.0");
    assert_eq!(
        env.condition("Progressing"),
        "True Retrying: error upgrading from currently installed version \"1.0.0\": no bundles found for package \"p\" matching \
         version \"2.0.0\""
    );
    assert_eq!(env.condition("Installed"), INSTALLED_1);
    let free = json!({"spec": {"source": {"catalog": {"upgradeConstraintPolicy": "SelfCertified"}}}});
    env.edit("ClusterExtension", "e", &free);
    env.settle_for(20);
    assert_eq!(env.installed(), ("2.0.0".to_owned(), names(&["e-2"])));
    env.ask_for("1.0.0");
    env.settle_for(20);
    assert_eq!(
        env.installed(),
        ("1.0.0".to_owned(), names(&["e-3"])),
        "a downgrade"
    );
}

#[test]
fn v1_without_catalogs_the_installed_bundle_is_kept() {
    let mut env = installed();
    env.delete("ClusterCatalog", "c");
    assert_eq!(
        (env.condition("Progressing"), env.condition("Installed")),
        (REACHED.to_owned(), INSTALLED_1.to_owned())
    );
    assert_eq!(
        env.condition("Deprecated"),
        "Unknown DeprecationStatusUnknown: deprecation status unknown: catalog data unavailable"
    );
    env.delete("ConfigMap", "a");
    assert!(env.get("ConfigMap", "a").is_object(), "it is still kept up");
    env.ask_for("1.1.0");
    assert!(
        env.condition("Progressing")
            .starts_with("True Retrying: error upgrading"),
        "{}",
        env.condition("Progressing")
    );
    assert_eq!(env.condition("Installed"), INSTALLED_1);
    env.catalog("c", &["1.0.0", "1.1.0"]);
    env.settle_for(20);
    assert_eq!(env.installed().0, "1.1.0");
}

#[test]
fn v1_a_bundle_in_two_catalogs_is_ambiguous_until_one_has_priority() {
    let mut env = TestEnv::new();
    env.catalog("d", &["1.0.0", "1.1.0"]);
    env.extension(&json!({}));
    assert_eq!(
        env.condition("Progressing"),
        "True Retrying: found bundles for package \"p\" in multiple catalogs with the same priority [c d]"
    );
    assert_eq!(env.condition("Installed"), "False Failed: No bundle installed");
    assert_eq!(
        env.condition("BundleDeprecated"),
        "Unknown Absent: no bundle installed yet"
    );
    env.edit("ClusterCatalog", "d", &json!({"spec": {"priority": 1}}));
    env.settle_for(20);
    assert_eq!(env.condition("Progressing"), REACHED);
}

#[test]
fn v1_a_catalog_that_is_not_served_blocks_only_packages_that_it_may_have() {
    let mut env = TestEnv::new();
    env.documents(
        "other",
        &[json!({"schema": "olm.package", "name": "q", "defaultChannel": "a"})],
    );
    env.put(json!({
        "apiVersion": "olm.operatorframework.io/v1", "kind": "ClusterCatalog", "metadata": {"name": "broken"},
        "spec": {"source": {"type": "Image", "image": {"ref": "reg.example/none:1"}}},
        "status": {"conditions": [condition("Progressing", "True", "Retrying")]},
    }));
    env.extension(&json!({"version": "1.0.0"}));
    assert_eq!(
        env.condition("Progressing"),
        REACHED,
        "what never served anything does not block"
    );
    let down = json!({"status": {"urls": null, "resolvedSource": null, "conditions": [condition("Serving", "False", "Unavailable")]}});
    env.edit("ClusterCatalog", "other", &down);
    env.ask_for("1.1.0");
    env.settle_for(20);
    assert_eq!(
        env.installed().0,
        "1.1.0",
        "it was read before, and does not have the package"
    );
    env.edit("ClusterCatalog", "c", &down);
    env.ask_for("1.0.0 || 1.1.0");
    assert_eq!(
        env.condition("Progressing"),
        "True Retrying: error walking catalogs: error getting package \"p\" from catalog \"c\": catalog \"c\" is not being served"
    );
    env.edit(
        "ClusterCatalog",
        "c",
        &json!({"spec": {"availabilityMode": "Unavailable"}}),
    );
    assert!(
        env.condition("Progressing")
            .contains("no bundles found for package"),
        "{}",
        env.condition("Progressing")
    );
}

#[test]
fn v1_a_catalog_of_a_new_digest_costs_an_extension_of_another_package_one_read() {
    let mut env = TestEnv::new();
    let other = |name: &str| json!({"schema": "olm.package", "name": name, "defaultChannel": "a"});
    env.documents("other", &[other("q")]);
    env.extension(&json!({}));
    env.settle_for(20);
    assert_eq!(env.installed().0, "1.1.0");
    let pulls = env.outside().pulls.len();
    env.outside().reads.clear();
    env.stage.cluster.take_log();
    env.documents("other", &[other("q"), other("r")]);
    env.settle_for(20);
    assert_eq!(
        env.stage.cluster.take_log().writes,
        [""; 0],
        "its choice is the same"
    );
    assert_eq!(env.outside().pulls.len(), pulls);
    assert_eq!(env.outside().reads, ["other p"], "the other catalog is known");
    env.outside().reads.clear();
    env.catalog("c", &["1.0.0", "1.1.0", "2.0.0"]);
    env.settle_for(20);
    assert_eq!(env.installed().0, "2.0.0");
    assert_eq!(env.outside().reads, ["c p"]);
}

#[test]
fn v1_an_operator_of_one_namespace_needs_a_configuration() {
    let mut env = TestEnv::new();
    env.bundle(&TestBundle {
        modes: &["OwnNamespace"],
        ..TestBundle::default()
    });
    env.extension(&json!({"version": "1.0.0"}));
    let prefix = "False InvalidConfiguration: error for resolved bundle \"p.v1.0.0\" with version \"1.0.0\": invalid \
                  ClusterExtension configuration: invalid configuration: ";
    assert_eq!(
        env.condition("Progressing"),
        format!("{prefix}required field \"watchNamespace\" is missing")
    );
    assert_eq!(env.condition("Installed"), "False Failed: No bundle installed");
    let config = |namespace: &str| json!({"spec": {"config": {"configType": "Inline", "inline": {"watchNamespace": namespace}}}});
    env.edit("ClusterExtension", "e", &config("other"));
    let found = env.condition("Progressing");
    assert!(
        found.starts_with(prefix) && found.contains("invalid value \"other\": must be \"ns\""),
        "{found}"
    );
    env.edit("ClusterExtension", "e", &config("ns"));
    env.settle_for(20);
    assert_eq!(env.condition("Progressing"), REACHED);
    assert_eq!(
        env.get("Deployment", "demo")["spec"]["template"]["metadata"]["annotations"]["olm.targetNamespaces"],
        "ns"
    );
}

#[test]
fn v1_a_definition_that_would_break_objects_stops_the_upgrade() {
    let mut env = TestEnv::new();
    env.bundle(&TestBundle {
        version: "1.1.0",
        fields: &["y"],
        ..TestBundle::default()
    });
    env.extension(&json!({"version": "1.0.0"}));
    env.ask_for("1.1.0");
    assert_eq!(
        env.condition("Progressing"),
        "True Retrying: error for resolved bundle \"p.v1.1.0\" with version \"1.1.0\": validating upgrade for CRD \
         \"demos.example.com\": existingFieldRemoval: removed field : v1.^.x\nv1: ^.x: type: type changed : \"string\" -> \"\""
    );
    assert_eq!(
        env.get("ClusterObjectSet", "e-2"),
        Value::Null,
        "nothing is written"
    );
    let none = json!({"spec": {"install": {"preflight": {"crdUpgradeSafety": {"enforcement": "None"}}}}});
    env.edit("ClusterExtension", "e", &none);
    env.settle_for(20);
    assert_eq!(env.installed().0, "1.1.0");
}

#[test]
fn v1_a_rollout_that_does_not_end_is_reported_and_can_be_replaced() {
    let mut env = TestEnv::new();
    env.catalog("c", &["1.0.0", "1.1.0", "2.0.0"]);
    env.extension(&json!({"version": "1.0.0"}));
    env.set_sick(true);
    env.ask_for("1.1.0");
    env.settle_for(20);
    assert_eq!(env.installed(), ("1.0.0".to_owned(), names(&["e-1", "e-2"])));
    assert_eq!(
        env.condition("Progressing"),
        "True RollingOut: Revision 1.1.0 is rolling out."
    );
    assert_eq!(env.condition("Installed"), INSTALLED_1);
    let revisions = env.get("ClusterExtension", "e")["status"]["activeRevisions"].clone();
    let conditions: Vec<&Value> = revisions[1]["conditions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|found| &found["reason"])
        .collect();
    assert_eq!(conditions, ["ProbeFailure", "RollingOut"]);
    // Back to the version that worked.
    env.set_sick(false);
    env.ask_for("1.0.0");
    env.settle_for(20);
    assert_eq!(env.installed(), ("1.0.0".to_owned(), names(&["e-3"])));
    assert_eq!(env.condition("Progressing"), REACHED);
}

#[test]
fn v1_an_image_that_cannot_be_pulled_is_tried_again() {
    let mut env = TestEnv::new();
    env.remove_image("1.0.0");
    env.extension(&json!({"version": "1.0.0"}));
    let failed =
        "True Retrying: error for resolved bundle \"p.v1.0.0\" with version \"1.0.0\": manifest unknown";
    assert_eq!(env.condition("Progressing"), failed);
    env.settle_for(600);
    let pulls = env.outside().pulls.len();
    assert!((5..10).contains(&pulls), "the delay grows: {pulls}");
    env.bundle(&TestBundle::default());
    env.settle_for(310);
    assert_eq!(env.condition("Progressing"), REACHED);
}

#[test]
fn v1_a_missing_namespace_is_waited_for() {
    let mut env = TestEnv::new();
    env.stage.as_user(|cluster| cluster.delete("Namespace", "", "ns"));
    env.extension(&json!({"version": "1.0.0"}));
    env.settle_for(20);
    let found = env.condition("Progressing");
    assert!(
        found.starts_with("True Retrying: ") && found.contains("\"ns\" not found"),
        "{found}"
    );
    assert_eq!(env.condition("Installed"), "False Failed: No bundle installed");
    env.put(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ns"}}));
    env.settle_for(20);
    assert_eq!(env.condition("Progressing"), REACHED);
}

#[test]
fn v1_an_object_of_another_user_is_a_collision_until_it_is_deleted() {
    let mut env = TestEnv::new();
    env.put(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": "ns", "name": "a"}}));
    env.extension(&json!({"version": "1.0.0"}));
    let found = env.condition("Progressing");
    assert!(
        found.starts_with("True Retrying: revision object collisions in phase "),
        "{found}"
    );
    assert_eq!(env.condition("Installed"), "False Failed: No bundle installed");
    env.delete("ConfigMap", "a");
    env.settle_for(20);
    assert_eq!(env.condition("Progressing"), REACHED);
}

#[test]
fn v1_a_deleted_extension_takes_its_objects_along() {
    let mut env = installed();
    let finalizers =
        json!({"metadata": {"finalizers": ["olm.operatorframework.io/cleanup-unpack-cache", "mine/stays"]}});
    env.edit("ClusterExtension", "e", &finalizers);
    env.delete("ClusterExtension", "e");
    let left = env.get("ClusterExtension", "e")["metadata"]["finalizers"].clone();
    assert_eq!(left, json!(["mine/stays"]), "upstream's finalizer needs nothing");
    env.edit(
        "ClusterExtension",
        "e",
        &json!({"metadata": {"finalizers": null}}),
    );
    env.settle_for(60);
    for (kind, name) in [
        ("ClusterExtension", "e"),
        ("ClusterObjectSet", "e-1"),
        ("ConfigMap", "a"),
        ("Deployment", "demo"),
        ("CustomResourceDefinition", "demos.example.com"),
    ] {
        assert_eq!(env.get(kind, name), Value::Null, "{kind} {name}");
    }
}

#[test]
fn v1_deprecations_are_of_the_catalog_and_of_what_runs() {
    let mut env = TestEnv::new();
    let entry = |schema: &str, name: &str| {
        let reference = json!({"schema": schema, "name": name});
        json!({"reference": reference, "message": format!("{schema} is old")})
    };
    let bundle = |version: &str| {
        json!({
            "schema": "olm.bundle", "name": format!("p.v{version}"), "package": "p", "image": format!("reg.example/p:{version}"),
            "properties": [{"type": "olm.package", "value": {"packageName": "p", "version": version}}],
        })
    };
    env.documents("c", &[
        json!({"schema": "olm.package", "name": "p", "defaultChannel": "stable"}),
        json!({"schema": "olm.channel", "name": "stable", "package": "p", "entries": [{"name": "p.v1.0.0"}, {"name": "p.v1.1.0", "replaces": "p.v1.0.0"}]}),
        json!({"schema": "olm.deprecations", "package": "p", "entries": [entry("olm.channel", "stable"), entry("olm.bundle", "p.v1.0.0")]}),
        bundle("1.0.0"),
        bundle("1.1.0"),
    ]);
    env.extension(&json!({"version": "1.0.0"}));
    assert_eq!(
        env.condition("BundleDeprecated"),
        "True Deprecated: olm.bundle is old"
    );
    assert_eq!(
        env.condition("ChannelDeprecated"),
        "True Deprecated: olm.channel is old"
    );
    assert_eq!(
        env.condition("Deprecated"),
        "True Deprecated: olm.channel is old\nolm.bundle is old"
    );
    env.ask_for("1.1.0");
    env.settle_for(20);
    assert_eq!(
        env.condition("BundleDeprecated"),
        "False NotDeprecated: bundle not deprecated"
    );
    env.ask_for("9.9.9");
    assert_eq!(
        env.condition("ChannelDeprecated"),
        "True Deprecated: olm.channel is old",
        "also without a bundle"
    );
}

#[test]
fn v1_a_lost_secret_is_made_again() {
    let mut env = installed();
    let secrets = |env: &TestEnv| -> Vec<String> {
        let objects = env.stage.cluster.objects();
        objects
            .keys()
            .filter(|key| key.kind == "Secret")
            .map(|key| key.name.clone())
            .collect()
    };
    let before = secrets(&env);
    assert_eq!(before.len(), 1, "{before:?}");
    env.delete("Secret", &before[0]);
    env.settle_for(20);
    assert_eq!(secrets(&env), before);
    assert_eq!(
        env.get("Secret", &before[0])["metadata"]["ownerReferences"][0]["name"],
        "e-1"
    );
    assert_eq!(env.condition("Progressing"), REACHED);
    assert_eq!(env.installed().1, names(&["e-1"]));
}

/// Labels are anybody's outside of OLM's namespace.
#[test]
fn v1_a_secret_of_a_tenant_changes_nothing() {
    let mut env = installed();
    env.put(json!({
        "apiVersion": "v1", "kind": "Secret",
        "metadata": {
            "namespace": "ns", "name": "mine",
            "labels": {"olm.operatorframework.io/owner-name": "e", "olm.operatorframework.io/revision-name": "e-1"},
        },
    }));
    env.stage.cluster.take_log();
    env.settle_for(20);
    assert_eq!(env.stage.cluster.take_log().writes, [""; 0]);
    assert_eq!(env.condition("Progressing"), REACHED);
}

#[test]
fn v1_an_edit_while_the_registry_is_away_is_not_reported_as_done() {
    let mut env = installed();
    env.remove_image("1.0.0");
    env.edit(
        "ClusterExtension",
        "e",
        &json!({"spec": {"progressDeadlineMinutes": 10}}),
    );
    assert!(
        env.condition("Progressing").starts_with("True Retrying: "),
        "{}",
        env.condition("Progressing")
    );
    assert_eq!(env.condition("Installed"), INSTALLED_1);
    env.bundle(&TestBundle::default());
    env.settle_for(60);
    assert_eq!(env.condition("Progressing"), REACHED);
    assert_eq!(
        env.get("ClusterObjectSet", "e-1")["spec"]["progressDeadlineMinutes"],
        10
    );
    assert_eq!(env.installed().1, names(&["e-1"]), "the objects are the same");
}

#[test]
fn v1_a_revision_whose_objects_were_taken_over_does_not_count_as_installed() {
    let mut env = TestEnv::new();
    env.catalog("c", &["1.0.0", "1.1.0", "2.0.0"]);
    env.extension(&json!({"version": "1.0.0", "upgradeConstraintPolicy": "SelfCertified"}));
    env.set_sick(true);
    env.settle();
    for version in ["1.1.0", "2.0.0"] {
        env.ask_for(version);
        env.settle_for(20);
    }
    assert_eq!(
        env.installed(),
        ("1.0.0".to_owned(), names(&["e-1", "e-2", "e-3"]))
    );
    env.set_sick(false);
    env.settle_for(60);
    assert_eq!(env.installed(), ("2.0.0".to_owned(), names(&["e-3"])));
    let conditions = env.get("ClusterObjectSet", "e-2")["status"]["conditions"].clone();
    let mut types = conditions.as_array().unwrap().iter().map(|found| &found["type"]);
    assert!(types.all(|type_| type_ != "Succeeded"), "{conditions}");
}

#[test]
fn v1_a_bundle_that_was_refused_is_pulled_again() {
    let mut env = TestEnv::new();
    env.bundle(&TestBundle {
        modes: &[],
        ..TestBundle::default()
    });
    env.extension(&json!({"version": "1.0.0"}));
    let found = env.condition("Progressing");
    assert!(found.contains("bundle must support at least one of"), "{found}");
    // The same tag with another content.
    env.bundle(&TestBundle::default());
    env.settle_for(60);
    assert_eq!(env.condition("Progressing"), REACHED);
}

#[test]
fn v1_a_name_without_room_for_revisions_is_refused() {
    let mut env = TestEnv::new();
    let name = "n".repeat(59);
    env.put(json!({
        "apiVersion": "olm.operatorframework.io/v1", "kind": "ClusterExtension", "metadata": {"name": name},
        "spec": {"namespace": "ns", "source": {"sourceType": "Catalog", "catalog": {"packageName": "p"}}},
    }));
    env.settle();
    let conditions = env.get("ClusterExtension", &name)["status"]["conditions"].to_string();
    assert!(
        conditions.contains("has 59 characters, and labels of its revisions have room for 58"),
        "{conditions}"
    );
}
