//! Computes which OperatorGroups share namespaces, and the effect on the APIs they provide.
//!
//! Pure set algebra (`docs/reference/operator-groups.md`).

use std::collections::BTreeSet;

pub(crate) use olm_api::intersection::NamespaceSet;

/// Required change of a group's list of provided APIs before one of its ClusterServiceVersions may continue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ApiIntersection {
    /// The list contains the ClusterServiceVersion's APIs, and no other group provides them.
    NoConflict,
    /// The APIs must be added to the list.
    Add,
    /// An intersecting group provides one of them, so the new ClusterServiceVersion fails.
    Conflict,
    /// Both groups list them, so they are removed; the first group that adds them again keeps them.
    Remove,
}

/// Compares the APIs of a ClusterServiceVersion with its own group's list and with those of all intersecting groups.
pub(crate) fn reconcile_apis<T: Ord>(
    csv: &BTreeSet<T>,
    own: &BTreeSet<T>,
    others: &BTreeSet<T>,
) -> ApiIntersection {
    match (csv.is_disjoint(others), csv.is_subset(own)) {
        (true, true) => ApiIntersection::NoConflict,
        (true, false) => ApiIntersection::Add,
        (false, false) => ApiIntersection::Conflict,
        (false, true) => ApiIntersection::Remove,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn set(names: &[&str]) -> NamespaceSet {
        NamespaceSet::new(names.iter().copied())
    }

    #[test]
    fn all_meets_every_set_but_the_empty_one() {
        for (a, b, expected) in [
            (set(&[""]), set(&["x"]), true),
            (set(&[""]), set(&[""]), true),
            (set(&[""]), set(&[]), false),
            (set(&[]), set(&[]), false),
            (set(&["x"]), set(&["y"]), false),
            (set(&["x", "y"]), set(&["y", "z"]), true),
            (set(&["", "x"]), set(&["y"]), false),
        ] {
            assert_eq!(a.intersects(&b), expected, "{a:?} {b:?}");
            assert_eq!(b.intersects(&a), expected, "{b:?} {a:?}");
        }
    }

    #[test]
    fn ogx_002_a_group_counts_with_its_own_namespace_so_that_one_watching_it_intersects() {
        let ours = NamespaceSet::of_group("ns", ["ns-1"]);
        let theirs = NamespaceSet::of_group("ns-2", ["ns"]);
        assert!(ours.intersects(&theirs));
        assert!(!set(&["ns-1"]).intersects(&set(&["ns"])));
        assert_eq!(NamespaceSet::of_group("ns", [""]), set(&[""]));
        assert_eq!(NamespaceSet::of_group("ns", Vec::<String>::new()), set(&[]));
    }

    #[test]
    fn the_four_answers_follow_from_two_questions() {
        let apis = |text: &str| text.chars().collect::<BTreeSet<_>>();
        for (csv, own, others, expected) in [
            ("ab", "ab", "c", ApiIntersection::NoConflict),
            ("ab", "a", "c", ApiIntersection::Add),
            ("ab", "a", "b", ApiIntersection::Conflict),
            ("ab", "abc", "b", ApiIntersection::Remove),
            ("", "", "b", ApiIntersection::NoConflict),
        ] {
            assert_eq!(
                reconcile_apis(&apis(csv), &apis(own), &apis(others)),
                expected,
                "{csv} {own} {others}"
            );
        }
    }

    proptest! {
        #[test]
        fn intersecting_is_symmetric(a in prop::collection::btree_set("[xyz]?", 0..4), b in prop::collection::btree_set("[xyz]?", 0..4)) {
            let (a, b) = (NamespaceSet::new(a), NamespaceSet::new(b));
            prop_assert_eq!(a.intersects(&b), b.intersects(&a));
        }
    }
}
