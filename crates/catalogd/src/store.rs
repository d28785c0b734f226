//! Contents of catalogs on disk.
//!
//! # Layout
//! `<root>/<catalog>/<digest>/` has `catalog.jsonl`, one document per line, `index.jsonl`, the fields and the length of each line, and
//! `content.json` about the whole. A content is written to `<root>/.staging-…` and renamed when it is complete.
//!
//! # Guarantees
//! - A content is never changed. A newer one takes its place in a single step, and requests that read the older one finish with it.
//! - After a restart, also after a crash at any write, the last stored content of each catalog is there.
//! - Memory grows with the number of documents, not with their size.

mod index;
mod staging;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, BufReader};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use jiff::Timestamp;
use olm_api::names::is_dns1123_subdomain;
use olm_oci::Digest;
use olm_runtime::sync::RwLock;
use serde::{Deserialize, Serialize};
use tempfile::TempDir;

pub use self::index::{Index, Query};
pub use self::staging::{Staged, StoreError};

/// Prefix of the folders in which contents are written. No catalog can have such a name.
const STAGING: &str = ".staging-";
const DOCUMENTS: &str = "catalog.jsonl";
const INDEX: &str = "index.jsonl";
const ABOUT: &str = "content.json";
/// Version of the layout. Contents of another version are removed, and pulled again.
const FORMAT: u32 = 1;

/// Facts about a content, in `content.json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct About {
    format: u32,
    /// Digest of the image.
    digest: String,
    /// When it was stored, in whole seconds.
    pub stored: Timestamp,
    /// Bytes of the documents.
    pub size: u64,
    /// SHA-256 of the documents.
    pub sha256: String,
}

/// A complete content of a catalog.
#[derive(Debug)]
pub struct Content {
    /// Digest of the image with this content.
    pub digest: Digest,
    /// Facts about it.
    pub about: About,
    /// Index of the documents.
    pub index: Index,
    documents: File,
    folder: PathBuf,
}

impl Content {
    /// Reads bytes of the documents. Blocks.
    ///
    /// # Errors
    /// The file cannot be read that far.
    pub fn read(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        self.documents.read_exact_at(buffer, offset)
    }

    /// Opens the content in a folder. `None` if it is of another version or incomplete.
    fn open(folder: PathBuf) -> io::Result<Option<Self>> {
        let about = fs::read(folder.join(ABOUT))?;
        let Ok(about) = serde_json::from_slice::<About>(&about) else {
            return Ok(None);
        };
        let Ok(digest) = about.digest.parse() else {
            return Ok(None);
        };
        let index = Index::read(BufReader::new(File::open(folder.join(INDEX))?))?;
        let documents = File::open(folder.join(DOCUMENTS))?;
        let is_complete = documents.metadata()?.len() == about.size && index.size() == about.size;
        Ok((about.format == FORMAT && is_complete).then_some(Self {
            digest,
            about,
            index,
            documents,
            folder,
        }))
    }
}

/// Contents of all catalogs. Clones share the same store.
#[derive(Debug, Clone)]
pub struct ContentStore {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    root: PathBuf,
    current: RwLock<BTreeMap<String, Arc<Content>>>,
}

impl ContentStore {
    /// Opens the store in a folder, which is created. Removes everything that is not the last content of a catalog. Blocks.
    ///
    /// # Errors
    /// The folder cannot be created, read or cleaned.
    pub fn open(root: &Path) -> io::Result<Self> {
        fs::create_dir_all(root)?;
        let mut current = BTreeMap::new();
        for entry in fs::read_dir(root)? {
            let path = entry?.path();
            let name = path.file_name().and_then(|name| name.to_str());
            let name = name.filter(|name| path.is_dir() && is_dns1123_subdomain(name));
            let newest = match name {
                Some(_) => newest(&path)?,
                None => None,
            };
            match (name, newest) {
                (Some(name), Some(content)) => {
                    current.insert(name.to_owned(), Arc::new(content));
                }
                // Volumes may have folders of their file system.
                _ if name.is_none() && !is_staging(&path) => {}
                _ => remove(&path)?,
            }
        }
        Ok(Self {
            shared: Arc::new(Shared {
                root: root.to_owned(),
                current: RwLock::new(current),
            }),
        })
    }

    /// Returns the content of a catalog.
    pub fn get(&self, catalog: &str) -> Option<Arc<Content>> {
        self.shared.current.read().get(catalog).cloned()
    }

    /// Returns the names of the catalogs with content.
    pub fn names(&self) -> Vec<String> {
        self.shared.current.read().keys().cloned().collect()
    }

    /// Creates an empty folder for the files of an image, on the volume of the store. It is removed when it is dropped, or at the next
    /// start.
    ///
    /// # Errors
    /// It cannot be created.
    pub fn temporary_folder(&self) -> io::Result<TempDir> {
        staging::folder(&self.shared.root)
    }

    /// Writes the catalog in `source`, the content of an image, next to the stored ones. It is removed unless it is
    /// [installed](Self::install). Blocks.
    ///
    /// # Errors
    /// A document is not one of a catalog, or a file cannot be read or written.
    pub fn stage(&self, digest: &Digest, source: &Path, now: Timestamp) -> Result<Staged, StoreError> {
        staging::stage(&self.shared.root, digest, source, now)
    }

    /// Makes `staged` the content of a catalog. Blocks shortly.
    ///
    /// # Errors
    /// It cannot be renamed; the old content stays.
    pub fn install(&self, catalog: &str, staged: Staged) -> io::Result<Arc<Content>> {
        if !is_dns1123_subdomain(catalog) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        // Held throughout, so that two installations of a catalog do not mix.
        let mut current = self.shared.current.write();
        let folder = self.shared.root.join(catalog);
        let target = folder.join(folder_name(&staged.content.digest));
        fs::create_dir_all(&folder)?;
        if let Some(content) = current.get(catalog).filter(|content| content.folder == target) {
            // The same image again: its content is the same.
            return Ok(Arc::clone(content));
        }
        remove(&target)?;
        let content = Arc::new(staged.rename(target)?);
        sync(&folder)?;
        sync(&self.shared.root)?;
        let old = current.insert(catalog.to_owned(), Arc::clone(&content));
        drop(current);
        if let Some(old) = old
            && let Err(error) = fs::remove_dir_all(&old.folder)
        {
            tracing::warn!(catalog, %error, "the old content of a catalog was not removed; the next start removes it");
        }
        Ok(content)
    }

    /// Removes the content of a catalog. Requests that read it finish. Blocks shortly.
    ///
    /// # Errors
    /// A file cannot be removed. The content is no longer served even then.
    pub fn remove(&self, catalog: &str) -> io::Result<()> {
        if !is_dns1123_subdomain(catalog) {
            return Ok(());
        }
        let mut current = self.shared.current.write();
        current.remove(catalog);
        remove(&self.shared.root.join(catalog))
    }
}

/// Returns the content of a catalog that was stored last, and removes everything else from its folder.
fn newest(folder: &Path) -> io::Result<Option<Content>> {
    let mut contents = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let opened = Content::open(path.clone()).unwrap_or_else(|error| {
            tracing::warn!(?path, %error, "a stored content cannot be read and is removed");
            None
        });
        match opened {
            Some(content) => contents.push(content),
            None => remove(&path)?,
        }
    }
    contents.sort_by_key(|content| content.about.stored);
    let newest = contents.pop();
    for older in contents {
        remove(&older.folder)?;
    }
    Ok(newest)
}

fn is_staging(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str());
    name.is_some_and(|name| name.starts_with(STAGING))
}

/// Removes a folder or a file that may not exist.
fn remove(path: &Path) -> io::Result<()> {
    let removed = if path.is_dir() {
        fs::remove_dir_all(path)
    } else {
        fs::remove_file(path)
    };
    match removed {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

fn folder_name(digest: &Digest) -> String {
    digest.to_string().replace(':', "-")
}

/// Writes the entries of a folder to disk, so that a rename survives a crash.
fn sync(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}
