//! Channels followed step by step.

use super::*;

/// One step of the channel at a time, each approved by hand.
#[test]
fn a_manual_subscription_walks_its_channel_plan_by_plan() {
    let mut env = TestEnv::with_catalog(demo());
    env.subscribe(
        "demo",
        &json!({"startingCSV": "demo.v1", "installPlanApproval": "Manual"}),
    );
    let mut states = Vec::new();
    for _ in 0..3 {
        env.settle();
        states.push(
            env.describe()
                .lines()
                .filter(|line| !line.starts_with("  Cat"))
                .collect::<Vec<_>>()
                .join("\n"),
        );
        let waiting = env
            .plans()
            .into_iter()
            .max_by_key(|plan| plan.spec.generation)
            .unwrap();
        env.set_phase(waiting.metadata.name.as_deref().unwrap(), "Installing");
        env.carry_out_plans();
    }
    env.settle();
    states.push(
        env.describe()
            .lines()
            .filter(|line| !line.starts_with("  Cat"))
            .collect::<Vec<_>>()
            .join("\n"),
    );
    insta::assert_snapshot!(states.join("\n---\n"), @r"
    demo-sub: state=UpgradePending installed=- current=demo.v1 gen=1
      InstallPlanPending=True/RequiresApproval
    plan gen=1 Manual approved=false demo.v1: RequiresApproval ClusterServiceVersion/demo.v1
    ---
    demo-sub: state=UpgradePending installed=demo.v1 current=demo.v2 gen=2
      InstallPlanPending=True/RequiresApproval
    plan gen=1 Manual approved=false demo.v1: Complete ClusterServiceVersion/demo.v1
    plan gen=2 Manual approved=false demo.v2: RequiresApproval ClusterServiceVersion/demo.v2
    ---
    demo-sub: state=UpgradePending installed=demo.v2 current=demo.v3 gen=3
      InstallPlanPending=True/RequiresApproval
    plan gen=1 Manual approved=false demo.v1: Complete ClusterServiceVersion/demo.v1
    plan gen=2 Manual approved=false demo.v2: Complete ClusterServiceVersion/demo.v2
    plan gen=3 Manual approved=false demo.v3: RequiresApproval ClusterServiceVersion/demo.v3
    ---
    demo-sub: state=AtLatestKnown installed=demo.v3 current=demo.v3 gen=3
    plan gen=1 Manual approved=false demo.v1: Complete ClusterServiceVersion/demo.v1
    plan gen=2 Manual approved=false demo.v2: Complete ClusterServiceVersion/demo.v2
    plan gen=3 Manual approved=false demo.v3: Complete ClusterServiceVersion/demo.v3
    ");
}

/// A new head is installed without touching the Subscription.
#[test]
fn a_new_head_upgrades() {
    let mut env = TestEnv::with_catalog(vec![bundle("demo.v1")]);
    env.subscribe("demo", &json!({}));
    env.settle();
    env.carry_out_plans();
    env.settle();
    env.serve(NAMESPACE, "cat", vec![bundle("demo.v2").skip_range("<2.0.0")]);
    env.settle();
    let plan = env
        .plans()
        .into_iter()
        .max_by_key(|plan| plan.spec.generation)
        .unwrap();
    assert_eq!(
        plan.status.as_ref().unwrap().bundle_lookups[0].replaces,
        "demo.v1"
    );
    env.carry_out_plans();
    env.settle();
    assert!(
        env.describe()
            .starts_with("demo-sub: state=AtLatestKnown installed=demo.v2 current=demo.v2 gen=2\n"),
        "{}",
        env.describe()
    );
}

/// Otherwise the version that runs and the one of the catalog would exclude each other.
#[test]
fn a_deleted_subscription_comes_back_to_the_version_that_runs() {
    let bundles = || vec![bundle("demo.v1"), bundle("demo.v2").replaces("demo.v1")];
    let mut env = TestEnv::with_catalog(bundles().into_iter().take(1));
    env.subscribe("demo", &json!({}));
    env.settle();
    env.carry_out_plans();
    env.settle();
    let package = json!({"type": "olm.package", "value": {"packageName": "demo", "version": "1.0.0"}});
    let properties = json!({"properties": [package]}).to_string();
    let annotations = json!({olm_api::labels::PROPERTIES: properties});
    env.edit(
        "ClusterServiceVersion",
        "demo.v1",
        &json!({"metadata": {"annotations": annotations}}),
    );
    env.delete("Subscription", "demo-sub");
    env.settle();
    env.subscribe("demo", &json!({}));
    env.settle();
    let told = env.describe();
    assert!(
        told.contains("ResolutionFailed=True")
            && told.contains("\nto resolve: set spec.startingCSV of subscription demo-sub to demo.v1\n"),
        "{told}"
    );
    let starting = json!({"spec": {"startingCSV": "demo.v1"}});
    env.edit("Subscription", "demo-sub", &starting);
    env.settle();
    let told = env.describe();
    assert!(
        told.contains("state=AtLatestKnown installed=demo.v1 current=demo.v1")
            && !told.contains("ResolutionFailed"),
        "{told}"
    );
    env.serve(NAMESPACE, "cat", bundles());
    env.settle();
    env.carry_out_plans();
    env.settle();
    assert!(
        env.describe().contains("installed=demo.v2 current=demo.v2"),
        "{}",
        env.describe()
    );
}

/// Target P19: catalog changes that upgrade nothing cost a few writes, for any number of operators in the namespace.
#[test]
fn a_catalog_without_news_for_fifty_operators_costs_few_writes() {
    let names: Vec<String> = (0..50).map(|number| format!("op{number}")).collect();
    let bundles = || names.iter().map(|name| bundle(&format!("{name}.v1")));
    let mut env = TestEnv::with_catalog(bundles());
    for name in &names {
        env.subscribe(name, &json!({}));
    }
    env.settle();
    env.carry_out_plans();
    env.settle();
    let told = env.describe();
    assert_eq!(told.matches("state=AtLatestKnown").count(), 50, "{told}");
    env.writes.clear();
    env.serve(NAMESPACE, "cat", bundles().chain([bundle("other.v1")]));
    env.settle();
    assert!(env.writes.len() <= 10, "{:?}", env.writes);
}

/// Between the successor's creation and olm-operator's first report, the predecessor has no Subscription and provides the same
/// APIs: no failure is reported in any state of an upgrade.
#[test]
fn an_upgrade_never_shows_a_failed_resolution() {
    let bundles = || {
        vec![
            bundle("demo.v1").provides("Ofdemo"),
            bundle("demo.v2").replaces("demo.v1").provides("Ofdemo"),
        ]
    };
    let mut env = TestEnv::with_catalog(bundles().into_iter().take(1));
    env.subscribe("demo", &json!({}));
    env.settle();
    env.carry_out_plans();
    env.settle();
    env.serve(NAMESPACE, "cat", bundles());
    env.settle();
    env.put_csv_beside("demo.v2", "demo.v1");
    for phase in ["Succeeded", "Replacing", "Deleting"] {
        env.set_csv_phase("demo.v1", phase);
        env.settle();
        let told = env.describe();
        assert!(
            told.contains("state=AtLatestKnown installed=demo.v2") && !told.contains("ResolutionFailed"),
            "{phase}: {told}"
        );
    }
    assert_eq!(env.events.len(), 0);
    // After the failure, no suggested command deletes the version that still runs.
    env.set_csv_phase("demo.v1", "Replacing");
    env.set_csv_phase("demo.v2", "Failed");
    env.settle();
    let told = env.describe();
    let way_back =
        "\nto resolve: correct the cause, or go back to demo.v1: kubectl operator rollback demo-sub -n ns";
    assert!(
        told.contains("ResolutionFailed=True") && told.contains(way_back),
        "{told}"
    );
    assert!(
        !told.contains("destroys") && !told.contains("FailForward"),
        "{told}"
    );
}

/// Through the catalog.
#[test]
fn a_deprecated_bundle_is_reported_once_it_is_installed() {
    let mut env = TestEnv::with_catalog(vec![bundle("demo.v1").deprecated("take 2")]);
    env.subscribe("demo", &json!({}));
    env.settle();
    assert!(!env.describe().contains("Deprecated"), "{}", env.describe());
    env.carry_out_plans();
    env.settle();
    assert!(env.describe().contains("BundleDeprecated=True/- olm.bundle/demo.v1: take 2\n  Deprecated=True/- olm.bundle/demo.v1: take 2"), "{}", env.describe());
    env.serve(NAMESPACE, "cat", vec![bundle("demo.v1")]);
    env.settle();
    assert!(!env.describe().contains("Deprecated"), "{}", env.describe());
}

/// The catalog's deprecations are reported even if the namespace cannot be resolved.
#[test]
fn deprecations_follow_the_catalog_while_nothing_is_resolved() {
    let mut env = TestEnv::with_catalog(vec![bundle("demo.v1")]);
    env.subscribe("demo", &json!({}));
    env.settle();
    env.carry_out_plans();
    env.settle();
    env.add_group("second", &json!({}), &json!({}));
    env.settle();
    for deprecated in [true, false] {
        let content = match deprecated {
            true => bundle("demo.v1").deprecated("take 2"),
            false => bundle("demo.v1"),
        };
        env.serve(NAMESPACE, "cat", vec![content]);
        env.settle();
        let told = env.describe();
        assert!(told.contains("expected 1: keep one of"), "{told}");
        let expected = "BundleDeprecated=True/- olm.bundle/demo.v1: take 2";
        assert_eq!(told.contains(expected), deprecated, "{told}");
    }
    let writes = env.writes.len();
    env.settle();
    assert_eq!(env.writes.len(), writes, "at rest");
}

/// A default channel is taken when none is named.
#[test]
fn without_a_channel_the_default_one_counts() {
    let mut env = TestEnv::with_catalog(vec![bundle("demo.v1"), bundle("demo.v9").channel("alpha", false)]);
    env.subscribe("demo", &json!({"channel": ""}));
    env.settle();
    assert!(env.describe().contains("current=demo.v1"), "{}", env.describe());
}
