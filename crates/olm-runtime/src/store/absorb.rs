//! What takes the answers to our own writes into the stores.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::core::ApiResource;
use serde::Deserialize as _;
use serde_json::Value;

use super::Store;
use super::watch::{Requirement, selected};
use crate::change::Object;
use crate::key::NamespacedName;

/// What a write of ours came to.
pub(super) enum OwnWrite<'a> {
    /// The object as it is now.
    Written(&'a Value),
    /// The object that was deleted, or is to be once its finalizers and its grace period are over.
    Deleted(&'a Value),
    /// The object with this uid was deleted.
    DeletedUid(&'a NamespacedName, &'a str),
}

type Absorber = Arc<dyn Fn(&OwnWrite<'_>) + Send + Sync>;

/// One absorber among all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct AbsorberId(u64);

/// The way into all stores of a binary; a clone is another handle to the same.
#[derive(Clone, Default)]
pub(super) struct Absorbers {
    shared: Arc<RwLock<ByKind>>,
}

/// By group and kind: a write may have gone by another version of an API than a watch.
#[derive(Default)]
struct ByKind {
    absorbers: BTreeMap<(String, String), Vec<(AbsorberId, Absorber)>>,
    made: u64,
}

impl Absorbers {
    /// From now on what is written of `api` and meets `requirements` goes into `store`, in the form that `read` gives it.
    pub(super) fn add<S: Object + Send + Sync + 'static>(
        &self,
        api: &ApiResource,
        store: &Store<S>,
        requirements: &Arc<[Requirement]>,
        read: impl Fn(&Value) -> Option<S> + Send + Sync + 'static,
    ) -> AbsorberId {
        let (store, requirements) = (store.clone(), Arc::clone(requirements));
        let absorb = move |news: &OwnWrite<'_>| take_in(&store, news, &requirements, &read);
        let mut shared = self.shared.write().unwrap_or_else(PoisonError::into_inner);
        shared.made += 1;
        let id = AbsorberId(shared.made);
        let of_kind = shared.absorbers.entry(key_of(&api.group, &api.kind));
        of_kind.or_default().push((id, Arc::new(absorb)));
        id
    }

    pub(super) fn remove(&self, api: &ApiResource, id: AbsorberId) {
        let key = key_of(&api.group, &api.kind);
        let mut shared = self.shared.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(of_kind) = shared.absorbers.get_mut(&key) {
            of_kind.retain(|(known, _)| *known != id);
            if of_kind.is_empty() {
                shared.absorbers.remove(&key);
            }
        }
    }

    /// Tells every store of the kind.
    pub(super) fn announce(&self, group: &str, kind: &str, news: &OwnWrite<'_>) {
        let shared = self.shared.read().unwrap_or_else(PoisonError::into_inner);
        let of_kind = shared.absorbers.get(&key_of(group, kind)).into_iter().flatten();
        let of_kind: Vec<Absorber> = of_kind.map(|(_, absorb)| Arc::clone(absorb)).collect();
        // Listeners of a store may begin to use a watch, which adds an absorber.
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
    // What is kept of the object may lack what selects it.
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

/// An object that is deleted but has not gone: something has yet to be finished.
fn is_on_its_way_out(metadata: &ObjectMeta) -> bool {
    let has_finalizers = metadata.finalizers.as_ref().is_some_and(|list| !list.is_empty());
    let has_grace = metadata
        .deletion_grace_period_seconds
        .is_some_and(|seconds| seconds > 0);
    metadata.deletion_timestamp.is_some() && (has_finalizers || has_grace)
}
