use std::sync::Arc;

use super::*;
use crate::catalog::CatalogKey;
use crate::explain::rivals::MAX_CAMPS;
use crate::predicate::Predicate;
use crate::problem::Problem;

fn trees(reasons: &[Reason]) -> Vec<Tree> {
    of_reasons(reasons, &Hints::new(&Problem::default()))
}

/// Returns a Subscription to a package with `depth` layers. Every bundle needs any of the next layer's
/// `width` bundles; the last layer needs something missing.
fn layers(depth: usize, width: usize) -> Vec<Reason> {
    let key = CatalogKey {
        name: "cat".to_owned(),
        namespace: "ns".to_owned(),
    };
    let layer = |layer: usize| -> Vec<BundleId> {
        if layer == depth {
            return Vec::new();
        }
        let names = (0..width).map(|place| format!("l{layer}-{place}.v1"));
        names
            .map(|name| BundleId::of_catalog(&key, "stable", &name))
            .collect()
    };
    let mut reasons = vec![
        Reason::SubscriptionExists {
            subscription: "s".to_owned(),
            asks: "package a".to_owned(),
        },
        Reason::SubscriptionRequires {
            subscription: "s".to_owned(),
            candidates: layer(0),
        },
    ];
    for place in 0..depth {
        reasons.extend(layer(place).into_iter().map(|bundle| Reason::Requires {
            // Texts differ, so that no two are grouped.
            requirement: Arc::new(Predicate::Label(bundle.csv().to_owned())),
            bundle,
            candidates: layer(place + 1),
        }));
    }
    reasons
}

#[test]
fn a_catalog_made_to_be_followed_without_end_is_not() {
    for (depth, width) in [(12, 8), (40, 8), (3, 300), (300, 2)] {
        let reasons = layers(depth, width);
        let roots = trees(&reasons);
        let lines = roots[0].lines();
        // Each bundle is followed once, and each list of candidates has few lines.
        assert!(
            lines.len() <= 12 * depth * width,
            "{depth} × {width}: {}",
            lines.len()
        );
        let text = lines.join("\n");
        let causes = text
            .matches("not installed, and no usable catalog offers it")
            .count();
        assert!(causes > 0, "{depth} × {width}");
        // Past the cut each root cause is reported once.
        if depth > MAX_DEPTH {
            assert!(causes <= SHOWN, "{depth} × {width}: {causes}");
            assert!(text.contains(ABOVE), "{depth} × {width}");
            let end = format!("… which leads to l{}-0.v1 ", depth - 1);
            assert!(text.contains(&end), "{depth} × {width}");
        }
        // In JSON each level of indentation is an object in a list, and readers allow 128 of them.
        let indentation = lines.iter().map(|line| line.len() - line.trim_start().len());
        assert!(indentation.max() < Some(120), "{depth} × {width}");
    }
}

/// Returns the tree of the Subscription without the origins of bundles.
fn plain(reasons: &[Reason]) -> String {
    let roots = trees(reasons);
    roots[0]
        .lines()
        .join("\n")
        .replace(" (channel stable of catalog ns/cat)", "")
}

#[test]
fn candidates_with_reasons_of_their_own_are_shown_up_to_a_number_and_the_rest_is_counted() {
    let mut reasons = layers(1, 7);
    // The last one lacks the same as the first.
    let first = Arc::new(Predicate::Label("l0-0.v1".to_owned()));
    if let Some(Reason::Requires { requirement, .. }) = reasons.last_mut() {
        *requirement = first;
    }
    let text = plain(&reasons);
    let candidates: Vec<&str> = text.lines().filter(|line| line.starts_with("  - ")).collect();
    assert_eq!(
        candidates,
        [
            "  - l0-0.v1 and l0-6.v1",
            "  - l0-1.v1",
            "  - l0-2.v1",
            "  - l0-3.v1",
            "  - 2 more, each excluded for its own reasons",
        ],
        "{text}"
    );
}

#[test]
fn what_two_ways_lead_to_is_followed_once() {
    insta::assert_snapshot!(plain(&layers(2, 2)), @r"
    - subscription s asks for package a
      - l0-0.v1
        - requires an operator with label: l0-0.v1
          - l1-0.v1
            - requires an operator with label: l1-0.v1
              - not installed, and no usable catalog offers it: add a catalog that does
          - l1-1.v1
            - requires an operator with label: l1-1.v1
              - not installed, and no usable catalog offers it: add a catalog that does
      - l0-1.v1
        - requires an operator with label: l0-1.v1
          - l1-0.v1 and l1-1.v1
            - for reasons told or counted above
    ");
}

#[test]
fn a_circle_of_requirements_ends_where_it_begins() {
    let mut reasons = layers(2, 1);
    let [
        ..,
        Reason::Requires { bundle: first, .. },
        Reason::Requires { candidates, .. },
    ] = reasons.as_mut_slice()
    else {
        panic!("two bundles");
    };
    candidates.push(first.clone());
    insta::assert_snapshot!(plain(&reasons), @r"
    - subscription s asks for package a
      - l0-0.v1
        - requires an operator with label: l0-0.v1
          - l1-0.v1
            - requires an operator with label: l1-0.v1
              - l0-0.v1
                - for reasons told or counted above
    ");
}

/// Returns two Subscriptions to versions of one package, each to its own half.
fn halves(versions: usize) -> Vec<Reason> {
    let key = CatalogKey {
        name: "cat".to_owned(),
        namespace: "ns".to_owned(),
    };
    let half = |channel: &str, numbers: std::ops::Range<usize>| -> Vec<BundleId> {
        numbers
            .map(|number| BundleId::of_catalog(&key, channel, &format!("p.v{number}")))
            .collect()
    };
    let (old, new) = (half("old", 0..versions / 2), half("new", versions / 2..versions));
    let wants = [("s", &old), ("t", &new)]
        .into_iter()
        .flat_map(|(name, candidates)| {
            [
                Reason::SubscriptionExists {
                    subscription: name.to_owned(),
                    asks: "package p".to_owned(),
                },
                Reason::SubscriptionRequires {
                    subscription: name.to_owned(),
                    candidates: candidates.clone(),
                },
            ]
        });
    let package = Reason::OnePackage {
        package: "p".to_owned(),
        members: old.iter().chain(&new).cloned().collect(),
    };
    wants.chain([package]).collect()
}

#[test]
fn rivals_of_thousands_of_versions_are_not_compared_one_with_each() {
    let versions = 20_000;
    let reasons = halves(versions);
    let roots = trees(&reasons);
    assert_eq!(
        roots[0].lines(),
        [
            "- subscription s asks for package p",
            "  - p.v0 (channel old of catalog ns/cat) and 9999 more",
            "    - is of package p, as is p.v10000 (channel new of catalog ns/cat) and 9999 more; only one may be installed",
            "      - required by subscription t: p.v10000 (channel new of catalog ns/cat) and 9999 more",
        ]
    );
}

/// Returns `versions` of one package, each wanted by a different Subscription: there are as many camps.
fn each_by_another(versions: usize) -> Vec<Reason> {
    let key = CatalogKey::default();
    let members: Vec<BundleId> = (0..versions)
        .map(|number| BundleId::of_catalog(&key, "stable", &format!("p.v{number}")))
        .collect();
    let mut reasons = vec![Reason::OnePackage {
        package: "p".to_owned(),
        members: members.clone(),
    }];
    for (number, member) in members.into_iter().enumerate() {
        reasons.push(Reason::SubscriptionExists {
            subscription: format!("s{number}"),
            asks: "package p".to_owned(),
        });
        reasons.push(Reason::SubscriptionRequires {
            subscription: format!("s{number}"),
            candidates: vec![member],
        });
    }
    reasons
}

#[test]
fn rivals_that_all_are_wanted_by_others_are_compared_within_a_bound() {
    for (versions, expected) in [
        (MAX_CAMPS, "and 48 more; only one may be installed"),
        (
            5_000,
            "is of package p, of which only one may be installed; 5000 are candidates",
        ),
    ] {
        let reasons = each_by_another(versions);
        let roots = trees(&reasons);
        assert_eq!(roots.len(), versions);
        for root in roots {
            let text = &root.because[0].because[0].text;
            assert!(text.ends_with(expected), "{text}");
        }
    }
}

#[test]
fn candidates_of_two_requirements_of_one_bundle_are_rivals() {
    let key = CatalogKey {
        name: "cat".to_owned(),
        namespace: "ns".to_owned(),
    };
    let bundle = |csv: &str| BundleId::of_catalog(&key, "stable", csv);
    let (vault, old, new) = (
        bundle("vault.v1.0.0"),
        bundle("test.v1.0.0"),
        bundle("test.v1.0.1"),
    );
    let requires = |label: &str, candidate: &BundleId| Reason::Requires {
        bundle: vault.clone(),
        requirement: Arc::new(Predicate::Label(label.to_owned())),
        candidates: vec![candidate.clone()],
    };
    let reasons = [
        Reason::SubscriptionExists {
            subscription: "s".to_owned(),
            asks: "package vault".to_owned(),
        },
        Reason::SubscriptionRequires {
            subscription: "s".to_owned(),
            candidates: vec![vault.clone()],
        },
        requires("has-api", &old),
        requires("is-new", &new),
        Reason::OnePackage {
            package: "test".to_owned(),
            members: vec![old.clone(), new.clone()],
        },
    ];
    insta::assert_snapshot!(plain(&reasons), @r"
    - subscription s asks for package vault
      - vault.v1.0.0
        - requires an operator with label: has-api
          - test.v1.0.0
            - is of package test, as is test.v1.0.1; only one may be installed
              - required by vault.v1.0.0: test.v1.0.1
        - requires an operator with label: is-new
          - test.v1.0.1
            - is of package test, as is test.v1.0.0; only one may be installed
              - required by vault.v1.0.0: test.v1.0.0
    ");
}

/// The third version is a candidate of something outside of the contradiction.
#[test]
fn members_that_the_contradiction_does_not_need_are_no_rivals() {
    let mut reasons = each_by_another(3);
    reasons.truncate(5);
    let roots = trees(&reasons);
    let lines = roots[0].lines();
    assert!(lines[2].contains("as is p.v1 ("), "{lines:?}");
    assert!(
        lines[2].ends_with("; only one may be installed") && !lines[2].contains("p.v2"),
        "{lines:?}"
    );
}
