//! The program's installation: it has only the permissions it uses, and one replica always answers.

#![allow(clippy::unwrap_used, reason = "a test program")]

use olm_fbc::yaml;
use serde_json::{Value, json};

fn objects() -> Vec<Value> {
    yaml::parse_all(include_bytes!("../../../manifests/olm/50-packageserver.yaml")).unwrap()
}

fn of_kind(kind: &str) -> Value {
    let found: Vec<Value> = objects()
        .into_iter()
        .filter(|object| object["kind"] == kind)
        .collect();
    assert_eq!(found.len(), 1, "{kind}");
    found[0].clone()
}

#[test]
fn its_account_may_read_where_catalogs_are_and_ask_and_nothing_else() {
    let role = of_kind("ClusterRole");
    let expected = json!([
        {"apiGroups": ["operators.coreos.com"], "resources": ["catalogsources", "olmconfigs"],
            "verbs": ["list", "watch"]},
        {"apiGroups": ["authorization.k8s.io"], "resources": ["subjectaccessreviews"], "verbs": ["create"]},
        {"apiGroups": ["authentication.k8s.io"], "resources": ["tokenreviews"], "verbs": ["create"]},
    ]);
    assert_eq!(role["rules"], expected);
    // OLM waits for permissions that the ClusterRole grants.
    let csv = of_kind("ClusterServiceVersion");
    let asked = &csv["spec"]["install"]["spec"]["clusterPermissions"];
    assert_eq!(
        *asked,
        json!([{"serviceAccountName": "packageserver", "rules": expected}])
    );
    assert!(csv["spec"]["install"]["spec"].get("permissions").is_none());
    let binding = of_kind("ClusterRoleBinding");
    assert_eq!(binding["roleRef"]["name"], role["metadata"]["name"]);
    assert_eq!(binding["subjects"].as_array().unwrap().len(), 1);
    assert_eq!(
        binding["subjects"][0]["name"],
        of_kind("ServiceAccount")["metadata"]["name"]
    );
}

#[test]
fn a_rollout_and_a_drained_node_leave_one_that_answers() {
    let csv = of_kind("ClusterServiceVersion");
    let spec = &csv["spec"]["install"]["spec"]["deployments"][0]["spec"];
    assert_eq!(spec["replicas"], 2);
    assert_eq!(
        spec["strategy"]["rollingUpdate"],
        json!({"maxUnavailable": 0, "maxSurge": 1})
    );
    let container = &spec["template"]["spec"]["containers"][0];
    assert_eq!(container["readinessProbe"]["httpGet"]["path"], "/readyz");
    let budget = of_kind("PodDisruptionBudget");
    assert_eq!(budget["spec"]["maxUnavailable"], 1);
    assert_eq!(
        budget["spec"]["selector"]["matchLabels"],
        spec["template"]["metadata"]["labels"]
    );
}
