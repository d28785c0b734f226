//! The cache layout that every version of upstream's `opm` reads, written beside our index.
//!
//! Catalog images are built by one program and served by another. OLM may take catalog and cache out of an
//! image and serve them with an `opm` of its own. This `opm` refuses to start unless the cache's digest is
//! right. The layout is a folder `cache` and a file `digest` over the catalog and that folder. The folder has
//! `packages.json`, a JSON file for each bundle of each channel, and the custom schemas below `metas`. Rules:
//! `docs/reference/registry.md`. The files equal upstream's byte for byte, except that an empty list of skips
//! is `null` here.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, BufWriter, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use olm_fbc::load::LoadError;

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

/// The layout was not written.
#[derive(Debug, thiserror::Error)]
pub enum UpstreamError {
    /// A file or folder cannot be read or written.
    #[error("{path}")]
    File {
        /// The file or folder.
        path: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// The index behind the layout cannot be read.
    #[error("read catalog index")]
    Index(#[source] io::Error),
    /// The catalog behind the index cannot be read.
    #[error("read catalog")]
    Catalog(#[from] LoadError),
    /// A name cannot be a file name in the layout.
    #[error("{name:?} is not a valid file name, which this layout needs")]
    Name {
        /// The name, from the catalog or derived from it.
        name: String,
    },
}

impl UpstreamError {
    /// Returns whether this catalog cannot be written in the layout at all.
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

/// Writes `index` to `cache_dir` in upstream's layout, unless it is there already. `catalog` is the source of
/// the index; descriptions and icons are only there. A database of upstream's is removed, because upstream
/// would prefer it although it may be older.
///
/// New files are written aside first, so the old ones stay whole until then. A digest exists only beside the
/// files it is of.
///
/// # Errors
/// Something cannot be read or written, or a name cannot be a file name.
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
    content::write(index, catalog, &new_folder)?;
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

/// Returns upstream's digest of a catalog and the folder of its cache, in hexadecimal digits.
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

/// Creates a folder and its missing parents with upstream's mode, whatever the process' mask.
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
