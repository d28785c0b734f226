//! Contents of a store, and the memory that keeps stale updates from changing them.
//!
//! Updates come from two independent sources: the watch, and the answers to our own writes, which may be ahead of the watch or far
//! behind. A `resourceVersion` orders two states of an object. It cannot tell whether a missing object was never seen or was deleted. Two
//! memories do: a [`Tombstone`] per deletion, and [`Contents::complete_to`], the version up to which the watch has reported everything.

use std::collections::{BTreeMap, BTreeSet};
use std::mem;
use std::ops::Bound;
use std::sync::Arc;

use super::Change;
use super::held::{Held, Names};
use crate::change::Object;
use crate::key::NamespacedName;
use crate::uid::Uid;

/// Maximum number of remembered deletions that the watch has reported. It covers the answers that can be late while the watch reports
/// others. Older deletions are merged into one version, which is as safe.
const REMEMBERED_DELETIONS: usize = 64;
/// Maximum number of additional deletions that the watch has not reported. These cannot be merged into a version. If one is dropped too
/// early, older events of the watch revive the object for a moment.
const UNTOLD_DELETIONS: usize = 1024;

/// Identity and version of an object that an update is about.
#[derive(Debug, Clone)]
pub(super) struct Revision {
    pub(super) key: NamespacedName,
    pub(super) uid: Option<Uid>,
    /// `resourceVersion` as a number. The API calls it opaque, but it has always been etcd's increasing revision. `None` if it is missing
    /// or not a number; such an update always counts as the newest.
    pub(super) version: Option<u64>,
}

/// Deleted object, remembered so that a late answer to a write cannot revive it.
#[derive(Debug)]
struct Tombstone {
    /// States up to this version are ignored.
    version: u64,
    uid: Option<Uid>,
    /// True if we deleted `uid`: states of it are ignored, whatever their version.
    is_dead: bool,
    /// Version of the newest deletion of this name that the watch reported; everything before is known.
    told: Option<u64>,
    /// Number of the latest relist when this was created.
    relist: u64,
    /// Orders tombstones by age.
    serial: u64,
}

impl Tombstone {
    /// True if the watch has reported this deletion, and not only that of an earlier object of the same name.
    fn is_seen(&self) -> bool {
        self.told >= Some(self.version)
    }
}

/// List in progress, or complete with a watch that has not started.
#[derive(Debug)]
struct Relist {
    listed: BTreeSet<NamespacedName>,
    /// Minimum version of the list: it includes everything seen before it was requested.
    at_least: u64,
    is_over: bool,
}

/// Objects by namespace and name. No I/O and no locks.
#[derive(Debug)]
pub(super) struct Contents<T> {
    objects: BTreeSet<Held<T>>,
    tombstones: BTreeMap<NamespacedName, Tombstone>,
    by_age: BTreeMap<u64, NamespacedName>,
    /// Version up to which the watch has reported everything: a missing object that is not newer is deleted. `None` before the first
    /// list.
    complete_to: Option<u64>,
    /// Newest version ever seen.
    newest: u64,
    relist: Option<Relist>,
    relists: u64,
    next_serial: u64,
    most_tombstones: usize,
}

impl<T: Object> Default for Contents<T> {
    fn default() -> Self {
        Self::remembering(REMEMBERED_DELETIONS)
    }
}

impl<T: Object> Contents<T> {
    /// Creates empty contents that remember at most `most_tombstones` reported deletions.
    pub(super) fn remembering(most_tombstones: usize) -> Self {
        Self {
            objects: BTreeSet::new(),
            tombstones: BTreeMap::new(),
            by_age: BTreeMap::new(),
            complete_to: None,
            newest: 0,
            relist: None,
            relists: 0,
            next_serial: 0,
            most_tombstones,
        }
    }

    pub(super) fn get(&self, key: &NamespacedName) -> Option<&Arc<T>> {
        self.held(key).map(Held::object)
    }

    fn held(&self, key: &NamespacedName) -> Option<&Held<T>> {
        self.objects.get::<dyn Names + '_>(key)
    }

    /// Returns all objects of a namespace, ordered by name.
    pub(super) fn in_namespace(&self, namespace: &str) -> impl Iterator<Item = &Arc<T>> {
        let start = NamespacedName::new(namespace, "");
        let range = (Bound::Included(&start as &(dyn Names + '_)), Bound::Unbounded);
        let objects = self.objects.range::<dyn Names + '_, _>(range).map(Held::object);
        objects.take_while(move |object| object.names().0 == namespace)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Arc<T>> {
        self.objects.iter().map(Held::object)
    }

    pub(super) fn len(&self) -> usize {
        self.objects.len()
    }

    /// Number of remembered deletions that the watch has reported.
    #[cfg(test)]
    pub(super) fn remembered(&self) -> usize {
        let all = self.tombstones.values();
        all.filter(|tombstone| tombstone.is_seen()).count()
    }

    /// Applies a state of an object from the watch or from the answer to a write; stale states change nothing.
    pub(super) fn put(&mut self, revision: &Revision, object: T) -> Option<Change<T>> {
        let is_unknown_news = |contents: &Self, version| contents.complete_to.is_none_or(|to| version > to);
        self.put_if(revision, object, is_unknown_news)
    }

    fn put_if(
        &mut self,
        revision: &Revision,
        object: T,
        is_unknown_news: impl Fn(&Self, u64) -> bool,
    ) -> Option<Change<T>> {
        self.see(revision.version);
        if let Some(version) = revision.version {
            let is_buried = self.tombstones.get(&revision.key).is_some_and(|tombstone| {
                version <= tombstone.version || (tombstone.is_dead && revision.uid == tombstone.uid)
            });
            let is_news = match self.held(&revision.key) {
                Some(held) => held.version().is_none_or(|known| version > known),
                None => is_unknown_news(self, version),
            };
            if is_buried || !is_news {
                return None;
            }
        }
        self.clear_tombstone(&revision.key);
        let new = Arc::new(object);
        let held = Held::new(Arc::clone(&new), revision.version);
        let old = self.objects.replace(held).map(Held::into_object);
        Some(Change::Applied { old, new })
    }

    /// Applies a deletion, or a removal from the selection, at the revision's version. `is_seen` is true if the watch reported it, and false
    /// if one of our writes did it.
    pub(super) fn delete(&mut self, revision: &Revision, is_seen: bool) -> Option<Change<T>> {
        self.see(revision.version);
        let is_older = |held: &Held<T>| match (held.version(), revision.version) {
            (Some(known), Some(version)) => known <= version,
            // Without versions only the uid identifies another object of the same name.
            _ => {
                let uid = held.uid();
                uid.is_none() || revision.uid.is_none() || uid == revision.uid
            }
        };
        if self.held(&revision.key).is_some_and(|held| !is_older(held)) {
            return None;
        }
        let version = revision.version.unwrap_or(0);
        let tombstone = self.tombstones.get(&revision.key);
        let told = tombstone.and_then(|tombstone| tombstone.told);
        let told = if is_seen { told.max(Some(version)) } else { told };
        // The watch also reports a removal from the selection as a deletion; the object may return before it is really deleted.
        let is_dead = tombstone.is_some_and(|tombstone| tombstone.is_dead && tombstone.uid == revision.uid);
        if tombstone.is_none_or(|tombstone| tombstone.version <= version) {
            let uid = revision.uid.clone();
            self.bury(revision.key.clone(), version, uid, is_dead, told);
        }
        self.remove(&revision.key)
    }

    fn remove(&mut self, key: &NamespacedName) -> Option<Change<T>> {
        let held = self.objects.take::<dyn Names + '_>(key)?;
        Some(Change::Deleted {
            old: held.into_object(),
        })
    }

    /// Applies one of our deletions whose answer has no version; a uid is never used again.
    pub(super) fn delete_uid(&mut self, key: &NamespacedName, uid: &Uid) -> Option<Change<T>> {
        let held = self.held(key);
        if held.is_some_and(|held| held.uid().as_ref() != Some(uid)) {
            return None;
        }
        let known = held.and_then(Held::version);
        let tombstone = self.tombstones.get(key);
        // We only delete objects we have seen, so another uid here is a later object.
        if tombstone.is_some_and(|tombstone| tombstone.is_dead) {
            return None;
        }
        let version = known.max(tombstone.map(|tombstone| tombstone.version));
        let told = tombstone.and_then(|tombstone| tombstone.told);
        let uid = Some(uid.clone());
        self.bury(key.clone(), version.unwrap_or(0), uid, true, told);
        self.remove(key)
    }

    /// Starts a relist whose request is not yet sent.
    pub(super) fn relist_begins(&mut self) {
        self.relists += 1;
        self.relist = Some(Relist {
            listed: BTreeSet::new(),
            at_least: self.newest.max(self.complete_to.unwrap_or(0)),
            is_over: false,
        });
    }

    /// Records a listed object that cannot be read.
    pub(super) fn listed_unreadable(&mut self, revision: &Revision) {
        self.see(revision.version);
        if let Some(relist) = &mut self.relist {
            relist.listed.insert(revision.key.clone());
            relist.at_least = relist.at_least.max(revision.version.unwrap_or(0));
        }
    }

    /// Applies a listed object.
    pub(super) fn listed(&mut self, revision: &Revision, object: T) -> Option<Change<T>> {
        self.listed_unreadable(revision);
        // The object existed when the list was made, which is later than `complete_to`.
        self.put_if(revision, object, |_, _| true)
    }

    /// True if the list so far contains an object of this name, or if there is no list.
    pub(super) fn is_listed(&self, key: &NamespacedName) -> bool {
        let relist = self.relist.as_ref();
        relist.is_none_or(|relist| relist.listed.contains(key))
    }

    /// Ends the list. Its version is unknown until the watch starts. So far, only objects older than the request for the list, or older
    /// than a listed object, are known to be deleted.
    pub(super) fn relist_ends(&mut self) -> Vec<Change<T>> {
        let Some(relist) = &mut self.relist else {
            return Vec::new();
        };
        relist.is_over = true;
        let at_least = relist.at_least;
        self.settle(at_least, false)
    }

    /// Records that a watch starts after this version, which is the list's version if there was one. Returns the objects that turned out to
    /// be deleted. `None` if the server's history is older than what we have seen, as after a restored backup. Known versions are invalid
    /// then, and everything has to be listed again.
    pub(super) fn watching_from(&mut self, version: u64) -> Option<Vec<Change<T>>> {
        self.see(Some(version));
        match &self.relist {
            Some(relist) if relist.is_over && version < relist.at_least => {
                self.forget_versions();
                None
            }
            Some(relist) if relist.is_over => {
                let deleted = self.settle(version, true);
                self.relist = None;
                Some(deleted)
            }
            _ => {
                self.complete_to = self.complete_to.max(Some(version));
                Some(Vec::new())
            }
        }
    }

    /// Deletes objects that were not listed, unless they are newer than `version`, which the list includes. `is_exact` is true if
    /// `version` is the list's own.
    fn settle(&mut self, version: u64, is_exact: bool) -> Vec<Change<T>> {
        let Some(relist) = &self.relist else {
            return Vec::new();
        };
        let is_gone = |held: &Held<T>| {
            let is_old = held.version().is_none_or(|known| known <= version);
            is_old && !relist.listed.contains(&held.key())
        };
        let gone = self.objects.extract_if(.., is_gone);
        let changes: Vec<Change<T>> = gone
            .map(|held| Change::Deleted {
                old: held.into_object(),
            })
            .collect();
        self.complete_to = self.complete_to.max(Some(version));
        // Updates up to `version` no longer count. For our own deletions before the list request, this covers late answers to our writes,
        // too. That holds only if `version` is the list's own, and so not older than the deletion.
        let relists = self.relists;
        let is_over = |tombstone: &Tombstone| {
            let passed = !tombstone.is_dead || (is_exact && tombstone.relist < relists);
            passed && tombstone.version <= version
        };
        let over: Vec<NamespacedName> = self
            .tombstones
            .iter()
            .filter(|(_, tombstone)| is_over(tombstone))
            .map(|(key, _)| key.clone())
            .collect();
        for key in over {
            self.clear_tombstone(&key);
        }
        changes
    }

    fn forget_versions(&mut self) {
        let objects = mem::take(&mut self.objects).into_iter();
        self.objects = objects.map(|held| Held::new(held.into_object(), None)).collect();
        self.tombstones.clear();
        self.by_age.clear();
        self.complete_to = None;
        self.newest = 0;
        self.relist = None;
    }

    fn see(&mut self, version: Option<u64>) {
        self.newest = self.newest.max(version.unwrap_or(0));
    }

    fn bury(
        &mut self,
        key: NamespacedName,
        version: u64,
        uid: Option<Uid>,
        is_dead: bool,
        told: Option<u64>,
    ) {
        self.clear_tombstone(&key);
        let serial = self.next_serial;
        self.next_serial += 1;
        self.by_age.insert(serial, key.clone());
        let tombstone = Tombstone {
            version,
            uid,
            is_dead,
            told,
            relist: self.relists,
            serial,
        };
        self.tombstones.insert(key, tombstone);
        if self.tombstones.len() > self.most_tombstones {
            self.forget_a_deletion();
        }
    }

    /// Drops the oldest deletion that the watch has reported. An unreported one is dropped only if there are very many.
    fn forget_a_deletion(&mut self) {
        let is_seen = |key| self.tombstones.get(key).is_some_and(Tombstone::is_seen);
        let told = self.by_age.values().find(|key| is_seen(*key));
        let surplus = self.tombstones.len() > self.most_tombstones.saturating_add(UNTOLD_DELETIONS);
        let first = self.by_age.values().next().filter(|_| surplus);
        let Some(key) = told.or(first).cloned() else {
            return;
        };
        // Coarser but as safe: the watch reports in order, so a missing object older than this is deleted.
        let told = self.tombstones.get(&key).and_then(|known| known.told);
        self.complete_to = self.complete_to.max(told);
        self.clear_tombstone(&key);
    }

    fn clear_tombstone(&mut self, key: &NamespacedName) {
        if let Some(tombstone) = self.tombstones.remove(key) {
            self.by_age.remove(&tombstone.serial);
        }
    }
}
