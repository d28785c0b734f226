//! Immutable catalog snapshots, indexed and in order of preference.

mod answers;

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use go_compat::semver::Version;
use olm_fbc::entry::{BundleEntry, CatalogSnapshot, EntryProperty};
use olm_fbc::property::Gvk;

use self::answers::Answers;
pub(crate) use self::answers::Found;
pub use self::answers::{REMEMBERED_ENTRIES, REMEMBERED_TESTS, REMEMBERED_TEXT};
use crate::cel::Budget;
use crate::chain::{self, ChainError, Link};
use crate::entry::{Entry, Reader};
use crate::predicate::Predicate;
use crate::work::Work;

/// A CatalogSource by name and namespace; prints as `namespace/name`, as every object does.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CatalogKey {
    /// Name of the CatalogSource.
    pub name: String,
    /// Namespace of the CatalogSource.
    pub namespace: String,
}

impl fmt::Display for CatalogKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// A CatalogSource and its content.
#[derive(Clone, Debug)]
pub struct Catalog {
    /// Name and namespace of the CatalogSource.
    pub key: CatalogKey,
    /// Its `spec.priority`; higher is preferred for dependencies.
    pub priority: i32,
    /// Its entries, or the reason why they cannot be read.
    pub content: Result<Arc<Snapshot>, String>,
}

/// The entries of one catalog at one moment. Shared by all namespaces and never changed.
#[derive(Debug, Default)]
pub struct Snapshot {
    /// Most preferred first: default channels before others, then by package, channel and place in the
    /// channel. The fields below hold indexes into this list, so every ascending list of them is in order of
    /// preference.
    entries: Vec<Arc<Entry>>,
    /// For each entry, true if it is in its channel's chain, so that it can be chosen freely.
    in_chain: Vec<bool>,
    packages: BTreeMap<Arc<str>, BTreeMap<Arc<str>, Channel>>,
    /// Channels without an order, which are so rare that they are searched one by one.
    broken: Vec<(Range<usize>, ChainError)>,
    by_package: BTreeMap<Arc<str>, Vec<usize>>,
    by_api: BTreeMap<Gvk, Vec<usize>>,
    by_label: BTreeMap<String, Vec<usize>>,
    /// Results of tests that no index helps with. Every resolution repeats these tests.
    looked_through: Mutex<Answers>,
}

/// One channel of a package.
#[derive(Debug)]
struct Channel {
    entries: Range<usize>,
    order: Result<(), ChainError>,
    is_default: bool,
    /// Index of the entry with the highest version, if one has any.
    newest: Option<usize>,
}

/// Adds an entry's index under `key`, once even if the entry repeats it. Most keys exist already and are not
/// copied.
fn list<K: Ord + Clone>(lists: &mut BTreeMap<K, Vec<usize>>, key: &K, index: usize) {
    match lists.get_mut(key) {
        Some(places) if places.last() == Some(&index) => {}
        Some(places) => places.push(index),
        None => {
            lists.insert(key.clone(), vec![index]);
        }
    }
}

impl Snapshot {
    /// Indexes the entries of a catalog, in any order.
    pub fn new(entries: impl IntoIterator<Item = BundleEntry>) -> Self {
        let mut found: BTreeMap<_, Vec<Arc<Entry>>> = BTreeMap::new();
        let mut reader = Reader::default();
        for entry in entries {
            let channel = (Arc::clone(&entry.package), Arc::clone(&entry.channel));
            found
                .entry(channel)
                .or_default()
                .push(Arc::new(reader.entry(entry)));
        }
        let mut channels: Vec<_> = found
            .into_iter()
            .map(|((package, channel), entries)| {
                let default = entries.iter().any(|entry| entry.default_channel);
                ((Reverse(default), package, channel), entries)
            })
            .collect();
        channels.sort_by(|(a, _), (b, _)| a.cmp(b));
        let mut snapshot = Snapshot::default();
        for ((_, package, channel), entries) in channels {
            snapshot.add_channel(package, channel, entries);
        }
        snapshot.index();
        snapshot
    }

    fn add_channel(&mut self, package: Arc<str>, channel: Arc<str>, mut entries: Vec<Arc<Entry>>) {
        // Names are unique within a channel of a valid catalog; otherwise the given order is kept.
        entries.sort_by(|a, b| a.name.cmp(&b.name));
        let links: Vec<Link<'_>> = entries
            .iter()
            .map(|e| Link {
                name: &e.name,
                replaces: e.replaces.as_deref(),
                skips: &e.skips,
            })
            .collect();
        let (chain, order) = match chain::order(&package, &channel, &links) {
            Ok(chain) => (chain, Ok(())),
            Err(error) => (Vec::new(), Err(error)),
        };
        let mut placed = vec![false; entries.len()];
        chain.iter().for_each(|&i| placed[i] = true);
        let start = self.entries.len();
        let rest = (0..entries.len()).filter(|&i| !placed[i]);
        for i in chain.iter().copied().chain(rest) {
            self.entries.push(Arc::clone(&entries[i]));
            self.in_chain.push(placed[i]);
        }
        let range = start..self.entries.len();
        if let Err(error) = &order {
            self.broken.push((range.clone(), error.clone()));
        }
        let versions = range
            .clone()
            .filter(|&place| self.entries[place].version.is_some());
        let newest = versions.max_by_key(|&place| &self.entries[place].version);
        let is_default = self.entries[range.clone()]
            .iter()
            .any(|entry| entry.default_channel);
        self.packages.entry(package).or_default().insert(
            channel,
            Channel {
                entries: range,
                order,
                is_default,
                newest,
            },
        );
    }

    fn index(&mut self) {
        for (index, entry) in self.entries.iter().enumerate() {
            let names = entry.packages().iter().map(|p| &p.name).chain([&entry.package]);
            for name in names {
                list(&mut self.by_package, name, index);
            }
            for api in entry.apis() {
                list(&mut self.by_api, api, index);
            }
            for label in entry.labels() {
                list(&mut self.by_label, label, index);
            }
        }
        // A snapshot lives for days, and so would the lists' spare capacity.
        self.entries.shrink_to_fit();
        self.in_chain.shrink_to_fit();
        let lists = self
            .by_package
            .values_mut()
            .chain(self.by_api.values_mut())
            .chain(self.by_label.values_mut());
        lists.for_each(Vec::shrink_to_fit);
    }

    /// Returns all entries, most preferred first.
    pub fn entries(&self) -> &[Arc<Entry>] {
        &self.entries
    }

    /// Returns the entry at an index.
    pub(crate) fn entry(&self, index: usize) -> &Arc<Entry> {
        &self.entries[index]
    }

    /// Returns whether a package has any entry here.
    pub(crate) fn has_package(&self, package: &str) -> bool {
        self.packages.contains_key(package)
    }

    /// Returns the names of the packages, sorted.
    pub fn package_names(&self) -> impl Iterator<Item = &str> {
        self.packages.keys().map(|name| &**name)
    }

    /// Returns the distinct versions of a package, the newest first.
    pub fn versions(&self, package: &str) -> Vec<&Version> {
        let places = self.by_package.get(package).into_iter().flatten();
        let mut versions: Vec<&Version> = places
            .filter_map(|&place| self.entries[place].version.as_ref())
            .collect();
        versions.sort_by(|a, b| b.cmp(a));
        versions.dedup();
        versions
    }

    /// Returns the entries that provide an API of this group and kind, in any version of the API.
    pub(crate) fn providers_of_kind<'s>(
        &'s self,
        group: &'s str,
        kind: &'s str,
    ) -> impl Iterator<Item = (&'s Gvk, &'s Arc<Entry>)> {
        let apis = self
            .by_api
            .iter()
            .filter(move |(api, _)| api.group == group && api.kind == kind);
        apis.flat_map(move |(api, places)| places.iter().map(move |&place| (api, &self.entries[place])))
    }

    /// Returns the channels that have an order, with the names of their heads. An empty channel means all channels of the package.
    pub(crate) fn heads(&self, package: &str, channel: &str) -> impl Iterator<Item = (&str, &str)> {
        let names = self.channel_names(package);
        let followed = names.filter(move |name| channel.is_empty() || *name == channel);
        followed.filter_map(move |name| {
            let chain = self.channel(package, name)?.chain.ok()?;
            Some((name, &*self.entries[*chain.first()?].name))
        })
    }

    /// Returns whether a channel is the default one of its package, and the highest version in it.
    pub(crate) fn channel_rank(&self, package: &str, channel: &str) -> (bool, Option<&Version>) {
        let found = self
            .packages
            .get(package)
            .and_then(|channels| channels.get(channel));
        found.map_or((false, None), |found| {
            let newest = found
                .newest
                .and_then(|place| self.entries[place].version.as_ref());
            (found.is_default, newest)
        })
    }

    /// Returns the entry of a name in a channel. An empty channel means any channel of the package.
    pub(crate) fn find(&self, package: &str, channel: &str, name: &str) -> Option<&Arc<Entry>> {
        let view = self.channel(package, channel)?;
        let mut entries = view.entries.iter().map(|&place| &self.entries[place]);
        entries.find(|entry| *entry.name == *name)
    }

    /// Returns the most preferred entry of a channel. An empty channel means all channels of the package.
    pub(crate) fn first(&self, package: &str, channel: &str) -> Option<&Arc<Entry>> {
        let view = self.channel(package, channel)?;
        view.entries.first().map(|&place| &self.entries[place])
    }

    /// Returns the names of a package's channels, sorted.
    pub fn channel_names<'s>(&'s self, package: &str) -> impl Iterator<Item = &'s str> {
        self.packages
            .get(package)
            .into_iter()
            .flatten()
            .map(|(name, _)| &**name)
    }

    /// Returns the entries of a channel. An empty channel means all channels of the package, the default one
    /// first. Heads come first, entries outside the chain last. `None` if there is no such channel.
    pub(crate) fn channel(&self, package: &str, channel: &str) -> Option<ChannelView> {
        let channels = self.packages.get(package)?;
        let mut chosen: Vec<&Channel> = match channel {
            "" => channels.values().collect(),
            _ => vec![channels.get(channel)?],
        };
        if chosen.is_empty() {
            return None;
        }
        chosen.sort_by_key(|c| c.entries.start);
        let error = chosen.iter().find_map(|c| c.order.as_ref().err()).cloned();
        let entries: Vec<usize> = chosen.iter().flat_map(|c| c.entries.clone()).collect();
        let chain = entries.iter().copied().filter(|&i| self.in_chain[i]).collect();
        Some(ChannelView {
            entries,
            chain: error.map_or(Ok(chain), Err),
        })
    }

    /// Returns the entries that pass the test and are in their channel's chain, most preferred first.
    pub(crate) fn candidates(&self, predicate: &Predicate, work: &Work) -> Found {
        let passes = |&index: &usize| self.in_chain[index] && self.entries[index].meets(predicate);
        match self.seeds(predicate) {
            Some(seeds) if !has_rule(predicate) => {
                work.add(seeds.len());
                Ok(seeds.iter().copied().filter(passes).collect())
            }
            seeds => self.look_through(predicate, seeds, work),
        }
    }

    /// Tests all entries that may pass. A bundle in several channels is tested once, as its properties are
    /// the same.
    fn look_through(&self, predicate: &Predicate, seeds: Option<Cow<'_, [usize]>>, work: &Work) -> Found {
        let known = |answers: &Answers| answers.get(predicate);
        if let Some(found) = known(&self.looked_through.lock().unwrap_or_else(PoisonError::into_inner)) {
            return found;
        }
        work.add(seeds.as_ref().map_or(self.entries.len(), |seeds| seeds.len()));
        let budget = Budget::of_catalog(self.entries.len());
        let mut tested: BTreeMap<(*const EntryProperty, &str), bool> = BTreeMap::new();
        let mut passes = |&index: &usize| {
            let entry = &self.entries[index];
            self.in_chain[index]
                && *tested
                    .entry((entry.properties.as_ptr(), &entry.package))
                    .or_insert_with(|| entry.meets_within(predicate, &budget))
        };
        let passing: Arc<[usize]> = match seeds {
            Some(seeds) => seeds.iter().copied().filter(|index| passes(index)).collect(),
            None => (0..self.entries.len()).filter(|index| passes(index)).collect(),
        };
        let found = budget.check().map(|()| passing);
        let mut answers = self.looked_through.lock().unwrap_or_else(PoisonError::into_inner);
        answers.remember(predicate, &found);
        found
    }

    /// Returns the errors of channels without an order that have an entry which passes the test.
    pub(crate) fn broken_channels(
        &self,
        predicate: &Predicate,
        work: &Work,
    ) -> impl Iterator<Item = &ChainError> {
        let concerned = |range: &Range<usize>| {
            work.add(range.len());
            self.entries[range.clone()].iter().any(|e| e.meets(predicate))
        };
        self.broken
            .iter()
            .filter(move |(range, _)| concerned(range))
            .map(|(_, error)| error)
    }

    /// Returns an ascending list that includes every entry the predicate accepts. `None` means all entries.
    fn seeds(&self, predicate: &Predicate) -> Option<Cow<'_, [usize]>> {
        fn listed(found: Option<&Vec<usize>>) -> Cow<'_, [usize]> {
            Cow::Borrowed(found.map_or(&[][..], Vec::as_slice))
        }
        match predicate {
            Predicate::ProvidesApi(api) => Some(listed(self.by_api.get(api))),
            Predicate::Package(package) => Some(listed(self.by_package.get(package.as_str()))),
            Predicate::Label(label) => Some(listed(self.by_label.get(label))),
            Predicate::All(parts) => parts
                .iter()
                .filter_map(|p| self.seeds(p))
                .min_by_key(|seeds| seeds.len()),
            Predicate::Any(parts) => {
                let lists: Option<Vec<_>> = parts.iter().map(|p| self.seeds(p)).collect();
                let union: BTreeSet<usize> = lists?.iter().flat_map(|list| list.iter().copied()).collect();
                Some(union.into_iter().collect())
            }
            Predicate::WithMessage(_, test) => self.seeds(test),
            Predicate::VersionInRange(_) | Predicate::Not(_) | Predicate::Cel(..) => None,
        }
    }
}

fn has_rule(predicate: &Predicate) -> bool {
    match predicate {
        Predicate::Cel(..) => true,
        Predicate::WithMessage(_, test) => has_rule(test),
        Predicate::All(parts) | Predicate::Any(parts) | Predicate::Not(parts) => parts.iter().any(has_rule),
        _ => false,
    }
}

impl From<&CatalogSnapshot> for Snapshot {
    fn from(catalog: &CatalogSnapshot) -> Self {
        Snapshot::new(catalog.entries.iter().cloned())
    }
}

/// Entries of the channels that a Subscription follows.
pub(crate) struct ChannelView {
    /// All entries.
    pub(crate) entries: Vec<usize>,
    /// Entries that can be chosen freely, or the reason why they have no order.
    pub(crate) chain: Result<Vec<usize>, ChainError>,
}
