//! Dependencies between packages, from their manifests.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use serde_json::Value;

use crate::kubectl::text;
use crate::{process, workspace};

/// Packages of this workspace by name, each with those of them that it is built with, except for its tests.
pub(super) type Table = BTreeMap<String, BTreeSet<String>>;

/// Returns all packages.
///
/// # Errors
/// cargo fails.
pub(super) fn packages() -> anyhow::Result<Table> {
    Ok(described(&workspace::metadata()?))
}

/// Returns the packages of cargo's metadata.
fn described(metadata: &Value) -> Table {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let name = |value: &Value| text(value, "/name").to_owned();
    let needs = |package: &Value| -> BTreeSet<String> {
        let dependencies = list(&package["dependencies"]).into_iter();
        let ours = dependencies.filter(|needed| needed["path"].is_string() && needed["kind"] != "dev");
        ours.map(|needed| name(&needed)).collect()
    };
    let packages = list(&metadata["packages"]);
    packages
        .iter()
        .map(|package| (name(package), needs(package)))
        .collect()
}

/// Returns differences from the table: dependencies that it does not permit, and entries without use.
pub(super) fn against_the_table(packages: &Table, table: &Table) -> Vec<String> {
    let mut faults = Vec::new();
    for (name, needs) in packages {
        let Some(allowed) = table.get(name) else {
            faults.push(format!("{name} has no line in the table"));
            continue;
        };
        let excess = needs.difference(allowed);
        faults.extend(excess.map(|other| format!("{name} may not depend on {other}")));
        let unused = allowed.difference(needs);
        faults.extend(
            unused.map(|other| format!("{name} no longer depends on {other}; take that from the table")),
        );
    }
    let unknown = table.keys().filter(|name| !packages.contains_key(*name));
    faults.extend(unknown.map(|name| format!("there is no package {name}")));
    faults
}

/// Packages that must not be dependencies, even indirect ones.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Ban {
    /// Reason of the rule, for the error.
    why: String,
    /// Packages to which the rule applies; all of the workspace if empty.
    #[serde(default)]
    packages: BTreeSet<String>,
    /// Names of forbidden packages.
    without: BTreeSet<String>,
}

/// Returns forbidden packages that are built in. Dependencies of tests and build scripts are excluded.
///
/// # Errors
/// cargo fails.
pub(super) fn banned(bans: &[Ban]) -> anyhow::Result<Vec<String>> {
    let mut faults = Vec::new();
    for ban in bans {
        if ban.packages.is_empty() {
            faults.extend(ban.broken("the workspace", &built_with(&["--workspace"])?));
        }
        for package in &ban.packages {
            faults.extend(ban.broken(package, &built_with(&["--package", package])?));
        }
    }
    Ok(faults)
}

impl Ban {
    fn broken(&self, who: &str, built_with: &BTreeSet<String>) -> Vec<String> {
        let found = self.without.intersection(built_with);
        let fault = |name| {
            format!(
                "{who} is built with {name} ({}); cargo tree --invert {name} tells by whom",
                self.why
            )
        };
        found.map(fault).collect()
    }
}

fn built_with(whom: &[&str]) -> anyhow::Result<BTreeSet<String>> {
    let mut tree = workspace::cargo();
    tree.args(["tree", "--edges", "normal", "--prefix", "none", "--format", "{p}"])
        .args(whom);
    let names = process::run(&mut tree)?;
    Ok(names
        .lines()
        .filter_map(|line| line.split(' ').next())
        .map(str::to_owned)
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn a_dependency_is_allowed_by_the_table_or_a_fault() {
        let metadata = serde_json::json!({"packages": [
            {"name": "a", "dependencies": [
                {"name": "b", "kind": null, "path": "/w/b"},
                {"name": "c", "kind": "dev", "path": "/w/c"},
                {"name": "out-side", "kind": null, "path": null}]},
            {"name": "b", "dependencies": []}]});
        let packages = described(&metadata);
        let table = |lines: &[(&str, &[&str])]| {
            lines
                .iter()
                .map(|(name, allowed)| ((*name).to_owned(), set(allowed)))
                .collect()
        };
        assert!(against_the_table(&packages, &table(&[("a", &["b"]), ("b", &[])])).is_empty());
        assert_eq!(
            against_the_table(&packages, &table(&[("a", &["c"]), ("d", &[])])),
            [
                "a may not depend on b",
                "a no longer depends on c; take that from the table",
                "b has no line in the table",
                "there is no package d"
            ]
        );
    }

    #[test]
    fn what_is_built_in_is_found_through_others() {
        let ban = |packages: &str, without: &str| {
            let ban = format!("{{why: small, packages: [{packages}], without: [{without}]}}");
            banned(&[serde_saphyr::from_str(&ban).unwrap()]).unwrap()
        };
        // Only tests use insta, and serde includes its macros.
        assert_eq!(
            ban("xtask", "serde_derive, insta"),
            ["xtask is built with serde_derive (small); cargo tree --invert serde_derive tells by whom"]
        );
        assert_eq!(ban("", "insta"), [""; 0]);
        assert_eq!(ban("", "serde_derive").len(), 1);
    }
}
