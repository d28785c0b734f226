use serde_json::json;

use super::*;

#[test]
fn blobs_keep_unknown_fields_and_schemas() {
    for value in [
        json!({"schema": "olm.package", "name": "p", "defaultChannel": "c", "icon": {"base64data": "aGk=", "mediatype": "b", "x": 1},
               "description": "d", "properties": [{"type": "t", "value": 1, "y": 2}], "z": [3]}),
        json!({"schema": "olm.channel", "name": "c", "package": "p", "x": {},
               "entries": [{"name": "a", "replaces": "b", "skips": ["d"], "skipRange": "<1.0.0", "x": null}]}),
        json!({"schema": "olm.bundle", "name": "b", "package": "p", "image": "i", "x": 1,
               "properties": [{"type": "t", "value": {"k": "v"}}], "relatedImages": [{"name": "", "image": "j", "x": 2}]}),
        json!({"schema": "olm.deprecations", "package": "p", "x": 1,
               "entries": [{"reference": {"schema": "olm.bundle", "name": "b"}, "message": "m", "x": 1}]}),
        json!({"schema": "custom", "anything": [1, {"a": null}]}),
    ] {
        let blob = Blob::from_value(value.clone()).expect("blob");
        assert_eq!(blob.to_value(), value);
    }
}

#[test]
fn keys_match_without_regard_to_case() {
    let blob = Blob::from_value(
        json!({"Schema": "olm.bundle", "NAME": "b", "Package": "p", "relatedimages": [{"Image": "i"}]}),
    )
    .expect("blob");
    assert_eq!(
        (blob.schema(), blob.package(), blob.name()),
        ("olm.bundle", "p", "b")
    );
    let Blob::Bundle(bundle) = blob else {
        unreachable!()
    };
    assert_eq!(bundle.related_images[0].image, "i");
    assert!(bundle.extra.is_empty());
}

#[test]
fn broken_blobs_are_explained() {
    for (value, expected) in [
        (
            json!({"name": "x"}),
            r#"object '{"name":"x"}' is missing root schema field"#,
        ),
        (json!(null), "object '' is missing root schema field"),
        (json!([1]), "expected an object with a schema, found array"),
        (
            json!({"schema": "a", "Schema": "b"}),
            r#"duplicate keys for key "schema": [Schema schema]"#,
        ),
        (
            json!({"schema": "custom", "Ähnlich": 1, "ähnlich": 2}),
            r#"duplicate keys for key "ähnlich": [Ähnlich ähnlich]"#,
        ),
        (
            json!({"schema": "olm.channel", "name": "c", "package": null}),
            r#"expected value for key "package" to be a string, got null"#,
        ),
        (
            json!({"schema": "olm.package", "icon": {"base64data": "aGk=.", "mediatype": ""}}),
            "parse package: icon.base64data: illegal base64 data at input byte 4",
        ),
        (
            json!({"schema": "olm.package", "icon": {"base64data": "aGk", "mediatype": ""}}),
            "parse package: icon.base64data: illegal base64 data at input byte 3",
        ),
        (
            json!({"schema": "olm.bundle", "properties": [{"type": "a", "value": null}, {"type": "a"}]}),
            "parse bundle: properties[1].value: unexpected end of JSON input: value must be set",
        ),
        (
            json!({"schema": 1}),
            r#"expected value for key "schema" to be a string, got number"#,
        ),
        (
            json!({"schema": "olm.channel", "entries": [{"name": "a"}, {"skips": ["x", 1]}]}),
            "parse channel: entries[1].skips[1]: expected a string, found number",
        ),
        (
            json!({"schema": "olm.bundle", "properties": {}}),
            "parse bundle: properties: expected an array, found object",
        ),
        (
            json!({"schema": "olm.package", "icon": {"mediatype": []}}),
            "parse package: icon.mediatype: expected a string, found array",
        ),
        (
            json!({"schema": "olm.deprecations", "entries": [1]}),
            "parse deprecation: entries[0]: expected an object, found number",
        ),
    ] {
        assert_eq!(Blob::from_value(value).expect_err(expected).to_string(), expected);
    }
}

#[test]
fn icons_are_written_in_one_form() {
    for (written, read) in [
        ("aGk=", "aGk="),
        ("aG\nk=\r\n", "aGk="),
        ("aGl=", "aGk="),
        ("", ""),
    ] {
        let blob = Blob::from_value(json!({"schema": "olm.package", "icon": {"base64data": written}}));
        assert_eq!(
            blob.expect(written).to_value()["icon"]["base64data"],
            read,
            "{written:?}"
        );
    }
}

#[test]
fn only_properties_of_bundles_need_a_value() {
    for schema in ["olm.package", "olm.channel"] {
        let value = json!({"schema": schema, "properties": [{"type": "a"}]});
        assert!(Blob::from_value(value).is_ok(), "{schema}");
    }
}
