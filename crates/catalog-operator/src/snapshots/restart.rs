//! Content passed from one process to the next.

use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

use olm_resolver::Snapshot;
use olm_runtime::NamespacedName;
use olm_runtime::isolation;

use super::disk::{Disk, FILE_BYTES};
use super::read::room_for;
use super::room::Admission;
use super::{ContentId, ContentState, Entry, Shared, Snapshots};

impl Snapshots {
    /// Sets a folder in which the last good contents survive the process.
    #[must_use]
    pub fn with_folder(mut self, folder: Option<PathBuf>) -> Self {
        if let Some(shared) = Arc::get_mut(&mut self.shared) {
            shared.disk = folder.map(|folder| Arc::new(Disk::new(folder)));
        }
        self
    }

    /// Calls [`Snapshots::get`] for a catalog with this `label`. The first call restores what an earlier
    /// process has read of the same catalog, and then triggers `namespace`.
    pub fn get_labelled(&self, key: &NamespacedName, label: &str, namespace: &str) -> ContentState {
        {
            let mut entries = self.shared.lock();
            let entry = entries.entry(key.clone()).or_default();
            entry.users.insert(namespace.to_owned());
            if entry.label.as_deref() != Some(label) {
                let is_first = entry.label.is_none() && entry.content.is_none();
                let label: Arc<str> = label.into();
                entry.label = Some(Arc::clone(&label));
                if is_first {
                    self.shared.restore(key, label);
                }
            }
        }
        self.get(key, namespace)
    }

    /// Returns the content that an earlier process has read, as long as this one has not read the catalog. It
    /// is only for reports.
    pub(crate) fn restored(&self, key: &NamespacedName) -> Option<ContentId> {
        let entries = self.shared.lock();
        let entry = entries.get(key).filter(|entry| entry.restored)?;
        entry.id
    }

    /// Removes contents of earlier processes for catalogs that are not among these.
    pub(crate) fn sweep(&self, existing: Vec<NamespacedName>) {
        self.shared.on_disk(move |disk| disk.retain(existing.iter()));
    }
}

impl Shared {
    /// Runs work on the folder, if there is one, beside the reconciles and one after the other.
    fn on_disk(&self, work: impl FnOnce(&Disk) + Send + 'static) {
        let Some(disk) = self.disk.clone() else { return };
        let mut last = self.disk_work.lock().unwrap_or_else(PoisonError::into_inner);
        let before = last.take();
        *last = Some(tokio::spawn(async move {
            if let Some(before) = before {
                // It has logged its own errors.
                let _ = before.await;
            }
            if let Err(panicked) = isolation::blocking(move || work(&disk)).await {
                tracing::error!(%panicked, "a fault with the contents on disk");
            }
        }));
    }

    /// Restores the content on disk, unless a read has finished meanwhile or it does not fit.
    fn restore(self: &Arc<Self>, key: &NamespacedName, label: Arc<str>) {
        let (shared, key) = (Arc::downgrade(self), key.clone());
        self.on_disk(move |disk| {
            let Some(found) = disk.get(&key, &label) else { return };
            let content = Arc::new(Snapshot::new(found));
            let bytes = content.held();
            let Some(shared) = shared.upgrade() else { return };
            let mut entries = shared.lock();
            // No content that this process has read is dropped for it.
            let has_room = match room_for(&key, bytes, &entries, shared.bounds) {
                Admission::Admitted { instead_of } => instead_of.is_empty(),
                Admission::Refused(_) => false,
            };
            let Some(entry) = entries.get_mut(&key) else { return };
            if !has_room || entry.content.is_some() || entry.label.as_ref() != Some(&label) {
                return;
            }
            tracing::info!(catalog = %key, entries = content.entries().len(), bytes, "content of an earlier process taken up");
            entry.id = Some(shared.ids.fetch_add(1, Ordering::Relaxed));
            entry.content = Some(content);
            (entry.bytes, entry.restored, entry.saved) = (bytes, true, Some(label));
            let users = entry.users.clone();
            drop(entries);
            shared.tell(&users);
        });
    }

    /// Saves a content for the next process if it is `new`, or not saved under the current label.
    pub(super) fn save(self: &Arc<Self>, key: &NamespacedName, entry: &mut Entry, new: bool) {
        let (Some(label), Some(id)) = (entry.label.clone(), entry.id) else {
            return;
        };
        if !new && entry.saved.as_ref() == Some(&label) {
            return;
        }
        entry.saved = Some(Arc::clone(&label));
        if entry.bytes as u64 > FILE_BYTES {
            tracing::warn!(catalog = %key, bytes = entry.bytes, "content is too large to be left for the next process");
            return self.remove_saved(key);
        }
        let (shared, key) = (Arc::downgrade(self), key.clone());
        self.on_disk(move |disk| {
            // It may have been forgotten, or replaced by another one.
            let content = shared.upgrade().and_then(|shared| {
                let entries = shared.lock();
                let is_same = |entry: &&Entry| entry.id == Some(id) && entry.label.as_ref() == Some(&label);
                entries.get(&key).filter(is_same)?.content.clone()
            });
            let Some(content) = content else { return };
            let written = content.entries().iter().map(|entry| &***entry);
            if let Err(error) = disk.put(&key, &label, written) {
                tracing::warn!(catalog = %key, %error, "content is not left for the next process");
            }
        });
    }

    /// Removes the saved content.
    pub(super) fn remove_saved(&self, key: &NamespacedName) {
        let key = key.clone();
        self.on_disk(move |disk| disk.remove(&key));
    }
}

#[cfg(test)]
mod tests;
