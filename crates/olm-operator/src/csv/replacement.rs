//! The replacement chain: predecessors, successors, and the versions that may be collected.
//!
//! Every walk ends even when `replaces` fields form a cycle, and a ClusterServiceVersion that names itself
//! replaces nothing (`docs/reference/lifecycle.md`).

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use jiff::Timestamp;
use kube::ResourceExt;
use olm_api::v1alpha1::{ClusterServiceVersion, ClusterServiceVersionPhase as Phase};

/// Another ClusterServiceVersion of the namespace.
pub(crate) type Sibling = Arc<ClusterServiceVersion>;

/// Returns the name of a ClusterServiceVersion.
pub(crate) fn name_of(sibling: &Sibling) -> &str {
    sibling.metadata.name.as_deref().unwrap_or_default()
}

/// True in phase Succeeded.
pub(crate) fn is_succeeded(sibling: &Sibling) -> bool {
    *sibling.phase() == Phase::Succeeded
}

/// Returns the ClusterServiceVersion that this one replaces, if it still exists.
pub(crate) fn previous<'a>(
    name: &str,
    replaces: Option<&str>,
    siblings: &'a [Sibling],
) -> Option<&'a Sibling> {
    let replaces = replaces.filter(|replaces| !replaces.is_empty() && *replaces != name)?;
    siblings.iter().find(|sibling| name_of(sibling) == replaces)
}

/// Returns the ClusterServiceVersion that replaces `name`. If there are several: one that has succeeded, else
/// the newest, else the first by name.
pub(crate) fn next<'a>(name: &str, siblings: &'a [Sibling]) -> Option<&'a Sibling> {
    let follows = |sibling: &&Sibling| name_of(sibling) != name && sibling.spec.replaces() == Some(name);
    preferred(siblings.iter().filter(follows))
}

fn preferred<'a>(following: impl Iterator<Item = &'a Sibling>) -> Option<&'a Sibling> {
    following.min_by(|a, b| preference(a).cmp(&preference(b)))
}

fn preference(sibling: &Sibling) -> (bool, std::cmp::Reverse<Option<Timestamp>>, &str) {
    (
        !is_succeeded(sibling),
        std::cmp::Reverse(sibling.creation_timestamp().map(|time| time.0)),
        name_of(sibling),
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
            index.by_name.insert(name_of(sibling), sibling);
            let replaces = sibling.spec.replaces();
            if let Some(replaces) = replaces.filter(|replaces| *replaces != name_of(sibling)) {
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
            if name_of(sibling) == name || !found.insert(name_of(sibling)) {
                break;
            }
            at = sibling.spec.replaces();
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
        if !seen.insert(name_of(following)) {
            return (found, Some(Cycle(name_of(following).to_owned())));
        }
        found.push(following);
        at = name_of(following);
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
    found.into_iter().find(|one| is_succeeded(one))
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
            if chain.insert(name_of(sibling)) {
                pending.push(name_of(sibling));
            }
        }
    }
    chain
}

#[cfg(test)]
pub(crate) mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
    use olm_api::v1alpha1::{ClusterServiceVersionSpec, ClusterServiceVersionStatus};

    use super::*;

    /// Returns a ClusterServiceVersion that replaces another one; `""` for none.
    pub(crate) fn in_phase(name: &str, replaces: &str, phase: Phase) -> Sibling {
        let spec = ClusterServiceVersionSpec {
            replaces: Some(replaces.to_owned()),
            ..ClusterServiceVersionSpec::default()
        };
        let mut csv = ClusterServiceVersion::new(name, spec);
        csv.status = Some(ClusterServiceVersionStatus {
            phase,
            ..ClusterServiceVersionStatus::default()
        });
        Arc::new(csv)
    }

    fn sibling(name: &str, replaces: &str) -> Sibling {
        in_phase(name, replaces, Phase::None)
    }

    fn made_at(name: &str, phase: Phase, time: &str) -> Sibling {
        let mut made = in_phase(name, "a", phase);
        Arc::make_mut(&mut made).metadata.creation_timestamp = Some(Time(time.parse().unwrap()));
        made
    }

    #[test]
    fn the_previous_one_is_found_by_name_and_never_itself() {
        let siblings = [sibling("a", "")];
        assert_eq!(previous("b", Some("a"), &siblings).map(name_of), Some("a"));
        assert_eq!(previous("a", Some("a"), &siblings), None);
        assert_eq!(previous("b", Some(""), &siblings), None);
        assert_eq!(previous("b", Some("gone"), &siblings), None);
        assert_eq!(previous("b", None, &siblings), None);
    }

    #[test]
    fn a_succeeded_replacement_precedes_the_newest() {
        let older = made_at("older", Phase::None, "1970-01-01T00:00:00Z");
        let newer = made_at("newer", Phase::None, "2026-01-01T00:00:00Z");
        assert_eq!(next("a", &[older, newer.clone()]).map(name_of), Some("newer"));
        let succeeded = made_at("older", Phase::Succeeded, "1970-01-01T00:00:00Z");
        assert_eq!(next("a", &[newer, succeeded]).map(name_of), Some("older"));
        assert_eq!(next("a", &[sibling("a", "a")]), None);
    }

    #[test]
    fn the_last_of_a_chain_is_found_and_a_cycle_is_reported() {
        let chain = [sibling("b", "a"), sibling("c", "b")];
        assert_eq!(last("a", &chain).unwrap().map(name_of), Some("c"));
        assert_eq!(last("c", &chain), Ok(None));
        assert_eq!(
            last("a", &[sibling("b", "a"), sibling("a", "b")]),
            Err(Cycle("a".into()))
        );
    }

    #[test]
    fn a_successor_may_be_being_replaced_itself_as_long_as_one_behind_it_runs() {
        let replacing = in_phase("b", "a", Phase::Replacing);
        let running = in_phase("c", "b", Phase::Succeeded);
        let chain = [replacing.clone(), running];
        assert_eq!(succeeded("a", &chain).map(name_of), Some("c"));
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
        assert_eq!(last("a", &siblings[..1]).unwrap().map(name_of), Some("b"));
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
            let is_last = |found: Option<&Sibling>| found.is_some_and(|found| name_of(found) == last_name);
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
