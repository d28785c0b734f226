//! Conversion webhooks and the CustomResourceDefinitions they are for.

use k8s_openapi::ByteString;
use serde_json::{Value, json};

use super::{prepared_for, rests, succeeded};
use crate::test_env::{TestEnv, csv, webhook};

const CRD: &str = "demos.example.com";

/// The demo, converting its definition.
pub(super) fn converting(name: &str, replaces: &str) -> Value {
    let mut csv = csv(name, replaces);
    csv["spec"]["installModes"] =
        json!([{"type": "AllNamespaces", "supported": true}, {"type": "OwnNamespace", "supported": false}]);
    let mut webhook = webhook("c.example.com", "ConversionWebhook");
    webhook["conversionCRDs"] = json!([CRD]);
    webhook["rules"] = json!([]);
    csv["spec"]["webhookdefinitions"] = json!([webhook]);
    csv
}

fn conversion(env: &TestEnv) -> &Value {
    &env.get("CustomResourceDefinition", "", CRD)
        .expect("the definition exists")["spec"]["conversion"]
}

#[track_caller]
fn installed() -> TestEnv {
    let mut env = prepared_for(&[]).with(converting("a", ""));
    env.settle_for(5);
    succeeded(&env, "a");
    env
}

#[test]
fn a_definition_calls_its_operator_and_stops_when_that_goes() {
    let mut env = installed();
    let secret = env
        .get("Secret", "ns", "demo-service-cert")
        .expect("the Secret exists");
    assert_eq!(
        *conversion(&env),
        json!({"strategy": "Webhook", "webhook": {"conversionReviewVersions": ["v1"], "clientConfig": {
            "caBundle": secret["data"]["olmCAKey"],
            "service": {"namespace": "ns", "name": "demo-service", "path": "/call", "port": 443}}}})
    );
    assert!(env.names("ValidatingWebhookConfiguration").is_empty());
    env.delete("ClusterServiceVersion", "ns", "a");
    env.settle_for(10);
    assert_eq!(env.status("a"), "gone");
    assert_eq!(*conversion(&env), json!({"strategy": "None"}));
}

#[test]
fn a_successor_goes_on_converting() {
    let mut env = installed();
    let before = conversion(&env).clone();
    env.put(converting("b", "a"));
    env.settle_for(30);
    succeeded(&env, "b");
    assert_eq!(env.status("a"), "gone");
    assert_eq!(*conversion(&env), before);
}

#[test]
fn a_conversion_that_is_no_longer_described_ends() {
    let mut env = installed();
    env.edit(
        "ClusterServiceVersion",
        "ns",
        "a",
        json!({"spec": {"webhookdefinitions": null}}),
    );
    env.settle_for(10);
    succeeded(&env, "a");
    assert_eq!(*conversion(&env), json!({"strategy": "None"}));
}

#[test]
fn a_conversion_taken_over_by_another_user_stays_when_the_operator_is_deleted() {
    let mut env = installed();
    env.kill();
    env.delete("ClusterServiceVersion", "ns", "a");
    env.edit(
        "CustomResourceDefinition",
        "",
        CRD,
        json!({"spec": {"conversion": {"webhook": {"clientConfig": {"service": {"namespace": "other"}}}}}}),
    );
    env.settle_for(10);
    assert_eq!(env.status("a"), "gone");
    assert_eq!(
        conversion(&env)["webhook"]["clientConfig"]["service"]["namespace"],
        "other"
    );
}

#[test]
fn a_conversion_of_others_stays_theirs() {
    let mut env = installed();
    env.kill();
    env.edit(
        "ClusterServiceVersion",
        "ns",
        "a",
        json!({"spec": {"webhookdefinitions": null}}),
    );
    let bundle = serde_json::to_value(ByteString("x".into())).unwrap();
    env.edit(
        "CustomResourceDefinition",
        "",
        CRD,
        json!({"spec": {"conversion": {"webhook": {"clientConfig": {"caBundle": bundle}}}}}),
    );
    env.settle_for(10);
    succeeded(&env, "a");
    assert_eq!(conversion(&env)["webhook"]["clientConfig"]["caBundle"], bundle);
}

#[test]
fn siblings_that_go_together_end_their_conversions() {
    let mut env = installed();
    env.put(converting("b", "a"));
    env.settle();
    env.kill();
    for name in ["a", "b"] {
        if env.status(name) != "gone" {
            env.delete("ClusterServiceVersion", "ns", name);
        }
    }
    env.settle_for(10);
    assert_eq!((env.status("a"), env.status("b")), ("gone".into(), "gone".into()));
    assert_eq!(*conversion(&env), json!({"strategy": "None"}));
}

/// The API server refuses a URL beside the Service.
#[test]
fn a_conversion_that_was_led_to_a_url_comes_back() {
    let mut env = installed();
    let before = conversion(&env).clone();
    let elsewhere = json!({"url": "https://example.com/convert", "service": null});
    env.edit(
        "CustomResourceDefinition",
        "",
        CRD,
        json!({"spec": {"conversion": {"webhook": {"clientConfig": elsewhere}}}}),
    );
    env.settle_for(10);
    succeeded(&env, "a");
    assert_eq!(*conversion(&env), before);
}

#[test]
fn a_changed_conversion_comes_back() {
    let mut env = installed();
    let before = conversion(&env).clone();
    let bundle = serde_json::to_value(ByteString("x".into())).unwrap();
    for change in [
        json!({"strategy": "None", "webhook": null}),
        json!({"webhook": {"clientConfig": {"caBundle": bundle}}}),
    ] {
        env.edit(
            "CustomResourceDefinition",
            "",
            CRD,
            json!({"spec": {"conversion": change}}),
        );
        env.settle_for(10);
        succeeded(&env, "a");
        assert_eq!(*conversion(&env), before);
    }
}

#[test]
fn what_may_not_be_converted_is_reported() {
    type Change = fn(&mut Value);
    let cases: [(Change, &str); 3] = [
        (
            |spec| spec["installModes"][1]["supported"] = json!(true),
            "unable to manage conversion webhook: CSVs with conversion webhooks must support only AllNamespaces",
        ),
        (
            |spec| spec["webhookdefinitions"][0]["conversionCRDs"] = json!([]),
            "unable to manager conversion webhook: conversion webhook must have at least one CRD specified",
        ),
        (
            |spec| spec["webhookdefinitions"][0]["conversionCRDs"] = json!(["others.example.com"]),
            "csv a does not own CRD others.example.com",
        ),
    ];
    for (change, expected) in cases {
        let mut csv = converting("a", "");
        change(&mut csv["spec"]);
        let mut env = prepared_for(&[]);
        rests(
            &mut env,
            csv,
            &format!("Failed InstallComponentFailed: install strategy failed: {expected}"),
        );
        assert_eq!(*conversion(&env), Value::Null);
        assert!(env.names("Secret").is_empty());
    }
    let mut env = prepared_for(&[]);
    env.edit(
        "CustomResourceDefinition",
        "",
        CRD,
        json!({"spec": {"preserveUnknownFields": true}}),
    );
    rests(
        &mut env,
        converting("a", ""),
        "Failed InstallComponentFailed: install strategy failed: crd.Spec.PreserveUnknownFields must be false to let API Server call \
        webhook to do the conversion (demos.example.com)",
    );
    env.edit(
        "CustomResourceDefinition",
        "",
        CRD,
        json!({"spec": {"preserveUnknownFields": false}}),
    );
    env.settle_for(5);
    succeeded(&env, "a");
}
