//! Definitions with custom resources, and revisions of an account, on the cluster in memory.

use std::time::Duration;

use serde_json::{Value, json};

use super::{SET, assert_all_gone, demo, owner_of_controller, rolled_out, three_phases, upgrade};
use crate::apply::object::owners;
use crate::apply::object_set::FINALIZER;
use crate::apply::test_env::{TestEnv, config_map, definition, deployment, object_set};

/// Deletes the revision as `kubectl delete` does with `--cascade=foreground` or `--cascade=orphan`, each of which has a finalizer.
fn delete_with(env: &mut TestEnv, finalizer: &str) {
    let marks = json!({"metadata": {
        "deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": [FINALIZER, finalizer],
    }});
    env.edit(SET, "e-1", &marks);
}

/// Returns the owners of the definition. It must exist.
#[track_caller]
fn owners_of_definition(env: &TestEnv) -> Vec<String> {
    let found = env.get("CustomResourceDefinition", "demos.example.com");
    assert!(found.is_object(), "the definition is gone");
    owners(&found).into_iter().map(|owner| owner.name).collect()
}

#[test]
fn a_definition_with_custom_resources_stays_when_its_revision_is_deleted() {
    for in_foreground in [false, true] {
        let mut env = TestEnv::new();
        env.put(three_phases(1, "1"));
        env.settle();
        env.put(demo());
        if in_foreground {
            delete_with(&mut env, "foregroundDeletion");
        } else {
            env.delete(SET, "e-1");
        }
        env.settle_for(15);
        assert_eq!(env.get(SET, "e-1"), Value::Null, "foreground {in_foreground}");
        assert_eq!(env.get("Deployment", "demo"), Value::Null);
        let kept = env.get("CustomResourceDefinition", "demos.example.com");
        assert!(kept.is_object(), "foreground {in_foreground}");
        assert_eq!(owners(&kept).len(), 0, "{kept}");
        assert_eq!(env.get("Demo", "data")["spec"]["a"], 1);
        // It is taken over when the extension is installed again.
        env.put(three_phases(1, "1"));
        env.settle();
        assert_eq!(env.condition("e-1", "Progressing"), rolled_out(1));
        let taken = env.get("CustomResourceDefinition", "demos.example.com");
        assert_eq!(taken["metadata"]["uid"], kept["metadata"]["uid"]);
        assert_eq!(owner_of_controller(&taken), "e-1");
    }
}

#[test]
fn a_definition_without_custom_resources_goes_with_its_revision() {
    let mut env = TestEnv::new();
    env.put(three_phases(1, "1"));
    env.settle();
    delete_with(&mut env, "foregroundDeletion");
    env.settle_for(15);
    assert_all_gone(&env);
}

#[test]
fn nothing_is_deleted_with_a_revision_that_orphans_its_objects() {
    let mut env = TestEnv::new();
    env.put(three_phases(1, "1"));
    env.settle();
    delete_with(&mut env, "orphan");
    env.settle_for(15);
    assert_eq!(env.get(SET, "e-1"), Value::Null);
    assert!(env.get("ConfigMap", "a").is_object());
    assert_eq!(owners_of_definition(&env), Vec::<String>::new());
}

/// The garbage collector may have removed its finalizer before the controller sees the deletion. Then nothing says any more whether the
/// objects are to stay.
#[test]
fn a_definition_stays_if_the_garbage_collector_was_faster() {
    for finalizer in ["orphan", "foregroundDeletion"] {
        let mut env = TestEnv::new();
        env.put(three_phases(1, "1"));
        env.settle();
        env.stage.kill();
        delete_with(&mut env, finalizer);
        env.stage.advance(Duration::from_secs(1));
        assert_eq!(owners_of_definition(&env), ["kube-system"], "{finalizer}");
        env.settle_for(15);
        assert_eq!(env.get(SET, "e-1"), Value::Null, "{finalizer}");
        assert_eq!(owners_of_definition(&env), Vec::<String>::new(), "{finalizer}");
    }
}

/// One row per definition without its revision among its owners: whether it still has the second owner, and whether it stays. It lacks the
/// second owner if an earlier revision of this number left it. An annotation of a new one must not delete its data.
#[test]
fn a_foreground_deletion_only_deletes_definitions_that_were_not_left_before() {
    for (has_anchor, stays) in [(true, false), (false, true)] {
        let mut env = TestEnv::new();
        let mut set = three_phases(1, "1");
        set["metadata"]["annotations"]["olm.operatorframework.io/delete-custom-resources"] = json!("true");
        env.put(set);
        env.settle();
        env.put(demo());
        env.stage.kill();
        env.stage
            .cluster
            .set_controllers(|controllers| controllers.collect_garbage = false);
        let found = env.get("CustomResourceDefinition", "demos.example.com");
        let mut left = owners(&found);
        left.retain(|owner| has_anchor && owner.kind == "Namespace");
        let left = json!({"metadata": {"ownerReferences": left}});
        env.edit("CustomResourceDefinition", "demos.example.com", &left);
        delete_with(&mut env, "foregroundDeletion");
        env.settle_for(15);
        let set = env.get(SET, "e-1");
        assert_eq!(
            set["metadata"]["finalizers"],
            json!(["foregroundDeletion"]),
            "{set}"
        );
        let after = env.get("CustomResourceDefinition", "demos.example.com");
        assert_eq!(after.is_object(), stays, "second owner {has_anchor}");
    }
}

#[test]
fn an_annotation_deletes_definitions_with_their_custom_resources() {
    let mut env = TestEnv::new();
    let mut set = three_phases(1, "1");
    set["metadata"]["annotations"]["olm.operatorframework.io/delete-custom-resources"] = json!("true");
    env.put(set);
    env.settle();
    env.put(demo());
    env.delete(SET, "e-1");
    env.settle();
    assert_all_gone(&env);
}

#[test]
fn kept_definitions_are_reported_to_the_user() {
    let mut env = TestEnv::new();
    env.put(three_phases(1, "1"));
    env.settle();
    env.put(demo());
    env.stage.as_user(|cluster| cluster.delete(SET, "", "e-1"));
    env.stage.settle();
    let events = env.stage.cluster.take_log().events;
    assert_eq!(
        events,
        [
            "DefinitionsKept: kept CustomResourceDefinitions: demos.example.com; to delete them with all their data: kubectl delete \
             crd demos.example.com"
        ]
    );
}

#[test]
fn a_definition_with_custom_resources_stays_when_the_next_revision_drops_it() {
    let mut env = TestEnv::new();
    env.put(three_phases(1, "1"));
    env.settle();
    env.put(demo());
    let second = [
        ("configuration", vec![config_map("a", "2")]),
        ("deploy", vec![deployment("demo")]),
    ];
    env.put(object_set(2, &second));
    env.settle_for(30);
    assert_eq!(
        env.condition("e-1", "Progressing"),
        "False Archived: revision is archived"
    );
    let kept = env.get("CustomResourceDefinition", "demos.example.com");
    assert_eq!(owners(&kept).len(), 0, "{kept}");
}

#[test]
fn objects_are_written_as_the_account_of_the_revision() {
    let mut env = TestEnv::new();
    let of_account = |mut set: Value| {
        let annotations = &mut set["metadata"]["annotations"];
        annotations["olm.operatorframework.io/service-account-name"] = json!("installer");
        annotations["olm.operatorframework.io/service-account-namespace"] = json!("ns");
        set
    };
    let [first, second] = upgrade();
    env.put(of_account(first));
    env.settle();
    env.edit("ConfigMap", "a", &json!({"data": {"text": "drift"}}));
    env.settle();
    env.put(of_account(second));
    env.settle_for(30);
    assert_eq!(env.condition("e-2", "Progressing"), rolled_out(2));
    let writes = env.take_writes();
    // References to its own revisions are OLM's.
    let (of_objects, of_olm): (Vec<&String>, Vec<&String>) = writes
        .iter()
        .filter(|write| !write.contains("ownerReferences"))
        .partition(|write| {
            ["ConfigMap", "Deployment"]
                .iter()
                .any(|kind| write.contains(kind))
        });
    assert!(
        of_objects
            .iter()
            .any(|write| write.starts_with("delete ConfigMap")),
        "{of_objects:#?}"
    );
    let by_account = |write: &&String| write.ends_with(" as ns/installer");
    assert!(of_objects.iter().all(by_account), "{of_objects:#?}");
    assert!(!of_olm.iter().any(by_account), "{of_olm:#?}");
    let owners = owners(&env.get("ConfigMap", "a"));
    assert_eq!(
        owners[0].block_owner_deletion,
        Some(false),
        "it would need a right on the owner"
    );
}

#[test]
fn a_definition_that_another_extension_left_is_a_collision_until_its_label_is_changed() {
    let mut env = TestEnv::new();
    let mut left = definition();
    left["metadata"]["labels"] = json!({"olm.operatorframework.io/owner-name": "old"});
    left["metadata"]["annotations"] = json!({"olm.operatorframework.io/revision": "3"});
    env.put(left);
    env.put(three_phases(1, "1"));
    env.settle();
    let message = env.condition("e-1", "Progressing");
    assert!(
        message.ends_with(
            "\nConflicting Owner: nil; left by ClusterExtension old; to take it over: kubectl label crd demos.example.com \
             olm.operatorframework.io/owner-name=e --overwrite\n"
        ),
        "{message}"
    );
    let label = json!({"metadata": {"labels": {"olm.operatorframework.io/owner-name": "e"}}});
    env.edit("CustomResourceDefinition", "demos.example.com", &label);
    env.settle_for(15);
    assert_eq!(env.condition("e-1", "Progressing"), rolled_out(1));
}

/// Earlier programs applied definitions without the second owner.
#[test]
fn a_definition_without_the_second_owner_gets_it() {
    let mut env = TestEnv::new();
    env.put(three_phases(1, "1"));
    env.settle();
    let mut before = owners(&env.get("CustomResourceDefinition", "demos.example.com"));
    before.retain(|owner| owner.kind != "Namespace");
    let before = json!({"metadata": {"ownerReferences": before}});
    env.edit("CustomResourceDefinition", "demos.example.com", &before);
    assert_eq!(owners_of_definition(&env), ["e-1"]);
    env.settle();
    assert!(owners_of_definition(&env).contains(&"kube-system".to_owned()));
}
