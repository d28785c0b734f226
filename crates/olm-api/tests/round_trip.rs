//! Reading and writing an object loses nothing, and every field that clusters have today is typed.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test program")]

mod support;

use std::collections::{BTreeMap, BTreeSet};

use olm_api::v1alpha1::ClusterServiceVersion;
use olm_testing::shared::{corpus_dir, shared_path};
use serde_json::Value;
use support::{Change, changes, corpus_csvs, golden_objects, round_trip, schemas, unknown_fields};

/// A deliberate change.
struct Meant {
    name: &'static str,
    why: &'static str,
    is_it: fn(&Change) -> bool,
}

const MEANT: [Meant; 5] = [
    Meant {
        name: "null is absent",
        why: "the API server prunes a null of a field that is not nullable; both mean: not there",
        is_it: |change| change.before.as_deref() == Some("null") && change.after.is_none(),
    },
    Meant {
        name: "null label or annotation is empty text",
        why: "metadata maps text to text; clusters have always read a null there as empty",
        is_it: |change| {
            let in_metadata = [".metadata.annotations.", ".metadata.labels."];
            in_metadata.iter().any(|prefix| change.path.starts_with(prefix))
                && change.before.as_deref() == Some("null")
                && change.after.as_deref() == Some(r#""""#)
        },
    },
    Meant {
        name: "metadata has the fields of Kubernetes",
        why: "one author put annotations beside `annotations`; the API server drops them as well",
        is_it: |change| {
            [
                ".metadata.containerImage",
                ".metadata.createdAt",
                ".metadata.repository",
            ]
            .contains(&change.path.as_str())
                && change.after.is_none()
        },
    },
    Meant {
        name: "version is that of the type",
        why: "one author forgot the group; a type knows its own version and cannot carry another",
        is_it: |change| change.path == ".apiVersion" && change.before.as_deref() == Some(r#""v1alpha1""#),
    },
    Meant {
        name: "required field is written",
        why: "the API server refuses an object without it, so its empty value is written, as clusters have always done",
        is_it: |change| {
            change.before.is_none()
                && REQUIRED.iter().any(|(path, empty)| {
                    change.path.ends_with(path) && change.after.as_deref() == Some(*empty)
                })
        },
    },
];

/// Required fields that real objects omit, and the value written for them.
const REQUIRED: [(&str, &str); 4] = [
    (".spec", "{}"),
    (".resources[].name", r#""""#),
    (".resources[].kind", r#""""#),
    (".relatedImages[].image", r#""""#),
];

/// Checks all objects and returns the number of occurrences of each deliberate change.
fn check(objects: &[(String, Value)]) -> BTreeMap<&'static str, usize> {
    let mut counts = BTreeMap::new();
    let mut lost = Vec::new();
    for (file, object) in objects {
        let written = round_trip(object).unwrap_or_else(|error| panic!("{file}: {error}"));
        for change in changes(object, &written) {
            match MEANT.iter().find(|meant| (meant.is_it)(&change)) {
                Some(meant) => *counts.entry(meant.name).or_default() += 1,
                None => lost.push(format!("{file}: {change:?}")),
            }
        }
        let twice = round_trip(&written).unwrap_or_else(|error| panic!("{file}: {error}"));
        assert_eq!(twice, written, "{file}: a second round trip changes something");
    }
    assert!(
        lost.is_empty(),
        "{} changes, first ones: {:#?}",
        lost.len(),
        &lost[..lost.len().min(20)]
    );
    counts
}

#[test]
fn recorded_objects_survive() {
    let Some(golden) = shared_path("golden") else {
        return;
    };
    let objects = golden_objects(&golden);
    assert!(objects.len() > 50, "only {} objects found", objects.len());
    // OLMConfigs and Operators may come without spec; nothing else changes.
    let counts = check(&objects);
    assert!(
        counts.keys().all(|name| *name == "required field is written"),
        "{counts:?}"
    );
}

#[test]
fn every_field_of_recorded_objects_is_typed() {
    let Some(golden) = shared_path("golden") else {
        return;
    };
    let schemas = schemas();
    let unknown: Vec<_> = golden_objects(&golden)
        .iter()
        .flat_map(|(file, object)| {
            unknown_fields(&round_trip(object).unwrap(), &schemas)
                .into_iter()
                .map(move |path| format!("{file}: {path}"))
        })
        .collect();
    assert_eq!(unknown, Vec::<String>::new());
}

#[test]
fn all_kinds_are_among_the_recorded_objects() {
    let Some(golden) = shared_path("golden") else {
        return;
    };
    let kinds: BTreeSet<_> = golden_objects(&golden)
        .into_iter()
        .filter_map(|(_, object)| Some(object["kind"].as_str()?.to_owned()))
        .collect();
    let expected = [
        "CatalogSource",
        "ClusterServiceVersion",
        "InstallPlan",
        "OLMConfig",
        "Operator",
        "OperatorCondition",
        "OperatorGroup",
        "PackageManifest",
        "Subscription",
    ];
    assert_eq!(kinds, expected.map(str::to_owned).into());
}

#[test]
fn csvs_of_the_corpus_survive() {
    let Some(corpus) = corpus_dir() else { return };
    let csvs = corpus_csvs(&corpus.join("bundles"));
    assert_eq!(csvs.len(), 897);
    let counts = check(csvs);
    for Meant { name, why, .. } in MEANT {
        assert!(counts.contains_key(name), "rule `{name}` ({why}) is not needed");
    }
}

#[test]
fn unknown_fields_of_the_corpus_are_authors_mistakes() {
    let Some(corpus) = corpus_dir() else { return };
    let schemas = schemas();
    let mut unknown = BTreeMap::<String, usize>::new();
    for (_, csv) in corpus_csvs(&corpus.join("bundles")) {
        let written = round_trip(csv).unwrap();
        for path in unknown_fields(&written, &schemas) {
            if !path.starts_with(".spec.install.spec.deployments[].spec.") {
                *unknown.entry(path).or_default() += 1;
            }
        }
    }
    let spec = |path: &str, count: usize| (format!(".spec.{path}"), count);
    let expected = [
        spec("MinKubeVersion", 18),
        spec("customresourcedefinitions.owned[].group", 273),
        spec("customresourcedefinitions.owned[].resources[].Kind", 1),
        spec("customresourcedefinitions.owned[].specDescriptors[].default", 1),
        spec("install.spec.clusterpermissions", 5),
        spec("install.spec.deployments[].apiVersion", 1),
        spec("install.spec.deployments[].kind", 1),
        spec("install.spec.deployments[].metadata", 1),
        spec("install.spec.deployments[].namespace", 4),
        spec("install.spec.deployments[].serviceAccountName", 15),
        spec("install.spec.permissions[].rules[].apigroups", 1),
        spec("install.spec.permissions[].rules[].attributeRestrictions", 6),
        spec("install.spec.permissions[].rules[].resourceName", 4),
        spec("install.spec.spec", 3),
        spec("install.spec.strategy", 3),
        spec("miniKubeVersion", 8),
        spec("minikubeVersion", 2),
        spec("relatedImages[].value", 15),
    ];
    assert_eq!(unknown, expected.into());
}

#[test]
fn embedded_parts_of_the_corpus_decode() {
    let Some(corpus) = corpus_dir() else { return };
    let mut decoded = 0;
    for (file, csv) in corpus_csvs(&corpus.join("bundles")) {
        let csv = olm_api::decode_csv_manifest(csv.clone()).unwrap_or_else(|error| panic!("{file}: {error}"));
        let install = &csv.spec.install;
        let deployments = install
            .deployments()
            .iter()
            .map(|deployment| deployment.decode_spec().map(drop));
        let permissions = install.permissions().iter().chain(install.cluster_permissions());
        let rules = permissions.map(|permission| permission.decode_rules().map(drop));
        for result in deployments.chain(rules) {
            result.unwrap_or_else(|error| panic!("{file}: {error}"));
            decoded += 1;
        }
    }
    // 1,055 deployments, 730 permissions, 910 cluster permissions, and 5 that are spelled `clusterpermissions`.
    assert_eq!(decoded, 2700);
}

#[test]
fn versions_of_the_corpus_parse() {
    let Some(corpus) = corpus_dir() else { return };
    for (file, csv) in corpus_csvs(&corpus.join("bundles")) {
        let csv: ClusterServiceVersion = olm_api::decode_manifest(csv.clone()).unwrap();
        let version = csv
            .spec
            .version()
            .unwrap_or_else(|error| panic!("{file}: {error}"));
        assert!(csv.spec.version.is_some(), "{file}: {version}");
    }
}

/// Returns objects in which every field of one of our structs after the other is `null`.
fn with_nulls(schema: &Value) -> Vec<Value> {
    let none = serde_json::Map::new();
    let fields = schema["properties"].as_object().unwrap_or(&none);
    let is_ours = |schema: &Value| {
        schema["properties"]
            .as_object()
            .is_some_and(|fields| fields.values().any(|field| field["description"].is_string()))
    };
    let nulls = fields.keys().map(|name| (name.clone(), Value::Null)).collect();
    let mut objects = vec![Value::Object(nulls)];
    for (name, field) in fields {
        let inner = if is_ours(field) {
            with_nulls(field)
        } else if is_ours(&field["items"]) {
            with_nulls(&field["items"])
                .into_iter()
                .map(|item| Value::Array(vec![item]))
                .collect()
        } else {
            Vec::new()
        };
        objects.extend(
            inner
                .into_iter()
                .map(|value| serde_json::json!({ name.as_str(): value })),
        );
    }
    objects
}

#[test]
fn null_is_accepted_for_every_field() {
    let mut tried = 0;
    for ((api_version, kind), schema) in schemas() {
        for part in ["spec", "status"] {
            for value in with_nulls(&schema["properties"][part]) {
                let mut object = serde_json::json!({
                    "apiVersion": api_version, "kind": kind, "metadata": {"name": "a"}, "spec": {},
                });
                object[part] = value;
                round_trip(&object).unwrap_or_else(|error| panic!("{error}: {object}"));
                tried += 1;
            }
        }
    }
    assert!(tried > 100, "only {tried} structs");
}

#[test]
fn required_status_fields_are_written_even_when_empty() {
    let plan = olm_api::v1alpha1::InstallPlanStatus::default();
    assert_eq!(
        serde_json::to_value(plan).unwrap(),
        serde_json::json!({"phase": "", "catalogSources": []})
    );
    let step = olm_api::v1alpha1::Step::default();
    assert_eq!(serde_json::to_value(step).unwrap()["status"], "");
    let subscription = olm_api::v1alpha1::SubscriptionStatus::default();
    assert_eq!(
        serde_json::to_value(subscription).unwrap(),
        serde_json::json!({"lastUpdated": null})
    );
    let group = olm_api::v1::OperatorGroupStatus::default();
    assert_eq!(
        serde_json::to_value(group).unwrap(),
        serde_json::json!({"lastUpdated": null})
    );
    let webhook = serde_json::to_value(olm_api::v1alpha1::WebhookDescription::default()).unwrap();
    assert_eq!(
        (&webhook["sideEffects"], &webhook["admissionReviewVersions"]),
        (&Value::Null, &Value::Null)
    );
}
