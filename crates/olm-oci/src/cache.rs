//! Pulled content on disk, by digest.
//!
//! Each image and view has one file: the format's name, the sha256 of the rest, a JSON header, then the
//! files' bytes. Files are written under a temporary name and renamed, so readers see all or nothing. A file
//! that does not match its own hash (a full disk, a bad block) is removed and pulled again.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use bytes::{Buf as _, Bytes};
use serde::{Deserialize, Serialize};

use crate::content::{ImageContent, View};
use crate::digest::{Digest, Hasher};

/// First line of every file; a change of format changes it.
const FORMAT: &str = "olm-oci content 1";
/// Extension of finished files.
const EXTENSION: &str = "content";
/// Prefix of files that are being written.
const UNFINISHED: &str = ".new-";

/// A folder of pulled content with an upper bound for its size.
#[derive(Debug, Clone)]
pub struct ContentCache {
    dir: PathBuf,
    max_bytes: u64,
}

#[derive(Serialize, Deserialize)]
struct Header {
    digest: String,
    labels: BTreeMap<String, String>,
    /// Paths with their lengths; the bytes follow in this order.
    files: Vec<(String, u64)>,
}

impl ContentCache {
    /// Extension of every content file, without the dot.
    pub const EXTENSION: &'static str = EXTENSION;

    /// Returns a cache in `dir`, which is created on the first write. Above `max_bytes` the least recently
    /// used content is removed.
    pub fn new(dir: impl Into<PathBuf>, max_bytes: u64) -> Self {
        Self {
            dir: dir.into(),
            max_bytes,
        }
    }

    /// Removes the files that an interrupted process left. Call it at start only: it also removes the files
    /// that another process is writing in the same folder.
    ///
    /// # Errors
    /// IO errors, except for a missing folder.
    pub fn remove_unfinished(&self) -> io::Result<()> {
        let entries = match std::fs::read_dir(&self.dir) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            entries => entries?,
        };
        for entry in entries {
            let entry = entry?;
            if entry.file_name().to_string_lossy().starts_with(UNFINISHED) {
                std::fs::remove_file(entry.path())?;
            }
        }
        Ok(())
    }

    /// Returns the content stored for a digest and view. `None` means it has to be pulled: absent, unreadable
    /// or damaged.
    pub fn get(&self, digest: &Digest, view: View) -> Option<ImageContent> {
        let path = self.path(digest, view);
        let bytes = Bytes::from(std::fs::read(&path).ok()?);
        let content = parse(&bytes).filter(|content| content.digest == *digest);
        if content.is_none() {
            tracing::warn!(path = %path.display(), "removing damaged cache entry");
            let _ = std::fs::remove_file(&path);
            return None;
        }
        // Removals are ordered by the time of last use. In a read-only folder that order is only less exact.
        let touched = std::fs::File::options().append(true).open(&path);
        #[expect(clippy::disallowed_methods, reason = "files beside have the system's time")]
        let _ = touched.and_then(|file| file.set_modified(SystemTime::now()));
        content
    }

    /// Stores content and evicts the least recently used beyond the limit. Content larger than the whole
    /// cache is not stored.
    ///
    /// # Errors
    /// IO errors; the cache is then unchanged.
    pub fn put(&self, content: &ImageContent, view: View) -> io::Result<()> {
        let header = Header {
            digest: content.digest.to_string(),
            labels: content.labels.clone(),
            files: content
                .files
                .iter()
                .map(|(path, bytes)| (path.clone(), bytes.len() as u64))
                .collect(),
        };
        let mut header = serde_json::to_vec(&header).map_err(io::Error::other)?;
        header.push(b'\n');
        let size = content.files.values().fold(header.len() as u64, |sum, bytes| {
            sum.saturating_add(bytes.len() as u64)
        });
        if size > self.max_bytes {
            return Ok(());
        }
        std::fs::create_dir_all(&self.dir)?;
        let parts = || std::iter::once(&header[..]).chain(content.files.values().map(|bytes| &bytes[..]));
        let mut hasher = Hasher::Sha256(Default::default());
        parts().for_each(|part| hasher.update(part));
        let mut file = tempfile::Builder::new()
            .prefix(UNFINISHED)
            .tempfile_in(&self.dir)?;
        writeln!(file, "{FORMAT}\n{}", hasher.finish())?;
        for part in parts() {
            file.write_all(part)?;
        }
        file.persist(self.path(&content.digest, view))
            .map_err(|error| error.error)?;
        self.shrink()
    }

    fn path(&self, digest: &Digest, view: View) -> PathBuf {
        self.dir.join(format!(
            "{}-{}.{}.{EXTENSION}",
            digest.algorithm(),
            digest.hex(),
            view.name()
        ))
    }

    fn shrink(&self) -> io::Result<()> {
        let mut entries = Vec::new();
        for entry in std::fs::read_dir(&self.dir)? {
            let entry = entry?;
            let is_ours = Path::new(&entry.file_name())
                .extension()
                .is_some_and(|end| end == EXTENSION);
            // Another process may be removing at the same time.
            if let (true, Ok(metadata)) = (is_ours, entry.metadata()) {
                let used = metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH);
                entries.push((used, metadata.len(), entry.path()));
            }
        }
        entries.sort();
        let mut total: u64 = entries
            .iter()
            .fold(0, |sum, (_, length, _)| sum.saturating_add(*length));
        for (_, length, path) in entries {
            if total <= self.max_bytes {
                break;
            }
            let _ = std::fs::remove_file(path);
            total = total.saturating_sub(length);
        }
        Ok(())
    }
}

fn parse(bytes: &Bytes) -> Option<ImageContent> {
    let (format, rest) = split_line(bytes)?;
    let (hash, rest) = split_line(&rest)?;
    let hash: Digest = std::str::from_utf8(&hash).ok()?.parse().ok()?;
    if format != FORMAT.as_bytes() || !hash.matches(&rest) {
        return None;
    }
    let (header, content) = split_line(&rest)?;
    let header: Header = serde_json::from_slice(&header).ok()?;
    let mut at = 0_usize;
    let mut files = BTreeMap::new();
    for (path, length) in header.files {
        let end = at
            .checked_add(usize::try_from(length).ok()?)
            .filter(|end| *end <= content.len())?;
        files.insert(path, content.slice(at..end));
        at = end;
    }
    Some(ImageContent {
        digest: header.digest.parse().ok()?,
        labels: header.labels,
        files,
    })
}

/// Splits the first line, without its end, from the rest.
fn split_line(bytes: &Bytes) -> Option<(Bytes, Bytes)> {
    let end = bytes.iter().position(|byte| *byte == b'\n')?;
    let mut rest = bytes.slice(end..);
    rest.advance(1);
    Some((bytes.slice(..end), rest))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    const VIEW: View = View::new("test", |_| Vec::new());
    const OTHER: View = View::new("other", |_| Vec::new());

    fn content(name: &str, size: usize) -> ImageContent {
        ImageContent {
            digest: Digest::sha256(name.as_bytes()),
            labels: [("k".to_owned(), "v\n".to_owned())].into(),
            files: [
                ("m/a".to_owned(), vec![b'\n'; size].into()),
                ("m/b".to_owned(), Bytes::new()),
            ]
            .into(),
        }
    }

    #[test]
    fn what_is_put_is_got_by_digest_and_view() {
        let dir = tempfile::tempdir().expect("folder");
        let cache = ContentCache::new(dir.path().join("new"), 1 << 20);
        let content = content("one", 10);
        assert_eq!(cache.get(&content.digest, VIEW), None);
        cache.put(&content, VIEW).expect("stored");
        assert_eq!(cache.get(&content.digest, VIEW).as_ref(), Some(&content));
        assert_eq!(cache.get(&content.digest, OTHER), None);
        assert_eq!(cache.get(&Digest::sha256(b"two"), VIEW), None);
    }

    #[test]
    fn any_damage_is_noticed_and_removed() {
        let dir = tempfile::tempdir().expect("folder");
        let cache = ContentCache::new(dir.path(), 1 << 20);
        let content = content("one", 10);
        let path = cache.path(&content.digest, VIEW);
        cache.put(&content, VIEW).expect("stored");
        let good = std::fs::read(&path).expect("file");
        for at in 0..good.len() {
            let mut bad = good.clone();
            bad[at] ^= 1;
            std::fs::write(&path, &bad).expect("damaged");
            assert_eq!(cache.get(&content.digest, VIEW), None, "byte {at}");
            assert!(!path.exists(), "byte {at}");
        }
        for length in 0..good.len() {
            std::fs::write(&path, &good[..length]).expect("cut");
            assert_eq!(cache.get(&content.digest, VIEW), None, "length {length}");
        }
    }

    #[test]
    fn content_of_another_digest_is_damage() {
        let dir = tempfile::tempdir().expect("folder");
        let cache = ContentCache::new(dir.path(), 1 << 20);
        let (one, two) = (content("one", 1), content("two", 1));
        cache.put(&one, VIEW).expect("stored");
        std::fs::rename(cache.path(&one.digest, VIEW), cache.path(&two.digest, VIEW)).expect("renamed");
        assert_eq!(cache.get(&two.digest, VIEW), None);
    }

    #[test]
    fn the_least_recently_used_goes_first() {
        let dir = tempfile::tempdir().expect("folder");
        let cache = ContentCache::new(dir.path(), 3_000);
        let all = ["one", "two", "three"].map(|name| content(name, 1_000));
        let age = |content: &ImageContent, seconds: u64| {
            let file = std::fs::File::options()
                .append(true)
                .open(cache.path(&content.digest, VIEW))
                .expect("file");
            file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(1_000 - seconds))
                .expect("time");
        };
        cache.put(&all[0], VIEW).expect("stored");
        age(&all[0], 100);
        cache.put(&all[1], VIEW).expect("stored");
        age(&all[1], 50);
        assert!(cache.get(&all[0].digest, VIEW).is_some(), "use makes it young");
        cache.put(&all[2], VIEW).expect("stored");
        let left: Vec<bool> = all
            .iter()
            .map(|content| cache.get(&content.digest, VIEW).is_some())
            .collect();
        assert_eq!(left, [true, false, true]);
    }

    #[test]
    fn content_beyond_the_bound_is_not_stored() {
        let dir = tempfile::tempdir().expect("folder");
        let cache = ContentCache::new(dir.path(), 100);
        cache.put(&content("one", 1_000), VIEW).expect("ignored");
        assert_eq!(std::fs::read_dir(dir.path()).expect("folder").count(), 0);
    }

    #[test]
    fn what_a_killed_process_left_is_removed_at_start() {
        let dir = tempfile::tempdir().expect("folder");
        let cache = ContentCache::new(dir.path(), 1 << 20);
        let kept = content("one", 10);
        cache.put(&kept, VIEW).expect("stored");
        std::fs::write(dir.path().join(".new-a1b2c3"), "half").expect("file");
        cache.remove_unfinished().expect("removed");
        assert_eq!(std::fs::read_dir(dir.path()).expect("folder").count(), 1);
        assert!(cache.get(&kept.digest, VIEW).is_some());
        let absent = ContentCache::new(dir.path().join("absent"), 1);
        absent.remove_unfinished().expect("nothing to remove");
    }
}
