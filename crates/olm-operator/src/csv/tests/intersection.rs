//! APIs of groups that have a namespace in common.

use serde_json::json;

use super::{
    gates::{CANNOT_MODIFY, provider, provider_of},
    installed, prepared, rests, succeeded,
};
use crate::test_env::{TestEnv, crd, csv, group, namespace_object};

const CONFLICT: &str =
    "Failed InterOperatorGroupOwnerConflict: intersecting operatorgroups provide the same apis";

/// Returns the message, followed by its details.
fn by(message: &str, api: &str, group: &str) -> String {
    format!("{message}: {api} is provided by OperatorGroup {group}")
}

fn listed(env: &TestEnv, namespace: &str, name: &str) -> String {
    let group = env.get("OperatorGroup", namespace, name).unwrap();
    let list = &group["metadata"]["annotations"]["olm.providedAPIs"];
    list.as_str().unwrap_or("-").to_owned()
}

#[test]
fn ogx_003_mt_004_a_running_operator_is_reconciled_for_every_new_group() {
    let mut env = installed();
    provider_of(&mut env, "far-one", &["far-one"], "Demo.v1.example.com");
    provider_of(&mut env, "far-two", &["ns"], "Other.v1.example.com");
    env.settle_for(5);
    succeeded(&env, "a");
    assert_eq!(listed(&env, "ns", "og"), "Demo.v1.example.com");
    provider_of(&mut env, "far-three", &["ns"], "Demo.v1.example.com");
    env.settle_for(5);
    assert!(env.status("a").starts_with(CONFLICT), "{}", env.status("a"));
}

#[test]
fn ogx_004_who_provides_only_what_its_group_lists_goes_on_and_the_list_stays() {
    for is_static in [true, false] {
        let mut env = prepared();
        let lists = json!({"spec": {"staticProvidedAPIs": is_static},
            "metadata": {"annotations": {"olm.providedAPIs": "Demo.v1.example.com"}}});
        env.edit("OperatorGroup", "ns", "og", lists);
        env.put(csv("a", ""));
        env.settle_for(5);
        succeeded(&env, "a");
        assert_eq!(listed(&env, "ns", "og"), "Demo.v1.example.com");
        let of_list = |write: &&String| write.contains("OperatorGroup") && write.contains("olm.providedAPIs");
        assert_eq!(env.writes.iter().find(of_list), None);
    }
}

#[test]
fn ogx_008_a_static_list_stays_when_another_group_provides_what_it_lists() {
    let mut env = prepared();
    let lists = json!({"spec": {"staticProvidedAPIs": true},
        "metadata": {"annotations": {"olm.providedAPIs": "Demo.v1.example.com"}}});
    env.edit("OperatorGroup", "ns", "og", lists);
    env.put(csv("a", ""));
    env.settle_for(5);
    succeeded(&env, "a");
    provider(&mut env, &["ns"]);
    env.settle_for(5);
    assert_eq!(
        env.status("a"),
        by(CANNOT_MODIFY, "Demo.v1.example.com", "far/incumbent")
    );
    assert!(env.names("Deployment").is_empty());
    assert_eq!(listed(&env, "ns", "og"), "Demo.v1.example.com");
}

#[test]
fn ogx_012_a_conflict_ends_when_the_other_group_shrinks() {
    let mut env = prepared();
    provider(&mut env, &["far", "ns"]);
    rests(
        &mut env,
        csv("a", ""),
        &by(CONFLICT, "Demo.v1.example.com", "far/incumbent"),
    );
    env.edit(
        "OperatorGroup",
        "far",
        "incumbent",
        json!({"spec": {"targetNamespaces": ["far"]}}),
    );
    env.settle_for(5);
    succeeded(&env, "a");
}

#[test]
fn ogx_012_a_conflict_ends_when_the_other_operator_is_deleted() {
    let mut incumbent = csv("incumbent", "");
    incumbent["metadata"]["namespace"] = json!("far");
    let mut env = prepared()
        .with(namespace_object("far"))
        .with(group("far", "og", &["far", "ns"]))
        .with(incumbent);
    env.settle_for(5);
    assert_eq!(listed(&env, "far", "og"), "Demo.v1.example.com");
    rests(
        &mut env,
        csv("a", ""),
        &by(CONFLICT, "Demo.v1.example.com", "far/og"),
    );
    env.delete("ClusterServiceVersion", "far", "incumbent");
    env.settle_for(5);
    assert_eq!(listed(&env, "far", "og"), "");
    succeeded(&env, "a");
}

#[test]
fn og_030_a_static_group_protects_what_it_lists_in_the_namespaces_it_selects() {
    const LIST: &str = "Alertmanager.v1.monitoring.coreos.com,Prometheus.v1.monitoring.coreos.com,\
        PrometheusRule.v1.monitoring.coreos.com,ServiceMonitor.v1.monitoring.coreos.com";
    const LABEL: &str = "something.cool.io/cluster-monitoring";
    let mut protecting = group("cluster-monitoring", "cluster-monitoring", &[]);
    protecting["metadata"]["annotations"] = json!({"olm.providedAPIs": LIST});
    protecting["spec"] = json!({"staticProvidedAPIs": true, "selector": {"matchLabels": {LABEL: "true"}}});
    let label = |value: serde_json::Value| json!({"metadata": {"labels": {LABEL: value}}});
    let mut env = TestEnv::new()
        .with(namespace_object("cluster-monitoring"))
        .with(protecting)
        .with(group("ns", "og", &["ns"]))
        .with(crd("prometheuses.monitoring.coreos.com"));
    env.edit("Namespace", "", "ns", label(json!("true")));
    let mut prometheus = csv("a", "");
    prometheus["spec"]["customresourcedefinitions"] = json!({"owned": [
        {"name": "prometheuses.monitoring.coreos.com", "version": "v1", "kind": "Prometheus"}]});
    let group = "cluster-monitoring/cluster-monitoring";
    rests(
        &mut env,
        prometheus,
        &by(CONFLICT, "Prometheus.v1.monitoring.coreos.com", group),
    );
    let protected = |env: &TestEnv| listed(env, "cluster-monitoring", "cluster-monitoring");
    assert_eq!(protected(&env), LIST);
    env.edit("Namespace", "", "ns", label(json!(null)));
    env.settle_for(5);
    succeeded(&env, "a");
    assert_eq!(protected(&env), LIST);
    assert_eq!(listed(&env, "ns", "og"), "Prometheus.v1.monitoring.coreos.com");
}
