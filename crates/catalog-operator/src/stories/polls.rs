//! Catalogs behind a tag that moves, on a cluster in memory.

use serde_json::{Value, json};

use super::{first, second, subscription};
use crate::test_env::TestEnv;

const IMAGE: &str = "reg/cat:latest";

fn begin(digest: Option<&str>) -> TestEnv {
    let mut env = TestEnv::new();
    env.outside.serve(first());
    move_tag(&env, "sha256:1", digest);
    env.put(json!({"apiVersion": "operators.coreos.com/v1alpha1", "kind": "CatalogSource", "metadata": {"namespace": "ns", "name": "cat"},
        "spec": {"sourceType": "grpc", "image": IMAGE, "updateStrategy": {"registryPoll": {"interval": "10m"}}}}));
    env.put(subscription("Automatic"));
    env.rest();
    assert_eq!(env.only("Subscription")["status"]["installedCSV"], "demo.v1");
    env
}

/// The image that nodes find behind the tag from now on, and the registry's answer to the operator.
fn move_tag(env: &TestEnv, pulled: &str, told: Option<&str>) {
    env.outside.set_digest(IMAGE, told);
    let digests = [(IMAGE.to_owned(), pulled.to_owned())];
    env.cluster
        .set_controllers(|known| known.image_digests = digests.into());
}

fn pod(env: &TestEnv) -> (Value, Value) {
    let pod = env.only("Pod");
    (
        pod["metadata"]["name"].clone(),
        pod["status"]["containerStatuses"][0]["imageID"].clone(),
    )
}

fn polled(env: &TestEnv) -> Value {
    env.only("CatalogSource")["status"]["latestImageRegistryPoll"].clone()
}

#[test]
fn cat_017_cat_022_opm_007_upg_026_a_tag_that_moves_upgrades_an_operator() {
    let mut env = begin(Some("sha256:1"));
    let before = pod(&env);
    assert_eq!(
        polled(&env),
        Value::Null,
        "the first poll is an interval after the catalog"
    );

    // Nothing new: one status for each poll.
    let writes = env.writes.len();
    env.settle_for(3600);
    let polls = env.outside.polled();
    assert!((5..=6).contains(&polls), "{polls}");
    assert_eq!(env.writes.len() - writes, polls, "{:?}", &env.writes[writes..]);
    assert_eq!(pod(&env), before);
    let told = polled(&env);
    assert_ne!(told, Value::Null);

    // The tag moves, and what is new is installed.
    move_tag(&env, "sha256:2", Some("sha256:2"));
    env.outside.serve(second());
    env.settle_for(720);
    env.rest();
    let after = pod(&env);
    assert_ne!(after.0, before.0);
    assert_eq!(after.1, "reg/cat:latest@sha256:2");
    assert_ne!(polled(&env), told);
    let labels = env.only("Pod")["metadata"]["labels"].clone();
    assert_eq!(labels["olm.catalogSource"], "cat");
    assert_eq!(labels["catalogsource.operators.coreos.com/update"], Value::Null);
    let status = env.only("CatalogSource")["status"].clone();
    assert_eq!(status["connectionState"]["lastObservedState"], "READY");
    assert_eq!(env.only("Subscription")["status"]["installedCSV"], "demo.v2");

    // And then there is nothing new again.
    env.settle_for(3600);
    assert_eq!(pod(&env), after);
}

/// The old pod goes when the new one serves, and not before.
#[test]
fn cat_024_a_catalog_serves_while_its_successor_starts() {
    let mut env = begin(Some("sha256:1"));
    move_tag(&env, "sha256:2", Some("sha256:2"));
    env.cluster.set_controllers(|known| known.pods = false);
    env.settle_for(720);
    let pods = env.all("Pod");
    let labels = pods
        .iter()
        .map(|pod| pod["metadata"]["labels"]["olm.catalogSource"].as_str());
    let mut labels: Vec<Option<&str>> = labels.collect();
    labels.sort_unstable();
    assert_eq!(labels, [Some(""), Some("cat")]);
    let status = env.only("CatalogSource")["status"].clone();
    assert_eq!(status["connectionState"]["lastObservedState"], "READY");
    // Further polls make no further pods.
    env.settle_for(3600);
    assert_eq!(env.all("Pod").len(), 2);
    env.cluster.set_controllers(|known| known.pods = true);
    env.cluster.control();
    env.settle_for(30);
    assert_eq!(pod(&env).1, "reg/cat:latest@sha256:2");
}

/// The registry does not answer the operator.
#[test]
fn cat_017_a_tag_that_moves_is_found_by_a_pod() {
    let mut env = begin(None);
    let before = pod(&env);
    env.settle_for(720);
    assert_eq!(pod(&env), before);
    assert!(env.outside.polled() > 0);
    move_tag(&env, "sha256:2", None);
    env.settle_for(720);
    assert_ne!(pod(&env), before);
    assert_eq!(pod(&env).1, "reg/cat:latest@sha256:2");
}

/// Nothing is left of what looked for newer content.
#[test]
fn cat_026_a_catalog_that_is_deleted_takes_the_pod_that_looks_along() {
    let mut env = begin(Some("sha256:1"));
    move_tag(&env, "sha256:2", Some("sha256:2"));
    env.cluster.set_controllers(|known| known.pods = false);
    env.settle_for(720);
    assert_eq!(env.all("Pod").len(), 2);
    env.delete("CatalogSource", "cat");
    env.settle_for(30);
    assert!(env.all("Pod").is_empty());
    let polls = env.outside.polled();
    env.settle_for(3600);
    assert_eq!(env.outside.polled(), polls);
}
