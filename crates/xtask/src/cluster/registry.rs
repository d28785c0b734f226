//! OCI registry of the cluster: plain HTTP on the node's address, without authentication.

use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, bail};
use serde_json::{Value, json};

use super::address::Addresses;
use super::layout::Layout;
use super::processes::Program;
use super::{config_file, network};

/// Maximum number of attempts to push an image.
const PUSHES: usize = 3;

/// Writes the registry's configuration.
///
/// # Errors
/// The file cannot be written.
pub(super) fn configure(layout: &Layout, addresses: Addresses) -> anyhow::Result<()> {
    let text = serde_json::to_string_pretty(&render_config(layout, addresses))?;
    config_file::write(&config_path(layout), &text)
}

pub(super) fn program(layout: &Layout) -> Program {
    Program::new(
        "docker-registry",
        [
            "docker-registry".to_owned(),
            "serve".to_owned(),
            config_path(layout).display().to_string(),
        ],
    )
}

fn config_path(layout: &Layout) -> PathBuf {
    // The registry reads YAML, and JSON is valid YAML.
    layout.config().join("registry.yml")
}

fn render_config(layout: &Layout, addresses: Addresses) -> Value {
    json!({
        "version": 0.1,
        "log": { "level": "warn", "accesslog": { "disabled": true } },
        "storage": {
            "filesystem": { "rootdirectory": layout.state().join("registry") },
            "delete": { "enabled": true },
        },
        "http": { "addr": addresses.registry() },
    })
}

/// Pushes an image tar (OCI layout or `docker save`) under each of `references`, or under its own names. Returns the pushed
/// references.
///
/// # Errors
/// The tar is of neither kind, has no name and none is given, a reference is malformed, or the push fails.
pub(super) fn push(
    layout: &Layout,
    addresses: Addresses,
    tar: &Path,
    references: &[String],
) -> anyhow::Result<Vec<String>> {
    let archive = Archive::read(tar)?;
    let images = archive.select(references, tar)?;
    for (selector, reference) in &images {
        let target = format!(
            "docker://{}/{}",
            addresses.registry(),
            repository_path(reference)?
        );
        let source = format!("{}:{}{selector}", archive.transport(), tar.display());
        let mut skopeo = network::enter(layout, "skopeo");
        skopeo
            .args([
                "--insecure-policy",
                "copy",
                "--quiet",
                "--all",
                "--dest-tls-verify=false",
            ])
            .args(archive.keeps_digests().then_some("--preserve-digests"))
            .args([&source, &target])
            .env_remove("HTTP_PROXY")
            .env_remove("http_proxy")
            .stdin(Stdio::null());
        pushed(&mut skopeo).with_context(|| format!("cannot push {} as {reference}", tar.display()))?;
    }
    Ok(images.into_iter().map(|(_, reference)| reference).collect())
}

/// Runs skopeo and retries failures. With concurrent pushes the registry sometimes does not find a blob that was just pushed to
/// another repository.
fn pushed(skopeo: &mut Command) -> anyhow::Result<()> {
    for tries_left in (0..PUSHES).rev() {
        let output = skopeo.output().context("cannot run skopeo")?;
        if output.status.success() {
            return Ok(());
        }
        if tries_left == 0 {
            bail!("{}", String::from_utf8_lossy(&output.stderr).trim());
        }
    }
    Ok(())
}

/// Contents of an image tar.
#[derive(Debug, Default)]
struct Archive {
    is_oci: bool,
    /// Names of the images.
    names: Vec<String>,
    /// Number of images.
    count: usize,
}

impl Archive {
    fn read(tar: &Path) -> anyhow::Result<Self> {
        let file = fs::File::open(tar).with_context(|| format!("cannot open {}", tar.display()))?;
        let (mut layout, mut index, mut manifest) = (false, None, None);
        let unreadable = || format!("{} is not a readable tar", tar.display());
        for entry in tar::Archive::new(file).entries().with_context(unreadable)? {
            let mut entry = entry.with_context(unreadable)?;
            let path = entry.path().with_context(unreadable)?.into_owned();
            let slot = match path.strip_prefix("./").unwrap_or(&path).to_str() {
                Some("oci-layout") => {
                    layout = true;
                    continue;
                }
                Some("index.json") => &mut index,
                Some("manifest.json") => &mut manifest,
                _ => continue,
            };
            let mut text = Vec::new();
            entry.read_to_end(&mut text)?;
            *slot =
                Some(serde_json::from_slice(&text).with_context(|| {
                    format!("{} holds a {} that is not JSON", tar.display(), path.display())
                })?);
        }
        match (index, manifest) {
            (Some(index), _) if layout => Ok(Self::oci(&index)),
            (_, Some(manifest)) => Ok(Self::docker(&manifest)),
            _ => bail!(
                "{} is no image: it holds neither an OCI layout (oci-layout, index.json) nor what `docker save` writes \
                 (manifest.json)",
                tar.display()
            ),
        }
    }

    fn oci(index: &Value) -> Self {
        let manifests = index["manifests"]
            .as_array()
            .map(Vec::as_slice)
            .unwrap_or_default();
        let names = manifests
            .iter()
            .filter_map(|manifest| manifest["annotations"]["org.opencontainers.image.ref.name"].as_str())
            .map(str::to_owned)
            .collect();
        Self {
            is_oci: true,
            names,
            count: manifests.len(),
        }
    }

    fn docker(manifest: &Value) -> Self {
        let images = manifest.as_array().map(Vec::as_slice).unwrap_or_default();
        let names = images
            .iter()
            .filter_map(|image| image["RepoTags"].as_array())
            .flatten()
            .filter_map(|tag| Some(tag.as_str()?.to_owned()))
            .collect();
        Self {
            is_oci: false,
            names,
            count: images.len(),
        }
    }

    fn transport(&self) -> &'static str {
        if self.is_oci {
            "oci-archive"
        } else {
            "docker-archive"
        }
    }

    /// Returns true if a push keeps the digests. `docker save` writes no manifest, so it has none.
    fn keeps_digests(&self) -> bool {
        self.is_oci
    }

    /// Returns pairs of skopeo's selector in the tar and the reference to push to.
    fn select(&self, references: &[String], tar: &Path) -> anyhow::Result<Vec<(String, String)>> {
        if !references.is_empty() {
            if self.count != 1 {
                bail!(
                    "{} holds {} images; a reference can be given only for one",
                    tar.display(),
                    self.count
                );
            }
            return Ok(references
                .iter()
                .map(|reference| (String::new(), reference.clone()))
                .collect());
        }
        if self.names.is_empty() {
            bail!(
                "the image in {} has no name: say under which to load it",
                tar.display()
            );
        }
        Ok(self
            .names
            .iter()
            .map(|name| (format!(":{name}"), name.clone()))
            .collect())
    }
}

/// Returns the path in the cluster's registry of an image that pods request as `reference`. It is the path without the registry's
/// name, with Docker's rules for short names.
///
/// # Errors
/// The reference has no repository.
pub(super) fn repository_path(reference: &str) -> anyhow::Result<String> {
    let (first, rest) = reference.split_once('/').unwrap_or(("", reference));
    let is_registry = first.contains(['.', ':']) || first == "localhost";
    let path = match (is_registry, first) {
        (true, "docker.io") if !rest.contains('/') => format!("library/{rest}"),
        (true, _) => rest.to_owned(),
        (false, "") => format!("library/{rest}"),
        (false, _) => reference.to_owned(),
    };
    let repository = path.split(['@', ':']).next().unwrap_or_default();
    let valid = |part: &str| {
        !part.is_empty()
            && part
                .chars()
                .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || ['.', '_', '-'].contains(&c))
    };
    if !repository.split('/').all(valid) {
        bail!("`{reference}` is no image reference: expected REGISTRY/REPOSITORY[:TAG], in lower case");
    }
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn registry_names_are_dropped_from_references() {
        for (reference, path) in [
            (
                "quay.io/operatorhubio/catalog:latest",
                "operatorhubio/catalog:latest",
            ),
            ("docker.io/bitnami/nginx:1", "bitnami/nginx:1"),
            ("docker.io/nginx", "library/nginx"),
            ("nginx:1.27", "library/nginx:1.27"),
            ("bitnami/nginx", "bitnami/nginx"),
            ("localhost:5000/a/b/c", "a/b/c"),
            ("localhost/a", "a"),
            ("ghcr.io/a/b@sha256:00", "a/b@sha256:00"),
        ] {
            assert_eq!(repository_path(reference).unwrap(), path, "{reference}");
        }
        for reference in ["", "quay.io/", "quay.io/Upper/x", "quay.io/a//b", ":tag"] {
            assert!(repository_path(reference).is_err(), "{reference}");
        }
    }

    #[test]
    fn names_come_from_the_tar_unless_given() {
        let index =
            json!({"manifests": [{"annotations": {"org.opencontainers.image.ref.name": "quay.io/a/b:1"}}]});
        let tar = Path::new("x.tar");
        let own = Archive::oci(&index).select(&[], tar).unwrap();
        assert_eq!(own, [(":quay.io/a/b:1".to_owned(), "quay.io/a/b:1".to_owned())]);
        let given = Archive::oci(&index).select(&["c/d:2".to_owned()], tar).unwrap();
        assert_eq!(given, [(String::new(), "c/d:2".to_owned())]);
        assert!(
            Archive::oci(&json!({"manifests": [{}]}))
                .select(&[], tar)
                .is_err()
        );
        let saved = Archive::docker(&json!([{"RepoTags": ["a:1", "a:2"]}]));
        assert_eq!(saved.select(&[], tar).unwrap().len(), 2);
    }

    #[test]
    fn a_tar_that_is_no_image_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.tar");
        let mut archive = tar::Builder::new(fs::File::create(&path).unwrap());
        let mut header = tar::Header::new_gnu();
        header.set_size(0);
        archive.append_data(&mut header, "README", &b""[..]).unwrap();
        archive.finish().unwrap();
        let error = Archive::read(&path).unwrap_err();
        assert!(error.to_string().contains("is no image"), "{error}");
    }
}
