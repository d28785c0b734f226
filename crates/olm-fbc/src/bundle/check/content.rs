//! Kinds, the CSV, CRDs and other objects.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::super::{CRD_KIND, CSV_KIND};
use super::{MediaType, text};
use crate::property::Gvk;
use crate::version::Version;
use crate::yaml;

/// Kinds that a bundle may hold.
const KINDS: [&str; 22] = [
    CSV_KIND,
    CRD_KIND,
    "ClusterRole",
    "ClusterRoleBinding",
    "ConfigMap",
    "ConsoleCLIDownload",
    "ConsoleLink",
    "ConsolePlugin",
    "ConsoleQuickStart",
    "ConsoleYAMLSample",
    "NetworkPolicy",
    "PodDisruptionBudget",
    "PodMonitor",
    "PriorityClass",
    "PrometheusRule",
    "Role",
    "RoleBinding",
    "Secret",
    "Service",
    "ServiceAccount",
    "ServiceMonitor",
    "VerticalPodAutoscaler",
];
/// Annotations of a CSV that are easily written in the wrong case, which silently disables them.
const CASED_ANNOTATIONS: [&str; 5] = [
    "alm-examples",
    "olm.operatorGroup",
    "olm.operatorNamespace",
    "olm.skipRange",
    "olm.targetNamespaces",
];
const INSTALL_MODES: [&str; 4] = [
    "OwnNamespace",
    "SingleNamespace",
    "MultiNamespace",
    "AllNamespaces",
];
const SUBSTITUTES_FOR: &str = "olm.substitutesFor";

/// Checks the objects of a manifests directory, given by file name. Charts pass.
pub fn check_content<B: AsRef<[u8]>>(files: &BTreeMap<String, B>) -> Vec<String> {
    let media_type = MediaType::of(files);
    if media_type == MediaType::Helm {
        return Vec::new();
    }
    let mut problems = Vec::new();
    let mut objects = Vec::new();
    for (name, bytes) in files {
        match yaml::parse_first(bytes.as_ref()) {
            Err(error) => problems.push(format!("{name}: {error}")),
            Ok((object, _)) => {
                let kind = text(&object, "kind").to_owned();
                if media_type == MediaType::RegistryV1 && !KINDS.contains(&kind.as_str()) {
                    problems.push(format!(
                        "{kind} is not supported type for registryV1 bundle: {name}"
                    ));
                    continue;
                }
                match kind.as_str() {
                    CSV_KIND => check_csv(&object, &mut problems),
                    CRD_KIND => check_crd(&object, &mut problems),
                    _ => check_metadata(name, &object, &mut problems),
                }
                objects.push(object);
            }
        }
    }
    check_apis(&objects, &mut problems);
    problems
}

fn check_csv(csv: &Value, problems: &mut Vec<String>) {
    let name = text(&csv["metadata"], "name");
    let mut tell =
        |problem: String| problems.push(format!("Error: ClusterServiceVersion {name:?}: {problem}"));
    if name.is_empty() {
        tell("metadata.name is not set".to_owned());
    }
    let spec = &csv["spec"];
    let version = text(spec, "version");
    if let Err(error) = Version::parse(version) {
        tell(format!("spec.version {version:?}: {error}"));
    }
    check_install_modes(&spec["installModes"], &mut tell);
    if spec["install"]["strategy"].as_str() != Some("deployment") {
        tell("spec.install.strategy must be \"deployment\"".to_owned());
    }
    for list in ["owned", "required"] {
        for description in spec["customresourcedefinitions"][list]
            .as_array()
            .into_iter()
            .flatten()
        {
            for field in ["name", "version", "kind"] {
                if text(description, field).is_empty() {
                    tell(format!(
                        "spec.customresourcedefinitions.{list} {:?}: {field} is not set",
                        text(description, "name")
                    ));
                }
            }
        }
    }
    let annotations = csv["metadata"]["annotations"].as_object();
    for (key, value) in annotations.into_iter().flatten() {
        let right = CASED_ANNOTATIONS
            .into_iter()
            .find(|right| right.eq_ignore_ascii_case(key) && right != key);
        if let Some(right) = right {
            tell(format!(
                "provided annotation {key} uses wrong case and should be {right} instead"
            ));
        }
        if key == "alm-examples"
            && let Some(examples) = value.as_str().filter(|text| !text.trim().is_empty())
            && let Err(error) = serde_json::from_str::<Vec<Value>>(examples)
        {
            tell(format!("annotation alm-examples is no JSON list: {error}"));
        }
    }
    let release = match &spec["release"] {
        Value::Number(release) => release.to_string(),
        other => other.as_str().unwrap_or_default().to_owned(),
    };
    let substitutes = text(&csv["metadata"]["annotations"], SUBSTITUTES_FOR);
    if !release.is_empty() && !substitutes.is_empty() {
        problems.push(format!(
            "bundle {name:?} cannot have both a release version ({release:?}) and {SUBSTITUTES_FOR} annotation ({substitutes:?})"
        ));
    }
}

fn check_install_modes(modes: &Value, tell: &mut impl FnMut(String)) {
    let Some(modes) = modes.as_array().filter(|modes| !modes.is_empty()) else {
        tell("install modes not found".to_owned());
        return;
    };
    let mut seen = BTreeSet::new();
    let mut is_any_supported = false;
    for mode in modes {
        let kind = text(mode, "type");
        if !INSTALL_MODES.contains(&kind) {
            tell(format!("unknown install mode {kind:?}"));
        }
        if !seen.insert(kind) {
            tell(format!("duplicate install mode {kind:?}"));
        }
        is_any_supported |= mode["supported"] == true;
    }
    if !is_any_supported {
        tell("none of the install modes are supported".to_owned());
    }
}

fn check_crd(crd: &Value, problems: &mut Vec<String>) {
    let name = text(&crd["metadata"], "name");
    let api_version = text(crd, "apiVersion");
    let spec = &crd["spec"];
    match api_version {
        "apiextensions.k8s.io/v1" | "apiextensions.k8s.io/v1beta1" => {}
        other => {
            problems.push(format!("Unsupported api version of CRD: {other}"));
            return;
        }
    }
    let mut tell =
        |problem: String| problems.push(format!("Error: CustomResourceDefinition {name:?}: {problem}"));
    let (plural, group) = (text(&spec["names"], "plural"), text(spec, "group"));
    if name != format!("{plural}.{group}") {
        tell(format!(
            "metadata.name must be spec.names.plural+\".\"+spec.group, {plural}.{group}"
        ));
    }
    if text(&spec["names"], "kind").is_empty() {
        tell("spec.names.kind is not set".to_owned());
    }
    let versions = spec["versions"].as_array().map_or(&[][..], Vec::as_slice);
    if versions.is_empty() {
        // The older API knows a single version beside the list.
        if text(spec, "version").is_empty() {
            tell("spec.versions must have at least one version".to_owned());
        }
        return;
    }
    let mut seen = BTreeSet::new();
    for version in versions {
        let version_name = text(version, "name");
        if !seen.insert(version_name) {
            tell(format!("spec.versions: duplicate version {version_name:?}"));
        }
        if api_version.ends_with("/v1") && !version["schema"]["openAPIV3Schema"].is_object() {
            tell(format!(
                "spec.versions {version_name:?}: schema.openAPIV3Schema is required"
            ));
        }
    }
    let stored = versions
        .iter()
        .filter(|version| version["storage"] == true)
        .count();
    if stored != 1 {
        tell(format!(
            "spec.versions must have exactly one version marked as storage version, found {stored}"
        ));
    }
}

/// What `kubectl` would refuse of any object: its metadata must be texts.
fn check_metadata(file: &str, object: &Value, problems: &mut Vec<String>) {
    let metadata = &object["metadata"];
    for field in ["name", "namespace", "generateName"] {
        if !(metadata[field].is_null() || metadata[field].is_string()) {
            problems.push(format!(
                "{file}: metadata.{field} must be text, found {}",
                metadata[field]
            ));
        }
    }
    for field in ["labels", "annotations"] {
        for (key, value) in metadata[field].as_object().into_iter().flatten() {
            if !value.is_string() {
                problems.push(format!(
                    "{file}: metadata.{field} {key:?} must be text, found {value}"
                ));
            }
        }
    }
    if text(metadata, "name").is_empty()
        && text(metadata, "generateName").is_empty()
        && metadata["name"].is_null()
    {
        problems.push(format!("{file}: name or generateName is required"));
    }
}

/// APIs that the CSV owns must be defined, each version once.
fn check_apis(objects: &[Value], problems: &mut Vec<String>) {
    let mut defined: BTreeMap<String, BTreeSet<Gvk>> = BTreeMap::new();
    for crd in objects.iter().filter(|object| object["kind"] == CRD_KIND) {
        let spec = &crd["spec"];
        let names = spec["versions"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|version| text(version, "name"))
            .chain([text(spec, "version")])
            .filter(|name| !name.is_empty())
            .collect::<BTreeSet<_>>();
        for version in names {
            let api = Gvk {
                group: text(spec, "group").to_owned(),
                kind: text(&spec["names"], "kind").to_owned(),
                version: version.to_owned(),
            };
            let name = text(&crd["metadata"], "name");
            if !defined.entry(name.to_owned()).or_default().insert(api) {
                problems.push(format!("duplicate CRD {name}/{version} in bundle"));
            }
        }
    }
    for csv in objects.iter().filter(|object| object["kind"] == CSV_KIND) {
        let owned = csv["spec"]["customresourcedefinitions"]["owned"].as_array();
        for description in owned.into_iter().flatten() {
            let (name, version) = (text(description, "name"), text(description, "version"));
            let is_defined = defined
                .get(name)
                .is_some_and(|apis| apis.iter().any(|api| api.version == version));
            if !is_defined {
                problems.push(format!(
                    "owned CRD {name}/{version} not found in bundle {:?}",
                    text(&csv["metadata"], "name")
                ));
            }
        }
    }
}
