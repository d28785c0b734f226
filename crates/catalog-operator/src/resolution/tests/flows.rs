//! Complete flows through a namespace. Numbers only distinguish cases; the rules are in `docs/reference/resolution.md`.

mod obstacles;
mod plans;
mod policies;
mod upgrades;

use std::time::Duration;

use serde_json::json;

use super::test_env::{GLOBAL, NAMESPACE};
use super::{TestEnv, bundle};
use crate::bundle_unpack::error::UnpackClass;

fn demo() -> Vec<super::test_env::BundleRow> {
    vec![
        bundle("demo.v1"),
        bundle("demo.v2").replaces("demo.v1"),
        bundle("demo.v3").replaces("demo.v2"),
    ]
}

/// And the count of writes: plan and its status, and the Subscription with the plan, at `AtLatestKnown` and at the end.
#[test]
fn a_subscription_becomes_a_plan_and_an_operator() {
    let mut env = TestEnv::with_catalog(demo());
    env.subscribe("demo", &json!({}));
    env.settle();
    insta::assert_snapshot!(env.describe(), @r"
    demo-sub: state=UpgradePending installed=- current=demo.v3 gen=1
      CatalogSourcesUnhealthy=False/AllCatalogSourcesHealthy all available catalogsources are healthy
      InstallPlanPending=True/Installing
    plan gen=1 Automatic approved=true demo.v3: Installing ClusterServiceVersion/demo.v3
    ");
    env.carry_out_plans();
    env.settle();
    insta::assert_snapshot!(env.describe(), @r"
    demo-sub: state=AtLatestKnown installed=demo.v3 current=demo.v3 gen=1
      CatalogSourcesUnhealthy=False/AllCatalogSourcesHealthy all available catalogsources are healthy
    plan gen=1 Automatic approved=true demo.v3: Complete ClusterServiceVersion/demo.v3
    ");
    let name = env.plans()[0].metadata.name.clone().unwrap();
    insta::assert_snapshot!(env.writes.join("\n").replace(&name, "install-HASH"), @r"
    create InstallPlan ns/install-HASH
    patch InstallPlan ns/install-HASH status
    patch Subscription ns/demo-sub status
    patch Subscription ns/demo-sub status
    ");
    let lookup = env.plans()[0].status.as_ref().unwrap().bundle_lookups[0].clone();
    assert_eq!(lookup.path, "reg/demo:v3");
    assert_eq!(
        lookup.properties.as_deref(),
        Some(r#"{"properties":[{"type":"olm.package","value":{"packageName":"demo","version":"3.0.0"}}]}"#)
    );
    assert_eq!(
        env.plans()[0].metadata.owner_references.as_ref().unwrap()[0].controller,
        Some(false)
    );
}

/// The dependency comes with a Subscription of its own, which adopts the plan.
#[test]
fn a_dependency_gets_a_subscription() {
    let bundles = vec![
        bundle("upper.v1").requires("Ofdemo"),
        bundle("demo.v1").provides("Ofdemo"),
    ];
    let mut env = TestEnv::with_catalog(bundles);
    env.subscribe("upper", &json!({}));
    env.settle();
    env.carry_out_plans();
    env.settle();
    insta::assert_snapshot!(env.describe(), @r"
    demo-stable-cat-ns: state=AtLatestKnown installed=demo.v1 current=demo.v1 gen=0
      CatalogSourcesUnhealthy=False/AllCatalogSourcesHealthy all available catalogsources are healthy
    upper-sub: state=AtLatestKnown installed=upper.v1 current=upper.v1 gen=1
      CatalogSourcesUnhealthy=False/AllCatalogSourcesHealthy all available catalogsources are healthy
    plan gen=1 Automatic approved=true demo.v1,upper.v1: Complete Subscription/demo-stable-cat-ns ClusterServiceVersion/demo.v1 ClusterServiceVersion/upper.v1
    ");
    assert!(
        env.subscription("demo-stable-cat-ns")
            .status
            .as_ref()
            .unwrap()
            .install_plan_ref
            .is_some()
    );
}

// Failures ------------------------------------------------------------------------------------------------------------

/// At rest a namespace is answered from memory and nothing is written, for any trigger.
#[test]
fn at_rest_nothing_is_written() {
    let mut env = TestEnv::with_catalog(demo());
    env.subscribe("demo", &json!({}));
    env.settle();
    env.carry_out_plans();
    env.settle();
    let before = env.writes.len();
    for _ in 0..5 {
        env.round();
    }
    assert_eq!(env.writes.len(), before);
    // Also after a restart, with an empty memory.
    env.restart();
    env.settle();
    assert_eq!(env.writes.len(), before, "{:#?}", env.writes);
}
