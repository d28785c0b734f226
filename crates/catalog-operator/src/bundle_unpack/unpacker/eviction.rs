//! Memory limits of bundles, and their eviction.
//!
//! A bundle is needed in two cases. A notified subscriber has not read it yet. Or a subscriber has read it in
//! a reconcile that also requested another one, which is still missing. A reconcile needs all of its bundles
//! at once, and evicting one while the next one is fetched would never end. All other bundles are kept for
//! later requests, and evicted when memory is short.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::super::error::{UnpackClass, UnpackError};
use super::super::packed::PackedBundle;
use super::{Entry, EntryState, Key, Waiter};

/// Time for which an unneeded bundle stays in memory; the cache on disk keeps it longer.
pub(crate) const KEEP_READY: Duration = Duration::from_secs(15);
/// Time for which a bundle is kept for notified subscribers, because reconciles may be delayed by a minute.
pub(crate) const PROMISE: Duration = Duration::from_secs(300);
/// Maximum time between requests of the same reconcile.
const ROUND: Duration = Duration::from_secs(2);
/// Limit of all bundles in memory, in bytes, above which unneeded ones are evicted.
pub(crate) const READY_BYTES: usize = 16 << 20;
/// Limit of all needed bundles, in bytes, above which a namespace only gets its share.
pub(crate) const NEEDED_BYTES: usize = 128 << 20;

/// One content, under any number of names.
pub(super) struct MemoryUse {
    bytes: usize,
    last_used: Instant,
    /// Namespace of the last request.
    namespace: String,
    is_needed: bool,
}

/// Returns the contents in memory, by their address.
pub(super) fn memory_use(entries: &BTreeMap<Key, Entry>, now: Instant) -> BTreeMap<usize, MemoryUse> {
    let waiting = waiting(entries, now);
    let mut all: BTreeMap<usize, MemoryUse> = BTreeMap::new();
    for entry in entries.values() {
        let EntryState::Ready(bundle) = &entry.state else {
            continue;
        };
        let is_needed = is_needed(entry, &waiting, now);
        let held = all.entry(address(bundle)).or_insert_with(|| MemoryUse {
            bytes: bundle.bytes(),
            last_used: entry.last_used,
            namespace: entry.namespace.clone(),
            is_needed: false,
        });
        held.is_needed |= is_needed;
        if entry.last_used > held.last_used {
            held.last_used = entry.last_used;
            held.namespace.clone_from(&entry.namespace);
        }
    }
    all
}

fn address(bundle: &Arc<PackedBundle>) -> usize {
    Arc::as_ptr(bundle).addr()
}

/// Returns the subscribers whose reconcile cannot continue yet, with the time of their last request for a
/// missing bundle.
pub(super) fn waiting(entries: &BTreeMap<Key, Entry>, now: Instant) -> BTreeMap<Waiter, Instant> {
    let mut waiting: BTreeMap<Waiter, Instant> = BTreeMap::new();
    for entry in entries.values() {
        let asked: Vec<(&Waiter, Instant)> = match entry.state {
            EntryState::Running { .. } => entry.waiters.iter().map(|(w, asked)| (w, asked.at)).collect(),
            EntryState::Ready(_) => promised(entry, now).collect(),
            EntryState::Failed(_) => Vec::new(),
        };
        for (waiter, at) in asked {
            let last = waiting.entry(waiter.clone()).or_insert(at);
            *last = at.max(*last);
        }
    }
    waiting
}

/// Returns the notified subscribers of a bundle that may still read it, with the time of their request.
fn promised(entry: &Entry, now: Instant) -> impl Iterator<Item = (&Waiter, Instant)> {
    let told = entry.told.iter();
    told.filter(move |(_, told)| now.saturating_duration_since(told.at) < PROMISE)
        .map(|(waiter, told)| (waiter, told.asked))
}

/// True when an available bundle is needed, given all waiting subscribers.
pub(super) fn is_needed(entry: &Entry, waiting: &BTreeMap<Waiter, Instant>, now: Instant) -> bool {
    promised(entry, now).next().is_some()
        || entry.readers.iter().any(|(reader, read)| {
            let asked = waiting.get(reader);
            asked.is_some_and(|asked| asked.saturating_duration_since(*read) < ROUND)
        })
}

/// Checks that there is memory for a bundle that `waiters` need. Subscribers that wait for nothing else
/// always get some.
///
/// # Errors
/// All of their namespaces exceed their share.
pub(super) fn check<'a>(
    entries: &BTreeMap<Key, Entry>,
    bundle: &PackedBundle,
    waiters: impl Iterator<Item = &'a Waiter>,
    image: &str,
    now: Instant,
) -> Result<(), UnpackError> {
    let mut needed: BTreeMap<String, usize> = BTreeMap::new();
    for held in memory_use(entries, now)
        .into_values()
        .filter(|held| held.is_needed)
    {
        let of_namespace = needed.entry(held.namespace).or_default();
        *of_namespace = of_namespace.saturating_add(held.bytes);
    }
    let bytes = bundle.bytes();
    let total = needed.values().copied().fold(bytes, usize::saturating_add);
    if total <= NEEDED_BYTES {
        return Ok(());
    }
    let part = NEEDED_BYTES / needed.len().max(1);
    let mut refused = None;
    for namespace in waiters.map(Waiter::namespace) {
        match needed.get(namespace) {
            Some(own) if own.saturating_add(bytes) > part => refused = Some(namespace),
            _ => return Ok(()),
        }
    }
    refused.map_or(Ok(()), |namespace| {
        let limit = NEEDED_BYTES >> 20;
        Err(UnpackError::new(
            UnpackClass::NoRoom,
            format!(
                "image `{image}`: bundles that are needed together exceed {limit} MiB (limit NEEDED_BYTES), and those of namespace {namespace} exceed its share"
            ),
        ))
    })
}

/// Evicts bundles: from the namespace with the most unneeded content, least recently used first.
pub(super) fn shrink(entries: &mut BTreeMap<Key, Entry>, now: Instant) {
    let mut held = memory_use(entries, now);
    let mut total = held
        .values()
        .map(|held| held.bytes)
        .fold(0, usize::saturating_add);
    let mut gone = BTreeSet::new();
    while total > READY_BYTES {
        let Some(address) = next_to_go(&held) else {
            break;
        };
        let freed = held.remove(&address).map_or(0, |held| held.bytes);
        total = total.saturating_sub(freed);
        gone.insert(address);
    }
    if !gone.is_empty() {
        entries.retain(
            |_, entry| !matches!(&entry.state, EntryState::Ready(bundle) if gone.contains(&address(bundle))),
        );
    }
}

fn next_to_go(held: &BTreeMap<usize, MemoryUse>) -> Option<usize> {
    let idle = || held.iter().filter(|(_, held)| !held.is_needed);
    let mut by_namespace: BTreeMap<&str, usize> = BTreeMap::new();
    for (_, held) in idle() {
        let of_namespace = by_namespace.entry(held.namespace.as_str()).or_default();
        *of_namespace = of_namespace.saturating_add(held.bytes);
    }
    let (most, _) = by_namespace.into_iter().max_by_key(|(_, bytes)| *bytes)?;
    idle()
        .filter(|(_, held)| held.namespace == most)
        .min_by_key(|(_, held)| held.last_used)
        .map(|(address, _)| *address)
}
