use super::*;
use crate::catalog::CatalogKey;

/// A Subscription to a package of eight layers' depth and more: every bundle needs any of the eight of the next layer, and
/// those of the last one what is not there.
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
            // Each in words of its own, so that no two are told together.
            requirement: format!("of {}", bundle.csv()),
            bundle,
            messages: Vec::new(),
            candidates: layer(place + 1),
            hints: Vec::new(),
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
        let visited = builder.visited.get();
        assert!(
            visited <= MAX_VISITED + depth * width,
            "{depth} × {width}: {visited}"
        );
        let text = roots[0].lines().join("\n");
        assert!(
            text.contains("nothing installed and no catalog in reach offers that"),
            "{depth} × {width}"
        );
        assert!(text.len() < 4 << 20, "{depth} × {width}: {}", text.len());
    }
}
