//! The replacement chain: predecessors, successors, and the versions that may be collected.
//!
//! Every walk ends even when `replaces` fields form a cycle, and a ClusterServiceVersion that names itself
//! replaces nothing (`docs/reference/lifecycle.md`).

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use olm_api::v1alpha1::ClusterServiceVersionPhase as Phase;

/// Another ClusterServiceVersion of the namespace.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Sibling {
    pub(crate) name: String,
    pub(crate) uid: String,
    pub(crate) replaces: Option<String>,
    pub(crate) phase: Phase,
    /// Names of the CustomResourceDefinitions it owns.
    pub(crate) owned_crds: BTreeSet<String>,
    /// Names of the CustomResourceDefinitions whose objects it converts.
    pub(crate) converted_crds: BTreeSet<String>,
    /// Names of the Services that its description requires.
    pub(crate) services: BTreeSet<String>,
    /// True when it is being deleted.
    pub(crate) is_deleting: bool,
    pub(crate) created: Option<Timestamp>,
}

impl Sibling {
    /// True in phase Succeeded.
    pub(crate) fn is_succeeded(&self) -> bool {
        self.phase == Phase::Succeeded
    }
}

/// Returns the ClusterServiceVersion that this one replaces, if it still exists.
pub(crate) fn previous<'a>(
    name: &str,
    replaces: Option<&str>,
    siblings: &'a [Sibling],
) -> Option<&'a Sibling> {
    let replaces = replaces.filter(|replaces| !replaces.is_empty() && *replaces != name)?;
    siblings.iter().find(|sibling| sibling.name == replaces)
}

/// Returns the ClusterServiceVersion that replaces `name`. If there are several: one that has succeeded, else
/// the newest, else the first by name.
pub(crate) fn next<'a>(name: &str, siblings: &'a [Sibling]) -> Option<&'a Sibling> {
    let follows = |sibling: &&Sibling| sibling.name != name && sibling.replaces.as_deref() == Some(name);
    preferred(siblings.iter().filter(follows))
}

fn preferred<'a>(following: impl Iterator<Item = &'a Sibling>) -> Option<&'a Sibling> {
    following.min_by(|a, b| preference(a).cmp(&preference(b)))
}

fn preference(sibling: &Sibling) -> (bool, std::cmp::Reverse<Option<Timestamp>>, &str) {
    (
        !sibling.is_succeeded(),
        std::cmp::Reverse(sibling.created),
        &sibling.name,
    )
}

/// Error: the chain is a cycle; the name is the first one visited twice.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Cycle(pub String);

/// Index of the siblings for a walk. Users choose the length and the order of a chain, so each sibling is
/// visited once by any walk.
struct Index<'a> {
    by_name: BTreeMap<&'a str, &'a Sibling>,
    /// Siblings by the name that they replace.
    following: BTreeMap<&'a str, Vec<&'a Sibling>>,
}

impl<'a> Index<'a> {
    fn of(siblings: impl IntoIterator<Item = &'a Sibling>) -> Self {
        let mut index = Index {
            by_name: BTreeMap::new(),
            following: BTreeMap::new(),
        };
        for sibling in siblings {
            index.by_name.insert(&sibling.name, sibling);
            let replaces = sibling.replaces.as_deref();
            if let Some(replaces) = replaces.filter(|replaces| *replaces != sibling.name) {
                index.following.entry(replaces).or_default().push(sibling);
            }
        }
        index
    }

    /// Returns all that replace this one.
    fn following(&self, name: &str) -> &[&'a Sibling] {
        self.following.get(name).map(Vec::as_slice).unwrap_or_default()
    }

    fn next(&self, name: &str) -> Option<&'a Sibling> {
        preferred(self.following(name).iter().copied())
    }

    fn ancestors(&self, name: &str, replaces: Option<&str>) -> BTreeSet<&'a str> {
        let mut found = BTreeSet::new();
        let mut at = replaces;
        while let Some(sibling) = at.and_then(|at| self.by_name.get(at)) {
            if sibling.name == name || !found.insert(sibling.name.as_str()) {
                break;
            }
            at = sibling.replaces.as_deref();
        }
        found
    }
}

/// Returns the chain of those that replace `name`, directly or indirectly, in their order; and the first one
/// that would be visited twice if it is a cycle.
fn followers<'a>(
    name: &str,
    siblings: impl IntoIterator<Item = &'a Sibling>,
) -> (Vec<&'a Sibling>, Option<Cycle>) {
    let index = Index::of(siblings);
    let mut seen = BTreeSet::from([name]);
    let mut found = Vec::new();
    let mut at = name;
    while let Some(following) = index.next(at) {
        if !seen.insert(&following.name) {
            return (found, Some(Cycle(following.name.clone())));
        }
        found.push(following);
        at = &following.name;
    }
    (found, None)
}

/// Returns the last one of the chain that starts with the replacement of `name`.
///
/// # Errors
/// When the chain is a cycle.
pub(crate) fn last<'a>(
    name: &str,
    siblings: impl IntoIterator<Item = &'a Sibling>,
) -> Result<Option<&'a Sibling>, Cycle> {
    let (mut found, cycle) = followers(name, siblings);
    cycle.map_or(Ok(found.pop()), Err)
}

/// Returns the first one after `name` in the chain that has succeeded.
pub(crate) fn succeeded<'a>(
    name: &str,
    siblings: impl IntoIterator<Item = &'a Sibling>,
) -> Option<&'a Sibling> {
    let (found, _) = followers(name, siblings);
    found.into_iter().find(|one| one.is_succeeded())
}

/// Returns the names of all ClusterServiceVersions this one replaces, directly or indirectly, without its
/// own.
pub(crate) fn ancestors<'a>(
    name: &str,
    replaces: Option<&str>,
    siblings: impl IntoIterator<Item = &'a Sibling>,
) -> BTreeSet<&'a str> {
    Index::of(siblings).ancestors(name, replaces)
}

/// Returns the names of the whole chain: this one, and all it replaces or that replace it, directly or
/// indirectly.
pub(crate) fn chain<'a>(
    name: &'a str,
    replaces: Option<&str>,
    siblings: impl IntoIterator<Item = &'a Sibling>,
) -> BTreeSet<&'a str> {
    let index = Index::of(siblings);
    let mut chain = index.ancestors(name, replaces);
    chain.insert(name);
    let mut pending: Vec<&str> = chain.iter().copied().collect();
    while let Some(replaced) = pending.pop() {
        for sibling in index.following(replaced) {
            if chain.insert(&sibling.name) {
                pending.push(&sibling.name);
            }
        }
    }
    chain
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sibling(name: &str, replaces: &str) -> Sibling {
        Sibling {
            name: name.into(),
            replaces: (!replaces.is_empty()).then(|| replaces.into()),
            ..Sibling::default()
        }
    }

    #[test]
    fn the_previous_one_is_found_by_name_and_never_itself() {
        let siblings = [sibling("a", "")];
        assert_eq!(
            previous("b", Some("a"), &siblings).map(|s| s.name.as_str()),
            Some("a")
        );
        assert_eq!(previous("a", Some("a"), &siblings), None);
        assert_eq!(previous("b", Some(""), &siblings), None);
        assert_eq!(previous("b", Some("gone"), &siblings), None);
        assert_eq!(previous("b", None, &siblings), None);
    }

    #[test]
    fn of_several_replacements_the_succeeded_one_wins_then_the_newest() {
        let older = Sibling {
            created: Some(jiff::Timestamp::UNIX_EPOCH),
            ..sibling("older", "a")
        };
        let newer = Sibling {
            created: "2026-01-01T00:00:00Z".parse().ok(),
            ..sibling("newer", "a")
        };
        assert_eq!(
            next("a", &[older.clone(), newer.clone()]).map(|s| s.name.as_str()),
            Some("newer")
        );
        let succeeded = Sibling {
            phase: Phase::Succeeded,
            ..older
        };
        assert_eq!(
            next("a", &[newer, succeeded]).map(|s| s.name.as_str()),
            Some("older")
        );
        assert_eq!(next("a", &[sibling("a", "a")]), None);
    }

    #[test]
    fn the_last_of_a_chain_is_found_and_a_cycle_is_told() {
        let chain = [sibling("b", "a"), sibling("c", "b")];
        assert_eq!(last("a", &chain).unwrap().map(|s| s.name.as_str()), Some("c"));
        assert_eq!(last("c", &chain), Ok(None));
        assert_eq!(
            last("a", &[sibling("b", "a"), sibling("a", "b")]),
            Err(Cycle("a".into()))
        );
    }

    #[test]
    fn a_successor_may_be_being_replaced_itself_as_long_as_one_behind_it_runs() {
        let replacing = Sibling {
            phase: Phase::Replacing,
            ..sibling("b", "a")
        };
        let running = Sibling {
            phase: Phase::Succeeded,
            ..sibling("c", "b")
        };
        let chain = [replacing.clone(), running];
        assert_eq!(succeeded("a", &chain).map(|s| s.name.as_str()), Some("c"));
        assert_eq!(succeeded("a", &[replacing]), None);
        assert_eq!(succeeded("a", &[sibling("b", "a"), sibling("a", "b")]), None);
    }

    #[test]
    fn walks_end_in_every_cycle() {
        let circle = [sibling("a", "c"), sibling("b", "a"), sibling("c", "b")];
        assert_eq!(ancestors("a", Some("c"), &circle), BTreeSet::from(["b", "c"]));
        assert_eq!(chain("a", Some("c"), &circle), BTreeSet::from(["a", "b", "c"]));
        assert_eq!(chain("x", Some("x"), &circle), BTreeSet::from(["x"]));
    }

    #[test]
    fn a_walk_leaves_out_who_replaces_itself() {
        let siblings = [sibling("b", "a"), sibling("b", "b")];
        assert_eq!(
            last("a", &siblings[..1]).unwrap().map(|s| s.name.as_str()),
            Some("b")
        );
        assert_eq!(last("b", &siblings[1..]), Ok(None));
        assert_eq!(succeeded("b", &siblings[1..]), None);
    }

    /// Sorted by name, which is the worst order: each one comes before the one it replaces.
    #[test]
    fn a_walk_looks_at_each_sibling_once_however_long_the_chain_is() {
        let name = |number: usize| format!("c{number:05}");
        for length in [500, 5000] {
            let siblings: Vec<Sibling> = (0..length)
                .map(|number| sibling(&name(number), &name(number + 1)))
                .collect();
            let (first, last_name) = (name(length), name(0));
            let looked = std::cell::Cell::new(0);
            let each = || siblings.iter().inspect(|_| looked.set(looked.get() + 1));
            let is_last = |found: Option<&Sibling>| found.is_some_and(|found| found.name == last_name);
            assert_eq!(chain(&first, None, each()).len(), length + 1);
            assert_eq!(chain(&last_name, Some(&name(1)), each()).len(), length);
            assert_eq!(ancestors("x", Some(&last_name), each()).len(), length);
            assert!(last(&first, each()).is_ok_and(is_last));
            assert_eq!(succeeded(&first, each()), None);
            assert_eq!(looked.get(), 5 * length);
        }
    }

    #[test]
    fn the_chain_reaches_both_ways_and_includes_side_branches() {
        let siblings = [
            sibling("a", ""),
            sibling("b", "a"),
            sibling("b2", "a"),
            sibling("c", "b"),
            sibling("z", ""),
        ];
        assert_eq!(
            chain("b", Some("a"), &siblings),
            BTreeSet::from(["a", "b", "b2", "c"])
        );
        assert_eq!(ancestors("c", Some("b"), &siblings), BTreeSet::from(["a", "b"]));
    }
}
