//! Bundle and catalog images, built by `opm`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context as _;
use serde::Serialize;
use serde_json::{Value, json};

use crate::{files, process};

/// A bundle folder and the name under which its image is published.
#[derive(Debug, Clone)]
pub struct Bundle {
    /// Folder with `manifests/` and `metadata/`.
    pub folder: PathBuf,
    /// Reference of the bundle image.
    pub image: String,
}

/// An entry of a channel.
#[derive(Debug, Clone, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Entry {
    /// Name of the ClusterServiceVersion.
    pub name: String,
    /// Name of the entry that it replaces.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replaces: Option<String>,
    /// Names of the entries that it skips.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub skips: Vec<String>,
    /// Range of versions that it replaces directly.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub skip_range: Option<String>,
}

/// A package to publish in a catalog.
#[derive(Debug, Clone)]
pub struct Package {
    /// Name of the package.
    pub name: String,
    /// Name of the default channel.
    pub default_channel: String,
    /// Channels with their entries.
    pub channels: Vec<(String, Vec<Entry>)>,
    /// Bundles of all channels.
    pub bundles: Vec<Bundle>,
}

/// Runs a built `opm`.
#[derive(Debug, Clone)]
pub struct Opm {
    program: PathBuf,
}

impl Opm {
    /// Uses the binary at `program`.
    pub fn new(program: PathBuf) -> Self {
        Self { program }
    }

    /// Returns the path of the binary.
    pub fn program(&self) -> &Path {
        &self.program
    }

    /// Runs it and returns its output.
    ///
    /// # Errors
    /// The command fails; the error includes its messages.
    pub fn run(&self, arguments: &[&str]) -> anyhow::Result<String> {
        process::run(Command::new(&self.program).args(arguments))
    }

    /// Writes the image of a bundle folder as a tar of an OCI layout.
    ///
    /// # Errors
    /// The folder is no valid bundle.
    pub fn bundle_image(&self, bundle: &Bundle, out: &Path) -> anyhow::Result<()> {
        self.run(&[
            "alpha",
            "image",
            "bundle",
            utf8(&bundle.folder)?,
            "-t",
            &bundle.image,
            "-o",
            utf8(out)?,
        ])?;
        Ok(())
    }

    /// Writes the file-based catalog of `packages` to `folder` and validates it.
    ///
    /// # Errors
    /// A bundle cannot be rendered, or the catalog is invalid.
    pub fn write_catalog(&self, packages: &[Package], folder: &Path) -> anyhow::Result<()> {
        files::remove(folder)?;
        for package in packages {
            let mut text = self.run(&[
                "init",
                &package.name,
                "--default-channel",
                &package.default_channel,
                "-o",
                "json",
            ])?;
            for (channel, entries) in &package.channels {
                text.push_str(&channel_blob(&package.name, channel, entries).to_string());
                text.push('\n');
            }
            for bundle in &package.bundles {
                text.push_str(&self.run(&[
                    "render",
                    utf8(&bundle.folder)?,
                    "--alpha-image-ref-template",
                    &bundle.image,
                    "-o",
                    "json",
                ])?);
            }
            let home = folder.join(&package.name);
            fs::create_dir_all(&home)?;
            fs::write(home.join("catalog.json"), text)?;
        }
        self.run(&["validate", utf8(folder)?])?;
        Ok(())
    }

    /// Writes the image of a catalog folder, based on the `opm` image at `base`.
    ///
    /// # Errors
    /// The folder or the base image cannot be read.
    pub fn catalog_image(&self, folder: &Path, base: &Path, image: &str, out: &Path) -> anyhow::Result<()> {
        self.run(&[
            "alpha",
            "image",
            "catalog",
            utf8(folder)?,
            "--opm-image",
            utf8(base)?,
            "-t",
            image,
            "-o",
            utf8(out)?,
        ])?;
        Ok(())
    }
}

fn channel_blob(package: &str, channel: &str, entries: &[Entry]) -> Value {
    json!({ "schema": "olm.channel", "package": package, "name": channel, "entries": entries })
}

fn utf8(path: &Path) -> anyhow::Result<&str> {
    path.to_str()
        .with_context(|| format!("the path {} is not UTF-8", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_channel_blob_holds_only_explicit_values() {
        let entries = [
            Entry {
                name: "a.v1".into(),
                ..Entry::default()
            },
            Entry {
                name: "a.v2".into(),
                replaces: Some("a.v1".into()),
                ..Entry::default()
            },
        ];
        assert_eq!(
            channel_blob("a", "stable", &entries),
            json!({"schema": "olm.channel", "package": "a", "name": "stable",
                   "entries": [{"name": "a.v1"}, {"name": "a.v2", "replaces": "a.v1"}]})
        );
    }
}
