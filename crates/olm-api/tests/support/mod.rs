//! Reads reference objects, and compares them with their re-encoded form.
#![allow(dead_code, reason = "each test program uses its part")]

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use olm_api::{DecodeError, extension_v1, packages, v1, v1alpha1, v2};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

/// A CustomResourceDefinition.
#[derive(Clone, Debug)]
pub struct Definition {
    /// Plural name of the kind; the file is `<name>.yaml`.
    pub name: String,
    /// The object.
    pub manifest: Value,
}

/// Returns the definitions in a folder of `manifests`, sorted by name.
pub fn definitions(folder: &str) -> Vec<Definition> {
    let files = sorted(&workspace().join("manifests").join(folder));
    let definition = |file: PathBuf| Definition {
        name: file.file_stem().unwrap().to_str().unwrap().to_owned(),
        manifest: read_yaml(&file).remove(0),
    };
    files.into_iter().map(definition).collect()
}

pub fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Returns the objects of the recorded cluster that belong to OLM's APIs, with their files.
pub fn golden_objects(golden: &Path) -> Vec<(String, Value)> {
    let mut found = Vec::new();
    for folder in sorted(golden).into_iter().filter(|path| path.is_dir()) {
        if folder.ends_with("crds") || folder.ends_with("catalogd") || folder.ends_with("opm") {
            continue;
        }
        for file in sorted(&folder)
            .into_iter()
            .filter(|path| path.extension().is_some_and(|ext| ext == "yaml"))
        {
            for document in read_yaml(&file) {
                collect_ours(document, &label(golden, &file), &mut found);
            }
        }
    }
    let manifests = serde_json::from_slice(&fs::read(golden.join("packagemanifests.json")).unwrap()).unwrap();
    collect_ours(manifests, "packagemanifests.json", &mut found);
    found
}

/// Returns the ClusterServiceVersions of all bundles of the corpus with their files; they are read once.
pub fn corpus_csvs(bundles: &Path) -> &'static [(String, Value)] {
    static READ: OnceLock<Vec<(String, Value)>> = OnceLock::new();
    READ.get_or_init(|| read_csvs(bundles))
}

fn read_csvs(bundles: &Path) -> Vec<(String, Value)> {
    let mut found = Vec::new();
    for package in sorted(bundles) {
        for bundle in sorted(&package).into_iter().filter(|path| path.is_dir()) {
            for file in sorted(&bundle.join("manifests")) {
                if !String::from_utf8_lossy(&fs::read(&file).unwrap()).contains("ClusterServiceVersion") {
                    continue;
                }
                let csvs = read_yaml(&file)
                    .into_iter()
                    .filter(|object| object["kind"] == "ClusterServiceVersion");
                found.extend(csvs.map(|csv| (label(bundles, &file), csv)));
            }
        }
    }
    found
}

pub fn read_yaml(file: &Path) -> Vec<Value> {
    olm_fbc::yaml::parse_all(&fs::read(file).unwrap())
        .unwrap_or_else(|error| panic!("{}: {error}", file.display()))
}

pub fn sorted(folder: &Path) -> Vec<PathBuf> {
    let mut paths: Vec<_> = fs::read_dir(folder)
        .unwrap_or_else(|error| panic!("{}: {error}", folder.display()))
        .map(|entry| entry.unwrap().path())
        .collect();
    paths.sort();
    paths
}

fn label(root: &Path, file: &Path) -> String {
    file.strip_prefix(root).unwrap().display().to_string()
}

fn collect_ours(document: Value, file: &str, found: &mut Vec<(String, Value)>) {
    match document {
        Value::Object(mut object) if object.get("kind").is_some_and(|kind| kind == "List") => {
            if let Some(Value::Array(items)) = object.remove("items") {
                items.into_iter().for_each(|item| collect_ours(item, file, found));
            }
        }
        object
            if object["apiVersion"]
                .as_str()
                .is_some_and(|version| version.contains("operators.coreos.com/")) =>
        {
            found.push((file.to_owned(), object));
        }
        _ => {}
    }
}

/// Decodes an object to its type and encodes it again.
pub fn round_trip(object: &Value) -> Result<Value, DecodeError> {
    Ok(through_type(object)?.0)
}

/// Decodes an object to its type. Returns its encoded form and its debug text.
pub fn through_type(object: &Value) -> Result<(Value, String), DecodeError> {
    let text = |field: &str| object[field].as_str().unwrap_or_default().to_owned();
    let again = match (text("apiVersion").as_str(), text("kind").as_str()) {
        // The version is ignored: authors get it wrong, and no other API has this kind.
        (_, "ClusterServiceVersion") => through::<v1alpha1::ClusterServiceVersion>,
        ("operators.coreos.com/v1alpha1", "Subscription") => through::<v1alpha1::Subscription>,
        ("operators.coreos.com/v1alpha1", "InstallPlan") => through::<v1alpha1::InstallPlan>,
        ("operators.coreos.com/v1alpha1", "CatalogSource") => through::<v1alpha1::CatalogSource>,
        ("operators.coreos.com/v1", "OperatorGroup") => through::<v1::OperatorGroup>,
        ("operators.coreos.com/v2", "OperatorCondition") => through::<v2::OperatorCondition>,
        ("operators.coreos.com/v1", "Operator") => through::<v1::Operator>,
        ("operators.coreos.com/v1", "OLMConfig") => through::<v1::OLMConfig>,
        ("packages.operators.coreos.com/v1", "PackageManifest") => through::<packages::PackageManifest>,
        (extension_v1::API_VERSION, "ClusterCatalog") => through::<extension_v1::ClusterCatalog>,
        (extension_v1::API_VERSION, "ClusterExtension") => through::<extension_v1::ClusterExtension>,
        (extension_v1::API_VERSION, "ClusterObjectSet") => through::<extension_v1::ClusterObjectSet>,
        other => panic!("no type for {other:?}"),
    };
    again(object)
}

fn through<T: DeserializeOwned + Serialize + Debug>(object: &Value) -> Result<(Value, String), DecodeError> {
    let typed: T = olm_api::decode_manifest(object.clone())?;
    Ok((serde_json::to_value(&typed).unwrap(), format!("{typed:?}")))
}

/// Change of a value between reading and writing.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Change {
    /// Path with list indices left out: `.spec.icon[].mediatype`.
    pub path: String,
    pub before: Option<String>,
    pub after: Option<String>,
}

/// Returns all changes between two values, lists by index.
pub fn changes(before: &Value, after: &Value) -> Vec<Change> {
    let mut found = Vec::new();
    compare(String::new(), Some(before), Some(after), &mut found);
    found
}

fn compare(path: String, before: Option<&Value>, after: Option<&Value>, found: &mut Vec<Change>) {
    match (before, after) {
        (Some(Value::Object(one)), Some(Value::Object(other))) => {
            let keys: std::collections::BTreeSet<_> = one.keys().chain(other.keys()).collect();
            keys.into_iter()
                .for_each(|key| compare(format!("{path}.{key}"), one.get(key), other.get(key), found));
        }
        (Some(Value::Array(one)), Some(Value::Array(other))) => {
            (0..one.len().max(other.len()))
                .for_each(|index| compare(format!("{path}[]"), one.get(index), other.get(index), found));
        }
        (before, after) if before == after => {}
        (before, after) => found.push(Change {
            path,
            before: before.map(ToString::to_string),
            after: after.map(ToString::to_string),
        }),
    }
}

/// Returns the schemas of all kinds, in the version that is stored, by `apiVersion` and kind. OLM does not read the others.
pub fn schemas() -> BTreeMap<(String, String), Value> {
    let mut schemas = BTreeMap::new();
    for Definition { manifest, .. } in [definitions("crds"), definitions("crds-v1")].concat() {
        let spec = &manifest["spec"];
        let versions = spec["versions"].as_array().unwrap();
        for version in versions.iter().filter(|version| version["storage"] == true) {
            let api_version = format!(
                "{}/{}",
                spec["group"].as_str().unwrap(),
                version["name"].as_str().unwrap()
            );
            let kind = spec["names"]["kind"].as_str().unwrap().to_owned();
            schemas.insert((api_version, kind), version["schema"]["openAPIV3Schema"].clone());
        }
    }
    let packages = (
        "packages.operators.coreos.com/v1".to_owned(),
        "PackageManifest".to_owned(),
    );
    let file = workspace().join("crates/package-server/src/openapi/package_manifest.json");
    schemas.insert(
        packages,
        serde_json::from_slice(&fs::read(file).unwrap()).unwrap(),
    );
    schemas
}

/// Returns the paths of an object that its schema does not know: the contents of all `extra` fields, and fields of core types
/// that are newer than the schema.
pub fn unknown_fields(object: &Value, schemas: &BTreeMap<(String, String), Value>) -> Vec<String> {
    let text = |field: &str| object[field].as_str().unwrap_or_default().to_owned();
    let schema = &schemas[&(text("apiVersion"), text("kind"))];
    let mut found = Vec::new();
    for part in ["spec", "status"] {
        if let Some(value) = object.get(part) {
            find_unknown(
                &format!(".{part}"),
                value,
                &schema["properties"][part],
                &mut found,
            );
        }
    }
    found
}

fn find_unknown(path: &str, value: &Value, schema: &Value, found: &mut Vec<String>) {
    if schema["x-kubernetes-preserve-unknown-fields"] == true {
        return;
    }
    match value {
        Value::Object(members) => {
            let none = Map::new();
            let known = schema["properties"].as_object().unwrap_or(&none);
            for (name, member) in members {
                match (known.get(name), schema.get("additionalProperties")) {
                    (Some(schema), _) | (None, Some(schema)) => {
                        find_unknown(&format!("{path}.{name}"), member, schema, found);
                    }
                    (None, None) => found.push(format!("{path}.{name}")),
                }
            }
        }
        Value::Array(items) => {
            items
                .iter()
                .for_each(|item| find_unknown(&format!("{path}[]"), item, &schema["items"], found));
        }
        _ => {}
    }
}
