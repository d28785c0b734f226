use std::sync::Arc;

use olm_api::v1alpha1::ClusterServiceVersion;
use serde_json::json;

use super::{abnormal, succeeded};
use crate::test_env::{TestEnv, crd, csv, csv_with_webhooks, decode, group, namespace_object};

/// A namespace with an OperatorGroup in which the demo `a` is installed.
fn installed() -> TestEnv {
    let mut env = TestEnv::new()
        .with(group("ns", "og", &["ns"]))
        .with(crd("demos.example.com"))
        .with(csv("a", ""));
    env.settle_for(5);
    env
}

#[test]
fn csv_009_met_004_met_007_every_phase_but_succeeded_is_abnormal() {
    for (phase, expected) in [
        ("", None),
        ("Pending", Some("Pending")),
        ("InstallReady", Some("InstallReady")),
        ("Installing", Some("Installing")),
        ("Succeeded", None),
        ("Failed", Some("Failed")),
        ("Unknown", Some("Unknown")),
        ("Replacing", Some("Replacing")),
        ("Deleting", Some("Deleting")),
    ] {
        let mut csv = csv("a", "");
        csv["status"] = json!({"phase": phase});
        let csv = Arc::new(decode(csv));
        let told = abnormal(&csv).map(|([_, _, _, told, _], value)| (told, value));
        assert_eq!(told, expected.map(|phase| (phase.to_owned(), 1)), "{phase}");
        let told = succeeded(&csv).map(|(_, value)| value);
        let value = (!phase.is_empty()).then(|| i64::from(phase == "Succeeded"));
        assert_eq!(told, value, "{phase}");
    }
}

#[test]
fn met_004_met_006_met_007_installed_versions_are_distinguished_from_others() {
    let mut env = installed();
    let mut needy = csv("needy", "");
    needy["spec"]["version"] = json!("1.2.3");
    needy["spec"]["customresourcedefinitions"] =
        json!({"required": [{"name": "others.example.com", "version": "v1", "kind": "Other"}]});
    env.put(needy);
    // Its copy in the other namespace is not counted.
    env.put(namespace_object("all"));
    env.put(group("all", "og", &[]));
    let mut global = csv("global", "");
    global["metadata"]["namespace"] = json!("all");
    global["spec"]["customresourcedefinitions"] = json!({});
    env.put(global);
    env.settle_for(30);
    assert!(
        env.get("ClusterServiceVersion", "ns", "global").is_some(),
        "a copy"
    );
    insta::assert_snapshot!(env.metrics("csv_").join("\n"), @r#"
    csv_abnormal{name="needy",namespace="ns",phase="Pending",reason="RequirementsNotMet",version="1.2.3"} 1
    csv_count 3
    csv_succeeded{name="a",namespace="ns",version="0.0.0"} 1
    csv_succeeded{name="global",namespace="all",version="0.0.0"} 1
    csv_succeeded{name="needy",namespace="ns",version="1.2.3"} 0
    csv_upgrade_count 0
    "#);
    insta::assert_snapshot!(env.metrics("# TYPE csv_").join("\n"), @r"
    # TYPE csv_abnormal gauge
    # TYPE csv_count gauge
    # TYPE csv_succeeded gauge
    # TYPE csv_upgrade_count counter
    ");
}

/// The API server accepts any text in `spec.version`.
#[test]
fn met_004_met_007_a_version_is_reported_if_it_is_valid_and_short() {
    for (version, told) in [
        ("1.2.3-rc.1+build", "1.2.3-rc.1+build"),
        ("", "0.0.0"),
        ("the newest", "0.0.0"),
        (
            &format!("1.2.3-{}", "x".repeat(57)),
            &format!("1.2.3-{}", "x".repeat(57)),
        ),
        (&format!("1.2.3-{}", "x".repeat(58)), "0.0.0"),
    ] {
        let mut csv = csv("a", "");
        csv["spec"]["version"] = json!(version);
        csv["status"] = json!({"phase": "Pending"});
        let csv = Arc::new(decode(csv));
        let ([_, _, found, ..], _) = abnormal(&csv).unwrap();
        assert_eq!(found, told, "{version}");
        let ([_, _, found], _) = succeeded(&csv).unwrap();
        assert_eq!(found, told, "{version}");
    }
}

#[test]
fn a_version_of_a_megabyte_makes_no_page_of_a_megabyte() {
    let mut long = csv("a", "");
    long["spec"]["version"] = json!("1".repeat(1 << 20));
    let mut env = TestEnv::new().with(group("ns", "og", &["ns"])).with(long);
    env.settle_for(5);
    let told = env.metrics("csv_");
    assert!(told.len() >= 4, "{told:?}");
    let bytes: usize = told.iter().map(String::len).sum();
    assert!(bytes < 10_000, "{bytes}");
}

#[test]
fn days_until_certificates_end_are_reported() {
    let mut env = TestEnv::new()
        .with(group("ns", "og", &["ns"]))
        .with(crd("demos.example.com"))
        .with(csv_with_webhooks("a", ""));
    env.settle_for(5);
    let told = env.metrics("olm_csv_certificate_days_left");
    assert_eq!(told.len(), 1, "{told:?}");
    let series = r#"olm_csv_certificate_days_left{name="a",namespace="ns"} "#;
    assert!(told[0].starts_with(series), "{told:?}");
    let csv: ClusterServiceVersion = decode(env.get("ClusterServiceVersion", "ns", "a").unwrap().clone());
    let rotated = csv.status.as_ref().unwrap().certs_rotate_at.clone().unwrap().0;
    let csv = Arc::new(csv);
    let left = |hours: i64| {
        let at = rotated + std::time::Duration::from_secs(hours.unsigned_abs() * 3600);
        super::certificate_days_left(&csv, at).unwrap().1
    };
    assert_eq!([left(0), left(23), left(24), left(49)], [1, 0, 0, -2]);
}

#[test]
fn met_004_met_006_met_007_series_go_with_their_object() {
    let mut env = installed();
    env.delete("ClusterServiceVersion", "ns", "a");
    env.settle_for(5);
    assert_eq!(env.metrics("csv_"), ["csv_count 0", "csv_upgrade_count 0"]);
}

/// The old one, applied again beside its successor, is replaced and being deleted in one reconcile.
#[test]
fn met_008_an_upgrade_of_one_round_counts() {
    let mut env = installed();
    env.put(csv("b", "a"));
    env.settle_for(20);
    let mut old = csv("a", "");
    old["status"] = serde_json::json!({"phase": "Succeeded", "reason": "InstallSucceeded"});
    env.put(old);
    env.settle_for(20);
    assert_eq!(env.status("a"), "gone");
    assert_eq!(env.metrics("csv_upgrade_count"), ["csv_upgrade_count 2"]);
}

#[test]
fn met_008_an_upgrade_counts_once() {
    let mut env = installed();
    env.put(csv("b", "a"));
    env.settle_for(6);
    assert_eq!(env.metrics("csv_upgrade_count"), ["csv_upgrade_count 1"]);
    env.settle_for(60);
    assert_eq!(env.metrics("csv_upgrade_count"), ["csv_upgrade_count 1"]);
    assert_eq!(
        env.metrics("# TYPE csv_upgrade_count"),
        ["# TYPE csv_upgrade_count counter"]
    );
}

/// The previous process has counted it.
#[test]
fn met_008_an_upgrade_that_was_on_its_way_at_the_start_does_not_count() {
    let mut old = csv("a", "");
    old["status"] = json!({"phase": "Replacing", "reason": "BeingReplaced"});
    let mut env = TestEnv::new()
        .with(group("ns", "og", &["ns"]))
        .with(crd("demos.example.com"))
        .with(old)
        .with(csv("b", "a"));
    env.settle_for(20);
    assert_eq!(env.status("a"), "gone");
    assert_eq!(env.metrics("csv_upgrade_count"), ["csv_upgrade_count 0"]);
}
