use serde_json::{Value, json};

use super::*;

/// Returns a definition whose version `v1` has a property `x` with this schema.
fn crd(x: &Value) -> Value {
    crd_of(&[("v1", json!({"type": "object", "properties": {"x": x}}))])
}

fn crd_of(versions: &[(&str, Value)]) -> Value {
    let version = |(name, schema): &(&str, Value)| json!({"name": name, "served": true, "storage": false, "schema": {"openAPIV3Schema": schema}});
    let versions: Vec<Value> = versions.iter().map(version).collect();
    json!({
        "kind": "CustomResourceDefinition", "metadata": {"name": "demos.example.com"},
        "spec": {"scope": "Namespaced", "versions": versions},
    })
}

/// One row per rule: the schema of a property before and after, and the line after `v1: ^.x: `.
#[test]
fn each_rule_names_the_property_and_the_change() {
    let rows = [
        (
            json!({}),
            json!({"default": 1}),
            r#"default: default added when there was none previously : "1""#,
        ),
        (
            json!({"default": "a"}),
            json!({}),
            r#"default: default value removed : "\"a\"""#,
        ),
        (
            json!({"default": 1}),
            json!({"default": 2}),
            r#"default: default value changed : "1" -> "2""#,
        ),
        (
            json!({}),
            json!({"enum": ["b", "a"]}),
            r#"enum: enum constraint added when there was none previously : ["a" "b"]"#,
        ),
        (
            json!({"enum": ["a", "b", "c"]}),
            json!({"enum": ["b", "d"]}),
            r#"enum: allowed enum values removed : ["a" "c"]"#,
        ),
        (
            json!({"enum": ["a"]}),
            json!({}),
            r#"enum: allowed enum values removed : ["a"]"#,
        ),
        (
            json!({}),
            json!({"maximum": 2.5}),
            "maximum: maximum constraint added when there was none previously : 2.5",
        ),
        (
            json!({"maximum": 3}),
            json!({"maximum": 2}),
            "maximum: maximum decreased : 3 -> 2",
        ),
        (
            json!({"maxItems": 3}),
            json!({"maxItems": 2}),
            "maxItems: maximum decreased : 3 -> 2",
        ),
        (
            json!({"maxLength": 3}),
            json!({"maxLength": 2}),
            "maxLength: maximum decreased : 3 -> 2",
        ),
        (
            json!({"maxProperties": 3}),
            json!({"maxProperties": 2}),
            "maxProperties: maximum decreased : 3 -> 2",
        ),
        (
            json!({}),
            json!({"minimum": 0}),
            "minimum: minimum constraint added when there was none previously : 0",
        ),
        (
            json!({"minimum": 2}),
            json!({"minimum": 3}),
            "minimum: minimum increased : 2 -> 3",
        ),
        (
            json!({"minItems": 2}),
            json!({"minItems": 3}),
            "minItems: minimum increased : 2 -> 3",
        ),
        (
            json!({"minLength": 2}),
            json!({"minLength": 3}),
            "minLength: minimum increased : 2 -> 3",
        ),
        (
            json!({"minProperties": 2}),
            json!({"minProperties": 3}),
            "minProperties: minimum increased : 2 -> 3",
        ),
        (
            json!({"required": ["a"]}),
            json!({"required": ["b", "a"]}),
            "required: new required fields: [b]",
        ),
        (
            json!({"type": "string"}),
            json!({"type": "integer"}),
            r#"type: type changed : "string" -> "integer""#,
        ),
        (
            json!({}),
            json!({"pattern": "^a$"}),
            r#"pattern: pattern added : "" -> "^a$""#,
        ),
        (
            json!({"pattern": "a"}),
            json!({}),
            r#"pattern: pattern removed : "a" -> """#,
        ),
        (
            json!({"pattern": "a"}),
            json!({"pattern": "b"}),
            r#"pattern: pattern changed : "a" -> "b""#,
        ),
        (
            json!({}),
            json!({"nullable": true}),
            "nullable: nullable added : false -> true",
        ),
        (
            json!({"nullable": true}),
            json!({}),
            "nullable: nullable removed : true -> false",
        ),
        (
            json!({"format": "int32"}),
            json!({"format": "int64"}),
            r#"unhandled: unhandled changes found (Format "int32" -> "int64")"#,
        ),
        (
            json!({"title": "a", "x-kubernetes-list-type": "atomic"}),
            json!({}),
            r#"unhandled: unhandled changes found (Title "a" -> ""; XListType &"atomic" -> nil)"#,
        ),
        (
            json!({}),
            json!({"x-kubernetes-preserve-unknown-fields": true}),
            "unhandled: unhandled changes found (XPreserveUnknownFields nil -> &true)",
        ),
        (
            json!({"x-kubernetes-validations": [{"rule": "true"}]}),
            json!({"x-kubernetes-validations": [{"rule": "false"}]}),
            "unhandled: unhandled changes found (XValidations <complex value> -> <complex value> (changed))",
        ),
    ];
    for (old, new, line) in rows {
        assert_eq!(
            violations(&crd(&old), &crd(&new)),
            [format!("v1: ^.x: {line}")],
            "{old} {new}"
        );
    }
}

#[test]
fn harmless_changes_are_accepted() {
    let rows = [
        (json!({}), json!({"description": "text"})),
        (json!({}), json!({"nullable": false, "enum": [], "format": ""})),
        (json!({"enum": ["a"]}), json!({"enum": ["a", "b"]})),
        (
            json!({"maximum": 2, "minimum": 2}),
            json!({"maximum": 3, "minimum": 1}),
        ),
        (json!({"maxLength": 2, "minLength": 2}), json!({})),
        (json!({"required": ["a"]}), json!({})),
        (
            json!({}),
            json!({"properties": {"new": {"type": "string", "maxLength": 3}}}),
        ),
        (
            json!({"additionalProperties": {}}),
            json!({"additionalProperties": {"description": "text"}}),
        ),
        (json!({}), json!({"unknown": 1})),
    ];
    for (old, new) in rows {
        assert_eq!(
            violations(&crd(&old), &crd(&new)),
            Vec::<String>::new(),
            "{old} {new}"
        );
    }
}

#[test]
fn one_of_is_compared_as_a_set() {
    let (a, b) = (json!({"minimum": 1}), json!({"minimum": 2}));
    let rows = [
        (
            json!({}),
            json!({"oneOf": [a]}),
            "oneOf constraint added when there was none previously",
        ),
        (
            json!({"oneOf": [a]}),
            json!({"oneOf": [a, b]}),
            "allowed oneOf schemas added",
        ),
        (
            json!({"oneOf": [a, b]}),
            json!({"oneOf": [a]}),
            "allowed oneOf schemas removed",
        ),
    ];
    for (old, new, text) in rows {
        let lines = violations(&crd(&old), &crd(&new));
        assert!(lines.contains(&format!("v1: ^.x: oneOf: {text}")), "{lines:?}");
    }
    let (old, new) = (json!({"oneOf": [a, b]}), json!({"oneOf": [a, b]}));
    assert_eq!(violations(&crd(&old), &crd(&new)), Vec::<String>::new());
}

#[test]
fn a_removed_field_is_named_with_its_version() {
    let old = crd(
        &json!({"type": "array", "items": {"type": "object", "properties": {"a.b": {"type": "string"}}}}),
    );
    let new = crd(&json!({"type": "array", "items": {"type": "object"}}));
    assert_eq!(
        violations(&old, &new),
        [
            "existingFieldRemoval: removed field : v1.^.x.items.a.b",
            r#"v1: ^.x.items.a.b: type: type changed : "string" -> """#,
        ]
    );
}

#[test]
fn scope_and_stored_versions_are_checked_for_the_whole_definition() {
    let schema = json!({"type": "object"});
    let mut old = crd_of(&[("v1alpha1", schema.clone()), ("v1", schema.clone())]);
    old["status"]["storedVersions"] = json!(["v1alpha1", "v1"]);
    let mut new = crd_of(&[("v1", schema)]);
    new["spec"]["scope"] = json!("Cluster");
    assert_eq!(
        violations(&old, &new),
        [
            r#"scope: scope changed : "Namespaced" -> "Cluster""#,
            "storedVersionRemoval: stored versions removed : [v1alpha1]",
        ]
    );
}

#[test]
fn served_versions_are_compared_unless_a_webhook_converts() {
    let (one, other) = (json!({"type": "string"}), json!({"type": "boolean"}));
    let schema = |x: &Value| json!({"type": "object", "properties": {"x": x}});
    let old = crd_of(&[("v1", schema(&one))]);
    let mut new = crd_of(&[("v2", schema(&other)), ("v1", schema(&one))]);
    let line = r#"v1 -> v2: ^.x: type: type changed : "string" -> "boolean""#;
    assert_eq!(violations(&old, &new), [line]);
    assert_eq!(violations(&new, &new), Vec::<String>::new(), "known before");
    new["spec"]["conversion"] = json!({"strategy": "Webhook"});
    assert_eq!(violations(&old, &new), Vec::<String>::new());
}

#[test]
fn every_definition_is_reported() {
    let (old, new) = (crd(&json!({"type": "string"})), crd(&json!({"type": "integer"})));
    let upgrades = [&old, &old].map(|old| CrdUpgrade {
        old: old.clone(),
        new: &new,
    });
    let line = r#"validating upgrade for CRD "demos.example.com": v1: ^.x: type: type changed : "string" -> "integer""#;
    assert_eq!(check_upgrades(&upgrades), Err(format!("{line}\n{line}")));
    assert_eq!(check_upgrades(&[]), Ok(()));
    assert_eq!(
        lookup_error("a", "no answer"),
        r#"getting existing resource for CRD "a": no answer"#
    );
}
