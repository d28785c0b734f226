//! Objects that fit a schema, and the faults reported for those that do not.

use serde_json::json;

use super::*;

#[allow(clippy::needless_pass_by_value)] // Written out in place by every row.
fn told(spec: Value, object: Value) -> String {
    let schema = StructuralSchema::new(json!({"type": "object", "properties": {"spec": spec}}));
    schema.misfits(json!({"spec": object})).join("; ")
}

/// Schema, object, and the reported faults, in each row.
fn assert_told<const ROWS: usize>(rows: [(Value, Value, &str); ROWS]) {
    for (schema, object, expected) in rows {
        assert_eq!(
            told(schema.clone(), object.clone()),
            expected,
            "{schema} {object}"
        );
    }
}

#[test]
fn patterns_without_end_are_not_all_compiled() {
    let patterns: Map<String, Value> = (0..20_000)
        .map(|number| (number.to_string(), json!({"pattern": format!("a{number}")})))
        .collect();
    let schema = StructuralSchema::new(json!({"properties": patterns}));
    assert_eq!(schema.patterns.len(), MOST_PATTERNS);
}

#[test]
fn a_value_that_does_not_fit_is_reported_by_its_field() {
    let of = |field: Value| json!({"type": "object", "properties": {"a": field}});
    let rows = [
        (of(json!({"type": "integer"})), json!({"a": 1}), ""),
        (of(json!({"type": "integer"})), json!({"a": 1.0}), ""),
        (
            of(json!({"type": "integer"})),
            json!({"a": 1.5}),
            "spec.a: must be of type integer, not number",
        ),
        (
            of(json!({"type": "integer"})),
            json!({"a": "s3cret"}),
            "spec.a: must be of type integer, not string",
        ),
        (of(json!({"type": "boolean"})), json!({"a": null}), ""),
        (
            of(json!({"type": "boolean", "nullable": true})),
            json!({"a": null}),
            "",
        ),
        (
            of(json!({"type": "string", "enum": ["x", "y"]})),
            json!({"a": "x"}),
            "",
        ),
        (
            of(json!({"type": "string", "enum": ["x"]})),
            json!({"a": "s3cret"}),
            "spec.a: must be one of the values in enum",
        ),
        (
            of(json!({"type": "string", "minLength": 2})),
            json!({"a": "ü"}),
            "spec.a: must have at least 2 characters",
        ),
        (
            of(json!({"type": "string", "maxLength": 1})),
            json!({"a": "ü"}),
            "",
        ),
        (
            of(json!({"type": "string", "maxLength": 1})),
            json!({"a": "üü"}),
            "spec.a: must have at most 1 characters",
        ),
        (
            of(json!({"type": "string", "pattern": "^[a-z]+$"})),
            json!({"a": "s3cret"}),
            "spec.a: must match '^[a-z]+$'",
        ),
        (
            of(json!({"type": "string", "pattern": "b"})),
            json!({"a": "abc"}),
            "",
        ),
        (
            of(json!({"type": "string", "pattern": "(?=x)"})),
            json!({"a": "y"}),
            "",
        ),
        (
            of(json!({"type": "integer", "minimum": 3})),
            json!({"a": 2}),
            "spec.a: must be greater than or equal to 3",
        ),
        (of(json!({"type": "integer", "minimum": 3})), json!({"a": 3}), ""),
        (
            of(json!({"type": "integer", "minimum": 3, "exclusiveMinimum": true})),
            json!({"a": 3}),
            "spec.a: must be greater than 3",
        ),
        (
            of(json!({"type": "number", "maximum": 3})),
            json!({"a": 3.5}),
            "spec.a: must be less than or equal to 3",
        ),
        (
            of(json!({"type": "number", "maximum": 3, "exclusiveMaximum": true})),
            json!({"a": 3}),
            "spec.a: must be less than 3",
        ),
        (
            of(json!({"type": "number", "multipleOf": 0.1})),
            json!({"a": 0.3}),
            "",
        ),
        (
            of(json!({"type": "number", "multipleOf": 0.1})),
            json!({"a": 0.35}),
            "spec.a: must be a multiple of 0.1",
        ),
        (
            of(json!({"x-kubernetes-int-or-string": true})),
            json!({"a": "50%"}),
            "",
        ),
        (
            of(json!({"x-kubernetes-int-or-string": true})),
            json!({"a": 5}),
            "",
        ),
        (
            of(json!({"x-kubernetes-int-or-string": true})),
            json!({"a": []}),
            "spec.a: must be an integer or a string, not array",
        ),
        (
            of(json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true})),
            json!({"a": {"any": [1]}}),
            "",
        ),
        (
            of(json!({"type": "string", "format": "date-time"})),
            json!({"a": "no date"}),
            "",
        ),
    ];
    assert_told(rows);
}

#[test]
fn lists_maps_and_forms_are_looked_into() {
    let limits = json!({"type": "object", "additionalProperties": {"type": "string"}});
    let list = json!({"type": "array", "maxItems": 2, "items": {"type": "object", "required": ["key"], "properties": {"key": {"type": "string"}}}});
    let form = |name: &str| json!({"required": [name]});
    let rows = [
        (limits.clone(), json!({"s3cret": "x"}), ""),
        (
            limits,
            json!({"s3cret": 1}),
            "spec[*]: must be of type string, not integer",
        ),
        (
            list.clone(),
            json!([{"key": "x"}, {}]),
            "spec[1].key: is required",
        ),
        (
            list,
            json!([{"key": "x"}, {"key": "y"}, {"key": "z"}]),
            "spec: must have at most 2 items",
        ),
        (
            json!({"type": "object", "minProperties": 1}),
            json!({}),
            "spec: must have at least 1 properties",
        ),
        (
            json!({"type": "object", "anyOf": [form("a"), form("b")]}),
            json!({"c": 1}),
            "spec: must match a schema in anyOf",
        ),
        (
            json!({"type": "object", "anyOf": [form("a"), form("b")]}),
            json!({"b": 1}),
            "",
        ),
        (
            json!({"type": "object", "oneOf": [form("a"), form("b")]}),
            json!({"a": 1, "b": 1}),
            "spec: must match exactly one schema in oneOf",
        ),
        (
            json!({"type": "object", "allOf": [form("a"), form("b")]}),
            json!({"a": 1}),
            "spec.b: is required",
        ),
        (
            json!({"type": "object", "not": form("a")}),
            json!({"a": 1}),
            "spec: must not match the schema in not",
        ),
    ];
    assert_told(rows);
}

/// The API server fills defaults in and drops what it does not know before it looks.
#[test]
fn defaults_count_and_unknown_fields_do_not() {
    let schema = json!({"type": "object", "required": ["a", "b"], "properties": {
        "a": {"type": "integer", "default": 1}, "b": {"type": "object", "default": {}, "required": ["c"], "properties": {"c": {"type": "string", "default": "x"}}}}});
    assert_eq!(told(schema.clone(), json!({"unknown": true})), "");
    assert_eq!(told(schema.clone(), json!({"a": null})), "");
    assert_eq!(
        told(schema, json!({"a": "x"})),
        "spec.a: must be of type integer, not string"
    );
}

/// As the API server has it: it reads them from its storage so, too.
#[test]
fn null_of_a_field_that_may_not_be_null_is_no_field() {
    let of = |field: &Value| json!({"type": "object", "properties": {"a": field}, "additionalProperties": {"type": "string"}});
    let text = json!({"type": "string"});
    let mut required = of(&text);
    required["required"] = json!(["a"]);
    let list = json!({"type": "array", "items": text});
    assert_told([
        (of(&text), json!({"a": null}), ""),
        (of(&text), json!({"other": null}), ""),
        (required, json!({"a": null}), "spec.a: is required"),
        (
            of(&list),
            json!({"a": [null]}),
            "spec.a[0]: must be of type string, not null",
        ),
    ]);
}

/// A schema and an object that fit into a database may ask for more work than there is time and memory.
#[test]
fn a_schema_that_asks_for_work_without_end_is_refused() {
    let too_much = "the object: is too complex to be validated";
    let list = |item: Value| json!({"type": "array", "items": item});
    let many = |count: usize, each: &Value| Value::Array(vec![each.clone(); count]);
    // Nothing looks into it, but it is there.
    let default = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true, "default": {"a": vec![0; 1000]}});
    let default = json!({"type": "object", "properties": {"a": default}});
    assert_eq!(told(list(default.clone()), many(10, &json!({}))), "");
    assert_eq!(told(list(default), many(2000, &json!({}))), too_much);
    let mut forms = vec![json!({"minProperties": 1}); 1000];
    forms.push(json!({}));
    let forms = json!({"type": "object", "anyOf": forms});
    assert_eq!(told(list(forms), many(10_000, &json!({}))), too_much);
    let fields: Map<String, Value> = (0..10_000)
        .map(|number| (number.to_string(), json!({"type": "string"})))
        .collect();
    let wide = json!({"type": "object", "properties": fields});
    assert_eq!(told(list(wide), many(10_000, &json!({}))), too_much);
    let values: Vec<String> = (0..10_000).map(|number| number.to_string()).collect();
    let one_of = json!({"type": "string", "enum": values});
    assert_eq!(told(list(one_of.clone()), many(10, &json!("9999"))), "");
    assert_eq!(told(list(one_of), many(10_000, &json!("9999"))), too_much);
}

#[test]
fn not_every_fault_of_an_object_is_reported() {
    let list = json!({"type": "array", "items": {"type": "string"}});
    assert_eq!(told(list, json!(vec![1; 1000])).split("; ").count(), MAX_REPORTED);
}
