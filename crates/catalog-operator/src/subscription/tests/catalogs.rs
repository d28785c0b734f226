//! Health of catalogs, and their deprecations.

use super::*;

fn health_text(object: &Subscription, catalogs: &[CatalogFact]) -> String {
    conditions_text(&composed(object, &NamespaceState::default(), &quiet(catalogs)))
}

/// Upstream's exact reasons and texts, which upstream's own suite waits for.
#[test]
fn the_condition_speaks_of_the_targeted_catalog_in_upstreams_words() {
    let sick = |status: Value| [catalog("ns", "cat", status)];
    let told = |catalogs: &[CatalogFact]| health_text(&subscription(Value::Null), catalogs);
    insta::allow_duplicates! {
        for status in [
            json!({"reason": "SpecInvalidError", "message": "unknown sourcetype: goose"}),
            json!({"reason": "RegistryServerError", "message": "registry server is not ready - pod x",
                "registryService": {}, "connectionState": {"lastObservedState": "CONNECTING"}}),
            json!({"registryService": {}, "connectionState": {"lastObservedState": "TRANSIENT_FAILURE"}}),
        ] {
            insta::assert_snapshot!(told(&sick(status)), @"CatalogSourcesUnhealthy=True/UnhealthyCatalogSourceFound: targeted catalogsource ns/cat unhealthy");
        }
    }
    insta::assert_snapshot!(told(&[healthy("other")]), @"CatalogSourcesUnhealthy=True/UnhealthyCatalogSourceFound: targeted catalogsource ns/cat missing");
    insta::allow_duplicates! {
        for catalogs in [
            vec![healthy("cat")],
            // A catalog that is starting has no known problem.
            sick(json!({})).to_vec(),
            sick(json!({"registryService": {}, "connectionState": {"lastObservedState": "CONNECTING"}})).to_vec(),
        ] {
            insta::assert_snapshot!(told(&catalogs), @"CatalogSourcesUnhealthy=False/AllCatalogSourcesHealthy: all available catalogsources are healthy");
        }
    }
}

/// Catalogs of others are named, but only make Subscriptions unhealthy that name them.
#[test]
fn a_broken_catalog_of_others_is_only_named() {
    let broken = |name: &str| {
        let status =
            json!({"reason": "RegistryServerError", "message": "registry server is not ready - pod x"});
        catalog("olm", name, status)
    };
    let catalogs = [healthy("cat"), broken("vendor"), broken("mirror")];
    let object = subscription(Value::Null);
    insta::assert_snapshot!(health_text(&object, &catalogs), @"CatalogSourcesUnhealthy=False/AllCatalogSourcesHealthy: all available catalogsources are healthy; unavailable: olm/vendor, olm/mirror");
    let status = composed(&object, &NamespaceState::default(), &quiet(&catalogs));
    let listed: Vec<bool> = status.catalog_health.iter().map(|entry| entry.healthy).collect();
    assert_eq!(listed, [true, false, false]);
}

/// Each change of the catalogs gets the lasting reason at once, in its only write.
#[test]
fn a_change_of_the_catalogs_is_written_once() {
    let sets = [
        vec![healthy("cat")],
        vec![healthy("cat"), healthy("other")],
        vec![healthy("cat")],
        vec![catalog(
            "ns",
            "cat",
            json!({"reason": "SpecInvalidError", "message": "m"}),
        )],
        vec![healthy("other")],
        vec![],
    ];
    let mut object = subscription(Value::Null);
    let mut told = Vec::new();
    for catalogs in &sets {
        let status = composed(&object, &NamespaceState::default(), &quiet(catalogs));
        assert!(is_worth_writing(object.status.as_ref(), &status));
        told.push(conditions_text(&status));
        object = with(&object, status);
        let again = composed(&object, &NamespaceState::default(), &quiet(catalogs));
        assert!(!is_worth_writing(object.status.as_ref(), &again));
    }
    insta::assert_snapshot!(told.join("\n"), @r"
    CatalogSourcesUnhealthy=False/AllCatalogSourcesHealthy: all available catalogsources are healthy
    CatalogSourcesUnhealthy=False/AllCatalogSourcesHealthy: all available catalogsources are healthy
    CatalogSourcesUnhealthy=False/AllCatalogSourcesHealthy: all available catalogsources are healthy
    CatalogSourcesUnhealthy=True/UnhealthyCatalogSourceFound: targeted catalogsource ns/cat unhealthy
    CatalogSourcesUnhealthy=True/UnhealthyCatalogSourceFound: targeted catalogsource ns/cat missing
    CatalogSourcesUnhealthy=True/NoCatalogSourcesFound: dependency resolution requires at least one catalogsource
    ");
}

/// The golden record of an unresolvable Subscription in a namespace without catalogs, except for the
/// conditions it lacks.
#[test]
fn no_catalog_at_all_is_reported_and_then_rests() {
    let object = subscription(Value::Null);
    let status = composed(&object, &NamespaceState::default(), &quiet(&[]));
    insta::assert_snapshot!(conditions_text(&status), @"CatalogSourcesUnhealthy=True/NoCatalogSourcesFound: dependency resolution requires at least one catalogsource");
    let object = with(&object, status);
    assert!(!is_worth_writing(
        object.status.as_ref(),
        &composed(&object, &NamespaceState::default(), &quiet(&[]))
    ));
}

#[test]
fn dpr_008_deprecations_come_go_and_are_summed_up() {
    let catalogs = [healthy("cat")];
    let text = |message: &str| Some(message.into());
    let all = Deprecation {
        package: text("p"),
        channel: text("c"),
        bundle: text("b"),
    };
    let object = subscription(json!({"installedCSV": "demo.v1", "currentCSV": "demo.v1"}));
    let namespace_state = namespace_state(&[], &["demo.v1"]);
    let told = |object: &Subscription, fact: Option<&Deprecation>| {
        composed(
            object,
            &namespace_state,
            &Facts {
                deprecation: fact,
                ..quiet(&catalogs)
            },
        )
    };
    let first = told(&object, Some(&all));
    insta::assert_snapshot!(conditions_text(&first), @r"
    CatalogSourcesUnhealthy=False/AllCatalogSourcesHealthy: all available catalogsources are healthy
    PackageDeprecated=True/: olm.package/demo: p
    ChannelDeprecated=True/: olm.channel/stable: c
    BundleDeprecated=True/: olm.bundle/demo.v1: b
    Deprecated=True/: olm.package/demo: p; olm.channel/stable: c; olm.bundle/demo.v1: b
    ");
    let object = with(&object, first.clone());
    assert_eq!(
        conditions_text(&told(&object, None)).lines().count(),
        5,
        "a catalog that does not tell changes nothing"
    );
    let fixed = told(&object, Some(&Deprecation { bundle: None, ..all }));
    assert!(!conditions_text(&fixed).contains("olm.bundle"));
    assert_eq!(
        conditions_text(&told(&with(&object, fixed), Some(&Deprecation::default())))
            .lines()
            .count(),
        1
    );
}

/// Each is reported independently of the others, also for the same bundle.
#[test]
fn dpr_009_deprecations_are_independent() {
    let object = subscription(json!({"installedCSV": "demo.v1", "currentCSV": "demo.v1"}));
    let state = namespace_state(&[], &["demo.v1"]);
    let told = |bits: u8| {
        let text = |bit: u8| (bits & bit != 0).then(|| "the same".into());
        let fact = Deprecation {
            package: text(1),
            channel: text(2),
            bundle: text(4),
        };
        let status = composed(
            &object,
            &state,
            &Facts {
                deprecation: Some(&fact),
                ..quiet(&[healthy("cat")])
            },
        );
        let types: Vec<String> = status
            .conditions
            .into_iter()
            .map(|condition| condition.type_)
            .collect();
        types
    };
    for bits in 0..8u8 {
        let types = told(bits);
        for (bit, type_) in [
            (1, "PackageDeprecated"),
            (2, "ChannelDeprecated"),
            (4, "BundleDeprecated"),
        ] {
            assert_eq!(
                types.iter().any(|found| found == type_),
                bits & bit != 0,
                "{bits} {type_}"
            );
        }
        assert_eq!(
            types.iter().any(|found| found == "Deprecated"),
            bits != 0,
            "{bits}"
        );
    }
}
