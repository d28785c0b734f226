//! Deployments whose names yield the same Service name, because dots become dashes.

use serde_json::{Value, json};

use super::{prepared, rests, succeeded};
use crate::{
    csv::install::serving,
    test_env::{TestEnv, csv_key, csv_with_webhooks},
};

const SERVICE: &str = "de-mo-service";

/// An operator that serves webhooks from a Deployment of this name.
fn serving_from(name: &str, deployment: &str) -> Value {
    let mut csv = csv_with_webhooks(name, "");
    let spec = &mut csv["spec"];
    spec["customresourcedefinitions"] = json!({});
    let entry = &mut spec["install"]["spec"]["deployments"][0];
    entry["name"] = json!(deployment);
    entry["spec"]["selector"]["matchLabels"] = json!({"app": name});
    entry["spec"]["template"]["metadata"]["labels"] = json!({"app": name});
    for webhook in spec["webhookdefinitions"].as_array_mut().unwrap() {
        webhook["deploymentName"] = json!(deployment);
    }
    csv
}

/// Returns the owner whose pods the Service selects; the owner reference is the same.
#[track_caller]
fn served_by(env: &TestEnv) -> String {
    let service = env.get("Service", "ns", SERVICE).expect("the Service exists");
    let owners = service["metadata"]["ownerReferences"].as_array().unwrap();
    assert_eq!(owners.len(), 1, "{owners:?}");
    assert_eq!(owners[0]["name"], service["spec"]["selector"]["app"]);
    owners[0]["name"].as_str().unwrap().to_owned()
}

fn refused(deployment: &str, other: &str) -> String {
    format!(
        "Failed OwnerConflict: Service {SERVICE} of Deployment {deployment} belongs to ClusterServiceVersion {other}"
    )
}

#[test]
fn a_service_that_belongs_to_another_operator_is_left_to_it_until_that_goes() {
    let mut env = prepared().with(serving_from("a", "de.mo"));
    env.settle_for(5);
    succeeded(&env, "a");
    let secret = env.get("Secret", "ns", "de-mo-service-cert").unwrap().clone();
    env.writes.clear();
    rests(&mut env, serving_from("z", "de-mo"), &refused("de-mo", "a"));
    assert_eq!(served_by(&env), "a");
    let touched = env.writes.iter().filter(|write| write.contains(SERVICE));
    assert_eq!(touched.count(), 0, "{:#?}", env.writes);
    assert_eq!(env.get("Secret", "ns", "de-mo-service-cert"), Some(&secret));
    assert_eq!(env.get("Deployment", "ns", "de-mo"), None);
    env.settle_for(60);
    env.writes.clear();
    env.kill();
    env.settle_for(60);
    assert_eq!(env.writes, [""; 0], "nobody fights");
    succeeded(&env, "a");
    env.delete("ClusterServiceVersion", "ns", "a");
    env.settle_for(5);
    succeeded(&env, "z");
    assert_eq!(served_by(&env), "z");
}

#[test]
fn of_two_at_once_one_gets_the_service_and_the_other_reports_it() {
    let mut env = prepared()
        .with(serving_from("a", "de.mo"))
        .with(serving_from("z", "de-mo"));
    env.settle_for(60);
    let (told, untold) = match served_by(&env).as_str() {
        "a" => (env.status("z") == refused("de-mo", "a"), "a"),
        _ => (env.status("a") == refused("de.mo", "z"), "z"),
    };
    assert!(told, "{} and {}", env.status("a"), env.status("z"));
    succeeded(&env, untold);
    env.writes.clear();
    env.settle_for(60);
    assert_eq!(env.writes, [""; 0], "nobody fights");
}

#[test]
fn a_service_that_went_by_hand_is_not_taken_by_who_waits_for_it() {
    let mut env = prepared().with(serving_from("a", "de.mo"));
    env.settle_for(5);
    rests(&mut env, serving_from("z", "de-mo"), &refused("de-mo", "a"));
    env.kill();
    env.delete("Service", "ns", SERVICE);
    let observed = env.observe(&csv_key("z")).unwrap();
    assert_eq!(
        format!("Failed OwnerConflict: {}", serving::taken(&observed).unwrap()),
        refused("de-mo", "a")
    );
    env.settle_for(10);
    succeeded(&env, "a");
    assert_eq!(
        (served_by(&env), env.status("z")),
        ("a".into(), refused("de-mo", "a"))
    );
}

#[test]
fn a_successor_takes_the_service_over_under_the_other_name() {
    let mut env = prepared().with(serving_from("a", "de.mo"));
    env.settle_for(5);
    let mut next = serving_from("b", "de-mo");
    next["spec"]["replaces"] = json!("a");
    env.put(next);
    env.settle_for(30);
    succeeded(&env, "b");
    assert_eq!((env.status("a").as_str(), served_by(&env)), ("gone", "b".into()));
}

/// A waiting ClusterServiceVersion is triggered when a rival drops the Deployment, even if nothing else
/// changes.
#[test]
fn a_waiting_csv_is_woken_when_its_rival_changes_its_deployment() {
    let mut env = prepared().with(serving_from("a", "de.mo"));
    env.settle_for(5);
    rests(&mut env, serving_from("z", "de-mo"), &refused("de-mo", "a"));
    let spec = serving_from("a", "other")["spec"].clone();
    env.edit("ClusterServiceVersion", "ns", "a", json!({"spec": spec}));
    env.settle_for(20);
    succeeded(&env, "a");
    succeeded(&env, "z");
    assert_eq!(served_by(&env), "z");
}

#[test]
fn two_deployments_of_one_operator_do_not_share_a_service() {
    let mut env = prepared();
    let mut csv = serving_from("a", "de.mo");
    let second = serving_from("a", "de-mo")["spec"].clone();
    let entries = csv["spec"]["install"]["spec"]["deployments"]
        .as_array_mut()
        .unwrap();
    entries.push(second["install"]["spec"]["deployments"][0].clone());
    csv["spec"]["webhookdefinitions"][1] = second["webhookdefinitions"][1].clone();
    rests(
        &mut env,
        csv,
        &format!(
            "Failed InvalidWebhookDescription: webhook v.example.com and webhook m.example.com: the Services of their deployments would have the same name {SERVICE}"
        ),
    );
    assert_eq!(env.get("Service", "ns", SERVICE), None);
}
