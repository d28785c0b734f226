//! Where the index of a catalog lives and when it is built.

use std::io;
use std::path::{Path, PathBuf};

use crate::index::{self, BuildError, CatalogDigest, DigestError, Index, IndexError};

/// Name of the index file in a cache directory. Stores of other programs may lie beside it; they are left alone.
pub const INDEX_FILE: &str = "olm-index.v1";

/// Why there is no index to serve.
#[derive(Debug, thiserror::Error)]
pub enum CacheError {
    /// The cache directory cannot be made.
    #[error("create cache directory {path}")]
    Directory {
        /// The directory.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
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

/// Builds an index of `catalog` in a temporary file and opens it; the file has no name any more and goes with the process.
///
/// # Errors
/// The catalog is invalid or the file cannot be written.
pub fn open_temporary(catalog: &Path) -> Result<Index, CacheError> {
    let folder = tempfile::Builder::new()
        .prefix("opm-serve-cache-")
        .tempdir()
        .map_err(|source| CacheError::Directory {
            path: std::env::temp_dir(),
            source,
        })?;
    let path = folder.path().join(INDEX_FILE);
    index::build(catalog, &path).map_err(CacheError::Build)?;
    // The open file stays readable after its folder is removed here.
    Index::open(&path).map_err(CacheError::Open)
}

/// Opens the index in `cache_dir` if it fits the catalog.
///
/// # Errors
/// There is none, it is damaged, or was built from another catalog.
pub fn open_checked(catalog: &Path, cache_dir: &Path) -> Result<Index, CacheError> {
    let index = Index::open(&cache_dir.join(INDEX_FILE)).map_err(CacheError::Open)?;
    let computed = CatalogDigest::of(catalog).map_err(CacheError::Digest)?;
    if index.digest() != computed {
        return Err(CacheError::Stale {
            cached: index.digest(),
            computed,
        });
    }
    Ok(index)
}

/// Opens the index in `cache_dir`, building it first unless it fits the catalog.
///
/// # Errors
/// The catalog is invalid, or the directory cannot be written when it must be.
pub fn open_or_build(catalog: &Path, cache_dir: &Path) -> Result<Index, CacheError> {
    match open_checked(catalog, cache_dir) {
        Ok(index) => return Ok(index),
        Err(error) => tracing::debug!(%error, "building the catalog index anew"),
    }
    std::fs::create_dir_all(cache_dir).map_err(|source| CacheError::Directory {
        path: cache_dir.to_owned(),
        source,
    })?;
    let path = cache_dir.join(INDEX_FILE);
    index::build(catalog, &path).map_err(CacheError::Build)?;
    Index::open(&path).map_err(CacheError::Open)
}
