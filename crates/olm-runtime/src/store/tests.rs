//! What stores make of changes that come late, twice or in the wrong order.

use k8s_openapi::api::core::v1::ConfigMap;
use olm_api::labels;

use super::set::prepare_metadata;
use super::*;

fn config_map(name: &str, uid: &str, version: u64) -> ConfigMap {
    let mut object = ConfigMap::default();
    object.metadata.name = Some(name.to_owned());
    object.metadata.namespace = Some("ns".to_owned());
    object.metadata.uid = Some(uid.to_owned());
    object.metadata.resource_version = Some(version.to_string());
    object
}

#[test]
fn metadata_is_kept_without_kubectls_copy_of_the_object() {
    let mut object = config_map("a", "1", 1);
    let annotations = [(labels::LAST_APPLIED_CONFIGURATION, "{}"), ("kept", "yes")];
    object.metadata.annotations = Some(
        annotations
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .into(),
    );
    prepare_metadata(&mut object.metadata);
    assert_eq!(
        object.metadata.annotations,
        Some([("kept".to_owned(), "yes".to_owned())].into())
    );
}

fn known_version(store: &Store<ConfigMap>) -> Option<u64> {
    store.get("ns", "a").map(|object| version_of(object.as_ref()))
}

#[test]
fn an_older_object_does_not_replace_a_newer_one() {
    let store = Store::new();
    store.put(config_map("a", "1", 7));
    store.put(config_map("a", "1", 5));
    assert_eq!(known_version(&store), Some(7));
}

#[test]
fn a_late_answer_does_not_revive_a_deleted_object() {
    let store = Store::new();
    store.put(config_map("a", "1", 5));
    store.take(&NamespacedName::new("ns", "a"), Some("1"), 9);
    store.put(config_map("a", "1", 8));
    assert_eq!(known_version(&store), None);
    store.put(config_map("a", "2", 12));
    assert_eq!(known_version(&store), Some(12));
}

#[test]
fn the_deletion_of_a_namesake_is_ignored() {
    let store = Store::new();
    store.put(config_map("a", "2", 12));
    store.take(&NamespacedName::new("ns", "a"), Some("1"), 9);
    assert_eq!(known_version(&store), Some(12));
}

#[test]
fn what_a_relist_does_not_show_is_gone_and_told() {
    let store = Store::new();
    let told = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&told);
    store.on_change(move |change: &Change<ConfigMap>| {
        let gone = matches!(change, Change::Deleted { .. });
        log.lock().unwrap().push((change.object().name_any(), gone));
    });
    store.put(config_map("a", "1", 1));
    store.put(config_map("b", "2", 2));
    store.keep_only(&BTreeSet::from([NamespacedName::new("ns", "b")]));
    assert!(store.is_ready());
    assert_eq!(
        *told.lock().unwrap(),
        vec![
            ("a".to_owned(), false),
            ("b".to_owned(), false),
            ("a".to_owned(), true)
        ]
    );
}

#[test]
fn a_namespace_is_listed_alone_and_in_order() {
    let store = Store::new();
    for (namespace, name) in [("b", "x"), ("a", "y"), ("a", "x"), ("aa", "x")] {
        let mut object = config_map(name, "1", 1);
        object.metadata.namespace = Some(namespace.to_owned());
        store.put(object);
    }
    let names: Vec<String> = store
        .list_in("a")
        .iter()
        .map(|object| object.name_any())
        .collect();
    assert_eq!(names, ["x", "y"]);
    let named_x = store.list_where(|object| object.name_any() == "x");
    let namespaces: Vec<_> = named_x.iter().filter_map(|object| object.namespace()).collect();
    assert_eq!(namespaces, ["a", "aa", "b"]);
}
