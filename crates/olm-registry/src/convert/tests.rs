use serde_json::json;

use super::*;

fn converted(value: Value) -> Converted {
    let olm_fbc::schema::Blob::Bundle(blob) = olm_fbc::schema::Blob::from_value(value).expect("blob") else {
        unreachable!("a bundle")
    };
    bundle(&blob)
}

/// Returns the content of a bundle with CSV metadata.
fn finished(blob: Value, package: &schema::Package) -> proto::Bundle {
    let converted = converted(blob);
    let draft = converted.draft.expect("draft");
    content_of_draft(draft, converted.content.object, package)
}

fn blob(properties: &Value) -> Value {
    json!({"schema": "olm.bundle", "name": "p.v1", "package": "p", "image": "i", "properties": properties})
}

fn encode(value: &Value) -> String {
    olm_fbc::base64::encode(value.to_string())
}

#[test]
fn properties_become_apis_and_dependencies() {
    let converted = converted(blob(&json!([
        {"type": "olm.package", "value": {"packageName": "p", "version": "1.0.0", "release": "2"}},
        {"type": "olm.gvk", "value": {"group": "g", "kind": "K", "version": "v1"}},
        {"type": "olm.gvk.required", "value": {"version": "v2", "kind": "L", "group": "h"}},
        {"type": "olm.package.required", "value": {"packageName": "q", "versionRange": ">=1.0.0 <2.0.0"}},
        {"type": "other", "value": [1, {"b": 1, "a": "<"}]},
        {"type": "olm.bundle.object", "value": {"data": encode(&json!({"kind": "Service"}))}},
        {"type": "olm.bundle.object", "value": {"data": encode(&json!({"kind": "ClusterServiceVersion"}))}},
        {"type": "olm.csv.metadata", "value": {}},
    ])));
    let common = &converted.common;
    assert_eq!(
        (common.version.as_str(), common.bundle_path.as_str()),
        ("1.0.0", "i")
    );
    let dependencies: Vec<_> = common
        .dependencies
        .iter()
        .map(|dependency| format!("{} {}", dependency.r#type, dependency.value))
        .collect();
    assert_eq!(
        dependencies,
        [
            r#"olm.gvk {"group":"h","kind":"L","version":"v2"}"#,
            r#"olm.package {"packageName":"q","version":">=1.0.0 <2.0.0"}"#
        ]
    );
    assert_eq!(common.provided_apis[0].kind, "K");
    assert_eq!(common.required_apis[0].version, "v2");
    let properties: Vec<_> = common
        .properties
        .iter()
        .map(|property| format!("{} {}", property.r#type, property.value))
        .collect();
    assert_eq!(
        properties,
        [
            r#"olm.package {"packageName":"p","release":"2","version":"1.0.0"}"#,
            r#"olm.gvk {"group":"g","kind":"K","version":"v1"}"#,
            r#"olm.gvk.required {"group":"h","kind":"L","version":"v2"}"#,
            r#"olm.package.required {"packageName":"q","versionRange":">=1.0.0 <2.0.0"}"#,
            r#"other [1,{"a":"<","b":1}]"#
        ]
    );
    assert_eq!(converted.content.csv_json, r#"{"kind":"ClusterServiceVersion"}"#);
    assert_eq!(converted.content.object.len(), 2);
    assert_eq!(converted.draft, None);
}

#[test]
fn a_csv_is_made_from_metadata() {
    let mut blob = blob(&json!([
        {"type": "olm.package", "value": {"packageName": "p", "version": "1.0.0"}},
        {"type": "olm.csv.metadata", "value": {"displayName": "P", "annotations": {"a": "b"}, "keywords": ["k"]}},
    ]));
    blob["relatedImages"] = json!([{"name": "n", "image": "j"}]);
    let package = schema::Package {
        icon: Some(schema::Icon {
            base64data: "aWNvbg==".into(),
            mediatype: "image/png".into(),
            ..schema::Icon::default()
        }),
        description: "about".into(),
        ..schema::Package::default()
    };
    let content = finished(blob, &package);
    assert_eq!(content.object, std::slice::from_ref(&content.csv_json));
    // The text that upstream prints.
    assert_eq!(
        content.csv_json,
        concat!(
            r#"{"kind":"ClusterServiceVersion","apiVersion":"operators.coreos.com/v1alpha1","#,
            r#""metadata":{"name":"p.v1","annotations":{"a":"b"}},"spec":{"#,
            r#""install":{"strategy":"deployment","spec":{"deployments":null}},"version":"1.0.0","#,
            r#""customresourcedefinitions":{},"apiservicedefinitions":{},"displayName":"P","description":"about","#,
            r#""keywords":["k"],"provider":{},"icon":[{"base64data":"aWNvbg==","mediatype":"image/png"}],"#,
            r#""cleanup":{"enabled":false},"relatedImages":[{"name":"n","image":"j"}]},"status":{"cleanup":{}}}"#,
        )
    );
}

#[test]
fn a_csv_made_from_metadata_has_what_the_types_of_a_csv_have() {
    let blob = blob(&json!([
        {"type": "olm.package", "value": {"packageName": "p", "version": "1.0.0"}},
        {"type": "olm.csv.metadata", "value": {
            "DisplayName": "<P>", "unknown": 1, "keywords": [], "links": [{"URL": "u", "x": 1}, {}], "annotations": {"b": "2", "a": null},
            "installModes": [{"supported": true, "type": "OwnNamespace"}, {}],
            "crdDescriptions": {"Owned": [{"kind": "K", "specDescriptors": [{"value": null, "x-descriptors": ["x"]}], "resources": []}]},
            "apiServiceDefinitions": {"required": [{"containerPort": 0}, {"containerPort": 443, "group": "g"}], "owned": []},
        }},
    ]));
    let content = finished(blob, &schema::Package::default());
    for part in [
        r#""metadata":{"name":"p.v1","annotations":{"a":"","b":"2"}}"#,
        r#""displayName":"\u003cP\u003e","provider":{},"links":[{"url":"u"},{}],"#,
        r#""installModes":[{"type":"OwnNamespace","supported":true},{"type":"","supported":false}],"cleanup""#,
        concat!(
            r#""customresourcedefinitions":{"owned":[{"name":"","version":"","kind":"K","#,
            r#""specDescriptors":[{"path":"","x-descriptors":["x"],"value":null}]}]},"#,
        ),
        concat!(
            r#""apiservicedefinitions":{"required":[{"name":"","group":"","version":"","kind":""},"#,
            r#"{"name":"","group":"g","version":"","kind":"","containerPort":443}]},"#,
        ),
    ] {
        assert!(content.csv_json.contains(part), "{part} in {}", content.csv_json);
    }
    for absent in ["unknown", "keywords", "icon", "description\"", "labels"] {
        assert!(
            !content.csv_json.contains(absent),
            "{absent} in {}",
            content.csv_json
        );
    }
}

/// Validation decides whether a bundle is valid; the conversion rejects none.
#[test]
fn what_does_not_fit_is_passed_on_or_left_out() {
    let package = json!({"type": "olm.package", "value": {"packageName": "p", "version": "1.0.0"}});
    let label = json!({"type": "olm.label", "value": "no object"});
    let metadata = |name: &str| json!({"type": "olm.csv.metadata", "value": {"displayName": name}});
    let bundle = converted(blob(&json!([
        package,
        {"type": "olm.package", "value": {"packageName": "p", "version": "2.0.0"}},
        label,
        metadata("first"),
        metadata("second"),
        {"type": "olm.bundle.object", "value": {"data": "!"}},
    ])));
    assert_eq!(bundle.common.version, "1.0.0");
    let kinds: Vec<_> = bundle
        .common
        .properties
        .iter()
        .map(|one| one.r#type.as_str())
        .collect();
    assert_eq!(kinds, ["olm.package", "olm.package", "olm.label"]);
    assert_eq!(bundle.common.properties[2].value, r#""no object""#);
    let draft = bundle.draft.expect("draft");
    assert_eq!(draft["spec"]["displayName"], "first");
    assert!(bundle.content.object.is_empty());
}

/// Upstream keeps text that begins as an object (after blanks too), and reads everything else as YAML.
#[test]
fn objects_written_as_json_keep_their_text() {
    for (text, kept) in [
        (" \n{\"kind\": \"B\",  \"a\": 1}\n", true),
        ("{kind: B, a: 1}", false),
        ("kind: B\na: 1.0\n", false),
    ] {
        let data = olm_fbc::base64::encode(text);
        let converted = converted(blob(&json!([
            {"type": "olm.package", "value": {"packageName": "p", "version": "1.0.0"}},
            {"type": "olm.bundle.object", "value": {"data": data}},
        ])));
        let expected = if kept { text } else { r#"{"a":1,"kind":"B"}"# };
        assert_eq!(converted.content.object, [expected]);
    }
}
