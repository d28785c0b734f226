//! Definitions with custom resources, and revisions of an account, on the cluster in memory.

use serde_json::{Value, json};

use super::{SET, assert_all_gone, demo, owner_of_controller, rolled_out, three_phases, upgrade};
use crate::apply::object::owners;
use crate::apply::object_set::FINALIZER;
use crate::apply::test_env::{TestEnv, config_map, deployment, object_set};

/// Deletes the revision as `kubectl delete --cascade=foreground` does.
fn delete_in_foreground(env: &mut TestEnv) {
    let marks = json!({"metadata": {
        "deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": [FINALIZER, "foregroundDeletion"],
    }});
    env.edit(SET, "e-1", &marks);
}

#[test]
fn a_definition_with_custom_resources_stays_when_its_revision_is_deleted() {
    for in_foreground in [false, true] {
        let mut env = TestEnv::new();
        env.put(three_phases(1, "1"));
        env.settle();
        env.put(demo());
        if in_foreground {
            delete_in_foreground(&mut env);
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
    delete_in_foreground(&mut env);
    env.settle_for(15);
    assert_all_gone(&env);
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
fn the_user_is_told_which_definitions_were_kept() {
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
            "DefinitionsKept: kept CustomResourceDefinitions that have custom resources: demos.example.com; to delete them with all \
             their data: kubectl delete crd demos.example.com"
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
