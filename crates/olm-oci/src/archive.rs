//! An image in one file: an OCI layout (`oci-layout`, `index.json`, `blobs/`) in a tar archive. `ctr image
//! import`, `skopeo` and [`crate::Pusher`] accept it.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::path::Path;

use bytes::Bytes;

use crate::config::ImageConfig;
use crate::content::ImageContent;
use crate::digest::Digest;
use crate::error::{PullError, PullErrorClass, WriteError};
use crate::layer::Flattened;
use crate::limits::Limits;
use crate::manifest::{
    Descriptor, ImageIndex, ImageManifest, Manifest, OCI_INDEX, OCI_MANIFEST, choose_platform, parse_manifest,
};
use crate::reference::Reference;

const LAYOUT_FILE: &str = "oci-layout";
const INDEX_FILE: &str = "index.json";
/// Annotation that holds a manifest's tag within a layout, by the OCI specification.
const REF_NAME: &str = "org.opencontainers.image.ref.name";
/// Annotation from which containerd reads the whole name when importing.
const IMAGE_NAME: &str = "io.containerd.image.name";

pub(crate) type Parts = (BTreeMap<Digest, Bytes>, Vec<Descriptor>, ImageConfig);

/// An image in memory: manifest, configuration and layers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImageArchive {
    pub(crate) digest: Digest,
    pub(crate) media_type: String,
    pub(crate) manifest: Bytes,
    pub(crate) blobs: BTreeMap<Digest, Bytes>,
}

impl ImageArchive {
    /// Returns the manifest's digest, under which the image can be pulled once it is pushed.
    pub fn digest(&self) -> &Digest {
        &self.digest
    }

    /// Returns the manifest as it is pushed.
    pub fn manifest(&self) -> &Bytes {
        &self.manifest
    }

    /// Returns the manifest's media type.
    pub fn media_type(&self) -> &str {
        &self.media_type
    }

    /// Returns configuration and layers by digest.
    pub fn blobs(&self) -> &BTreeMap<Digest, Bytes> {
        &self.blobs
    }

    /// Returns the image's configuration.
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

    /// Returns the files in some folders (paths from the root), by path without leading slash. All layers are
    /// considered, as in [`crate::Image::content`] for an image from a registry.
    ///
    /// # Errors
    /// [`PullError`] as for a pull of the same image.
    pub fn files(&self, folders: &[String], limits: Limits) -> Result<ImageContent, PullError> {
        let failed = |class, detail: String| PullError::of_content(&self.digest, class, detail);
        let malformed = |error: WriteError| failed(PullErrorClass::Malformed, error.to_string());
        let manifest = self.parsed_manifest().map_err(malformed)?;
        if let Some(detail) = limits.excess_of_layers(manifest.layers.len()) {
            return Err(failed(PullErrorClass::TooLarge, detail));
        }
        let mut flattened = Flattened::new(folders, limits);
        for layer in &manifest.layers {
            let blob = layer
                .digest
                .parse()
                .ok()
                .and_then(|digest: Digest| self.blobs.get(&digest));
            let blob = blob.ok_or_else(|| {
                failed(
                    PullErrorClass::Malformed,
                    format!("layer {} is missing", layer.digest),
                )
            })?;
            flattened
                .add_layer(io::Cursor::new(blob))
                .map_err(|error| failed(error.class(), format!("layer {}: {error}", layer.digest)))?;
        }
        let files = flattened
            .into_files()
            .map_err(|error| failed(error.class(), error.to_string()))?;
        Ok(ImageContent {
            digest: self.digest.clone(),
            labels: self.config().map_err(malformed)?.config.labels,
            files,
        })
    }

    fn parsed_manifest(&self) -> Result<ImageManifest, WriteError> {
        match parse_manifest(&self.manifest).map_err(WriteError::Encode)? {
            Manifest::Image(manifest) => Ok(*manifest),
            Manifest::Index(_) => Err(WriteError::Encode("it is an index of several images".into())),
        }
    }

    pub(crate) fn into_parts(self) -> Result<Parts, WriteError> {
        let manifest = self.parsed_manifest()?;
        let config = self.config()?;
        let mut blobs = self.blobs;
        blobs.retain(|digest, _| digest.as_str() != manifest.config.digest);
        Ok((blobs, manifest.layers, config))
    }

    /// Writes the archive, all or nothing. With a name, importers know what to call the image.
    ///
    /// # Errors
    /// [`WriteError::Io`].
    pub fn write(&self, path: &Path, name: Option<&Reference>) -> Result<(), WriteError> {
        let io_error = WriteError::io(path);
        let folder = path
            .parent()
            .filter(|folder| !folder.as_os_str().is_empty())
            .unwrap_or(Path::new("."));
        // A pipe or a device is written to in place: replacing it with a file would destroy it (`/dev/null`).
        if std::fs::metadata(path).is_ok_and(|found| !found.is_file()) {
            let out = std::fs::OpenOptions::new().write(true).open(path);
            let written = out.and_then(|out| self.write_to(io::BufWriter::new(out), name));
            return written.map_err(io_error);
        }
        std::fs::create_dir_all(folder).map_err(&io_error)?;
        let readable = std::os::unix::fs::PermissionsExt::from_mode(0o644);
        let file = tempfile::Builder::new()
            .permissions(readable)
            .tempfile_in(folder)
            .map_err(&io_error)?;
        self.write_to(io::BufWriter::new(file.as_file()), name)
            .map_err(&io_error)?;
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
        let index = ImageIndex {
            schema_version: 2,
            media_type: Some(OCI_INDEX.to_owned()),
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

    /// Reads an archive: an OCI layout with one image, or an index from which this machine's image is taken.
    /// Every blob is verified.
    ///
    /// # Errors
    /// [`WriteError::Io`] and [`WriteError::Archive`].
    pub fn read(path: &Path) -> Result<Self, WriteError> {
        let io_error = WriteError::io(path);
        let wrong = |detail: String| WriteError::Archive {
            path: path.to_owned(),
            detail,
        };
        let mut files = BTreeMap::new();
        let file = io::BufReader::new(std::fs::File::open(path).map_err(&io_error)?);
        for entry in tar::Archive::new(file).entries().map_err(&io_error)? {
            let mut entry = entry.map_err(&io_error)?;
            let name = String::from_utf8_lossy(&entry.path_bytes())
                .trim_start_matches("./")
                .to_owned();
            let mut bytes = Vec::new();
            entry.read_to_end(&mut bytes).map_err(&io_error)?;
            files.insert(name, Bytes::from(bytes));
        }
        let index = files.get(INDEX_FILE).ok_or_else(|| {
            wrong(format!(
                "it has no `{INDEX_FILE}`, so it is not an OCI layout; `skopeo copy` can convert it"
            ))
        })?;
        let (digest, manifest) = follow_index(index, &files).map_err(wrong)?;
        let Manifest::Image(parsed) = parse_manifest(&manifest).map_err(wrong)? else {
            return Err(wrong("it contains several images".to_owned()));
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

/// Follows `index.json` to the manifest of the one image, through at most one index of platforms.
fn follow_index(index: &[u8], files: &BTreeMap<String, Bytes>) -> Result<(Digest, Bytes), String> {
    let mut at = index.to_vec();
    for _ in 0..2 {
        let Manifest::Index(index) = parse_manifest(&at)? else {
            break;
        };
        let digest = match index.manifests.as_slice() {
            [only] => only.digest.clone(),
            _ => choose_platform(&index)?.to_string(),
        };
        let (digest, blob) = find_blob(&digest, files)?;
        if let Manifest::Image(_) = parse_manifest(&blob)? {
            return Ok((digest, blob));
        }
        at = blob.to_vec();
    }
    Err("it contains no image".to_owned())
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
    use crate::config::RunConfig;
    use crate::write::{ImageSpec, LayerSpec};

    fn image() -> ImageArchive {
        let mut layer = LayerSpec::new();
        layer.file("a/b", "content", 0o644, 0).expect("file");
        let labels = [("k".to_owned(), "v".to_owned())].into();
        let config = RunConfig {
            labels,
            ..RunConfig::default()
        };
        ImageSpec {
            base: None,
            layers: vec![layer],
            config,
        }
        .build()
        .expect("image")
    }

    #[test]
    fn archives_are_read_back_and_are_the_same_bytes_each_time() {
        let dir = tempfile::tempdir().expect("folder");
        let image = image();
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
    fn what_is_no_file_is_written_to_and_not_replaced() {
        use std::os::unix::fs::FileTypeExt as _;
        let dir = tempfile::tempdir().expect("folder");
        let pipe = dir.path().join("pipe");
        let made = std::process::Command::new("mkfifo").arg(&pipe).status();
        assert!(made.expect("mkfifo runs").success());
        let reader = std::thread::spawn({
            let pipe = pipe.clone();
            move || std::fs::read(pipe).expect("pipe")
        });
        image().write(&pipe, None).expect("written");
        let file = dir.path().join("image.tar");
        image().write(&file, None).expect("written");
        assert_eq!(
            reader.join().expect("reader"),
            std::fs::read(&file).expect("file")
        );
        assert!(
            std::fs::symlink_metadata(&pipe)
                .expect("pipe")
                .file_type()
                .is_fifo()
        );
        let error = image().write(dir.path(), None).expect_err("a folder").to_string();
        assert!(error.contains(dir.path().to_str().expect("UTF-8")), "{error}");
    }

    #[test]
    fn damaged_archives_are_reported() {
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
        let mut image = image();
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
}
