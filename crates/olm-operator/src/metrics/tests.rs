use serde_json::json;

use crate::test_env::{TestEnv, crd, csv, group};

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
fn met_004_006_007_what_is_installed_and_what_is_not_is_told_apart() {
    let mut env = installed();
    let mut needy = csv("needy", "");
    needy["spec"]["version"] = json!("1.2.3");
    needy["spec"]["customresourcedefinitions"] =
        json!({"required": [{"name": "others.example.com", "version": "v1", "kind": "Other"}]});
    env.put(needy);
    env.settle_for(5);
    insta::assert_snapshot!(env.metrics("csv_").join("\n"), @r#"
    csv_abnormal{name="needy",namespace="ns",phase="Pending",reason="RequirementsNotMet",version="1.2.3"} 1
    csv_count 2
    csv_succeeded{name="a",namespace="ns",version="0.0.0"} 1
    csv_succeeded{name="needy",namespace="ns",version="1.2.3"} 0
    csv_upgrade_count 0
    "#);
}

#[test]
fn series_go_with_their_object() {
    let mut env = installed();
    env.delete("ClusterServiceVersion", "ns", "a");
    env.settle_for(5);
    assert_eq!(env.metrics("csv_"), ["csv_count 0", "csv_upgrade_count 0"]);
}

#[test]
fn met_008_an_upgrade_counts_once() {
    let mut env = installed();
    env.put(csv("b", "a"));
    env.settle_for(6);
    assert_eq!(env.metrics("csv_upgrade_count"), ["csv_upgrade_count 1"]);
    env.settle_for(60);
    assert_eq!(env.metrics("csv_upgrade_count"), ["csv_upgrade_count 1"]);
}
