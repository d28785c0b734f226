//! Test programs of e2e, from its manifest.

use anyhow::{Context as _, bail};
use serde_json::{Value, json};

use super::E2E;
use crate::kubectl::text;
use crate::workspace;

/// The test programs in `e2e/Cargo.toml`.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Manifest {
    pub(super) tests: Vec<String>,
    /// Test programs that need the cluster alone, in order.
    pub(super) alone: Vec<String>,
}

impl Manifest {
    pub(super) fn read() -> anyhow::Result<Self> {
        Self::of(&workspace::metadata()?)
    }

    fn of(metadata: &Value) -> anyhow::Result<Self> {
        let package = list(&metadata["packages"])
            .find(|package| package["name"] == E2E)
            .context("the workspace has no package e2e")?;
        let tests: Vec<String> = list(&package["targets"])
            .filter(|target| target["kind"] == json!(["test"]))
            .map(|target| text(target, "/name").to_owned())
            .collect();
        let alone = package["metadata"]["tests"]["alone"].clone();
        let alone: Vec<String> = serde_json::from_value(alone)
            .context("package.metadata.tests.alone of e2e/Cargo.toml is no list of names")?;
        if let Some(name) = alone.iter().find(|name| !tests.contains(name)) {
            bail!("package.metadata.tests.alone of e2e/Cargo.toml names {name}, which is no test");
        }
        Ok(Self { tests, alone })
    }
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
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
            Manifest::of(&serde_json::from_str(&text).unwrap())
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
    }
}
