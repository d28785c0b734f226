use serde_json::json;

use super::*;

#[test]
fn known_types_are_read() {
    for (kind, value, expected) in [
        (
            "olm.package",
            json!({"packageName": "p", "version": "1.0.0"}),
            Typed::Package(PackageProperty {
                package_name: "p".into(),
                version: "1.0.0".into(),
                release: String::new(),
            }),
        ),
        (
            "olm.package.required",
            json!({"packagename": "p", "VersionRange": ">1.0.0"}),
            Typed::PackageRequired(PackageRequired {
                package_name: "p".into(),
                version_range: ">1.0.0".into(),
            }),
        ),
        (
            "olm.gvk",
            json!({"group": "g", "kind": "K", "version": null, "more": 1}),
            Typed::Gvk(Gvk {
                group: "g".into(),
                kind: "K".into(),
                version: String::new(),
            }),
        ),
        (
            "olm.gvk.required",
            json!(null),
            Typed::GvkRequired(Gvk::default()),
        ),
        ("olm.label", json!({"label": "l"}), Typed::Label("l".into())),
        (
            "olm.label.required",
            json!({"label": "l"}),
            Typed::LabelRequired("l".into()),
        ),
        (
            "olm.bundle.object",
            json!({"data": "e30="}),
            Typed::BundleObject("e30=".into()),
        ),
        ("olm.constraint", json!([1]), Typed::Constraint(json!([1]))),
        ("olm.deprecated", json!({}), Typed::Deprecated),
        (
            "olm.channel",
            json!({"channelName": "c"}),
            Typed::Channel("c".into()),
        ),
        ("olm.maxOpenShiftVersion", json!("4.8"), Typed::Other),
        ("", json!(1), Typed::Other),
    ] {
        assert_eq!(Property::new(kind, value).parse(), Ok(expected), "{kind}");
    }
}

#[test]
fn wrong_shapes_are_named() {
    for (kind, value, expected) in [
        (
            "olm.gvk",
            json!("x"),
            r#"value of property type "olm.gvk": expected an object, found string"#,
        ),
        (
            "olm.package",
            json!({"packageName": 1}),
            r#"value of property type "olm.package": field packageName: expected a string, found number"#,
        ),
        (
            "olm.csv.metadata",
            json!({"keywords": {}}),
            r#"value of property type "olm.csv.metadata": field keywords: expected an array, found object"#,
        ),
    ] {
        let error = Property::new(kind, value).parse().expect_err(kind);
        assert_eq!(error.to_string(), expected);
    }
}

#[test]
fn unknown_fields_survive() {
    let text = r#"{"type":"a","value":{"b":1},"note":"x"}"#;
    let property: Property = serde_json::from_str(text).expect("property");
    assert_eq!(serde_json::to_string(&property).expect("text"), text);
}

#[test]
fn csv_metadata_is_taken_from_a_csv() {
    let csv = json!({
        "metadata": {"name": "x", "annotations": {"a": "b"}, "labels": {}},
        "spec": {"displayName": "X", "customresourcedefinitions": {"owned": [{"name": "a"}]}, "keywords": [], "version": "1.0.0"},
    });
    assert_eq!(
        CsvMetadata::from_csv(&csv).into_value(),
        json!({
            "annotations": {"a": "b"}, "apiServiceDefinitions": {},
            "crdDescriptions": {"owned": [{"name": "a", "version": "", "kind": ""}]},
            "displayName": "X", "provider": {},
        })
    );
}

/// Upstream writes known fields that are set or always written; recorded from `opm render --migrate`.
#[test]
fn csv_metadata_is_written_as_upstreams_types_are() {
    let csv = json!({"metadata": {}, "spec": {
        "customresourcedefinitions": {
            "owned": [{
                "name": "a", "version": "v1", "kind": "A", "specDescriptors": [], "x": 1,
                "statusDescriptors": [{"path": "p", "x-descriptors": [], "value": 1}, {"description": ""}],
                "resources": [{"kind": "Secret", "version": "v1"}],
            }],
            "required": [],
        },
        "apiservicedefinitions": {"owned": [{"name": "b", "containerPort": 0, "deploymentName": ""}]},
        "installModes": [{"type": "OwnNamespace"}, {"supported": true, "x": 1}],
        "maintainers": [{"name": "n", "email": ""}],
        "nativeAPIs": [{"kind": "K"}],
        "provider": {"name": "", "url": "u"},
    }});
    assert_eq!(
        CsvMetadata::from_csv(&csv).into_value(),
        json!({
            "apiServiceDefinitions": {"owned": [{"name": "b", "group": "", "version": "", "kind": ""}]},
            "crdDescriptions": {"owned": [{
                "name": "a", "version": "v1", "kind": "A",
                "statusDescriptors": [{"path": "p", "value": 1}, {"path": ""}],
                "resources": [{"name": "", "kind": "Secret", "version": "v1"}],
            }]},
            "installModes": [{"type": "OwnNamespace", "supported": false}, {"type": "", "supported": true}],
            "maintainers": [{"name": "n"}],
            "nativeAPIs": [{"group": "", "version": "", "kind": "K"}],
            "provider": {"url": "u"},
        })
    );
}

/// Values of descriptors are raw JSON for upstream, which is written unless it is absent.
#[test]
fn values_of_descriptors_are_kept_even_if_they_are_zero() {
    let descriptors =
        json!([{"path": "a", "value": 0}, {"path": "b", "value": null}, {"path": "c", "value": ""}]);
    let crds =
        json!({"owned": [{"name": "a", "version": "v1", "kind": "A", "specDescriptors": descriptors}]});
    let csv = json!({"metadata": {}, "spec": {"customresourcedefinitions": crds}});
    let metadata = CsvMetadata::from_csv(&csv);
    assert_eq!(metadata.get("crdDescriptions"), Some(&crds));
}

/// Otherwise the migrated catalog would be invalid, or lack the field. Upstream refuses to migrate it.
#[test]
fn a_text_that_yaml_read_as_a_boolean_or_number_is_text_in_csv_metadata() {
    let crds =
        json!({"owned": [{"name": "a", "version": 1, "kind": "A", "displayName": false, "description": 0}]});
    let csv = json!({
        "metadata": {"annotations": {"certified": true}},
        "spec": {"displayName": false, "customresourcedefinitions": crds},
    });
    let metadata = CsvMetadata::from_csv(&csv).into_value();
    assert_eq!(
        metadata,
        json!({
            "annotations": {"certified": "true"}, "apiServiceDefinitions": {},
            "crdDescriptions": {"owned": [
                {"name": "a", "version": "1", "kind": "A", "displayName": "false", "description": "0"},
            ]},
            "displayName": "false", "provider": {},
        })
    );
    assert!(parse(kinds::CSV_METADATA, &metadata).is_ok());
}

/// Every known field is checked to the depth of Go's types; recorded from upstream's rejections.
#[test]
fn csv_metadata_is_checked_to_the_bottom() {
    for (value, expected) in [
        (
            json!({"annotations": {"a": null, "b": "c"}, "installModes": [{"supported": true, "x": 1}, null]}),
            "",
        ),
        (
            json!({"ANNOTATIONS": {"a": 1}}),
            "field annotations.a: expected a string, found number",
        ),
        (
            json!({"labels": ["a"]}),
            "field labels: expected an object, found array",
        ),
        (
            json!({"keywords": ["a", true]}),
            "field keywords[1]: expected a string, found bool",
        ),
        (
            json!({"installModes": ["x"]}),
            "field installModes[0]: expected an object, found string",
        ),
        (
            json!({"installModes": [{"type": "a", "supported": "true"}]}),
            "field installModes[0].supported: expected a boolean, found string",
        ),
        (
            json!({"installModes": [{"Type": 1}]}),
            "field installModes[0].type: expected a string, found number",
        ),
        (
            json!({"provider": {"name": {}}}),
            "field provider.name: expected a string, found object",
        ),
        (
            json!({"links": [{"url": 1}]}),
            "field links[0].url: expected a string, found number",
        ),
        (
            json!({"maintainers": {}}),
            "field maintainers: expected an array, found object",
        ),
        (
            json!({"nativeAPIs": [{"kind": []}]}),
            "field nativeAPIs[0].kind: expected a string, found array",
        ),
        (
            json!({"maturity": 1}),
            "field maturity: expected a string, found number",
        ),
        (
            json!({"crdDescriptions": {"owned": [{"specDescriptors": [{"value": 1, "x-descriptors": "a"}]}]}}),
            "field crdDescriptions.owned[0].specDescriptors[0].x-descriptors: expected an array, found string",
        ),
        (
            json!({"apiServiceDefinitions": {"required": [{"containerPort": 1.5}]}}),
            "field apiServiceDefinitions.required[0].containerPort: expected an integer, found number",
        ),
    ] {
        let found = match parse(kinds::CSV_METADATA, &value) {
            Ok(_) => String::new(),
            Err(error) => error.reason,
        };
        assert_eq!(found, expected, "{value}");
    }
}
