//! Revisions on the cluster in memory.

mod definitions;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use olm_testing::stage::story::{Interruption, Story, assert_rests, every_interruption, tell};
use serde_json::{Value, json};

use crate::apply::object::owners;
use crate::apply::test_env::{Step, TestEnv, config_map, definition, deployment, object_set};

const SET: &str = "ClusterObjectSet";
const AVAILABLE: &str = "True ProbesSucceeded: Objects are available and pass all probes.";

fn rolled_out(number: i64) -> String {
    format!("True Succeeded: Revision {number}.0.0 has rolled out.")
}

/// A revision with a ConfigMap, a definition and a Deployment.
fn three_phases(number: i64, text: &str) -> Value {
    object_set(
        number,
        &[
            ("configuration", vec![config_map("a", text)]),
            ("crds", vec![definition()]),
            ("deploy", vec![deployment("demo")]),
        ],
    )
}

/// Returns the only owner of an object.
fn owner(object: &Value) -> OwnerReference {
    let mut owners = owners(object);
    assert_eq!(owners.len(), 1, "{object}");
    owners.remove(0)
}

/// Makes Deployments never become available, or all of them available again.
fn set_sick(env: &TestEnv, is_sick: bool) {
    env.stage.cluster.set_controllers(|controllers| {
        controllers.sick.clear();
        if is_sick {
            let condition = json!([{"type": "Available", "status": "False"}]);
            controllers.sick.insert("demo".to_owned(), condition);
        }
    });
}

#[test]
fn phases_are_applied_in_order_and_reported() {
    let mut env = TestEnv::new();
    env.put(three_phases(1, "1"));
    env.settle();
    assert_eq!(env.condition("e-1", "Progressing"), rolled_out(1));
    assert_eq!(env.condition("e-1", "Available"), AVAILABLE);
    assert_eq!(
        env.condition("e-1", "Succeeded"),
        "True Succeeded: Revision succeeded rolling out."
    );
    let applied: Vec<String> = env.take_writes();
    let applies: Vec<&String> = applied.iter().filter(|write| write.contains("apply")).collect();
    assert_eq!(applies.len(), 3, "{applied:#?}");
    for (write, kind) in applies
        .iter()
        .zip(["ConfigMap", "CustomResourceDefinition", "Deployment"])
    {
        assert!(write.contains(kind), "{applied:#?}");
    }
    let found = env.get("ConfigMap", "a");
    assert_eq!(owner(&found).name, "e-1");
    assert_eq!(owner(&found).controller, Some(true));
    let metadata = &found["metadata"];
    assert_eq!(metadata["annotations"]["olm.operatorframework.io/revision"], "1");
    assert_eq!(
        metadata["labels"]["app.kubernetes.io/managed-by"],
        "olm.operatorframework.io"
    );
    assert_eq!(metadata["labels"]["olm.operatorframework.io/owner-name"], "e");
    let set = env.get(SET, "e-1");
    let phases = set["status"]["observedPhases"].as_array().unwrap().iter();
    let names: Vec<&Value> = phases.map(|phase| &phase["name"]).collect();
    assert_eq!(names, ["configuration", "crds", "deploy"]);
    assert_eq!(set["metadata"]["finalizers"], json!([super::FINALIZER]));
}

#[test]
fn objects_are_read_once_when_their_phase_is_reached() {
    let mut env = TestEnv::new();
    let establish = |env: &TestEnv, is_on| {
        let cluster = &env.stage.cluster;
        cluster.set_controllers(|controllers| controllers.establish = is_on);
    };
    let gets = |env: &TestEnv| {
        let counts = env.stage.cluster.take_log().counts;
        let kinds = ["ConfigMap", "CustomResourceDefinition", "Deployment"];
        kinds.map(|kind| counts.get(&("get", kind.to_owned())).copied().unwrap_or_default())
    };
    establish(&env, false);
    env.put(three_phases(1, "1"));
    env.stage.settle();
    assert_eq!(gets(&env), [1, 1, 0], "the definition is awaited");
    for look in ["1", "2"] {
        env.edit(SET, "e-1", &json!({"metadata": {"annotations": {"look": look}}}));
        env.stage.settle();
    }
    assert_eq!(gets(&env), [0; 3]);
    establish(&env, true);
    env.stage.settle();
    assert_eq!(gets(&env), [0, 0, 1]);
    assert_eq!(env.condition("e-1", "Progressing"), rolled_out(1));
}

#[test]
fn an_object_that_is_not_ready_is_named_and_success_stays() {
    let mut env = TestEnv::new();
    set_sick(&env, true);
    env.put(three_phases(1, "1"));
    env.settle();
    let failing =
        r#"False ProbeFailure: Object Deployment.apps/v1 ns/demo: .status.condition["Available"] is False"#;
    assert_eq!(env.condition("e-1", "Available"), failing);
    assert_eq!(
        env.condition("e-1", "Progressing"),
        "True RollingOut: Revision 1.0.0 is rolling out."
    );
    assert_eq!(env.condition("e-1", "Succeeded"), "none");
    set_sick(&env, false);
    env.settle();
    assert_eq!(env.condition("e-1", "Available"), AVAILABLE);
    set_sick(&env, true);
    env.settle();
    assert_eq!(env.condition("e-1", "Available"), failing);
    assert!(env.condition("e-1", "Succeeded").starts_with("True"));
}

#[test]
fn a_rollout_that_takes_too_long_is_reported_and_may_still_succeed() {
    let mut env = TestEnv::new();
    set_sick(&env, true);
    let mut set = three_phases(1, "1");
    set["spec"]["progressDeadlineMinutes"] = json!(10);
    env.put(set);
    env.settle_for(590);
    assert!(env.condition("e-1", "Progressing").starts_with("True RollingOut"));
    env.settle_for(30);
    assert_eq!(
        env.condition("e-1", "Progressing"),
        "False ProgressDeadlineExceeded: Revision has not rolled out for 10 minute(s). Last status: Revision 1.0.0 is rolling out."
    );
    set_sick(&env, false);
    env.settle();
    assert_eq!(env.condition("e-1", "Progressing"), rolled_out(1));
}

#[test]
fn drift_is_corrected_and_fields_of_others_stay() {
    let mut env = TestEnv::new();
    env.put(three_phases(1, "1"));
    env.settle();
    env.take_writes();
    env.edit("ConfigMap", "a", &json!({"metadata": {"labels": {"mine": "1"}}}));
    env.settle();
    assert_eq!(
        env.take_writes(),
        Vec::<String>::new(),
        "labels of others are no drift"
    );
    env.edit("ConfigMap", "a", &json!({"data": {"text": "2"}}));
    env.settle();
    let found = env.get("ConfigMap", "a");
    assert_eq!(found["data"]["text"], "1");
    assert_eq!(found["metadata"]["labels"]["mine"], "1");
    // As `kubectl rollout restart` does.
    let patch = json!({"spec": {"template": {"metadata": {"annotations": {"restartedAt": "now"}}}}});
    env.edit("Deployment", "demo", &patch);
    env.settle();
    let restarted = env.get("Deployment", "demo");
    assert_eq!(
        restarted["spec"]["template"]["metadata"]["annotations"]["restartedAt"],
        "now"
    );
    env.delete("ConfigMap", "a");
    env.settle();
    assert_eq!(
        env.get("ConfigMap", "a")["data"]["text"],
        "1",
        "it is created again"
    );
    assert_eq!(env.condition("e-1", "Available"), AVAILABLE);
}

#[test]
fn an_object_of_others_is_a_collision_until_it_is_gone() {
    let mut env = TestEnv::new();
    env.put(config_map("a", "theirs"));
    env.put(three_phases(1, "1"));
    env.settle();
    assert_eq!(
        env.condition("e-1", "Progressing"),
        "True Retrying: revision object collisions in phase 0\nObject ConfigMap.v1 ns/a\nAction: \"Collision\"\nProbes:\n- Progress: \
         Succeeded\nConflicting Owner: nil\n"
    );
    assert_eq!(env.condition("e-1", "Available"), "none");
    assert_eq!(env.get("ConfigMap", "a")["data"]["text"], "theirs");
    assert_eq!(env.get("Deployment", "demo"), Value::Null, "later phases wait");
    env.delete("ConfigMap", "a");
    env.settle_for(11);
    assert_eq!(env.condition("e-1", "Progressing"), rolled_out(1));
}

#[test]
fn protection_may_allow_to_adopt_an_object() {
    let mut env = TestEnv::new();
    env.put(config_map("a", "theirs"));
    let mut set = three_phases(1, "1");
    set["spec"]["phases"][0]["collisionProtection"] = json!("IfNoController");
    env.put(set);
    env.settle();
    assert_eq!(env.condition("e-1", "Progressing"), rolled_out(1));
    let found = env.get("ConfigMap", "a");
    assert_eq!(
        (found["data"]["text"].as_str(), owner(&found).name.as_str()),
        (Some("1"), "e-1")
    );
}

#[test]
fn a_refused_object_is_reported_and_tried_again() {
    let mut env = TestEnv::new();
    let mut object = config_map("a", "1");
    object["metadata"]["namespace"] = json!("other");
    env.put(object_set(1, &[("configuration", vec![object])]));
    env.settle();
    assert_eq!(
        env.condition("e-1", "Progressing"),
        "True Retrying: phase 0 validation error: phase \"configuration\": /v1, Kind=ConfigMap other/a: namespaces \"other\" not \
         found"
    );
    env.put(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "other"}}));
    env.settle_for(61);
    assert_eq!(env.condition("e-1", "Progressing"), rolled_out(1));
}

#[test]
fn a_kind_that_is_not_served_is_reported() {
    let mut env = TestEnv::new();
    let object = json!({"apiVersion": "example.com/v1", "kind": "Other", "metadata": {"name": "o"}});
    env.put(object_set(1, &[("deploy", vec![config_map("a", "1"), object])]));
    env.settle();
    assert_eq!(
        env.condition("e-1", "Progressing"),
        "True Retrying: phase 0 validation error: phase \"deploy\": example.com/v1, Kind=Other /o: no matches for kind \"Other\" in \
         version \"example.com/v1\""
    );
    assert_eq!(
        env.get("ConfigMap", "a"),
        Value::Null,
        "nothing of the phase is applied"
    );
}

#[test]
fn an_invalid_revision_is_reported() {
    let mut env = TestEnv::new();
    env.put(object_set(
        1,
        &[
            ("a", vec![config_map("a", "1")]),
            ("b", vec![config_map("a", "2")]),
        ],
    ));
    env.settle();
    let message = env.condition("e-1", "Progressing");
    assert!(
        message.starts_with("True Retrying: revision validation error: revision \"e-1\" (1): phase \"a\": "),
        "{message}"
    );
}

/// Two revisions: the second drops the ConfigMap `b` and changes `a`.
fn upgrade() -> [Value; 2] {
    let first = object_set(
        1,
        &[
            ("configuration", vec![config_map("a", "1"), config_map("b", "1")]),
            ("deploy", vec![deployment("demo")]),
        ],
    );
    let second = object_set(
        2,
        &[
            ("configuration", vec![config_map("a", "2")]),
            ("deploy", vec![deployment("demo")]),
        ],
    );
    [first, second]
}

#[test]
fn the_next_revision_takes_over_and_the_old_one_is_archived() {
    let mut env = TestEnv::new();
    let [first, second] = upgrade();
    env.put(first);
    env.settle();
    let before = env.get("Deployment", "demo");
    env.put(second);
    env.settle_for(15);
    assert_eq!(env.condition("e-2", "Progressing"), rolled_out(2));
    let old = env.get(SET, "e-1");
    assert_eq!(old["spec"]["lifecycleState"], "Archived");
    assert_eq!(
        env.condition("e-1", "Progressing"),
        "False Archived: revision is archived"
    );
    assert_eq!(
        env.condition("e-1", "Available"),
        "Unknown Archived: revision is archived"
    );
    assert_eq!(old["metadata"]["finalizers"].as_array().map_or(0, Vec::len), 0);
    assert_eq!(env.get("ConfigMap", "b"), Value::Null);
    let found = env.get("ConfigMap", "a");
    assert_eq!(
        (found["data"]["text"].as_str(), owner(&found).name.as_str()),
        (Some("2"), "e-2")
    );
    let after = env.get("Deployment", "demo");
    assert_eq!(
        after["metadata"]["uid"], before["metadata"]["uid"],
        "it was not created anew"
    );
    assert_eq!(owner(&after).name, "e-2");
}

#[test]
fn an_old_revision_stays_until_the_new_one_is_ready() {
    let mut env = TestEnv::new();
    let [first, second] = upgrade();
    env.put(first);
    env.settle();
    set_sick(&env, true);
    env.settle();
    env.put(second);
    env.settle_for(15);
    assert_eq!(env.get(SET, "e-1")["spec"]["lifecycleState"], "Active");
    assert_eq!(env.get("ConfigMap", "b")["data"]["text"], "1");
    assert_eq!(owner_of_controller(&env.get("Deployment", "demo")), "e-2");
}

/// Returns the name of the controller of an object.
fn owner_of_controller(object: &Value) -> String {
    crate::apply::collision::controller(object).unwrap().name
}

#[test]
fn an_archived_revision_deletes_its_objects_from_the_last_phase_on() {
    let mut env = TestEnv::new();
    env.put(three_phases(1, "1"));
    env.settle();
    env.edit(
        "Deployment",
        "demo",
        &json!({"metadata": {"finalizers": ["example.com/wait"]}}),
    );
    env.edit(SET, "e-1", &json!({"spec": {"lifecycleState": "Archived"}}));
    env.settle_for(15);
    assert_eq!(
        env.condition("e-1", "Progressing"),
        "True Retrying: removing revision resources that are not owned by another revision"
    );
    assert_eq!(
        env.get("ConfigMap", "a")["data"]["text"],
        "1",
        "earlier phases wait"
    );
    env.edit("Deployment", "demo", &json!({"metadata": {"finalizers": null}}));
    env.settle_for(15);
    assert_eq!(
        env.condition("e-1", "Progressing"),
        "False Archived: revision is archived"
    );
    for (kind, name) in [
        ("Deployment", "demo"),
        ("CustomResourceDefinition", "demos.example.com"),
        ("ConfigMap", "a"),
    ] {
        assert_eq!(env.get(kind, name), Value::Null, "{kind}");
    }
}

#[test]
fn a_deleted_revision_goes_with_its_objects() {
    let mut env = TestEnv::new();
    env.put(three_phases(1, "1"));
    env.settle();
    env.delete(SET, "e-1");
    env.settle();
    assert_all_gone(&env);
}

/// A custom resource of the definition.
fn demo() -> Value {
    json!({
        "apiVersion": "example.com/v1", "kind": "Demo", "metadata": {"namespace": "ns", "name": "data"}, "spec": {"a": 1},
    })
}

#[track_caller]
fn assert_all_gone(env: &TestEnv) {
    for (kind, name) in [
        (SET, "e-1"),
        ("ConfigMap", "a"),
        ("Deployment", "demo"),
        ("CustomResourceDefinition", "demos.example.com"),
    ] {
        assert_eq!(env.get(kind, name), Value::Null, "{kind}");
    }
}

/// A Secret with a ConfigMap.
fn secret(text: &str, immutable: bool) -> Value {
    use base64::Engine as _;
    let object = config_map("a", text).to_string();
    let object = base64::engine::general_purpose::STANDARD.encode(object);
    json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"namespace": "olm", "name": "s"},
        "data": {"k": object}, "immutable": immutable,
    })
}

/// A revision with the ConfigMap of the Secret, and a Deployment.
fn of_secret() -> Value {
    let mut set = object_set(
        1,
        &[("configuration", vec![]), ("deploy", vec![deployment("demo")])],
    );
    set["spec"]["phases"][0]["objects"] = json!([{"ref": {"name": "s", "key": "k"}}]);
    set
}

/// Secrets of OLM's revisions bear the label.
#[test]
fn a_secret_with_the_label_is_read_once_in_a_rollout_unless_it_is_replaced() {
    let labelled = |text: &str| {
        let mut secret = secret(text, true);
        secret["metadata"]["labels"] = json!({"olm.operatorframework.io/owner-name": "e"});
        secret
    };
    let gets = |env: &TestEnv| {
        let counts = env.stage.cluster.take_log().counts;
        counts
            .get(&("get", "Secret".to_owned()))
            .copied()
            .unwrap_or_default()
    };
    let look = |env: &mut TestEnv, number: &str| {
        let patch = json!({"metadata": {"annotations": {"look": number}}});
        env.edit(SET, "e-1", &patch);
        env.stage.settle();
    };
    let mut env = TestEnv::new();
    set_sick(&env, true);
    env.put(labelled("1"));
    env.put(of_secret());
    env.stage.settle();
    let count = gets(&env);
    assert!((1..=2).contains(&count), "{count}, as the watch may begin later");
    look(&mut env, "1");
    assert_eq!(gets(&env), 0);
    env.delete("Secret", "s");
    env.put(labelled("2"));
    env.stage.settle();
    look(&mut env, "2");
    let message = env.condition("e-1", "Progressing");
    assert!(
        message.starts_with("False Blocked: resolved content of 1 phase(s) has changed"),
        "{message}"
    );
}

#[test]
fn a_secret_must_be_immutable_and_keep_its_content() {
    let mut env = TestEnv::new();
    env.put(of_secret());
    env.settle();
    assert_eq!(
        env.condition("e-1", "Progressing"),
        "True Retrying: resolving ref in phase \"configuration\": getting Secret olm/s: Secret \"s\" not found"
    );
    env.put(secret("1", false));
    env.settle();
    assert_eq!(
        env.condition("e-1", "Progressing"),
        "False Blocked: the following secrets are not immutable (referenced secrets must have immutable set to true): olm/s"
    );
    env.put(secret("1", true));
    env.settle();
    assert_eq!(env.condition("e-1", "Progressing"), rolled_out(1));
    let digest = env.get(SET, "e-1")["status"]["observedPhases"].clone();
    env.delete("Secret", "s");
    env.put(secret("2", true));
    env.edit(SET, "e-1", &json!({"metadata": {"annotations": {"look": "1"}}}));
    env.settle();
    let message = env.condition("e-1", "Progressing");
    assert!(
        message.starts_with(
            "False Blocked: resolved content of 1 phase(s) has changed: phase \"configuration\" (expected"
        ),
        "{message}"
    );
    assert_eq!(env.get("ConfigMap", "a")["data"]["text"], "1");
    assert_eq!(env.get(SET, "e-1")["status"]["observedPhases"], digest);
    env.put(secret("1", true));
    env.edit(SET, "e-1", &json!({"metadata": {"annotations": {"look": "2"}}}));
    env.settle();
    assert_eq!(env.condition("e-1", "Progressing"), rolled_out(1));
}

fn stories() -> Vec<Story<Step>> {
    let [first, second] = upgrade();
    let drift = json!({"data": {"text": "2"}});
    let archived = json!({"spec": {"lifecycleState": "Archived"}});
    vec![
        (
            "upgrade",
            vec![Step::Put(first.clone()), Step::Put(second), Step::Wait(30)],
        ),
        (
            "drift and archive",
            vec![
                Step::Put(three_phases(1, "1")),
                Step::Edit("ConfigMap", "a", drift),
                Step::Edit(SET, "e-1", archived),
                Step::Wait(30),
            ],
        ),
        ("delete", vec![Step::Put(first), Step::Delete(SET, "e-1")]),
        (
            "delete without data",
            vec![Step::Put(three_phases(1, "1")), Step::Delete(SET, "e-1")],
        ),
        (
            "delete with data",
            vec![
                Step::Put(three_phases(1, "1")),
                Step::Put(demo()),
                Step::Delete(SET, "e-1"),
            ],
        ),
    ]
}

#[test]
fn nothing_is_written_at_rest() {
    for (name, story) in stories() {
        let mut env = TestEnv::new();
        tell(&mut env, &story);
        assert_rests(&mut env, name, 1200, None);
    }
}

#[test]
fn a_process_killed_at_any_write_leaves_the_same_end() {
    every_interruption::<TestEnv>("kills of object sets", stories(), Interruption::Kill);
}

#[test]
fn an_answer_lost_at_any_write_leaves_the_same_end() {
    every_interruption::<TestEnv>("lost answers of object sets", stories(), Interruption::LoseAnswer);
}
