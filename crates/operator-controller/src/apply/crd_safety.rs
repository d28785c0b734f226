//! Checks that an upgrade of a CustomResourceDefinition breaks neither stored objects nor clients. No I/O.
//!
//! The rules and texts are those of upstream's preflight `CRDUpgradeSafety`, which uses the library `crdify`. Two things differ.
//! Descriptions inside `additionalProperties`, `anyOf` and the like may change as well. And the order of the lines is fixed.

mod rules;
mod schema;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use go_compat::quote;
use kube::core::Version;
use serde_json::Value;

use self::rules::Change;
use self::schema::flatten;
use super::phase::Phase;

/// A definition that exists in the cluster, and its new form.
#[derive(Debug, Clone)]
pub struct CrdUpgrade<'a> {
    /// Definition in the cluster, with its status.
    pub old: Value,
    /// Definition of the bundle.
    pub new: &'a Value,
}

/// Checks the upgrades of all definitions that exist in the cluster. New definitions need no check.
///
/// # Errors
/// The text contains every violation, one per line. Nothing must be applied then.
pub fn check_upgrades(upgrades: &[CrdUpgrade<'_>]) -> Result<(), String> {
    let refused: Vec<String> = upgrades.iter().filter_map(refusal).collect();
    if refused.is_empty() {
        Ok(())
    } else {
        Err(refused.join("\n"))
    }
}

/// Returns upstream's error for a definition that cannot be read from the cluster. The upgrade is refused then.
pub fn lookup_error(name: &str, error: &str) -> String {
    format!("getting existing resource for CRD {}: {error}", quote(name))
}

fn refusal(upgrade: &CrdUpgrade<'_>) -> Option<String> {
    let lines = violations(&upgrade.old, upgrade.new);
    let name = upgrade.new["metadata"]["name"].as_str().unwrap_or_default();
    (!lines.is_empty()).then(|| format!("validating upgrade for CRD {}: {}", quote(name), lines.join("\n")))
}

/// Returns the violations of the upgrade from `old` to `new`, one line each.
fn violations(old: &Value, new: &Value) -> Vec<String> {
    let mut lines = removed_fields(old, new);
    lines.extend(changed_scope(old, new));
    lines.extend(removed_stored_versions(old, new));
    for old_version in versions(old) {
        if let Some(new_version) = version(new, name_of(old_version)) {
            let changes = changes(old_version, new_version);
            lines.extend(changes.iter().map(|change| change.line(name_of(old_version))));
        }
    }
    lines.extend(served_violations(old, new));
    lines
}

fn versions(crd: &Value) -> impl Iterator<Item = &Value> {
    crd["spec"]["versions"].as_array().into_iter().flatten()
}

fn version<'a>(crd: &'a Value, name: &str) -> Option<&'a Value> {
    versions(crd).find(|version| name_of(version) == name)
}

fn name_of(version: &Value) -> &str {
    version["name"].as_str().unwrap_or_default()
}

fn removed_fields(old: &Value, new: &Value) -> Vec<String> {
    let mut lines = Vec::new();
    for new_version in versions(new) {
        let name = name_of(new_version);
        let Some(old_version) = version(old, name) else {
            continue;
        };
        let kept = flatten(new_version);
        let removed = flatten(old_version)
            .into_keys()
            .filter(|path| !kept.contains_key(path));
        lines.extend(removed.map(|path| format!("existingFieldRemoval: removed field : {name}.{path}")));
    }
    lines
}

fn changed_scope(old: &Value, new: &Value) -> Option<String> {
    let scope = |crd: &Value| crd["spec"]["scope"].as_str().unwrap_or_default().to_owned();
    let (old, new) = (scope(old), scope(new));
    (old != new).then(|| format!("scope: scope changed : {} -> {}", quote(&old), quote(&new)))
}

fn removed_stored_versions(old: &Value, new: &Value) -> Option<String> {
    let declared: BTreeSet<&str> = versions(new).map(name_of).collect();
    let stored = old["status"]["storedVersions"].as_array().into_iter().flatten();
    let removed: Vec<&str> = stored
        .filter_map(Value::as_str)
        .filter(|version| !declared.contains(version))
        .collect();
    (!removed.is_empty()).then(|| {
        let removed = removed.join(" ");
        format!("storedVersionRemoval: stored versions removed : [{removed}]")
    })
}

/// Returns the changes of each property of `old` to `new`, which may be two versions of one definition. Added properties are no change.
fn changes(old: &Value, new: &Value) -> Vec<Change> {
    let (old, new) = (flatten(old), flatten(new));
    let empty = schema::Schema::new();
    let mut found = Vec::new();
    for (path, old_schema) in &old {
        let new_schema = new.get(path).unwrap_or(&empty);
        found.extend(rules::compare(path, old_schema, new_schema));
    }
    found
}

/// Returns the violations between served versions that the old definition does not have already. A webhook can convert anything.
fn served_violations(old: &Value, new: &Value) -> Vec<String> {
    if new["spec"]["conversion"]["strategy"] == "Webhook" {
        return Vec::new();
    }
    let known = served_changes(old);
    let found = served_changes(new).into_iter();
    found
        .filter(|change| !known.contains(change))
        .map(|(pair, change)| change.line(&pair))
        .collect()
}

/// Returns the changes from each served version to each later one, with the names of both.
fn served_changes(crd: &Value) -> Vec<(String, Change)> {
    let mut served: Vec<&Value> = versions(crd)
        .filter(|version| version["served"] == true)
        .collect();
    // As in Kubernetes: v1alpha1, v1beta1, v1, v2. Other names come first.
    served.sort_by_cached_key(|version| Version::parse(name_of(version)).priority());
    let mut found = Vec::new();
    for (index, early) in served.iter().enumerate() {
        for late in served.iter().skip(index + 1) {
            let pair = format!("{} -> {}", name_of(early), name_of(late));
            found.extend(
                changes(early, late)
                    .into_iter()
                    .map(|change| (pair.clone(), change)),
            );
        }
    }
    found
}

/// Returns the CustomResourceDefinitions of a revision, which are to be checked against those in the cluster.
pub fn definitions(phases: &[Phase]) -> impl Iterator<Item = &Value> {
    let objects = phases.iter().flat_map(|phase| &phase.objects);
    objects.filter(|object| {
        object["apiVersion"] == "apiextensions.k8s.io/v1" && object["kind"] == "CustomResourceDefinition"
    })
}
