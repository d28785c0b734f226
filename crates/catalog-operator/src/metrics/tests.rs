use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt;
use olm_api::labels;
use olm_api::v1alpha1::{CatalogSource, InstallPlan};
use olm_testing::cluster::Fault;
use serde_json::{Value, json};

use crate::test_env::{TestEnv, bundle};

fn catalog(name: &str) -> Value {
    json!({"apiVersion": "operators.coreos.com/v1alpha1", "kind": "CatalogSource", "metadata": {"namespace": "ns", "name": name},
        "spec": {"sourceType": "grpc", "image": "reg/cat:1"}})
}

fn subscription(name: &str, approval: &str) -> Value {
    let approval = Some(approval).filter(|approval| !approval.is_empty());
    json!({"apiVersion": "operators.coreos.com/v1alpha1", "kind": "Subscription", "metadata": {"namespace": "ns", "name": name},
        "spec": {"source": "cat", "sourceNamespace": "ns", "name": name, "channel": "stable",
            "installPlanApproval": approval}})
}

/// A catalog with the demo.
fn served() -> TestEnv {
    let mut env = TestEnv::new();
    env.outside.serve([bundle("demo.v1")]);
    env.put(catalog("cat"));
    env.settle();
    env
}

fn figure(env: &TestEnv, series: &str) -> f64 {
    let told = env.metrics(series);
    assert_eq!(told.len(), 1, "{series}: {told:?}");
    told[0].rsplit(' ').next().unwrap().parse().unwrap()
}

/// All metrics whose names begin with this prefix: dashboards and alerts query the name and its type.
#[track_caller]
fn assert_gauge(env: &TestEnv, name: &str, value: usize) {
    assert_eq!(env.metrics(name), [format!("{name} {value}")]);
    assert_type(env, name, "gauge");
}

#[track_caller]
fn assert_type(env: &TestEnv, name: &str, type_: &str) {
    let line = format!("# TYPE {name}");
    assert_eq!(env.metrics(&line), [format!("{line} {type_}")]);
}

#[test]
fn met_002_met_003_met_009_met_012_objects_and_ready_catalogs_are_counted() {
    let mut env = served();
    for name in ["demo", "missing"] {
        env.put(subscription(name, ""));
    }
    let mut nowhere = catalog("later");
    nowhere["spec"] = json!({"sourceType": "grpc"});
    env.put(nowhere);
    let mut elsewhere = catalog("global");
    elsewhere["metadata"]["namespace"] = json!("olm");
    env.put(elsewhere);
    env.settle_for(10);
    assert_gauge(&env, "catalog_source_count", 3);
    assert_gauge(&env, "subscription_count", 2);
    assert_gauge(&env, "install_plan_count", 1);
    assert_type(&env, "catalogsource_ready", "gauge");
    assert_eq!(
        env.metrics("catalogsource_ready"),
        [
            r#"catalogsource_ready{name="cat",namespace="ns"} 1"#,
            r#"catalogsource_ready{name="global",namespace="olm"} 1"#,
            r#"catalogsource_ready{name="later",namespace="ns"} 0"#
        ]
    );
    env.delete("CatalogSource", "later");
    env.settle();
    assert_eq!(env.metrics("catalogsource_ready").len(), 2);
    assert_gauge(&env, "catalog_source_count", 2);
    // It has a state, and that is another one.
    env.outside.set_unreachable(true);
    env.settle_for(30);
    let state = &env.get("CatalogSource", "cat").unwrap()["status"]["connectionState"]["lastObservedState"];
    assert_eq!(state, "TRANSIENT_FAILURE");
    assert_eq!(
        figure(&env, r#"catalogsource_ready{name="cat",namespace="ns"}"#),
        0.0
    );
    for (name, left) in [("missing", 1), ("demo", 0)] {
        env.delete("Subscription", name);
        env.settle_for(10);
        assert_gauge(&env, "subscription_count", left);
    }
    // It goes with its Subscription.
    assert_gauge(&env, "install_plan_count", 0);
}

/// The states of a gRPC connection, and none.
#[test]
fn met_003_a_catalog_in_any_other_state_is_not_ready() {
    for (state, expected) in [
        ("READY", 1),
        ("CONNECTING", 0),
        ("IDLE", 0),
        ("TRANSIENT_FAILURE", 0),
        ("SHUTDOWN", 0),
        ("", 0),
    ] {
        let mut object = catalog("cat");
        object["status"] = json!({"connectionState": {"lastObservedState": state}});
        let source: CatalogSource = serde_json::from_value(object).unwrap();
        let labels = ["ns", "cat"].map(str::to_owned);
        assert_eq!(super::ready(&Arc::new(source)), (labels, expected), "{state}");
    }
}

/// Each resource that the API server warned of, once, however many are written in a round and however many rounds follow.
#[test]
fn met_010_resources_that_were_applied_with_warnings_are_counted() {
    let mut env = served();
    let warnings = "installplan_warnings_total";
    assert_eq!(figure(&env, warnings), 0.0);
    assert_type(&env, warnings, "counter");
    env.cluster.on_request(|request| {
        let old = ["ClusterServiceVersion", "CustomResourceDefinition"];
        let is_old = request.verb.writes() && old.contains(&request.kind.kind.as_str());
        (is_old && request.subresource.is_empty()).then_some(Fault::Warn("it is old"))
    });
    env.put(subscription("demo", ""));
    env.settle_for(10);
    assert_eq!(figure(&env, warnings), 2.0);
    env.settle_for(600);
    assert_eq!(figure(&env, warnings), 2.0);
}

#[test]
fn reads_of_a_catalog_are_counted_until_it_goes() {
    let mut env = served();
    env.put(subscription("demo", ""));
    env.settle_for(10);
    let series = r#"catalog_source_snapshots_total{name="cat",namespace="ns"}"#;
    assert_eq!(figure(&env, series), 1.0);
    assert_eq!(env.metrics("olm_catalogsource_content_bytes{").len(), 1);
    env.delete("CatalogSource", "cat");
    env.settle_for(10);
    assert!(env.metrics("catalog_source_snapshots_total{").is_empty());
    assert!(env.metrics("olm_catalogsource_content_bytes{").is_empty());
}

#[test]
fn met_011_resolutions_are_timed_by_outcome() {
    let mut env = served();
    env.put(subscription("demo", ""));
    env.settle_for(10);
    let count = |outcome: &str| format!(r#"olm_resolution_duration_seconds_count{{outcome="{outcome}"}}"#);
    assert_type(&env, "olm_resolution_duration_seconds", "summary");
    let counts = |env: &TestEnv| ["failed", "succeeded"].map(|outcome| figure(env, &count(outcome)));
    // Before the catalog was read; for the plan, and when it was carried out.
    assert_eq!(counts(&env), [1.0, 2.0]);
    env.put(subscription("missing", ""));
    env.settle_for(10);
    assert_eq!(counts(&env), [2.0, 2.0]);
    let of = r#"olm_resolution_duration_seconds{outcome="failed",quantile="0.95"}"#;
    assert!(figure(&env, of) >= 0.0);
    // Seconds that went by, which the clock of a test does not. To read the clock twice takes a millionth, and a
    // resolution a thousandth.
    for outcome in ["failed", "succeeded"] {
        let seconds = figure(
            &env,
            &format!(r#"olm_resolution_duration_seconds_sum{{outcome="{outcome}"}}"#),
        );
        let each = seconds / figure(&env, &count(outcome));
        assert!(each > 1e-5 && each < 1.0, "{outcome}: {each}");
    }
    assert_eq!(
        env.metrics("olm_subscriptions_unresolved"),
        [r#"olm_subscriptions_unresolved{reason="ConstraintsNotSatisfiable"} 1"#]
    );
    let tried = figure(&env, &count("failed"));
    env.settle_for(600);
    assert_eq!(
        figure(&env, &count("failed")),
        tried,
        "nothing is resolved at rest"
    );
}

/// Nothing of such a namespace is resolved, for whichever Subscription.
#[test]
fn met_011_a_namespace_that_cannot_be_read_is_timed_as_failed() {
    let mut env = served();
    env.put(
        json!({"apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion",
        "metadata": {"namespace": "ns", "name": "other.v1", "annotations": {labels::PROPERTIES: "{"}},
        "spec": {"displayName": "Other", "install": {"strategy": "deployment", "spec": {"deployments": []}}}}),
    );
    env.put(subscription("demo", ""));
    env.settle_for(10);
    assert_eq!(
        env.metrics("olm_subscriptions_unresolved"),
        [r#"olm_subscriptions_unresolved{reason="ErrorPreventedResolution"} 1"#]
    );
    let count = |outcome: &str| {
        env.metrics(&format!(
            r#"olm_resolution_duration_seconds_count{{outcome="{outcome}"}}"#
        ))
    };
    assert_eq!(count("failed").len(), 1);
    assert_eq!(count("succeeded"), [""; 0]);
}

#[test]
fn met_013_syncs_are_counted_under_what_a_subscription_says_now() {
    let mut env = served();
    let mut wanted = subscription("demo", "Manual");
    wanted["metadata"]["name"] = json!("wanted");
    env.put(wanted);
    env.settle_for(10);
    assert_type(&env, "subscription_sync_total", "counter");
    let manual = r#"subscription_sync_total{approval="Manual",channel="stable",installed="",name="wanted",package="demo"}"#;
    let before = figure(&env, manual);
    assert!(before >= 1.0);
    for more in 1..=3 {
        let news = json!({"metadata": {"annotations": {"looked": more.to_string()}}});
        env.edit("Subscription", "wanted", &news);
        env.settle_for(10);
        assert_eq!(figure(&env, manual), before + f64::from(more));
    }
    env.edit(
        "Subscription",
        "wanted",
        &json!({"spec": {"installPlanApproval": "Automatic"}}),
    );
    env.settle_for(10);
    assert!(env.metrics(manual).is_empty(), "what it said before is dropped");
    assert_eq!(env.metrics("subscription_sync_total{").len(), 1);
    let plan = env.only("InstallPlan")["metadata"]["name"]
        .as_str()
        .unwrap()
        .to_owned();
    env.edit("InstallPlan", &plan, &json!({"spec": {"approved": true}}));
    env.rest();
    let installed = r#"subscription_sync_total{approval="Automatic",channel="stable",installed="demo.v1",name="wanted",package="demo"}"#;
    assert!(figure(&env, installed) >= 1.0);
    env.delete("Subscription", "wanted");
    env.settle_for(10);
    assert!(env.metrics("subscription_sync_total{").is_empty());
}

/// No label names the namespace, as upstream has it.
#[test]
fn met_013_subscriptions_that_look_alike_are_counted_in_one_series() {
    let mut env = served();
    env.put(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "two"}}));
    env.put(subscription("demo", "Manual"));
    env.settle_for(10);
    let series = r#"subscription_sync_total{approval="Manual",channel="stable",installed="",name="demo",package="demo"}"#;
    let alone = figure(&env, series);
    let mut second = subscription("demo", "Manual");
    second["metadata"]["namespace"] = json!("two");
    env.put(second);
    env.settle_for(10);
    let mut both = figure(&env, series);
    assert!(both > alone, "{alone} {both}");
    for namespace in ["ns", "two", "ns"] {
        let news = json!({"metadata": {"annotations": {"looked": both.to_string()}}});
        assert!(
            env.stage
                .as_user(|cluster| cluster.edit("Subscription", namespace, "demo", &news))
        );
        env.settle_for(10);
        both += 1.0;
        assert_eq!(figure(&env, series), both, "{namespace}");
    }
    assert_eq!(env.metrics("subscription_sync_total{").len(), 1);
    assert!(
        env.stage
            .as_user(|cluster| cluster.delete("Subscription", "two", "demo"))
    );
    env.settle_for(10);
    assert_eq!(figure(&env, series), alone + 2.0);
}

#[test]
fn plans_that_wait_for_approval_are_reported_with_how_long() {
    let mut env = served();
    env.put(subscription("demo", "Manual"));
    env.settle_for(10);
    let plan = env.only("InstallPlan");
    let name = plan["metadata"]["name"].as_str().unwrap().to_owned();
    assert_eq!(env.metrics("olm_installplan_waiting_seconds{").len(), 1);
    let plan: Arc<InstallPlan> = Arc::new(serde_json::from_value(plan).unwrap());
    let Time(made) = plan.creation_timestamp().unwrap();
    let (_, seconds) = super::waiting(&plan, made + std::time::Duration::from_secs(3600)).unwrap();
    assert_eq!(seconds, 3600);
    env.edit("InstallPlan", &name, &json!({"spec": {"approved": true}}));
    env.settle_for(10);
    assert!(env.metrics("olm_installplan_waiting_seconds{").is_empty());
}

/// Until the window opens. The cluster begins on a Thursday at midnight.
#[test]
fn plans_that_wait_by_policy_are_reported_too() {
    let mut env = served();
    let mut object = subscription("demo", "Manual");
    object["metadata"]["annotations"] = json!({labels::UPGRADE_WINDOW: "Thu 00:30 1h"});
    env.put(object);
    env.settle_for(10);
    assert_eq!(env.metrics("olm_installplan_waiting_seconds{").len(), 1);
    env.settle_for(1800);
    assert!(env.metrics("olm_installplan_waiting_seconds{").is_empty());
    assert_eq!(env.only("InstallPlan")["spec"]["approved"], true);
}

#[test]
fn unpacks_are_timed_and_their_failures_counted_by_reason() {
    let mut env = served();
    env.outside.break_image("reg/demo:v1");
    env.put(subscription("demo", ""));
    env.settle_for(10);
    assert!(!env.metrics("olm_bundle_unpack_failures_total{").is_empty());
    env.outside.mend_images();
    env.settle_for(600);
    let done = r#"olm_bundle_unpack_duration_seconds_count{outcome="succeeded"}"#;
    assert_eq!(figure(&env, done), 1.0);
}
