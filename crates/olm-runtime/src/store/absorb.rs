//! Absorbs the answers to our own writes into the stores.

use std::collections::BTreeMap;
use std::sync::Arc;

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

/// Identifies a registered absorber.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct AbsorberId(u64);

/// Access to all stores of a process. Clones share the same absorbers.
#[derive(Clone, Default)]
pub(super) struct Absorbers {
    shared: Arc<RwLock<ByKind>>,
}

/// Absorbers by group and kind, since a write may use another API version than the watch.
#[derive(Default)]
struct ByKind {
    absorbers: BTreeMap<(String, String), Vec<(AbsorberId, Absorber)>>,
    made: u64,
}

impl Absorbers {
    /// Registers `store` for writes of `api` that match `requirements`; `read` converts the objects.
    pub(super) fn add<S: Object + Send + Sync + 'static>(
        &self,
        api: &ApiResource,
        store: &Store<S>,
        requirements: &Arc<[Requirement]>,
        read: impl Fn(&Value) -> Option<S> + Send + Sync + 'static,
    ) -> AbsorberId {
        let (store, requirements) = (store.clone(), Arc::clone(requirements));
        let absorb = move |news: &OwnWrite<'_>| take_in(&store, news, &requirements, &read);
        let mut shared = self.shared.write();
        shared.made += 1;
        let id = AbsorberId(shared.made);
        let of_kind = shared.absorbers.entry(key_of(&api.group, &api.kind));
        of_kind.or_default().push((id, Arc::new(absorb)));
        id
    }

    pub(super) fn remove(&self, api: &ApiResource, id: AbsorberId) {
        let key = key_of(&api.group, &api.kind);
        let mut shared = self.shared.write();
        if let Some(of_kind) = shared.absorbers.get_mut(&key) {
            of_kind.retain(|(known, _)| *known != id);
            if of_kind.is_empty() {
                shared.absorbers.remove(&key);
            }
        }
    }

    /// Passes the write to every store of the kind.
    pub(super) fn announce(&self, group: &str, kind: &str, news: &OwnWrite<'_>) {
        let shared = self.shared.read();
        let of_kind = shared.absorbers.get(&key_of(group, kind)).into_iter().flatten();
        let of_kind: Vec<Absorber> = of_kind.map(|(_, absorb)| Arc::clone(absorb)).collect();
        // Listeners of a store may start a watch, which adds an absorber.
        drop(shared);
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
