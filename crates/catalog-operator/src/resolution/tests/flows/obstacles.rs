//! What is missing, broken or slow is told to those it concerns and holds up nobody else.

use super::*;

#[test]
fn a_namespace_that_is_being_deleted_is_left_alone() {
    let mut world = World::with_catalog(demo());
    world.subscribe("demo", &json!({}));
    world.terminate_namespace();
    world.settle();
    assert_eq!(world.writes, Vec::<String>::new());
}

/// Cases 8 and 10 and the bad input of the issue; each text is upstream's.
#[test]
fn what_does_not_exist_is_named() {
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
        let mut world = World::with_catalog(demo());
        world.subscribe("demo", &spec);
        world.settle();
        let expected = format!(
            "ResolutionFailed=True/ConstraintsNotSatisfiable constraints not satisfiable: {text}, subscription demo-sub exists"
        );
        assert!(world.describe().contains(&expected), "{}", world.describe());
        assert_eq!(world.plans().len(), 0);
        assert_eq!(world.writes.len(), 1, "told once");
        assert_eq!(world.events.len(), 1, "one event");
        assert_eq!(world.events[0]["reason"], "ResolutionFailed");
        // Case 11: corrected, the condition goes.
        world.subscribe("demo", &json!({}));
        world.settle();
        assert!(
            !world.describe().contains("ResolutionFailed"),
            "{}",
            world.describe()
        );
        assert_eq!(world.plans().len(), 1);
    }
}

/// Case 12.
#[test]
fn operator_groups_are_counted() {
    let mut world = World::new();
    world.serve(NAMESPACE, "cat", demo());
    world.subscribe("demo", &json!({}));
    world.settle();
    assert!(
        world
            .describe()
            .contains("ResolutionFailed=True/ErrorPreventedResolution found 0 operatorGroups, expected 1"),
        "{}",
        world.describe()
    );
    world.add_group("a", &json!({}), &json!({}));
    world.add_group("b", &json!({}), &json!({}));
    world.settle();
    assert!(
        world
            .describe()
            .contains("found 2 operatorGroups, expected 1: keep one of a, b"),
        "{}",
        world.describe()
    );
    world.delete("OperatorGroup", "b");
    world.settle();
    assert!(
        world.describe().contains("state=UpgradePending"),
        "{}",
        world.describe()
    );
    assert!(!world.describe().contains("ResolutionFailed"));
}

/// Durations that nobody can wait for, or that are no pause at all, stop nothing: they are bounded, and told once.
#[test]
fn durations_of_annotations_are_bounded_and_told_once() {
    let mut world = World::with_catalog(demo());
    let retry = "operatorframework.io/bundle-unpack-min-retry-interval";
    let timeout = "operatorframework.io/bundle-unpack-timeout";
    world.add_group(
        "og",
        &json!({retry: "1ms", timeout: "3000000000000000h"}),
        &json!({}),
    );
    world.break_image("reg/demo:v3", UnpackClass::NotFound, "no such image");
    world.subscribe("demo", &json!({}));
    world.settle();
    world.add_group(
        "og",
        &json!({retry: "3000000000000000h", timeout: "1ns"}),
        &json!({}),
    );
    world.mend_images();
    world.settle();
    world.settle();
    let told: Vec<_> = world
        .events
        .iter()
        .filter(|event| event["reason"] == "AnnotationOutOfBounds")
        .map(|event| {
            let note = event["note"].as_str().unwrap();
            (
                event["regarding"]["kind"].as_str().unwrap(),
                note.split(' ').nth(1).unwrap(),
            )
        })
        .collect();
    let (retry, timeout) = (format!("{retry}:"), format!("{timeout}:"));
    let group = "OperatorGroup";
    assert_eq!(
        told,
        [
            (group, &*timeout),
            (group, &*retry),
            (group, &*timeout),
            (group, &*retry)
        ]
    );
}

/// A Subscription that cannot be resolved, or whose bundle cannot be had, holds up nobody else.
#[test]
fn one_broken_operator_does_not_freeze_its_namespace() {
    let bundles = vec![
        bundle("demo.v1"),
        bundle("other.v1"),
        bundle("third.v1").requires("Nothing"),
    ];
    let mut world = World::with_catalog(bundles);
    world.break_image(
        "reg/other:v1",
        UnpackClass::DigestMismatch,
        "image `reg/other:v1`: digest mismatch",
    );
    world.subscribe("demo", &json!({}));
    world.subscribe("other", &json!({}));
    world.subscribe("third", &json!({}));
    world.settle();
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
    let events: std::collections::BTreeSet<&str> = world
        .events
        .iter()
        .map(|event| event["reason"].as_str().unwrap())
        .collect();
    assert_eq!(
        (world.events.len(), events.into_iter().collect::<Vec<_>>()),
        (2, vec!["BundleUnpackFailed", "ResolutionFailed"])
    );
    // Case 47.
    world.mend_images();
    world.settle();
    assert!(
        world
            .describe()
            .contains("plan gen=2 Automatic approved=true other.v1: Installing"),
        "{}",
        world.describe()
    );
    assert!(!world.describe().contains("BundleUnpack"), "{}", world.describe());
}

#[test]
fn a_bundle_that_takes_long_is_mentioned_and_then_not_any_more() {
    let mut world = World::with_catalog(demo());
    world.slow_images(Duration::from_secs(8));
    world.subscribe("demo", &json!({}));
    world.advance(Duration::from_secs(4));
    assert!(
        world
            .describe()
            .contains("BundleUnpacking=True/UnpackingInProgress"),
        "{}",
        world.describe()
    );
    assert!(world.plans().is_empty());
    world.advance(Duration::from_secs(5));
    assert_eq!(world.plans().len(), 1);
    world.settle();
    assert!(
        !world.describe().contains("BundleUnpacking"),
        "{}",
        world.describe()
    );
}

/// Cases 14 and 94 of the resolver: a broken global catalog that could matter blocks until it is excluded.
#[test]
fn a_catalog_that_cannot_be_read_blocks_only_what_it_could_change() {
    let mut world = World::with_catalog(vec![bundle("upper.v1").requires("Ofdemo"), bundle("plain.v1")]);
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
    world.settle();
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
    world.settle();
    let told = world.describe();
    assert!(
        told.contains("ConstraintsNotSatisfiable") && !told.contains("error using"),
        "{told}"
    );
}

/// While a catalog starts, its Subscriptions say so, and not that resolution failed.
#[test]
fn a_starting_catalog_is_waited_for() {
    let mut world = World::new();
    world.add_group("og", &json!({}), &json!({}));
    let starting = json!({"registryService": {"protocol": "grpc"}, "connectionState": {"address": "a", "lastObservedState": "CONNECTING"}});
    world.put_source(
        NAMESPACE,
        "cat",
        &json!({"sourceType": "grpc", "image": "i"}),
        &starting,
    );
    world.subscribe("demo", &json!({}));
    world.settle();
    insta::assert_snapshot!(world.describe(), @r"
    demo-sub: state= installed=- current=- gen=0
      CatalogSourcesUnhealthy=True/CatalogSourcesAdded targeted catalogsource ns/cat unhealthy: its registry server is starting
    ");
    assert_eq!(world.writes.len(), 1);
    world.serve(NAMESPACE, "cat", demo());
    world.settle();
    world.carry_out_plans();
    world.settle();
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

/// A catalog's content is away for a moment, a read fails, and something new is asked for: that nothing was found without
/// the content is neither told nor remembered.
#[test]
fn what_is_asked_while_a_content_is_away_is_answered_when_it_is_back() {
    let mut world = World::with_catalog(vec![bundle("demo.v1"), bundle("other.v1")]);
    world.subscribe("demo", &json!({}));
    world.settle();
    world.lose_content("cat");
    world.outside.set_failing(true);
    world.subscribe("other", &json!({}));
    world.settle();
    world.outside.set_failing(false);
    world.advance(Duration::from_secs(5));
    let told = world.describe();
    assert!(!told.contains("ResolutionFailed"), "{told}");
    assert!(told.contains("other-sub: state=UpgradePending"), "{told}");
}
