//! Tests of stores with changes that arrive late, twice or in the wrong order.

use futures::FutureExt;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::ResourceExt;
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

#[tokio::test]
async fn readiness_may_wait_for_more_than_stores() {
    let (there, is_there) = channel::channel(false);
    let mut set = StoreSet::new();
    set.ready_with("contents", is_there);
    let mut stores = set.start(&mut tokio::task::JoinSet::new());
    assert_eq!(stores.missing(), ["contents"]);
    // Controllers do not.
    stores.wait().await;
    there.send_replace(true);
    assert_eq!(stores.missing(), [""; 0]);
}

fn errors<K>(store: &Store<K>) -> BTreeMap<NamespacedName, String> {
    store.shared.unreadable.lock().clone()
}

fn known_version(store: &Store<ConfigMap>) -> Option<u64> {
    store
        .get("ns", "a")
        .and_then(|object| stamp_of(object.as_ref()).version)
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
    store.on_deleted(&stamp_of(&config_map("a", "1", 9)));
    store.put(config_map("a", "1", 8));
    assert_eq!(known_version(&store), None);
    store.put(config_map("a", "2", 12));
    assert_eq!(known_version(&store), Some(12));
}

#[test]
fn the_deletion_of_a_namesake_is_ignored() {
    let store = Store::new();
    store.put(config_map("a", "2", 12));
    store.on_deleted(&stamp_of(&config_map("a", "1", 9)));
    assert_eq!(known_version(&store), Some(12));
}

/// Found by the property test of stores. The answer to a write arrives after that to a deletion, and after a list that contains neither.
#[test]
fn a_late_answer_revives_nothing_between_a_list_and_its_watch() {
    let store = Store::new();
    store.relist_begins();
    store.listed(config_map("a", "1", 5));
    store.relist_ends();
    store.watching_from(5);
    // Written at 7, deleted at 9; only the deletion is answered.
    store.delete_uid(&NamespacedName::new("ns", "a"), "1");
    store.relist_begins();
    store.relist_ends();
    store.put(config_map("a", "1", 7));
    assert_eq!(known_version(&store), None);
    store.watching_from(9);
    store.put(config_map("a", "1", 7));
    assert_eq!(known_version(&store), None);
    // A new object with the same name.
    store.put(config_map("a", "2", 10));
    assert_eq!(known_version(&store), Some(10));
}

/// A reconcile deletes many objects while the watch is behind: late events of the watch revive none of them.
#[test]
fn many_deletions_that_the_watch_has_not_reported_are_all_remembered() {
    let store = Store::new();
    store.relist_begins();
    store.relist_ends();
    store.watching_from(1);
    let name = |number: u64| format!("a{number:03}");
    for number in 0..200 {
        store.put(config_map(&name(number), &name(number), 10 + number));
    }
    for number in 0..200 {
        store.delete_uid(&NamespacedName::new("ns", name(number)), &name(number));
    }
    assert_eq!(store.len(), 0);
    for number in 0..200 {
        store.on_applied(config_map(&name(number), &name(number), 10 + number));
        assert_eq!(store.len(), 0, "{number} is back");
    }
    for number in 0..200 {
        store.on_deleted(&stamp_of(&config_map(&name(number), &name(number), 300 + number)));
    }
    let remembered = store.read(Contents::remembered);
    assert!(remembered <= 64, "{remembered}");
}

#[test]
fn what_a_relist_does_not_show_is_gone_and_reported() {
    let store = Store::new();
    let told = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&told);
    store.on_change(move |change: &Change<ConfigMap>| {
        let gone = matches!(change, Change::Deleted { .. });
        log.lock().push((change.object().name_any(), gone));
    });
    store.put(config_map("a", "1", 1));
    store.put(config_map("b", "2", 2));
    store.relist_begins();
    store.listed(config_map("b", "2", 2));
    assert!(!store.is_ready());
    store.relist_ends();
    assert!(store.is_ready());
    assert_eq!(
        *told.lock(),
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

/// An object created during a list is not in it, and is not deleted for that. The watch, which starts at the list's version, reports it
/// again.
#[test]
fn what_was_made_during_a_relist_stays() {
    let store = Store::new();
    store.put(config_map("b", "2", 2));
    store.relist_begins();
    store.listed(config_map("b", "2", 2));
    store.put(config_map("a", "1", 10));
    store.relist_ends();
    store.watching_from(8);
    assert_eq!(known_version(&store), Some(10));
    store.on_applied(config_map("a", "1", 10));
    assert_eq!(known_version(&store), Some(10));
}

/// The opposite: an object that the list should contain was deleted before the list was made, and no event will report that.
#[test]
fn what_was_made_and_deleted_before_a_list_is_gone() {
    for absorbed in [
        "before the end of the list",
        "before the watch",
        "when the watch runs",
    ] {
        let store = Store::new();
        let absorb = |when: &str| {
            if when == absorbed {
                store.put(config_map("a", "1", 10));
            }
        };
        store.relist_begins();
        store.listed(config_map("b", "2", 2));
        absorb("before the end of the list");
        store.relist_ends();
        absorb("before the watch");
        store.watching_from(12);
        absorb("when the watch runs");
        assert_eq!(known_version(&store), None, "absorbed {absorbed}");
    }
}

#[test]
fn what_we_deleted_is_gone_at_once_and_old_news_does_not_bring_it_back() {
    let store = Store::new();
    store.put(config_map("a", "1", 5));
    store.delete_uid(&NamespacedName::new("ns", "a"), "1");
    assert_eq!(known_version(&store), None);
    store.on_applied(config_map("a", "1", 7));
    assert_eq!(
        known_version(&store),
        None,
        "changed by somebody before it was deleted"
    );
    store.on_applied(config_map("a", "2", 9));
    assert_eq!(known_version(&store), Some(9));
}

/// After a restored backup the server's versions start lower than those seen. The store detects it and trusts the next list.
#[test]
fn a_server_restored_from_a_backup_is_listed_again() {
    let store = Store::new();
    store.on_applied(config_map("a", "1", 100));
    let list = |version: u64, object: &ConfigMap| {
        store.relist_begins();
        store.listed(object.clone());
        store.relist_ends();
        store.watching_from(version);
    };
    list(50, &config_map("a", "1", 40));
    assert!(store.shared.history_restarted.notified().now_or_never().is_some());
    list(50, &config_map("a", "1", 40));
    assert_eq!(known_version(&store), Some(40));
    store.on_applied(config_map("a", "1", 51));
    assert_eq!(known_version(&store), Some(51));
}

#[test]
fn an_object_that_cannot_be_read_keeps_its_last_form_and_is_reported_once() {
    let store = Store::new();
    store.put(config_map("a", "1", 5));
    let unreadable = stamp_of(&config_map("a", "1", 6));
    assert!(store.mark_unreadable(&unreadable, false, "no number"));
    assert!(!store.mark_unreadable(&unreadable, false, "no number"));
    store.relist_begins();
    assert!(!store.mark_unreadable(&unreadable, true, "no number"));
    store.relist_ends();
    store.watching_from(8);
    assert_eq!(known_version(&store), Some(5));
    assert_eq!(errors(&store)[&unreadable.key], "no number");
    // The late answer to a write of ours is older than the unreadable state.
    store.put(config_map("a", "1", 5));
    assert_eq!(errors(&store)[&unreadable.key], "no number");
    store.on_applied(config_map("a", "1", 9));
    assert!(errors(&store).is_empty());
}

#[test]
fn what_was_unreadable_and_went_during_a_relist_is_forgotten() {
    let store = Store::<ConfigMap>::new();
    let gone = stamp_of(&config_map("gone", "1", 1));
    let stays = stamp_of(&config_map("stays", "2", 2));
    store.relist_begins();
    assert!(store.mark_unreadable(&gone, true, "no number"));
    assert!(store.mark_unreadable(&stays, true, "no number"));
    store.relist_ends();
    store.watching_from(3);
    assert_eq!(errors(&store).len(), 2);
    store.relist_begins();
    assert!(!store.mark_unreadable(&stays, true, "no number"));
    store.relist_ends();
    let left: Vec<_> = errors(&store).into_keys().collect();
    assert_eq!(left, [stays.key]);
    // Another object of the same name with the same error is reported again.
    store.watching_from(4);
    assert!(store.mark_unreadable(&gone, false, "no number"));
}

fn client<F>(answer: impl Fn(http::Request<kube::client::Body>) -> F + Send + 'static) -> kube::Client
where
    F: Future<Output = std::io::Result<http::Response<kube::client::Body>>> + Send + 'static,
{
    kube::Client::new(tower::service_fn(answer), "default")
}

/// The Event is on the changed object, where a user who waits for the change sees it.
#[tokio::test]
async fn a_listener_that_panics_is_reported_on_the_object() {
    let mut set = StoreSet::new();
    let client = client(|_| std::future::pending());
    let store: Store<ConfigMap> = set.add(Watch::new(&client));
    store.on_change(|_| panic!("a bug"));
    store.put(config_map("a", "1", 1));
    let mut events = set.start(&mut tokio::task::JoinSet::new()).take_events();
    let event = events.try_recv().unwrap();
    assert_eq!(event.regarding.name.as_deref(), Some("a"));
    assert_eq!(event.reason, reason::PANICKED);
    assert!(event.message.ends_with("a bug"), "{}", event.message);
    assert!(events.try_recv().is_err());
}

/// A panic while reading one object never ends the watch of all.
#[tokio::test(start_paused = true)]
async fn an_object_at_which_pruning_panics_is_unreadable_and_the_others_come() {
    let client = client(|request| async move {
        if request
            .uri()
            .query()
            .is_some_and(|query| query.contains("watch=true"))
        {
            return std::future::pending().await;
        }
        let list = serde_json::json!({
            "apiVersion": "v1", "kind": "ConfigMapList", "metadata": {"resourceVersion": "3"},
            "items": [config_map("bad", "1", 1), config_map("good", "2", 2)],
        });
        Ok(http::Response::new(list.to_string().into_bytes().into()))
    });
    let mut set = StoreSet::new();
    let prune = |object: &mut ConfigMap| assert!(object.metadata.name.as_deref() != Some("bad"), "a bug");
    let store = set.add(Watch::new(&client).prune(prune));
    let mut watches = tokio::task::JoinSet::new();
    let mut readiness = set.start(&mut watches);
    tokio::time::timeout(std::time::Duration::from_secs(60), readiness.wait())
        .await
        .unwrap();
    assert!(store.is_ready());
    assert!(store.get("ns", "good").is_some());
    let bad = &errors(&store)[&NamespacedName::new("ns", "bad")];
    assert_eq!(bad, "panicked: a bug");
    assert!(readiness.take_events().try_recv().is_ok());
}

/// Number of entries of a ConfigMap.
#[derive(Debug, Clone)]
struct Entries(usize);

impl Projection for Entries {
    type Object = ConfigMap;

    fn of(object: ConfigMap) -> Self {
        assert!(object.metadata.name.as_deref() != Some("bad"), "a bug");
        Self(object.data.unwrap_or_default().len())
    }
}

/// The projection runs while the watch decodes. Unreadable objects are reported and the others are stored. The results of our own writes
/// take the same path, and are selected by labels that are not stored.
#[tokio::test(start_paused = true)]
async fn a_store_keeps_what_its_reader_makes_of_objects_and_nothing_else() {
    let full = |name: &str, version: u64, label: &str| {
        serde_json::json!({
            "apiVersion": "v1", "kind": "ConfigMap", "data": {"a": "1", "b": "2"},
            "metadata": {"namespace": "ns", "name": name, "uid": name, "resourceVersion": version.to_string(),
                         "labels": {label: "true"}},
        })
    };
    let mut odd = full("odd", 3, "ours");
    odd["data"] = "no map".into();
    let list = serde_json::json!({
        "apiVersion": "v1", "kind": "ConfigMapList", "metadata": {"resourceVersion": "3"},
        "items": [full("bad", 1, "ours"), full("good", 2, "ours"), odd],
    });
    let client = client(move |request| {
        let is_watch = request
            .uri()
            .query()
            .is_some_and(|query| query.contains("watch=true"));
        let list = list.to_string();
        async move {
            if is_watch {
                return std::future::pending().await;
            }
            Ok(http::Response::new(list.into_bytes().into()))
        }
    });
    let mut set = StoreSet::new();
    let store: Store<Projected<Entries>> = set.add_projected(Watch::new(&client).label_absent("copy"));
    let mut watches = tokio::task::JoinSet::new();
    let mut handle = set.start(&mut watches);
    tokio::time::timeout(std::time::Duration::from_secs(60), handle.wait())
        .await
        .unwrap();
    let good = store.get("ns", "good").unwrap();
    assert_eq!(
        (good.0, good.uid().as_deref(), good.resource_version().as_deref()),
        (2, Some("good"), Some("2"))
    );
    let unreadable = errors(&store);
    let error = |name: &str| unreadable[&NamespacedName::new("ns", name)].as_str();
    assert_eq!(error("bad"), "panicked: a bug");
    assert!(error("odd").contains("no map"), "{}", error("odd"));
    let mut written = full("good", 5, "ours");
    written["data"]["c"] = "3".into();
    handle.absorb(&written);
    assert_eq!(store.get("ns", "good").unwrap().0, 3);
    handle.absorb(&full("good", 6, "copy"));
    assert!(store.get("ns", "good").is_none());
}

/// Whatever the server sends, objects without the label are not stored, or removed once they lose it.
#[tokio::test(start_paused = true)]
async fn a_store_keeps_only_what_has_the_label_it_asks_for() {
    let with = |name: &str, version: u64, labels: &[&str]| {
        let mut object = config_map(name, name, version);
        let labels = labels.iter().map(|key| ((*key).to_owned(), String::new()));
        object.metadata.labels = Some(labels.collect());
        object
    };
    let changes = [with("a", 4, &[]), with("b", 5, &["ours"])];
    let list = serde_json::json!({
        "apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadataList", "metadata": {"resourceVersion": "3"},
        "items": [with("a", 1, &["theirs", "ours"]), with("b", 2, &["theirs"]), with("c", 3, &["ours"])],
    });
    let client = client(move |request| {
        let query = request.uri().query().unwrap_or_default();
        assert!(query.contains("labelSelector=ours"), "{query}");
        let is_watch = query.contains("watch=true");
        let is_first = query.contains("resourceVersion=3");
        let body = if is_watch {
            let line = |object| format!("{}\n", serde_json::json!({"type": "MODIFIED", "object": object}));
            changes.iter().map(line).collect()
        } else {
            list.to_string()
        };
        async move {
            if is_watch && !is_first {
                return std::future::pending().await;
            }
            Ok(http::Response::new(body.into_bytes().into()))
        }
    });
    let mut set = StoreSet::new();
    let store = set.add_metadata(Watch::<ConfigMap>::new(&client).label_exists("ours"));
    let told = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&told);
    store.on_change(move |change| {
        let gone = matches!(change, Change::Deleted { .. });
        log.lock().push((change.object().name_any(), gone));
    });
    let mut watches = tokio::task::JoinSet::new();
    let readiness = set.start(&mut watches);
    tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    let names = || -> Vec<String> { store.list().iter().map(|object| object.name_any()).collect() };
    let entry = |name: &str, gone| (name.to_owned(), gone);
    assert_eq!(
        *told.lock(),
        [
            entry("a", false),
            entry("c", false),
            entry("a", true),
            entry("b", false)
        ]
    );
    assert_eq!(names(), ["b", "c"]);
    let written = |object: &ConfigMap| {
        let mut value = serde_json::to_value(object).unwrap();
        value["apiVersion"] = "v1".into();
        value["kind"] = "ConfigMap".into();
        readiness.absorb(&value);
    };
    written(&with("c", 6, &[]));
    written(&with("d", 7, &["ours"]));
    assert_eq!(names(), ["b", "d"]);
}

#[test]
fn a_listener_that_panics_stops_no_other() {
    let store = Store::new();
    store.on_change(|_| panic!("a bug"));
    let heard = Arc::new(Mutex::new(0));
    let count = Arc::clone(&heard);
    store.on_change(move |_: &Change<ConfigMap>| *count.lock() += 1);
    store.put(config_map("a", "1", 1));
    store.on_deleted(&stamp_of(&config_map("a", "1", 2)));
    assert_eq!(*heard.lock(), 2);
    assert_eq!(known_version(&store), None);
}

/// Namespace and name are concatenated, and one namespace may start with the name of another.
#[test]
fn projected_objects_are_found_by_namespace_and_name_as_whole_ones_are() {
    let (whole, projected) = (Store::new(), Store::<Projected<Entries>>::default());
    let all = [("a", "bc"), ("ab", "c"), ("ab", "d"), ("abc", ""), ("", "abc")];
    for (namespace, name) in all {
        let mut object = config_map(name, "1", 1);
        object.metadata.namespace = Some(namespace.to_owned());
        whole.put(object.clone());
        projected.put(Projected::from_object(object));
    }
    for (namespace, name) in all {
        let found = projected.get(namespace, name).unwrap();
        assert_eq!((found.namespace(), found.name()), (namespace, name));
        assert_eq!(found.key(), NamespacedName::new(namespace, name));
        let of_whole: Vec<_> = whole
            .list_in(namespace)
            .iter()
            .map(|found| found.name_any())
            .collect();
        let of_projected = projected.list_in(namespace);
        let of_projected: Vec<_> = of_projected.iter().map(|found| found.name()).collect();
        assert_eq!(of_projected, of_whole);
        let expected = all
            .iter()
            .filter(|(other, _)| *other == namespace)
            .map(|(_, name)| *name);
        assert_eq!(of_projected, expected.collect::<Vec<_>>());
    }
    assert!(projected.get("a", "c").is_none());
    assert_eq!(projected.list().len(), all.len());
}
