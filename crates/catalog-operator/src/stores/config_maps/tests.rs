//! What is kept of ConfigMaps, and when they are known.

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
    let (source, before) = (NamespacedName::new("ns", "cat"), Instant::now());
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

/// Each watch is a request that stays open, and anybody with `edit` may make catalogs.
#[tokio::test(start_paused = true)]
async fn a_namespace_has_a_limited_number_of_watches() {
    let rig = Rig::new();
    let source = |number: usize| NamespacedName::new("ns", format!("cat-{number}"));
    let state = |number: usize| rig.config_maps.of_source(&source(number), "map");
    for number in 0..MOST_WATCHED {
        assert_eq!(state(number), ConfigMapState::Asked, "{number}");
    }
    let cause = "namespace ns has more than 100 catalogs in ConfigMaps".to_owned();
    assert_eq!(state(MOST_WATCHED), ConfigMapState::Unread(Some(cause)));
    assert_eq!(state(0), ConfigMapState::Asked, "it is watched already");
    rig.config_maps.forget(&source(0));
    assert_eq!(state(MOST_WATCHED), ConfigMapState::Asked);
}
