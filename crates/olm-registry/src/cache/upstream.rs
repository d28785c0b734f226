//! The cache layout that every version of upstream's `opm` reads, written beside our index.
//!
//! Images of catalogs are built by one program and served by another: OLM may take catalog and cache out of an image and
//! serve them with an `opm` of its own, which refuses to start unless the cache's digest is right. The layout: a folder
//! `cache` with `packages.json`, a JSON file for each bundle of each channel and the custom schemas below `metas`, and a file
//! `digest` over the catalog and that folder. Rules: `docs/reference/registry.md`. Byte for byte what upstream
//! writes, but for an empty list of skips, which is `null` here.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, BufWriter, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use crate::index::Index;

mod archive;
mod content;
mod fnv;

use fnv::Fnv;

/// Folder of the layout.
const FOLDER: &str = "cache";
/// File with its digest.
const DIGEST: &str = "digest";
/// Folder of the layout that newer versions of upstream prefer, a database.
const DATABASE: &str = "pogreb.v1";
const FOLDER_MODE: u32 = 0o750;
const FILE_MODE: u32 = 0o640;

/// Why the layout was not written.
#[derive(Debug, thiserror::Error)]
pub enum UpstreamError {
    /// A file or folder cannot be read or written.
    #[error("{path}")]
    File {
        /// The file or folder.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The index the layout is made from cannot be read.
    #[error("read catalog index")]
    Index(#[source] io::Error),
    /// A name would not be a file of the layout.
    #[error("{name:?} cannot be a file name, which this layout needs")]
    Name {
        /// A name in the catalog, or what would be made of it.
        name: String,
    },
}

impl UpstreamError {
    /// Whether this catalog cannot be written in the layout at all.
    pub fn is_of_names(&self) -> bool {
        matches!(self, Self::Name { .. })
    }

    fn file(path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::File {
            path: path.to_owned(),
            source,
        }
    }
}

/// Whether `cache_dir` holds a cache that upstream wrote, or that was written for it.
pub fn is_present(cache_dir: &Path) -> bool {
    let has = |name: &str| cache_dir.join(name).exists();
    has(DATABASE) || (has(FOLDER) && has(DIGEST))
}

/// Makes `cache_dir` hold `index` in upstream's layout, unless it does so already. `catalog` is what the index was built
/// from. A database of upstream's goes, as upstream would prefer it although it may be older.
///
/// Everything is written aside first, so what was there stays whole until its successor is; a digest is there only beside
/// what it is of.
///
/// # Errors
/// Something cannot be read or written, or a name does not fit a file name.
pub fn write(index: &Index, catalog: &Path, cache_dir: &Path) -> Result<(), UpstreamError> {
    let digest_file = cache_dir.join(DIGEST);
    let folder = cache_dir.join(FOLDER);
    let database = cache_dir.join(DATABASE);
    if !database.exists()
        && let Ok(noted) = fs::read_to_string(&digest_file)
        && noted.trim() == digest(catalog, &folder)?
    {
        return Ok(());
    }
    let aside = tempfile::Builder::new()
        .prefix(".cache-")
        .tempdir_in(cache_dir)
        .map_err(UpstreamError::file(cache_dir))?;
    let new_folder = aside.path().join(FOLDER);
    make_folder(&new_folder)?;
    content::write(index, &new_folder)?;
    let new_digest = aside.path().join(DIGEST);
    let text = digest(catalog, &new_folder)?;
    write_file(&new_digest, |out| out.write_all(text.as_bytes()))?;
    for old in [&digest_file, &folder, &database] {
        remove(old)?;
    }
    for (from, to) in [(&new_folder, &folder), (&new_digest, &digest_file)] {
        fs::rename(from, to).map_err(UpstreamError::file(to))?;
    }
    Ok(())
}

/// Upstream's digest of a catalog and the folder of its cache, in hexadecimal digits.
///
/// # Errors
/// A file of either cannot be read.
pub fn digest(catalog: &Path, folder: &Path) -> Result<String, UpstreamError> {
    let mut hash = Fnv::default();
    for root in [catalog, folder] {
        if root == folder && !root.exists() {
            continue;
        }
        archive::write(root, &mut hash)?;
    }
    Ok(format!("{:016x}", hash.value()))
}

fn remove(path: &Path) -> Result<(), UpstreamError> {
    let removed = if path.is_dir() {
        fs::remove_dir_all(path)
    } else {
        fs::remove_file(path)
    };
    match removed {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(UpstreamError::file(path)(error)),
        _ => Ok(()),
    }
}

/// Makes a folder with upstream's mode, whatever the process' mask. Folders above it are made alike.
fn make_folder(path: &Path) -> Result<(), UpstreamError> {
    let mut missing: Vec<&Path> = path.ancestors().take_while(|folder| !folder.exists()).collect();
    while let Some(folder) = missing.pop() {
        DirBuilder::new()
            .mode(FOLDER_MODE)
            .create(folder)
            .and_then(|()| fs::set_permissions(folder, fs::Permissions::from_mode(FOLDER_MODE)))
            .map_err(UpstreamError::file(folder))?;
    }
    Ok(())
}

/// Writes a new file with upstream's mode, whatever the process' mask.
fn write_file(
    path: &Path,
    write: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>,
) -> Result<(), UpstreamError> {
    let written = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(FILE_MODE)
        .open(path)
        .and_then(|file| {
            file.set_permissions(fs::Permissions::from_mode(FILE_MODE))?;
            let mut out = BufWriter::with_capacity(1 << 16, file);
            write(&mut out)?;
            out.flush()
        });
    written.map_err(UpstreamError::file(path))
}

#[cfg(test)]
mod tests;
