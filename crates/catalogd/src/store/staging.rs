//! Writes a catalog into a folder that becomes a content.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use olm_fbc::load::{self, LoadError};
use olm_fbc::render::write_line;
use olm_fbc::schema::Meta;
use olm_oci::Digest;
use olm_runtime::condition::whole_seconds;
use olm_runtime::error::with_causes;
use sha2::{Digest as _, Sha256};
use tempfile::TempDir;

use super::{ABOUT, About, Content, DOCUMENTS, FORMAT, INDEX, STAGING, index, sync};

/// A catalog could not be stored.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The files of the image are not a file-based catalog.
    #[error("error walking FBC root: {}", with_causes(.0))]
    Catalog(#[from] LoadError),
    /// A file cannot be written.
    #[error("cannot write the content: {0}")]
    Write(#[from] io::Error),
}

/// A complete content that no catalog has yet. Its files are removed when it is dropped.
#[derive(Debug)]
pub struct Staged {
    folder: TempDir,
    pub(super) content: Content,
}

impl Staged {
    /// Moves the files to `target`, which must not exist.
    pub(super) fn rename(self, target: PathBuf) -> io::Result<Content> {
        fs::rename(self.folder.path(), &target)?;
        // There is nothing left to remove.
        let _: PathBuf = self.folder.keep();
        Ok(Content {
            folder: target,
            ..self.content
        })
    }
}

/// Creates a folder in `root` that the next start removes, if nobody does before.
pub(super) fn folder(root: &Path) -> io::Result<TempDir> {
    tempfile::Builder::new().prefix(STAGING).tempdir_in(root)
}

/// Writes the catalog in `source` to a new folder in `root`.
pub(super) fn stage(
    root: &Path,
    digest: &Digest,
    source: &Path,
    now: Timestamp,
) -> Result<Staged, StoreError> {
    let folder = folder(root)?;
    let create = |name: &str| -> io::Result<BufWriter<File>> {
        let file = File::create_new(folder.path().join(name))?;
        Ok(BufWriter::with_capacity(1 << 16, file))
    };
    let mut documents = Hashed {
        out: create(DOCUMENTS)?,
        hash: Sha256::new(),
        bytes: 0,
    };
    let mut index = create(INDEX)?;
    load::read_values(source, |document, origin| -> Result<(), StoreError> {
        let document = document?;
        let meta = Meta::of(&document).map_err(|source| LoadError::Blob {
            origin: origin.clone(),
            source,
        })?;
        let before = documents.bytes;
        write_line(&document, &mut documents)?;
        let length = documents.bytes.saturating_sub(before);
        Ok(index::write_line(&meta, length, &mut index)?)
    })?;
    let about = About {
        format: FORMAT,
        digest: digest.to_string(),
        stored: whole_seconds(now),
        size: documents.bytes,
        sha256: hex::encode(documents.hash.finalize()),
    };
    let mut facts = create(ABOUT)?;
    serde_json::to_writer(&mut facts, &about).map_err(io::Error::from)?;
    for file in [documents.out, index, facts] {
        let file = file.into_inner().map_err(io::IntoInnerError::into_error)?;
        file.sync_all()?;
    }
    sync(folder.path())?;
    let Some(content) = Content::open(folder.path().to_owned())? else {
        let error = io::Error::other("the content is incomplete after it was written");
        return Err(error.into());
    };
    Ok(Staged { folder, content })
}

/// Counts and hashes the bytes that are written.
struct Hashed<W> {
    out: W,
    hash: Sha256,
    bytes: u64,
}

impl<W: Write> Write for Hashed<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = self.out.write(bytes)?;
        self.hash.update(bytes.get(..count).unwrap_or_default());
        self.bytes = self.bytes.saturating_add(count as u64);
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}
