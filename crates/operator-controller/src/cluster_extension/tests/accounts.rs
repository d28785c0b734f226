//! Extensions with a ServiceAccount (V1-002).

use serde_json::{Value, json};

use super::{AVAILABLE, INSTALLED_1, REACHED, assert_rests};
use crate::cluster_extension::test_env::{TestBundle, TestEnv};

/// Start of the message about rights of the account.
const LACKING: &str = "True Retrying: error for resolved bundle \"p.v1.0.0\" with version \"1.0.0\": pre-authorization failed: service \
                       account requires the following permissions to manage cluster extension:";

/// Creates the extension `e` with version 1.0.0 and the account `installer`.
pub(super) fn extension(env: &mut TestEnv) {
    env.put(json!({
        "apiVersion": "olm.operatorframework.io/v1", "kind": "ClusterExtension", "metadata": {"name": "e"},
        "spec": {
            "namespace": "ns", "serviceAccount": {"name": "installer"},
            "source": {"sourceType": "Catalog", "catalog": {"packageName": "p", "version": "1.0.0"}},
        },
    }));
    env.settle();
}

fn account(env: &mut TestEnv) {
    env.put(json!({
        "apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"namespace": "ns", "name": "installer"},
    }));
}

/// Gives the account a rule in a namespace, or everywhere if it is empty.
fn grant(env: &TestEnv, namespace: &str, rule: &Value) {
    let rule = serde_json::from_value(rule.clone()).unwrap();
    env.outside().granted.push((namespace.to_owned(), rule));
}

/// Lets the account write every object, but not give rights.
fn grant_writes(env: &TestEnv) {
    let verbs = ["create", "delete", "patch"];
    grant(
        env,
        "",
        &json!({"apiGroups": ["*"], "resources": ["*"], "verbs": verbs}),
    );
}

/// Checks that version 1.0.0 is installed and available, for the current fields of the extension.
pub(super) fn assert_is_installed(env: &TestEnv) {
    assert_eq!(env.condition("Progressing"), REACHED);
    assert_eq!(env.condition("Installed"), INSTALLED_1);
    assert_eq!(env.condition("Available"), AVAILABLE);
    let extension = env.get("ClusterExtension", "e");
    let conditions = extension["status"]["conditions"].as_array().unwrap();
    let progressing = conditions
        .iter()
        .find(|condition| condition["type"] == "Progressing")
        .unwrap();
    assert_eq!(
        progressing["observedGeneration"],
        extension["metadata"]["generation"]
    );
}

fn lines(env: &TestEnv) -> Vec<String> {
    env.condition("Progressing").lines().map(str::to_owned).collect()
}

#[test]
fn v1_002_all_rights_that_an_account_lacks_are_listed_at_once() {
    let mut env = TestEnv::new();
    extension(&mut env);
    assert_eq!(
        env.condition("Progressing"),
        "True Retrying: operation cannot proceed due to the following validation error(s): service account \"installer\" not found in \
         namespace \"ns\""
    );
    account(&mut env);
    env.settle_for(30);
    let definitions = "  Namespace:\"\" APIGroups:[apiextensions.k8s.io] Resources:[customresourcedefinitions] \
                       ResourceNames:[demos.example.com] Verbs:[create,delete,patch]";
    assert_eq!(
        lines(&env),
        [
            LACKING,
            definitions,
            "  Namespace:\"ns\" APIGroups:[] Resources:[configmaps] ResourceNames:[a] Verbs:[create,delete,patch]",
            "  Namespace:\"ns\" APIGroups:[apps] Resources:[deployments] ResourceNames:[demo] Verbs:[create,delete,patch]",
        ]
    );
    assert_eq!(
        env.get("ClusterObjectSet", "e-1"),
        Value::Null,
        "nothing is written"
    );
    let rule = json!({"apiGroups": ["*"], "resources": ["configmaps", "deployments"], "verbs": ["*"]});
    grant(&env, "ns", &rule);
    env.settle_for(60);
    assert_eq!(lines(&env), [LACKING, definitions]);
    grant_writes(&env);
    env.settle_for(120);
    assert_eq!(env.condition("Progressing"), REACHED, "it goes on by itself");
    assert_rests(&mut env);
}

#[test]
fn v1_002_objects_are_written_as_the_account_and_revisions_as_olm() {
    let mut env = TestEnv::new();
    account(&mut env);
    grant_writes(&env);
    env.stage.cluster.take_log();
    extension(&mut env);
    assert_eq!(env.condition("Installed"), INSTALLED_1);
    env.delete("ConfigMap", "a");
    let writes = env.stage.cluster.take_log().writes;
    let writes = writes.iter().filter(|write| !write.starts_with("kubernetes"));
    let mut count = 0;
    for write in writes {
        let is_of_olm = ["Secret", "ClusterObjectSet", "ClusterExtension", "Lease"]
            .iter()
            .any(|kind| write.contains(kind));
        assert_eq!(write.ends_with(" as ns/installer"), !is_of_olm, "{write}");
        count += usize::from(!is_of_olm);
    }
    assert_eq!(count, 4, "three objects, and one again");
    // Without the field OLM writes again.
    env.edit(
        "ClusterExtension",
        "e",
        &json!({"spec": {"serviceAccount": null}}),
    );
    env.settle_for(20);
    let annotations = env.get("ClusterObjectSet", "e-1")["metadata"]["annotations"].clone();
    assert_eq!(
        annotations["olm.operatorframework.io/service-account-name"],
        Value::Null
    );
    env.delete("ConfigMap", "a");
    let writes = env.stage.cluster.take_log().writes;
    assert!(writes.contains(&"apply ConfigMap ns/a".to_owned()), "{writes:#?}");
}

/// The account may write roles, but it does not have the rules, so it may not give them away.
#[test]
fn v1_002_an_account_cannot_give_rights_that_it_does_not_have() {
    let mut env = TestEnv::new();
    let rule = json!({"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]});
    env.bundle(&TestBundle {
        rules: json!([rule]),
        ..TestBundle::default()
    });
    account(&mut env);
    grant_writes(&env);
    extension(&mut env);
    assert_eq!(
        lines(&env),
        [
            LACKING,
            "  Namespace:\"\" APIGroups:[] Resources:[secrets] Verbs:[get]"
        ]
    );
    grant(&env, "", &rule);
    env.settle_for(120);
    assert_eq!(env.condition("Progressing"), REACHED);
}

/// The account is a `cluster-admin`, of which no other right is checked.
#[test]
fn v1_002_an_account_with_all_rights_gives_any() {
    let mut env = TestEnv::new();
    env.bundle(&TestBundle {
        rules: json!([{"nonResourceURLs": ["/metrics"], "verbs": ["get"]}]),
        ..TestBundle::default()
    });
    account(&mut env);
    let all = json!({"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]});
    grant(&env, "", &all);
    grant(&env, "", &json!({"nonResourceURLs": ["*"], "verbs": ["*"]}));
    extension(&mut env);
    env.settle_for(20);
    assert_eq!(env.condition("Progressing"), REACHED);
}

/// Case 35, and upstream's scenario of a deprecated serviceAccount: the account does not exist. The warning is the chart's policy.
#[test]
fn v1_002_an_account_is_ignored_where_a_flag_says_so() {
    let mut env = TestEnv::of_process(true);
    env.stage.cluster.take_log();
    extension(&mut env);
    assert_is_installed(&env);
    let writes = env.stage.cluster.take_log().writes;
    assert!(writes.iter().all(|write| !write.contains(" as ")), "{writes:#?}");
    let annotations = env.get("ClusterObjectSet", "e-1")["metadata"]["annotations"].clone();
    assert_eq!(
        annotations["olm.operatorframework.io/service-account-name"],
        Value::Null
    );
}

/// Upstream's scenario of a cleared serviceAccount: the new generation is observed, and nothing else is written.
#[test]
fn v1_002_an_ignored_account_can_be_removed() {
    let mut env = TestEnv::of_process(true);
    extension(&mut env);
    env.settle_for(20);
    env.stage.cluster.take_log();
    env.edit(
        "ClusterExtension",
        "e",
        &json!({"spec": {"serviceAccount": null}}),
    );
    env.settle_for(20);
    let writes = env.stage.cluster.take_log().writes;
    assert!(
        writes.iter().all(|write| write.contains("ClusterExtension")),
        "{writes:#?}"
    );
    assert_is_installed(&env);
    assert_rests(&mut env);
}
