//! The objects of a store, and what it remembers so that no old news changes them.
//!
//! News comes on two ways that know nothing of each other: the watch, and the answers to our own writes, which may be ahead
//! of the watch or far behind it. A `resourceVersion` says which of two states of an object is newer; what it cannot say is
//! whether an object that is not here was never seen or is deleted already. Two memories answer that: a [`Tombstone`] for
//! a deletion, and [`Contents::complete_to`], the version up to which the watch has told everything.

use std::collections::{BTreeMap, BTreeSet};
use std::mem;
use std::ops::Bound;
use std::sync::Arc;

use super::Change;
use super::held::{Held, Names};
use crate::change::Object;
use crate::key::NamespacedName;
use crate::uid::Uid;

/// How many deletions are remembered. They are as many as answers can be on their way while the watch tells of others; older
/// ones fall together into one version, which is as safe.
const REMEMBERED_DELETIONS: usize = 64;
/// How many more of which the watch has not told: they have no such version, and one that is forgotten too soon is undone for
/// a moment by what the watch tells of the time before.
const UNTOLD_DELETIONS: usize = 1024;

/// Which state of which object a piece of news is about.
#[derive(Debug, Clone)]
pub(super) struct Revision {
    pub(super) key: NamespacedName,
    pub(super) uid: Option<Uid>,
    /// `resourceVersion` as a number. The API calls it opaque, but it has always been etcd's increasing revision. `None`
    /// when it is missing or no number; such news is always taken for the newest.
    pub(super) version: Option<u64>,
}

/// A deleted object, remembered so that a late answer to a write cannot revive it.
#[derive(Debug)]
struct Tombstone {
    /// No state up to this version is taken in.
    version: u64,
    uid: Option<Uid>,
    /// We deleted `uid`: no state of it is taken in, whatever its version.
    is_dead: bool,
    /// The version of the newest deletion here that the watch told, and with it everything before.
    told: Option<u64>,
    /// The relist that was the latest when this was put up.
    relist: u64,
    /// Orders tombstones by age.
    serial: u64,
}

impl Tombstone {
    /// The watch has told of this very deletion, and not of that of an earlier namesake alone.
    fn is_told(&self) -> bool {
        self.told >= Some(self.version)
    }
}

/// A list in progress, or one whose watch has not begun.
#[derive(Debug)]
struct Relist {
    listed: BTreeSet<NamespacedName>,
    /// The list is not older than this: it holds or follows what we had seen before we asked for it.
    at_least: u64,
    is_over: bool,
}

/// What [`Contents::watching_from`] found out.
#[derive(Debug)]
pub(super) enum WatchStart<T> {
    /// All is well; these objects turned out to be deleted.
    Settled(Vec<Change<T>>),
    /// The server's history is older than what we have seen of it, as after a restored backup: nothing that is known of
    /// versions counts any more, and everything has to be listed once again.
    HistoryRestarted,
}

/// Objects by namespace and name; pure, for one thread.
#[derive(Debug)]
pub(super) struct Contents<T> {
    objects: BTreeSet<Held<T>>,
    tombstones: BTreeMap<NamespacedName, Tombstone>,
    by_age: BTreeMap<u64, NamespacedName>,
    /// The watch has told everything up to here: an object that is not held and not newer than this is deleted. `None`
    /// before the first list.
    complete_to: Option<u64>,
    /// The newest version that was ever seen.
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
    /// Nothing yet; at most `most_tombstones` deletions will be remembered.
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

    /// All objects of a namespace in order of their names.
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

    /// How many deletions are remembered of which the watch has told.
    #[cfg(test)]
    pub(super) fn remembered(&self) -> usize {
        let all = self.tombstones.values();
        all.filter(|tombstone| tombstone.is_told()).count()
    }

    /// A state of an object, from the watch or from the answer to a write of ours; old news changes nothing.
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

    /// The watch says that the object was deleted, or left what is selected, at the revision's version.
    pub(super) fn delete_told(&mut self, revision: &Revision) -> Option<Change<T>> {
        self.delete(revision, true)
    }

    /// A write of ours deleted the object, or took it out of what is selected, at the revision's version.
    pub(super) fn delete_own(&mut self, revision: &Revision) -> Option<Change<T>> {
        self.delete(revision, false)
    }

    fn delete(&mut self, revision: &Revision, is_told: bool) -> Option<Change<T>> {
        self.see(revision.version);
        let is_older = |held: &Held<T>| match (held.version(), revision.version) {
            (Some(known), Some(version)) => known <= version,
            // Without versions only a uid can tell a namesake.
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
        let told = if is_told { told.max(Some(version)) } else { told };
        // What the watch calls deleted may be out of its selection only, and come back before it is really gone.
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

    /// A deletion of ours was carried out. The answer has no version, but a uid never comes back.
    pub(super) fn delete_uid(&mut self, key: &NamespacedName, uid: &Uid) -> Option<Change<T>> {
        let held = self.held(key);
        if held.is_some_and(|held| held.uid().as_ref() != Some(uid)) {
            return None;
        }
        let known = held.and_then(Held::version);
        let tombstone = self.tombstones.get(key);
        // What we delete we have seen, so another uid here is a later one.
        if tombstone.is_some_and(|tombstone| tombstone.is_dead) {
            return None;
        }
        let version = known.max(tombstone.map(|tombstone| tombstone.version));
        let told = tombstone.and_then(|tombstone| tombstone.told);
        let uid = Some(uid.clone());
        self.bury(key.clone(), version.unwrap_or(0), uid, true, told);
        self.remove(key)
    }

    /// Everything will be listed anew, by a request that is yet to be sent.
    pub(super) fn relist_begins(&mut self) {
        self.relists += 1;
        self.relist = Some(Relist {
            listed: BTreeSet::new(),
            at_least: self.newest.max(self.complete_to.unwrap_or(0)),
            is_over: false,
        });
    }

    /// The list has an object of this name that cannot be read.
    pub(super) fn listed_unreadable(&mut self, revision: &Revision) {
        self.see(revision.version);
        if let Some(relist) = &mut self.relist {
            relist.listed.insert(revision.key.clone());
            relist.at_least = relist.at_least.max(revision.version.unwrap_or(0));
        }
    }

    /// The list has this object.
    pub(super) fn listed(&mut self, revision: &Revision, object: T) -> Option<Change<T>> {
        self.listed_unreadable(revision);
        // It was alive when the list was made, which is later than `complete_to`.
        self.put_if(revision, object, |_, _| true)
    }

    /// Whether the list, as far as it goes, has an object of this name. True when there is no list.
    pub(super) fn is_listed(&self, key: &NamespacedName) -> bool {
        let relist = self.relist.as_ref();
        relist.is_none_or(|relist| relist.listed.contains(key))
    }

    /// The list is complete. Its version is not known before the watch begins, so for now only what was here before the
    /// list was asked for, or is older than something listed, is known to be deleted.
    pub(super) fn relist_ends(&mut self) -> Vec<Change<T>> {
        let Some(relist) = &mut self.relist else {
            return Vec::new();
        };
        relist.is_over = true;
        let at_least = relist.at_least;
        self.settle(at_least, false)
    }

    /// A watch begins behind this version: that of the list, when there was one.
    pub(super) fn watching_from(&mut self, version: u64) -> WatchStart<T> {
        self.see(Some(version));
        match &self.relist {
            Some(relist) if relist.is_over && version < relist.at_least => {
                self.forget_versions();
                WatchStart::HistoryRestarted
            }
            Some(relist) if relist.is_over => {
                let deleted = self.settle(version, true);
                self.relist = None;
                WatchStart::Settled(deleted)
            }
            _ => {
                self.complete_to = self.complete_to.max(Some(version));
                WatchStart::Settled(Vec::new())
            }
        }
    }

    /// What was not listed is deleted, unless it is newer than `version`, which the list is known to include. `is_exact` when
    /// that is the list's own version.
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
        // No news up to `version` counts any more. Of what we deleted before the list was asked for that covers everything, the
        // late answers to our own writes too, once `version` is that of the list and so not older than the deletion.
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

    /// Forgets the oldest deletion of those the watch has told; of the others one only when there are very many.
    fn forget_a_deletion(&mut self) {
        let is_told = |key| self.tombstones.get(key).is_some_and(Tombstone::is_told);
        let told = self.by_age.values().find(|key| is_told(*key));
        let surplus = self.tombstones.len() > self.most_tombstones.saturating_add(UNTOLD_DELETIONS);
        let first = self.by_age.values().next().filter(|_| surplus);
        let Some(key) = told.or(first).cloned() else {
            return;
        };
        // Coarser, and as safe: the watch tells in order, so what is not held and older than this is deleted.
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
