//! Spares resolving the same input twice.

use std::collections::BTreeMap;
use std::sync::Arc;

use olm_runtime::sync::Mutex;

use super::input::ResolutionInput;
use super::resolved::Resolved;

/// What the last resolution of each namespace came to, with its input.
#[derive(Default)]
pub(crate) struct ResolutionCache {
    entries: Mutex<BTreeMap<String, (ResolutionInput, Arc<Resolved>)>>,
}

impl ResolutionCache {
    /// What the same input came to last time.
    pub(crate) fn get(&self, namespace: &str, input: &ResolutionInput) -> Option<Arc<Resolved>> {
        let entries = self.entries.lock();
        let (known, resolved) = entries.get(namespace)?;
        (known == input).then(|| Arc::clone(resolved))
    }

    /// Takes the place of what there was for the namespace.
    pub(crate) fn insert(&self, namespace: &str, input: ResolutionInput, resolved: Arc<Resolved>) {
        let mut entries = self.entries.lock();
        entries.insert(namespace.to_owned(), (input, resolved));
    }

    /// Drops what there is for a namespace.
    pub(crate) fn remove(&self, namespace: &str) {
        self.entries.lock().remove(namespace);
    }
}
