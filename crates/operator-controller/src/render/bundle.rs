//! Reads a registry+v1 bundle from the files of its image.

use std::collections::BTreeMap;

use go_compat::json::{self, Html};
use go_compat::quote;
use olm_api::v1alpha1::{ClusterServiceVersion, InstallModeType};
use olm_api::{decode_csv_manifest, labels, manifest, permission};
use olm_fbc::bundle_files::{BundleFile, read_file, unite};
use olm_fbc::manifest::{CRD_KIND, CSV_KIND};
use olm_fbc::yaml;
use serde_json::Value;

use super::object;

/// Folder of the manifests; it has no subfolders.
const MANIFESTS: &str = "manifests";
/// File with the name of the package.
const ANNOTATIONS: &str = "metadata/annotations.yaml";
/// File with properties that are added to those of the ClusterServiceVersion.
const PROPERTIES: &str = "metadata/properties.yaml";
/// Annotation of a ClusterServiceVersion with the properties of its bundle, as a JSON list.
const PROPERTIES_ANNOTATION: &str = "olm.properties";

/// A registry+v1 bundle.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Bundle {
    /// Name of the package; empty if the bundle does not name it.
    pub package: String,
    /// The ClusterServiceVersion; its annotation `olm.properties` has the properties of all files.
    pub csv: ClusterServiceVersion,
    /// All CustomResourceDefinitions, sorted by file name.
    pub crds: Vec<BundleFile>,
    /// All other objects, sorted by file name.
    pub others: Vec<BundleFile>,
}

impl Bundle {
    /// Reads a bundle from the files of its image, as paths and contents. Only the folders `manifests` and `metadata` are read.
    ///
    /// Files without an object, such as a README, are skipped; upstream rejects them. Objects that differ only in labels and annotations
    /// become one, as in InstallPlans ([`olm_fbc::bundle_files`]).
    ///
    /// # Errors
    /// A manifest is broken, or there is not exactly one ClusterServiceVersion. Texts that upstream has are upstream's.
    pub fn read<'a>(files: impl IntoIterator<Item = (&'a str, &'a [u8])>) -> Result<Self, String> {
        let files: BTreeMap<&str, &[u8]> = files.into_iter().collect();
        let mut objects = Vec::new();
        for (path, bytes) in &files {
            let Some(name) = path
                .strip_prefix(MANIFESTS)
                .and_then(|rest| rest.strip_prefix('/'))
            else {
                continue;
            };
            if let Some((folder, _)) = name.split_once('/') {
                let folder = format!("{MANIFESTS}/{folder}");
                return Err(format!(
                    "subdirectories are not allowed within the \"manifests\" directory of the bundle image filesystem: found {}",
                    quote(&folder)
                ));
            }
            if !name.starts_with('.') {
                read_manifest(path, name, bytes, &mut objects)?;
            }
        }
        let (mut csvs, objects): (Vec<_>, Vec<_>) = unite(objects)
            .into_iter()
            .partition(|file| object::kind(&file.object) == CSV_KIND);
        if let [first, second, ..] = csvs.as_slice() {
            return Err(format!(
                "files `{}` and `{}` both contain a ClusterServiceVersion, only one is allowed",
                first.name, second.name
            ));
        }
        let csv = csvs
            .pop()
            .ok_or("no ClusterServiceVersion found in \"manifests\"")?;
        let mut csv = decode_csv_manifest(csv.object).map_err(|error| error.to_string())?;
        add_properties(&mut csv, files.get(PROPERTIES).copied())?;
        let (crds, others) = objects
            .into_iter()
            .partition(|file| object::kind(&file.object) == CRD_KIND);
        Ok(Self {
            package: package(files.get(ANNOTATIONS).copied())?,
            csv,
            crds,
            others,
        })
    }

    /// Returns true if the operator supports an install mode.
    pub fn supports(&self, mode: &InstallModeType) -> bool {
        let mut modes = self.csv.spec.install_modes.iter();
        modes.any(|listed| listed.supported && listed.type_ == *mode)
    }

    /// Returns the names of the supported install modes, sorted, as Go prints a list: `[AllNamespaces OwnNamespace]`.
    pub(super) fn supported_modes(&self) -> String {
        let modes = self.csv.spec.install_modes.iter();
        let mut names: Vec<&str> = modes
            .filter(|mode| mode.supported)
            .map(|mode| mode.type_.as_str())
            .collect();
        names.sort_unstable();
        names.dedup();
        format!("[{}]", names.join(" "))
    }

    /// Returns the name of the ClusterServiceVersion.
    pub(super) fn csv_name(&self) -> &str {
        self.csv.metadata.name.as_deref().unwrap_or_default()
    }
}

/// Adds the objects of a manifest to `objects`.
fn read_manifest(path: &str, name: &str, bytes: &[u8], objects: &mut Vec<BundleFile>) -> Result<(), String> {
    let broken = |reason: String| format!("error parsing objects in {}: {reason}", quote(path));
    let documents = match read_file(name, bytes) {
        Ok(read) if read.has_more => yaml::parse_all(bytes).map_err(|error| broken(error.to_string()))?,
        Ok(read) => vec![read.object],
        Err(reason) if reason.is_broken_manifest(name) => return Err(broken(reason.to_string())),
        Err(_) => return Ok(()),
    };
    for mut object in documents.into_iter().flat_map(items) {
        if object::kind(&object).is_empty() {
            continue;
        }
        complete_api_version(&mut object);
        manifest::mend_rbac_manifest(&mut object);
        if object::api_version(&object).is_empty() {
            return Err(broken(format!("{} has no `apiVersion`", object::kind(&object))));
        }
        if object::name(&object).is_empty() {
            return Err(broken(format!(
                "{} has no `metadata.name`",
                object::kind(&object)
            )));
        }
        objects.push(BundleFile {
            name: name.to_owned(),
            object,
        });
    }
    Ok(())
}

/// Returns the objects of a document: the items of a list, else the document.
fn items(mut document: Value) -> Vec<Value> {
    if object::kind(&document).ends_with("List")
        && let Some(Value::Array(items)) = document.get_mut("items")
    {
        return std::mem::take(items);
    }
    vec![document]
}

/// Adds `apiVersion` to kinds with only one version, as in InstallPlans.
fn complete_api_version(object: &mut Value) {
    let known = match object::kind(object) {
        "ConfigMap" | "Secret" | "Service" | "ServiceAccount" => "v1".to_owned(),
        "ClusterRole" | "ClusterRoleBinding" | "Role" | "RoleBinding" => {
            format!("{}/v1", permission::API_GROUP)
        }
        CRD_KIND => olm_api::crd::API_VERSION.to_owned(),
        _ => return,
    };
    if object::api_version(object).is_empty()
        && let Value::Object(map) = object
    {
        map.insert("apiVersion".to_owned(), known.into());
    }
}

/// Returns the package that `metadata/annotations.yaml` names; empty if there is none.
fn package(annotations: Option<&[u8]>) -> Result<String, String> {
    let document = parse_metadata(ANNOTATIONS, annotations)?;
    let package = document
        .get("annotations")
        .and_then(|map| map.get(labels::bundle::PACKAGE));
    Ok(package.and_then(Value::as_str).unwrap_or_default().to_owned())
}

/// Adds the properties of `metadata/properties.yaml` to those in the annotation of the ClusterServiceVersion.
fn add_properties(csv: &mut ClusterServiceVersion, file: Option<&[u8]>) -> Result<(), String> {
    let mut document = parse_metadata(PROPERTIES, file)?;
    let Some(Value::Array(more)) = document.get_mut("properties") else {
        return Ok(());
    };
    let annotations = csv.metadata.annotations.get_or_insert_default();
    let mut all: Vec<Value> = match annotations.get(PROPERTIES_ANNOTATION) {
        Some(text) => serde_json::from_str(text).map_err(|error| {
            format!("failed to unmarshal csv.metadata.annotations['olm.properties']: {error}")
        })?,
        None => Vec::new(),
    };
    all.append(more);
    let text = json::to_string(&Value::Array(all), Html::Escaped);
    annotations.insert(PROPERTIES_ANNOTATION.to_owned(), text);
    Ok(())
}

/// Parses a file of the metadata folder; `null` if there is none.
fn parse_metadata(what: &str, bytes: Option<&[u8]>) -> Result<Value, String> {
    let Some(bytes) = bytes else {
        return Ok(Value::Null);
    };
    let parsed = yaml::parse_first(bytes);
    let (document, _) = parsed.map_err(|error| format!("failed to unmarshal {what}: {error}"))?;
    Ok(document)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::apply::object::ObjectId;

    const CSV: &str = "apiVersion: operators.coreos.com/v1alpha1\nkind: ClusterServiceVersion\nmetadata: {name: a.v1}\nspec: {}\n";
    const PACKAGE: &str = "annotations: {operators.operatorframework.io.bundle.package.v1: a}";

    fn read(files: &[(&str, &str)]) -> Result<Bundle, String> {
        let files = files.iter().map(|(path, text)| (*path, text.as_bytes()));
        Bundle::read(files)
    }

    #[test]
    fn objects_of_all_documents_are_sorted_by_file_and_kind() {
        let services = "kind: Service\nmetadata: {name: s}\n---\nkind: List\napiVersion: v1\nitems: [{kind: Role, metadata: {name: r}, rules: [{apigroups: [a]}]}]";
        let crd = "kind: CustomResourceDefinition\nmetadata: {name: c}";
        let bundle = read(&[
            ("metadata/annotations.yaml", PACKAGE),
            ("manifests/csv.yaml", CSV),
            ("manifests/z.yaml", services),
            ("manifests/b.yaml", crd),
            ("manifests/README.md", "# Demo"),
            ("manifests/.hidden", "!"),
            ("other/x.yaml", "!"),
        ])
        .unwrap();
        assert_eq!(
            (bundle.package.as_str(), bundle.csv_name()),
            ("a", "a.v1"),
            "{bundle:?}"
        );
        let names = |files: &[BundleFile]| -> Vec<String> {
            let text = |file: &BundleFile| {
                let id = ObjectId::of(&file.object);
                format!("{} {}/{} {}", file.name, id.group, id.version, id.kind)
            };
            files.iter().map(text).collect()
        };
        assert_eq!(
            names(&bundle.crds),
            ["b.yaml apiextensions.k8s.io/v1 CustomResourceDefinition"]
        );
        assert_eq!(
            names(&bundle.others),
            ["z.yaml /v1 Service", "z.yaml rbac.authorization.k8s.io/v1 Role"]
        );
        assert_eq!(bundle.others[1].object["rules"][0]["apiGroups"][0], "a");
    }

    #[test]
    fn defects_have_upstreams_texts_where_it_has_one() {
        let other = CSV.replace("spec: {}", "spec: {version: 2.0.0}");
        for (files, expected) in [
            (
                vec![("manifests/sub/a.yaml", CSV)],
                "subdirectories are not allowed within the \"manifests\" directory of the bundle image filesystem: found \"manifests/sub\"",
            ),
            (
                vec![("metadata/annotations.yaml", PACKAGE)],
                "no ClusterServiceVersion found in \"manifests\"",
            ),
            (
                vec![("manifests/a.yaml", CSV), ("manifests/b.yaml", &other)],
                "files `a.yaml` and `b.yaml` both contain a ClusterServiceVersion, only one is allowed",
            ),
            (
                vec![("manifests/a.yaml", "kind: X")],
                "error parsing objects in \"manifests/a.yaml\": X has no `apiVersion`",
            ),
            (
                vec![("manifests/a.yaml", "kind: Service")],
                "error parsing objects in \"manifests/a.yaml\": Service has no `metadata.name`",
            ),
        ] {
            assert_eq!(read(&files).unwrap_err(), expected);
        }
        let broken = read(&[("manifests/csv.yaml", CSV), ("manifests/a.yaml", "a: [")]).unwrap_err();
        let start = "error parsing objects in \"manifests/a.yaml\": invalid YAML: line ";
        assert!(broken.starts_with(start), "{broken}");
        let broken = read(&[("manifests/a.yaml", CSV), ("metadata/annotations.yaml", "a: [")]).unwrap_err();
        let start = "failed to unmarshal metadata/annotations.yaml: ";
        assert!(broken.starts_with(start), "{broken}");
    }

    #[test]
    fn properties_of_the_metadata_follow_those_of_the_annotation() {
        let csv = "apiVersion: operators.coreos.com/v1alpha1\nkind: ClusterServiceVersion\n\
            metadata: {name: a.v1, annotations: {olm.properties: '[{\"type\":\"a\",\"value\":\"<\"}]'}}\nspec: {}\n";
        let properties = "properties: [{type: b, value: {c: 1}}]";
        let bundle = read(&[
            ("manifests/a.yaml", csv),
            ("metadata/properties.yaml", properties),
        ])
        .unwrap();
        let annotations = bundle.csv.metadata.annotations.unwrap();
        assert_eq!(
            annotations["olm.properties"],
            r#"[{"type":"a","value":"\u003c"},{"type":"b","value":{"c":1}}]"#
        );
        let bad = csv.replace('[', "{");
        let error = read(&[
            ("manifests/a.yaml", &bad),
            ("metadata/properties.yaml", properties),
        ])
        .unwrap_err();
        let start = "failed to unmarshal csv.metadata.annotations['olm.properties']: ";
        assert!(error.starts_with(start), "{error}");
    }

    #[test]
    fn the_package_may_be_missing_until_the_bundle_is_checked() {
        assert_eq!(read(&[("manifests/a.yaml", CSV)]).unwrap().package, "");
    }

    #[test]
    fn modes_are_printed_sorted_and_once() {
        let modes = "spec: {installModes: [{type: OwnNamespace, supported: true}, {type: MultiNamespace, supported: false}, \
                     {type: AllNamespaces, supported: true}, {type: OwnNamespace, supported: true}]}";
        let csv = CSV.replace("spec: {}", modes);
        let bundle = read(&[("manifests/a.yaml", &csv)]).unwrap();
        assert_eq!(bundle.supported_modes(), "[AllNamespaces OwnNamespace]");
        assert!(!bundle.supports(&InstallModeType::MultiNamespace));
    }
}
