//! Reports to ClusterOperators, on the cluster in memory.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use olm_testing::cluster::{Fault, Kind, Refusal};
use serde_json::{Value, json};

use crate::test_env::{TestEnv, crd, csv, group, namespace_object};

const DEFINITION: &str = "clusteroperators.config.openshift.io";

fn serve(env: &mut TestEnv) {
    env.cluster.serve(Kind::cluster_operator());
    let mut definition = crd(DEFINITION);
    definition["spec"]["scope"] = json!("Cluster");
    env.put(definition);
}

/// A cluster with the kind, and operators in `ns`.
fn openshift() -> TestEnv {
    let mut env = TestEnv::new();
    serve(&mut env);
    env.put(namespace_object("olm"));
    env.put(group("ns", "og", &["ns"]));
    env.put(crd("demos.example.com"));
    env
}

/// An operator that supports versions up to this one.
fn limited(name: &str, replaces: &str, max: &str) -> Value {
    let mut csv = csv(name, replaces);
    let properties = json!({"properties": [{"type": "olm.maxOpenShiftVersion", "value": max}]});
    csv["metadata"]["annotations"]["operatorframework.io/properties"] = json!(properties.to_string());
    csv
}

/// `True reason: message` of a condition.
#[track_caller]
fn condition(env: &TestEnv, name: &str, type_: &str) -> String {
    let found = env
        .get("ClusterOperator", "", name)
        .expect("the ClusterOperator exists");
    let all = found["status"]["conditions"].as_array().into_iter().flatten();
    let mut all = all.filter(|condition| condition["type"] == type_);
    let condition = all.next().unwrap_or_else(|| panic!("{type_}: {found}"));
    assert_eq!(all.next(), None, "{found}");
    let text = |field: &str| condition[field].as_str().unwrap_or_default().to_owned();
    format!("{} {}: {}", text("status"), text("reason"), text("message"))
}

fn upgradeable(env: &TestEnv) -> String {
    condition(env, "olm", "Upgradeable")
}

fn blocked(lines: &[&str]) -> String {
    let header = "False IncompatibleOperatorsInstalled: ClusterServiceVersions blocking minor version upgrades to 4.19:";
    [&[header][..], lines].concat().join("\n")
}

#[test]
fn ocp_001_ocp_003_ocp_005_an_operator_prevents_the_version_after_its_last() {
    let mut env = openshift();
    env.put(csv("a", ""));
    env.settle_for(10);
    assert_eq!(upgradeable(&env), "True : ");
    assert_eq!(
        condition(&env, "olm", "Progressing"),
        format!("False : Deployed {}", env!("CARGO_PKG_VERSION"))
    );
    assert_eq!(condition(&env, "olm", "Available"), "True : ");
    assert_eq!(condition(&env, "olm", "Degraded"), "False : ");
    let versions = &env.get("ClusterOperator", "", "olm").unwrap()["status"]["versions"];
    assert_eq!(versions[0], json!({"name": "operator", "version": "4.18.0"}));
    assert_eq!(
        versions[1],
        json!({"name": "olm", "version": env!("CARGO_PKG_VERSION")})
    );
    let properties =
        json!({"properties": [{"type": "olm.maxOpenShiftVersion", "value": "4.18"}]}).to_string();
    let annotations = json!({"metadata": {"annotations": {"operatorframework.io/properties": properties}}});
    env.edit("ClusterServiceVersion", "ns", "a", annotations);
    env.settle_for(10);
    assert_eq!(
        upgradeable(&env),
        blocked(&["- maximum supported OCP version for ns/a is 4.18"])
    );
}

#[test]
fn ocp_006_an_upgrade_or_removal_of_the_operator_lifts_the_block() {
    let mut env = openshift();
    env.put(limited("a", "", "4.18"));
    env.settle_for(30);
    assert!(upgradeable(&env).starts_with("False"));
    env.put(limited("b", "a", "4.19"));
    env.settle_for(60);
    assert_eq!(env.names("ClusterServiceVersion"), ["ns/b"]);
    assert_eq!(upgradeable(&env), "True : ");
    env.put(limited("other", "", "4.17"));
    env.settle_for(10);
    assert!(upgradeable(&env).starts_with("False"));
    env.delete("ClusterServiceVersion", "ns", "other");
    env.settle_for(30);
    assert_eq!(upgradeable(&env), "True : ");
}

/// The next process has nothing to do, and reports so.
#[test]
fn ocp_006_the_removal_of_the_last_operator_lifts_the_block_also_while_nobody_looks() {
    let mut env = openshift();
    env.put(limited("a", "", "4.18"));
    env.settle_for(30);
    assert!(upgradeable(&env).starts_with("False"));
    env.kill();
    env.edit(
        "ClusterServiceVersion",
        "ns",
        "a",
        json!({"metadata": {"finalizers": null}}),
    );
    env.delete("ClusterServiceVersion", "ns", "a");
    env.settle_for(60);
    assert_eq!(upgradeable(&env), "True : ");
}

#[test]
fn ocp_007_one_operator_of_many_prevents_and_copies_do_not_count() {
    let mut env = openshift();
    env.put(namespace_object("all"));
    env.put(group("all", "og", &[]));
    env.put(limited("fine", "", "4.19"));
    let mut older = limited("older", "", "4.17");
    older["spec"]["customresourcedefinitions"] = json!({});
    env.put(older);
    let mut global = limited("old", "", "4.18");
    global["metadata"]["namespace"] = json!("all");
    global["spec"]["customresourcedefinitions"] = json!({});
    env.put(global);
    env.settle_for(30);
    assert!(env.get("ClusterServiceVersion", "ns", "old").is_some(), "a copy");
    assert_eq!(
        upgradeable(&env),
        blocked(&[
            "- maximum supported OCP version for all/old is 4.18",
            "- maximum supported OCP version for ns/older is 4.17"
        ])
    );
    // Each alone is sufficient.
    env.delete("ClusterServiceVersion", "all", "old");
    env.settle_for(30);
    assert_eq!(
        upgradeable(&env),
        blocked(&["- maximum supported OCP version for ns/older is 4.17"])
    );
}

#[test]
fn oc_007_an_operator_that_says_it_is_not_upgradeable_does_not_keep_the_cluster() {
    let mut env = openshift();
    env.put(csv("a", ""));
    env.settle_for(10);
    let said = json!([{"type": "Upgradeable", "status": "False", "reason": "Busy", "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z"}]);
    env.edit(
        "OperatorCondition",
        "ns",
        "a",
        json!({"spec": {"conditions": said}}),
    );
    env.settle_for(10);
    let found = env.get("OperatorCondition", "ns", "a").unwrap();
    assert_eq!(found["status"]["conditions"][0]["status"], "False", "{found}");
    assert_eq!(upgradeable(&env), "True : ");
    // The block is not reported in a recreated ClusterOperator either.
    env.delete("ClusterOperator", "", "olm");
    env.kill();
    env.settle_for(60);
    assert_eq!(upgradeable(&env), "True : ");
}

/// Without the kind there are no requests; the kind may be created later, and deleted.
#[test]
fn elsewhere_nothing_is_reported_until_the_kind_comes() {
    let mut env = TestEnv::new();
    let asked = Arc::new(AtomicBool::new(false));
    let seen = Arc::clone(&asked);
    env.cluster.on_request(move |request| {
        seen.fetch_or(request.kind.kind == "ClusterOperator", Ordering::Relaxed);
        None
    });
    env.settle_for(100);
    assert!(!asked.load(Ordering::Relaxed));
    serve(&mut env);
    env.settle_for(10);
    assert_eq!(upgradeable(&env), "True : ");
    assert_eq!(env.names("ClusterOperator"), ["/olm", "/olm-packages"]);
    env.delete("CustomResourceDefinition", "", DEFINITION);
    env.settle_for(100);
    asked.store(false, Ordering::Relaxed);
    env.put(limited("a", "", "4.18"));
    env.settle_for(10);
    assert!(!asked.load(Ordering::Relaxed));
}

#[test]
fn a_deleted_report_comes_again_and_at_rest_nothing_is_written() {
    let mut env = openshift();
    env.put(limited("a", "", "4.18"));
    env.settle_for(60);
    env.writes.clear();
    env.settle_for(600);
    env.kill();
    env.settle_for(600);
    assert_eq!(env.writes, [""; 0]);
    env.delete("ClusterOperator", "", "olm");
    env.settle_for(10);
    assert!(upgradeable(&env).contains("ns/a"));
    let of_report = env
        .writes
        .iter()
        .filter(|write| write.contains("ClusterOperator"));
    assert_eq!(of_report.count(), 2, "{:#?}", env.writes);
}

/// A user who can write a ClusterServiceVersion can write it at any rate.
#[test]
fn a_limit_that_flaps_is_reported_once_a_second_at_most() {
    let mut env = openshift();
    env.put(limited("a", "", "4.18"));
    env.settle_for(60);
    env.writes.clear();
    for turn in 0..80 {
        // The value differs each time, so that each reconcile has something to write.
        let csv = limited("a", "", &format!("4.{}", 10 + turn % 7));
        let annotations = json!({"metadata": {"annotations": csv["metadata"]["annotations"]}});
        env.edit("ClusterServiceVersion", "ns", "a", annotations);
        env.advance_by(Duration::from_millis(125));
    }
    let of_report = env
        .writes
        .iter()
        .filter(|write| write.contains("ClusterOperator"))
        .count();
    assert!((1..=11).contains(&of_report), "{of_report} in 10 s");
}

#[test]
fn an_unresponsive_api_is_retried_and_delays_no_other() {
    let mut env = openshift();
    let silent = Arc::new(AtomicBool::new(true));
    let is_silent = Arc::clone(&silent);
    env.cluster.on_request(move |request| {
        let concerned = request.kind.kind == "ClusterOperator" && is_silent.load(Ordering::Relaxed);
        concerned.then(|| Fault::Refuse(Refusal::unavailable("too busy")))
    });
    env.put(csv("a", ""));
    env.settle_for(60);
    assert!(env.status("a").starts_with("Succeeded"), "{}", env.status("a"));
    assert_eq!(env.names("ClusterOperator"), [""; 0]);
    silent.store(false, Ordering::Relaxed);
    env.settle_for(200);
    assert_eq!(upgradeable(&env), "True : ");
}

/// The ClusterServiceVersion of package-server, in OLM's own namespace.
fn package_server(namespace: &str, name: &str, replaces: &str) -> Value {
    let mut csv = csv(name, replaces);
    csv["metadata"]["namespace"] = json!(namespace);
    csv["metadata"]["labels"] = json!({"olm.clusteroperator.name": "olm-packages"});
    csv["spec"]["version"] = json!("0.9.0");
    csv["spec"]["customresourcedefinitions"] = json!({});
    csv
}

#[test]
fn package_server_is_reported_on_from_its_csv() {
    let mut env = openshift();
    env.settle_for(10);
    let progressing = |env: &TestEnv| condition(env, "olm-packages", "Progressing");
    let waiting = "True : waiting for events - source=olm-packages";
    assert_eq!(progressing(&env), waiting);
    // Users who can write ClusterServiceVersions in other namespaces cannot report for the cluster.
    env.put(package_server("ns", "forged", ""));
    env.settle_for(30);
    assert_eq!(progressing(&env), waiting);
    env.put(group("olm", "og", &["olm"]));
    env.put(package_server("olm", "ps", ""));
    env.settle_for(30);
    assert_eq!(progressing(&env), "False : Deployed version 0.9.0");
    assert_eq!(
        condition(&env, "olm-packages", "Available"),
        "True ClusterServiceVersionSucceeded: ClusterServiceVersion olm/ps observed in phase Succeeded"
    );
    let related = &env.get("ClusterOperator", "", "olm").unwrap()["status"]["relatedObjects"];
    assert_eq!(related[0]["name"], "ps");
    env.writes.clear();
    env.settle_for(600);
    assert_eq!(env.writes, [""; 0]);
    env.kill();
    // While OLM is down.
    env.edit(
        "ClusterServiceVersion",
        "olm",
        "ps",
        json!({"metadata": {"finalizers": null}}),
    );
    env.delete("ClusterServiceVersion", "olm", "ps");
    env.settle_for(30);
    assert_eq!(progressing(&env), "False : Uninstalled version 0.9.0");
}
