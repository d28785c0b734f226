//! Test programs of e2e, from its manifest.

use anyhow::{Context as _, bail};
use serde::Deserialize;

use super::E2E;
use crate::workspace;

/// The test programs in `e2e/Cargo.toml`.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Manifest {
    pub(super) tests: Vec<String>,
    /// Test programs that need the cluster alone, in order.
    pub(super) alone: Vec<String>,
}

impl Manifest {
    /// Returns the tests `names`, or all if it is empty.
    pub(super) fn chosen(self, names: &[String]) -> anyhow::Result<Vec<String>> {
        if let Some(name) = names.iter().find(|name| !self.tests.contains(name)) {
            bail!("e2e has no test program {name}; it has {}", self.tests.join(", "));
        }
        Ok(if names.is_empty() {
            self.tests
        } else {
            names.to_vec()
        })
    }

    pub(super) fn read() -> anyhow::Result<Self> {
        let output = workspace::cargo()
            .args(["metadata", "--no-deps", "--format-version", "1"])
            .output()
            .context("cannot run cargo metadata")?;
        Self::of(&output.stdout)
    }

    fn of(metadata: &[u8]) -> anyhow::Result<Self> {
        #[derive(Deserialize)]
        struct Metadata {
            packages: Vec<Package>,
        }
        #[derive(Deserialize)]
        struct Package {
            name: String,
            #[serde(default)]
            targets: Vec<Target>,
            metadata: Option<serde_json::Value>,
        }
        #[derive(Deserialize)]
        struct Target {
            name: String,
            kind: Vec<String>,
        }
        let metadata: Metadata =
            serde_json::from_slice(metadata).context("cargo metadata did not print JSON")?;
        let package = metadata
            .packages
            .into_iter()
            .find(|package| package.name == E2E)
            .context("the workspace has no package e2e")?;
        let list = package
            .metadata
            .and_then(|metadata| metadata.pointer("/tests/alone").cloned())
            .context("e2e/Cargo.toml has no list package.metadata.tests.alone")?;
        let tests: Vec<String> = package
            .targets
            .into_iter()
            .filter(|target| target.kind == ["test"])
            .map(|target| target.name)
            .collect();
        let alone: Vec<String> = serde_json::from_value(list)
            .context("package.metadata.tests.alone of e2e/Cargo.toml is no list of names")?;
        if let Some(name) = alone.iter().find(|name| !tests.contains(name)) {
            bail!("package.metadata.tests.alone of e2e/Cargo.toml names {name}, which is no test");
        }
        Ok(Self { tests, alone })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tests_that_run_alone_are_read_from_the_manifest_of_e2e() {
        let of = |alone: &str| {
            let text = format!(
                r#"{{"packages": [{{"name": "opm", "metadata": null}}, {{"name": "e2e", "metadata": {alone},
                "targets": [{{"name": "e2e", "kind": ["lib"]}}, {{"name": "crash", "kind": ["test"]}}]}}]}}"#
            );
            Manifest::of(text.as_bytes())
        };
        let manifest = of(r#"{"tests": {"alone": ["crash"]}}"#).unwrap();
        assert_eq!(
            (manifest.tests, manifest.alone),
            (vec!["crash".to_owned()], vec!["crash".to_owned()])
        );
        assert!(of("null").is_err());
        assert!(of(r#"{"tests": {"alone": ["crush"]}}"#).is_err());
        let ours = Manifest::read().unwrap();
        assert!(ours.alone.contains(&"crash".to_owned()));
        assert!(ours.chosen(&["crush".to_owned()]).is_err());
    }
}
