//! Plans as JSON: their content, and that it matches the schema in the reference.

use olm_resolver::plan::explain;
use serde_json::Value;

use super::failures::{CONFLICT, chain};
use super::*;

#[test]
fn as_json_the_documented_keys_stay_and_the_rest_is_there() {
    let objects = installed("1.1.0").replace(
        "- {name: s",
        "- {name: bad, package: etdc, channel: stable}\n- {name: s",
    );
    let plan = plan(&question(&objects, &["s"])).unwrap();
    let json = serde_json::to_value(&plan).unwrap();
    let install = serde_json::json!([
        {"name": "disk.v1.0.0", "package": "disk", "channel": "stable", "catalog": "ns/cat", "version": "1.0.0",
         "replaces": "", "forSubscription": "disk-stable-cat-ns"},
        {"name": "etcd.v1.2.0", "package": "etcd", "channel": "stable", "catalog": "ns/cat", "version": "1.2.0",
         "replaces": "etcd.v1.1.0", "forSubscription": "s"},
    ]);
    assert_eq!(json["install"], install);
    assert_eq!(json["namespace"], "ns");
    assert_eq!(json["steps"][0]["step"], 1);
    assert_eq!(json["steps"][0]["approvals"], serde_json::json!(["s"]));
    assert_eq!(
        json["steps"][0]["install"][0]["requiredBy"],
        serde_json::json!(["etcd.v1.2.0"])
    );
    assert_eq!(
        json["unsatisfiable"][0]["subscriptions"],
        serde_json::json!(["bad"])
    );
    assert_eq!(json["fixes"][0]["harm"], "none");
    assert_eq!(
        json["fixes"][0]["change"],
        serde_json::json!({"kind": "package", "subscription": "bad", "from": "etdc", "to": "etcd",
            "text": "set spec.name of subscription bad to etcd (now etdc)"})
    );
    assert!(
        !json.to_string().contains("to resolve:"),
        "fixes are no part of the tree"
    );
    for list in ["heldBack", "notes", "excluded"] {
        assert_eq!(json[list], serde_json::json!([]), "{list}");
    }
}

#[test]
fn as_json_the_way_to_a_version_has_its_changes() {
    let json = serde_json::to_value(way(&installed("1.0.0"), "2.0.0")).unwrap();
    assert_eq!(json["steps"][0]["change"], serde_json::json!([]));
    assert_eq!(
        json["steps"][1]["change"],
        serde_json::json!([{"subscription": "s", "recreate": false, "channel": "beta",
            "text": "set spec.channel of subscription s to beta (now stable)"}])
    );
    let json = serde_json::to_value(way(FRESH, "1.1.0")).unwrap();
    assert_eq!(json["steps"][0]["change"][0]["startingCSV"], "etcd.v1.1.0");
    assert_eq!(json["notes"].as_array().unwrap().len(), 1);
}

/// The schemas of JSON output are in `docs/reference`; `INSTA_UPDATE=always` rewrites them.
#[test]
fn the_schemas_in_the_reference_are_those_of_the_code() {
    let schemas = [
        ("plan", schemars::schema_for!(olm_resolver::plan::Document)),
        (
            "explain",
            schemars::schema_for!(olm_resolver::plan::ExplainedDocument),
        ),
    ];
    for (name, schema) in schemas {
        let reference = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference");
        let file = reference.join(format!("{name}.schema.json"));
        let current = format!("{}\n", serde_json::to_string_pretty(&schema).unwrap());
        if std::env::var("INSTA_UPDATE").as_deref() == Ok("always") {
            std::fs::write(&file, &current).unwrap();
        }
        assert_eq!(
            std::fs::read_to_string(&file).unwrap_or_default(),
            current,
            "{name}"
        );
    }
}

/// Collects violations of a schema. Supports the parts of JSON Schema that ours uses, and requires every
/// field of an object to be described.
fn violations(root: &Value, schema: &Value, value: &Value, path: &str, found: &mut Vec<String>) {
    if let Some(reference) = schema["$ref"].as_str() {
        let target = root.pointer(reference.trim_start_matches('#')).unwrap();
        return violations(root, target, value, path, found);
    }
    if let Some(choices) = schema["oneOf"].as_array() {
        if !choices.iter().any(|choice| choice["const"] == *value) {
            found.push(format!("{path}: {value} is none of the choices"));
        }
        return;
    }
    let is = |kind: &str| match kind {
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_u64(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        "null" => value.is_null(),
        other => panic!("type {other} is not known here"),
    };
    let fits = match &schema["type"] {
        Value::String(kind) => is(kind),
        Value::Array(kinds) => kinds.iter().any(|kind| is(kind.as_str().unwrap())),
        other => panic!("{path}: {other} is no type"),
    };
    if !fits {
        found.push(format!("{path}: {value} is not of type {}", schema["type"]));
    }
    for (index, item) in value.as_array().into_iter().flatten().enumerate() {
        violations(root, &schema["items"], item, &format!("{path}[{index}]"), found);
    }
    for (key, field) in value.as_object().into_iter().flatten() {
        match schema["properties"].get(key) {
            Some(schema) => violations(root, schema, field, &format!("{path}.{key}"), found),
            None => found.push(format!("{path}.{key} is not described")),
        }
    }
    if value.is_object() {
        let required = schema["required"].as_array().into_iter().flatten();
        let missing = required.filter(|key| value.get(key.as_str().unwrap()).is_none());
        found.extend(missing.map(|key| format!("{path}.{key} is missing")));
    }
}

#[test]
fn what_is_printed_as_json_is_what_the_schema_says() {
    let schema = schemars::schema_for!(olm_resolver::plan::Document).to_value();
    let failing = installed("1.1.0").replace(
        "- {name: s",
        "- {name: bad, package: etdc, channel: stable}\n- {name: old, package: etcd, channel: old}\n- {name: s",
    );
    let plans = [
        plan(&question(&failing, &["s"])).unwrap(),
        plan(&question(&installed("0.9.0"), &[])).unwrap(),
        plan(&scenario(&chain(20))).unwrap(),
        plan(&scenario(&CONFLICT.replace("NEW", "a"))).unwrap(),
        way(&installed("1.0.0"), "2.0.0"),
        way(FRESH, "1.1.0"),
    ];
    for plan in plans {
        let mut found = Vec::new();
        violations(
            &schema,
            &schema,
            &serde_json::to_value(&plan).unwrap(),
            "plan",
            &mut found,
        );
        assert_eq!(found, [""; 0], "{plan}");
    }
    let mut found = Vec::new();
    let wrong = serde_json::json!({"namespace": 1, "install": [{}], "more": true});
    violations(&schema, &schema, &wrong, "plan", &mut found);
    assert!(found.len() > 10, "what is wrong is noticed: {found:?}");
}

#[test]
fn explanations_as_json_are_what_their_schema_says() {
    let schema = schemars::schema_for!(olm_resolver::plan::ExplainedDocument).to_value();
    let failing = installed("1.0.0").replace(
        "- {name: s",
        "- {name: bad, package: etdc, channel: stable}\n- {name: old, package: etcd, channel: old}\n- {name: s",
    );
    for objects in [failing, installed("0.9.0"), installed("1.0.0"), FRESH.to_owned()] {
        let explained = explain(&question(&objects, &[]).problem, None).unwrap();
        let mut found = Vec::new();
        let json = serde_json::to_value(&explained).unwrap();
        violations(&schema, &schema, &json, "explained", &mut found);
        assert_eq!(found, [""; 0], "{explained}");
    }
}

#[test]
fn an_explanation_as_json_has_reasons_fixes_and_standings() {
    let objects = installed("1.0.0").replace(
        "- {name: s",
        "- {name: bad, package: etdc, channel: stable}\n- {name: s",
    );
    let problem = question(&objects, &[]).problem;
    let json = serde_json::to_value(explain(&problem, None).unwrap()).unwrap();
    assert_eq!(
        json["unsatisfiable"][0]["subscriptions"],
        serde_json::json!(["bad"])
    );
    assert_eq!(json["fixes"][0]["change"]["to"], "etcd");
    assert_eq!(
        json["subscriptions"],
        serde_json::json!([{"subscription": "s", "installed": "etcd.v1.0.0", "next": "etcd.v1.1.0",
            "state": "will be upgraded from etcd.v1.0.0 to etcd.v1.1.0"}])
    );
    let json = serde_json::to_value(explain(&problem, Some("s")).unwrap()).unwrap();
    assert_eq!(json["unsatisfiable"], serde_json::json!([]));
}
