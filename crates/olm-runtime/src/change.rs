//! Changes that stores report to their subscribers, and the metadata of objects this needs.

use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;

use crate::{NamespacedName, uid::Uid};

/// Identity and version of an object.
#[derive(Debug, Clone)]
pub struct ObjectState<'a> {
    /// Namespace, empty for a cluster-scoped object.
    pub namespace: &'a str,
    /// Name; empty until the server has generated it.
    pub name: &'a str,
    /// The uid, if the server has set it.
    pub uid: Option<Uid>,
    /// `resourceVersion` as a number. The API calls it opaque, but it has always been etcd's increasing revision. `None` if it is missing
    /// or not a number; such a state always counts as the newest.
    pub version: Option<u64>,
    /// True if the object is being deleted.
    pub is_deleting: bool,
}

impl<'a> ObjectState<'a> {
    /// Returns the state that `metadata` describes.
    pub fn of(metadata: &'a ObjectMeta) -> Self {
        let version = metadata.resource_version.as_ref();
        let (namespace, name) = names_of(metadata);
        Self {
            namespace,
            name,
            uid: metadata.uid.as_deref().map(Uid::of),
            version: version.and_then(|text| text.parse().ok()),
            is_deleting: metadata.deletion_timestamp.is_some(),
        }
    }

    /// Returns namespace and name.
    pub fn key(&self) -> NamespacedName {
        NamespacedName::new(self.namespace, self.name)
    }
}

/// Returns the namespace, empty for a cluster-scoped object, and the name.
fn names_of(metadata: &ObjectMeta) -> (&str, &str) {
    let namespace = metadata.namespace.as_deref().unwrap_or_default();
    (namespace, metadata.name.as_deref().unwrap_or_default())
}

/// Type that a store can hold: an object as the API has it, or a projection of one. Both methods must return the same identity for the
/// whole life of the object.
pub trait Object {
    /// Returns namespace and name without the rest of the state; a store sorts its objects by them.
    fn names(&self) -> (&str, &str);
    /// Returns the identity and version of the object, or of the object it was made of.
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
    /// Returns the newest version of the object.
    pub fn object(&self) -> &Arc<K> {
        match self {
            Self::Applied { new, .. } => new,
            Self::Deleted { old } => old,
        }
    }

    /// Returns the versions before and after the change, as far as they exist.
    pub fn versions(&self) -> impl Iterator<Item = &Arc<K>> {
        let (first, second) = match self {
            Self::Applied { old, new } => (old.as_ref(), Some(new)),
            Self::Deleted { old } => (Some(old), None),
        };
        first.into_iter().chain(second)
    }
}
