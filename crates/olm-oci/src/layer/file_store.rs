//! Bytes of wanted files while the layers of an image are read: in memory, or in a file without a name.

use std::fs::File;
use std::io::{self, Read, Write};
use std::ops::Range;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use bytes::Bytes;

/// Bytes that are copied at a time.
const CHUNK: usize = 64 << 10;

/// Store of the bytes of files.
#[derive(Debug, Default)]
pub(crate) enum FileStore {
    /// In memory.
    #[default]
    Memory,
    /// In a file, one after the other; the number is its length.
    Disk(File, u64),
}

/// A stored file.
#[derive(Debug, Clone)]
pub(super) enum Stored {
    Memory(Bytes),
    Disk(Range<u64>),
}

/// The side that failed.
#[derive(Debug)]
pub(super) enum CopyError {
    Read(io::Error),
    Write(io::Error),
}

impl Stored {
    pub(super) fn length(&self) -> u64 {
        match self {
            Self::Memory(bytes) => bytes.len() as u64,
            Self::Disk(range) => range.end.saturating_sub(range.start),
        }
    }
}

impl FileStore {
    /// Returns a store on disk, in a folder that must exist. Nothing is left behind however the process ends.
    pub(crate) fn on_disk(folder: &Path) -> io::Result<Self> {
        Ok(Self::Disk(tempfile::tempfile_in(folder)?, 0))
    }

    /// Stores the rest of a reader.
    pub(super) fn add(&mut self, from: &mut impl Read) -> Result<Stored, CopyError> {
        match self {
            Self::Memory => {
                let mut bytes = Vec::new();
                from.read_to_end(&mut bytes).map_err(CopyError::Read)?;
                Ok(Stored::Memory(bytes.into()))
            }
            Self::Disk(file, end) => {
                let start = *end;
                let mut buffer = vec![0; CHUNK];
                loop {
                    let count = match from.read(&mut buffer) {
                        Ok(0) => return Ok(Stored::Disk(start..*end)),
                        Ok(count) => count,
                        Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                        Err(error) => return Err(CopyError::Read(error)),
                    };
                    let read = buffer.get(..count).unwrap_or_default();
                    file.write_all_at(read, *end).map_err(CopyError::Write)?;
                    *end = end.saturating_add(count as u64);
                }
            }
        }
    }

    /// Returns the bytes of a stored file.
    pub(super) fn bytes(&self, stored: &Stored) -> io::Result<Bytes> {
        if let Stored::Memory(bytes) = stored {
            return Ok(bytes.clone());
        }
        let mut bytes = Vec::new();
        self.copy(stored, &mut bytes)?;
        Ok(bytes.into())
    }

    /// Writes a stored file.
    pub(super) fn copy(&self, stored: &Stored, out: &mut impl Write) -> io::Result<()> {
        let (range, file) = match (stored, self) {
            (Stored::Memory(bytes), _) => return out.write_all(bytes),
            (Stored::Disk(range), Self::Disk(file, _)) => (range, file),
            (Stored::Disk(_), Self::Memory) => return Err(io::ErrorKind::NotFound.into()),
        };
        let mut buffer = vec![0; CHUNK];
        let mut at = range.start;
        while at < range.end {
            let left = usize::try_from(range.end.saturating_sub(at)).unwrap_or(usize::MAX);
            let part = buffer.get_mut(..left.min(CHUNK)).unwrap_or_default();
            file.read_exact_at(part, at)?;
            out.write_all(part)?;
            at = at.saturating_add(part.len() as u64);
        }
        Ok(())
    }
}
