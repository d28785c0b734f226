//! Checks whether another content fits into memory, and selects the contents to drop for it. No I/O.
//!
//! All contents together have a limit. Below it, the first ones get memory. At the limit, each namespace has
//! a share, so that the catalogs of one namespace do not displace those of others. A share grows with the
//! number of namespaces that use its catalogs, because all namespaces use those of the global namespace.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use olm_runtime::NamespacedName;

/// Limits of contents, in bytes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bounds {
    /// Limit of the catalogs in one namespace.
    pub(super) namespace: usize,
    /// Limit of all catalogs.
    pub(super) total: usize,
}

/// A content in memory.
#[derive(Debug, Clone, Copy)]
pub(super) struct Kept<'a> {
    pub(super) key: &'a NamespacedName,
    pub(super) bytes: usize,
    /// Namespaces that use it.
    pub(super) users: &'a BTreeSet<String>,
}

/// The catalogs of one namespace.
#[derive(Default)]
struct OfNamespace<'a> {
    bytes: usize,
    users: BTreeSet<&'a str>,
}

impl<'a> OfNamespace<'a> {
    fn count(&mut self, kept: &Kept<'a>) {
        self.bytes = self.bytes.saturating_add(kept.bytes);
        self.users.extend(kept.users.iter().map(String::as_str));
    }

    /// Number of shares of this namespace.
    fn parts(&self) -> usize {
        self.users.len().max(1)
    }
}

/// Result for a content that was read.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Admission {
    /// It is kept, and these are dropped.
    Admitted { instead_of: Vec<NamespacedName> },
    /// It is not kept, with the reason.
    Refused(String),
}

/// Checks whether a `new` content fits beside the `kept` ones, without its own former content.
pub(super) fn admit<'a>(
    kept: impl IntoIterator<Item = Kept<'a>>,
    new: Kept<'a>,
    bounds: Bounds,
) -> Admission {
    let own = new.key.namespace.as_str();
    let mut others: Vec<Kept<'_>> = kept.into_iter().filter(|kept| kept.key != new.key).collect();
    let mut namespaces: BTreeMap<&str, OfNamespace<'_>> = BTreeMap::new();
    for kept in others.iter().chain([&new]) {
        namespaces.entry(&kept.key.namespace).or_default().count(kept);
    }
    let with_new = namespaces.get(own).map_or(new.bytes, |own| own.bytes);
    let beside = with_new.saturating_sub(new.bytes);
    if with_new > bounds.namespace {
        return Admission::Refused(format!(
            "out of memory for catalogs: this one needs {} MiB, others of its namespace use {} MiB, the limit of a namespace is {} MiB",
            new.bytes >> 20,
            beside >> 20,
            bounds.namespace >> 20
        ));
    }
    let of_all = namespaces.values();
    let mut all = of_all.fold(0_usize, |sum, namespace| sum.saturating_add(namespace.bytes));
    let mut instead_of = Vec::new();
    if all <= bounds.total {
        return Admission::Admitted { instead_of };
    }
    let parts: usize = namespaces.values().map(OfNamespace::parts).sum();
    let own_parts = namespaces.get(own).map_or(1, OfNamespace::parts);
    let part = (bounds.total / parts).saturating_mul(own_parts);
    if with_new > part {
        return Admission::Refused(format!(
            "out of memory for catalogs: this one needs {} MiB, the limit of all catalogs is {} MiB, and those of its namespace would exceed its share of {} MiB",
            new.bytes >> 20,
            bounds.total >> 20,
            part >> 20
        ));
    }
    // Largest first, so that as few as possible are dropped.
    others.sort_by_key(|other| Reverse(other.bytes));
    while all > bounds.total {
        let most = namespaces
            .iter()
            .filter(|(namespace, of_it)| **namespace != own && of_it.bytes > 0)
            .max_by_key(|(_, of_it)| of_it.bytes / of_it.parts());
        let Some((namespace, _)) = most else { break };
        let namespace = *namespace;
        let Some(place) = others.iter().position(|other| other.key.namespace == namespace) else {
            break;
        };
        let gone = others.remove(place);
        all = all.saturating_sub(gone.bytes);
        if let Some(of_it) = namespaces.get_mut(namespace) {
            of_it.bytes = of_it.bytes.saturating_sub(gone.bytes);
        }
        instead_of.push(gone.key.clone());
    }
    Admission::Admitted { instead_of }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUNDS: Bounds = Bounds {
        namespace: 60 << 20,
        total: 100 << 20,
    };

    /// Returns the result for `catalog` of this size beside `kept`, each `namespace/name` with its size in
    /// MiB, and used in its own namespace.
    fn admitted(kept: &[(&str, usize)], catalog: &str, mebibytes: usize) -> Result<String, String> {
        let used = |text: &str| [text.split('/').next().unwrap().to_owned()].into();
        let kept: Vec<_> = kept
            .iter()
            .map(|(name, size)| (*name, *size, used(name)))
            .collect();
        admitted_to(&kept, &(catalog, mebibytes, used(catalog)))
    }

    fn admitted_to(
        kept: &[(&str, usize, BTreeSet<String>)],
        new: &(&str, usize, BTreeSet<String>),
    ) -> Result<String, String> {
        let key = |text: &str| {
            let (namespace, name) = text.split_once('/').unwrap();
            NamespacedName::new(namespace, name)
        };
        let all: Vec<_> = kept
            .iter()
            .chain([new])
            .map(|of| (key(of.0), of.1 << 20, &of.2))
            .collect();
        let mut all: Vec<Kept<'_>> = all
            .iter()
            .map(|(key, bytes, users)| Kept {
                key,
                bytes: *bytes,
                users,
            })
            .collect();
        let new = all.pop().unwrap();
        match admit(all, new, BOUNDS) {
            Admission::Admitted { instead_of } => {
                let gone: Vec<String> = instead_of.iter().map(ToString::to_string).collect();
                Ok(gone.join(" "))
            }
            Admission::Refused(text) => Err(text),
        }
    }

    #[test]
    fn within_the_bounds_whoever_comes_is_served() {
        let kept = [("a/one", 30), ("b/one", 40)];
        assert_eq!(admitted(&kept, "a/two", 30), Ok(String::new()));
        assert_eq!(
            admitted(&kept, "b/one", 60),
            Ok(String::new()),
            "its former content goes"
        );
    }

    #[test]
    fn a_namespace_has_a_bound_of_its_own() {
        let text = admitted(&[("a/one", 40)], "a/two", 21).unwrap_err();
        insta::assert_snapshot!(text, @"out of memory for catalogs: this one needs 21 MiB, others of its namespace use 40 MiB, the limit of a namespace is 60 MiB");
    }

    /// Two tenants use all the memory. The third gets its share, and the one with the most loses it.
    #[test]
    fn a_namespace_within_its_part_takes_the_place_of_the_one_that_has_most() {
        let kept = [("a/small", 10), ("a/large", 45), ("b/one", 25), ("b/two", 20)];
        assert_eq!(admitted(&kept, "c/one", 30), Ok("a/large".to_owned()));
        let kept = [("a/one", 50), ("b/one", 50)];
        let text = admitted(&kept, "c/one", 34).unwrap_err();
        insta::assert_snapshot!(text, @"out of memory for catalogs: this one needs 34 MiB, the limit of all catalogs is 100 MiB, and those of its namespace would exceed its share of 33 MiB");
    }

    /// Four tenants with a catalog each displace nothing from the catalogs that all of them use.
    #[test]
    fn what_everybody_uses_is_not_one_namespaces_part() {
        let everybody: BTreeSet<String> = ["a", "b", "c", "d"].map(str::to_owned).into();
        let own = |name: &str| BTreeSet::from([name.to_owned()]);
        let tenants = [
            ("a/x", 15, own("a")),
            ("b/x", 15, own("b")),
            ("c/x", 15, own("c")),
            ("d/x", 20, own("d")),
        ];
        let mut kept = tenants.to_vec();
        kept.push(("olm/one", 30, everybody.clone()));
        assert_eq!(
            admitted_to(&kept, &("olm/two", 15, everybody.clone())),
            Ok("d/x".to_owned())
        );
        assert_eq!(
            admitted_to(&kept, &("e/x", 11, own("e"))),
            Ok("d/x".to_owned()),
            "it has most for its users"
        );
        let text = admitted_to(&kept, &("olm/two", 21, everybody)).unwrap_err();
        insta::assert_snapshot!(text, @"out of memory for catalogs: this one needs 21 MiB, the limit of all catalogs is 100 MiB, and those of its namespace would exceed its share of 50 MiB");
    }
}
