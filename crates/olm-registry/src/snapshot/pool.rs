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
        count(&mut self.kept, 1, bytes);
    }

    /// Counts an entry with this number of properties, whose version has `parts` and `bytes` of text.
    pub(super) fn keep_entry(&mut self, properties: usize, parts: usize, bytes: usize) {
        self.keep(ENTRY);
        // Indexes list each bundle for each of its properties.
        count(&mut self.kept, properties, 0);
        count(&mut self.kept, parts, bytes);
    }

    pub(super) fn text(&mut self, text: &str) -> Arc<str> {
        shared(&mut self.texts, &mut self.kept, text, |text| (1, text.len()))
    }

    pub(super) fn texts(&mut self, texts: &[String]) -> Arc<[Arc<str>]> {
        let list: Vec<Arc<str>> = texts.iter().map(|text| self.text(text)).collect();
        shared(&mut self.text_lists, &mut self.kept, list.as_slice(), |list| {
            (list.len(), 0)
        })
    }

    /// Returns the shared list. The parsed properties are counted with it.
    pub(super) fn properties(&mut self, list: Arc<[EntryProperty]>) -> Arc<[EntryProperty]> {
        shared(&mut self.property_lists, &mut self.kept, list, |list| {
            (list.len(), list.iter().map(weight::parsed).sum())
        })
    }

    /// Returns the APIs, sorted and without duplicates.
    pub(super) fn apis(&mut self, apis: &[proto::GroupVersionKind]) -> Arc<[Gvk]> {
        let mut list: Vec<Gvk> = apis
            .iter()
            .map(|api| Gvk::new(&api.group, &api.version, &api.kind))
            .collect();
        list.sort();
        list.dedup();
        shared(&mut self.api_lists, &mut self.kept, list.as_slice(), |list| {
            let texts = list.iter().flat_map(|api| [&api.group, &api.version, &api.kind]);
            (list.len(), texts.map(String::len).sum())
        })
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
        shared(&mut self.deprecations, &mut self.kept, deprecation, |_| (1, 0))
    }

    pub(super) fn digest(&mut self, digest: ManifestDigest) -> Arc<ManifestDigest> {
        shared(&mut self.digests, &mut self.kept, digest, |_| (1, 0))
    }
}

/// Adds values with `bytes` of text together to the bytes `kept`.
fn count(kept: &mut usize, values: usize, bytes: usize) {
    *kept = kept
        .saturating_add(values.saturating_mul(VALUE))
        .saturating_add(bytes);
}

/// Returns the value in `known` that equals `value`. A new one is added, and counted in `kept` as the values and bytes of text that `weigh`
/// returns.
fn shared<T, V>(
    known: &mut HashSet<Arc<T>>,
    kept: &mut usize,
    value: V,
    weigh: impl FnOnce(&T) -> (usize, usize),
) -> Arc<T>
where
    T: ?Sized + Eq + Hash,
    V: Borrow<T>,
    Arc<T>: From<V>,
{
    if let Some(known) = known.get(value.borrow()) {
        return Arc::clone(known);
    }
    let new: Arc<T> = value.into();
    known.insert(Arc::clone(&new));
    let (values, bytes) = weigh(&new);
    count(kept, values, bytes);
    new
}
