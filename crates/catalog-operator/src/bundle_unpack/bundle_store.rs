//! Bundles on disk: the only place where the content of unpacked bundles is kept.
//!
//! A bundle is written once it is unpacked and checked. A reconcile that needs its objects reads them, because
//! a tree of JSON values takes seven to ten times the memory of its text. Each bundle has one file: the sha256
//! of the rest, then a line of JSON for each object. Files are written under a temporary name and renamed, so
//! readers see all or nothing.
//!
//! # Guarantees
//! - Content that a catalog of one namespace has unpacked is never returned to another namespace.
//! - All files together have a limit. Above it, files that were not used for [`UNUSED`] are removed, the oldest
//!   first; then the least recently used of the namespace with the most content.
//! - A bundle whose file is removed or damaged is unpacked again.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use olm_oci::Digest;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::content::{BundleFile, UnpackedBundle};
use super::error::{UnpackClass, UnpackError};

/// Limit of one bundle, in bytes. The largest real ones have five MiB.
pub(crate) const BUNDLE_BYTES: usize = 64 << 20;
/// Limit of all files together, in bytes: a few hundred bundles.
pub(crate) const STORE_BYTES: u64 = 256 << 20;
/// Time without use after which a file is removed before all others.
const UNUSED: Duration = Duration::from_secs(600);
/// Maximum nesting of maps and lists that can be parsed again; no API server accepts more.
const LEVELS: usize = 127;
/// Extension of the store's files; all other files in the folder belong to others.
const EXTENSION: &str = "olm-bundle";

/// A folder of bundles.
pub(crate) struct BundleStore {
    dir: PathBuf,
    max_bytes: u64,
    /// Allows one removal at a time.
    shrinking: Mutex<()>,
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
    bytes: u64,
    /// Hash of the namespace.
    namespace: String,
    path: PathBuf,
}

impl BundleStore {
    /// Creates a store of at most [`STORE_BYTES`] in `dir`; without one, in a temporary folder of this process.
    pub(crate) fn new(dir: Option<PathBuf>) -> Self {
        let temporary = match dir {
            Some(_) => None,
            // Without any folder, each bundle fails with the reason.
            None => tempfile::Builder::new().prefix("olm-bundles-").tempdir().ok(),
        };
        let dir = dir.or_else(|| Some(temporary.as_ref()?.path().to_owned()));
        Self {
            dir: dir.unwrap_or_else(std::env::temp_dir),
            max_bytes: STORE_BYTES,
            shrinking: Mutex::default(),
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
        std::fs::create_dir_all(&self.dir)?;
        // With the extension, an unfinished file of a killed process is removed like any other.
        let mut file = tempfile::Builder::new()
            .prefix(".new-")
            .suffix(&format!(".{EXTENSION}"))
            .tempfile_in(&self.dir)?;
        writeln!(file, "{hash}")?;
        file.write_all(text)?;
        file.persist(path).map_err(|error| error.error)?;
        self.shrink()
    }

    fn shrink(&self) -> io::Result<()> {
        let _one = self.shrinking.lock().unwrap_or_else(PoisonError::into_inner);
        let mut files = self.files()?;
        #[expect(clippy::disallowed_methods, reason = "files have the system's time")]
        let long_ago = SystemTime::now().checked_sub(UNUSED);
        while files.iter().map(|file| file.bytes).sum::<u64>() > self.max_bytes {
            let Some(next) = next_to_remove(&files, long_ago) else {
                break;
            };
            let _ = std::fs::remove_file(files.remove(next).path);
        }
        Ok(())
    }

    /// Returns the files, the least recently used first.
    fn files(&self) -> io::Result<Vec<StoredFile>> {
        let mut files = Vec::new();
        for entry in std::fs::read_dir(&self.dir)? {
            let entry = entry?;
            let path = entry.path();
            // Another thread may be removing files at the same time. Symbolic links are not ours.
            if let Ok(metadata) = entry.metadata()
                && metadata.is_file()
                && path.extension() == Some(OsStr::new(EXTENSION))
            {
                let name = entry.file_name();
                let name = name.to_string_lossy();
                files.push(StoredFile {
                    used: metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH),
                    bytes: metadata.len(),
                    namespace: name.split_once('-').map_or("", |(hash, _)| hash).to_owned(),
                    path,
                });
            }
        }
        files.sort_by_key(|file| file.used);
        Ok(files)
    }
}

/// Returns the index of the file to remove; `files` begin with the least recently used.
fn next_to_remove(files: &[StoredFile], long_ago: Option<SystemTime>) -> Option<usize> {
    if Some(files.first()?.used) < long_ago {
        return Some(0);
    }
    let mut bytes: BTreeMap<&str, u64> = BTreeMap::new();
    for file in files {
        let of_namespace = bytes.entry(&file.namespace).or_default();
        *of_namespace = of_namespace.saturating_add(file.bytes);
    }
    let (most, _) = bytes.into_iter().max_by_key(|(_, bytes)| *bytes)?;
    files.iter().position(|file| file.namespace == most)
}

impl StoredBundle {
    /// The image, by digest.
    pub(crate) fn image(&self) -> &str {
        &self.image
    }

    /// Marks the bundle as just used. Returns false if its file is removed.
    pub(crate) fn touch(&self) -> bool {
        let Ok(file) = std::fs::File::options().append(true).open(&self.path) else {
            return false;
        };
        // If this fails, the order of removals is only less exact.
        #[expect(clippy::disallowed_methods, reason = "files have the system's time")]
        let _ = file.set_modified(SystemTime::now());
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
mod tests {
    use super::*;

    fn bundle(csv: Value) -> UnpackedBundle {
        UnpackedBundle {
            image: "r/b@sha256:00".to_owned(),
            csv,
            objects: vec![
                BundleFile {
                    name: "a.yaml".to_owned(),
                    object: json!({"kind": "A", "text": "ü \u{0} \n\"", "list": [1, -2, 0.1, 1e300, null, true]}),
                },
                BundleFile {
                    name: "b.yaml".to_owned(),
                    object: json!({"kind": "B", "large": u64::MAX, "small": i64::MIN}),
                },
            ],
            left_out: vec!["file `c` is skipped".to_owned()],
        }
    }

    /// A bundle of an image of this name, whose file has about `size` bytes.
    fn sized(name: &str, size: usize) -> UnpackedBundle {
        UnpackedBundle {
            image: name.to_owned(),
            csv: json!("x".repeat(size)),
            ..UnpackedBundle::default()
        }
    }

    fn store(dir: &Path, max_bytes: u64) -> BundleStore {
        BundleStore {
            max_bytes,
            ..BundleStore::new(Some(dir.to_owned()))
        }
    }

    /// Makes a file this much older.
    fn age(path: &Path, seconds: u64) {
        let file = std::fs::File::options().append(true).open(path).unwrap();
        let used = file.metadata().unwrap().modified().unwrap();
        file.set_modified(used - Duration::from_secs(seconds)).unwrap();
    }

    #[test]
    fn what_is_stored_comes_back_as_it_was() {
        let store = BundleStore::new(None);
        let bundle = bundle(json!({"metadata": {"name": "a.v1"}}));
        let stored = store.put("ns", &bundle, true).unwrap();
        assert_eq!(stored.read().as_ref(), Some(&bundle));
        assert_eq!(store.image("ns", &bundle.image).read().as_ref(), Some(&bundle));
        let folder = store.dir.clone();
        drop(store);
        assert!(!folder.exists(), "it was not configured");
    }

    /// What a Job or a catalog has supplied is not what a registry has.
    #[test]
    fn only_pulled_content_is_found_by_the_name_of_its_image() {
        let store = BundleStore::new(None);
        let bundle = bundle(json!({}));
        let stored = store.put("ns", &bundle, false).unwrap();
        assert_eq!(stored.read().as_ref(), Some(&bundle));
        assert_eq!(store.image("ns", &bundle.image).read(), None);
    }

    #[test]
    fn one_namespaces_content_is_not_anothers_whatever_it_is_called() {
        let dir = tempfile::tempdir().unwrap();
        let store = store(&dir.path().join("store"), 1 << 20);
        let one = bundle(json!({}));
        store.put("a", &one, true).unwrap();
        for other in ["b", "", "../a", "/"] {
            assert_eq!(store.image(other, &one.image).read(), None, "{other}");
            store.put(other, &one, true).unwrap();
        }
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
        assert_eq!(std::fs::read_dir(&store.dir).unwrap().count(), 5);
    }

    #[test]
    fn any_damage_is_noticed_and_the_file_removed() {
        let store = BundleStore::new(None);
        let stored = store.put("ns", &bundle(json!({})), true).unwrap();
        let good = std::fs::read(&stored.path).unwrap();
        let is_noticed = |bytes: &[u8]| {
            std::fs::write(&stored.path, bytes).unwrap();
            stored.read().is_none() && !stored.path.exists() && !stored.touch()
        };
        for at in 0..good.len() {
            let mut bad = good.clone();
            bad[at] ^= 1;
            assert!(is_noticed(&bad), "byte {at}");
            assert!(is_noticed(&good[..at]), "length {at}");
        }
    }

    /// A bundle that could be stored but not parsed again would be unpacked forever.
    #[test]
    fn a_bundle_is_refused_exactly_when_it_could_not_be_read_again() {
        let nested = |levels: usize| {
            (0..levels).fold(json!("x"), |inner, level| {
                if level % 2 == 0 {
                    json!([inner])
                } else {
                    json!({ "a": inner })
                }
            })
        };
        let store = BundleStore::new(None);
        for levels in LEVELS - 2..LEVELS + 3 {
            let value = nested(levels);
            let readable = serde_json::from_str::<Value>(&value.to_string()).is_ok();
            let stored = store.put("ns", &bundle(value), true);
            assert_eq!(stored.is_ok(), readable, "{levels} levels");
            if let Ok(stored) = stored {
                assert!(stored.read().is_some());
            }
        }
        let error = store.put("ns", &bundle(nested(128)), true).unwrap_err();
        insta::assert_snapshot!(error.cause, @"image `r/b@sha256:00`: `ClusterServiceVersion` is nested deeper than 127 levels");
    }

    #[test]
    fn a_bundle_too_large_to_be_stored_is_refused() {
        let large = bundle(json!("\u{1}".repeat(BUNDLE_BYTES / 6 + 1)));
        let error = BundleStore::new(None).put("ns", &large, true).unwrap_err();
        assert_eq!(error.class, UnpackClass::TooLarge);
    }

    #[test]
    fn a_folder_that_takes_nothing_is_reported() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        std::fs::write(&file, "x").unwrap();
        let error = store(&file, 1 << 20).put("ns", &bundle(json!({})), true);
        let error = error.unwrap_err();
        assert_eq!(error.class, UnpackClass::NoRoom);
        assert!(error.cause.contains("cannot store the bundle in "), "{error}");
    }

    #[test]
    fn what_was_not_used_for_long_is_removed_first() {
        let dir = tempfile::tempdir().unwrap();
        let store = store(dir.path(), 3_500);
        let put = |namespace: &str, name: &str| store.put(namespace, &sized(name, 1_000), true).unwrap();
        let (used, unused) = (put("small", "used"), put("small", "unused"));
        let unfinished = dir.path().join(format!(".new-a1b2c3.{EXTENSION}"));
        std::fs::write(&unfinished, "half").unwrap();
        age(&unfinished, 3 * UNUSED.as_secs());
        age(&unused.path, 2 * UNUSED.as_secs());
        age(&used.path, 2 * UNUSED.as_secs());
        assert!(used.touch());
        let large = [put("large", "1"), put("large", "2")];
        assert!(!unused.touch() && used.touch());
        assert!(large.iter().all(StoredBundle::touch));
        assert!(!unfinished.exists(), "of a killed process");
    }

    /// A namespace that unpacks constantly loses its own content, not that of a namespace with little content.
    #[test]
    fn what_is_used_is_removed_from_the_namespace_with_the_most() {
        let dir = tempfile::tempdir().unwrap();
        let store = store(dir.path(), 6_000);
        let quiet = store.put("quiet", &sized("quiet", 1_000), true).unwrap();
        let noisy: Vec<StoredBundle> = (0..20)
            .map(|number| {
                for file in store.files().unwrap() {
                    age(&file.path, 10);
                }
                let bundle = sized(&number.to_string(), 1_000);
                store.put("noisy", &bundle, true).unwrap()
            })
            .collect();
        assert!(quiet.touch() && noisy[19].touch());
        assert!(!noisy[3].touch());
        let bytes: u64 = store.files().unwrap().iter().map(|file| file.bytes).sum();
        assert!(bytes <= 6_000, "{bytes}");
    }

    /// The folder may contain other files, as `/tmp` does.
    #[test]
    fn nothing_of_others_in_the_folder_is_removed() {
        let dir = tempfile::tempdir().unwrap();
        let others = ["notes.txt", "work/result", "work/a.olm-bundle", ".new-draft"];
        for other in others {
            let path = dir.path().join(other);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "x".repeat(500)).unwrap();
        }
        let store = store(dir.path(), 1_500);
        for number in 0..4 {
            store.put("a", &sized(&number.to_string(), 1_000), true).unwrap();
        }
        assert_eq!(store.files().unwrap().len(), 1);
        for other in others {
            assert!(dir.path().join(other).exists(), "{other}");
        }
    }
}
