//! Packages and versions as catalogs have them.

use super::*;

#[test]
fn a_package_is_read_from_the_documents_of_a_catalog() {
    let mut all = documents(&[("stable", "p.v1.0.0")]);
    all.push(json!({"schema": "olm.package", "name": "other", "defaultChannel": "p"}));
    all.push(json!({"schema": "olm.bundle", "package": "other", "name": "p", "properties": "not a list"}));
    all.push(json!({"schema": "custom", "name": "p"}));
    all.push(deprecations(&["p.v1.0.0"]));
    let package = PackageContent::read(&lines(&all), "p").unwrap().unwrap();
    assert_eq!(package.channels.len(), 1);
    assert_eq!(package.bundles.len(), 1);
    assert_eq!(package.bundles[0].bundle.image, "registry/p.v1.0.0");
    assert!(package.is_deprecated("p.v1.0.0"));
    assert!(!package.is_deprecated("p.v1.0.1"));
    assert_eq!(PackageContent::read(&lines(&all), "absent").unwrap(), None);
    assert_eq!(PackageContent::read(b"", "p").unwrap(), None);
}

#[test]
fn content_that_is_no_catalog_is_an_error() {
    let broken = json!({"schema": "olm.bundle", "package": "p", "name": "p.v1", "properties": "none"});
    assert!(PackageContent::read(&lines(&[broken]), "p").is_err());
    for text in ["<html>", r#"{"schema": "olm.package", "name": "#] {
        assert!(PackageContent::read(text.as_bytes(), "p").is_err(), "{text}");
    }
}

/// The table of the rules for versions and releases.
#[test]
fn build_metadata_is_the_release_if_it_can_be_one() {
    for (text, version, release) in [
        ("1.0.0", "1.0.0", ""),
        ("1.0.0+2", "1.0.0", "2"),
        ("1.0.0-rc.1+a.1", "1.0.0-rc.1", "a.1"),
        ("1.0.0+02", "1.0.0+02", ""),
        ("1.0.0+123456789012345678901", "1.0.0+123456789012345678901", ""),
    ] {
        let parsed = parse_version(text).unwrap();
        assert_eq!(parsed.version.to_string(), version, "{text}");
        assert_eq!(parsed.release.to_string(), release, "{text}");
        assert_eq!(version_text(&parsed), text);
    }
    let ordered = [
        "1.0.0-rc.1",
        "1.0.0",
        "1.0.0+1",
        "1.0.0+2",
        "1.0.0+10",
        "1.0.0+a",
        "1.0.1",
    ];
    let parsed: Vec<_> = ordered.iter().map(|text| parse_version(text).unwrap()).collect();
    assert!(parsed.is_sorted());
    assert!(parse_version("v1.0.0").is_err());
}
