//! Writing images: the same files give the same digest, on any machine and at any time.
//!
//! Layers are sorted by path, have no times, no names of users and no extended attributes, and are compressed by the same
//! code everywhere.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::Path;

use bytes::Bytes;
use flate2::{Compression, GzBuilder};
use go_compat::platform::architecture;

use crate::archive::ImageArchive;
use crate::config::{ImageConfig, RootFs, RunConfig};
use crate::digest::Digest;
use crate::error::WriteError;
use crate::manifest::{Descriptor, ImageManifest, OCI_MANIFEST};

const OCI_CONFIG: &str = "application/vnd.oci.image.config.v1+json";
const OCI_LAYER: &str = "application/vnd.oci.image.layer.v1.tar+gzip";
/// Creation time of every image that is built here.
const EPOCH: &str = "1970-01-01T00:00:00Z";

#[derive(Debug, Clone, PartialEq, Eq)]
struct EntrySpec {
    body: Body,
    mode: u32,
    uid: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Body {
    File(Bytes),
    Folder,
    /// A symbolic link and its target.
    Link(String),
}

/// Files of one layer. Folders above them are made as needed, mode 0755, owned by root.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LayerSpec {
    entries: BTreeMap<String, EntrySpec>,
}

impl LayerSpec {
    /// Returns a layer without files.
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
        self.insert(path, Body::File(bytes.into()), mode, uid)
    }

    /// Adds a folder. Needed for an empty one, or for another owner or mode.
    ///
    /// # Errors
    /// [`WriteError::Path`].
    pub fn folder(&mut self, path: &str, mode: u32, uid: u64) -> Result<(), WriteError> {
        self.insert(path, Body::Folder, mode, uid)
    }

    /// Adds a symbolic link at `path` to `target`. The target counts from the link's own folder unless it
    /// starts with a slash.
    ///
    /// # Errors
    /// [`WriteError::Path`].
    pub fn link(&mut self, path: &str, target: &str) -> Result<(), WriteError> {
        self.insert(path, Body::Link(target.to_owned()), 0o777, 0)
    }

    /// Adds all regular files below a folder of this machine at `path`, readable by all and owned by root.
    ///
    /// # Errors
    /// [`WriteError::Io`]. Symbolic links are followed, so a dangling one is an error.
    pub fn tree(&mut self, path: &str, source: &Path) -> Result<(), WriteError> {
        for entry in std::fs::read_dir(source).map_err(WriteError::io(source))? {
            let entry = entry.map_err(WriteError::io(source))?;
            let file = entry.path();
            let name = entry.file_name();
            let name = name
                .to_str()
                .ok_or_else(|| WriteError::Path(file.display().to_string()))?;
            let inside = format!("{}/{name}", path.trim_end_matches('/'));
            if std::fs::metadata(&file).map_err(WriteError::io(&file))?.is_dir() {
                self.tree(&inside, &file)?;
            } else {
                let bytes = std::fs::read(&file).map_err(WriteError::io(&file))?;
                self.file(&inside, bytes, 0o644, 0)?;
            }
        }
        Ok(())
    }

    fn insert(&mut self, path: &str, body: Body, mode: u32, uid: u64) -> Result<(), WriteError> {
        let clean = path.trim_matches('/');
        if clean.is_empty() || clean.split('/').any(|part| matches!(part, "" | "." | "..")) {
            return Err(WriteError::Path(path.to_owned()));
        }
        let spec = EntrySpec { body, mode, uid };
        if self.entries.insert(clean.to_owned(), spec).is_some() {
            return Err(WriteError::Path(path.to_owned()));
        }
        Ok(())
    }

    fn to_tar(&self) -> io::Result<Vec<u8>> {
        let mut all = self.entries.clone();
        for path in self.entries.keys() {
            for (at, _) in path.match_indices('/') {
                all.entry(path[..at].to_owned()).or_insert(EntrySpec {
                    body: Body::Folder,
                    mode: 0o755,
                    uid: 0,
                });
            }
        }
        let mut builder = tar::Builder::new(Vec::new());
        // A folder's path is a prefix of its content's paths, so in this order it comes first.
        for (path, spec) in all {
            let mut header = tar::Header::new_gnu();
            header.set_mode(spec.mode);
            header.set_uid(spec.uid);
            header.set_gid(spec.uid);
            header.set_mtime(0);
            match spec.body {
                Body::File(bytes) => {
                    header.set_size(bytes.len() as u64);
                    header.set_entry_type(tar::EntryType::Regular);
                    builder.append_data(&mut header, path, &bytes[..])?;
                }
                Body::Folder => {
                    header.set_size(0);
                    header.set_entry_type(tar::EntryType::Directory);
                    builder.append_data(&mut header, format!("{path}/"), io::empty())?;
                }
                Body::Link(target) => {
                    header.set_size(0);
                    header.set_entry_type(tar::EntryType::Symlink);
                    builder.append_link(&mut header, path, target)?;
                }
            }
        }
        builder.into_inner()
    }
}

/// The parts of an image.
#[derive(Debug, Clone, Default)]
pub struct ImageSpec {
    /// An image to put the layers on. Its configuration is kept where `config` is empty.
    pub base: Option<ImageArchive>,
    /// Layers, lowest first.
    pub layers: Vec<LayerSpec>,
    /// The container's command, and labels (added to those of the base).
    pub config: RunConfig,
}

impl ImageSpec {
    /// Builds the image.
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
            architecture: or_else(base.architecture, architecture),
            os: or_else(base.os, || "linux"),
            config: merge(base.config, self.config),
            root_fs: RootFs {
                diff_ids,
                ..RootFs::default()
            },
        };
        let config = Bytes::from(serde_json::to_vec(&config).map_err(|error| encode(&error))?);
        let config_digest = Digest::sha256(&config);
        let manifest = ImageManifest {
            schema_version: 2,
            media_type: Some(OCI_MANIFEST.to_owned()),
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

    /// A failure means that the digest of every image changes: mention it in the changelog.
    #[test]
    fn the_digest_of_a_known_image_is_stable() {
        let image = spec(&["bin/x"]).build().expect("image");
        // The architecture is the machine's; everything else must be the same anywhere.
        if architecture() == "amd64" {
            let expected = "sha256:cbe77c971f0483951bfa6732d156707f9282fcdc1c20c2a843ce013075150f93";
            assert_eq!(image.digest().as_str(), expected);
        }
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
    fn links_are_read_back() {
        let mut layer = LayerSpec::new();
        layer.file("bin/opm", "program", 0o755, 0).expect("file");
        layer.link("bin/probe", "opm").expect("link");
        let mut flattened = crate::layer::Flattened::new(&["bin".to_owned()], crate::Limits::BUNDLE);
        flattened
            .add_layer(io::Cursor::new(layer.to_tar().expect("archive")))
            .expect("layer");
        assert_eq!(flattened.into_files().expect("files")["bin/probe"], "program");
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
