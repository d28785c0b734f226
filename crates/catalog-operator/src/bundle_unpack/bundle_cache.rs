//! Cache of pulled bundles on disk, separate for each namespace.
//!
//! # Guarantees
//! - Content that a catalog of one namespace has pulled is never returned to another namespace.
//! - All together have a limit. Evictions affect the namespace with the most content, least recently used
//!   first. So a namespace below its share loses nothing because of others.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

use olm_oci::{ContentCache, Digest, ImageContent, View};
use sha2::{Digest as _, Sha256};

/// A folder with a subfolder for each namespace.
pub(crate) struct BundleCache {
    dir: PathBuf,
    max_bytes: u64,
    /// Allows one eviction at a time.
    shrinking: Mutex<()>,
}

/// Length of the hash in a folder name, in bytes.
const HASH_BYTES: usize = 16;

/// Time of last use, length and path of a file.
type Cached = (SystemTime, u64, PathBuf);

impl BundleCache {
    /// Creates a cache in `dir` with this limit in bytes. Unfinished files of a killed process are removed.
    pub(crate) fn new(dir: PathBuf, max_bytes: u64) -> Self {
        let cache = Self {
            dir,
            max_bytes,
            shrinking: Mutex::default(),
        };
        if let Err(error) = cache.remove_unfinished() {
            tracing::warn!(%error, "cannot clean up the bundle cache of a previous process");
        }
        cache
    }

    fn remove_unfinished(&self) -> io::Result<()> {
        if !self.dir.is_dir() {
            return Ok(());
        }
        for entry in std::fs::read_dir(&self.dir)? {
            let path = entry?.path();
            if is_share(&path) {
                ContentCache::new(path, self.max_bytes).remove_unfinished()?;
            }
        }
        Ok(())
    }

    /// Returns the content stored for a digest in a namespace.
    pub(crate) fn get(&self, namespace: &str, digest: &Digest, view: View) -> Option<ImageContent> {
        self.of(namespace).get(digest, view)
    }

    /// Stores content for a namespace.
    ///
    /// # Errors
    /// IO errors; other content is unchanged.
    pub(crate) fn put(&self, namespace: &str, content: &ImageContent, view: View) -> io::Result<()> {
        self.of(namespace).put(content, view)?;
        self.shrink()
    }

    fn of(&self, namespace: &str) -> ContentCache {
        ContentCache::new(self.dir.join(folder(namespace)), self.max_bytes)
    }

    fn shrink(&self) -> io::Result<()> {
        let _one = self.shrinking.lock().unwrap_or_else(PoisonError::into_inner);
        let mut shares: BTreeMap<PathBuf, Vec<Cached>> = BTreeMap::new();
        for entry in std::fs::read_dir(&self.dir)? {
            let path = entry?.path();
            if is_share(&path) {
                shares.insert(path.clone(), cached(&path)?);
            } else if is_content(&path) {
                // A file of a version that had one folder for all namespaces.
                let _ = std::fs::remove_file(path);
            }
        }
        let size = |files: &Vec<Cached>| files.iter().map(|(_, length, _)| length).sum::<u64>();
        while shares.values().map(size).sum::<u64>() > self.max_bytes {
            let Some(largest) = shares.values_mut().max_by_key(|files| size(files)) else {
                break;
            };
            let Some((_, _, path)) = largest.pop() else {
                break;
            };
            let _ = std::fs::remove_file(path);
        }
        for (path, files) in shares {
            if files.is_empty() {
                // Fails if a file was added meanwhile, which is intended.
                let _ = std::fs::remove_dir(path);
            }
        }
        Ok(())
    }
}

/// True when a path is named like the cache's folders; everything else in the folder belongs to others.
fn is_share(path: &Path) -> bool {
    let name = path.file_name().and_then(OsStr::to_str).unwrap_or_default();
    let is_hash =
        name.len() == 2 * HASH_BYTES && name.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    // The target of a symbolic link is not ours, whatever its name.
    is_hash && std::fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_dir())
}

fn is_content(path: &Path) -> bool {
    path.extension() == Some(OsStr::new(ContentCache::EXTENSION)) && path.is_file()
}

/// Returns the files of a folder, the least recently used one last.
fn cached(folder: &Path) -> io::Result<Vec<Cached>> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        // Other tasks may write or remove files at the same time.
        if let Ok(metadata) = entry.metadata()
            && is_content(&entry.path())
        {
            let used = metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH);
            files.push((used, metadata.len(), entry.path()));
        }
    }
    files.sort();
    files.reverse();
    Ok(files)
}

/// Folder name of hexadecimal digits. The namespace may come from a user's text, which must not lead to
/// another path.
fn folder(namespace: &str) -> String {
    let hash = Sha256::digest(namespace.as_bytes());
    hash.iter()
        .take(HASH_BYTES)
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const VIEW: View = View::new("test", |_| Vec::new());

    fn content(name: &str, size: usize) -> ImageContent {
        ImageContent {
            digest: Digest::sha256(name.as_bytes()),
            labels: BTreeMap::new(),
            files: [("m/a".to_owned(), vec![b'x'; size].into())].into(),
        }
    }

    #[test]
    fn one_namespaces_content_is_not_anothers_whatever_it_is_called() {
        let dir = tempfile::tempdir().unwrap();
        let cache = BundleCache::new(dir.path().join("cache"), 1 << 20);
        let one = content("one", 10);
        cache.put("a", &one, VIEW).unwrap();
        assert_eq!(cache.get("a", &one.digest, VIEW).as_ref(), Some(&one));
        for other in ["b", "", "../a", "/"] {
            assert_eq!(cache.get(other, &one.digest, VIEW), None, "{other}");
            cache.put(other, &one, VIEW).unwrap();
        }
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn what_a_killed_process_was_writing_is_removed_at_start() {
        let dir = tempfile::tempdir().unwrap();
        let one = content("one", 10);
        let path = dir.path().to_path_buf();
        BundleCache::new(path.clone(), 1 << 20)
            .put("a", &one, VIEW)
            .unwrap();
        let half = dir.path().join(folder("a")).join(".new-a1b2c3");
        std::fs::write(&half, "half").unwrap();
        let cache = BundleCache::new(path, 1 << 20);
        assert!(!half.exists());
        assert_eq!(cache.get("a", &one.digest, VIEW).as_ref(), Some(&one));
    }

    /// The folder may contain other files, as `/tmp` does: only files with names of this cache are touched.
    #[test]
    fn nothing_of_others_in_the_folder_is_removed() {
        let dir = tempfile::tempdir().unwrap();
        let hash = "0123456789abcdef0123456789abcdef";
        let others = [
            "notes.txt".to_owned(),
            "work/.new-draft".to_owned(),
            "work/result".to_owned(),
            format!("{hash}/result"),
            format!("{}/result", hash.to_uppercase()),
            format!("{hash}0/a.content"),
        ];
        for other in &others {
            let path = dir.path().join(other);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "x".repeat(500)).unwrap();
        }
        std::fs::write(dir.path().join("former.content"), "x").unwrap();
        let cache = BundleCache::new(dir.path().into(), 1_500);
        for number in 0..4 {
            let content = content(&number.to_string(), 1_000);
            cache.put("a", &content, VIEW).unwrap();
        }
        assert_eq!(cached(&dir.path().join(folder("a"))).unwrap().len(), 1);
        for other in &others {
            assert!(dir.path().join(other).exists(), "{other}");
        }
        assert!(!dir.path().join("former.content").exists(), "of a former version");
    }

    /// A namespace that pulls constantly loses its own content, not that of a namespace with little content.
    #[test]
    fn what_has_to_go_is_taken_from_who_has_most() {
        let dir = tempfile::tempdir().unwrap();
        let cache = BundleCache::new(dir.path().into(), 6_000);
        let quiet = content("quiet", 1_000);
        cache.put("quiet", &quiet, VIEW).unwrap();
        // Makes all files a minute older.
        let age = || {
            for namespace in ["quiet", "noisy"] {
                let files = cached(&dir.path().join(folder(namespace))).unwrap_or_default();
                for (used, _, path) in files {
                    let file = std::fs::File::options().append(true).open(path).unwrap();
                    file.set_modified(used - Duration::from_secs(60)).unwrap();
                }
            }
        };
        for number in 0..20 {
            age();
            cache
                .put("noisy", &content(&number.to_string(), 1_000), VIEW)
                .unwrap();
        }
        assert!(cache.get("quiet", &quiet.digest, VIEW).is_some());
        assert!(cache.get("noisy", &content("19", 0).digest, VIEW).is_some());
        assert!(cache.get("noisy", &content("3", 0).digest, VIEW).is_none());
        let bytes: u64 = std::fs::read_dir(dir.path())
            .unwrap()
            .flat_map(|entry| cached(&entry.unwrap().path()).unwrap())
            .map(|(_, length, _)| length)
            .sum();
        assert!(bytes <= 6_000, "{bytes}");
    }
}
