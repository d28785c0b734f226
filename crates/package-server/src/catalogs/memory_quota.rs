//! Memory limits of a namespace's catalogs, and evictions in favour of others. No I/O.
//!
//! The global namespace's catalogs have a limit of their own. All other namespaces share a limit, first come,
//! first served. When it is reached, each namespace has an equal share, so that one tenant's catalogs do not
//! displace another's.

use std::collections::BTreeMap;
use std::fmt;

use olm_runtime::NamespacedName;

use crate::limits::CATALOG_BYTES;

/// Maximum bytes that catalogs may keep.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bounds {
    /// Bytes of the global namespace's catalogs.
    pub(super) global: usize,
    /// Bytes of one other namespace's catalogs.
    pub(super) namespace: usize,
    /// Bytes of all namespaces except the global one.
    pub(super) tenants: usize,
}

/// A catalog and its bytes.
pub(super) type Kept<'a> = (&'a NamespacedName, usize);

/// The room for a catalog.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryQuota {
    /// Bytes for this catalog.
    pub(super) bytes: usize,
    /// Bytes for its namespace.
    of_namespace: usize,
    /// Bytes that other catalogs of its namespace keep.
    beside: usize,
}

impl MemoryQuota {
    /// Returns the part of it that packages may take.
    pub(super) fn for_packages(self) -> usize {
        self.bytes.saturating_sub(CATALOG_BYTES)
    }
}

/// Explains to a user why a catalog is not served.
impl fmt::Display for MemoryQuota {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [bytes, of_namespace, beside] =
            [self.bytes, self.of_namespace, self.beside].map(|bytes| bytes >> 10);
        write!(
            out,
            "{bytes} KiB are left: catalogs of its namespace may use {of_namespace} KiB, and the others use {beside} KiB"
        )
    }
}

/// Returns the room for the catalog `key` beside what is `kept`. Its own former content does not count.
pub(super) fn room<'a>(
    kept: impl IntoIterator<Item = Kept<'a>>,
    key: &NamespacedName,
    global: &str,
    bounds: Bounds,
) -> MemoryQuota {
    let others = kept.into_iter().filter(|(other, _)| *other != key);
    let mut namespaces = by_namespace(others);
    let beside = namespaces.remove(key.namespace.as_str()).unwrap_or_default();
    let of_namespace = if key.namespace == global {
        bounds.global
    } else {
        namespaces.remove(global);
        let part = bounds.tenants / (namespaces.len() + 1);
        let free = bounds.tenants.saturating_sub(namespaces.values().sum());
        bounds.namespace.min(free.max(part))
    };
    MemoryQuota {
        bytes: of_namespace.saturating_sub(beside),
        of_namespace,
        beside,
    }
}

/// Returns the catalogs to evict so that all together fit: the largest first, of namespaces above their
/// share.
pub(super) fn over_quota<'a>(
    kept: impl IntoIterator<Item = Kept<'a>>,
    global: &str,
    bounds: Bounds,
) -> Vec<NamespacedName> {
    let tenants = kept.into_iter().filter(|(key, _)| key.namespace != global);
    let mut tenants: Vec<Kept<'_>> = tenants.collect();
    let mut namespaces = by_namespace(tenants.iter().copied());
    let mut all: usize = namespaces.values().sum();
    let part = bounds.tenants / namespaces.len().max(1);
    tenants.sort_by_key(|(key, bytes)| (std::cmp::Reverse(*bytes), *key));
    let mut gone = Vec::new();
    for (key, bytes) in tenants {
        let of_namespace = namespaces.entry(key.namespace.as_str()).or_default();
        if all > bounds.tenants && *of_namespace > part {
            *of_namespace -= bytes;
            all -= bytes;
            gone.push(key.clone());
        }
    }
    gone
}

/// Returns the bytes of each namespace; empty ones are not counted.
fn by_namespace<'a>(kept: impl Iterator<Item = Kept<'a>>) -> BTreeMap<&'a str, usize> {
    let mut namespaces = BTreeMap::new();
    for (key, bytes) in kept.filter(|(_, bytes)| *bytes > 0) {
        *namespaces.entry(key.namespace.as_str()).or_default() += bytes;
    }
    namespaces
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUNDS: Bounds = Bounds {
        global: 80,
        namespace: 60,
        tenants: 100,
    };

    fn keys(kept: &[(&str, &str, usize)]) -> Vec<(NamespacedName, usize)> {
        let key =
            |(namespace, name, bytes): &(&str, &str, usize)| (NamespacedName::new(*namespace, *name), *bytes);
        kept.iter().map(key).collect()
    }

    fn room_for(kept: &[(&str, &str, usize)], namespace: &str) -> usize {
        let kept = keys(kept);
        let key = NamespacedName::new(namespace, "cat");
        room(kept.iter().map(|(key, bytes)| (key, *bytes)), &key, "olm", BOUNDS).bytes
    }

    fn gone(kept: &[(&str, &str, usize)]) -> Vec<String> {
        let kept = keys(kept);
        let gone = over_quota(kept.iter().map(|(key, bytes)| (key, *bytes)), "olm", BOUNDS);
        gone.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_namespace_has_room_to_its_bound_and_at_the_bound_of_all_its_part() {
        assert_eq!(room_for(&[], "a"), 60);
        assert_eq!(
            room_for(&[("a", "cat", 50)], "a"),
            60,
            "its own former content goes"
        );
        assert_eq!(room_for(&[("a", "other", 50)], "a"), 10);
        assert_eq!(
            room_for(&[("b", "cat", 60)], "a"),
            50,
            "its part is more than what is free"
        );
        assert_eq!(room_for(&[("b", "cat", 20)], "a"), 60);
        assert_eq!(room_for(&[("b", "cat", 50), ("c", "cat", 40)], "a"), 33);
        assert_eq!(
            room_for(&[("b", "cat", 50), ("c", "cat", 0)], "a"),
            50,
            "who keeps nothing has no part"
        );
    }

    #[test]
    fn what_everybody_sees_and_what_tenants_have_take_nothing_from_each_other() {
        assert_eq!(room_for(&[("b", "cat", 60), ("c", "cat", 40)], "olm"), 80);
        assert_eq!(room_for(&[("olm", "large", 60)], "a"), 60);
        assert_eq!(room_for(&[("olm", "large", 50)], "olm"), 30);
    }

    #[test]
    fn what_is_left_is_told_with_what_others_keep() {
        let key = NamespacedName::new("a", "cat");
        let other = NamespacedName::new("a", "other");
        let bounds = Bounds {
            global: 0,
            namespace: 64 << 20,
            tenants: 512 << 20,
        };
        let room = room([(&other, 48 << 20)], &key, "olm", bounds);
        assert_eq!(
            room.to_string(),
            "16384 KiB are left: catalogs of its namespace may use 65536 KiB, and the others use 49152 KiB"
        );
        assert_eq!(room.for_packages(), (16 << 20) - CATALOG_BYTES);
    }

    #[test]
    fn the_largest_of_whoever_has_more_than_their_part_goes() {
        assert!(gone(&[("a", "x", 60), ("b", "x", 40)]).is_empty());
        assert_eq!(gone(&[("a", "x", 30), ("a", "y", 30), ("b", "x", 50)]), ["a/x"]);
        assert_eq!(gone(&[("a", "x", 60), ("b", "x", 34), ("c", "x", 33)]), ["a/x"]);
        assert_eq!(gone(&[("a", "x", 45), ("b", "x", 45), ("c", "x", 33)]), ["a/x"]);
        assert!(gone(&[("olm", "x", 500), ("a", "x", 1)]).is_empty());
    }
}
