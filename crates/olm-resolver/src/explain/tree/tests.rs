use std::sync::Arc;

use super::*;
use crate::catalog::CatalogKey;
use crate::explain::rivals::MAX_COMPARED;
use crate::predicate::Predicate;
use crate::problem::Problem;

fn told(root: &Draft<'_>) -> Vec<String> {
    root.clone().told(&Hints::new(&Problem::default())).lines()
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
        let builder = TreeBuilder::new(&reasons);
        let roots = builder.roots(&reasons);
        assert_eq!(
            builder.followed.get().max(MAX_FOLLOWED),
            MAX_FOLLOWED,
            "{depth} × {width}"
        );
        let text = told(&roots[0]).join("\n");
        let causes = text
            .matches("not installed, and no usable catalog offers it")
            .count();
        assert!(causes > 0, "{depth} × {width}");
        // Past the cut each root cause is told once.
        if depth > MAX_DEPTH {
            assert!(causes <= SHOWN_CANDIDATES, "{depth} × {width}: {causes}");
            assert!(
                text.contains("for reasons told or counted above"),
                "{depth} × {width}"
            );
        }
        assert!(text.len() < 4 << 20, "{depth} × {width}: {}", text.len());
    }
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
    let builder = TreeBuilder::new(&reasons);
    let roots = builder.roots(&reasons);
    assert!(
        builder.rivals.compared.get() <= 4 * versions,
        "{}",
        builder.rivals.compared.get()
    );
    assert_eq!(
        told(&roots[0]),
        [
            "- subscription s asks for package p",
            "  - p.v0 (channel old of catalog ns/cat) and 9999 more",
            "    - is of package p, as is p.v10000 (channel new of catalog ns/cat) and 9999 more; only one may be installed",
            "      - required by subscription t: p.v10000 (channel new of catalog ns/cat) and 9999 more",
        ]
    );
}

/// A different Subscription wants each version: there are as many camps as versions.
#[test]
fn rivals_that_all_are_wanted_by_others_are_compared_within_a_bound() {
    let key = CatalogKey::default();
    let members: Vec<BundleId> = (0..5_000)
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
    let builder = TreeBuilder::new(&reasons);
    let roots = builder.roots(&reasons);
    assert!(builder.rivals.compared.get() <= MAX_COMPARED);
    let rivals = |place: usize| roots[place].because[0].because[0].text.clone();
    assert!(
        rivals(0).contains("and 4998 more; only one may be installed"),
        "{}",
        rivals(0)
    );
    assert_eq!(
        rivals(4_999),
        "is of package p, of which only one may be installed; 5000 are candidates"
    );
}
