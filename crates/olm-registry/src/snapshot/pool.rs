//! Values that entries share: each is stored and counted once, in however many bundles and channels it
//! occurs.

use std::borrow::Borrow;
use std::collections::{HashMap, HashSet};
use std::hash::Hash;
use std::sync::Arc;

use go_compat::semver::Range;
use olm_fbc::entry::{Deprecation, EntryProperty, ManifestDigest};
use olm_fbc::property::Gvk;

use super::weight;
use crate::proto;

/// Approximate bytes of one more value in a list or map, beside its texts.
const VALUE: usize = 64;

/// Approximate bytes of a bundle, beside its texts and lists.
const ENTRY: usize = 512;

/// All values so far.
#[derive(Default)]
pub(super) struct Pool {
    texts: HashSet<Arc<str>>,
    text_lists: HashSet<Arc<[Arc<str>]>>,
    property_lists: HashSet<Arc<[EntryProperty]>>,
    api_lists: HashSet<Arc<[Gvk]>>,
    ranges: HashMap<String, Option<Arc<Range>>>,
    deprecations: HashSet<Arc<Deprecation>>,
    digests: HashSet<Arc<ManifestDigest>>,
    kept: usize,
}

impl Pool {
    /// Returns the approximate bytes of the kept values.
    pub(super) fn kept(&self) -> usize {
        self.kept
    }

    /// Counts a value with `bytes` of text.
    pub(super) fn keep(&mut self, bytes: usize) {
        self.keep_all(1, bytes);
    }

    /// Counts an entry with this number of properties, whose version has `parts` and `bytes` of text.
    pub(super) fn keep_entry(&mut self, properties: usize, parts: usize, bytes: usize) {
        self.keep(ENTRY);
        // Indexes list each bundle for each of its properties.
        self.keep_all(properties, 0);
        self.keep_all(parts, bytes);
    }

    /// Counts values with `bytes` of text together.
    fn keep_all(&mut self, values: usize, bytes: usize) {
        self.kept = self
            .kept
            .saturating_add(values.saturating_mul(VALUE))
            .saturating_add(bytes);
    }

    pub(super) fn text(&mut self, text: &str) -> Arc<str> {
        let (shared, is_new) = shared(&mut self.texts, text);
        if is_new {
            self.keep(text.len());
        }
        shared
    }

    pub(super) fn texts(&mut self, texts: &[String]) -> Arc<[Arc<str>]> {
        let list: Vec<Arc<str>> = texts.iter().map(|text| self.text(text)).collect();
        let (list, is_new) = shared(&mut self.text_lists, list.as_slice());
        if is_new {
            self.keep_all(list.len(), 0);
        }
        list
    }

    /// Returns the shared list. The parsed properties are counted with it.
    pub(super) fn properties(&mut self, list: Arc<[EntryProperty]>) -> Arc<[EntryProperty]> {
        let (list, is_new) = shared(&mut self.property_lists, list);
        if is_new {
            self.keep_all(list.len(), list.iter().map(weight::parsed).sum());
        }
        list
    }

    /// Returns the APIs, sorted and without duplicates.
    pub(super) fn apis(&mut self, apis: &[proto::GroupVersionKind]) -> Arc<[Gvk]> {
        let mut list: Vec<Gvk> = apis
            .iter()
            .map(|api| Gvk::new(&api.group, &api.version, &api.kind))
            .collect();
        list.sort();
        list.dedup();
        let (list, is_new) = shared(&mut self.api_lists, list.as_slice());
        if is_new {
            let texts = list.iter().flat_map(|api| [&api.group, &api.version, &api.kind]);
            self.keep_all(list.len(), texts.map(String::len).sum());
        }
        list
    }

    /// Returns the range that a text denotes, if it is one.
    pub(super) fn range(&mut self, text: &str) -> Option<Arc<Range>> {
        if let Some(known) = self.ranges.get(text) {
            return known.clone();
        }
        let range = Range::parse(text).ok().map(Arc::new);
        // The text, and the range parsed from it.
        self.keep(text.len().saturating_mul(11));
        self.ranges.insert(text.to_owned(), range.clone());
        range
    }

    pub(super) fn deprecation(&mut self, deprecation: Deprecation) -> Arc<Deprecation> {
        let (shared, is_new) = shared(&mut self.deprecations, deprecation);
        if is_new {
            self.keep(0);
        }
        shared
    }

    pub(super) fn digest(&mut self, digest: ManifestDigest) -> Arc<ManifestDigest> {
        let (shared, is_new) = shared(&mut self.digests, digest);
        if is_new {
            self.keep(0);
        }
        shared
    }
}

/// Returns the value in `known` that equals `value`, and whether it was added.
fn shared<T, V>(known: &mut HashSet<Arc<T>>, value: V) -> (Arc<T>, bool)
where
    T: ?Sized + Eq + Hash,
    V: Borrow<T>,
    Arc<T>: From<V>,
{
    if let Some(known) = known.get(value.borrow()) {
        return (Arc::clone(known), false);
    }
    let new: Arc<T> = value.into();
    known.insert(Arc::clone(&new));
    (new, true)
}
