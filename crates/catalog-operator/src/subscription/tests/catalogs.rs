//! The health of catalogs, and what they deprecate.

use super::*;

fn health_text(object: &Subscription, catalogs: &[CatalogFact]) -> String {
    conditions_text(&composed(object, &NamespaceState::default(), &quiet(catalogs)))
}

#[test]
fn unhealthy_catalogs_are_named_with_their_ailment() {
    let object = subscription(
        json!({"catalogHealth": [{"catalogSourceRef": {"uid": "uid-cat"}, "healthy": false, "lastUpdated": null}]}),
    );
    let sick = |status: Value| [catalog("ns", "cat", status)];
    insta::assert_snapshot!(health_text(&object, &sick(json!({}))), @"CatalogSourcesUnhealthy=True/UnhealthyCatalogSourceFound: targeted catalogsource ns/cat unhealthy: its registry server is starting");
    insta::assert_snapshot!(health_text(&object, &sick(json!({"reason": "SpecInvalidError", "message": "unknown sourcetype: nope"}))), @"CatalogSourcesUnhealthy=True/UnhealthyCatalogSourceFound: targeted catalogsource ns/cat unhealthy: unknown sourcetype: nope");
    insta::assert_snapshot!(health_text(&object, &sick(json!({"registryService": {}, "connectionState": {"lastObservedState": "CONNECTING"}}))), @"CatalogSourcesUnhealthy=True/UnhealthyCatalogSourceFound: targeted catalogsource ns/cat unhealthy: its registry server is starting");
    let known = json!({"catalogHealth": [{"catalogSourceRef": {"uid": "uid-other"}, "healthy": true, "lastUpdated": null}]});
    insta::assert_snapshot!(health_text(&subscription(known), &[healthy("other")]), @"CatalogSourcesUnhealthy=True/UnhealthyCatalogSourceFound: targeted catalogsource ns/cat missing");
    // Not the text of before.
    let both = json!({"catalogHealth": [
        {"catalogSourceRef": {"uid": "uid-cat"}, "healthy": true, "lastUpdated": null},
        {"catalogSourceRef": {"uid": "uid-other"}, "healthy": false, "lastUpdated": null},
    ]});
    let other = catalog(
        "olm",
        "other",
        json!({"reason": "RegistryServerError", "message": "registry server is not ready - pod x"}),
    );
    insta::assert_snapshot!(health_text(&subscription(both), &[healthy("cat"), other]), @"CatalogSourcesUnhealthy=True/UnhealthyCatalogSourceFound: catalogsource olm/other unhealthy: registry server is not ready - pod x");
}

/// A change of the catalogs is told once, and its reason gives way without a write of its own.
#[test]
fn passing_reasons_do_not_cause_a_write() {
    let catalogs = [healthy("cat"), healthy("other")];
    let object = subscription(Value::Null);
    let first = composed(&object, &NamespaceState::default(), &quiet(&catalogs[..1]));
    insta::assert_snapshot!(conditions_text(&first), @"CatalogSourcesUnhealthy=False/CatalogSourcesAdded: all available catalogsources are healthy");
    let object = with(&object, first);
    let next = composed(&object, &NamespaceState::default(), &quiet(&catalogs[..1]));
    insta::assert_snapshot!(conditions_text(&next), @"CatalogSourcesUnhealthy=False/AllCatalogSourcesHealthy: all available catalogsources are healthy");
    assert!(!is_worth_writing(object.status.as_ref(), &next));
    let more = composed(
        &with(&object, next),
        &NamespaceState::default(),
        &quiet(&catalogs),
    );
    assert!(conditions_text(&more).contains("CatalogSourcesAdded"));
    let fewer = composed(
        &with(&object, more),
        &NamespaceState::default(),
        &quiet(&catalogs[..1]),
    );
    assert!(conditions_text(&fewer).contains("CatalogSourcesDeleted"));
    let other = composed(
        &with(&object, fewer.clone()),
        &NamespaceState::default(),
        &quiet(&[catalog("ns", "cat", json!({}))]),
    );
    assert!(
        conditions_text(&other)
            .contains("True/CatalogSourcesUpdated: targeted catalogsource ns/cat unhealthy")
    );
    assert!(is_worth_writing(Some(&fewer), &other));
}

/// The golden of an unresolvable Subscription in a namespace without catalogs, less the conditions it lacks.
#[test]
fn no_catalog_at_all_is_told_and_then_rests() {
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
    let text = |message: &str| Some(message.to_owned());
    let all = DeprecationFact {
        package: text("p"),
        channel: text("c"),
        bundle: text("b"),
    };
    let object = subscription(json!({"installedCSV": "demo.v1", "currentCSV": "demo.v1"}));
    let namespace_state = namespace_state(&[], &["demo.v1"]);
    let told = |object: &Subscription, fact: Option<&DeprecationFact>| {
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
    CatalogSourcesUnhealthy=False/CatalogSourcesAdded: all available catalogsources are healthy
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
    let fixed = told(&object, Some(&DeprecationFact { bundle: None, ..all }));
    assert!(!conditions_text(&fixed).contains("olm.bundle"));
    assert_eq!(
        conditions_text(&told(&with(&object, fixed), Some(&DeprecationFact::default())))
            .lines()
            .count(),
        1
    );
}

/// Each is told whatever the others say, also where they are about the same.
#[test]
fn dpr_009_deprecations_are_independent() {
    let object = subscription(json!({"installedCSV": "demo.v1", "currentCSV": "demo.v1"}));
    let state = namespace_state(&[], &["demo.v1"]);
    let told = |bits: u8| {
        let text = |bit: u8| (bits & bit != 0).then(|| "the same".to_owned());
        let fact = DeprecationFact {
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
