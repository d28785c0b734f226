//! Writes images of one layer, and Helm charts, as tars of OCI layouts, without Docker. One layer is sufficient for images
//! `FROM scratch`.
//!
//! Equal input results in equal bytes: there is no time, no user name, and entries keep their order.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use flate2::{Compression, GzBuilder};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::files;

/// A file of an image's only layer.
#[derive(Debug, Clone)]
pub struct LayerFile {
    /// Path inside the image, without the leading slash.
    pub path: String,
    /// File on this machine with the content.
    pub source: PathBuf,
    /// Unix permission bits.
    pub mode: u32,
}

/// Configuration of an image for the container runtime.
#[derive(Debug, Clone, Default)]
pub struct ImageConfig {
    /// Entrypoint, which arguments alone cannot override.
    pub entrypoint: Vec<String>,
    /// User as `uid` or `uid:gid`; empty for root.
    pub user: String,
    /// Labels, in order.
    pub labels: Vec<(String, String)>,
    /// Environment, each as `NAME=value`.
    pub env: Vec<String>,
    /// Further folders of the layer: path and permission bits.
    pub folders: Vec<(String, u32)>,
    /// Symbolic links of the layer: path and target.
    pub links: Vec<(String, String)>,
    /// Creation time as RFC 3339; `None`, as in images for tests, omits it.
    pub created: Option<String>,
    /// Reference under which `docker load`, `podman load` and `ctr images import` store it. It is not part of the image, so that
    /// the digest does not depend on it.
    pub reference: Option<String>,
    /// True for the best compression, which takes longer: for images that are distributed. Others are only sent over loopback
    /// once.
    pub small: bool,
}

/// Writes an OCI layout tar with one image to `out`, replaces it atomically, and returns the manifest's digest.
///
/// # Errors
/// A source cannot be read, or `out` cannot be written.
pub fn write(out: &Path, files: &[LayerFile], config: &ImageConfig) -> anyhow::Result<String> {
    let layer = tar_of(files, config)?;
    let packed = gzip(&layer, config.small)?;
    let labels: BTreeMap<_, _> = config.labels.iter().cloned().collect();
    let mut image = json!({
        "architecture": go_compat::platform::architecture(),
        "os": "linux",
        "config": { "Entrypoint": config.entrypoint, "User": config.user, "Labels": labels, "Env": config.env },
        "rootfs": { "type": "layers", "diff_ids": [digest(&layer)] },
    });
    if let Some(created) = &config.created {
        image["created"] = json!(created);
    }
    let annotations = config.reference.as_ref().map(|reference| {
        json!({
            "io.containerd.image.name": reference,
            "org.opencontainers.image.ref.name": reference.rsplit_once(':').map_or("latest", |(_, tag)| tag),
        })
    });
    write_layout(
        out,
        (
            "application/vnd.oci.image.config.v1+json",
            serde_json::to_vec(&image)?,
        ),
        ("application/vnd.oci.image.layer.v1.tar+gzip", packed),
        annotations,
    )
}

/// Writes an OCI layout tar with a Helm chart to `out`, as `helm push` stores it in a registry, and returns the manifest's digest.
/// `about` is the chart's `Chart.yaml`, `packed` its archive, `tag` its version.
///
/// # Errors
/// `out` cannot be written.
pub(crate) fn write_chart(out: &Path, about: &Value, packed: Vec<u8>, tag: &str) -> anyhow::Result<String> {
    write_layout(
        out,
        (
            "application/vnd.cncf.helm.config.v1+json",
            serde_json::to_vec(about)?,
        ),
        ("application/vnd.cncf.helm.chart.content.v1.tar+gzip", packed),
        Some(json!({ "org.opencontainers.image.ref.name": tag })),
    )
}

/// Writes an OCI layout tar with one manifest of a configuration and a layer, each with its media type, and returns the manifest's
/// digest. The annotations are those of the manifest in the index.
fn write_layout(
    out: &Path,
    (config_type, config): (&str, Vec<u8>),
    (layer_type, layer): (&str, Vec<u8>),
    annotations: Option<Value>,
) -> anyhow::Result<String> {
    let manifest = serde_json::to_vec(&json!({
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": descriptor(config_type, &config),
        "layers": [descriptor(layer_type, &layer)],
    }))?;
    let mut described = descriptor("application/vnd.oci.image.manifest.v1+json", &manifest);
    if let Some(annotations) = annotations {
        described["annotations"] = annotations;
    }
    let index = serde_json::to_vec(&json!({
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.index.v1+json",
        "manifests": [described],
    }))?;

    let mut entries = vec![
        (
            "oci-layout".to_owned(),
            br#"{"imageLayoutVersion":"1.0.0"}"#.to_vec(),
        ),
        ("index.json".to_owned(), index),
    ];
    let manifest_digest = digest(&manifest);
    for blob in [layer, config, manifest] {
        entries.push((
            format!("blobs/sha256/{}", hex::encode(Sha256::digest(&blob))),
            blob,
        ));
    }
    write_tar(out, &entries).with_context(|| format!("cannot write {}", out.display()))?;
    Ok(manifest_digest)
}

/// Returns all files below `folder` as files of a layer in its folder `inside`, in the order of their names. An empty `inside` is the root.
///
/// # Errors
/// A folder cannot be read, or a name is not UTF-8.
pub fn files_below(folder: &Path, inside: &str) -> anyhow::Result<Vec<LayerFile>> {
    let layer_file = |(name, source): (String, PathBuf)| {
        let path = if inside.is_empty() {
            name
        } else {
            format!("{inside}/{name}")
        };
        LayerFile {
            path,
            source,
            mode: 0o644,
        }
    };
    Ok(files::below(folder)?.into_iter().map(layer_file).collect())
}

fn tar_of(files: &[LayerFile], config: &ImageConfig) -> anyhow::Result<Vec<u8>> {
    let mut archive = tar::Builder::new(Vec::new());
    for (path, mode) in &config.folders {
        let mut header = header(0, *mode);
        header.set_entry_type(tar::EntryType::Directory);
        archive.append_data(&mut header, format!("{path}/"), std::io::empty())?;
    }
    for (path, target) in &config.links {
        let mut header = header(0, 0o777);
        header.set_entry_type(tar::EntryType::Symlink);
        archive.append_link(&mut header, path, target)?;
    }
    for file in files {
        let content = std::fs::read(&file.source).with_context(|| {
            format!(
                "cannot read {} for the image's {}",
                file.source.display(),
                file.path
            )
        })?;
        let mut header = header(content.len(), file.mode);
        archive.append_data(&mut header, &file.path, content.as_slice())?;
    }
    Ok(archive.into_inner()?)
}

fn write_tar(out: &Path, entries: &[(String, Vec<u8>)]) -> anyhow::Result<()> {
    let partial = out.with_extension("partial");
    let mut archive = tar::Builder::new(File::create(&partial)?);
    for (name, content) in entries {
        archive.append_data(&mut header(content.len(), 0o644), name, content.as_slice())?;
    }
    archive.into_inner()?.flush()?;
    std::fs::rename(&partial, out)?;
    Ok(())
}

fn header(size: usize, mode: u32) -> tar::Header {
    let mut header = tar::Header::new_gnu();
    header.set_size(size as u64);
    header.set_mode(mode);
    header.set_mtime(0);
    header
}

/// Operating system in a gzip header: unknown.
pub(crate) const UNKNOWN_SYSTEM: u8 = 255;

/// Compresses bytes with neither name, time nor system in the header. `small` selects the best compression, which takes longer.
pub(crate) fn gzip(bytes: &[u8], small: bool) -> std::io::Result<Vec<u8>> {
    let level = if small {
        Compression::best()
    } else {
        Compression::fast()
    };
    let header = GzBuilder::new().mtime(0).operating_system(UNKNOWN_SYSTEM);
    let mut encoder = header.write(Vec::new(), level);
    encoder.write_all(bytes)?;
    encoder.finish()
}

/// Returns `sha256:` and the digest, the form in images.
pub(crate) fn digest(bytes: &[u8]) -> String {
    format!("sha256:{}", hex::encode(Sha256::digest(bytes)))
}

fn descriptor(media_type: &str, content: &[u8]) -> Value {
    json!({ "mediaType": media_type, "digest": digest(content), "size": content.len() })
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use super::*;

    fn build(folder: &Path, name: &str) -> (PathBuf, String) {
        let source = folder.join("program");
        std::fs::write(&source, "a program").unwrap();
        let out = folder.join(name);
        let files = [LayerFile {
            path: "bin/program".into(),
            source,
            mode: 0o755,
        }];
        let config = ImageConfig {
            entrypoint: vec!["/bin/program".into()],
            ..Default::default()
        };
        let digest = write(&out, &files, &config).unwrap();
        (out, digest)
    }

    #[test]
    fn the_same_input_gives_the_same_image() {
        let folder = tempfile::tempdir().unwrap();
        let (first, first_digest) = build(folder.path(), "first.tar");
        let (second, second_digest) = build(folder.path(), "second.tar");
        assert_eq!(first_digest, second_digest);
        assert_eq!(std::fs::read(first).unwrap(), std::fs::read(second).unwrap());
    }

    #[test]
    fn every_blob_is_named_by_its_digest_and_the_index_names_the_manifest() {
        let folder = tempfile::tempdir().unwrap();
        let (out, manifest_digest) = build(folder.path(), "image.tar");
        let mut archive = tar::Archive::new(File::open(out).unwrap());
        let mut blobs = 0;
        let mut index = String::new();
        for entry in archive.entries().unwrap() {
            let mut entry = entry.unwrap();
            let path = entry.path().unwrap().to_string_lossy().into_owned();
            let mut content = Vec::new();
            entry.read_to_end(&mut content).unwrap();
            if let Some(hash) = path.strip_prefix("blobs/sha256/") {
                assert_eq!(hash, hex::encode(Sha256::digest(&content)));
                blobs += 1;
            } else if path == "index.json" {
                index = String::from_utf8(content).unwrap();
            }
        }
        assert_eq!(blobs, 3);
        assert!(index.contains(&manifest_digest), "{index}");
    }

    #[test]
    fn a_missing_source_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let files = [LayerFile {
            path: "bin/x".into(),
            source: folder.path().join("missing"),
            mode: 0o755,
        }];
        let error = write(&folder.path().join("out.tar"), &files, &ImageConfig::default()).unwrap_err();
        assert!(error.to_string().contains("bin/x"), "{error}");
    }
}
