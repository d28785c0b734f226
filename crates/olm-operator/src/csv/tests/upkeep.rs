//! An operator that runs while its successor cannot come is looked after, and from outside it only waits.

use serde_json::{Value, json};

use super::{installed, prepared, succeeded};
use crate::test_env::{
    TestEnv, crd, csv, csv_with_webhooks, deployment, group, namespace_object, subscription,
};

const WAITS: &str = "Replacing BeingReplaced: being replaced by csv: b";

/// `b` names `a` and can never install.
fn held(csv: fn(&str, &str) -> Value) -> TestEnv {
    let mut env = prepared().with(csv("a", ""));
    env.settle_for(5);
    succeeded(&env, "a");
    let mut newer = csv("b", "a");
    newer["spec"]["minKubeVersion"] = json!("99.0.0");
    env.put(newer);
    env.settle_for(5);
    assert_eq!(env.status("a"), WAITS);
    env.log.clear();
    env
}

/// It waits still, at rest, and makes way as soon as the successor can come.
#[track_caller]
fn waits_and_makes_way(env: &mut TestEnv) {
    assert_eq!(env.status("a"), WAITS);
    assert_eq!(env.log, [""; 0], "nobody sees another phase");
    env.settle_for(60);
    let writes = env.writes.len();
    env.settle_for(60);
    assert_eq!(env.writes.len(), writes, "at rest");
    let met = json!({"spec": {"minKubeVersion": null}});
    env.edit("ClusterServiceVersion", "ns", "b", met);
    env.settle_for(20);
    succeeded(env, "b");
    assert_eq!(env.status("a"), "gone");
}

fn image(env: &TestEnv) -> Value {
    let found = env.get("Deployment", "ns", "demo").expect("it runs");
    found["spec"]["template"]["spec"]["containers"][0]["image"].clone()
}

#[test]
fn it_is_repaired() {
    let mut env = held(csv);
    env.delete("Deployment", "ns", "demo");
    env.settle_for(5);
    assert_eq!(image(&env), "demo:1");
    let containers = json!([{"name": "c", "image": "other:1"}]);
    let edit = json!({"spec": {"template": {"spec": {"containers": containers}}}});
    env.edit("Deployment", "ns", "demo", edit);
    env.settle_for(5);
    assert_eq!(image(&env), "demo:1");
    waits_and_makes_way(&mut env);
}

/// Its Subscription names the successor by then.
#[test]
fn it_is_configured() {
    let config = |value: &str| json!({"env": [{"name": "X", "value": value}]});
    let variable = |env: &TestEnv| {
        let found = env.get("Deployment", "ns", "demo").unwrap();
        let all = found["spec"]["template"]["spec"]["containers"][0]["env"].clone();
        let mut all = all.as_array().cloned().unwrap_or_default().into_iter();
        all.find(|one| one["name"] == "X").map(|one| one["value"].clone())
    };
    let mut env = installed().with(subscription("a", config("1")));
    env.settle_for(20);
    assert_eq!(variable(&env), Some(json!("1")));
    let mut newer = csv("b", "a");
    newer["spec"]["minKubeVersion"] = json!("99.0.0");
    env.put(newer);
    let named = json!({"status": {"currentCSV": "b", "installedCSV": "b"}});
    env.edit("Subscription", "ns", "sub", named);
    env.settle_for(5);
    assert_eq!(
        (env.status("a").as_str(), variable(&env)),
        (WAITS, Some(json!("1")))
    );
    env.log.clear();
    env.edit(
        "Subscription",
        "ns",
        "sub",
        json!({"spec": {"config": config("2")}}),
    );
    env.settle_for(5);
    assert_eq!(variable(&env), Some(json!("2")));
    waits_and_makes_way(&mut env);
}

#[test]
fn it_gets_its_rights_in_new_target_namespaces() {
    let mut env = held(csv).with(namespace_object("one"));
    env.put(group("ns", "og", &["ns", "one"]));
    env.settle_for(10);
    let roles = env.names("Role");
    assert!(roles.iter().any(|name| name.starts_with("one/")), "{roles:?}");
    let found = env.get("Deployment", "ns", "demo").unwrap();
    let annotations = &found["spec"]["template"]["metadata"]["annotations"];
    assert_eq!(annotations["olm.targetNamespaces"], "ns,one");
    waits_and_makes_way(&mut env);
}

#[test]
fn it_gets_certificates() {
    let mut env = held(csv_with_webhooks);
    let ca = |env: &TestEnv| {
        env.get("Secret", "ns", "demo-service-cert")
            .map(|found| found["data"]["olmCAKey"].clone())
    };
    let before = ca(&env);
    env.delete("Secret", "ns", "demo-service-cert");
    env.settle_for(20);
    let now = ca(&env);
    assert!(now.is_some() && now != before);
    let name = env.names("ValidatingWebhookConfiguration")[0]
        .trim_start_matches('/')
        .to_owned();
    let webhook = env.get("ValidatingWebhookConfiguration", "", &name).unwrap();
    assert_eq!(
        Some(&webhook["webhooks"][0]["clientConfig"]["caBundle"]),
        now.as_ref()
    );
    waits_and_makes_way(&mut env);
}

#[test]
fn without_a_group_nothing_is_written_for_it() {
    let mut env = held(csv);
    env.delete("OperatorGroup", "ns", "og");
    env.delete("Deployment", "ns", "demo");
    env.settle_for(60);
    assert_eq!(env.names("Deployment"), [""; 0]);
    assert_eq!(env.status("a"), WAITS);
}

/// What has the same name is the successor's from when it begins, and what has another stays.
#[test]
fn a_successor_that_began_and_failed_is_not_fought() {
    for name in ["demo", "other"] {
        let mut env = installed();
        let unavailable = json!([{"type": "Available", "status": "False", "message": "none runs"}]);
        if name == "demo" {
            env.sick.insert("demo".to_owned(), unavailable.clone());
        }
        env.sick.insert("other".to_owned(), unavailable);
        let mut newer = csv("b", "a");
        newer["spec"]["install"]["spec"]["deployments"] = json!([deployment(name, "demo:2")]);
        env.put(newer);
        env.settle_for(400);
        assert!(
            env.status("b").starts_with("Failed InstallCheckFailed"),
            "{}",
            env.status("b")
        );
        assert_eq!(env.status("a"), WAITS, "{name}");
        let writes = env.writes.len();
        env.settle_for(120);
        assert_eq!(env.writes.len(), writes, "{name}: at rest");
        assert_eq!(image(&env), if name == "demo" { "demo:2" } else { "demo:1" });
        if name == "other" {
            env.delete("Deployment", "ns", "demo");
            env.settle_for(5);
            assert_eq!(image(&env), "demo:1");
        }
        env.sick.clear();
        env.edit("Deployment", "ns", name, json!({"status": null}));
        env.settle_for(20);
        succeeded(&env, "b");
        assert_eq!(env.status("a"), "gone");
    }
}

/// The upgrade is what brings the requirement that it lacks.
#[test]
fn one_that_runs_and_lacks_a_requirement_makes_way() {
    let mut env = installed();
    env.delete("CustomResourceDefinition", "", "demos.example.com");
    env.settle_for(5);
    assert!(
        env.status("a").starts_with("Pending RequirementsNotMet"),
        "{}",
        env.status("a")
    );
    let mut newer = csv("b", "a");
    newer["spec"]["customresourcedefinitions"]["owned"][0]["name"] = json!("others.example.com");
    newer["spec"]["customresourcedefinitions"]["owned"][0]["kind"] = json!("Other");
    env.put(crd("others.example.com"));
    env.put(newer);
    env.settle_for(20);
    succeeded(&env, "b");
    assert_eq!(env.status("a"), "gone");
}

/// One that never ran waits for what it lacks, and its successor for it.
#[test]
fn one_that_never_ran_makes_no_way() {
    let mut env = TestEnv::new().with(group("ns", "og", &["ns"])).with(csv("a", ""));
    env.put(csv("b", "a"));
    env.settle_for(20);
    assert!(
        env.status("a").starts_with("Pending RequirementsNotMet"),
        "{}",
        env.status("a")
    );
}
