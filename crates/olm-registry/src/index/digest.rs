//! A digest of a catalog's files.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::panic::resume_unwind;
use std::path::Path;

use olm_fbc::load::{self, LoadError};

/// BLAKE3 over names, lengths and BLAKE3 of the pieces of the files a catalog is read from, in lexical order.
///
/// It covers raw bytes, so that checking needs no parsing. Upstream's digest covers re-encoded documents; the
/// caches of the two differ in layout anyway.
pub type CatalogDigest = blake3::Hash;

/// A digest could not be computed.
#[derive(Debug, thiserror::Error)]
pub enum DigestError {
    /// The folder cannot be listed.
    #[error("list catalog files")]
    List(#[source] LoadError),
    /// A file cannot be read.
    #[error(transparent)]
    Read(LoadError),
}

impl DigestError {
    /// Returns the error of the folder or file that cannot be read.
    pub fn load_error(&self) -> &LoadError {
        match self {
            Self::List(error) | Self::Read(error) => error,
        }
    }
}

/// Bytes hashed at a time. The digest depends on it: another size gives other digests.
const CHUNK: u64 = 1 << 20;
/// Maximum threads that hash. More do not help: memory is the bottleneck.
const MAX_THREADS: usize = 4;

/// A piece of a file.
struct Chunk<'a> {
    path: &'a Path,
    offset: u64,
    length: u64,
}

/// Computes the digest of all files of the catalog below `root`, in pieces on several threads. A start with a
/// cache waits for it.
///
/// # Errors
/// The folder cannot be listed or a file cannot be read.
pub fn catalog_digest(root: &Path) -> Result<CatalogDigest, DigestError> {
    let files = load::files(root).map_err(DigestError::List)?;
    let mut hasher = blake3::Hasher::new();
    let mut chunks = Vec::new();
    for path in &files {
        let metadata = std::fs::metadata(root.join(path)).map_err(|source| read_error(root, path, source))?;
        let name = path.as_os_str().as_encoded_bytes();
        hasher.update(&name.len().to_le_bytes());
        hasher.update(name);
        hasher.update(&metadata.len().to_le_bytes());
        let starts = (0..metadata.len()).step_by(CHUNK as usize);
        chunks.extend(starts.map(|offset| Chunk {
            path,
            offset,
            length: CHUNK.min(metadata.len() - offset),
        }));
    }
    for digest in hash_all(root, &chunks)? {
        hasher.update(&digest);
    }
    Ok(hasher.finalize())
}

fn read_error(root: &Path, path: &Path, source: io::Error) -> DigestError {
    DigestError::Read(load::read_error(root, path, source))
}

fn hash_all(root: &Path, chunks: &[Chunk<'_>]) -> Result<Vec<[u8; 32]>, DigestError> {
    let threads = std::thread::available_parallelism()
        .map_or(1, usize::from)
        .min(MAX_THREADS)
        .min(chunks.len());
    let per_thread = chunks.len().div_ceil(threads.max(1)).max(1);
    std::thread::scope(|scope| {
        let workers: Vec<_> = chunks
            .chunks(per_thread)
            .map(|part| {
                scope.spawn(move || {
                    part.iter()
                        .map(|chunk| {
                            hash_chunk(root, chunk).map_err(|source| read_error(root, chunk.path, source))
                        })
                        .collect::<Result<Vec<_>, _>>()
                })
            })
            .collect();
        let mut digests = Vec::with_capacity(chunks.len());
        for worker in workers {
            match worker.join() {
                Ok(found) => digests.extend(found?),
                Err(panic) => resume_unwind(panic),
            }
        }
        Ok(digests)
    })
}

fn hash_chunk(root: &Path, chunk: &Chunk<'_>) -> io::Result<[u8; 32]> {
    let mut file = File::open(root.join(chunk.path))?;
    file.seek(SeekFrom::Start(chunk.offset))?;
    let mut hasher = blake3::Hasher::new();
    hasher.update_reader(file.take(chunk.length))?;
    if hasher.count() != chunk.length {
        return Err(io::Error::other("the file changed while it was read"));
    }
    Ok(hasher.finalize().into())
}
