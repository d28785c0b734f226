//! Entry of a store.
//!
//! A store may have tens of thousands of objects, so an entry keeps nothing that the object itself contains. Entries are in a set ordered
//! by their names and are found by name.

use std::borrow::Borrow;
use std::cmp::Ordering;
use std::num::NonZeroU64;
use std::sync::Arc;

use crate::change::Object;
use crate::key::NamespacedName;
use crate::uid::Uid;

/// Types with a namespace and a name, ordered by these.
pub(super) trait Names {
    fn names(&self) -> (&str, &str);
}

impl Names for NamespacedName {
    fn names(&self) -> (&str, &str) {
        (&self.namespace, &self.name)
    }
}

impl<T: Object> Names for Held<T> {
    fn names(&self) -> (&str, &str) {
        self.object.names()
    }
}

/// Object in its last seen state.
#[derive(Debug)]
pub(super) struct Held<T> {
    object: Arc<T>,
    /// Version of the object, until versions are forgotten.
    version: Option<NonZeroU64>,
}

impl<T> Held<T> {
    pub(super) fn new(object: Arc<T>, version: Option<u64>) -> Self {
        Self {
            object,
            version: version.and_then(NonZeroU64::new),
        }
    }

    pub(super) fn object(&self) -> &Arc<T> {
        &self.object
    }

    pub(super) fn into_object(self) -> Arc<T> {
        self.object
    }

    pub(super) fn version(&self) -> Option<u64> {
        self.version.map(NonZeroU64::get)
    }
}

impl<T: Object> Held<T> {
    pub(super) fn uid(&self) -> Option<Uid> {
        self.object.state().uid
    }

    pub(super) fn key(&self) -> NamespacedName {
        let (namespace, name) = self.object.names();
        NamespacedName::new(namespace, name)
    }
}

impl<'a, T: Object + 'a> Borrow<dyn Names + 'a> for Held<T> {
    fn borrow(&self) -> &(dyn Names + 'a) {
        self
    }
}

impl PartialEq for dyn Names + '_ {
    fn eq(&self, other: &Self) -> bool {
        self.names() == other.names()
    }
}

impl Eq for dyn Names + '_ {}

impl PartialOrd for dyn Names + '_ {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for dyn Names + '_ {
    fn cmp(&self, other: &Self) -> Ordering {
        self.names().cmp(&other.names())
    }
}

impl<T: Object> PartialEq for Held<T> {
    fn eq(&self, other: &Self) -> bool {
        self.names() == other.names()
    }
}

impl<T: Object> Eq for Held<T> {}

impl<T: Object> PartialOrd for Held<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T: Object> Ord for Held<T> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.names().cmp(&other.names())
    }
}
