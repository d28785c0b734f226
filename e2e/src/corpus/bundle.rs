//! A bundle folder as the test reads it: its ClusterServiceVersion and the other objects.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, bail};
use serde_json::Value;

/// A bundle.
#[derive(Debug, Clone, PartialEq)]
pub struct Bundle {
    /// The ClusterServiceVersion.
    pub csv: Value,
    /// All other manifests, in the order of their file names.
    pub objects: Vec<Value>,
}

impl Bundle {
    /// Reads the manifests of a bundle folder.
    ///
    /// # Errors
    /// If a file cannot be read or is not YAML, or there is not exactly one ClusterServiceVersion.
    pub fn read(folder: &Path) -> anyhow::Result<Self> {
        let home = folder.join("manifests");
        let mut files: Vec<_> = fs::read_dir(&home)
            .with_context(|| format!("cannot read {}", home.display()))?
            .map(|entry| entry.map(|entry| entry.path()))
            .collect::<Result<_, _>>()?;
        files.sort();
        let mut manifests = Vec::new();
        for file in files {
            let text = fs::read(&file).with_context(|| format!("cannot read {}", file.display()))?;
            let (manifest, _) = olm_fbc::yaml::parse_first(&text)
                .with_context(|| format!("{} is no YAML", file.display()))?;
            manifests.push(manifest);
        }
        Self::new(manifests).with_context(|| format!("{} is no bundle", folder.display()))
    }

    /// Creates a bundle from these manifests.
    ///
    /// # Errors
    /// If they do not contain exactly one ClusterServiceVersion.
    pub fn new(manifests: Vec<Value>) -> anyhow::Result<Self> {
        let (mut csvs, objects): (Vec<_>, Vec<_>) = manifests
            .into_iter()
            .partition(|manifest| manifest["kind"] == "ClusterServiceVersion");
        match (csvs.pop(), csvs.len()) {
            (Some(csv), 0) => Ok(Self { csv, objects }),
            (last, rest) => bail!(
                "it has {} ClusterServiceVersions",
                rest + usize::from(last.is_some())
            ),
        }
    }

    /// Returns the name of the ClusterServiceVersion.
    pub fn name(&self) -> &str {
        self.csv["metadata"]["name"].as_str().unwrap_or_default()
    }

    /// Returns the Deployments of the install strategy: name and spec.
    pub fn deployments(&self) -> impl Iterator<Item = (&str, &Value)> {
        list(&self.csv["spec"]["install"]["spec"]["deployments"])
            .iter()
            .map(|deployment| {
                (
                    deployment["name"].as_str().unwrap_or_default(),
                    &deployment["spec"],
                )
            })
    }

    /// Returns the entries of `permissions` or `clusterPermissions`.
    pub fn permissions(&self, field: &str) -> &[Value] {
        list(&self.csv["spec"]["install"]["spec"][field])
    }

    /// Returns every image its Deployments run.
    pub fn images(&self) -> impl Iterator<Item = &str> {
        self.deployments()
            .flat_map(|(_, spec)| containers(spec))
            .filter_map(|(_, container)| container["image"].as_str())
    }
}

/// Returns the containers of a Deployment spec; true for init containers.
pub fn containers(spec: &Value) -> impl Iterator<Item = (bool, &Value)> {
    let pod = &spec["template"]["spec"];
    let first = list(&pod["initContainers"])
        .iter()
        .map(|container| (true, container));
    first.chain(
        list(&pod["containers"])
            .iter()
            .map(|container| (false, container)),
    )
}

/// Returns the items of a list; empty if it is absent.
pub fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// Returns the texts of a list.
pub fn words(value: &Value) -> Vec<String> {
    list(value)
        .iter()
        .filter_map(Value::as_str)
        .map(str::to_owned)
        .collect()
}
