//! Location of a catalog's index, and when it is built.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use olm_fbc::load::Origin;
use olm_fbc::schema::Blob;
use olm_fbc::validate::Faults;

use crate::index::{self, BuildError, CatalogDigest, DigestError, Index, IndexError, catalog_digest};
use crate::temp_file;

pub mod upstream;

/// Name of the index file in a cache directory. Caches of other programs may be in the same directory.
pub const INDEX_FILE: &str = "olm-index.v1";

/// There is no index to serve.
#[derive(Debug, thiserror::Error)]
pub enum CacheError {
    /// The cache directory cannot be created.
    #[error("create cache directory {path}")]
    Directory {
        /// The directory.
        path: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// No file or memory can be had for a temporary index.
    #[error("create temporary index")]
    Temporary(#[source] io::Error),
    /// The index cannot be built.
    #[error("build catalog index")]
    Build(#[source] BuildError),
    /// The index cannot be opened.
    #[error("open catalog index")]
    Open(#[source] IndexError),
    /// The catalog's digest cannot be computed.
    #[error("compute digest")]
    Digest(#[source] DigestError),
    /// The index was built from another catalog.
    #[error(
        "cache requires rebuild: cache reports digest as \"{cached}\", but computed digest is \"{computed}\""
    )]
    Stale {
        /// Digest in the index.
        cached: CatalogDigest,
        /// Digest of the catalog.
        computed: CatalogDigest,
    },
}

impl CacheError {
    /// Returns a hint for the end of a message; `None` when the error is sufficient.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Digest(error) | Self::Build(BuildError::Digest(error)) => error.load_error().hint(),
            Self::Build(BuildError::Load(error)) => error.hint(),
            _ => None,
        }
    }

    /// Returns whether the cache directory cannot be created or written.
    pub fn is_of_cache_directory(&self) -> bool {
        matches!(self, Self::Directory { .. } | Self::Build(BuildError::Write(_)))
    }
}

/// Builds an index of `catalog` in a file without a name, which ends with the process. Without writable files
/// with enough room, the index is built and kept in memory. `near` is a cache directory that cannot be used:
/// the files are near it, if there is room. The directory is not changed.
///
/// # Errors
/// The catalog is invalid.
pub fn open_temporary(catalog: &Path, near: Option<&Path>) -> Result<Index, CacheError> {
    open_in(catalog, || temp_file::create(near))
}

/// Builds an index in files that `create` returns, or in memory if they have too little room.
fn open_in(catalog: &Path, create: impl Fn() -> io::Result<File>) -> Result<Index, CacheError> {
    match build_temporary(catalog, create) {
        Err(CacheError::Build(BuildError::Write(error))) => {
            tracing::warn!(%error, "cannot write the index to a temporary file, keeping it in memory");
            build_temporary(catalog, temp_file::in_memory)
        }
        built => built,
    }
}

fn build_temporary(catalog: &Path, create: impl Fn() -> io::Result<File>) -> Result<Index, CacheError> {
    let mut file = create().map_err(CacheError::Temporary)?;
    let drafts = create().map_err(CacheError::Temporary)?;
    index::build_in(catalog, &mut file, drafts).map_err(CacheError::Build)?;
    Index::of_file(file, Path::new("temporary index")).map_err(CacheError::Open)
}

/// Builds an index of a small catalog in memory, from blobs instead of a folder. Each blob has its origin for
/// messages. Also returns the rules of file-based catalogs that it breaks.
///
/// # Errors
/// There is no memory for the index.
pub fn open_in_memory(
    blobs: impl IntoIterator<Item = (Blob, Origin)>,
) -> Result<(Index, Faults), CacheError> {
    let mut file = temp_file::in_memory().map_err(CacheError::Temporary)?;
    let drafts = temp_file::in_memory().map_err(CacheError::Temporary)?;
    let faults = index::build_of_blobs(blobs, &mut file, drafts).map_err(CacheError::Build)?;
    let index = Index::of_file(file, Path::new("index in memory")).map_err(CacheError::Open)?;
    Ok((index, faults))
}

/// Opens the index in `cache_dir` if it is whole and fits the catalog.
///
/// # Errors
/// The index is missing or damaged, or was built from another catalog.
pub fn open_checked(catalog: &Path, cache_dir: &Path) -> Result<Index, CacheError> {
    let index = Index::open(&cache_dir.join(INDEX_FILE)).map_err(CacheError::Open)?;
    // Both run in parallel, because a start waits for them.
    let (whole, computed) = std::thread::scope(|scope| {
        let whole = scope.spawn(|| index.verify());
        let computed = catalog_digest(catalog);
        (whole.join(), computed)
    });
    // A panicked thread is one more reason not to trust the file.
    whole
        .unwrap_or_else(|_| index.verify())
        .map_err(CacheError::Open)?;
    let computed = computed.map_err(CacheError::Digest)?;
    if index.digest() != computed {
        return Err(CacheError::Stale {
            cached: index.digest(),
            computed,
        });
    }
    Ok(index)
}

/// Opens the index in `cache_dir`, and builds it first unless it fits the catalog.
///
/// # Errors
/// The catalog is invalid, or the directory cannot be written when it must be.
pub fn open_or_build(catalog: &Path, cache_dir: &Path) -> Result<Index, CacheError> {
    match open_checked(catalog, cache_dir) {
        Ok(index) => return Ok(index),
        Err(error) => tracing::debug!(%error, "rebuilding the catalog index"),
    }
    std::fs::create_dir_all(cache_dir).map_err(|source| CacheError::Directory {
        path: cache_dir.to_owned(),
        source,
    })?;
    let path = cache_dir.join(INDEX_FILE);
    index::build(catalog, &path).map_err(CacheError::Build)?;
    Index::open(&path).map_err(CacheError::Open)
}

#[cfg(test)]
mod tests;
