//! The catalog as one file: messages encoded once, and a small directory, the only part a server keeps in
//! memory.
//!
//! Layout: a header of [`HEADER_BYTES`] (magic, version, digest of the catalog, place and checksum of the
//! directory), then encoded message parts in the order bundles were read. The directory is at the end. A file
//! is written beside its final name and renamed when complete, so an existing file is whole. Parts are read
//! with positioned reads: the kernel's page cache keeps the frequently used ones.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use prost::Message as _;

use crate::frame::{Frame, Span};

mod build;
mod digest;
mod directory;

pub(crate) use build::api_key;
pub use build::{BuildError, build, build_in, build_of_blobs};
pub use digest::{CatalogDigest, DigestError, catalog_digest};
pub(crate) use directory::{
    BundleRecord, ChannelRecord, Directory, EntryRecord, PackageRecord, SchemaRecord,
};

/// First bytes of an index file.
const MAGIC: [u8; 8] = *b"OLMINDEX";
/// Version of the layout, raised with every change. A file of another version is rebuilt.
const VERSION: u32 = 5;
/// Bytes of the header, before the first part.
pub const HEADER_BYTES: u64 = 96;

/// An open index.
pub struct Index {
    file: Arc<File>,
    /// Path it was opened at, for messages.
    path: PathBuf,
    /// Position of the directory.
    body_end: u64,
    digest: CatalogDigest,
    directory: Directory,
}

/// A file cannot be used as an index.
#[derive(Debug, thiserror::Error)]
pub enum IndexError {
    /// The file cannot be opened or read.
    #[error("read index {path}")]
    Read {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// The file is not an index.
    #[error("{path} is not a catalog index")]
    Foreign {
        /// The file.
        path: PathBuf,
    },
    /// The file was written by another version.
    #[error("index {path} has format {found}, expected {VERSION}")]
    Version {
        /// The file.
        path: PathBuf,
        /// The version in the file.
        found: u32,
    },
    /// The file is truncated or altered.
    #[error("index {path} is damaged: {reason}")]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The part that does not fit.
        reason: String,
    },
}

/// The fixed part of the file.
struct Header {
    digest: CatalogDigest,
    directory: Span,
    checksum: [u8; 32],
}

impl Header {
    fn encode(&self) -> [u8; HEADER_BYTES as usize] {
        let mut bytes = [0; HEADER_BYTES as usize];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
        bytes[16..48].copy_from_slice(self.digest.as_bytes());
        bytes[48..56].copy_from_slice(&self.directory.offset.to_le_bytes());
        bytes[56..64].copy_from_slice(&self.directory.length.to_le_bytes());
        bytes[64..96].copy_from_slice(&self.checksum);
        bytes
    }
}

impl Index {
    /// Opens an index file and reads its directory.
    ///
    /// # Errors
    /// The file cannot be read, is not an index, has another version, or is damaged.
    pub fn open(path: &Path) -> Result<Self, IndexError> {
        let file = File::open(path).map_err(|source| IndexError::Read {
            path: path.to_owned(),
            source,
        })?;
        Self::of_file(file, path)
    }

    /// Same as [`Index::open`] for an open file; `path` is for messages.
    ///
    /// # Errors
    /// See [`Index::open`].
    pub fn of_file(file: File, path: &Path) -> Result<Self, IndexError> {
        let read_error = |source| IndexError::Read {
            path: path.to_owned(),
            source,
        };
        let damaged = |reason: &str| IndexError::Damaged {
            path: path.to_owned(),
            reason: reason.to_owned(),
        };
        let foreign = || IndexError::Foreign {
            path: path.to_owned(),
        };
        let length = file.metadata().map_err(read_error)?.len();
        let mut bytes = [0; HEADER_BYTES as usize];
        if length < HEADER_BYTES {
            return Err(foreign());
        }
        file.read_exact_at(&mut bytes, 0).map_err(read_error)?;
        if bytes[..8] != MAGIC {
            return Err(foreign());
        }
        let word = |at: usize| u64::from_le_bytes(std::array::from_fn(|byte| bytes[at + byte]));
        let found = u32::from_le_bytes(std::array::from_fn(|byte| bytes[8 + byte]));
        if found != VERSION {
            return Err(IndexError::Version {
                path: path.to_owned(),
                found,
            });
        }
        let span = Span {
            offset: word(48),
            length: word(56),
        };
        if span.offset.checked_add(span.length) != Some(length) {
            return Err(damaged("its length does not match its header"));
        }
        let encoded = read_span(&file, span).map_err(read_error)?;
        if blake3::hash(&encoded).as_bytes()[..] != bytes[64..96] {
            return Err(damaged("its directory does not match its checksum"));
        }
        let directory =
            Directory::decode(encoded.as_slice()).map_err(|_| damaged("its directory cannot be decoded"))?;
        if !directory.is_consistent(span.offset) {
            return Err(damaged("its directory points outside the file"));
        }
        Ok(Self {
            file: Arc::new(file),
            path: path.to_owned(),
            body_end: span.offset,
            digest: CatalogDigest::from_bytes(std::array::from_fn(|byte| bytes[16 + byte])),
            directory,
        })
    }

    /// Reads the whole file and compares it with its checksum. [`Index::open`] checks the directory only.
    ///
    /// # Errors
    /// The file cannot be read, or its content does not match the checksum.
    pub fn verify(&self) -> Result<(), IndexError> {
        let mut hasher = crc32fast::Hasher::new();
        let mut buffer = vec![0; 1 << 17];
        let mut offset = HEADER_BYTES;
        while offset < self.body_end {
            let length = (self.body_end - offset).min(buffer.len() as u64);
            let piece = &mut buffer[..length as usize];
            self.file
                .read_exact_at(piece, offset)
                .map_err(|source| IndexError::Read {
                    path: self.path.clone(),
                    source,
                })?;
            hasher.update(piece);
            offset += length;
        }
        if hasher.finalize() == self.directory.body {
            return Ok(());
        }
        Err(IndexError::Damaged {
            path: self.path.clone(),
            reason: "its messages do not match their checksum".to_owned(),
        })
    }

    /// Returns the digest of the catalog the index was built from.
    pub fn digest(&self) -> CatalogDigest {
        self.digest
    }

    pub(crate) fn directory(&self) -> &Directory {
        &self.directory
    }

    /// Returns an entry as in `ListBundles`: with its edges, and without content if it has an image.
    pub(crate) fn list_frame(&self, entry: &EntryRecord) -> Frame {
        let bundle = self.directory.bundle(entry);
        let content = if bundle.has_image {
            Span::default()
        } else {
            bundle.content
        };
        Frame::new(&self.file, [bundle.common, entry.message(), content])
    }

    /// Returns an entry as in `GetBundle`: with content, without its edges.
    pub(crate) fn content_frame(&self, entry: &EntryRecord) -> Frame {
        let bundle = self.directory.bundle(entry);
        Frame::new(&self.file, [bundle.common, entry.head, bundle.content])
    }

    /// Returns an entry with everything: content and edges.
    pub(crate) fn whole_frame(&self, entry: &EntryRecord) -> Frame {
        let bundle = self.directory.bundle(entry);
        Frame::new(&self.file, [bundle.common, entry.message(), bundle.content])
    }

    /// Returns the blobs of a schema and package, each an encoded `google.protobuf.Struct`.
    pub(crate) fn schema_blobs(&self, record: &SchemaRecord) -> Vec<Frame> {
        let blob = |span: &Span| Frame::new(&self.file, [*span, Span::default(), Span::default()]);
        record.blobs.iter().map(blob).collect()
    }
}

fn read_span(file: &File, span: Span) -> io::Result<Vec<u8>> {
    let length = usize::try_from(span.length).map_err(io::Error::other)?;
    let mut bytes = vec![0; length];
    file.read_exact_at(&mut bytes, span.offset)?;
    Ok(bytes)
}

#[cfg(test)]
pub(crate) mod tests;
