//! The last good content of each catalog on disk, for the next process: a folder with one file per catalog.
//!
//! # Guarantees
//! - A file is only used if it is complete, of this format, and of exactly this catalog: namespace, name, uid
//!   and the source in its `spec`. Any other is removed, and the reason logged.
//! - Files are written completely or not at all.
//! - Together they stay within the limits. Evictions affect the namespace with the most content, oldest
//!   first.
//! - Only files with names of this format are counted or removed.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use olm_fbc::entry::BundleEntry;
use olm_registry::snapshot::file;
use olm_runtime::NamespacedName;
use sha2::{Digest as _, Sha256};

/// Limit of one file, in bytes; larger content is not stored on disk.
pub(super) const FILE_BYTES: u64 = 64 << 20;
/// Limit of all files, in bytes.
pub(super) const FILES_BYTES: u64 = 256 << 20;
/// Maximum number of files.
pub(super) const FILES: usize = 512;
/// Suffix of finished files.
const SUFFIX: &str = ".content";
/// Suffix of files that are being written.
const UNFINISHED: &str = ".new";
/// Length of a hash in a name, in characters.
const HASH: usize = 32;

/// A folder of contents. Callers run one operation after the other.
pub(super) struct Disk {
    folder: PathBuf,
    bytes: u64,
    files: usize,
}

struct Found {
    modified: SystemTime,
    bytes: u64,
    path: PathBuf,
}

impl Disk {
    /// Creates a store in `folder`, which is created on the first write.
    pub(super) fn new(folder: PathBuf) -> Self {
        Self {
            folder,
            bytes: FILES_BYTES,
            files: FILES,
        }
    }

    /// Returns the entries of a catalog's content, if its label matches.
    pub(super) fn get(&self, key: &NamespacedName, label: &str) -> Option<Vec<BundleEntry>> {
        let path = self.path(key);
        let found = match read(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
            Err(error) => Err(error.to_string()),
            Ok(bytes) => file::from_bytes(label, &bytes).map_err(|error| error.to_string()),
        };
        match found {
            Ok(entries) => Some(entries),
            Err(reason) => {
                tracing::warn!(catalog = %key, path = %path.display(), %reason, "content on disk is of no use and removed");
                remove(&path);
                None
            }
        }
    }

    /// Writes a content in place of the previous one.
    ///
    /// # Errors
    /// It cannot be written. The previous one is removed, because it is no longer the last good one.
    pub(super) fn put<'a>(
        &self,
        key: &NamespacedName,
        label: &str,
        entries: impl IntoIterator<Item = &'a BundleEntry>,
    ) -> io::Result<()> {
        let path = self.path(key);
        let limit = usize::try_from(FILE_BYTES).unwrap_or(usize::MAX);
        let Ok(bytes) = file::to_bytes(label, entries, limit) else {
            remove(&path);
            let limit = FILE_BYTES >> 20;
            return Err(io::Error::other(format!("it has more than {limit} MiB")));
        };
        let written = self.write(&path, &bytes);
        if written.is_err() {
            remove(&path);
        }
        written?;
        self.shrink()
    }

    fn write(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        fs::create_dir_all(&self.folder)?;
        let new = path.with_extension(UNFINISHED.trim_start_matches('.'));
        let write = || {
            // It need not survive a crash of the machine: an incomplete file is detected by its hash.
            fs::write(&new, bytes)?;
            fs::rename(&new, path)
        };
        let written = write();
        if written.is_err() {
            remove(&new);
        }
        written
    }

    /// Removes a catalog's content.
    pub(super) fn remove(&self, key: &NamespacedName) {
        remove(&self.path(key));
    }

    /// Removes the contents of catalogs that do not exist, and unfinished files of a killed process.
    pub(super) fn retain<'a>(&self, existing: impl IntoIterator<Item = &'a NamespacedName>) {
        let kept: Vec<PathBuf> = existing.into_iter().map(|key| self.path(key)).collect();
        let unfinished = self.found(UNFINISHED).unwrap_or_default();
        let finished = self.found(SUFFIX).unwrap_or_default().into_iter();
        let gone = finished.filter(|found| !kept.contains(&found.path));
        gone.chain(unfinished).for_each(|found| remove(&found.path));
    }

    fn shrink(&self) -> io::Result<()> {
        let mut namespaces: BTreeMap<String, Vec<Found>> = BTreeMap::new();
        for found in self.found(SUFFIX)? {
            let name = found.path.file_name().unwrap_or_default().to_string_lossy();
            let namespace = name.chars().take(HASH).collect();
            namespaces.entry(namespace).or_default().push(found);
        }
        for files in namespaces.values_mut() {
            files.sort_by_key(|found| std::cmp::Reverse(found.modified));
        }
        let bytes = |files: &Vec<Found>| files.iter().map(|found| found.bytes).sum::<u64>();
        loop {
            let all: u64 = namespaces.values().map(bytes).sum();
            let count: usize = namespaces.values().map(Vec::len).sum();
            let greedy = if all > self.bytes {
                namespaces.values_mut().max_by_key(|files| bytes(files))
            } else if count > self.files {
                namespaces.values_mut().max_by_key(|files| files.len())
            } else {
                return Ok(());
            };
            let Some(oldest) = greedy.and_then(Vec::pop) else {
                return Ok(());
            };
            fs::remove_file(&oldest.path)?;
        }
    }

    /// Returns the files of contents with this suffix.
    fn found(&self, suffix: &str) -> io::Result<Vec<Found>> {
        let entries = match fs::read_dir(&self.folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries?,
        };
        let mut found = Vec::new();
        for entry in entries {
            let entry = entry?;
            let name = entry.file_name();
            let stem = name.to_str().and_then(|name| name.strip_suffix(suffix));
            let is_ours = stem.is_some_and(|stem| {
                stem.len() == 2 * HASH + 1
                    && stem.bytes().all(|byte| byte == b'-' || byte.is_ascii_hexdigit())
            });
            if is_ours {
                let metadata = entry.metadata()?;
                found.push(Found {
                    modified: metadata.modified()?,
                    bytes: metadata.len(),
                    path: entry.path(),
                });
            }
        }
        Ok(found)
    }

    /// Path with hashes of namespace and catalog, because names may be longer than file names.
    fn path(&self, key: &NamespacedName) -> PathBuf {
        let hash = |text: &str| {
            let hash = Sha256::digest(text.as_bytes());
            let mut hex: String = hash.iter().map(|byte| format!("{byte:02x}")).collect();
            hex.truncate(HASH);
            hex
        };
        let name = format!("{}-{}{SUFFIX}", hash(&key.namespace), hash(&key.to_string()));
        self.folder.join(name)
    }
}

/// Reads the file, unless it is larger than the limit.
fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let most = FILE_BYTES.saturating_add(1);
    fs::File::open(path)?.take(most).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > FILE_BYTES {
        return Err(io::Error::other("it is larger than what is written here"));
    }
    Ok(bytes)
}

fn remove(path: &Path) {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            tracing::warn!(path = %path.display(), %error, "content on disk cannot be removed");
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(text: &str) -> NamespacedName {
        let (namespace, name) = text.split_once('/').unwrap();
        NamespacedName::new(namespace, name)
    }

    fn entries(name: &str) -> Vec<BundleEntry> {
        vec![BundleEntry {
            name: name.into(),
            ..BundleEntry::default()
        }]
    }

    fn put(disk: &Disk, catalog: &str) {
        disk.put(&key(catalog), "label", &entries(catalog)).unwrap();
    }

    fn has(disk: &Disk, catalog: &str) -> bool {
        disk.get(&key(catalog), "label").is_some()
    }

    fn files(folder: &Path) -> usize {
        fs::read_dir(folder).unwrap().count()
    }

    #[test]
    fn a_content_is_for_the_catalog_it_was_read_from_alone() {
        let folder = tempfile::tempdir().unwrap();
        let disk = Disk::new(folder.path().join("made"));
        assert!(!has(&disk, "ns/cat"));
        put(&disk, "ns/cat");
        assert_eq!(disk.get(&key("ns/cat"), "label"), Some(entries("ns/cat")));
        assert!(!has(&disk, "ns/other"));
        // For a recreated catalog, or one with another image, the stored content belongs to another one and
        // is removed.
        assert_eq!(disk.get(&key("ns/cat"), "another uid"), None);
        assert!(!has(&disk, "ns/cat"));
    }

    #[test]
    fn a_damaged_file_is_of_no_use_and_goes() {
        let folder = tempfile::tempdir().unwrap();
        let disk = Disk::new(folder.path().to_owned());
        put(&disk, "ns/cat");
        let path = disk.path(&key("ns/cat"));
        let mut bytes = fs::read(&path).unwrap();
        *bytes.last_mut().unwrap() = b' ';
        bytes.push(b'\n');
        fs::write(&path, bytes).unwrap();
        assert!(!has(&disk, "ns/cat"));
        assert_eq!(files(folder.path()), 0);
    }

    /// Removes content of catalogs that were deleted while no process ran, and files of a killed process, but
    /// no other files.
    #[test]
    fn what_no_catalog_needs_goes_and_what_is_not_ours_stays() {
        let folder = tempfile::tempdir().unwrap();
        let disk = Disk::new(folder.path().to_owned());
        put(&disk, "ns/cat");
        put(&disk, "ns/gone");
        let unfinished = disk.path(&key("ns/cat")).with_extension("new");
        fs::write(&unfinished, "half").unwrap();
        fs::write(folder.path().join("others.content"), "x").unwrap();
        disk.retain([&key("ns/cat")]);
        assert!(has(&disk, "ns/cat") && !has(&disk, "ns/gone") && !unfinished.exists());
        assert_eq!(files(folder.path()), 2);
        disk.remove(&key("ns/cat"));
        assert_eq!(files(folder.path()), 1);
    }

    #[test]
    fn what_has_to_go_is_taken_from_the_namespace_that_has_most() {
        for by_bytes in [false, true] {
            let folder = tempfile::tempdir().unwrap();
            let mut disk = Disk::new(folder.path().to_owned());
            put(&disk, "one/a");
            let each = fs::metadata(disk.path(&key("one/a"))).unwrap().len();
            match by_bytes {
                true => disk.bytes = each * 4 - 1,
                false => disk.files = 3,
            }
            for catalog in ["many/a", "many/b", "many/c"] {
                put(&disk, catalog);
            }
            assert!(has(&disk, "one/a"), "by bytes: {by_bytes}");
            let left = ["many/a", "many/b", "many/c"].map(|catalog| has(&disk, catalog));
            assert_eq!(left.iter().filter(|there| **there).count(), 2, "{left:?}");
        }
    }

    #[test]
    fn a_folder_that_cannot_be_written_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        fs::write(&file, "").unwrap();
        let disk = Disk::new(file.join("folder"));
        assert!(disk.put(&key("ns/cat"), "label", &entries("a")).is_err());
    }
}
