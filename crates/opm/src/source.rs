//! Sources of `render` and the image commands: directories and images of bundles and catalogs.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use go_compat::error_chain;
use olm_api::labels::{INDEX_CONFIGS, INDEX_DATABASE, bundle as annotations};
use olm_authoring::bundle::BundleContent;
use olm_fbc::load::LoadError;
use olm_fbc::property::kinds;
use olm_fbc::schema::Blob;
use olm_fbc::validate::check_objects;
use olm_oci::Reference;

use crate::nearest;
use crate::printer;
use crate::settings::Settings;

/// Default directories of a bundle whose labels name none.
pub(crate) const MANIFESTS: &str = "manifests";
pub(crate) const METADATA: &str = "metadata";

/// Source of catalog objects.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// A directory with `manifests/` and `metadata/`.
    BundleDirectory(PathBuf),
    CatalogDirectory(PathBuf),
    /// A catalog as a SQLite file.
    Database(PathBuf),
    /// An image, whose labels define its content.
    Image(Reference),
}

impl Source {
    /// Detects the source as upstream does: an existing path is a path, other text is an image.
    ///
    /// # Errors
    /// A file that is not a directory, or a text that is neither a path nor a complete image reference.
    pub(crate) fn parse(text: &str) -> anyhow::Result<Self> {
        let path = Path::new(text);
        if path.is_dir() {
            let is_bundle = path.join(MANIFESTS).is_dir() && path.join(METADATA).is_dir();
            let path = path.to_owned();
            return Ok(if is_bundle {
                Self::BundleDirectory(path)
            } else {
                Self::CatalogDirectory(path)
            });
        }
        if is_database(path) {
            return Ok(Self::Database(path.to_owned()));
        }
        if path.exists() {
            return Err(NotACatalog(format!("ref {text:?} is not a directory")).into());
        }
        if is_written_as_path(text) {
            bail!("stat {text}: no such file or directory{}", nearest::path(path));
        }
        // Without this, the error for a missing folder would only mention images.
        let refused = |reason: &str| {
            let meant = nearest::path(path);
            anyhow::anyhow!(
                "failed to pull image {text:?}: {reason}: no such file or directory either; an image is named with its \
                 registry, as in quay.io/NAMESPACE/NAME:TAG{meant}"
            )
        };
        let reference: Reference = text.parse().map_err(|error| refused(&error_chain(&error)))?;
        // Short names mean different images on different machines, so catalogs must not be made from them.
        if !text.starts_with(reference.registry()) {
            return Err(refused("repository name must be canonical"));
        }
        Ok(Self::Image(reference))
    }

    /// Passes the blobs of the source to `take`, one after the other. Only one blob of a catalog directory is in memory at a
    /// time.
    ///
    /// # Errors
    /// The unreadable file or image, and the errors of `take`.
    pub(crate) async fn read(
        &self,
        settings: &Settings,
        take: &mut impl FnMut(Blob) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        if let Self::CatalogDirectory(path) = self {
            return read_catalog(path, take);
        }
        self.load(settings).await?.into_iter().try_for_each(take)
    }

    /// Returns the blobs of the source; the blob of a bundle directory has an empty image.
    ///
    /// # Errors
    /// The unreadable file or image.
    pub(crate) async fn load(&self, settings: &Settings) -> anyhow::Result<Vec<Blob>> {
        match self {
            Self::BundleDirectory(path) => Ok(vec![bundle_blob(&read_bundle_directory(path)?, "")?]),
            Self::CatalogDirectory(path) => load_catalog(path),
            Self::Database(path) => crate::sqlite::read(path),
            Self::Image(reference) => load_image(reference, settings).await,
        }
    }
}

/// Returns true if the text cannot be an image, because no reference begins in this way.
fn is_written_as_path(text: &str) -> bool {
    let beginning = ["/", "./", "../"];
    matches!(text, "." | "..") || beginning.iter().any(|beginning| text.starts_with(beginning))
}

/// Error: the source is a bundle where a catalog is needed.
#[derive(Debug)]
pub(crate) struct NotACatalog(String);

impl std::fmt::Display for NotACatalog {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: not allowed", self.0)
    }
}

impl std::error::Error for NotACatalog {}

/// Returns the blobs of a catalog, image or directory, in the form `render` prints them.
///
/// # Errors
/// The unreadable file or image; [`NotACatalog`] for bundles.
pub(crate) async fn load_catalog_reference(text: &str, settings: &Settings) -> anyhow::Result<Vec<Blob>> {
    let rendering = || format!("render reference {text:?}");
    let source = Source::parse(text).with_context(rendering)?;
    if let Source::BundleDirectory(path) = &source {
        let refused = NotACatalog(format!("cannot render bundle directory {path:?}"));
        return Err(anyhow::Error::new(refused).context(rendering()));
    }
    let is_image = matches!(source, Source::Image(_));
    let mut blobs = source.load(settings).await.with_context(rendering)?;
    if is_image && matches!(blobs.as_slice(), [Blob::Bundle(_)]) {
        let refused = NotACatalog("cannot render bundle image".to_owned());
        return Err(anyhow::Error::new(refused).context(rendering()));
    }
    normalise(&mut blobs);
    Ok(blobs)
}

/// Puts bundles into the order of rendering: manifests and metadata after all other properties, related images by image.
pub(crate) fn normalise(blobs: &mut [Blob]) {
    for blob in blobs {
        if let Blob::Bundle(bundle) = blob {
            bundle.properties.sort_by_key(|property| {
                matches!(property.kind.as_str(), kinds::BUNDLE_OBJECT | kinds::CSV_METADATA)
            });
            bundle.related_images.sort_by(|a, b| a.image.cmp(&b.image));
        }
    }
}

/// Checks that a directory exists, with upstream's text.
///
/// # Errors
/// It does not exist; the error suggests one with a similar name.
pub(crate) fn check_directory(path: &Path) -> anyhow::Result<()> {
    let shown = path.display().to_string();
    match std::fs::metadata(path) {
        Ok(found) if found.is_dir() => Ok(()),
        Ok(_) => bail!("{shown:?} is not a directory"),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            bail!("stat {shown}: no such file or directory{}", nearest::path(path))
        }
        Err(error) => bail!("stat {shown}: {error}"),
    }
}

/// Passes the blobs below a catalog directory to `take`.
fn read_catalog(directory: &Path, take: &mut impl FnMut(Blob) -> anyhow::Result<()>) -> anyhow::Result<()> {
    let read = olm_fbc::load::read(directory, |blob, origin| -> anyhow::Result<()> {
        let blob = blob?;
        if let Blob::Bundle(bundle) = &blob {
            check_objects(bundle).map_err(|reason| anyhow::Error::msg(reason).context(origin.to_string()))?;
        }
        take(blob)
    });
    read.map_err(|error| match error.downcast::<LoadError>() {
        Ok(error) => hinted(error.hint(), error),
        Err(error) => error,
    })
}

/// Returns the error, followed by the hint.
pub(crate) fn hinted(
    hint: Option<String>,
    error: impl std::error::Error + Send + Sync + 'static,
) -> anyhow::Error {
    match hint {
        Some(hint) => anyhow::anyhow!("{}: {hint}", error_chain(&error)),
        None => error.into(),
    }
}

/// Returns the blobs below a catalog directory.
pub(crate) fn load_catalog(directory: &Path) -> anyhow::Result<Vec<Blob>> {
    let mut blobs = Vec::new();
    read_catalog(directory, &mut |blob| {
        blobs.push(blob);
        Ok(())
    })?;
    Ok(blobs)
}

/// Reads a bundle directory.
///
/// # Errors
/// IO errors with their path, and errors of an incomplete bundle.
pub(crate) fn read_bundle_directory(directory: &Path) -> anyhow::Result<BundleContent> {
    let mut files = Vec::new();
    for folder in [MANIFESTS, METADATA] {
        for path in entries(&directory.join(folder))? {
            if let (true, Some(name)) = (path.is_file(), path.file_name().and_then(|name| name.to_str())) {
                files.push((format!("{folder}/{name}"), read(&path)?));
            }
        }
    }
    BundleContent::read(files).with_context(|| format!("bundle directory {}", directory.display()))
}

/// Returns the entries of a folder, ordered by name.
///
/// # Errors
/// The folder cannot be read.
pub(crate) fn entries(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let cannot = || format!("cannot read {}", folder.display());
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(folder).with_context(cannot)? {
        paths.push(entry.with_context(cannot)?.path());
    }
    paths.sort();
    Ok(paths)
}

/// Returns the content of a file.
///
/// # Errors
/// The file cannot be read.
pub(crate) fn read(file: &Path) -> anyhow::Result<Vec<u8>> {
    std::fs::read(file).with_context(|| format!("cannot read {}", file.display()))
}

/// Returns the blob of a bundle; prints the warnings about its files.
pub(crate) fn bundle_blob(bundle: &BundleContent, image: &str) -> anyhow::Result<Blob> {
    for warning in &bundle.warnings {
        printer::warning(warning);
    }
    Ok(Blob::Bundle(bundle.to_blob(image)?))
}

/// Returns the folders of manifests and metadata that the labels of a bundle image name.
pub(crate) fn bundle_folders(labels: &BTreeMap<String, String>) -> [String; 2] {
    [
        (annotations::MANIFESTS, MANIFESTS),
        (annotations::METADATA, METADATA),
    ]
    .map(|(label, default)| labels.get(label).map_or(default, String::as_str).to_owned())
}

async fn load_image(reference: &Reference, settings: &Settings) -> anyhow::Result<Vec<Blob>> {
    let credentials = settings.credentials(reference)?;
    let mut image = settings.puller().open(reference, &credentials).await?;
    let labels = image.labels().clone();
    if let Some(configs) = labels.get(INDEX_CONFIGS) {
        let directory = tempfile::tempdir().context("cannot create a temporary directory")?;
        // A misspelt label would otherwise render as an empty catalog without an error.
        if image.write_below(configs, directory.path()).await? == 0 {
            bail!("image {reference} has no files below {configs:?}, which its label {INDEX_CONFIGS} names");
        }
        return load_catalog(directory.path());
    }
    if labels.contains_key(annotations::PACKAGE) {
        let folders = bundle_folders(&labels);
        let content = image.content(&folders).await?;
        let named = folders.iter().zip([MANIFESTS, METADATA]);
        let files = named.flat_map(|(folder, name)| {
            content
                .below(folder)
                .map(move |(path, bytes)| (format!("{name}/{path}"), bytes))
        });
        let bundle = BundleContent::read(files)?;
        return Ok(vec![bundle_blob(&bundle, &reference.to_string())?]);
    }
    if let Some(database) = labels.get(INDEX_DATABASE) {
        return load_database(&mut image, database).await;
    }
    if labels.is_empty() {
        bail!("image {reference} has no labels");
    }
    let names: Vec<&str> = labels.keys().map(String::as_str).collect();
    bail!(
        "image type could not be determined, found labels {}",
        names.join(", ")
    )
}

/// Returns true for a file that begins like a database. Pipes are never read: the bytes would be lost, and the end may never
/// come.
fn is_database(path: &Path) -> bool {
    use std::io::Read as _;
    if !path.is_file() {
        return false;
    }
    let mut start = [0; crate::sqlite::MAGIC.len()];
    std::fs::File::open(path)
        .and_then(|mut file| file.read_exact(&mut start))
        .is_ok_and(|()| start == crate::sqlite::MAGIC)
}

/// Reads a database from an image. Its whole directory is pulled, because layers are read by directory.
async fn load_database(image: &mut olm_oci::Image, database: &str) -> anyhow::Result<Vec<Blob>> {
    let name = database.trim_matches('/');
    let folder = name.rsplit_once('/').map_or("/", |(folder, _)| folder);
    let files = image.content(&[folder.to_owned()]).await?.files;
    let bytes = files
        .get(name)
        .with_context(|| format!("the image has no {database}, which its label names"))?;
    let directory = tempfile::tempdir().context("cannot create a temporary directory")?;
    let path = directory.path().join("index.db");
    std::fs::write(&path, bytes).with_context(|| format!("cannot write {}", path.display()))?;
    crate::sqlite::read(&path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_exists_is_a_path_and_the_rest_an_image() {
        let dir = tempfile::tempdir().expect("folder");
        let path = dir.path().to_str().expect("UTF-8");
        assert_eq!(
            Source::parse(path).expect("directory"),
            Source::CatalogDirectory(dir.path().into())
        );
        std::fs::create_dir(dir.path().join("manifests")).expect("folder");
        assert_eq!(
            Source::parse(path).expect("directory"),
            Source::CatalogDirectory(dir.path().into())
        );
        std::fs::create_dir(dir.path().join("metadata")).expect("folder");
        assert_eq!(
            Source::parse(path).expect("directory"),
            Source::BundleDirectory(dir.path().into())
        );
        let file = dir.path().join("file");
        std::fs::write(&file, "").expect("file");
        let error = Source::parse(file.to_str().expect("UTF-8"))
            .expect_err("file")
            .to_string();
        assert!(error.ends_with("is not a directory: not allowed"), "{error}");
        assert!(matches!(Source::parse("quay.io/a/b:v1"), Ok(Source::Image(_))));
        let error = Source::parse("unknown-index")
            .expect_err("short name")
            .to_string();
        assert!(
            error.starts_with("failed to pull image \"unknown-index\": repository name must be canonical: "),
            "{error}"
        );
    }
}
