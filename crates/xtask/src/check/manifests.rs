//! Dependencies between packages, from their manifests.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use serde::Deserialize;
use serde_json::Value;

use crate::{process, workspace};

/// A package of this workspace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Package {
    pub(super) name: String,
    /// Packages of this workspace that it is built with, except for its tests.
    pub(super) needs: BTreeSet<String>,
}

/// Returns all packages.
///
/// # Errors
/// cargo fails.
pub(super) fn packages() -> anyhow::Result<Vec<Package>> {
    described(&workspace::metadata()?)
}

/// Returns the packages of cargo's metadata.
fn described(metadata: &Value) -> anyhow::Result<Vec<Package>> {
    #[derive(Deserialize)]
    struct Described {
        name: String,
        dependencies: Vec<Dependency>,
    }
    #[derive(Deserialize)]
    struct Dependency {
        name: String,
        kind: Option<String>,
        path: Option<PathBuf>,
    }
    let packages: Vec<Described> = Vec::deserialize(&metadata["packages"])?;
    let needs = |package: &Described| -> BTreeSet<String> {
        let ours = package
            .dependencies
            .iter()
            .filter(|dependency| dependency.path.is_some() && dependency.kind.as_deref() != Some("dev"));
        ours.map(|dependency| dependency.name.clone()).collect()
    };
    Ok(packages
        .into_iter()
        .map(|package| Package {
            needs: needs(&package),
            name: package.name,
        })
        .collect())
}

/// Returns differences from the table: dependencies that it does not permit, and entries without use.
pub(super) fn against_the_table(
    packages: &[Package],
    table: &BTreeMap<String, BTreeSet<String>>,
) -> Vec<String> {
    let mut faults = Vec::new();
    for Package { name, needs, .. } in packages {
        let Some(allowed) = table.get(name) else {
            faults.push(format!("{name} has no line in the table"));
            continue;
        };
        faults.extend(
            needs
                .difference(allowed)
                .map(|other| format!("{name} may not depend on {other}")),
        );
        faults.extend(
            allowed
                .difference(needs)
                .map(|other| format!("{name} no longer depends on {other}; take that from the table")),
        );
    }
    faults.extend(
        table
            .keys()
            .filter(|name| packages.iter().all(|package| package.name != **name))
            .map(|name| format!("there is no package {name}")),
    );
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
        let packages = described(&metadata).unwrap();
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
