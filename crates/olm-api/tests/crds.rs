//! The manifests under `manifests/crds` are generated from the types, and are equivalent to the definitions clusters have.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test program")]

#[path = "crds/field_table.rs"]
mod field_table;
mod support;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use olm_api::crd::{Definition, definitions, v1_definitions};
use olm_testing::shared::shared_path;
use serde_json::Value;
use support::{Change, changes, read_yaml, sorted};

/// Set to rewrite the manifests instead of comparing them, as `cargo xtask gen` does.
const UPDATE: &str = "OLM_UPDATE_GENERATED";

/// Folders of the manifests: of `operators.coreos.com`, and of OLM v1.
const FOLDERS: [&str; 2] = ["manifests/crds", "manifests/crds-v1"];

/// Definitions that the recorded cluster does not have. Upstream has ClusterObjectSet in its experimental definitions only.
const NOT_RECORDED: [&str; 1] = ["v1-clusterobjectsets"];

const HEADER: &str = "# Generated from crates/olm-api by `cargo xtask gen`. Do not edit.\n";

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

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Returns the definitions of both APIs.
fn all() -> Vec<Definition> {
    [definitions().unwrap(), v1_definitions().unwrap()].concat()
}

fn render(definition: &Definition) -> String {
    format!(
        "{HEADER}{}",
        olm_fbc::yaml::to_string(&definition.manifest).unwrap()
    )
}

#[test]
fn crd_manifests_are_fresh() {
    let folders = FOLDERS.map(|folder| workspace().join(folder));
    let [classic, v1] = &folders;
    let definitions = definitions().unwrap();
    let of_v1 = v1_definitions().unwrap();
    let files = |folder: &Path, definitions: &[Definition]| -> Vec<(PathBuf, String)> {
        let file = |definition: &Definition| folder.join(format!("{}.yaml", definition.name));
        let rendered = definitions.iter();
        rendered
            .map(|definition| (file(definition), render(definition)))
            .collect()
    };
    let mut expected = [files(classic, &definitions), files(v1, &of_v1)].concat();
    expected.push((
        workspace().join("crates/olm-api/src/manifest/generated/field_table.rs"),
        field_table::render(&definitions),
    ));
    if std::env::var_os(UPDATE).is_some() {
        for folder in &folders {
            fs::create_dir_all(folder).unwrap();
        }
        for (file, text) in &expected {
            fs::write(file, text).unwrap();
        }
    }
    for (file, text) in &expected {
        let found = fs::read_to_string(file).unwrap_or_default();
        assert!(
            found == *text,
            "{} is stale; run `cargo xtask gen`",
            file.display()
        );
    }
    let files: BTreeSet<_> = folders.iter().flat_map(|folder| sorted(folder)).collect();
    let known: BTreeSet<_> = expected
        .into_iter()
        .map(|(file, _)| file)
        .filter(|file| folders.iter().any(|folder| file.starts_with(folder)))
        .collect();
    assert_eq!(files, known, "a manifest without a type");
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
    let classic = definitions().unwrap().into_iter().map(|it| (it.name.clone(), it));
    let v1 = v1_definitions().unwrap().into_iter();
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
    let csv = definitions()
        .unwrap()
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
