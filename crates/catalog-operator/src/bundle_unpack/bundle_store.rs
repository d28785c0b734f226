//! Bundles on disk: the only place where the content of unpacked bundles is kept.
//!
//! A bundle is written once it is unpacked and checked. A reconcile that needs its objects reads them, because
//! a tree of JSON values takes seven to ten times the memory of its text. Each bundle has one file: the sha256
//! of the rest, then a line of JSON for each object. Files are written under a temporary name and renamed, so
//! readers see all or nothing.
//!
//! # Guarantees
//! - Content that a catalog of one namespace has unpacked is never returned to another namespace.
//! - All files together have a limit. Above it, the least recently used are removed. A new file is never removed to
//!   make room for itself.
//! - A bundle whose file is removed or damaged is unpacked again.
//! - One file is written at a time.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use olm_oci::Digest;
use olm_runtime::sync::Mutex;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::content::{BundleFile, UnpackedBundle};
use super::error::{UnpackClass, UnpackError};

/// Limit of one bundle, in bytes. The largest real ones have five MiB.
pub(crate) const BUNDLE_BYTES: usize = 64 << 20;
/// Limit of all files together, in bytes: a few hundred bundles.
pub(crate) const STORE_BYTES: u64 = 256 << 20;
/// Age of an unfinished file after which it is that of a killed process.
const ABANDONED: Duration = Duration::from_secs(600);
/// Unit in which a volume allocates space, in bytes.
const BLOCK: u64 = 4096;
/// Maximum nesting of maps and lists that can be parsed again; no API server accepts more.
const LEVELS: usize = 127;
/// Extension of the store's files; all other files in the folder belong to others.
const EXTENSION: &str = "olm-bundle";
/// Prefix of a file that is being written.
const UNFINISHED: &str = ".new-";
/// Prefix of temporary folders.
const TEMPORARY: &str = "olm-bundles-";

/// A folder of bundles.
pub(crate) struct BundleStore {
    dir: PathBuf,
    max_bytes: u64,
    /// Allows one write, with its removals, at a time.
    writing: Mutex<()>,
    /// Removes the folder when the store is dropped, if none was configured.
    _temporary: Option<TempDir>,
}

/// A bundle in the store. Its file may be removed at any time.
#[derive(Debug, Clone)]
pub struct StoredBundle {
    path: PathBuf,
    image: String,
}

/// One file of the store.
struct StoredFile {
    used: SystemTime,
    /// Space on the volume.
    bytes: u64,
    path: PathBuf,
}

impl BundleStore {
    /// Creates a store of at most [`STORE_BYTES`] in `dir`; without one, in a temporary folder of this process.
    pub(crate) fn new(dir: Option<PathBuf>) -> Self {
        // Without any folder, each bundle fails with the reason.
        let temporary = match dir {
            Some(_) => None,
            None => tempfile::Builder::new().prefix(TEMPORARY).tempdir().ok(),
        };
        let dir = dir.or_else(|| Some(temporary.as_ref()?.path().to_owned()));
        Self {
            dir: dir.unwrap_or_else(std::env::temp_dir),
            max_bytes: STORE_BYTES,
            writing: Mutex::default(),
            _temporary: temporary,
        }
    }

    /// Stores a bundle for catalogs of a namespace. If this process has pulled it, [`BundleStore::image`] finds
    /// it; else only the result leads to it. A large bundle takes a second, so this must not run on the thread
    /// of reconciles and watches.
    ///
    /// # Errors
    /// The bundle is too large, nested too deeply to be parsed again, or cannot be written.
    pub(crate) fn put(
        &self,
        namespace: &str,
        bundle: &UnpackedBundle,
        is_pulled: bool,
    ) -> Result<StoredBundle, UnpackError> {
        let text = encode(bundle)?;
        let hash = Digest::sha256(&text);
        let stored = if is_pulled {
            self.image(namespace, &bundle.image)
        } else {
            self.file(namespace, &format!("content {hash}"), &bundle.image)
        };
        self.write(&stored.path, &hash, &text).map_err(|error| {
            let (image, dir) = (&bundle.image, self.dir.display());
            let cause = format!("image `{image}`: cannot store the bundle in {dir}: {error}");
            UnpackError::new(UnpackClass::NoRoom, cause)
        })?;
        Ok(stored)
    }

    /// Returns an image that this process may have pulled for a catalog of the namespace. `pinned` is its name
    /// with digest.
    pub(crate) fn image(&self, namespace: &str, pinned: &str) -> StoredBundle {
        self.file(namespace, &format!("image {pinned}"), pinned)
    }

    /// Names may come from a user's text, which must not lead to another path, so a file name has hashes only.
    fn file(&self, namespace: &str, name: &str, image: &str) -> StoredBundle {
        let hash = |text: &str| Digest::sha256(text.as_bytes()).hex().to_owned();
        let name = format!("{}-{}.{EXTENSION}", hash(namespace), hash(name));
        StoredBundle {
            path: self.dir.join(name),
            image: image.to_owned(),
        }
    }

    fn write(&self, path: &Path, hash: &Digest, text: &[u8]) -> io::Result<()> {
        let _one = self.writing.lock();
        std::fs::create_dir_all(&self.dir)?;
        // With the extension, an unfinished file of a killed process is removed like any other.
        let mut file = tempfile::Builder::new()
            .prefix(UNFINISHED)
            .suffix(&format!(".{EXTENSION}"))
            .tempfile_in(&self.dir)?;
        writeln!(file, "{hash}")?;
        file.write_all(text)?;
        file.persist(path).map_err(|error| error.error)?;
        self.shrink(path)
    }

    /// Removes the least recently used files above the limit, but never `keep`.
    fn shrink(&self, keep: &Path) -> io::Result<()> {
        let files = self.files()?;
        let mut total: u64 = files.iter().map(|file| file.bytes).sum();
        for file in files.iter().filter(|file| file.path != keep) {
            if total <= self.max_bytes {
                break;
            }
            file.remove();
            total = total.saturating_sub(file.bytes);
        }
        Ok(())
    }

    /// Returns the files, the least recently used first, without those that are being written.
    fn files(&self) -> io::Result<Vec<StoredFile>> {
        let present = now();
        let mut files = Vec::new();
        for entry in std::fs::read_dir(&self.dir)? {
            let entry = entry?;
            let path = entry.path();
            // Another process may be removing files at the same time. Symbolic links are not ours.
            if let Ok(metadata) = entry.metadata()
                && metadata.is_file()
                && path.extension() == Some(OsStr::new(EXTENSION))
            {
                let name = entry.file_name();
                let name = name.to_string_lossy();
                let used = metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH);
                let is_abandoned = || present.duration_since(used).is_ok_and(|age| age > ABANDONED);
                if name.starts_with(UNFINISHED) && !is_abandoned() {
                    continue;
                }
                files.push(StoredFile {
                    used,
                    bytes: metadata.len().next_multiple_of(BLOCK),
                    path,
                });
            }
        }
        files.sort_by_key(|file| file.used);
        Ok(files)
    }
}

impl StoredFile {
    /// Removes it. If this fails, the next write tries again.
    fn remove(&self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

#[expect(clippy::disallowed_methods, reason = "files have the system's time")]
fn now() -> SystemTime {
    SystemTime::now()
}

impl StoredBundle {
    /// The image, by digest.
    pub(crate) fn image(&self) -> &str {
        &self.image
    }

    /// Marks the bundle as just used. Returns false if its file is removed.
    pub(crate) fn touch(&self) -> bool {
        let Ok(file) = File::options().append(true).open(&self.path) else {
            return false;
        };
        // If this fails, the order of removals is only less exact.
        let _ = file.set_modified(now());
        true
    }

    /// Reads the bundle. `None` means it has to be unpacked again: its file is removed, unreadable or damaged. A
    /// large bundle takes a second, so this must not run on the thread of reconciles and watches.
    pub(crate) fn read(&self) -> Option<UnpackedBundle> {
        let bytes = std::fs::read(&self.path).ok();
        let bundle = bytes.and_then(|bytes| decode(&bytes, &self.image));
        if bundle.is_none() && std::fs::remove_file(&self.path).is_ok() {
            tracing::warn!(image = %self.image, path = %self.path.display(), "removing damaged bundle");
        }
        bundle
    }
}

fn encode(bundle: &UnpackedBundle) -> Result<Vec<u8>, UnpackError> {
    let refused =
        |class, cause: String| UnpackError::new(class, format!("image `{}`: {cause}", bundle.image));
    let names: Vec<&str> = bundle.objects.iter().map(|file| file.name.as_str()).collect();
    let mut text = json!([names, bundle.left_out]).to_string();
    let named = bundle
        .objects
        .iter()
        .map(|file| (file.name.as_str(), &file.object));
    for (name, object) in std::iter::once(("ClusterServiceVersion", &bundle.csv)).chain(named) {
        if !fits(object, LEVELS) {
            let cause = format!("`{name}` is nested deeper than {LEVELS} levels");
            return Err(refused(UnpackClass::InvalidManifest, cause));
        }
        text.push('\n');
        text.push_str(&object.to_string());
        if text.len() > BUNDLE_BYTES {
            let limit = BUNDLE_BYTES >> 20;
            let cause = format!("its objects exceed {limit} MiB as JSON (limit BUNDLE_BYTES)");
            return Err(refused(UnpackClass::TooLarge, cause));
        }
    }
    Ok(text.into_bytes())
}

/// Returns the bundle in a file; `None` if the file is damaged.
fn decode(bytes: &[u8], image: &str) -> Option<UnpackedBundle> {
    let mut parts = bytes.splitn(2, |byte| *byte == b'\n');
    let (hash, text) = (parts.next()?, parts.next()?);
    let hash: Digest = std::str::from_utf8(hash).ok()?.parse().ok()?;
    if !hash.matches(text) {
        return None;
    }
    let mut lines = text.split(|byte| *byte == b'\n');
    let (names, left_out): (Vec<String>, Vec<String>) = serde_json::from_slice(lines.next()?).ok()?;
    let csv = serde_json::from_slice(lines.next()?).ok()?;
    let objects = names.into_iter().map(|name| {
        let object = serde_json::from_slice(lines.next()?).ok()?;
        Some(BundleFile { name, object })
    });
    Some(UnpackedBundle {
        image: image.to_owned(),
        csv,
        objects: objects.collect::<Option<_>>()?,
        left_out,
    })
}

/// True when a value has at most this many levels.
fn fits(value: &Value, levels: usize) -> bool {
    let Some(left) = levels.checked_sub(1) else {
        return !value.is_array() && !value.is_object();
    };
    match value {
        Value::Array(items) => items.iter().all(|item| fits(item, left)),
        Value::Object(map) => map.values().all(|item| fits(item, left)),
        _ => true,
    }
}

#[cfg(test)]
mod tests;
