#![allow(
    clippy::panic,
    clippy::needless_pass_by_value,
    clippy::semicolon_if_nothing_returned,
    reason = "tests"
)]

use serde_json::{Value, json};

use super::*;
use crate::manifest_validator::ShapeValidator;

fn bundle(name: &str, version: &str) -> Value {
    json!({"schema": "olm.bundle", "name": name, "package": "p", "image": "q.io/p:1",
    "relatedImages": [{"image": "q.io/p:1"}],
    "properties": [
        {"type": "olm.package", "value": {"packageName": "p", "version": version}},
        {"type": "olm.csv.metadata", "value": {"displayName": "P"}},
    ]})
}

fn clean() -> Vec<Value> {
    vec![
        json!({"schema": "olm.package", "name": "p", "defaultChannel": "c"}),
        json!({"schema": "olm.channel", "name": "c", "package": "p", "entries": [
            {"name": "p.v2", "replaces": "p.v1", "skipRange": "<2.0.0"}, {"name": "p.v1"},
        ]}),
        bundle("p.v1", "1.0.0"),
        bundle("p.v2", "2.0.0"),
    ]
}

fn findings(change: impl FnOnce(&mut Vec<Value>)) -> Vec<String> {
    let mut blobs = clean();
    change(&mut blobs);
    let Report { faults, findings } = report(&blobs);
    assert!(faults.is_empty(), "{faults}");
    findings.iter().map(ToString::to_string).collect()
}

fn report(blobs: &[Value]) -> Report {
    let dir = tempfile::tempdir().expect("folder");
    let text: String = blobs.iter().map(|blob| format!("{blob}\n")).collect();
    std::fs::write(dir.path().join("c.json"), text).expect("file");
    lint(dir.path(), &ShapeValidator)
}

#[track_caller]
fn finds(rule: Rule, part: &str, change: impl FnOnce(&mut Vec<Value>)) {
    let found = findings(change);
    let name = format!("{}: ", rule.name());
    assert!(
        found
            .iter()
            .any(|line| line.contains(&name) && line.contains(part)),
        "no {name}{part} in {found:#?}"
    );
}

#[test]
fn a_bundle_without_image_is_found_where_its_manifests_make_it_valid() {
    let encode = |object: Value| olm_fbc::base64::encode(object.to_string());
    finds(Rule::NoImage, "bundle \"p.v1\"", |blobs| {
        blobs[2]["image"] = json!("");
        let data = encode(json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}}));
        let properties = blobs[2]["properties"].as_array_mut().expect("list");
        properties.push(json!({"type": "olm.bundle.object", "value": {"data": data}}));
    });
    // Without manifests it is already a fault.
    let mut blobs = clean();
    blobs[2]["image"] = json!("");
    let Report { faults, findings } = report(&blobs);
    assert!(
        faults.to_string().contains("bundle image must be set"),
        "{faults}"
    );
    assert!(
        findings.iter().all(|finding| finding.rule != Rule::NoImage),
        "{findings:?}"
    );
}

#[test]
fn a_clean_catalog_has_no_findings() {
    assert_eq!(findings(|_| {}), Vec::<String>::new());
}

#[test]
fn graphs() {
    // p.v3 and p.v4 skip each other, and no edges lead on from them.
    finds(
        Rule::NoUpgradePath,
        "from \"p.v3\" to the head \"p.v2\"",
        |blobs| {
            blobs[1]["entries"] = json!([{"name": "p.v2", "replaces": "p.v1"}, {"name": "p.v1"},
            {"name": "p.v3", "skips": ["p.v4"]}, {"name": "p.v4", "skips": ["p.v3"]}]);
            blobs.extend([bundle("p.v3", "0.3.0"), bundle("p.v4", "0.4.0")]);
        },
    );
    finds(Rule::Downgrade, "\"p.v2\" upgrades to \"p.v1\"", |blobs| {
        blobs[1]["entries"] = json!([{"name": "p.v1", "replaces": "p.v2"}, {"name": "p.v2"}]);
    });
    finds(Rule::DanglingReplaces, "replaces \"p.v0\"", |blobs| {
        blobs[1]["entries"][1]["replaces"] = json!("p.v0");
    });
    finds(
        Rule::SkipRangeOfItself,
        "\"p.v2\" includes its own version",
        |blobs| {
            blobs[1]["entries"][0]["skipRange"] = json!("<=2.0.0");
        },
    );
    finds(
        Rule::DefaultChannelBehind,
        "goes up to 2.0.0, but the package has \"p.v3\"",
        |blobs| {
            blobs.push(
                json!({"schema": "olm.channel", "name": "d", "package": "p", "entries": [{"name": "p.v3"}]}),
            );
            blobs.push(bundle("p.v3", "3.0.0"));
        },
    );
    finds(Rule::DeprecatedHead, "its head \"p.v2\" is deprecated", |blobs| {
        blobs.push(json!({"schema": "olm.deprecations", "package": "p", "entries": [
            {"reference": {"schema": "olm.bundle", "name": "p.v2"}, "message": "old"}]}));
    });
}

#[test]
fn a_prerelease_elsewhere_does_not_leave_the_default_channel_behind() {
    let found = findings(|blobs| {
        blobs.push(
            json!({"schema": "olm.channel", "name": "d", "package": "p", "entries": [{"name": "p.v3"}]}),
        );
        blobs.push(bundle("p.v3", "3.0.0-rc.1"));
    });
    assert_eq!(found, Vec::<String>::new());
}

#[test]
fn icons() {
    for (icon, part) in [
        (json!({"base64data": "aGVsbG8="}), "mediatype is not set"),
        (
            json!({"base64data": "aGVsbG8=", "mediatype": "text/plain"}),
            "not that of an image",
        ),
        (
            json!({"base64data": "aGVsbG8=", "mediatype": "image/png"}),
            "base64data is not an image",
        ),
        (
            json!({"base64data": "iVBORw0KGgo=", "mediatype": "image/jpeg"}),
            "but the data is image/png",
        ),
    ] {
        finds(Rule::Icon, part, move |blobs| blobs[0]["icon"] = icon);
    }
    let good = json!({"base64data": "iVBORw0KGgo=", "mediatype": "image/png"});
    assert_eq!(findings(|blobs| blobs[0]["icon"] = good), Vec::<String>::new());
}

fn with_property(property: Value) -> impl FnOnce(&mut Vec<Value>) {
    move |blobs| {
        blobs[2]["properties"]
            .as_array_mut()
            .expect("list")
            .push(property)
    }
}

#[test]
fn bundles() {
    finds(
        Rule::EmptyRelatedImage,
        "relatedImages[0] \"x\" has no image",
        |blobs| {
            blobs[2]["relatedImages"] = json!([{"name": "x", "image": ""}]);
        },
    );
    finds(Rule::NoRelatedImages, "lists no relatedImages", |blobs| {
        blobs[2]["relatedImages"] = json!([]);
    });
    finds(Rule::NoCsv, "consoles show no name", |blobs| {
        blobs[2]["properties"].as_array_mut().expect("list").truncate(1);
    });
    finds(
        Rule::EmptyProperty,
        "property[2] has no type",
        with_property(json!({"type": "", "value": {}})),
    );
    finds(
        Rule::EmptyProperty,
        "property[2] has no value",
        with_property(json!({"type": "t", "value": null})),
    );
    finds(
        Rule::RequiredRange,
        "range \"abc\", which cannot be parsed",
        with_property(
            json!({"type": "olm.package.required", "value": {"packageName": "q", "versionRange": "abc"}}),
        ),
    );
    let crd = json!({"kind": "CustomResourceDefinition", "apiVersion": "apiextensions.k8s.io/v1beta1", "metadata": {"name": "a.b"}});
    let data = olm_fbc::base64::encode(crd.to_string());
    finds(
        Rule::OldCrd,
        "\"a.b\" has apiVersion apiextensions.k8s.io/v1beta1",
        with_property(json!({"type": "olm.bundle.object", "value": {"data": data}})),
    );
    let large = olm_fbc::base64::encode(json!({"a": "x".repeat(5 << 20)}).to_string());
    finds(
        Rule::LargeBundle,
        "clients accept messages of at most 4 MiB",
        with_property(json!({"type": "olm.bundle.object", "value": {"data": large}})),
    );
    finds(Rule::SchemaName, "is not served", |blobs| {
        blobs.push(json!({"schema": "a/b", "package": "p"}))
    });
}

#[test]
fn constraints() {
    let constraint = |value: Value| with_property(json!({"type": "olm.constraint", "value": value}));
    for (value, part) in [
        (json!([]), "must be an object"),
        (json!({"failureMessage": "x"}), "needs one of cel, gvk"),
        (
            json!({"cel": {"rule": "1 +"}}),
            "cel rule \"1 +\": it is not whole",
        ),
        (json!({"cel": {}}), "cel rule \"\": it is not whole"),
        (
            json!({"package": {"packageName": "q", "versionRange": "abc"}}),
            "range \"abc\" cannot be parsed",
        ),
        (
            json!({"all": {"constraints": [{"cel": {"rule": ""}}]}}),
            "cel rule \"\": it is not whole",
        ),
        (json!({"any": {}}), "any needs a list"),
        (
            json!({"cel": {"rule": "true"}, "gvk": {}}),
            "must have one form, found cel, gvk",
        ),
    ] {
        finds(Rule::Constraint, part, constraint(value));
    }
    let good = json!({"all": {"constraints": [
        {"gvk": {"group": "g", "kind": "K", "version": "v1"}},
        {"cel": {"rule": "properties.exists(p, p.type == 'a)' && p.value == \"x\")"}},
        {"package": {"packageName": "q", "versionRange": ">=1.0.0"}},
    ]}});
    assert_eq!(findings(constraint(good)), Vec::<String>::new());
}

#[test]
fn con_013_a_not_is_found_by_lint() {
    let value = json!({"all": {"constraints": [
        {"gvk": {"group": "g", "kind": "K", "version": "v1"}},
        {"not": {"constraints": [{"gvk": {"group": "g", "kind": "L", "version": "v1"}}]}},
    ]}});
    let property = json!({"type": "olm.constraint", "value": value});
    finds(
        Rule::Negation,
        ": all.constraints[1].not: `not` in `all` restricts",
        with_property(property),
    );
}

/// D15: lint stopped at the first error of validate and reported nothing else.
#[test]
fn what_does_not_validate_is_linted_all_the_same() {
    let mut blobs = clean();
    blobs[0]["defaultChannel"] = json!("");
    blobs[0]["icon"] = json!({"base64data": "aGVsbG8=", "mediatype": "image/png"});
    blobs[1]["entries"] = json!([{"name": "p.v2"}, {"name": "p.v1", "replaces": "p.v2"}, {"name": "p.v3"}]);
    blobs[3]["relatedImages"] = json!([]);
    let Report { faults, findings } = report(&blobs);
    let faults = faults.to_string();
    assert!(faults.contains("default channel must be set"), "{faults}");
    let found: Vec<String> = findings.iter().map(ToString::to_string).collect();
    insta::assert_snapshot!(found.join("\n"), @r#"
    package "p", icon: the icon cannot be shown: base64data is not an image (c.json, document 1)
    package "p", bundle "p.v2", no-related-images: it lists no relatedImages: mirrors for disconnected clusters will lack its images; name them in spec.relatedImages of the CSV (c.json, document 4)
    package "p", channel "c", downgrade: "p.v2" upgrades to "p.v1", a lower version
    "#);
}

/// D15: `replace:` was ignored, and only its consequence "multiple channel heads" was reported.
#[test]
fn misspelt_names_are_found_whether_the_catalog_is_valid_or_not() {
    finds(
        Rule::Misspelling,
        "entries[1]: unknown key \"skipRnage\": did you mean \"skipRange\"?",
        |blobs| {
            blobs[1]["entries"][1]["skipRnage"] = json!("<1.0.0");
        },
    );
    let mut blobs = clean();
    blobs[1]["entries"][0] = json!({"name": "p.v2", "replace": "p.v1"});
    blobs.push(json!({"schema": "olm.chanel", "package": "p", "name": "d", "entries": []}));
    let Report { faults, findings } = report(&blobs);
    assert!(faults.to_string().contains("multiple channel heads"), "{faults}");
    let found: Vec<String> = findings.iter().map(ToString::to_string).collect();
    insta::assert_snapshot!(found.join("\n"), @r#"
    package "p", olm.chanel "d", misspelling: unknown schema "olm.chanel": did you mean "olm.channel"? (c.json, document 5)
    package "p", olm.channel "c", misspelling: entries[0]: unknown key "replace": did you mean "replaces"? (c.json, document 2)
    "#);
}

#[test]
fn required_packages_are_looked_up_in_the_catalog() {
    let needing = |properties: Vec<Value>| {
        move |blobs: &mut Vec<Value>| {
            let list = blobs[3]["properties"].as_array_mut().expect("properties");
            list.extend(properties);
            blobs.push(json!({"schema": "olm.package", "name": "disk", "defaultChannel": "c"}));
            blobs.push(json!({"schema": "olm.channel", "package": "disk", "name": "c",
                "entries": [{"name": "disk.v1"}, {"name": "disk.v2", "replaces": "disk.v1"}]}));
            for (name, version) in [("disk.v1", "1.0.0"), ("disk.v2", "2.0.0")] {
                let mut blob = bundle(name, version);
                blob["package"] = json!("disk");
                blob["properties"][0]["value"]["packageName"] = json!("disk");
                blobs.push(blob);
            }
        }
    };
    let required = |name: &str, range: &str| json!({"type": "olm.package.required", "value": {"packageName": name, "versionRange": range}});
    let package = |name: &str, range: &str| json!({"package": {"packageName": name, "versionRange": range}});
    let constraint = |value: Value| json!({"type": "olm.constraint", "value": value});
    let unmet = "package \"p\", bundle \"p.v2\", unmet-range: it needs package \"disk\" in range \">=9.0.0\", and the catalog has \
                 2.0.0 and 1.0.0 (c.json, document 4)";
    for property in [
        required("disk", ">=9.0.0"),
        constraint(package("disk", ">=9.0.0")),
        constraint(json!({"failureMessage": "m", "all": {"constraints": [package("disk", ">=9.0.0")]}})),
    ] {
        assert_eq!(findings(needing(vec![property])), [unmet]);
    }
    assert_eq!(
        findings(needing(vec![required("dsik", ">=1.0.0")])),
        [
            "package \"p\", bundle \"p.v2\", misspelling: it needs package \"dsik\", which the catalog does not have: did you mean \
          \"disk\"? (c.json, document 4)"
        ]
    );
    // Other catalogs may have it, and one of several alternatives is enough.
    for property in [
        required("elsewhere", ">=1.0.0"),
        required("disk", ">=2.0.0"),
        constraint(json!({"any": {"constraints": [package("disk", ">=9.0.0"), package("disk", ">=1.0.0")]}})),
    ] {
        assert_eq!(findings(needing(vec![property])), Vec::<String>::new());
    }
}

#[test]
fn the_newest_of_many_versions_are_named() {
    let Report { findings, .. } = report(
        &(0..8)
            .map(|minor| {
                let mut blob = bundle(&format!("p.v1.{minor}"), &format!("1.{minor}.0"));
                let list = blob["properties"].as_array_mut().expect("properties");
                list.push(json!({"type": "olm.package.required", "value": {"packageName": "p", "versionRange": "2.x"}}));
                blob
            })
            .chain([json!({"schema": "olm.package", "name": "p", "defaultChannel": "c"})])
            .collect::<Vec<_>>(),
    );
    let unmet: Vec<_> = findings
        .iter()
        .filter(|found| found.rule == Rule::UnmetRange)
        .collect();
    assert_eq!(unmet.len(), 8);
    assert!(
        unmet[0]
            .message
            .ends_with("the catalog has 1.7.0, 1.6.0, 1.5.0, 1.4.0, 1.3.0 and 3 older"),
        "{}",
        unmet[0].message
    );
}

/// D15: a dangling `replaces` names the nearest bundle that it could have meant.
#[test]
fn a_dangling_replaces_names_the_nearest_bundle() {
    let blobs = |replaces: &'static str| {
        move |blobs: &mut Vec<Value>| {
            blobs[0]["defaultChannel"] = json!("d");
            blobs.push(json!({"schema": "olm.channel", "name": "d", "package": "p",
                "entries": [{"name": "p.v3.0.0", "replaces": replaces}]}));
            blobs.push(bundle("p.v3.0.0", "3.0.0"));
        }
    };
    finds(
        Rule::DanglingReplaces,
        "\"p.v3.0.0\" replaces \"p.2\", which is not in the package, so nobody can upgrade from it; did you mean \"p.v2\"?",
        blobs("p.2"),
    );
    let found = findings(blobs("something.else"));
    assert!(
        found.iter().any(|line| line.contains("upgrade from it")),
        "{found:?}"
    );
    assert!(!found.concat().contains("did you mean"), "{found:?}");
}

#[test]
fn rules_have_names_and_texts() {
    for rule in Rule::value_variants() {
        let value = rule.to_possible_value().expect("every rule is offered");
        assert_eq!(Rule::from_str(&rule.name(), false), Ok(*rule));
        assert_eq!(serde_json::json!(rule), rule.name());
        assert!(value.get_help().is_some());
    }
    assert_eq!(Rule::NoUpgradePath.name(), "no-upgrade-path");
    assert!(Rule::from_str("no-such-rule", false).is_err());
}
