//! A bundle's files: `manifests/` and `metadata/`, and the `olm.bundle` blob derived from them.
//!
//! Input is a list of relative paths and bytes, so folders, image layers and tests are read in the same way. Rules:
//! `docs/reference/catalog-files.md`.

use std::collections::BTreeMap;

use go_compat::json::{Fields, kind_of};
use go_compat::semver::Range;
use olm_api::labels::bundle as annotations;
use olm_fbc::bundle_files::{BundleFile, contradictions, read_file, unite};
use olm_fbc::manifest::CSV_KIND;
use olm_fbc::property::{Property, kinds};
use olm_fbc::yaml;
use serde_json::{Value, json};

use crate::Error;

mod apis;
mod blob;
pub mod check;
pub mod object;

use check::any_case;

/// Annotation of a CSV: the range of versions that it may replace.
pub(crate) const SKIP_RANGE: &str = "olm.skipRange";

/// A bundle as its files describe it.
#[derive(Clone, Debug)]
pub struct BundleContent {
    /// Annotations of `metadata/annotations.yaml`.
    pub annotations: BTreeMap<String, String>,
    /// Objects of `manifests/`, by path of their file.
    pub manifests: Vec<BundleFile>,
    /// Entries of `metadata/dependencies.yaml`.
    pub dependencies: Vec<Property>,
    /// Entries of `metadata/properties.yaml`.
    pub properties: Vec<Property>,
    /// Ignored data, with the reason.
    pub warnings: Vec<String>,
    csv: usize,
}

/// Returns a text; empty for another value.
pub(crate) fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn reasons(skipped: &[String]) -> String {
    skipped.iter().map(|reason| format!("; {reason}")).collect()
}

impl BundleContent {
    /// Reads a bundle from files given as relative path (`manifests/a.yaml`) and content, in any order.
    ///
    /// Files below subfolders and manifests whose name starts with a dot are ignored. Other manifests are read by the rule of
    /// [`olm_fbc::bundle_files`]; ignored data causes a warning.
    ///
    /// # Errors
    /// No manifests, no CSV or more than one, objects that contradict each other, no annotations, or metadata that is not YAML.
    /// The error names the file.
    pub fn read<P: AsRef<str>, B: AsRef<[u8]>>(
        files: impl IntoIterator<Item = (P, B)>,
    ) -> Result<Self, Error> {
        let mut manifests = BTreeMap::new();
        let mut metadata = BTreeMap::new();
        for (path, bytes) in files {
            let path = path.as_ref().trim_start_matches("./");
            let (folder, name) = path.split_once('/').unwrap_or(("", path));
            if name.contains('/') || name.is_empty() {
                continue;
            }
            match folder {
                "manifests" if name.starts_with('.') => None,
                "manifests" => manifests.insert(path.to_owned(), bytes),
                "metadata" => metadata.insert(path.to_owned(), bytes),
                _ => None,
            };
        }
        let mut warnings = Vec::new();
        let (manifests, csv) = read_manifests(&manifests, &mut warnings)?;
        warnings.extend(skip_range_warning(&manifests[csv]));
        let metadata = read_metadata(&metadata, &mut warnings)?;
        Ok(Self {
            annotations: metadata.annotations,
            manifests,
            dependencies: metadata.dependencies,
            properties: metadata.properties,
            warnings,
            csv,
        })
    }

    /// Creates a bundle from a ClusterServiceVersion and the objects that belong to it, each with its position. The package is
    /// the only annotation. The version may be missing.
    pub(crate) fn of_objects(
        package: &str,
        csv: (String, Value),
        others: impl IntoIterator<Item = (String, Value)>,
    ) -> Self {
        let properties = match &csv.1["spec"]["version"] {
            version if version.is_null() || version == "" => {
                let value = json!({"packageName": package, "version": ""});
                vec![Property::new(kinds::PACKAGE, value)]
            }
            _ => Vec::new(),
        };
        let objects = std::iter::once(csv).chain(others);
        Self {
            annotations: BTreeMap::from([(annotations::PACKAGE.to_owned(), package.to_owned())]),
            manifests: objects
                .map(|(name, object)| BundleFile { name, object })
                .collect(),
            dependencies: Vec::new(),
            properties,
            warnings: Vec::new(),
            csv: 0,
        }
    }

    /// Returns the ClusterServiceVersion.
    pub fn csv(&self) -> &BundleFile {
        &self.manifests[self.csv]
    }

    /// Returns the name of the ClusterServiceVersion; may be empty.
    fn csv_name(&self) -> &str {
        self.csv().object["metadata"]["name"].as_str().unwrap_or_default()
    }

    /// Returns the package named by the annotations; empty if there is none.
    pub fn package(&self) -> &str {
        self.annotations
            .get(annotations::PACKAGE)
            .map_or("", String::as_str)
    }
}

fn read_manifests<B: AsRef<[u8]>>(
    files: &BTreeMap<String, B>,
    warnings: &mut Vec<String>,
) -> Result<(Vec<BundleFile>, usize), Error> {
    let (mut objects, mut skipped) = (Vec::with_capacity(files.len()), Vec::new());
    for (file, bytes) in files {
        let name = file.rsplit('/').next().unwrap_or(file);
        match read_file(name, bytes.as_ref()) {
            Ok(read) => {
                if read.has_more {
                    warnings.push(format!("{file}: only the first document of the file is used"));
                }
                objects.push(BundleFile {
                    name: file.clone(),
                    object: read.object,
                });
            }
            Err(reason) => skipped.push(format!("{file}: ignored: {reason}")),
        }
    }
    let manifests = unite(objects);
    let named = manifests.iter().map(|file| (file.name.as_str(), &file.object));
    if let Some(twins) = contradictions(named).into_iter().next() {
        return Err(twins.to_string().into());
    }
    if manifests.is_empty() {
        let reasons = reasons(&skipped);
        return Err(format!("no bundle objects found in manifests/{reasons}").into());
    }
    let csvs: Vec<usize> = manifests
        .iter()
        .enumerate()
        .filter(|(_, manifest)| manifest.object["kind"] == CSV_KIND)
        .map(|(index, _)| index)
        .collect();
    match csvs.as_slice() {
        [] => Err(format!(
            "no csv in bundle: none of the {} manifests is a ClusterServiceVersion{}",
            manifests.len(),
            reasons(&skipped)
        )
        .into()),
        [index] => {
            warnings.extend(skipped);
            Ok((manifests, *index))
        }
        several => {
            let paths: Vec<&str> = several.iter().map(|index| &*manifests[*index].name).collect();
            let paths = paths.join(", ");
            Err(format!("bundle has more than one ClusterServiceVersion: {paths}").into())
        }
    }
}

/// Returns a warning about an invalid skip range: it counts as none, so the upgrades that it promises never come.
fn skip_range_warning(csv: &BundleFile) -> Option<String> {
    let range = csv.object["metadata"]["annotations"][SKIP_RANGE].as_str()?;
    let error = Range::parse(range).err().filter(|_| !range.is_empty())?;
    let right = range.replace('v', "");
    let form = match Range::parse(&right) {
        Ok(_) => format!("write {right:?}"),
        Err(_) => "a range is written as in \">=1.0.0 <1.2.0\"".to_owned(),
    };
    Some(format!(
        "{}: annotation {SKIP_RANGE} {range:?} is ignored, because it is not a version range ({error}): {form}",
        csv.name
    ))
}

#[derive(Default)]
struct Metadata {
    annotations: BTreeMap<String, String>,
    dependencies: Vec<Property>,
    properties: Vec<Property>,
}

/// Reads the files of `metadata/`. Their content identifies them; the first of each type by name is used.
fn read_metadata<B: AsRef<[u8]>>(
    files: &BTreeMap<String, B>,
    warnings: &mut Vec<String>,
) -> Result<Metadata, Error> {
    let mut annotations: Option<BTreeMap<String, String>> = None;
    let mut dependencies = None;
    let mut properties = None;
    for (path, bytes) in files {
        let value = match yaml::parse_first(bytes.as_ref()) {
            Ok((value, _)) => value,
            Err(error) if path.ends_with(".yaml") || path.ends_with(".yml") => {
                return Err(format!("read {path}: {error}").into());
            }
            Err(error) => {
                warnings.push(format!("{path}: ignored: {error}"));
                continue;
            }
        };
        if let (None, Value::Object(map)) = (&annotations, any_case(&value, "annotations")) {
            let text = String::from_utf8_lossy(bytes.as_ref());
            annotations = Some(read_annotations(path, &text, map, warnings)?);
        }
        if dependencies.is_none() && !any_case(&value, "dependencies").is_null() {
            dependencies = Some(read_list(path, "dependencies", &value)?);
        }
        if properties.is_none() && !any_case(&value, "properties").is_null() {
            properties = Some(read_list(path, "properties", &value)?);
        }
    }
    Ok(Metadata {
        annotations: annotations
            .filter(|map| !map.is_empty())
            .ok_or_else(|| Error::from("Could not find annotations file in metadata/".to_owned()))?,
        dependencies: dependencies.unwrap_or_default(),
        properties: properties.unwrap_or_default(),
    })
}

fn read_annotations(
    path: &str,
    text: &str,
    map: &serde_json::Map<String, Value>,
    warnings: &mut Vec<String>,
) -> Result<BTreeMap<String, String>, Error> {
    let mut annotations = BTreeMap::new();
    for (key, value) in map {
        match annotation_text(key, value, text) {
            Some(text) => drop(annotations.insert(key.clone(), text)),
            None if annotations::is_known(key) => {
                return Err(format!("{path}: annotation {key:?} must be text").into());
            }
            None => warnings.push(format!(
                "{path}: annotation {key:?} is ignored, because it is not a string"
            )),
        }
    }
    Ok(annotations)
}

/// Returns an annotation of a document as text: null is empty, and a number or boolean keeps its spelling in the document. `None` for
/// a list or an object.
fn annotation_text(key: &str, value: &Value, document: &str) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Null => Some(String::new()),
        Value::Number(_) | Value::Bool(_) => {
            let value = value.to_string();
            Some(yaml::written(document, key, &value).map_or(value.clone(), str::to_owned))
        }
        Value::Array(_) | Value::Object(_) => None,
    }
}

/// Reads a list of `{type, value}`; each item may be wrapped in a key `property`, as upstream's documents show it.
fn read_list(path: &str, field: &str, value: &Value) -> Result<Vec<Property>, Error> {
    let wrong = |reason: String| {
        Error::from(format!(
            "{path}: {field} must be a list of type and value: {reason}"
        ))
    };
    let Value::Array(items) = any_case(value, field) else {
        return Err(wrong(format!("found {}", kind_of(any_case(value, field)))));
    };
    items
        .iter()
        .map(|item| match item {
            Value::Object(map) if map.len() == 1 => map.get("property").unwrap_or(item),
            _ => item,
        })
        .map(|item| read_property(item).map_err(wrong))
        .collect()
}

/// Reads type and value, with case-insensitive keys; other fields are dropped. A number as a type keeps its spelling.
fn read_property(item: &Value) -> Result<Property, String> {
    let fields = Fields::of(item)?;
    let kind = match fields.get("type") {
        Some(Value::Number(number)) => number.to_string(),
        _ => fields.text("type")?,
    };
    let value = fields.get("value").cloned().unwrap_or_default();
    Ok(Property::new(&kind, value))
}

#[cfg(test)]
mod tests;
