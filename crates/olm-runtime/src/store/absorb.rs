//! Absorbs the answers to our own writes into the stores.

use std::any::Any;
use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::core::ApiResource;
use serde::Deserialize as _;
use serde_json::Value;

use super::Store;
use super::watch::{Requirement, selected};
use crate::change::Object;
use crate::key::NamespacedName;
use crate::sync::RwLock;

/// Result of one of our writes.
pub(super) enum OwnWrite<'a> {
    /// Current state of the object.
    Written(&'a Value),
    /// Object that was deleted, or will be once its finalizers and grace period are finished.
    Deleted(&'a Value),
    /// Key and uid of the deleted object.
    DeletedUid(&'a NamespacedName, &'a str),
}

type Absorber = Arc<dyn Fn(&OwnWrite<'_>) + Send + Sync>;

/// Access to all stores of a process. Clones share the same absorbers.
#[derive(Clone, Default)]
pub(super) struct Absorbers {
    by_kind: Arc<RwLock<ByKind>>,
}

/// Absorbers by group and kind, since a write may use another API version than the watch. Each is there as long as its store.
type ByKind = BTreeMap<(String, String), Vec<(Weak<dyn Any + Send + Sync>, Absorber)>>;

impl Absorbers {
    /// Registers `store` for writes of `api` that match `requirements`; `read` converts the objects.
    pub(super) fn add<S: Object + Send + Sync + 'static>(
        &self,
        api: &ApiResource,
        store: &Store<S>,
        requirements: &Arc<[Requirement]>,
        read: impl Fn(&Value) -> Option<S> + Send + Sync + 'static,
    ) {
        let (store, requirements) = (Arc::downgrade(&store.shared), Arc::clone(requirements));
        let there: Weak<dyn Any + Send + Sync> = store.clone();
        let absorb = move |news: &OwnWrite<'_>| {
            if let Some(shared) = store.upgrade() {
                take_in(&Store { shared }, news, &requirements, &read);
            }
        };
        let mut by_kind = self.by_kind.write();
        let of_kind = by_kind.entry(key_of(&api.group, &api.kind)).or_default();
        of_kind.retain(|(store, _)| store.strong_count() > 0);
        of_kind.push((there, Arc::new(absorb)));
    }

    /// Passes the write to every store of the kind.
    pub(super) fn announce(&self, group: &str, kind: &str, news: &OwnWrite<'_>) {
        let by_kind = self.by_kind.read();
        let of_kind = by_kind.get(&key_of(group, kind)).into_iter().flatten();
        let of_kind: Vec<Absorber> = of_kind.map(|(_, absorb)| Arc::clone(absorb)).collect();
        // Listeners of a store may start a watch, which adds an absorber.
        drop(by_kind);
        for absorb in of_kind {
            absorb(news);
        }
    }
}

fn key_of(group: &str, kind: &str) -> (String, String) {
    (group.to_owned(), kind.to_owned())
}

fn take_in<S: Object>(
    store: &Store<S>,
    news: &OwnWrite<'_>,
    requirements: &[Requirement],
    read: impl Fn(&Value) -> Option<S>,
) {
    let (value, stays) = match news {
        OwnWrite::DeletedUid(key, uid) => return store.delete_uid(key, uid),
        OwnWrite::Written(value) => (value, true),
        OwnWrite::Deleted(value) => (value, false),
    };
    let Some(object) = read(value) else { return };
    // The stored form of the object may lack the fields of the selector.
    let Some(Ok(metadata)) = value.get("metadata").map(ObjectMeta::deserialize) else {
        return;
    };
    let stays = stays || is_on_its_way_out(&metadata);
    if stays && selected(requirements, &metadata) {
        store.put(object);
    } else {
        store.put_deleted(&object);
    }
}

/// True if an object is being deleted but still exists because of finalizers or a grace period.
fn is_on_its_way_out(metadata: &ObjectMeta) -> bool {
    let has_finalizers = metadata.finalizers.as_ref().is_some_and(|list| !list.is_empty());
    let has_grace = metadata
        .deletion_grace_period_seconds
        .is_some_and(|seconds| seconds > 0);
    metadata.deletion_timestamp.is_some() && (has_finalizers || has_grace)
}
