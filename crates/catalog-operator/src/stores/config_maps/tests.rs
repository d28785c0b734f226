//! What is kept of ConfigMaps, and how many are watched.

use olm_testing::cluster::FakeCluster;
use serde_json::{Value, json};

use super::*;

fn hash(fields: &Value) -> String {
    let mut object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m", "annotations": {"a": "b"}}});
    object
        .as_object_mut()
        .unwrap()
        .extend(fields.as_object().unwrap().clone());
    ContentHash::of(serde_json::from_value(object).unwrap()).0
}

#[test]
fn only_the_catalog_counts() {
    let empty = hash(&json!({}));
    let some = hash(&json!({"data": {"packages": "x"}}));
    assert_ne!(some, empty);
    assert_eq!(hash(&json!({"data": {"packages": "x", "other": "y"}})), some);
    assert_eq!(hash(&json!({"data": {"other": "y"}})), empty);
    // The folder in the pod has files of both.
    assert_eq!(hash(&json!({"binaryData": {"packages": "eA=="}})), some);
    let file = content_hash(|key| (key == "packages").then_some(Cow::Borrowed(b"x".as_slice())));
    assert_eq!(some, file);
}

#[tokio::test(start_paused = true)]
async fn a_namespace_cannot_have_connections_without_end() {
    let cluster = FakeCluster::new();
    let (client, _link) = cluster.connect();
    let config_maps = ConfigMaps::register(&StoreSet::new(), &client);
    let source = |namespace: &str, number: usize| NamespacedName::new(namespace, format!("cat-{number}"));
    for number in 0..MAX_WATCHED {
        let state = config_maps
            .of_source(&source("ns", number), &format!("map-{number}"))
            .await;
        assert_eq!(state, ConfigMapState::Missing);
    }
    let more = source("ns", MAX_WATCHED);
    assert_eq!(
        config_maps.of_source(&more, "one-more").await,
        ConfigMapState::TooMany
    );
    // One that is watched already costs nothing, and others have their own.
    assert_eq!(
        config_maps.of_source(&more, "map-0").await,
        ConfigMapState::Missing
    );
    let elsewhere = source("other", 0);
    assert_eq!(
        config_maps.of_source(&elsewhere, "one-more").await,
        ConfigMapState::Missing
    );
    config_maps.forget(&source("ns", 1));
    assert_eq!(
        config_maps.of_source(&more, "one-more").await,
        ConfigMapState::Missing
    );
}
