//! What is kept of ConfigMaps, and how many are watched.

use olm_testing::cluster::{FakeCluster, Fault, Link, Refusal};
use serde_json::{Value, json};

use super::*;

fn hash(fields: &Value) -> String {
    let mut object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m", "annotations": {"a": "b"}}});
    object
        .as_object_mut()
        .unwrap()
        .extend(fields.as_object().unwrap().clone());
    CatalogContent::of(serde_json::from_value(object).unwrap()).hash
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

struct Rig {
    config_maps: ConfigMaps,
    cluster: FakeCluster,
    _link: Link,
}

fn source(namespace: &str, number: usize) -> NamespacedName {
    NamespacedName::new(namespace, format!("cat-{number}"))
}

impl Rig {
    fn new() -> Self {
        let cluster = FakeCluster::new();
        let (client, link) = cluster.connect();
        Self {
            config_maps: ConfigMaps::register(&StoreSet::new(), &client),
            cluster,
            _link: link,
        }
    }

    /// What is known once there was time to look.
    async fn later(&self, source: &NamespacedName, name: &str) -> ConfigMapState {
        self.config_maps.of_source(source, name);
        tokio::time::sleep(Duration::from_millis(500)).await;
        self.config_maps.of_source(source, name)
    }
}

#[tokio::test(start_paused = true)]
async fn a_namespace_cannot_have_connections_without_end() {
    let rig = Rig::new();
    for number in 0..MAX_WATCHED {
        let state = rig.later(&source("ns", number), &format!("map-{number}")).await;
        assert_eq!(state, ConfigMapState::Missing);
    }
    let more = source("ns", MAX_WATCHED);
    assert_eq!(rig.later(&more, "one-more").await, ConfigMapState::TooMany);
    // One that is watched already costs nothing, and others have their own.
    assert_eq!(rig.later(&more, "map-0").await, ConfigMapState::Missing);
    let elsewhere = source("other", 0);
    assert_eq!(rig.later(&elsewhere, "one-more").await, ConfigMapState::Missing);
    // One that nobody needs any more goes on for a while.
    rig.config_maps.forget(&source("ns", 1));
    assert_eq!(rig.later(&more, "one-more").await, ConfigMapState::TooMany);
    tokio::time::sleep(Duration::from_secs(61)).await;
    assert_eq!(rig.later(&more, "one-more").await, ConfigMapState::Missing);
}

#[tokio::test(start_paused = true)]
async fn a_source_that_names_another_each_time_has_no_more_connections() {
    let rig = Rig::new();
    let watched = || rig.config_maps.watches.scopes().len();
    let mut most = 0;
    for number in 0..100 {
        rig.config_maps
            .of_source(&source("ns", 0), &format!("map-{number}"));
        most = most.max(watched());
    }
    assert_eq!(most, MAX_WATCHED);
    rig.config_maps.forget(&source("ns", 0));
    tokio::time::sleep(Duration::from_secs(61)).await;
    assert_eq!(watched(), 0);
}

/// An API server that does not answer keeps nobody waiting, and is named when that lasts.
#[tokio::test(start_paused = true)]
async fn the_first_look_is_not_waited_for() {
    let rig = Rig::new();
    let told = Arc::<Mutex<Vec<String>>>::default();
    let heard = Arc::clone(&told);
    rig.config_maps
        .on_change(move |config_map| heard.lock().push(config_map.name.clone()));
    rig.cluster
        .on_request(|_| Some(Fault::Refuse(Refusal::invalid("unable to parse requirement"))));
    let (source, before) = (source("ns", 0), Instant::now());
    assert_eq!(rig.config_maps.of_source(&source, "map"), ConfigMapState::Asked);
    assert_eq!(before.elapsed(), Duration::ZERO);
    tokio::time::sleep(PATIENCE).await;
    let cause = "the API server answers 422 Invalid".to_owned();
    assert_eq!(
        rig.config_maps.of_source(&source, "map"),
        ConfigMapState::Unread(Some(cause))
    );
    assert!(told.lock().is_empty());
    // It answers: who asked is woken, though there is no ConfigMap that could change.
    rig.cluster.clear_hooks();
    tokio::time::sleep(Duration::from_secs(120)).await;
    assert_eq!(*told.lock(), ["map"]);
    assert_eq!(rig.config_maps.of_source(&source, "map"), ConfigMapState::Missing);
}
