//! Missing, broken or slow inputs are reported to the Subscriptions they concern and delay no other.

use super::*;

#[test]
fn a_namespace_that_is_being_deleted_is_left_alone() {
    let mut env = TestEnv::with_catalog(demo());
    env.subscribe("demo", &json!({}));
    env.terminate_namespace();
    env.settle();
    assert_eq!(env.writes, Vec::<String>::new());
}

/// Bad input; each text is upstream's.
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
        let mut env = TestEnv::with_catalog(demo());
        env.subscribe("demo", &spec);
        env.settle();
        let expected = format!(
            "ResolutionFailed=True/ConstraintsNotSatisfiable constraints not satisfiable: {text}, subscription demo-sub exists"
        );
        assert!(env.describe().contains(&expected), "{}", env.describe());
        assert_eq!(env.plans().len(), 0);
        assert_eq!(env.writes.len(), 1, "told once");
        assert_eq!(env.events.len(), 1, "one event");
        assert_eq!(env.events[0]["reason"], "ResolutionFailed");
        // Corrected, the condition goes.
        env.subscribe("demo", &json!({}));
        env.settle();
        assert!(!env.describe().contains("ResolutionFailed"), "{}", env.describe());
        assert_eq!(env.plans().len(), 1);
    }
}

/// The operator runs on, and the status does not advise to delete it.
#[test]
fn a_deleted_catalog_is_to_be_added_again() {
    let mut env = TestEnv::with_catalog(vec![bundle("demo.v1")]);
    env.subscribe("demo", &json!({}));
    env.settle();
    env.carry_out_plans();
    env.settle();
    env.delete("CatalogSource", "cat");
    env.settle();
    let text = env.describe();
    let way_out =
        "\n  - catalog ns/cat does not exist: add it again (kubectl operator catalog add cat IMAGE -n ns)";
    assert!(
        text.contains("ResolutionFailed=True") && text.contains(way_out),
        "{text}"
    );
    assert!(!text.contains("to resolve"), "{text}");
}

#[test]
fn while_the_status_of_a_failure_is_refused_its_event_is_sent_once() {
    let mut env = TestEnv::with_catalog(demo());
    env.refuse_status = Some(("Subscription", "the object is too large"));
    env.subscribe("demo", &json!({"channel": "nope"}));
    env.advance(Duration::from_secs(600));
    assert_eq!(env.writes.len(), 0, "{:#?}", env.writes);
    assert_eq!(env.events.len(), 1, "{:#?}", env.events);
    env.refuse_status = None;
    env.advance(Duration::from_secs(600));
    assert!(
        env.describe().contains("ResolutionFailed=True"),
        "{}",
        env.describe()
    );
    assert_eq!(env.events.len(), 1, "{:#?}", env.events);
}

#[test]
fn operator_groups_are_counted() {
    let mut env = TestEnv::new();
    env.serve(NAMESPACE, "cat", demo());
    env.subscribe("demo", &json!({}));
    env.settle();
    assert!(
        env.describe()
            .contains("ResolutionFailed=True/ErrorPreventedResolution found 0 operatorGroups, expected 1"),
        "{}",
        env.describe()
    );
    env.add_group("a", &json!({}), &json!({}));
    env.add_group("b", &json!({}), &json!({}));
    env.settle();
    assert!(
        env.describe()
            .contains("found 2 operatorGroups, expected 1: keep one of a, b"),
        "{}",
        env.describe()
    );
    env.delete("OperatorGroup", "b");
    env.settle();
    assert!(
        env.describe().contains("state=UpgradePending"),
        "{}",
        env.describe()
    );
    assert!(!env.describe().contains("ResolutionFailed"));
}

/// An operator that does not support its OperatorGroup is reported on the Subscription: before the plan is approved, and afterwards by the
/// failure. The plan is made all the same.
#[test]
fn an_unsupported_install_mode_is_in_the_condition() {
    for (approval, expected) in [("Manual", "RequiresApproval"), ("Automatic", "Installing")] {
        let mut env = TestEnv::with_catalog([bundle("demo.v1")]);
        env.edit(
            "OperatorGroup",
            "og",
            &json!({"status": {"namespaces": [NAMESPACE]}}),
        );
        env.set_csv_spec(&json!({"installModes": [{"type": "AllNamespaces", "supported": true}]}));
        env.subscribe("demo", &json!({"installPlanApproval": approval}));
        env.settle();
        let told = env.describe();
        let text = "when this plan was created: bundle demo.v1 does not support what OperatorGroup og \
            selects: OwnNamespace InstallModeType not supported, cannot configure to watch own namespace";
        assert!(
            told.contains(&format!("InstallPlanPending=True/{expected} {text}")),
            "{told}"
        );
        assert!(!told.contains("ResolutionFailed"), "{told}");
        assert_eq!(env.events.len(), 1, "{:#?}", env.events);
        assert_eq!(env.events[0]["reason"], "ClusterUnsuitable");
        let plan = env.plans()[0].metadata.name.clone().unwrap();
        env.edit("InstallPlan", &plan, &json!({"spec": {"approved": true}}));
        env.begin_approved();
        env.carry_out_plans();
        let status = json!({"phase": "Failed", "reason": "UnsupportedOperatorGroup", "message": "OwnNamespace not supported"});
        env.edit("ClusterServiceVersion", "demo.v1", &json!({"status": status}));
        env.settle();
        let told = env.describe();
        let text = "InstallPlanFailed=True/InstallComponentFailed ClusterServiceVersion demo.v1: UnsupportedOperatorGroup: \
                    OwnNamespace not supported\n";
        assert!(told.contains(text), "{told}");
        let worse = json!({"status": {"message": "and more"}});
        env.edit("ClusterServiceVersion", "demo.v1", &worse);
        env.settle();
        assert!(
            env.describe().contains("UnsupportedOperatorGroup: and more\n"),
            "{}",
            env.describe()
        );
    }
}

/// A usual install is complete before its cause is worth a write.
#[test]
fn a_csv_that_waits_longer_than_usual_is_reported_with_each_cause() {
    let mut env = TestEnv::with_catalog([bundle("demo.v1")]);
    env.subscribe("demo", &json!({}));
    env.settle();
    env.carry_out_plans();
    env.start_phase("demo.v1", "Installing", "0 of 1 pods");
    env.settle();
    let usual = "InstallPlanPending=True/Installing waiting for ClusterServiceVersion demo.v1 to succeed\n";
    assert!(env.describe().contains(usual), "{}", env.describe());
    let mut writes = env.writes.len();
    let other = |message: &str| json!({"status": {"message": message}});
    env.edit("ClusterServiceVersion", "demo.v1", &other("no such image"));
    env.settle();
    assert_eq!(env.writes.len(), writes, "{:#?}", env.writes);
    for (message, seconds) in [("no such image", 15), ("no node", 0)] {
        env.edit("ClusterServiceVersion", "demo.v1", &other(message));
        env.advance(Duration::from_secs(seconds));
        let text = format!("InstallPlanPending=True/Installing ClusterServiceVersion demo.v1: {message}\n");
        assert!(env.describe().contains(&text), "{}", env.describe());
        writes += 1;
        assert_eq!(env.writes.len(), writes, "{:#?}", env.writes);
    }
    env.advance(Duration::from_secs(120));
    assert_eq!(env.writes.len(), writes, "at rest: {:#?}", env.writes);
    env.start_phase("demo.v1", "Succeeded", "");
    env.settle();
    assert!(
        !env.describe().contains("InstallPlanPending"),
        "{}",
        env.describe()
    );
}

/// The rest of the bundle is installed, as upstream does, and an event names what is missing.
#[test]
fn what_is_left_out_of_a_bundle_is_reported_once() {
    let mut env = TestEnv::with_catalog([bundle("demo.v1"), bundle("other.v1")]);
    env.set_left_out(&[
        "file `a.yaml`: only the first document is used",
        "file `b` skipped: no",
    ]);
    env.subscribe("demo", &json!({}));
    env.settle();
    env.carry_out_plans();
    env.settle();
    let told: Vec<(&str, &str)> = env
        .events
        .iter()
        .map(|event| (event["reason"].as_str().unwrap(), event["note"].as_str().unwrap()))
        .collect();
    let text = "bundle demo.v1: file `a.yaml`: only the first document is used; file `b` skipped: no";
    assert_eq!(told, [("BundleFilesSkipped", text)]);
    assert_eq!(env.events[0]["regarding"]["kind"], "Subscription");
    assert!(
        env.describe().contains("state=AtLatestKnown"),
        "{}",
        env.describe()
    );
    env.set_left_out(&[]);
    env.subscribe("other", &json!({}));
    env.settle();
    assert_eq!(env.events.len(), 1, "{:#?}", env.events);
}

/// A plan that waits by policy says both.
#[test]
fn an_obstacle_and_a_policy_are_both_named() {
    let mut env = TestEnv::with_catalog(demo());
    env.edit(
        "OperatorGroup",
        "og",
        &json!({"status": {"namespaces": [NAMESPACE]}}),
    );
    env.set_csv_spec(&json!({"installModes": [{"type": "AllNamespaces", "supported": true}]}));
    env.subscribe("demo", &json!({"startingCSV": "demo.v1"}));
    env.settle();
    env.carry_out_plans();
    env.edit(
        "Subscription",
        "demo-sub",
        &json!({"metadata": {"annotations": {"operatorframework.io/upgrade-approve": "patch"}},
            "spec": {"installPlanApproval": "Manual"}}),
    );
    env.settle();
    let told = env.describe();
    assert!(
        told.contains("RequiresApproval when this plan was created: bundle demo.v2 does not support")
            && told.contains("; waiting by policy: "),
        "{told}"
    );
}

/// Durations that are far too long, or far too short, block nothing.
#[test]
fn durations_of_annotations_are_bounded() {
    let mut env = TestEnv::with_catalog(demo());
    let retry = "operatorframework.io/bundle-unpack-min-retry-interval";
    let timeout = "operatorframework.io/bundle-unpack-timeout";
    env.add_group(
        "og",
        &json!({retry: "1ms", timeout: "3000000000000000h"}),
        &json!({}),
    );
    env.break_image("reg/demo:v3", UnpackClass::InvalidManifest, "no bundle");
    env.subscribe("demo", &json!({}));
    env.settle();
    assert!(
        !env.describe().contains("state=UpgradePending"),
        "{}",
        env.describe()
    );
    env.mend_images();
    env.advance(Duration::from_secs(10));
    assert!(
        env.describe().contains("state=UpgradePending"),
        "{}",
        env.describe()
    );
}

/// A Subscription that cannot be resolved, or whose bundle is unavailable, delays no other.
#[test]
fn one_broken_operator_does_not_freeze_its_namespace() {
    let bundles = vec![
        bundle("demo.v1"),
        bundle("other.v1"),
        bundle("third.v1").requires("Nothing"),
        bundle("fourth.v1"),
    ];
    let mut env = TestEnv::with_catalog(bundles);
    env.break_image(
        "reg/other:v1",
        UnpackClass::NoRoom,
        "image `reg/other:v1`: no room",
    );
    env.subscribe("demo", &json!({}));
    env.subscribe("other", &json!({}));
    env.subscribe("third", &json!({}));
    env.settle();
    insta::assert_snapshot!(env.describe(), @r"
    demo-sub: state=UpgradePending installed=- current=demo.v1 gen=1
      CatalogSourcesUnhealthy=False/AllCatalogSourcesHealthy all available catalogsources are healthy
      InstallPlanPending=True/Installing
    other-sub: state= installed=- current=- gen=0
      CatalogSourcesUnhealthy=False/AllCatalogSourcesHealthy all available catalogsources are healthy
      BundleUnpackFailed=True/BundleUnpackFailed Bundle unpacking failed - NoRoom: bundle other.v1: image `reg/other:v1`: no room; give the pod of catalog-operator a writable volume with free space, and set a folder in it with --unpack-cache
    third-sub: state= installed=- current=- gen=0
      CatalogSourcesUnhealthy=False/AllCatalogSourcesHealthy all available catalogsources are healthy
      ResolutionFailed=True/ConstraintsNotSatisfiable constraints not satisfiable: bundle third.v1 requires an operator providing an API with group: example.com, version: v1, kind: Nothing, subscription third-sub exists, subscription third-sub requires cat/ns/stable/third.v1
    - subscription third-sub asks for package third, channel stable of catalog ns/cat
      - third.v1 (channel stable of catalog ns/cat)
        - requires an operator providing an API with group: example.com, version: v1, kind: Nothing
          - not installed, and no usable catalog offers it: add a catalog that does
    to resolve: delete subscription third-sub in namespace ns, if it is not needed
    plan gen=1 Automatic approved=true demo.v1: Installing ClusterServiceVersion/demo.v1
    ");
    let events: std::collections::BTreeSet<&str> = env
        .events
        .iter()
        .map(|event| event["reason"].as_str().unwrap())
        .collect();
    assert_eq!(
        (env.events.len(), events.into_iter().collect::<Vec<_>>()),
        (2, vec!["BundleUnpackFailed", "ResolutionFailed"])
    );
    env.subscribe("fourth", &json!({}));
    env.settle();
    assert_eq!(env.events.len(), 2, "it was told: {:#?}", env.events);
    env.delete("Subscription", "fourth-sub");
    env.settle();
    env.mend_images();
    env.settle();
    assert!(
        env.describe()
            .contains("plan gen=3 Automatic approved=true other.v1: Installing"),
        "{}",
        env.describe()
    );
    assert!(!env.describe().contains("BundleUnpack"), "{}", env.describe());
}

#[test]
fn a_bundle_that_takes_long_is_mentioned_and_then_not_any_more() {
    let mut env = TestEnv::with_catalog(demo());
    env.slow_images(Duration::from_secs(8));
    env.subscribe("demo", &json!({}));
    env.advance(Duration::from_secs(4));
    assert!(
        env.describe()
            .contains("BundleUnpacking=True/UnpackingInProgress"),
        "{}",
        env.describe()
    );
    assert!(env.plans().is_empty());
    env.advance(Duration::from_secs(5));
    assert_eq!(env.plans().len(), 1);
    env.settle();
    assert!(!env.describe().contains("BundleUnpacking"), "{}", env.describe());
}

/// A broken global catalog that could matter blocks until it is excluded.
#[test]
fn hlt_002_a_catalog_that_cannot_be_read_blocks_only_what_it_could_change() {
    let mut env = TestEnv::with_catalog(vec![bundle("upper.v1").requires("Ofdemo"), bundle("plain.v1")]);
    let failing = json!({"reason": "RegistryServerError", "message": "couldn't connect to registry - refused",
        "registryService": {}, "connectionState": {"lastObservedState": "TRANSIENT_FAILURE"}});
    env.put_source(
        GLOBAL,
        "global",
        &json!({"sourceType": "grpc", "address": "h:1"}),
        &failing,
    );
    env.subscribe("upper", &json!({}));
    env.subscribe("plain", &json!({}));
    env.settle();
    let told = env.describe();
    assert!(told.contains("CatalogSourcesUnhealthy=False/AllCatalogSourcesHealthy all available catalogsources are healthy; unavailable: olm/global\n"), "{told}");
    assert!(told.contains("error using catalogsource olm/global: no registry client established for catalogsource olm/global: couldn't connect to registry - refused"), "{told}");
    assert!(
        told.contains("plan gen=1 Automatic approved=true plain.v1"),
        "{told}"
    );
    env.add_group(
        "og",
        &json!({"olm.operatorframework.io/exclude-global-namespace-resolution": "true"}),
        &json!({}),
    );
    env.settle();
    let told = env.describe();
    assert!(
        told.contains("ConstraintsNotSatisfiable") && !told.contains("error using"),
        "{told}"
    );
}

fn put_failing(env: &mut TestEnv, name: &str) {
    let status = json!({"reason": "RegistryServerError", "message": "couldn't connect to registry - refused",
        "registryService": {}, "connectionState": {"lastObservedState": "TRANSIENT_FAILURE"}});
    let spec = json!({"sourceType": "grpc", "address": "h:1", "priority": 100});
    env.put_source(NAMESPACE, name, &spec, &status);
}

/// A bundle of the Subscription's own catalog is not taken from another one while that catalog cannot be read.
#[test]
fn hlt_004_no_other_catalog_stands_in_for_an_unhealthy_one() {
    let mut env = TestEnv::with_catalog(vec![bundle("upper.v1").requires("Ofdemo"), bundle("demo.v1")]);
    put_failing(&mut env, "high");
    env.subscribe("upper", &json!({"source": "high"}));
    env.settle();
    let told = env.describe();
    assert!(
        told.contains("targeted catalogsource ns/high unhealthy"),
        "{told}"
    );
    assert!(env.plans().is_empty(), "{told}");
}

#[test]
fn hlt_005_resolution_goes_on_when_the_unhealthy_catalog_is_removed() {
    let mut env = TestEnv::with_catalog(vec![bundle("upper.v1").requires("Ofdemo")]);
    put_failing(&mut env, "high");
    env.subscribe("upper", &json!({}));
    env.settle();
    let told = env.describe();
    assert!(told.contains("; unavailable: ns/high"), "{told}");
    assert!(told.contains("error using catalogsource ns/high"), "{told}");
    env.delete("CatalogSource", "high");
    env.settle();
    let told = env.describe();
    assert!(
        !told.contains("unavailable") && !told.contains("error using"),
        "{told}"
    );
    // Resolution has gone on to its own answer.
    assert!(told.contains("ConstraintsNotSatisfiable"), "{told}");
}

/// While a catalog starts, its Subscriptions say neither that it is unhealthy nor that resolution failed.
#[test]
fn a_starting_catalog_is_waited_for() {
    let mut env = TestEnv::new();
    env.add_group("og", &json!({}), &json!({}));
    let starting = json!({"registryService": {"protocol": "grpc"}, "connectionState": {"address": "a", "lastObservedState": "CONNECTING"}});
    env.put_source(
        NAMESPACE,
        "cat",
        &json!({"sourceType": "grpc", "image": "i"}),
        &starting,
    );
    env.subscribe("demo", &json!({}));
    env.settle();
    insta::assert_snapshot!(env.describe(), @r"
    demo-sub: state= installed=- current=- gen=0
      CatalogSourcesUnhealthy=False/AllCatalogSourcesHealthy all available catalogsources are healthy
    ");
    assert_eq!(env.writes.len(), 1);
    env.serve(NAMESPACE, "cat", demo());
    env.settle();
    env.carry_out_plans();
    env.settle();
    assert!(
        env.describe().contains("state=AtLatestKnown"),
        "{}",
        env.describe()
    );
    let written = env
        .writes
        .iter()
        .filter(|write| write.contains("Subscription"))
        .count();
    assert!(written <= 4, "{:#?}", env.writes);
}
