//! Index of a store by keywords, so that a few objects among many are found without scanning all.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::{Change, Store, stamp_of};
use crate::NamespacedName;
use crate::change::Object;
use crate::sync::RwLock;

/// Finds objects of a store by keyword. Clones share the same index. Its memory holds the keywords of the current objects and their keys.
pub struct Index<K> {
    store: Store<K>,
    keys: Arc<RwLock<Keys>>,
}

type Keys = BTreeMap<String, BTreeSet<NamespacedName>>;

impl<K> Clone for Index<K> {
    fn clone(&self) -> Self {
        Self {
            store: self.store.clone(),
            keys: Arc::clone(&self.keys),
        }
    }
}

impl<K: Object + Send + Sync + 'static> Store<K> {
    /// Creates an index by the keywords that `words` returns for an object. Create it before the store is fed, and before listeners that
    /// use it for the changes they receive.
    pub fn index(&self, words: fn(&K) -> BTreeSet<String>) -> Index<K> {
        let index = Index {
            store: self.clone(),
            keys: Arc::default(),
        };
        let keys = Arc::clone(&index.keys);
        self.on_change(move |change| {
            let mut keys = keys.write();
            follow(&mut keys, change, words);
        });
        index
    }
}

fn follow<K: Object>(keys: &mut Keys, change: &Change<K>, words: fn(&K) -> BTreeSet<String>) {
    let key = stamp_of(change.object().as_ref()).key;
    let (old, new) = match change {
        Change::Applied { old, new } => (old.as_ref().map(|old| words(old)), words(new)),
        Change::Deleted { old } => (Some(words(old)), BTreeSet::new()),
    };
    let old = old.unwrap_or_default();
    for word in old.difference(&new) {
        if let Some(found) = keys.get_mut(word) {
            found.remove(&key);
            if found.is_empty() {
                keys.remove(word);
            }
        }
    }
    for word in new.difference(&old) {
        keys.entry(word.clone()).or_default().insert(key.clone());
    }
}

impl<K: Object> Index<K> {
    /// Returns all objects with this keyword, ordered by namespace and name.
    pub fn list(&self, word: &str) -> Vec<Arc<K>> {
        let keys = self.keys.read();
        let keys: Vec<NamespacedName> = keys.get(word).into_iter().flatten().cloned().collect();
        keys.iter().filter_map(|key| self.store.get_key(key)).collect()
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::ResourceExt;

    use super::*;

    fn object(name: &str, words: &[&str]) -> ConfigMap {
        let mut object = ConfigMap::default();
        object.metadata.namespace = Some("ns".to_owned());
        object.metadata.name = Some(name.to_owned());
        object.metadata.uid = Some(name.to_owned());
        let labels = words.iter().map(|word| ((*word).to_owned(), String::new()));
        object.metadata.labels = Some(labels.collect());
        object
    }

    fn words(object: &ConfigMap) -> BTreeSet<String> {
        object.labels().keys().cloned().collect()
    }

    #[test]
    fn an_index_follows_what_comes_changes_and_goes() {
        let store = Store::new();
        let index = store.index(words);
        let named = |word: &str| {
            let found = index.list(word);
            found.iter().map(|object| object.name_any()).collect::<Vec<_>>()
        };
        store.put(object("b", &["x", "y"]));
        store.put(object("a", &["x"]));
        assert_eq!(named("x"), ["a", "b"]);
        assert_eq!(named("y"), ["b"]);
        store.put(object("b", &["x"]));
        assert_eq!((named("x").len(), named("y").len()), (2, 0));
        store.put_deleted(&object("a", &[]));
        store.put_deleted(&object("b", &[]));
        assert_eq!(named("x"), [""; 0]);
        assert!(index.keys.read().is_empty(), "nothing is left behind");
    }
}
