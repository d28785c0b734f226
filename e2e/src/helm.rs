//! Helm for one cluster, and the values of a user of it.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, ensure};
use serde_json::json;
use xtask::cluster::{self, Cluster};
use xtask::images;
use xtask::progress::Progress;

/// Helm for one cluster, with its own home directory.
#[derive(Debug)]
pub struct Helm {
    /// The program.
    pub program: PathBuf,
    /// The cluster.
    pub cluster: Cluster,
    /// Its home directory, for other files, too.
    pub home: tempfile::TempDir,
}

impl Helm {
    /// Returns helm, built if needed, for a cluster.
    ///
    /// # Errors
    /// It cannot be built.
    pub fn new(cluster: Cluster) -> anyhow::Result<Self> {
        Ok(Self {
            program: cluster::helm(&Progress::start())?,
            cluster,
            home: tempfile::tempdir()?,
        })
    }

    /// Runs helm and returns its output.
    ///
    /// # Errors
    /// It fails; the error has its error text.
    pub fn run(&self, arguments: &[&str]) -> anyhow::Result<String> {
        output(self.command(&self.program).args(arguments))
    }

    /// Returns a command with access to the cluster and helm's home.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = self.cluster.command(program);
        for (variable, folder) in [
            ("HELM_CACHE_HOME", "cache"),
            ("HELM_CONFIG_HOME", "config"),
            ("HELM_DATA_HOME", "data"),
        ] {
            command.env(variable, self.home.path().join(folder));
        }
        command
    }
}

/// Runs a command and returns its output.
///
/// # Errors
/// It fails; the error has its error text.
pub fn output(command: &mut Command) -> anyhow::Result<String> {
    let output = command.output()?;
    let stderr = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{command:?}: {stderr}");
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Writes the values of a user of this cluster to a file in `folder`: the built images, and the access to its registry. Returns the file.
///
/// # Errors
/// An image is missing, or a file cannot be read or written.
pub fn values(cluster: &Cluster, built: &images::Built, folder: &Path) -> anyhow::Result<PathBuf> {
    let digest = |name: &str| {
        let reference = format!("/{name}:{}", images::VERSION);
        let image = built
            .images
            .iter()
            .find(|image| image.reference.ends_with(&reference));
        image
            .map(|image| image.digest.clone())
            .with_context(|| format!("no image {name}"))
    };
    let mut registries = BTreeMap::new();
    for entry in std::fs::read_dir(cluster.registry_config())? {
        let host = entry?.file_name().to_string_lossy().into_owned();
        if let Ok(text) = std::fs::read_to_string(cluster.registry_config().join(&host).join("hosts.toml")) {
            registries.insert(host, text);
        }
    }
    let values = json!({
        "image": {"olm": {"digest": digest("olm")?}, "opm": {"digest": digest("opm")?}},
        "catalog": {"registryConfig": registries},
    });
    let file = folder.join("values.yaml");
    std::fs::write(&file, values.to_string())?;
    Ok(file)
}
