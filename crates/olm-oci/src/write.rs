//! Writing images: the same files give the same digest, on any machine and at any time.
//!
//! Layers are sorted by path, have no times, no names of users and no extended attributes, and are compressed by the same
//! code everywhere. An archive is an OCI layout (`oci-layout`, `index.json`, `blobs/`) in a tar file, which
//! `ctr image import`, `skopeo` and [`crate::Pusher`] take.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use bytes::Bytes;
use flate2::{Compression, GzBuilder};
use serde::Serialize;

use crate::config::{ImageConfig, RootFs, RunConfig};
use crate::digest::Digest;
use crate::pull::{Manifest, OCI_INDEX, OCI_MANIFEST, host_architecture, parse_manifest};
use crate::reference::Reference;

const OCI_CONFIG: &str = "application/vnd.oci.image.config.v1+json";
const OCI_LAYER: &str = "application/vnd.oci.image.layer.v1.tar+gzip";
const LAYOUT_FILE: &str = "oci-layout";
const INDEX_FILE: &str = "index.json";
/// Where the OCI specification keeps a manifest's tag within a layout.
const REF_NAME: &str = "org.opencontainers.image.ref.name";
/// Where containerd looks for the whole name when importing.
const IMAGE_NAME: &str = "io.containerd.image.name";
/// Creation time of every image made here.
const EPOCH: &str = "1970-01-01T00:00:00Z";

/// Why an image cannot be written or an archive cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// A file cannot be read or written.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A path inside the image is empty, has `..` or is given twice in one layer.
    #[error("path `{0}` cannot be put into an image layer")]
    Path(String),
    /// The archive is no OCI layout with one image.
    #[error("{}: {detail}", path.display())]
    Archive {
        /// The archive.
        path: PathBuf,
        /// What is missing or wrong.
        detail: String,
    },
    /// The parts of an image do not fit together.
    #[error("cannot put the image together: {0}")]
    Encode(String),
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct FileSpec {
    bytes: Option<Bytes>,
    mode: u32,
    uid: u64,
}

/// Files of one layer. Folders above them are made as needed, mode 0755, owned by root.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LayerSpec {
    entries: BTreeMap<String, FileSpec>,
}

impl LayerSpec {
    /// No files.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a file at `path` (from the root) with permission bits and owner (user and group).
    ///
    /// # Errors
    /// [`WriteError::Path`].
    pub fn file(
        &mut self,
        path: &str,
        bytes: impl Into<Bytes>,
        mode: u32,
        uid: u64,
    ) -> Result<(), WriteError> {
        self.insert(
            path,
            FileSpec {
                bytes: Some(bytes.into()),
                mode,
                uid,
            },
        )
    }

    /// Adds a folder, for one that shall be empty or have another owner or mode.
    ///
    /// # Errors
    /// [`WriteError::Path`].
    pub fn folder(&mut self, path: &str, mode: u32, uid: u64) -> Result<(), WriteError> {
        self.insert(
            path,
            FileSpec {
                bytes: None,
                mode,
                uid,
            },
        )
    }

    /// Adds all regular files below a folder of this machine at `path`, readable by all and owned by root.
    ///
    /// # Errors
    /// [`WriteError::Io`]; symbolic links are followed, so one that leads nowhere is an error.
    pub fn tree(&mut self, path: &str, source: &Path) -> Result<(), WriteError> {
        let io_error = |source| {
            move |error| WriteError::Io {
                path: source,
                source: error,
            }
        };
        for entry in std::fs::read_dir(source).map_err(io_error(source.to_owned()))? {
            let entry = entry.map_err(io_error(source.to_owned()))?;
            let file = entry.path();
            let name = entry.file_name();
            let name = name
                .to_str()
                .ok_or_else(|| WriteError::Path(file.display().to_string()))?;
            let inside = format!("{}/{name}", path.trim_end_matches('/'));
            if std::fs::metadata(&file).map_err(io_error(file.clone()))?.is_dir() {
                self.tree(&inside, &file)?;
            } else {
                let bytes = std::fs::read(&file).map_err(io_error(file.clone()))?;
                self.file(&inside, bytes, 0o644, 0)?;
            }
        }
        Ok(())
    }

    fn insert(&mut self, path: &str, spec: FileSpec) -> Result<(), WriteError> {
        let clean = path.trim_matches('/');
        if clean.is_empty() || clean.split('/').any(|part| matches!(part, "" | "." | "..")) {
            return Err(WriteError::Path(path.to_owned()));
        }
        if self.entries.insert(clean.to_owned(), spec).is_some() {
            return Err(WriteError::Path(path.to_owned()));
        }
        Ok(())
    }

    fn to_tar(&self) -> io::Result<Vec<u8>> {
        let mut all = self.entries.clone();
        for path in self.entries.keys() {
            for (at, _) in path.match_indices('/') {
                all.entry(path[..at].to_owned()).or_insert(FileSpec {
                    bytes: None,
                    mode: 0o755,
                    uid: 0,
                });
            }
        }
        let mut builder = tar::Builder::new(Vec::new());
        // Sorted with a slash behind folders, so that a folder always comes right before its content.
        for (path, spec) in all {
            let mut header = tar::Header::new_gnu();
            header.set_mode(spec.mode);
            header.set_uid(spec.uid);
            header.set_gid(spec.uid);
            header.set_mtime(0);
            let body = spec.bytes.as_deref().unwrap_or_default();
            header.set_size(body.len() as u64);
            let name = if spec.bytes.is_some() {
                header.set_entry_type(tar::EntryType::Regular);
                path
            } else {
                header.set_entry_type(tar::EntryType::Directory);
                format!("{path}/")
            };
            builder.append_data(&mut header, name, body)?;
        }
        builder.into_inner()
    }
}

/// What an image consists of.
#[derive(Debug, Clone, Default)]
pub struct ImageSpec {
    /// An image to put the layers on; its configuration is kept where `config` says nothing.
    pub base: Option<ImageArchive>,
    /// Layers, lowest first.
    pub layers: Vec<LayerSpec>,
    /// What containers run, and labels (added to those of the base).
    pub config: RunConfig,
}

impl ImageSpec {
    /// Puts the image together.
    ///
    /// # Errors
    /// [`WriteError::Encode`].
    pub fn build(self) -> Result<ImageArchive, WriteError> {
        let encode = |error: &dyn std::fmt::Display| WriteError::Encode(error.to_string());
        let (mut blobs, mut layers, base) = match self.base {
            Some(base) => base.into_parts()?,
            None => (BTreeMap::new(), Vec::new(), ImageConfig::default()),
        };
        let mut diff_ids = base.root_fs.diff_ids;
        for layer in &self.layers {
            let tar = layer.to_tar().map_err(|error| encode(&error))?;
            diff_ids.push(Digest::sha256(&tar).to_string());
            let mut gzip = GzBuilder::new()
                .mtime(0)
                .operating_system(255)
                .write(Vec::new(), Compression::new(6));
            gzip.write_all(&tar).map_err(|error| encode(&error))?;
            let blob = Bytes::from(gzip.finish().map_err(|error| encode(&error))?);
            let digest = Digest::sha256(&blob);
            layers.push(Descriptor::new(OCI_LAYER, &digest, blob.len()));
            blobs.insert(digest, blob);
        }
        let config = ImageConfig {
            created: Some(EPOCH.to_owned()),
            architecture: or_else(base.architecture, host_architecture),
            os: or_else(base.os, || "linux"),
            config: merge(base.config, self.config),
            root_fs: RootFs {
                diff_ids,
                ..RootFs::default()
            },
        };
        let config = Bytes::from(serde_json::to_vec(&config).map_err(|error| encode(&error))?);
        let config_digest = Digest::sha256(&config);
        let manifest = ManifestDocument {
            schema_version: 2,
            media_type: OCI_MANIFEST,
            config: Descriptor::new(OCI_CONFIG, &config_digest, config.len()),
            layers,
        };
        let manifest = Bytes::from(serde_json::to_vec(&manifest).map_err(|error| encode(&error))?);
        blobs.insert(config_digest, config);
        Ok(ImageArchive {
            digest: Digest::sha256(&manifest),
            media_type: OCI_MANIFEST.to_owned(),
            manifest,
            blobs,
        })
    }
}

fn or_else(text: String, default: impl FnOnce() -> &'static str) -> String {
    if text.is_empty() {
        default().to_owned()
    } else {
        text
    }
}

fn merge(base: RunConfig, own: RunConfig) -> RunConfig {
    let pick = |base: Vec<String>, own: Vec<String>| if own.is_empty() { base } else { own };
    // As in a Dockerfile, a new entrypoint makes the base's arguments meaningless.
    let base_cmd = if own.entrypoint.is_empty() {
        base.cmd
    } else {
        Vec::new()
    };
    RunConfig {
        user: if own.user.is_empty() { base.user } else { own.user },
        working_dir: if own.working_dir.is_empty() {
            base.working_dir
        } else {
            own.working_dir
        },
        env: base.env.into_iter().chain(own.env).collect(),
        entrypoint: pick(base.entrypoint, own.entrypoint),
        cmd: pick(base_cmd, own.cmd),
        exposed_ports: base.exposed_ports.into_iter().chain(own.exposed_ports).collect(),
        labels: base.labels.into_iter().chain(own.labels).collect(),
    }
}

/// Documents are typed, not `json!`, so that the order of their keys cannot change with a feature of `serde_json`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Descriptor {
    media_type: String,
    digest: String,
    size: u64,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    annotations: BTreeMap<&'static str, String>,
}

impl Descriptor {
    fn new(media_type: &str, digest: &Digest, size: usize) -> Self {
        Self {
            media_type: media_type.to_owned(),
            digest: digest.to_string(),
            size: size as u64,
            annotations: BTreeMap::new(),
        }
    }
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct ManifestDocument {
    schema_version: u8,
    media_type: &'static str,
    config: Descriptor,
    layers: Vec<Descriptor>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct IndexDocument {
    schema_version: u8,
    media_type: &'static str,
    manifests: Vec<Descriptor>,
}

type Parts = (BTreeMap<Digest, Bytes>, Vec<Descriptor>, ImageConfig);

/// An image in memory: manifest, configuration and layers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImageArchive {
    digest: Digest,
    media_type: String,
    manifest: Bytes,
    blobs: BTreeMap<Digest, Bytes>,
}

impl ImageArchive {
    /// The manifest's digest, under which the image can be pulled once it is pushed.
    pub fn digest(&self) -> &Digest {
        &self.digest
    }

    /// The manifest as it is pushed.
    pub fn manifest(&self) -> &Bytes {
        &self.manifest
    }

    /// The manifest's media type.
    pub fn media_type(&self) -> &str {
        &self.media_type
    }

    /// Configuration and layers by digest.
    pub fn blobs(&self) -> &BTreeMap<Digest, Bytes> {
        &self.blobs
    }

    /// Bytes of all blobs, which is about what a pull transfers.
    pub fn size(&self) -> u64 {
        self.blobs.values().map(|blob| blob.len() as u64).sum()
    }

    /// The image's configuration.
    ///
    /// # Errors
    /// [`WriteError::Encode`] when the archive that was read is damaged.
    pub fn config(&self) -> Result<ImageConfig, WriteError> {
        let manifest = self.parsed_manifest()?;
        let digest: Digest = manifest
            .config
            .digest
            .parse()
            .map_err(|error| WriteError::Encode(format!("configuration: {error}")))?;
        let blob = self
            .blobs
            .get(&digest)
            .ok_or_else(|| WriteError::Encode("no configuration".into()))?;
        serde_json::from_slice(blob).map_err(|error| WriteError::Encode(format!("configuration: {error}")))
    }

    fn parsed_manifest(&self) -> Result<oci_client::manifest::OciImageManifest, WriteError> {
        match parse_manifest(&self.manifest).map_err(WriteError::Encode)? {
            Manifest::Image(manifest) => Ok(*manifest),
            Manifest::Index(_) => Err(WriteError::Encode("an index of several images".into())),
        }
    }

    fn into_parts(self) -> Result<Parts, WriteError> {
        let manifest = self.parsed_manifest()?;
        let config = self.config()?;
        let descriptor = |layer: &oci_client::manifest::OciDescriptor| Descriptor {
            media_type: layer.media_type.clone(),
            digest: layer.digest.clone(),
            size: u64::try_from(layer.size).unwrap_or_default(),
            annotations: BTreeMap::new(),
        };
        let layers = manifest.layers.iter().map(descriptor).collect();
        let mut blobs = self.blobs;
        blobs.retain(|digest, _| digest.as_str() != manifest.config.digest);
        Ok((blobs, layers, config))
    }

    /// Writes the archive; with a name, importers know what to call it. The file appears whole or not at all.
    ///
    /// # Errors
    /// [`WriteError::Io`].
    pub fn write(&self, path: &Path, name: Option<&Reference>) -> Result<(), WriteError> {
        let io_error = |source: io::Error| WriteError::Io {
            path: path.to_owned(),
            source,
        };
        let folder = path
            .parent()
            .filter(|folder| !folder.as_os_str().is_empty())
            .unwrap_or(Path::new("."));
        std::fs::create_dir_all(folder).map_err(io_error)?;
        let readable = std::os::unix::fs::PermissionsExt::from_mode(0o644);
        let file = tempfile::Builder::new()
            .permissions(readable)
            .tempfile_in(folder)
            .map_err(io_error)?;
        self.write_to(io::BufWriter::new(file.as_file()), name)
            .map_err(io_error)?;
        file.persist(path).map_err(|error| io_error(error.error))?;
        Ok(())
    }

    fn write_to(&self, out: impl Write, name: Option<&Reference>) -> io::Result<()> {
        let mut annotations = BTreeMap::new();
        if let Some(name) = name {
            annotations.insert(IMAGE_NAME, name.to_string());
            annotations.insert(REF_NAME, name.tag().unwrap_or(name.selector()).to_owned());
        }
        let descriptor = Descriptor {
            annotations,
            ..Descriptor::new(&self.media_type, &self.digest, self.manifest.len())
        };
        let index = IndexDocument {
            schema_version: 2,
            media_type: OCI_INDEX,
            manifests: vec![descriptor],
        };
        let mut files = BTreeMap::from([
            (
                LAYOUT_FILE.to_owned(),
                Bytes::from_static(br#"{"imageLayoutVersion":"1.0.0"}"#),
            ),
            (
                INDEX_FILE.to_owned(),
                serde_json::to_vec(&index).map_err(io::Error::other)?.into(),
            ),
            (blob_path(&self.digest), self.manifest.clone()),
        ]);
        files.extend(
            self.blobs
                .iter()
                .map(|(digest, blob)| (blob_path(digest), blob.clone())),
        );
        let mut builder = tar::Builder::new(out);
        for (path, bytes) in files {
            let mut header = tar::Header::new_gnu();
            header.set_mode(0o644);
            header.set_mtime(0);
            header.set_size(bytes.len() as u64);
            builder.append_data(&mut header, path, &bytes[..])?;
        }
        builder.into_inner()?.flush()
    }

    /// Reads an archive: an OCI layout with one image, or an index of which the image for this machine is taken. Every blob is verified.
    ///
    /// # Errors
    /// [`WriteError::Io`] and [`WriteError::Archive`].
    pub fn read(path: &Path) -> Result<Self, WriteError> {
        let io_error = |source: io::Error| WriteError::Io {
            path: path.to_owned(),
            source,
        };
        let wrong = |detail: String| WriteError::Archive {
            path: path.to_owned(),
            detail,
        };
        let mut files = BTreeMap::new();
        let file = io::BufReader::new(std::fs::File::open(path).map_err(io_error)?);
        for entry in tar::Archive::new(file).entries().map_err(io_error)? {
            let mut entry = entry.map_err(io_error)?;
            let name = String::from_utf8_lossy(&entry.path_bytes())
                .trim_start_matches("./")
                .to_owned();
            let mut bytes = Vec::new();
            entry.read_to_end(&mut bytes).map_err(io_error)?;
            files.insert(name, Bytes::from(bytes));
        }
        let index = files.get(INDEX_FILE).ok_or_else(|| {
            wrong(format!(
                "no `{INDEX_FILE}` inside: not an OCI layout (`skopeo copy` can convert it)"
            ))
        })?;
        let (digest, manifest) = follow_index(index, &files).map_err(wrong)?;
        let Manifest::Image(parsed) = parse_manifest(&manifest).map_err(wrong)? else {
            return Err(wrong("several images inside".to_owned()));
        };
        let mut blobs = BTreeMap::new();
        for descriptor in std::iter::once(&parsed.config).chain(&parsed.layers) {
            let (digest, blob) = find_blob(&descriptor.digest, &files).map_err(wrong)?;
            blobs.insert(digest, blob);
        }
        let media_type = parsed
            .media_type
            .clone()
            .unwrap_or_else(|| OCI_MANIFEST.to_owned());
        Ok(Self {
            digest,
            media_type,
            manifest,
            blobs,
        })
    }
}

/// From `index.json` to the manifest of the one image, through at most one index of platforms.
fn follow_index(index: &[u8], files: &BTreeMap<String, Bytes>) -> Result<(Digest, Bytes), String> {
    let mut at = index.to_vec();
    for _ in 0..2 {
        let Manifest::Index(index) = parse_manifest(&at)? else {
            break;
        };
        let digest = match index.manifests.as_slice() {
            [only] => only.digest.clone(),
            _ => crate::pull::choose_platform(&index)?.to_string(),
        };
        let (digest, blob) = find_blob(&digest, files)?;
        if let Manifest::Image(_) = parse_manifest(&blob)? {
            return Ok((digest, blob));
        }
        at = blob.to_vec();
    }
    Err("no image inside".to_owned())
}

fn find_blob(digest: &str, files: &BTreeMap<String, Bytes>) -> Result<(Digest, Bytes), String> {
    let digest: Digest = digest.parse().map_err(|error| format!("{error}"))?;
    let blob = files
        .get(&blob_path(&digest))
        .ok_or_else(|| format!("blob {digest} is missing"))?;
    if !digest.matches(blob) {
        return Err(format!("blob {digest} is damaged"));
    }
    Ok((digest, blob.clone()))
}

fn blob_path(digest: &Digest) -> String {
    format!("blobs/{}/{}", digest.algorithm(), digest.hex())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(names: &[&str]) -> ImageSpec {
        let mut layer = LayerSpec::new();
        for name in names {
            layer
                .file(name, name.trim_matches('/').as_bytes().to_vec(), 0o644, 1001)
                .expect("file");
        }
        let config = RunConfig {
            entrypoint: vec!["/bin/x".into()],
            labels: [("k".to_owned(), "v".to_owned())].into(),
            ..RunConfig::default()
        };
        ImageSpec {
            base: None,
            layers: vec![layer],
            config,
        }
    }

    #[test]
    fn order_and_time_do_not_change_the_digest() {
        let one = spec(&["/a/b", "c", "a/d"]).build().expect("image");
        let other = spec(&["a/d", "a/b", "/c"]).build().expect("image");
        assert_eq!(one, other);
        assert_ne!(one.digest(), spec(&["a/b", "c"]).build().expect("image").digest());
    }

    /// A change here means that every image changes its digest: say so in the changelog.
    #[test]
    fn the_digest_of_a_known_image_is_stable() {
        let image = spec(&["bin/x"]).build().expect("image");
        // The architecture is the machine's; everything else must be the same anywhere.
        if host_architecture() == "amd64" {
            let expected = "sha256:cbe77c971f0483951bfa6732d156707f9282fcdc1c20c2a843ce013075150f93";
            assert_eq!(image.digest().as_str(), expected);
        }
    }

    #[test]
    fn archives_are_read_back_and_are_the_same_bytes_each_time() {
        let dir = tempfile::tempdir().expect("folder");
        let image = spec(&["a/b"]).build().expect("image");
        let name: Reference = "quay.io/a/b:v1".parse().expect("reference");
        let paths = [dir.path().join("1.tar"), dir.path().join("2.tar")];
        for path in &paths {
            image.write(path, Some(&name)).expect("written");
        }
        assert_eq!(
            std::fs::read(&paths[0]).expect("file"),
            std::fs::read(&paths[1]).expect("file")
        );
        assert_eq!(ImageArchive::read(&paths[0]).expect("read"), image);
        assert_eq!(image.config().expect("config").config.labels["k"], "v");
    }

    #[test]
    fn damaged_archives_are_told() {
        let dir = tempfile::tempdir().expect("folder");
        let path = dir.path().join("x.tar");
        let error = ImageArchive::read(&path).expect_err("absent").to_string();
        assert!(
            error.contains("x.tar") && error.contains("No such file"),
            "{error}"
        );
        std::fs::write(&path, b"").expect("file");
        let error = ImageArchive::read(&path).expect_err("empty").to_string();
        assert!(error.contains("not an OCI layout"), "{error}");
        let mut image = spec(&["a/b"]).build().expect("image");
        let first = image.blobs.keys().next().cloned().expect("blob");
        image.blobs.insert(first.clone(), Bytes::from_static(b"other"));
        image.write(&path, None).expect("written");
        let error = ImageArchive::read(&path).expect_err("damaged").to_string();
        assert!(error.contains(&format!("blob {first} is damaged")), "{error}");
        image.blobs.remove(&first);
        image.write(&path, None).expect("written");
        let error = ImageArchive::read(&path).expect_err("incomplete").to_string();
        assert!(error.contains(&format!("blob {first} is missing")), "{error}");
    }

    #[test]
    fn a_base_keeps_its_layers_and_what_is_not_overridden() {
        let mut base = spec(&["bin/base"]);
        base.config.cmd = vec!["serve".into()];
        base.config.user = "1001".into();
        let base = base.build().expect("image");
        let mut layer = LayerSpec::new();
        layer.file("configs/c.json", "{}", 0o644, 0).expect("file");
        let config = RunConfig {
            labels: [("l".to_owned(), "w".to_owned())].into(),
            ..RunConfig::default()
        };
        let image = ImageSpec {
            base: Some(base.clone()),
            layers: vec![layer.clone()],
            config,
        }
        .build()
        .expect("image");
        let read = image.config().expect("config");
        assert_eq!(read.root_fs.diff_ids.len(), 2);
        assert_eq!(read.config.labels.len(), 2);
        assert_eq!((read.config.user.as_str(), read.config.cmd.len()), ("1001", 1));
        let config = RunConfig {
            entrypoint: vec!["/bin/y".into()],
            ..RunConfig::default()
        };
        let image = ImageSpec {
            base: Some(base),
            layers: vec![layer],
            config,
        }
        .build()
        .expect("image");
        assert!(image.config().expect("config").config.cmd.is_empty());
    }

    #[test]
    fn paths_that_lead_away_or_come_twice_are_refused() {
        let mut layer = LayerSpec::new();
        for path in ["", "/", "a/../b", "a//b", "./a"] {
            assert!(layer.file(path, "", 0o644, 0).is_err(), "{path}");
        }
        layer.file("a", "", 0o644, 0).expect("file");
        assert!(layer.file("/a", "", 0o644, 0).is_err());
    }

    #[test]
    fn trees_are_copied_with_fixed_modes() {
        let dir = tempfile::tempdir().expect("folder");
        std::fs::create_dir(dir.path().join("sub")).expect("folder");
        std::fs::write(dir.path().join("sub/x"), "1").expect("file");
        let mut layer = LayerSpec::new();
        layer.tree("/configs", dir.path()).expect("tree");
        assert_eq!(layer.entries.keys().collect::<Vec<_>>(), ["configs/sub/x"]);
        assert_eq!(layer.entries["configs/sub/x"].mode, 0o644);
    }
}
