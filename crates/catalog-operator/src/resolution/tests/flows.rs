//! Whole ways through a namespace. Numbers are the cases of `spec/subscription-installplan.md` §9.

use std::time::Duration;

use serde_json::json;

use super::world::{GLOBAL, NAMESPACE};
use super::{World, bundle};
use crate::bundle_unpack::error::UnpackClass;

fn demo() -> Vec<super::world::BundleRow> {
    vec![
        bundle("demo.v1"),
        bundle("demo.v2").replaces("demo.v1"),
        bundle("demo.v3").replaces("demo.v2"),
    ]
}

/// Case 1, and the count of writes: plan and its status, and the Subscription with the plan, at `AtLatestKnown` and at the end.
#[tokio::test(flavor = "multi_thread")]
async fn a_subscription_becomes_a_plan_and_an_operator() {
    let mut world = World::with_catalog(demo()).await;
    world.subscribe("demo", &json!({}));
    world.settle().await;
    insta::assert_snapshot!(world.describe(), @r"
    demo-sub: state=UpgradePending installed=- current=demo.v3 gen=1
      CatalogSourcesUnhealthy=False/CatalogSourcesAdded all available catalogsources are healthy
      InstallPlanPending=True/Installing
    plan gen=1 Automatic approved=true demo.v3: Installing ClusterServiceVersion/demo.v3
    ");
    world.carry_out_plans();
    world.settle().await;
    insta::assert_snapshot!(world.describe(), @r"
    demo-sub: state=AtLatestKnown installed=demo.v3 current=demo.v3 gen=1
      CatalogSourcesUnhealthy=False/AllCatalogSourcesHealthy all available catalogsources are healthy
    plan gen=1 Automatic approved=true demo.v3: Complete ClusterServiceVersion/demo.v3
    ");
    insta::assert_snapshot!(world.writes.join("\n"), @r"
    create InstallPlan ns/install-
    patch status of InstallPlan install-105
    patch status of Subscription demo-sub
    patch status of Subscription demo-sub
    ");
    let lookup = world.plans()[0].status.as_ref().unwrap().bundle_lookups[0].clone();
    assert_eq!(lookup.path, "reg/demo:v3");
    assert_eq!(
        lookup.properties.as_deref(),
        Some(r#"{"properties":[{"type":"olm.package","value":{"packageName":"demo","version":"3.0.0"}}]}"#)
    );
    assert_eq!(
        world.plans()[0].metadata.owner_references.as_ref().unwrap()[0].controller,
        Some(false)
    );
}

/// Cases 16 and 29: one step of the channel at a time, each approved by hand.
#[tokio::test(flavor = "multi_thread")]
async fn a_manual_subscription_walks_its_channel_plan_by_plan() {
    let mut world = World::with_catalog(demo()).await;
    world.subscribe(
        "demo",
        &json!({"startingCSV": "demo.v1", "installPlanApproval": "Manual"}),
    );
    let mut states = Vec::new();
    for _ in 0..3 {
        world.settle().await;
        states.push(
            world
                .describe()
                .lines()
                .filter(|line| !line.starts_with("  Cat"))
                .collect::<Vec<_>>()
                .join("\n"),
        );
        let waiting = world
            .plans()
            .into_iter()
            .max_by_key(|plan| plan.spec.generation)
            .unwrap();
        world.set_phase(waiting.metadata.name.as_deref().unwrap(), "Installing");
        world.carry_out_plans();
    }
    world.settle().await;
    states.push(
        world
            .describe()
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

/// Cases 3, 26, 31: the dependency comes with a Subscription of its own, which adopts the plan.
#[tokio::test(flavor = "multi_thread")]
async fn a_dependency_gets_a_subscription() {
    let bundles = vec![
        bundle("upper.v1").requires("Ofdemo"),
        bundle("demo.v1").provides("Ofdemo"),
    ];
    let mut world = World::with_catalog(bundles).await;
    world.subscribe("upper", &json!({}));
    world.settle().await;
    world.carry_out_plans();
    world.settle().await;
    insta::assert_snapshot!(world.describe(), @r"
    demo-stable-cat-ns: state=AtLatestKnown installed=demo.v1 current=demo.v1 gen=0
      CatalogSourcesUnhealthy=False/CatalogSourcesAdded all available catalogsources are healthy
    upper-sub: state=AtLatestKnown installed=upper.v1 current=upper.v1 gen=1
      CatalogSourcesUnhealthy=False/AllCatalogSourcesHealthy all available catalogsources are healthy
    plan gen=1 Automatic approved=true demo.v1,upper.v1: Complete Subscription/demo-stable-cat-ns ClusterServiceVersion/demo.v1 ClusterServiceVersion/upper.v1
    ");
    assert!(
        world
            .subscription("demo-stable-cat-ns")
            .status
            .as_ref()
            .unwrap()
            .install_plan_ref
            .is_some()
    );
}

/// W10 and cases 5 and 30: stopped after every write in turn, and once more after the next, there is one plan in the end,
/// and everything is as without.
#[tokio::test(flavor = "multi_thread")]
async fn a_crash_after_any_write_leads_to_the_same_end_with_one_plan() {
    async fn run(crash_after: Option<usize>) -> (World, String) {
        let bundles = vec![bundle("demo.v1"), bundle("other.v1")];
        let mut world = World::with_catalog(bundles).await;
        world.subscribe("demo", &json!({}));
        world.subscribe("other", &json!({}));
        world.crash_after = crash_after;
        world.settle().await;
        world.restart();
        world.settle().await;
        world.carry_out_plans();
        world.settle().await;
        let end = world
            .describe()
            .replace("CatalogSourcesAdded", "AllCatalogSourcesHealthy");
        (world, end)
    }
    let (reference, end) = run(None).await;
    let writes = reference.writes.len();
    assert_eq!(reference.plans().len(), 1, "{end}");
    for crash in 0..=writes {
        let (world, same) = run(Some(crash)).await;
        assert_eq!(same, end, "after {crash} writes: {:#?}", world.writes);
        assert!(
            world.writes.len() <= writes + 1,
            "after {crash} writes: {:#?}",
            world.writes
        );
    }
}

/// A plan that was created for an answer that changed before it was adopted does not stay.
#[tokio::test(flavor = "multi_thread")]
async fn an_abandoned_plan_is_removed() {
    let mut world = World::with_catalog(vec![bundle("demo.v1")]).await;
    world.subscribe("demo", &json!({}));
    world.crash_after = Some(1);
    world.settle().await;
    assert!(world.plans()[0].status.is_none());
    world.restart();
    world.serve(NAMESPACE, "cat", demo()).await;
    world.settle().await;
    let plans = world.plans();
    assert_eq!(plans.len(), 1, "{}", world.describe());
    assert_eq!(
        (
            plans[0].spec.generation,
            plans[0].spec.cluster_service_version_names.join(",")
        ),
        (Some(2), "demo.v3".to_owned())
    );
}

/// A plan that was created for less than is ready now is taken up for what it was made for; the rest gets the next one.
#[tokio::test(flavor = "multi_thread")]
async fn a_bundle_that_comes_late_does_not_cost_the_plan_of_the_others() {
    let mut world = World::with_catalog(vec![bundle("demo.v1"), bundle("other.v1")]).await;
    world.break_image("reg/other:v1", UnpackClass::NotFound, "no such image");
    world.subscribe("demo", &json!({}));
    world.subscribe("other", &json!({}));
    world.crash_after = Some(2);
    world.settle().await;
    assert_eq!(
        world.writes.last().map(String::as_str),
        Some("create InstallPlan ns/install-")
    );
    world.mend_images();
    world.restart();
    world.settle().await;
    let told = world.describe();
    assert!(
        told.contains("plan gen=1 Automatic approved=true demo.v1: Installing"),
        "{told}"
    );
    assert!(
        told.contains("plan gen=2 Automatic approved=true other.v1: Installing"),
        "{told}"
    );
    assert_eq!(world.plans().len(), 2, "{told}");
}

/// Case 17: the plan is made anew under another name and still asks for approval.
#[tokio::test(flavor = "multi_thread")]
async fn a_deleted_pending_plan_is_made_anew() {
    let mut world = World::with_catalog(demo()).await;
    world.subscribe("demo", &json!({"installPlanApproval": "Manual"}));
    world.settle().await;
    let first = world.plans()[0].metadata.name.clone().unwrap();
    world
        .stores
        .plans
        .remove_for_tests(&olm_runtime::NamespacedName::new(NAMESPACE, &first));
    world.settle().await;
    let plans = world.plans();
    assert_ne!(plans[0].metadata.name.as_ref(), Some(&first));
    assert_eq!(
        (plans.len(), plans[0].spec.generation, plans[0].spec.approved),
        (1, Some(2), false)
    );
    assert!(
        world
            .describe()
            .contains("state=UpgradePending installed=- current=demo.v3 gen=2"),
        "{}",
        world.describe()
    );
}

/// Case 28 and the catalog's update: a new head is installed without touching the Subscription.
#[tokio::test(flavor = "multi_thread")]
async fn a_new_head_upgrades() {
    let mut world = World::with_catalog(vec![bundle("demo.v1")]).await;
    world.subscribe("demo", &json!({}));
    world.settle().await;
    world.carry_out_plans();
    world.settle().await;
    world
        .serve(NAMESPACE, "cat", vec![bundle("demo.v2").skip_range("<2.0.0")])
        .await;
    world.settle().await;
    let plan = world
        .plans()
        .into_iter()
        .max_by_key(|plan| plan.spec.generation)
        .unwrap();
    assert_eq!(
        plan.status.as_ref().unwrap().bundle_lookups[0].replaces,
        "demo.v1"
    );
    world.carry_out_plans();
    world.settle().await;
    assert!(
        world
            .describe()
            .starts_with("demo-sub: state=AtLatestKnown installed=demo.v2 current=demo.v2 gen=2\n"),
        "{}",
        world.describe()
    );
}

/// Between the successor's creation and the moment olm-operator says so, the predecessor is nobody's and provides the
/// same APIs: no failure is told in any of the states an upgrade goes through.
#[tokio::test(flavor = "multi_thread")]
async fn an_upgrade_never_shows_a_failed_resolution() {
    let bundles = || {
        vec![
            bundle("demo.v1").provides("Ofdemo"),
            bundle("demo.v2").replaces("demo.v1").provides("Ofdemo"),
        ]
    };
    let mut world = World::with_catalog(bundles().into_iter().take(1)).await;
    world.subscribe("demo", &json!({}));
    world.settle().await;
    world.carry_out_plans();
    world.settle().await;
    world.serve(NAMESPACE, "cat", bundles()).await;
    world.settle().await;
    world.put_csv_beside("demo.v2", "demo.v1");
    for phase in ["Succeeded", "Replacing", "Deleting"] {
        world.set_csv_phase("demo.v1", phase);
        world.settle().await;
        let told = world.describe();
        assert!(
            told.contains("state=AtLatestKnown installed=demo.v2") && !told.contains("ResolutionFailed"),
            "{phase}: {told}"
        );
    }
    assert_eq!(world.events.len(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_namespace_that_is_being_deleted_is_left_alone() {
    let mut world = World::with_catalog(demo()).await;
    world.subscribe("demo", &json!({}));
    world.terminate_namespace();
    world.settle().await;
    assert_eq!(world.writes, Vec::<String>::new());
}

// What goes wrong -----------------------------------------------------------------------------------------------------

/// Cases 8 and 10 and the bad input of the issue; each text is upstream's.
#[tokio::test(flavor = "multi_thread")]
async fn what_does_not_exist_is_named() {
    let rows = [
        (
            json!({"name": "nope"}),
            "no operators found in package nope in the catalog referenced by subscription demo-sub",
        ),
        (
            json!({"channel": "nope"}),
            "no operators found in channel nope of package demo in the catalog referenced by subscription demo-sub",
        ),
        (
            json!({"startingCSV": "demo.v9"}),
            "no operators found with name demo.v9 in channel stable of package demo in the catalog referenced by subscription demo-sub",
        ),
        (
            json!({"source": "nope"}),
            "no operators found from catalog nope in namespace ns referenced by subscription demo-sub",
        ),
    ];
    for (spec, text) in rows {
        let mut world = World::with_catalog(demo()).await;
        world.subscribe("demo", &spec);
        world.settle().await;
        let expected = format!(
            "ResolutionFailed=True/ConstraintsNotSatisfiable constraints not satisfiable: {text}, subscription demo-sub exists"
        );
        assert!(world.describe().contains(&expected), "{}", world.describe());
        assert_eq!(world.plans().len(), 0);
        assert_eq!(world.writes.len(), 1, "told once");
        assert_eq!(world.events.len(), 1, "one event");
        assert_eq!(world.events[0].reason, "ResolutionFailed");
        // Case 11: corrected, the condition goes.
        world.subscribe("demo", &json!({}));
        world.settle().await;
        assert!(
            !world.describe().contains("ResolutionFailed"),
            "{}",
            world.describe()
        );
        assert_eq!(world.plans().len(), 1);
    }
}

/// Case 12, W9.
#[tokio::test(flavor = "multi_thread")]
async fn operator_groups_are_counted() {
    let mut world = World::new().await;
    world.serve(NAMESPACE, "cat", demo()).await;
    world.subscribe("demo", &json!({}));
    world.settle().await;
    assert!(
        world
            .describe()
            .contains("ResolutionFailed=True/ErrorPreventedResolution found 0 operatorGroups, expected 1"),
        "{}",
        world.describe()
    );
    world.add_group("a", &json!({}), &json!({}));
    world.add_group("b", &json!({}), &json!({}));
    world.settle().await;
    assert!(
        world
            .describe()
            .contains("found 2 operatorGroups, expected 1: keep one of a, b"),
        "{}",
        world.describe()
    );
    world
        .stores
        .groups
        .remove_for_tests(&olm_runtime::NamespacedName::new(NAMESPACE, "b"));
    world.settle().await;
    assert!(
        world.describe().contains("state=UpgradePending"),
        "{}",
        world.describe()
    );
    assert!(!world.describe().contains("ResolutionFailed"));
}

/// A Subscription that cannot be resolved, or whose bundle cannot be had, holds up nobody else.
#[tokio::test(flavor = "multi_thread")]
async fn one_broken_operator_does_not_freeze_its_namespace() {
    let bundles = vec![
        bundle("demo.v1"),
        bundle("other.v1"),
        bundle("third.v1").requires("Nothing"),
    ];
    let mut world = World::with_catalog(bundles).await;
    world.break_image(
        "reg/other:v1",
        UnpackClass::DigestMismatch,
        "image `reg/other:v1`: digest mismatch",
    );
    world.subscribe("demo", &json!({}));
    world.subscribe("other", &json!({}));
    world.subscribe("third", &json!({}));
    world.settle().await;
    insta::assert_snapshot!(world.describe(), @r"
    demo-sub: state=UpgradePending installed=- current=demo.v1 gen=1
      CatalogSourcesUnhealthy=False/CatalogSourcesAdded all available catalogsources are healthy
      InstallPlanPending=True/Installing
    other-sub: state= installed=- current=- gen=0
      CatalogSourcesUnhealthy=False/CatalogSourcesAdded all available catalogsources are healthy
      BundleUnpackFailed=True/BundleUnpackFailed Bundle unpacking failed - DigestMismatch: bundle other.v1: image `reg/other:v1`: digest mismatch; the registry or mirror is damaged or dishonest: push the image again or use another mirror
    third-sub: state= installed=- current=- gen=0
      CatalogSourcesUnhealthy=False/CatalogSourcesAdded all available catalogsources are healthy
      ResolutionFailed=True/ConstraintsNotSatisfiable constraints not satisfiable: bundle third.v1 requires an operator providing an API with group: example.com, version: v1, kind: Nothing, subscription third-sub exists, subscription third-sub requires cat/ns/stable/third.v1
    - subscription third-sub asks for package third, channel stable of catalog ns/cat
      - cat/ns/stable/third.v1
        - requires an operator providing an API with group: example.com, version: v1, kind: Nothing
          - nothing installed and no catalog in reach offers that: add a catalog that does
    to resolve: delete subscription third-sub in namespace ns, if it is not needed
    plan gen=1 Automatic approved=true demo.v1: Installing ClusterServiceVersion/demo.v1
    ");
    let events: std::collections::BTreeSet<&str> =
        world.events.iter().map(|event| event.reason.as_str()).collect();
    assert_eq!(
        (world.events.len(), events.into_iter().collect::<Vec<_>>()),
        (2, vec!["BundleUnpackFailed", "ResolutionFailed"])
    );
    // Case 47.
    world.mend_images();
    world.settle().await;
    assert!(
        world
            .describe()
            .contains("plan gen=2 Automatic approved=true other.v1: Installing"),
        "{}",
        world.describe()
    );
    assert!(!world.describe().contains("BundleUnpack"), "{}", world.describe());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bundle_that_takes_long_is_mentioned_and_then_not_any_more() {
    let mut world = World::with_catalog(demo()).await;
    world.slow_images(Duration::from_millis(2600));
    world.subscribe("demo", &json!({}));
    while world.writes.is_empty() {
        world.round().await;
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(
        world
            .describe()
            .contains("BundleUnpacking=True/UnpackingInProgress"),
        "{}",
        world.describe()
    );
    while world.plans().is_empty() {
        world.round().await;
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    world.settle().await;
    assert!(
        !world.describe().contains("BundleUnpacking"),
        "{}",
        world.describe()
    );
}

/// Case 7.
#[tokio::test(flavor = "multi_thread")]
async fn a_refused_plan_is_told_to_those_it_was_for() {
    let mut world = World::with_catalog(vec![bundle("demo.v1"), bundle("other.v1")]).await;
    world.subscribe("demo", &json!({}));
    world.subscribe("other", &json!({"channel": "nope"}));
    world.refuse = Some("installplans.operators.coreos.com is forbidden".to_owned());
    for _ in 0..50 {
        world.round().await;
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    let told = world.describe();
    assert!(told.contains("BundleUnpackFailed=True/EnsureInstallPlanFailed error ensuring InstallPlan: installplans.operators.coreos.com is forbidden"), "{told}");
    assert_eq!(told.matches("EnsureInstallPlanFailed").count(), 1, "{told}");
    assert_eq!(world.writes.len(), 2, "{:#?}", world.writes);
    world.refuse = None;
    world.settle().await;
    assert!(
        !world.describe().contains("EnsureInstallPlanFailed"),
        "{}",
        world.describe()
    );
    assert_eq!(world.plans().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plan_whose_status_is_refused_is_told_and_taken_up_later() {
    let mut world = World::with_catalog(vec![bundle("demo.v1")]).await;
    world.subscribe("demo", &json!({}));
    world.refuse_status = Some("Request entity too large".to_owned());
    for _ in 0..50 {
        world.round().await;
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    let told = world.describe();
    assert!(
        told.contains("EnsureInstallPlanFailed error ensuring InstallPlan: Request entity too large"),
        "{told}"
    );
    assert_eq!(world.writes.len(), 2, "{:#?}", world.writes);
    world.refuse_status = None;
    world.settle().await;
    let told = world.describe();
    assert!(
        told.contains("state=UpgradePending") && !told.contains("EnsureInstallPlanFailed"),
        "{told}"
    );
    assert_eq!(world.plans().len(), 1);
}

/// Cases 14 and 94 of the resolver: a broken global catalog that could matter blocks until it is excluded.
#[tokio::test(flavor = "multi_thread")]
async fn a_catalog_that_cannot_be_read_blocks_only_what_it_could_change() {
    let mut world =
        World::with_catalog(vec![bundle("upper.v1").requires("Ofdemo"), bundle("plain.v1")]).await;
    let failing = json!({"reason": "RegistryServerError", "message": "couldn't connect to registry - refused",
        "registryService": {}, "connectionState": {"lastObservedState": "TRANSIENT_FAILURE"}});
    world.put_source(
        GLOBAL,
        "global",
        &json!({"sourceType": "grpc", "address": "h:1"}),
        &failing,
    );
    world.subscribe("upper", &json!({}));
    world.subscribe("plain", &json!({}));
    world.settle().await;
    let told = world.describe();
    assert!(told.contains("CatalogSourcesUnhealthy=True/CatalogSourcesAdded catalogsource olm/global unhealthy: couldn't connect to registry - refused"), "{told}");
    assert!(told.contains("error using catalogsource olm/global: no registry client established for catalogsource olm/global: couldn't connect to registry - refused"), "{told}");
    assert!(
        told.contains("plan gen=1 Automatic approved=true plain.v1"),
        "{told}"
    );
    world.add_group(
        "og",
        &json!({"olm.operatorframework.io/exclude-global-namespace-resolution": "true"}),
        &json!({}),
    );
    world.settle().await;
    let told = world.describe();
    assert!(
        told.contains("ConstraintsNotSatisfiable") && !told.contains("error using"),
        "{told}"
    );
}

/// While a catalog starts, its Subscriptions say so, and not that resolution failed.
#[tokio::test(flavor = "multi_thread")]
async fn a_starting_catalog_is_waited_for() {
    let mut world = World::new().await;
    world.add_group("og", &json!({}), &json!({}));
    let starting = json!({"registryService": {"protocol": "grpc"}, "connectionState": {"address": "a", "lastObservedState": "CONNECTING"}});
    world.put_source(
        NAMESPACE,
        "cat",
        &json!({"sourceType": "grpc", "image": "i"}),
        &starting,
    );
    world.subscribe("demo", &json!({}));
    world.settle().await;
    insta::assert_snapshot!(world.describe(), @r"
    demo-sub: state= installed=- current=- gen=0
      CatalogSourcesUnhealthy=True/CatalogSourcesAdded targeted catalogsource ns/cat unhealthy: its registry server is starting
    ");
    assert_eq!(world.writes.len(), 1);
    world.serve(NAMESPACE, "cat", demo()).await;
    world.settle().await;
    world.carry_out_plans();
    world.settle().await;
    assert!(
        world.describe().contains("state=AtLatestKnown"),
        "{}",
        world.describe()
    );
    let written = world
        .writes
        .iter()
        .filter(|write| write.contains("Subscription"))
        .count();
    assert!(written <= 4, "{:#?}", world.writes);
}

/// Case 32.
#[tokio::test(flavor = "multi_thread")]
async fn one_manual_subscription_makes_every_plan_manual() {
    let mut world = World::with_catalog(vec![bundle("demo.v1"), bundle("other.v1")]).await;
    world.subscribe("demo", &json!({}));
    world.subscribe(
        "other",
        &json!({"installPlanApproval": "Manual", "channel": "nope"}),
    );
    world.settle().await;
    assert!(
        world
            .describe()
            .contains("plan gen=1 Manual approved=false demo.v1: RequiresApproval"),
        "{}",
        world.describe()
    );
}

/// Cases 34 and 35 through the catalog.
#[tokio::test(flavor = "multi_thread")]
async fn a_deprecated_bundle_is_told_once_it_is_installed() {
    let mut world = World::with_catalog(vec![bundle("demo.v1").deprecated("take 2")]).await;
    world.subscribe("demo", &json!({}));
    world.settle().await;
    assert!(!world.describe().contains("Deprecated"), "{}", world.describe());
    world.carry_out_plans();
    world.settle().await;
    assert!(world.describe().contains("BundleDeprecated=True/- olm.bundle/demo.v1: take 2\n  Deprecated=True/- olm.bundle/demo.v1: take 2"), "{}", world.describe());
    world.serve(NAMESPACE, "cat", vec![bundle("demo.v1")]).await;
    world.settle().await;
    assert!(!world.describe().contains("Deprecated"), "{}", world.describe());
}

/// Case 33, C2: at rest a namespace is answered from memory and nothing is written, whatever wakes it.
#[tokio::test(flavor = "multi_thread")]
async fn at_rest_nothing_is_written() {
    let mut world = World::with_catalog(demo()).await;
    world.subscribe("demo", &json!({}));
    world.settle().await;
    world.carry_out_plans();
    world.settle().await;
    let before = world.writes.len();
    for _ in 0..5 {
        world.round().await;
    }
    assert_eq!(world.writes.len(), before);
    // Also after a restart, with an empty memory.
    world.restart();
    world.settle().await;
    assert_eq!(world.writes.len(), before, "{:#?}", world.writes);
}

/// A default channel is taken when none is named.
#[tokio::test(flavor = "multi_thread")]
async fn without_a_channel_the_default_one_counts() {
    let mut world =
        World::with_catalog(vec![bundle("demo.v1"), bundle("demo.v9").channel("alpha", false)]).await;
    world.subscribe("demo", &json!({"channel": ""}));
    world.settle().await;
    assert!(
        world.describe().contains("current=demo.v1"),
        "{}",
        world.describe()
    );
}
