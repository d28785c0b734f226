//! The bundle that follows an installed one.

use super::*;

/// The example of the documentation.
const EXAMPLE: [(&str, &str); 1] = [("stable", "p.v3.0.0 !p.v2.0.0; p.v2.0.0 ~>=1.0.0_<2.0.0; p.v1.0.0")];

/// Installed bundle, and the bundle after it, without further wishes.
#[test]
fn v1u_successors_named_by_the_catalog() {
    for (row, channels, installed, expected) in [
        (
            "V1U-001 replaces",
            "p.v1.1.0 >p.v1.0.0; p.v1.0.0",
            "p.v1.0.0",
            "p.v1.1.0",
        ),
        (
            "V1U-001 skips",
            "p.v1.1.0 !p.v1.0.0; p.v1.0.0",
            "p.v1.0.0",
            "p.v1.1.0",
        ),
        (
            "V1U-001 skipRange",
            "p.v1.1.0 ~>=1.0.0_<1.1.0; p.v1.0.0",
            "p.v1.0.0",
            "p.v1.1.0",
        ),
        // The head is 1.2.0, which Classic would take.
        (
            "V1U-002",
            "p.v1.2.0 >p.v1.3.0 !p.v1.0.0; p.v1.3.0 >p.v1.0.0; p.v1.0.0",
            "p.v1.0.0",
            "p.v1.3.0",
        ),
        (
            "V1U-003",
            "p.v1.2.0 >p.v1.1.0; p.v1.1.0 >p.v1.0.0; p.v1.0.0",
            "p.v1.0.0",
            "p.v1.1.0",
        ),
        ("V1U-004", EXAMPLE[0].1, "p.v1.0.0", "p.v2.0.0"),
        ("V1U-006", EXAMPLE[0].1, "p.v2.0.0", "p.v3.0.0"),
        ("V1U-007", "p.v1.1.0; p.v1.0.0", "p.v1.0.0", "p.v1.0.0"),
        ("V1U-009", "p.v1.1.0 >p.v1.0.0; p.v1.0.0", "p.v1.1.0", "p.v1.1.0"),
        // Without an edge of the catalog there is no update, whatever the versions are.
        ("V1U-010", "p.v1.1.0; p.v1.0.0", "p.v1.0.0", "p.v1.0.0"),
        ("V1U-011", "p.v2.0.0; p.v1.0.0", "p.v1.0.0", "p.v1.0.0"),
        ("V1U-012", "p.v0.0.2; p.v0.0.1", "p.v0.0.1", "p.v0.0.1"),
        ("V1U-013", "p.v0.2.0; p.v0.1.0", "p.v0.1.0", "p.v0.1.0"),
        // With one there is: the author knows.
        ("V1U-011", "p.v2.0.0 >p.v1.0.0; p.v1.0.0", "p.v1.0.0", "p.v2.0.0"),
        ("V1U-013", "p.v0.1.1 >p.v0.1.0; p.v0.1.0", "p.v0.1.0", "p.v0.1.1"),
        (
            "case 9",
            "p.v1.0.0+2 >p.v1.0.0+1; p.v1.0.0+1",
            "p.v1.0.0+1",
            "p.v1.0.0+2",
        ),
        (
            "case 10",
            "p.v2.0.0 ~>=1.0.0_<2.0.0; p.v1.5.0",
            "p.v1.5.0",
            "p.v2.0.0",
        ),
        ("case 10", "p.v2.0.0 ~>=one; p.v1.5.0", "p.v1.5.0", "p.v1.5.0"),
    ] {
        let catalogs = one(&[("stable", channels)]);
        assert_eq!(
            chosen(&json!({}), Some(installed), &catalogs),
            expected,
            "{row}: {channels}"
        );
    }
}

#[test]
fn case_5_the_installed_bundle_stays_although_its_channel_dropped_it() {
    let mut all = documents(&[("stable", "p.v1.1.0 >p.v0.9.0")]);
    all.push(bundle("p.v1.0.0", "1.0.0"));
    let catalogs = [catalog("c", 0, &all)];
    for version in ["", "1.0.0", ">=1.0"] {
        let fields = json!({"version": version});
        assert_eq!(
            chosen(&fields, Some("p.v1.0.0"), &catalogs),
            "p.v1.0.0",
            "{version}"
        );
    }
}

#[test]
fn v1u_008_with_self_certified_any_version_may_follow() {
    let channels = "p.v3.0.0; p.v2.0.0; p.v1.1.0; p.v1.0.0";
    for (row, version, expected) in [
        ("upgrade", "3.0.0", "p.v3.0.0"),
        ("V1U-011 next major", ">1", "p.v3.0.0"),
        ("V1U-009 downgrade", "1.0.0", "p.v1.0.0"),
        ("same", "1.1.0", "p.v1.1.0"),
    ] {
        let fields = json!({"version": version, "upgradeConstraintPolicy": "SelfCertified"});
        let catalogs = one(&[("stable", channels)]);
        assert_eq!(chosen(&fields, Some("p.v1.1.0"), &catalogs), expected, "{row}");
    }
}

/// The rules of the documentation that contradict the edges of catalogs: with the annotation alone.
#[test]
fn v1u_010_to_v1u_013_by_semantic_versions_edges_do_not_count() {
    for (row, channels, installed, expected) in [
        (
            "V1U-010 no edges",
            "p.v1.9.9; p.v1.1.0; p.v1.0.0",
            "p.v1.0.0",
            "p.v1.9.9",
        ),
        (
            "V1U-010 no downgrade",
            "p.v1.1.0; p.v1.0.0",
            "p.v1.1.0",
            "p.v1.1.0",
        ),
        (
            "V1U-010 pre-release",
            "p.v1.2.0-rc.1; p.v1.1.0; p.v1.0.0",
            "p.v1.0.0",
            "p.v1.1.0",
        ),
        (
            "V1U-010 pre-release with an edge",
            "p.v1.2.0-rc.1 >p.v1.0.0; p.v1.0.0",
            "p.v1.0.0",
            "p.v1.2.0-rc.1",
        ),
        (
            "V1U-010 after a pre-release",
            "p.v1.2.0-rc.2; p.v1.2.0-rc.1",
            "p.v1.2.0-rc.1",
            "p.v1.2.0-rc.2",
        ),
        (
            "V1U-010 release",
            "p.v1.0.0+2; p.v1.0.0+1",
            "p.v1.0.0+1",
            "p.v1.0.0+2",
        ),
        ("V1U-011", "p.v2.0.0 >p.v1.0.0; p.v1.0.0", "p.v1.0.0", "p.v1.0.0"),
        (
            "V1U-011 to the last of the major version",
            "p.v2.0.0 >p.v1.1.0; p.v1.1.0; p.v1.0.0",
            "p.v1.0.0",
            "p.v1.1.0",
        ),
        (
            "V1U-011 from 0",
            "p.v1.0.0 >p.v0.9.0; p.v0.9.0",
            "p.v0.9.0",
            "p.v0.9.0",
        ),
        ("V1U-012", "p.v0.0.2 >p.v0.0.1; p.v0.0.1", "p.v0.0.1", "p.v0.0.1"),
        (
            "V1U-012 minor",
            "p.v0.1.0 >p.v0.0.1; p.v0.0.1",
            "p.v0.0.1",
            "p.v0.0.1",
        ),
        ("V1U-013", "p.v0.2.0 >p.v0.1.0; p.v0.1.0", "p.v0.1.0", "p.v0.1.0"),
        ("V1U-013 0.1", "p.v0.1.7; p.v0.1.0", "p.v0.1.0", "p.v0.1.7"),
        (
            "V1U-013 0.2",
            "p.v0.3.0; p.v0.2.1; p.v0.2.0",
            "p.v0.2.0",
            "p.v0.2.1",
        ),
        (
            "V1U-013 0.3",
            "p.v0.4.0; p.v0.3.9; p.v0.3.0",
            "p.v0.3.0",
            "p.v0.3.9",
        ),
    ] {
        let catalogs = one(&[("stable", channels)]);
        let resolution = resolved(&json!({}), Some(installed), true, &catalogs);
        assert_eq!(resolution.outcome.unwrap().name, expected, "{row}");
    }
    let catalogs = one(&[("stable", "p.v2.0.0 >p.v1.0.0; p.v1.0.0; p.v0.9.0")]);
    assert_eq!(
        explained(&resolved(&json!({}), Some("p.v1.0.0"), true, &catalogs)),
        [
            "c/p.v0.9.0: is older than the installed version",
            "c/p.v1.0.0: ",
            "c/p.v2.0.0: is not compatible with the installed version by semantic versioning",
        ]
    );
    let forced = json!({"version": "2.0.0", "upgradeConstraintPolicy": "SelfCertified"});
    let resolution = resolved(&forced, Some("p.v1.0.0"), true, &catalogs);
    assert_eq!(resolution.outcome.unwrap().name, "p.v2.0.0", "V1U-011");
}

#[test]
fn v1u_007_other_versions_are_refused_with_the_installed_one_in_the_error() {
    let catalogs = one(&[(
        "stable",
        "p.v1.2.0 >p.v1.1.0; p.v1.1.0 >p.v1.0.0; p.v1.0.0 >p.v0.9.0; p.v0.9.0",
    )]);
    for (row, version, error) in [
        (
            "case 3",
            "1.2.0",
            r#"error upgrading from currently installed version "1.0.0": no bundles found for package "p" matching version "1.2.0""#,
        ),
        (
            "V1U-009, case 4",
            "0.9.0",
            r#"error upgrading from currently installed version "1.0.0": no bundles found for package "p" matching version "0.9.0""#,
        ),
    ] {
        let fields = json!({"version": version, "upgradeConstraintPolicy": "CatalogProvided"});
        assert_eq!(chosen(&fields, Some("p.v1.0.0"), &catalogs), error, "{row}");
    }
    assert_eq!(
        explained(&run(&json!({"version": "1.2.0"}), Some("p.v1.0.0"), &catalogs)),
        [
            "c/p.v0.9.0: is outside of the requested range 1.2.0; is older than the installed version",
            "c/p.v1.0.0: is outside of the requested range 1.2.0",
            "c/p.v1.1.0: is outside of the requested range 1.2.0",
            "c/p.v1.2.0: is not a successor of the installed version",
        ]
    );
}

/// V1-007 to V1-011: what happens when the catalog gets new versions.
#[test]
fn v1_new_versions_are_followed_as_far_as_the_target_allows() {
    let before = "p.v1.0.0";
    let after = "p.v1.1.0 >p.v1.0.0; p.v1.0.0";
    for (row, fields, expected) in [
        ("V1-007", json!({"channels": ["stable"]}), "p.v1.1.0"),
        ("V1-008", json!({"version": "1.0.0"}), "p.v1.0.0"),
        ("V1-010", json!({"version": ">=1.0, <2"}), "p.v1.1.0"),
        ("V1-011", json!({"version": ">=1.0, <1.1"}), "p.v1.0.0"),
    ] {
        assert_eq!(
            chosen(&fields, None, &one(&[("stable", before)])),
            "p.v1.0.0",
            "{row}"
        );
        let found = chosen(&fields, Some("p.v1.0.0"), &one(&[("stable", after)]));
        assert_eq!(found, expected, "{row}");
    }
}

/// Case 6.
#[test]
fn case_6_edges_of_channels_that_are_not_wanted_do_not_count() {
    let catalogs = one(&[
        ("stable", "p.v1.1.0; p.v1.0.0"),
        ("fast", "p.v1.1.0 >p.v1.0.0; p.v1.0.0"),
    ]);
    for (channels, expected) in [
        (json!(["stable"]), "p.v1.0.0"),
        (json!(["fast"]), "p.v1.1.0"),
        (json!(["fast", "stable"]), "p.v1.1.0"),
        (json!([]), "p.v1.1.0"),
    ] {
        let fields = json!({"channels": channels});
        assert_eq!(
            chosen(&fields, Some("p.v1.0.0"), &catalogs),
            expected,
            "{channels}"
        );
    }
    let resolution = run(&json!({"channels": ["none"]}), Some("p.v1.0.0"), &catalogs);
    assert_eq!(
        explained(&resolution),
        [
            "c/p.v1.0.0: is in none of the requested channels",
            "c/p.v1.1.0: is in none of the requested channels; is not a successor of the installed version",
        ]
    );
}

#[test]
fn an_installed_version_that_cannot_be_read_has_no_successors() {
    let catalogs = one(&[("stable", "p.v1.0.0")]);
    assert_eq!(
        chosen(&json!({}), Some("p.vone"), &catalogs),
        "error walking catalogs: error finding upgrade edges: failed to get version and release of installed bundle: No \
         Major.Minor.Patch elements found"
    );
    let fields = json!({"upgradeConstraintPolicy": "SelfCertified"});
    assert_eq!(chosen(&fields, Some("p.vone"), &catalogs), "p.v1.0.0");
}
