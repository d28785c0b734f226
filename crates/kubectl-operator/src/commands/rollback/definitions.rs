//! Compares the CustomResourceDefinitions of the cluster with those of the older version, which replace them. Pure.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::bail;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::ResourceExt as _;
use olm_api::schema_changes::SchemaChanges;
use olm_api::v1alpha1::ClusterServiceVersion;
use serde::Deserialize as _;
use serde_json::Value;

use crate::catalogs::Bundle;
use crate::commands::uninstall::{Definition, Objects, Removal};
use crate::terminal::plain;

/// Maximum number of removed fields listed per definition.
const MAX_FIELDS: usize = 50;

/// CustomResourceDefinitions by name, each with its versions.
pub(super) type Definitions = BTreeMap<String, BTreeSet<String>>;

/// The definitions that the older version replaces.
#[derive(Debug, Default)]
pub(super) struct Replaced {
    /// Their names.
    pub names: BTreeSet<String>,
    /// Versions and fields that the older definitions lack, or whose loss is possible.
    pub losses: Vec<String>,
    /// True if a definition with losses has objects, which may lose data.
    pub loses_data: bool,
}

/// Returns the definitions that the older version replaces.
///
/// # Errors
/// A definition cannot be read, or the older version lacks a version in which objects are stored.
pub(super) fn replaced(
    removal: &Removal,
    target: &str,
    bundle: &Bundle,
    notes: &mut Vec<String>,
) -> anyhow::Result<Replaced> {
    let known = definitions(&bundle.objects);
    let csv = removal.csvs.iter().find(|csv| csv.name_any() == target);
    let described = match (csv, &bundle.csv) {
        (Some(csv), _) => described(csv),
        (None, Some(csv)) => {
            let csv = ClusterServiceVersion::deserialize(csv);
            csv.map(|csv| described(&csv)).unwrap_or_default()
        }
        (None, None) => Definitions::new(),
    };
    let mut replaced = Replaced::default();
    for definition in &removal.definitions {
        let name = &definition.name;
        if let (None, Objects::Unknown(cause)) = (&definition.crd, &definition.objects) {
            bail!("cannot roll back to {target} without knowing CustomResourceDefinition {name}: {cause}");
        }
        let status = definition.crd.as_ref().and_then(|crd| crd.status.as_ref());
        let stored = status.and_then(|status| status.stored_versions.clone());
        let lost = |has: Option<&BTreeSet<String>>| {
            let mut lost = stored.clone().unwrap_or_default();
            lost.retain(|version| has.is_none_or(|has| !has.contains(version)));
            lost.join(", ")
        };
        let (lost, is_known) = match bundle.objects.is_empty() {
            // A definition that the older version does not have is not changed.
            false if !known.contains_key(name) => continue,
            true if !described.is_empty() && !described.contains_key(name) => continue,
            false => (lost(known.get(name)), true),
            true => (lost(described.get(name)), false),
        };
        match (lost.as_str(), is_known) {
            ("", _) => {}
            (lost, true) => bail!(
                "cannot roll back to {target}: objects of CustomResourceDefinition {name} are stored in {lost}, which {target} does not have; migrate them first, see status.storedVersions"
            ),
            (lost, false) => notes.push(format!(
                "the catalog does not serve the definitions of {target}; if its CustomResourceDefinition {name} lacks version {lost}, in which objects are stored, OLM does not install it"
            )),
        }
        replaced.names.insert(name.clone());
        let losses = losses(definition, target, bundle);
        replaced.loses_data |= !losses.is_empty() && definition.has_objects();
        replaced.losses.extend(losses);
    }
    Ok(replaced)
}

/// Returns what a definition loses, also without objects: another operator may need it.
fn losses(definition: &Definition, target: &str, bundle: &Bundle) -> Vec<String> {
    let Some(crd) = &definition.crd else {
        return Vec::new();
    };
    let name = plain(&definition.name);
    let older = bundle.objects.iter().find(|object| {
        object["kind"] == "CustomResourceDefinition" && object["metadata"]["name"] == *definition.name
    });
    let Some(older) = older else {
        return vec![format!(
            "unknown fields of CustomResourceDefinition {name}: the catalog has only the image of {target}"
        )];
    };
    let lost = removed(crd, older);
    lost.iter()
        .map(|field| format!("{} of CustomResourceDefinition {name}", plain(field)))
        .collect()
}

/// Returns versions, and fields such as `v1: spec.size`, that a definition has and the older one lacks.
fn removed(crd: &CustomResourceDefinition, older: &Value) -> Vec<String> {
    let spec = serde_json::to_value(&crd.spec).unwrap_or_default();
    let older = schemas(&older["spec"]);
    let mut changes = SchemaChanges::default();
    for (version, schema) in schemas(&spec) {
        match older.get(version) {
            Some(older) => changes.add(schema, older, &format!("{version}: ")),
            None => changes.removed.push(format!("version {version}")),
        }
    }
    changes.removed.truncate(MAX_FIELDS);
    changes.removed
}

/// Returns the schemas of a definition by version.
fn schemas(spec: &Value) -> BTreeMap<&str, &Value> {
    // Definitions of v1beta1 may have one schema for all versions, and one version alone.
    let common = &spec["validation"]["openAPIV3Schema"];
    let versions = spec["versions"].as_array().into_iter().flatten();
    let own = versions.filter_map(|version| {
        let schema = &version["schema"]["openAPIV3Schema"];
        let schema = if schema.is_null() { common } else { schema };
        Some((version["name"].as_str()?, schema))
    });
    let alone = spec["version"].as_str().map(|version| (version, common));
    alone.into_iter().chain(own).collect()
}

/// Returns the CustomResourceDefinitions among the objects of a bundle.
pub(super) fn definitions(objects: &[Value]) -> Definitions {
    let crds = objects
        .iter()
        .filter(|object| object["kind"] == "CustomResourceDefinition");
    crds.filter_map(|crd| {
        let versions = schemas(&crd["spec"]);
        let name = crd["metadata"]["name"].as_str()?;
        Some((name.to_owned(), versions.into_keys().map(str::to_owned).collect()))
    })
    .collect()
}

/// Returns the versions of definitions that a ClusterServiceVersion describes.
fn described(csv: &ClusterServiceVersion) -> Definitions {
    let mut found = Definitions::new();
    for crd in csv.spec.owned_crds() {
        found
            .entry(crd.name.clone())
            .or_default()
            .insert(crd.version.clone());
    }
    found
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn versions_and_fields_that_the_older_definition_lacks_are_lost() {
        let version = |name: &str, schema: &Value| json!({"name": name, "served": true, "storage": name == "v1", "schema": {"openAPIV3Schema": schema}});
        let object = |properties: &Value| json!({"type": "object", "properties": properties});
        let member = object(&json!({"a": {"type": "string"}, "b": {"type": "string"}}));
        let newer = object(&json!({
            "size": {"type": "integer"},
            "list": {"type": "array", "items": member},
            "free": member,
        }));
        let crd: CustomResourceDefinition =
            serde_json::from_value(json!({"metadata": {"name": "etcds.example.com"}, "spec": {
            "group": "example.com", "scope": "Namespaced", "names": {"kind": "Etcd", "plural": "etcds"},
            "versions": [version("v1", &newer), version("v2", &newer)]}}))
            .unwrap();
        let older = object(&json!({
            "list": {"type": "array", "items": object(&json!({"a": {"type": "string"}}))},
            "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
        }));
        let older = json!({"spec": {"versions": [version("v1", &older)]}});
        let mut lost = removed(&crd, &older);
        lost.sort();
        assert_eq!(lost, ["v1: list[].b", "v1: size", "version v2"]);
        let same = json!({"spec": {"versions": [version("v1", &newer), version("v2", &newer)]}});
        assert!(removed(&crd, &same).is_empty());
    }
}
