//! What stores tell their listeners, and what they have to know of an object for it.

use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;

use crate::{NamespacedName, uid::Uid};

/// Which state of which object something is.
#[derive(Debug, Clone)]
pub struct ObjectState<'a> {
    /// Namespace, empty for a cluster-scoped object.
    pub namespace: &'a str,
    /// Name; empty when the server is yet to generate it.
    pub name: &'a str,
    /// The uid, if the server gave one yet.
    pub uid: Option<Uid>,
    /// `resourceVersion` as a number. The API calls it opaque, but it has always been etcd's increasing revision. `None`
    /// when it is missing or no number; such a state is always taken for the newest.
    pub version: Option<u64>,
    /// Grows with each change of the spec; `None` for kinds without.
    pub generation: Option<i64>,
    /// True when the object is on its way out.
    pub is_deleting: bool,
}

impl<'a> ObjectState<'a> {
    /// The state that `metadata` tells.
    pub fn of(metadata: &'a ObjectMeta) -> Self {
        let version = metadata.resource_version.as_ref();
        let (namespace, name) = names_of(metadata);
        Self {
            namespace,
            name,
            uid: metadata.uid.as_deref().map(Uid::of),
            version: version.and_then(|text| text.parse().ok()),
            generation: metadata.generation,
            is_deleting: metadata.deletion_timestamp.is_some(),
        }
    }

    /// Namespace and name.
    pub fn key(&self) -> NamespacedName {
        NamespacedName::new(self.namespace, self.name)
    }
}

/// Namespace, empty for a cluster-scoped object, and name.
fn names_of(metadata: &ObjectMeta) -> (&str, &str) {
    let namespace = metadata.namespace.as_deref().unwrap_or_default();
    (namespace, metadata.name.as_deref().unwrap_or_default())
}

/// What can be kept in a store: an object as the API has it, or what a reader made of one. Both answers are the same for as long
/// as the object lives.
pub trait Object {
    /// Namespace and name of its state, without the rest: a store has its objects in their order.
    fn names(&self) -> (&str, &str);
    /// Which state of which object it is, or was made of.
    fn state(&self) -> ObjectState<'_>;
}

impl<K: Resource> Object for K {
    fn names(&self) -> (&str, &str) {
        names_of(self.meta())
    }

    fn state(&self) -> ObjectState<'_> {
        ObjectState::of(self.meta())
    }
}

/// A change seen by a store.
#[derive(Debug, Clone)]
pub enum Change<K> {
    /// Created or updated.
    Applied {
        /// The object before, if it was known.
        old: Option<Arc<K>>,
        /// The object now.
        new: Arc<K>,
    },
    /// Deleted.
    Deleted {
        /// The object as it was last seen.
        old: Arc<K>,
    },
}

impl<K> Change<K> {
    /// The newest form of the object.
    pub fn object(&self) -> &Arc<K> {
        match self {
            Self::Applied { new, .. } => new,
            Self::Deleted { old } => old,
        }
    }

    /// The object before the change and after it, as far as they exist.
    pub fn versions(&self) -> impl Iterator<Item = &Arc<K>> {
        let (first, second) = match self {
            Self::Applied { old, new } => (old.as_ref(), Some(new)),
            Self::Deleted { old } => (Some(old), None),
        };
        first.into_iter().chain(second)
    }
}
