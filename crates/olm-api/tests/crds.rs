//! The definitions under `manifests` mean the same as those that clusters have, and the types have the same fields.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test program")]

#[path = "crds/field_table.rs"]
mod field_table;
mod support;

use std::collections::BTreeSet;
use std::fs;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use olm_testing::shared::shared_path;
use serde_json::{Map, Value, json};
use support::{Change, Definition, changes, definitions, read_yaml, schemas, through_type, workspace};

/// Set to rewrite the table of field names instead of comparing it, as `cargo xtask gen` does.
const UPDATE: &str = "OLM_UPDATE_GENERATED";

/// Folders of the definitions: of `operators.coreos.com`, and of OLM v1.
const FOLDERS: [&str; 2] = ["crds", "crds-v1"];

/// Definitions that the recorded cluster does not have. Upstream has ClusterObjectSet in its experimental definitions only.
const NOT_RECORDED: [&str; 1] = ["v1-clusterobjectsets"];

/// Maximum size of an annotation in bytes, which also limits the objects that a plain `kubectl apply` can handle.
const LARGEST_APPLY: usize = 262_144;

/// A deliberate difference between a definition of ours and the recorded one: file, path and decision record.
struct Difference {
    file: &'static str,
    path: &'static str,
    record: &'static str,
}

const DIFFERENCES: [Difference; 6] = [
    Difference {
        file: "clusterserviceversions",
        path: ".schema.openAPIV3Schema.properties.spec.properties.install.properties.spec.properties.deployments.items\
               .properties.spec.properties.template.properties.spec.properties.schedulingGroup",
        record: "0002-embedded-core-types",
    },
    Difference {
        file: "clusterserviceversions",
        path: ".schema.openAPIV3Schema.properties.spec.properties.install.properties.spec.properties.deployments.items\
               .properties.spec.properties.template.properties.spec.properties.volumes.items.properties.projected\
               .properties.sources.items.properties.podCertificate.properties.userAnnotations",
        record: "0002-embedded-core-types",
    },
    // Fields of upstream's experimental definition.
    Difference {
        file: "clusterextensions",
        path: ".schema.openAPIV3Schema.properties.spec.properties.config",
        record: "0045-revisions",
    },
    Difference {
        file: "clusterextensions",
        path: ".schema.openAPIV3Schema.properties.spec.properties.progressDeadlineMinutes",
        record: "0045-revisions",
    },
    Difference {
        file: "clusterextensions",
        path: ".schema.openAPIV3Schema.properties.status.properties.activeRevisions",
        record: "0045-revisions",
    },
    Difference {
        file: "subscriptions",
        path: ".schema.openAPIV3Schema.properties.spec.properties.config.properties.volumes.items.properties.projected\
               .properties.sources.items.properties.podCertificate.properties.userAnnotations",
        record: "0002-embedded-core-types",
    },
];

/// Returns the definitions of both APIs.
fn all() -> Vec<Definition> {
    FOLDERS.map(definitions).concat()
}

#[test]
fn field_table_is_fresh() {
    let file = workspace().join("crates/olm-api/src/manifest/generated/field_table.rs");
    let text = field_table::render(&definitions("crds"));
    if std::env::var_os(UPDATE).is_some() {
        fs::write(&file, &text).unwrap();
    }
    let found = fs::read_to_string(&file).unwrap();
    assert!(
        found == text,
        "{} is stale; run `cargo xtask gen`",
        file.display()
    );
}

/// Which members an example has.
#[derive(Clone, Copy, PartialEq)]
enum Members {
    /// All of the schema.
    All,
    /// Only objects, and lists of objects of ours.
    Structure,
}

/// Returns a value that fits a schema.
fn example(schema: &Value, members: Members) -> Value {
    if schema["x-kubernetes-int-or-string"] == true {
        return json!(1);
    }
    match schema["type"].as_str() {
        Some("object") => {
            let properties = schema["properties"].as_object().into_iter().flatten();
            let shown = properties.filter(|(_, schema)| {
                members == Members::All || schema["type"] == "object" || schema["type"] == "array"
            });
            let mut object: Map<String, Value> = shown
                .map(|(name, schema)| (name.clone(), example(schema, members)))
                .collect();
            if let (Some(schema), Members::All) = (schema.get("additionalProperties"), members) {
                object.insert("key".to_owned(), example(schema, members));
            }
            Value::Object(object)
        }
        // Core types have no descriptions, and decode only as a whole.
        Some("array") if members == Members::Structure && schema["items"]["description"].is_null() => {
            json!([])
        }
        Some("array") => json!([example(&schema["items"], members)]),
        Some("integer" | "number") => json!(1),
        Some("boolean") => json!(true),
        Some("string") if schema["format"] == "date-time" => json!("2026-01-01T00:00:00Z"),
        Some("string") => schema["enum"].get(0).cloned().unwrap_or_else(|| json!("text")),
        _ => json!({}),
    }
}

fn example_object((api_version, kind): &(String, String), schema: &Value, members: Members) -> Value {
    let mut object = example(schema, members);
    object["apiVersion"] = json!(api_version);
    object["kind"] = json!(kind);
    object["metadata"] = json!({"name": "a"});
    object
}

#[test]
fn types_have_the_fields_of_their_schemas() {
    for (kind, schema) in schemas() {
        let object = example_object(&kind, &schema, Members::All);
        let (encoded, debug) = through_type(&object).unwrap_or_else(|error| panic!("{kind:?}: {error}"));
        assert_eq!(changes(&object, &encoded), [], "{kind:?}");
        let unknown = debug.split("extra: {\"").nth(1);
        assert_eq!(unknown, None, "{kind:?}: a field is not typed");
        let unknown = support::unknown_fields(&encoded, &schemas());
        assert_eq!(unknown, [""; 0], "{kind:?}: a field is not in the schema");
    }
}

#[test]
fn required_fields_are_always_written() {
    for (kind, schema) in schemas() {
        let object = example_object(&kind, &schema, Members::Structure);
        let (encoded, _) = through_type(&object).unwrap_or_else(|error| panic!("{kind:?}: {error}"));
        let mut missing = Vec::new();
        find_missing(&schema, &encoded, "", &mut missing);
        assert_eq!(missing, [""; 0], "{kind:?}");
    }
}

fn find_missing(schema: &Value, value: &Value, path: &str, missing: &mut Vec<String>) {
    // Core types inside ours are kept as written.
    if schema["description"].is_null() && !path.is_empty() {
        return;
    }
    let required = schema["required"].as_array().into_iter().flatten();
    let absent = required
        .filter_map(Value::as_str)
        .filter(|name| value.get(name).is_none());
    missing.extend(absent.map(|name| format!("{path}.{name}")));
    for (name, schema) in schema["properties"].as_object().into_iter().flatten() {
        if let Some(value) = value.get(name) {
            find_missing(schema, value, &format!("{path}.{name}"), missing);
        }
    }
    for item in value.as_array().into_iter().flatten() {
        find_missing(&schema["items"], item, path, missing);
    }
}

#[test]
fn crd_manifests_are_valid_definitions_that_apply_takes() {
    for definition in all() {
        let typed: CustomResourceDefinition = serde_json::from_value(definition.manifest.clone()).unwrap();
        let again = serde_json::to_value(&typed).unwrap();
        let lost: Vec<_> = changes(&definition.manifest, &again)
            .into_iter()
            .filter(|change| !is_same_number(change))
            .collect();
        assert_eq!(
            lost,
            [],
            "{}: the API server would not take it as it is",
            definition.name
        );
        let size = definition.manifest.to_string().len();
        assert!(size < LARGEST_APPLY, "{}: {size} bytes", definition.name);
        let stored: Vec<_> = typed
            .spec
            .versions
            .iter()
            .filter(|version| version.storage)
            .collect();
        assert_eq!(stored.len(), 1, "{}", definition.name);
        assert!(
            typed.spec.versions.iter().all(|version| version.served),
            "{}",
            definition.name
        );
    }
}

/// Deleting a definition would delete every Subscription and ClusterServiceVersion.
#[test]
fn definitions_are_left_by_tools_that_take_away_what_they_brought() {
    for definition in all() {
        assert_eq!(
            definition.manifest["metadata"]["annotations"],
            serde_json::json!({
                "helm.sh/resource-policy": "keep",
                "argocd.argoproj.io/sync-options": "Prune=false,Delete=false",
            }),
            "{}",
            definition.name
        );
    }
}

/// Bounds are floating point numbers in the typed form: `0` reads as `0.0`.
fn is_same_number(change: &Change) -> bool {
    let number = |text: &Option<String>| text.as_ref().and_then(|text| text.parse::<f64>().ok());
    number(&change.before).is_some() && number(&change.before) == number(&change.after)
}

#[test]
fn crds_mean_the_same_as_those_in_clusters() {
    let Some(golden) = shared_path("golden/crds") else {
        return;
    };
    let mut found = BTreeSet::new();
    let classic = definitions("crds").into_iter().map(|it| (it.name.clone(), it));
    let v1 = definitions("crds-v1").into_iter();
    let v1 = v1.map(|it| (format!("v1-{}", it.name), it));
    for (file, Definition { name, manifest }) in classic.chain(v1) {
        if NOT_RECORDED.contains(&file.as_str()) {
            continue;
        }
        let theirs = read_yaml(&golden.join(format!("{file}.yaml"))).remove(0);
        let (ours, theirs) = (comparable(&manifest), comparable(&theirs));
        for (ours, theirs) in ours.iter().zip(&theirs) {
            let changes = changes(theirs, ours);
            found.extend(changes.into_iter().map(|change| (name.clone(), change.path)));
        }
        assert_eq!(ours.len(), theirs.len(), "{name}: number of versions");
    }
    let known = DIFFERENCES
        .iter()
        .map(|known| (known.file.to_owned(), known.path.to_owned()))
        .collect();
    assert_eq!(
        found, known,
        "differences that no decision record explains, or that are gone"
    );
}

#[test]
fn every_difference_has_its_decision_record() {
    for Difference { record, path, .. } in DIFFERENCES {
        let file = workspace().join(format!("docs/decisions/{record}.md"));
        let text = fs::read_to_string(&file).unwrap_or_default();
        let field = path.rsplit('.').next().unwrap();
        assert!(
            text.contains(field),
            "{} does not speak of `{field}`",
            file.display()
        );
    }
}

/// Returns the parts that have to agree: one value per version, with names and scope, without descriptions. Lists without a
/// meaningful order are sorted.
fn comparable(manifest: &Value) -> Vec<Value> {
    let mut spec = manifest["spec"].clone();
    let versions = spec["versions"].take();
    let parts = versions.as_array().unwrap().iter().map(|version| {
        let mut part = version.clone();
        part["of"] = spec.clone();
        strip(&mut part);
        part
    });
    parts.collect()
}

fn strip(value: &mut Value) {
    match value {
        Value::Object(members) => {
            // A property may be called `description`; then it is a schema, not text.
            members.retain(|name, member| name != "description" || !member.is_string());
            if let Some(Value::Array(required)) = members.get_mut("required") {
                required.sort_by_key(ToString::to_string);
            }
            members.values_mut().for_each(strip);
        }
        Value::Array(items) => items.iter_mut().for_each(strip),
        _ => {}
    }
}

#[test]
fn fields_of_ours_are_described_and_fields_of_core_types_are_not() {
    for Definition { name, manifest } in all() {
        for version in manifest["spec"]["versions"].as_array().unwrap() {
            let schema = &version["schema"]["openAPIV3Schema"];
            assert!(schema["description"].is_string(), "{name}: kind");
            for part in ["spec", "status"] {
                let fields = schema["properties"][part]["properties"].as_object();
                for (field, schema) in fields.into_iter().flatten() {
                    assert!(
                        schema["description"].is_string(),
                        "{name}: {part}.{field} is not described"
                    );
                }
            }
        }
    }
    let csv = definitions("crds")
        .into_iter()
        .find(|definition| definition.name == "clusterserviceversions")
        .unwrap();
    let schema =
        &csv.manifest["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"];
    let deployment =
        &schema["install"]["properties"]["spec"]["properties"]["deployments"]["items"]["properties"]["spec"];
    assert!(deployment["description"].is_string());
    let inside = deployment["properties"].to_string();
    assert!(!inside.contains("\"description\""));
}
