//! Objects of one kind with unique names.

use std::collections::BTreeMap;
use std::ops::Deref;

use kube_core::ResourceExt;

use super::namespace_of;

/// Objects in the order in which they were first given.
#[derive(Clone, Debug)]
pub(super) struct Named<K> {
    all: Vec<K>,
    /// Index of each object, by namespace and name.
    places: BTreeMap<(String, String), usize>,
}

impl<K> Default for Named<K> {
    fn default() -> Self {
        Self {
            all: Vec::new(),
            places: BTreeMap::new(),
        }
    }
}

impl<K> Deref for Named<K> {
    type Target = [K];

    fn deref(&self) -> &[K] {
        &self.all
    }
}

impl<K: ResourceExt> Named<K> {
    /// Adds an object, or replaces the one of its name. Returns whether there was one.
    pub(super) fn put(&mut self, object: K) -> bool {
        let key = (namespace_of(&object).to_owned(), object.name_any());
        let place = *self.places.entry(key).or_insert(self.all.len());
        match self.all.get_mut(place) {
            Some(known) => {
                *known = object;
                true
            }
            None => {
                self.all.push(object);
                false
            }
        }
    }
}
