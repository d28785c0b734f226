//! The cluster's Proxy in the containers of operators.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use olm_testing::cluster::{Fault, Kind, Refusal};
use serde_json::{Value, json};

use super::{prepared, succeeded};
use crate::test_env::{TestEnv, crd, csv, subscription};

/// A cluster with the kind and this status of the Proxy.
fn with_proxy(status: Value) -> TestEnv {
    let mut env = prepared();
    env.cluster.serve(Kind {
        group: "config.openshift.io".into(),
        versions: vec!["v1".into()],
        kind: "Proxy".into(),
        plural: "proxies".into(),
        namespaced: false,
        status: true,
        custom: true,
    });
    let mut definition = crd("proxies.config.openshift.io");
    definition["spec"]["scope"] = json!("Cluster");
    env.put(definition);
    env.put(json!({"apiVersion": "config.openshift.io/v1", "kind": "Proxy", "metadata": {"name": "cluster"}, "status": status}));
    env
}

fn variables(env: &TestEnv) -> Vec<String> {
    let deployment = env
        .get("Deployment", "ns", "demo")
        .expect("the Deployment exists");
    let pod = &deployment["spec"]["template"]["spec"];
    let all = pod["containers"][0]["env"].as_array().into_iter().flatten();
    let shown = all.map(|one| {
        format!(
            "{}={}",
            one["name"].as_str().unwrap(),
            one["value"].as_str().unwrap_or_default()
        )
    });
    shown.filter(|one| one.contains("PROXY")).collect()
}

#[test]
fn what_the_proxy_says_is_in_every_container_and_rolls_when_it_changes() {
    let mut env = with_proxy(json!({"httpProxy": "http://p:1", "httpsProxy": "", "noProxy": "a,b"}));
    env.put(csv("a", ""));
    env.settle_for(10);
    succeeded(&env, "a");
    assert_eq!(variables(&env), ["HTTP_PROXY=http://p:1", "NO_PROXY=a,b"]);
    let first = env
        .writes
        .iter()
        .filter(|write| write.starts_with("apply Deployment"))
        .count();
    assert_eq!(first, 1, "never without it: {:#?}", env.writes);
    env.edit(
        "Proxy",
        "",
        "cluster",
        json!({"status": {"httpProxy": "http://q:1", "noProxy": null}}),
    );
    env.settle_for(10);
    succeeded(&env, "a");
    assert_eq!(variables(&env), ["HTTP_PROXY=http://q:1"]);
    env.delete("CustomResourceDefinition", "", "proxies.config.openshift.io");
    env.settle_for(10);
    env.edit(
        "ClusterServiceVersion",
        "ns",
        "a",
        json!({"metadata": {"annotations": {"more": "x"}}}),
    );
    env.settle_for(10);
    assert_eq!(variables(&env), [""; 0]);
}

/// Any user who can install operators can create a definition of that name.
#[test]
fn a_definition_with_unreadable_objects_stops_no_other() {
    for scope in ["Cluster", "Namespaced"] {
        let mut env = prepared();
        let mut definition = crd("proxies.config.openshift.io");
        definition["spec"]["scope"] = json!(scope);
        // The cluster does not serve it.
        env.put(definition);
        env.put(csv("a", ""));
        env.settle_for(40);
        succeeded(&env, "a");
    }
}

/// An operator that starts may have to wait for the Proxy: Deployments with its variables are not restarted
/// because of that.
#[test]
fn deployments_keep_the_variables_they_have_until_the_proxy_was_read() {
    let mut env = with_proxy(json!({"httpProxy": "http://p:1"}));
    env.put(csv("a", ""));
    env.settle_for(10);
    succeeded(&env, "a");
    env.kill();
    let silent = Arc::new(AtomicBool::new(true));
    let is_silent = Arc::clone(&silent);
    env.cluster.on_request(move |request| {
        let concerned = request.kind.kind == "Proxy" && is_silent.load(Ordering::Relaxed);
        concerned.then(|| Fault::Refuse(Refusal::unavailable("too busy")))
    });
    env.writes.clear();
    env.settle_for(60);
    let rolls = |env: &TestEnv| {
        env.writes
            .iter()
            .filter(|write| write.contains(" Deployment "))
            .count()
    };
    assert_eq!(rolls(&env), 0, "{:#?}", env.writes);
    succeeded(&env, "a");
    silent.store(false, Ordering::Relaxed);
    env.settle_for(120);
    assert_eq!(rolls(&env), 0, "{:#?}", env.writes);
    assert_eq!(variables(&env), ["HTTP_PROXY=http://p:1"]);
    // A Proxy that cannot be read delays no operator for long.
    env.kill();
    silent.store(true, Ordering::Relaxed);
    env.settle_for(400);
    assert_eq!(variables(&env), [""; 0]);
    succeeded(&env, "a");
}

#[test]
fn setting_one_variable_sets_them_all() {
    for (name, expected) in [
        ("NO_PROXY", vec!["NO_PROXY=own"]),
        ("no_proxy", vec!["HTTP_PROXY=http://p:1"]),
    ] {
        let mut env = with_proxy(json!({"httpProxy": "http://p:1"}));
        env.put(subscription(
            "a",
            json!({"env": [{"name": name, "value": "own"}]}),
        ));
        env.put(csv("a", ""));
        env.settle_for(10);
        succeeded(&env, "a");
        assert_eq!(variables(&env), expected, "{name}");
    }
}
