//! The schemas of packages, channels and bundles, and their properties.

use olm_fbc::schema::{Blob, Bundle};
use serde_json::{Value, json};

use super::catalogs::{accepted, base, refused};

#[test]
fn sch_001_schema_is_required_text() {
    for (broken, message) in [
        (
            json!(null),
            "expected value for key \"schema\" to be a string, got null",
        ),
        (json!(""), "missing root schema field"),
    ] {
        refused(move |blobs| blobs[2]["schema"] = broken, message);
    }
    refused(
        |blobs| blobs[2]["schema"] = json!(1),
        "expected value for key \"schema\" to be a string",
    );
    refused(
        |blobs| {
            blobs[2].as_object_mut().expect("object").remove("schema");
        },
        "missing root schema field",
    );
}

#[test]
fn sch_002_package_is_optional_on_other_blobs_and_needed_where_it_counts() {
    accepted(|blobs| blobs.push(json!({"schema": "custom"})));
    refused(
        |blobs| blobs[3]["package"] = json!(""),
        "package name must be set for bundle \"p.v1\"",
    );
    refused(
        |blobs| blobs.push(json!({"schema": "custom", "package": 7})),
        "to be a string",
    );
}

#[test]
fn sch_003_properties_are_an_optional_list() {
    for index in [0, 1] {
        accepted(|blobs| blobs[index]["properties"] = json!([]));
        accepted(|blobs| {
            blobs[index]["properties"] = json!([{"type": "x", "value": 1}, {"type": "x", "value": [2]}])
        });
        refused(|blobs| blobs[index]["properties"] = json!({}), "properties");
    }
    refused(|blobs| blobs[3]["properties"] = json!("x"), "parse bundle: ");
}

#[test]
fn sch_004_a_property_has_a_type_and_a_value() {
    let add = |property: Value| {
        move |blobs: &mut Vec<Value>| {
            blobs[3]["properties"]
                .as_array_mut()
                .expect("list")
                .push(property)
        }
    };
    for value in [json!(1), json!("x"), json!({"a": [null]}), json!(false)] {
        accepted(add(json!({"type": "t", "value": value})));
    }
    refused(
        add(json!({"type": "t"})),
        "properties[2].value: unexpected end of JSON input: value must be set",
    );
    refused(add(json!("x")), "properties[2]: expected an object");
    refused(add(json!({"type": 1, "value": 1})), "type: expected a string");
}

#[test]
fn sch_005_other_schemas_are_accepted_and_kept() {
    let custom = json!({"schema": "example.io/custom", "package": "p", "name": "n", "deep": {"er": [1, 2]}});
    let kept = custom.clone();
    accepted(|blobs| blobs.push(custom));
    let blob = Blob::from_value(kept.clone()).expect("blob");
    assert!(matches!(blob, Blob::Other(_)));
    assert_eq!(blob.to_value(), kept);
}

#[test]
fn sch_006_the_four_schemas_of_olm_are_known_and_other_olm_names_are_carried() {
    for (index, schema) in ["olm.package", "olm.channel", "olm.channel", "olm.bundle"]
        .iter()
        .enumerate()
    {
        let blob = Blob::from_value(base()[index].clone()).expect("blob");
        assert_eq!(blob.schema(), *schema);
        assert!(!matches!(blob, Blob::Other(_)));
    }
    let deprecations = json!({"schema": "olm.deprecations", "package": "p", "entries": []});
    assert!(matches!(
        Blob::from_value(deprecations),
        Ok(Blob::Deprecations(_))
    ));
    assert!(matches!(
        Blob::from_value(json!({"schema": "olm.future"})),
        Ok(Blob::Other(_))
    ));
}

#[test]
fn sch_007_validation_checks_more_than_the_schema_states() {
    refused(
        |blobs| blobs[0]["name"] = json!("P_x"),
        "invalid package name \"P_x\"",
    );
    refused(
        |blobs| blobs[4]["properties"][0]["value"]["version"] = json!("1.0.0"),
        "duplicate versions found in bundles: [{1.0.0: [p.v1, p.v2]}]",
    );
    refused(
        |blobs| {
            blobs[1]["entries"] =
                json!([{"name": "p.v2", "replaces": "p.v1"}, {"name": "p.v1", "replaces": "p.v1"}])
        },
        "detected cycle in replaces chain of upgrade graph: p.v1 -> p.v1",
    );
    refused(
        |blobs| blobs[3]["image"] = json!("quay.io/x/p@sha256:12"),
        "invalid image pull spec",
    );
}

#[test]
fn sch_008_each_package_needs_exactly_one_package_blob() {
    refused(
        |blobs| drop(blobs.remove(0)),
        "unknown package \"p\" for channel \"stable\"",
    );
    refused(
        |blobs| blobs.push(json!({"schema": "olm.package", "name": "p", "defaultChannel": "fast"})),
        "duplicate package \"p\"",
    );
}

#[test]
fn sch_009_each_package_needs_a_channel_and_a_bundle() {
    refused(
        |blobs| drop(blobs.drain(1..)),
        "package must contain at least one channel",
    );
    refused(
        |blobs| drop(blobs.drain(3..)),
        "no olm.bundle blobs found in package \"p\"",
    );
}

#[test]
fn sch_010_name_and_default_channel_of_a_package_are_required() {
    refused(
        |blobs| blobs[0]["name"] = json!(""),
        "config contains package with no name",
    );
    refused(
        |blobs| blobs[0]["defaultChannel"] = json!(""),
        "default channel must be set",
    );
    refused(
        |blobs| blobs[0]["defaultChannel"] = json!("none"),
        "invalid channel \"none\"",
    );
    accepted(|blobs| drop(blobs[0].as_object_mut().expect("object").remove("description")));
}

#[test]
fn sch_011_the_icon_is_optional_with_two_fields() {
    let model = accepted(|_| {});
    let icon = model.packages["p"].package.icon.clone().expect("icon");
    assert_eq!(
        (icon.base64data.as_str(), icon.mediatype.as_str()),
        ("aGVsbG8=", "image/png")
    );
    accepted(|blobs| drop(blobs[0].as_object_mut().expect("object").remove("icon")));
    refused(|blobs| blobs[0]["icon"] = json!("x"), "icon");
    refused(|blobs| blobs[0]["icon"]["base64data"] = json!(1), "base64data");
    refused(
        |blobs| blobs[0]["icon"]["base64data"] = json!("%"),
        "illegal base64 data",
    );
}

#[test]
fn sch_012_package_and_name_of_a_channel_are_required_and_entries_a_list() {
    refused(
        |blobs| blobs[2]["package"] = json!(""),
        "unknown package \"\" for channel \"fast\"",
    );
    refused(
        |blobs| blobs[2]["name"] = json!(""),
        "package \"p\" contains channel with no name",
    );
    refused(|blobs| blobs[2]["entries"] = json!("x"), "parse channel: ");
    refused(
        |blobs| blobs[2]["entries"] = json!([]),
        "channel must contain at least one bundle",
    );
}

#[test]
fn sch_013_an_entry_names_a_bundle_that_is_there() {
    refused(
        |blobs| blobs[2]["entries"][0]["name"] = json!("gone"),
        "for olm.channel entries [gone]",
    );
    refused(
        |blobs| blobs[2]["entries"][0]["name"] = json!(""),
        "name must be set",
    );
}

#[test]
fn sch_014_a_bundle_may_be_in_several_channels_but_once_in_each() {
    let model = accepted(|_| {});
    let channels = &model.packages["p"].channels;
    assert!(
        ["stable", "fast"]
            .iter()
            .all(|name| channels[*name].entries.iter().any(|entry| entry.name == "p.v2"))
    );
    refused(
        |blobs| blobs[2]["entries"] = json!([{"name": "p.v2"}, {"name": "p.v2"}]),
        "invalid package \"p\", channel \"fast\": duplicate entry \"p.v2\"",
    );
}

#[test]
fn sch_015_replaces_may_name_what_is_nowhere() {
    let model = accepted(|_| {});
    assert_eq!(model.packages["p"].channels["stable"].entries[1].replaces, "p.v0");
    accepted(|blobs| {
        drop(
            blobs[1]["entries"][1]
                .as_object_mut()
                .expect("object")
                .remove("replaces"),
        )
    });
}

#[test]
fn sch_016_more_than_one_head_is_invalid() {
    refused(
        |blobs| blobs[1]["entries"][0]["replaces"] = json!("p.v0"),
        "multiple channel heads found in graph: p.v1, p.v2",
    );
}

#[test]
fn sch_017_skips_are_names_that_need_not_be_entries() {
    accepted(|blobs| blobs[1]["entries"][0]["skips"] = json!(["p.v1.5", "p.v1.6"]));
    accepted(|blobs| blobs[1]["entries"][0]["skips"] = json!([]));
    refused(
        |blobs| blobs[1]["entries"][0]["skips"] = json!([""]),
        "skip[0] is empty",
    );
    refused(
        |blobs| blobs[1]["entries"][0]["skips"] = json!("p.v1"),
        "parse channel: ",
    );
}

#[test]
fn sch_018_skip_range_is_a_range_of_versions() {
    for range in ["<2.0.0", ">=1.0.0 <2.0.0", "1.0.x || >1.2.0 !1.3.0"] {
        accepted(move |blobs| blobs[1]["entries"][0]["skipRange"] = json!(range));
    }
    for range in ["not a range", "<v2.0.0", ">=01.0.0"] {
        refused(
            move |blobs| blobs[1]["entries"][0]["skipRange"] = json!(range),
            "invalid skipRange",
        );
    }
}

#[test]
fn sch_020_package_name_and_image_of_a_bundle_are_required() {
    refused(
        |blobs| blobs[3]["package"] = json!(""),
        "package name must be set for bundle \"p.v1\"",
    );
    refused(
        |blobs| blobs[3]["name"] = json!(""),
        "not found in any channel entries",
    );
    refused(|blobs| blobs[3]["image"] = json!(""), "bundle image must be set");
    refused(
        |blobs| blobs[3]["image"] = json!("no image"),
        "image: invalid image pull spec \"no image\"",
    );
    refused(|blobs| blobs[3]["properties"] = json!({"a": 1}), "parse bundle: ");
}

#[test]
fn sch_021_related_images_are_optional_with_optional_names() {
    let Blob::Bundle(Bundle { related_images, .. }) = Blob::from_value(base()[3].clone()).expect("blob")
    else {
        panic!("a bundle")
    };
    assert_eq!(related_images[1].name, "");
    accepted(|blobs| drop(blobs[3].as_object_mut().expect("object").remove("relatedImages")));
    refused(
        |blobs| blobs[3]["relatedImages"] = json!([{"image": "Not An Image"}]),
        "relatedImages[0].image: invalid image pull spec",
    );
    refused(|blobs| blobs[3]["relatedImages"] = json!([1]), "relatedImages");
}

#[test]
fn sch_022_exactly_one_package_property() {
    let twice = |blobs: &mut Vec<Value>| {
        let property = blobs[3]["properties"][0].clone();
        blobs[3]["properties"]
            .as_array_mut()
            .expect("list")
            .push(property);
    };
    refused(twice, "must have exactly 1 \"olm.package\" property, found 2");
    refused(
        |blobs| blobs[3]["properties"] = json!([]),
        "must have exactly 1 \"olm.package\" property, found 0",
    );
}

#[test]
fn sch_023_the_package_property_names_the_package_and_a_semantic_version() {
    refused(
        |blobs| blobs[3]["properties"][0]["value"]["packageName"] = json!("q"),
        "package \"p\" does not match \"olm.package\" property \"q\"",
    );
    for version in ["1", "1.0", "v1.0.0", "1.0.0.0", "01.0.0", ""] {
        refused(
            move |blobs| blobs[3]["properties"][0]["value"]["version"] = json!(version),
            &format!("error parsing bundle \"p.v1\" version {version:?}"),
        );
    }
    accepted(|blobs| blobs[3]["properties"][0]["value"]["version"] = json!("1.0.0-rc.1+build.5"));
}

fn property(kind: &str, value: Value) -> impl FnOnce(&mut Vec<Value>) {
    let property = json!({"type": kind, "value": value});
    move |blobs| {
        blobs[3]["properties"]
            .as_array_mut()
            .expect("list")
            .push(property)
    }
}

#[test]
fn sch_024_a_gvk_has_three_texts() {
    accepted(property(
        "olm.gvk",
        json!({"group": "g.io", "version": "v1", "kind": "Thing"}),
    ));
    refused(
        property("olm.gvk", json!("x")),
        "parse property[2] of type \"olm.gvk\"",
    );
    refused(
        property("olm.gvk", json!({"group": 1, "version": "v1", "kind": "K"})),
        "field group",
    );
    refused(
        property("olm.gvk", json!({"group": "g", "version": ["v1"], "kind": "K"})),
        "field version",
    );
    refused(
        property("olm.gvk", json!({"group": "g", "version": "v1", "kind": true})),
        "field kind",
    );
}

#[test]
fn sch_025_a_required_package_has_name_and_range() {
    accepted(property(
        "olm.package.required",
        json!({"packageName": "q", "versionRange": ">=1.0.0"}),
    ));
    refused(
        property("olm.package.required", json!(1)),
        "parse property[2] of type \"olm.package.required\"",
    );
    refused(
        property("olm.package.required", json!({"packageName": 1})),
        "field packageName",
    );
    refused(
        property(
            "olm.package.required",
            json!({"packageName": "q", "versionRange": 1}),
        ),
        "field versionRange",
    );
}

#[test]
fn sch_026_a_required_gvk_has_three_texts() {
    accepted(property(
        "olm.gvk.required",
        json!({"group": "g.io", "version": "v1", "kind": "Thing"}),
    ));
    refused(
        property("olm.gvk.required", json!([])),
        "parse property[2] of type \"olm.gvk.required\"",
    );
    refused(property("olm.gvk.required", json!({"kind": 1})), "field kind");
}
