//! Checks of the manifests: kinds, single objects, and their consistency.

use std::collections::{BTreeMap, BTreeSet};

use olm_fbc::bundle_files::{BundleFile, contradictions, read_file, unite};
use olm_fbc::manifest::{CRD_KIND, CSV_KIND, OPTIONAL_KINDS};
use serde_json::Value;

use super::crd::Defined;
use super::{MediaType, Optional, crd, csv, hub, metadata, objects, text};
use crate::manifest_validator::ManifestValidator;

/// Kinds that a bundle may contain beside [`OPTIONAL_KINDS`]. A plan rejects a PodMonitor, which upstream's check accepts.
const KINDS: [&str; 11] = [
    CSV_KIND,
    CRD_KIND,
    "ClusterRole",
    "ClusterRoleBinding",
    "ConfigMap",
    "PodMonitor",
    "Role",
    "RoleBinding",
    "Secret",
    "Service",
    "ServiceAccount",
];

/// Checks the objects of a manifests directory, given by file name, with the requested optional checks. Charts always pass.
pub fn check_content<B: AsRef<[u8]>>(
    files: &BTreeMap<String, B>,
    optional: &Optional,
    validator: &dyn ManifestValidator,
) -> Vec<String> {
    let media_type = MediaType::of(files);
    if media_type == MediaType::Helm {
        return Vec::new();
    }
    let mut problems = Vec::new();
    let mut found = Vec::new();
    let mut csvs = Vec::new();
    for (name, bytes) in files {
        let object = match read_file(name, bytes.as_ref()) {
            Ok(read) => read.object,
            Err(reason) => {
                if reason.is_broken_manifest(name) {
                    problems.push(format!("{name}: {reason}"));
                }
                continue;
            }
        };
        let kind = text(&object, "kind");
        let known = KINDS.contains(&kind) || OPTIONAL_KINDS.contains(&kind);
        if media_type == MediaType::RegistryV1 && !known {
            problems.push(format!(
                "{kind} is not supported type for registryV1 bundle: {name}"
            ));
        } else {
            match kind {
                CSV_KIND => {
                    csvs.push(name.as_str());
                    csv::check(&object, validator, &mut problems);
                }
                CRD_KIND => crd::check(&object, &mut problems),
                _ => check_object(name, &object, &mut problems),
            }
        }
        found.push(BundleFile {
            name: name.clone(),
            object,
        });
    }
    if csvs.len() > 1 {
        problems.push(format!(
            "bundle has more than one ClusterServiceVersion: {}",
            csvs.join(" and ")
        ));
    }
    let objects: Vec<Value> = found.iter().map(|file| file.object.clone()).collect();
    check_together(&objects, &mut problems);
    check_twins(found, &mut problems);
    let csv = objects.iter().find(|object| object["kind"] == CSV_KIND);
    if let (true, Some(csv)) = (optional.operator_hub, csv) {
        problems.extend(hub::problems(csv, optional.categories.as_deref()));
    }
    if optional.bundle_objects {
        problems.extend(objects.iter().flat_map(objects::problems));
    }
    problems
}

/// Checks that objects of one name agree. CustomResourceDefinitions have a check of their own.
fn check_twins(found: Vec<BundleFile>, problems: &mut Vec<String>) {
    let united = unite(found);
    let others = united
        .iter()
        .filter(|file| file.object["kind"] != CRD_KIND && file.object["kind"] != CSV_KIND)
        .map(|file| (file.name.as_str(), &file.object));
    problems.extend(contradictions(others).iter().map(ToString::to_string));
}

/// Reports errors for which `kubectl` would reject any object.
fn check_object(file: &str, object: &Value, problems: &mut Vec<String>) {
    let wrong = metadata::problems(&object["metadata"]);
    match wrong.as_slice() {
        [] => {}
        [only] => problems.push(format!("error validating object metadata: {only}: {file}")),
        several => problems.push(format!(
            "error validating object metadata: [{}]: {file}",
            several.join(", ")
        )),
    }
}

/// Checks that the APIs that the CSV owns are defined, each version once.
fn check_together(objects: &[Value], problems: &mut Vec<String>) {
    let mut defined = BTreeSet::new();
    for crd in objects.iter().filter(|object| object["kind"] == CRD_KIND) {
        for key in crd::defined(crd) {
            if !defined.insert(key.clone()) {
                problems.push(format!("duplicate CRD {}/{} in bundle", key.name, key.version));
            }
        }
    }
    let Some(csv) = objects.iter().find(|object| object["kind"] == CSV_KIND) else {
        return;
    };
    let bundle = text(&csv["metadata"], "name");
    let mut owned = BTreeSet::new();
    for description in csv["spec"]["customresourcedefinitions"]["owned"]
        .as_array()
        .into_iter()
        .flatten()
    {
        let [group, name, version, kind] =
            ["group", "name", "version", "kind"].map(|field| text(description, field));
        let key = Defined {
            name: name.to_owned(),
            version: version.to_owned(),
            kind: kind.to_owned(),
        };
        // The group is part of the name; a description with a separate group matches nothing.
        let problem = if !group.is_empty() || !defined.contains(&key) {
            format!("owned CRD {name}/{version} not found in bundle {bundle:?}")
        } else if !owned.insert(key) {
            format!("owned CRD {name}/{version} is listed twice in bundle {bundle:?}")
        } else {
            continue;
        };
        problems.push(format!(
            "Error: Value {{{group} {kind} {name} {version}}}: {problem}"
        ));
    }
    csv::check_release(csv, problems);
}
