//! A digest of a catalog's files.

use std::fmt;
use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

use olm_fbc::load::{self, LoadError};
use sha2::{Digest as _, Sha256};

/// SHA-256 over names and content of the files a catalog is read from, in lexical order.
///
/// Over raw bytes, so that checking needs no parsing. Upstream's digest is over re-encoded documents; caches of the two are
/// told apart by their layout anyway.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct CatalogDigest([u8; 32]);

/// Why there is no digest.
#[derive(Debug, thiserror::Error)]
pub enum DigestError {
    /// The folder cannot be listed.
    #[error("list catalog files")]
    List(#[source] LoadError),
    /// A file cannot be read.
    #[error("read {path}")]
    Read {
        /// The file.
        path: String,
        /// Why.
        #[source]
        source: io::Error,
    },
}

impl CatalogDigest {
    /// Reads all files of the catalog below `root`.
    ///
    /// # Errors
    /// The folder cannot be listed or a file not read.
    pub fn of(root: &Path) -> Result<Self, DigestError> {
        let mut hasher = Sha256::new();
        let mut buffer = vec![0; 1 << 16];
        for path in load::files(root).map_err(DigestError::List)? {
            let name = path.as_os_str().as_encoded_bytes();
            hasher.update(name.len().to_le_bytes());
            hasher.update(name);
            let length = hash_file(&root.join(&path), &mut hasher, &mut buffer).map_err(|source| {
                DigestError::Read {
                    path: path.display().to_string(),
                    source,
                }
            })?;
            hasher.update(length.to_le_bytes());
        }
        Ok(Self(hasher.finalize().into()))
    }

    pub(super) fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    pub(super) fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

fn hash_file(path: &Path, hasher: &mut Sha256, buffer: &mut [u8]) -> io::Result<u64> {
    let mut file = File::open(path)?;
    let mut length = 0;
    loop {
        let read = file.read(buffer)?;
        if read == 0 {
            return Ok(length);
        }
        hasher.update(&buffer[..read]);
        length += read as u64;
    }
}

impl fmt::Display for CatalogDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex::encode(self.0))
    }
}

impl fmt::Debug for CatalogDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CatalogDigest({self})")
    }
}
