//! What stores tell their listeners.

use std::sync::Arc;

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
