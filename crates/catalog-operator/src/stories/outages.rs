//! Uses of a catalog's last good content while its server is away.

use olm_testing::stage::story::tell;
use serde_json::{Value, json};

use super::Step::{Put, Serve};
use super::{after, subscription};
use crate::test_env::{BundleRow, TestEnv, bundle};

fn catalog() -> Value {
    json!({"apiVersion": "operators.coreos.com/v1alpha1", "kind": "CatalogSource", "metadata": {"namespace": "ns", "name": "cat"},
        "spec": {"sourceType": "grpc", "address": "former:50051"}})
}

fn subscribed(package: &str) -> Value {
    let mut object = subscription("Automatic");
    object["metadata"]["name"] = json!(package);
    object["spec"]["name"] = json!(package);
    object
}

/// With `demo` installed from a catalog that does not answer any more.
fn outage(bundles: Vec<BundleRow>) -> TestEnv {
    let mut env = after(&[Serve(bundles), Put(catalog()), Put(subscribed("demo"))]);
    env.outside.set_unreachable(true);
    env.settle_for(60);
    env
}

fn condition(env: &TestEnv, subscription: &str, kind: &str) -> Option<String> {
    let object = env.get("Subscription", subscription).unwrap();
    let conditions = object["status"]["conditions"].as_array()?;
    let found = conditions.iter().find(|condition| condition["type"] == kind)?;
    assert_eq!(found["status"], "True");
    Some(found["message"].as_str().unwrap_or_default().to_owned())
}

fn is_installed(env: &TestEnv, name: &str) -> bool {
    env.get("ClusterServiceVersion", name).is_some()
}

/// Nothing is installed from a catalog that is not READY, although its content is known; this is reported, and installed later.
#[test]
fn hlt_002_from_a_catalog_that_is_not_ready_nothing_is_installed_and_its_last_content_is_reported() {
    let mut env = outage(vec![bundle("demo.v1"), bundle("other.v1")]);
    tell(&mut env, &[Put(subscribed("other")), Put(subscribed("nope"))]);
    env.settle_for(60);
    assert!(!is_installed(&env, "other.v1"));
    let told = condition(&env, "other", "CatalogSourcesUnhealthy").unwrap();
    assert_eq!(told, "targeted catalogsource ns/cat unhealthy");
    let told = condition(&env, "other", "ResolutionFailed").unwrap();
    assert!(told.contains("error using catalogsource ns/cat"), "{told}");
    assert!(
        told.ends_with("catalogs that are not READY offered other.v1: it is installed once they are READY"),
        "{told}"
    );
    // A Subscription that fails anyway reports its own reason.
    let told = condition(&env, "nope", "ResolutionFailed").unwrap();
    assert!(told.contains("no operators found in package nope"), "{told}");
    // An up-to-date Subscription lacks nothing.
    assert_eq!(condition(&env, "demo", "ResolutionFailed"), None);

    env.outside.set_unreachable(false);
    env.settle_for(120);
    assert!(is_installed(&env, "other.v1"));
    assert_eq!(condition(&env, "other", "ResolutionFailed"), None);
}

#[test]
fn deprecations_outlive_an_outage() {
    let mut env = outage(vec![bundle("demo.v1").deprecated("take another")]);
    for _ in 0..2 {
        let told = condition(&env, "demo", "BundleDeprecated").unwrap();
        assert_eq!(told, "olm.bundle/demo.v1: take another");
        assert_eq!(condition(&env, "demo", "ResolutionFailed"), None);
        // A new Subscription has the namespace resolved again.
        tell(&mut env, &[Put(subscribed("other"))]);
        env.settle_for(3600);
    }
    // Their reports are computed from the known content, not only left unchanged.
    env.edit("Subscription", "demo", &json!({"status": {"conditions": []}}));
    env.settle_for(60);
    assert!(condition(&env, "demo", "BundleDeprecated").is_some());
}

/// The content of another address is other content.
#[test]
fn a_catalog_that_has_moved_is_not_resolved_from_what_was_at_the_former_address() {
    for moved in [false, true] {
        let mut env = outage(vec![bundle("demo.v1"), bundle("other.v1")]);
        if moved {
            let elsewhere = json!({"spec": {"address": "elsewhere:50051"}});
            env.edit("CatalogSource", "cat", &elsewhere);
        }
        env.rest();
        tell(&mut env, &[Put(subscribed("other"))]);
        env.settle_for(60);
        assert!(!is_installed(&env, "other.v1"));
        let told = condition(&env, "other", "ResolutionFailed").unwrap();
        assert_eq!(
            told.contains("offered other.v1"),
            !moved,
            "moved: {moved}: {told}"
        );
    }
}

/// Contents are lost with the process. The next one reads the catalog when its server answers, and keeps reported states until then.
#[test]
fn the_next_process_reads_a_catalog_again_once_its_server_answers() {
    let mut env = outage(vec![
        bundle("demo.v1").deprecated("take another"),
        bundle("other.v1"),
    ]);
    for _ in 0..2 {
        env.stage.kill();
        env.settle_for(60);
        tell(&mut env, &[Put(subscribed("other"))]);
        env.settle_for(60);
        assert!(!is_installed(&env, "other.v1"));
        let told = condition(&env, "other", "ResolutionFailed").unwrap();
        assert!(told.contains("error using catalogsource ns/cat"), "{told}");
        let told = condition(&env, "demo", "BundleDeprecated").unwrap();
        assert_eq!(told, "olm.bundle/demo.v1: take another");
    }
    env.outside.set_unreachable(false);
    env.settle_for(120);
    assert!(is_installed(&env, "other.v1"));
    assert_eq!(condition(&env, "other", "ResolutionFailed"), None);
}
