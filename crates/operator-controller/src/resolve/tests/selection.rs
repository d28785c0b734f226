//! The bundle chosen when nothing is installed, among versions, channels and catalogs.

use super::*;

const CHANNELS: [(&str, &str); 2] = [
    ("stable", "p.v1.11.1 >p.v1.11.0; p.v1.11.0 >p.v1.10.0; p.v1.10.0"),
    ("fast", "p.v1.12.0; p.v2.0.0-rc.1"),
];

#[test]
fn v1_targets_of_a_new_extension() {
    for (row, fields, expected) in [
        ("V1-007", json!({"channels": ["stable"]}), "p.v1.11.1"),
        ("V1-008", json!({"version": "1.11.0"}), "p.v1.11.0"),
        ("V1-009", json!({"version": ">1.11.0"}), "p.v1.12.0"),
        ("V1-009", json!({"version": "<1.11"}), "p.v1.10.0"),
        (
            "V1-012",
            json!({"channels": ["stable"], "version": ">1.11.0"}),
            "p.v1.11.1",
        ),
        ("V1-013", json!({}), "p.v2.0.0-rc.1"),
        ("V1-013", json!({"version": ""}), "p.v2.0.0-rc.1"),
        ("case 6", json!({"channels": ["stable", "fast"]}), "p.v2.0.0-rc.1"),
        ("case 11", json!({"version": ">=1.0.0"}), "p.v1.12.0"),
        ("case 11", json!({"version": ">=1.0.0-0"}), "p.v2.0.0-rc.1"),
    ] {
        assert_eq!(
            chosen(&fields, None, &one(&CHANNELS)),
            expected,
            "{row}: {fields}"
        );
    }
}

#[test]
fn v1_015_without_a_catalog_there_is_no_bundle() {
    for (fields, error) in [
        (json!({}), r#"no bundles found for package "p""#),
        (
            json!({"version": "9.0.0"}),
            r#"no bundles found for package "p" matching version "9.0.0""#,
        ),
        (
            json!({"version": "9.0.0", "channels": ["a", "b"]}),
            r#"no bundles found for package "p" matching version "9.0.0" in channels [a b]"#,
        ),
        (
            json!({"channels": ["a"]}),
            r#"no bundles found for package "p" in channels [a]"#,
        ),
    ] {
        assert_eq!(chosen(&fields, None, &[]), error);
        assert_eq!(run(&fields, None, &[]).deprecations, None);
    }
}

/// V1-014: the environment is the version of OpenShift.
#[test]
fn v1_014_the_newest_bundle_that_fits_the_cluster_is_chosen() {
    let mut all = documents(&[("stable", "p.v1.2.0 >p.v1.1.0; p.v1.1.0 >p.v1.0.0; p.v1.0.0")]);
    for (name, last) in [("p.v1.2.0", "4.17"), ("p.v1.1.0", "4.18"), ("p.v1.0.0", "odd")] {
        let document = all.iter_mut().find(|document| document["name"] == name).unwrap();
        let property = json!({"type": "olm.maxOpenShiftVersion", "value": last});
        document["properties"].as_array_mut().unwrap().push(property);
    }
    let catalogs = [catalog("c", 0, &all)];
    let filter = CatalogFilter {
        package_name: "p".to_owned(),
        ..CatalogFilter::default()
    };
    let outdated = installed_bundle("p.v1.2.0");
    for (cluster, installed, expected) in [
        (None, None, "p.v1.2.0"),
        (Some("4.17.9"), None, "p.v1.2.0"),
        (Some("4.18.0"), None, "p.v1.1.0"),
        (Some("4.23.0"), None, "p.v1.0.0"),
        // The installed version stays.
        (Some("4.18.0"), Some(&outdated), "p.v1.2.0"),
    ] {
        let openshift = cluster.map(|text| Version::parse(text).unwrap());
        let request = Request {
            filter: &filter,
            installed,
            openshift: openshift.as_ref(),
            is_by_semver: false,
        };
        let resolution = resolve(&request, &catalogs);
        assert_eq!(resolution.outcome.unwrap().name, expected, "{cluster:?}");
    }
    let openshift = Version::new(4, 18, 0);
    let request = Request {
        filter: &filter,
        installed: None,
        openshift: Some(&openshift),
        is_by_semver: false,
    };
    assert_eq!(
        explained(&resolve(&request, &catalogs)),
        [
            "c/p.v1.0.0: is not the newest candidate, which is p.v1.1.0",
            "c/p.v1.1.0: ",
            "c/p.v1.2.0: supports OpenShift up to 4.17, and the cluster runs 4.18",
        ]
    );
}

#[test]
fn case_1_catalogs_of_one_priority_are_ambiguous_and_the_higher_priority_wins() {
    let old = documents(&[("stable", "p.v1.0.0")]);
    let new = documents(&[("stable", "p.v2.0.0")]);
    let equal = [
        catalog("b", 1, &new),
        catalog("a", 1, &old),
        catalog("c", 0, &new),
    ];
    let resolution = run(&json!({"version": ">0"}), None, &equal);
    assert_eq!(
        *resolution.outcome.as_ref().unwrap_err(),
        r#"found bundles for package "p" matching version ">0" in multiple catalogs with the same priority [a b c]"#
    );
    assert_eq!(
        explained(&resolution)[0],
        "a/p.v1.0.0: is offered by several catalogs of the same priority"
    );
    let higher = [catalog("a", 0, &new), catalog("b", 1, &old)];
    let resolution = run(&json!({}), None, &higher);
    assert_eq!(
        explained(&resolution),
        [
            "a/p.v2.0.0: is in a catalog of lower priority than b",
            "b/p.v1.0.0: "
        ]
    );
    let is_chosen: Vec<bool> = resolution
        .candidates
        .iter()
        .map(|found| found.is_chosen)
        .collect();
    assert_eq!(is_chosen, [false, true]);
    let expected = Chosen {
        name: "p.v1.0.0".to_owned(),
        version: "1.0.0".to_owned(),
        catalog: "b".to_owned(),
        image: "registry/p.v1.0.0".to_owned(),
        package: "p".to_owned(),
    };
    assert_eq!(resolution.outcome, Ok(expected));
}

#[test]
fn case_2_a_deprecated_bundle_is_chosen_last() {
    let mut old = documents(&[("stable", "p.v1.0.0; p.v1.1.0")]);
    old.push(deprecations(&["p.v1.1.0"]));
    let resolution = run(&json!({}), None, &[catalog("a", 0, &old)]);
    assert_eq!(
        explained(&resolution),
        ["a/p.v1.0.0: ", "a/p.v1.1.0: is deprecated, and p.v1.0.0 is not"]
    );
    // In another catalog of lower priority.
    let mut deprecated = documents(&[("stable", "p.v2.0.0")]);
    deprecated.push(deprecations(&["", "p.v2.0.0"]));
    let both = [
        catalog("a", 10, &deprecated),
        catalog("b", 0, &documents(&[("stable", "p.v1.0.0")])),
    ];
    let resolution = run(&json!({}), None, &both);
    assert_eq!(
        explained(&resolution),
        ["a/p.v2.0.0: is deprecated, and p.v1.0.0 is not", "b/p.v1.0.0: "]
    );
    // Deprecations are those of the winner.
    assert_eq!(resolution.deprecations, Some(Vec::new()));
    // Without another choice it is accepted.
    let resolution = run(&json!({}), None, &both[..1]);
    assert_eq!(resolution.outcome.unwrap().name, "p.v2.0.0");
    assert_eq!(resolution.deprecations.unwrap().len(), 2);
}

/// Case 38.
#[test]
fn case_38_deprecations_are_known_although_resolution_fails() {
    let mut all = documents(&[("stable", "p.v1.0.0")]);
    all.push(deprecations(&[""]));
    let resolution = run(&json!({"version": "9"}), None, &[catalog("a", 0, &all)]);
    assert!(resolution.outcome.is_err());
    assert_eq!(resolution.deprecations.unwrap()[0].message, "package is old");
}

#[test]
fn case_7_catalogs_that_are_switched_off_or_not_selected_are_left_out() {
    let all = documents(&[("stable", "p.v1.0.0")]);
    let mut off = catalog("off", 0, &all);
    off.is_switched_off = true;
    off.package = PackageResult::Unreadable("is not looked at".to_owned());
    let other = catalog("other", 0, &documents(&[])[..0]);
    let catalogs = [off, catalog("a", 0, &all), catalog("b", 0, &all), other];
    let fields = json!({"selector": {"matchExpressions": [
        {"key": "olm.operatorframework.io/metadata.name", "operator": "In", "values": ["b", "off", "other"]},
    ]}});
    let resolution = run(&fields, None, &catalogs);
    assert_eq!(resolution.outcome.unwrap().catalog, "b");
    let unused: Vec<_> = resolution
        .unused_catalogs
        .iter()
        .map(|unused| (unused.name.as_str(), unused.reason))
        .collect();
    assert_eq!(
        unused,
        [
            ("a", "does not match the selector"),
            ("off", "is switched off"),
            ("other", "does not have the package"),
        ]
    );
    assert_eq!(
        chosen(&json!({}), None, &catalogs[..1]),
        r#"no bundles found for package "p""#
    );
}

#[test]
fn case_8_an_invalid_selector_or_range_ends_the_resolution() {
    for (fields, error) in [
        (
            json!({"selector": {"matchExpressions": [{"key": "a", "operator": "Near"}]}}),
            r#"desired catalog selector is invalid: "Near" is not a valid label selector operator"#,
        ),
        (
            json!({"version": "1.*]"}),
            r#"desired version range "1.*]" is invalid: improper constraint: "1.*]""#,
        ),
        (
            json!({"version": "1x"}),
            r#"desired version range "1x" is invalid: constraint parser error"#,
        ),
    ] {
        let resolution = run(&fields, None, &one(&CHANNELS));
        assert_eq!(resolution.outcome.unwrap_err(), error);
        assert_eq!(resolution.candidates, []);
    }
}

#[test]
fn a_catalog_that_cannot_be_read_ends_the_resolution() {
    let mut broken = catalog("a", 0, &[]);
    broken.package = PackageResult::Unreadable(r#"catalog "a" is not being served"#.to_owned());
    let [other] = one(&CHANNELS);
    assert_eq!(
        chosen(&json!({}), None, &[other, broken]),
        r#"error walking catalogs: error getting package "p" from catalog "a": catalog "a" is not being served"#
    );
}

#[test]
fn case_12_a_bundle_with_dependencies_is_refused_and_no_other_is_tried() {
    for kind in ["olm.package.required", "olm.gvk.required", "olm.constraint"] {
        let mut all = documents(&[("stable", "p.v1.1.0 >p.v1.0.0; p.v1.0.0")]);
        let newest = all
            .iter_mut()
            .find(|document| document["name"] == "p.v1.1.0")
            .unwrap();
        let property = json!({"type": kind, "value": {"group": "g", "version": "v1", "kind": "K"}});
        newest["properties"].as_array_mut().unwrap().push(property);
        let resolution = run(&json!({}), None, &[catalog("c", 0, &all)]);
        assert_eq!(
            *resolution.outcome.as_ref().unwrap_err(),
            format!(
                "validating bundle \"p.v1.1.0\": bundle \"p.v1.1.0\" has a dependency declared via property {kind:?} which is \
                 currently not supported"
            )
        );
        assert_eq!(
            explained(&resolution)[1],
            format!("c/p.v1.1.0: depends on other bundles through property {kind}, which is not supported")
        );
    }
}

#[test]
fn a_bundle_without_a_readable_version_is_chosen_last() {
    let mut all = documents(&[("stable", "p.v1.0.0; p.v1.1.0")]);
    let newest = all
        .iter_mut()
        .find(|document| document["name"] == "p.v1.1.0")
        .unwrap();
    newest["properties"] = json!([]);
    let catalogs = [catalog("c", 0, &all)];
    assert_eq!(chosen(&json!({}), None, &catalogs), "p.v1.0.0");
    assert_eq!(
        explained(&run(&json!({"version": ">=1"}), None, &catalogs))[1],
        "c/p.v1.1.0: has no readable version: no package property found in bundle \"p.v1.1.0\""
    );
    all.retain(|document| document["name"] != "p.v1.0.0");
    assert_eq!(
        chosen(&json!({}), None, &[catalog("c", 0, &all)]),
        "error getting resolved bundle version for bundle \"p.v1.1.0\": no package property found in bundle \"p.v1.1.0\""
    );
}

/// Case 22: without any catalog an installed bundle is kept if it fits.
#[test]
fn case_22_the_installed_bundle_is_kept_without_catalogs() {
    let installed = installed_bundle("p.v1.2.0");
    for (wanted, has_catalog, is_kept) in [
        (None, false, true),
        (Some(""), false, true),
        (Some("1.2.0"), false, true),
        (Some(">=1.0"), false, true),
        (Some("1.3.0"), false, false),
        (Some("nonsense"), false, false),
        (None, true, false),
    ] {
        let filter = CatalogFilter {
            version: wanted.map(str::to_owned),
            ..CatalogFilter::default()
        };
        assert_eq!(
            keeps_installed(&filter, &installed, has_catalog),
            is_kept,
            "{wanted:?}"
        );
    }
}

#[test]
fn the_order_of_catalogs_does_not_matter() {
    let all = documents(&CHANNELS);
    let mut catalogs = [
        catalog("a", 1, &all),
        catalog("b", 1, &all),
        catalog("c", 2, &all),
    ];
    let fields = json!({});
    let one = run(&fields, None, &catalogs);
    catalogs.reverse();
    let other = run(&fields, None, &catalogs);
    assert_eq!(one.outcome, other.outcome);
    assert_eq!(one.candidates, other.candidates);
    assert_eq!(one.outcome.unwrap().catalog, "c");
}
