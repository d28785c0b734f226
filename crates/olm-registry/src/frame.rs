//! A message as its stored bytes.
//!
//! The parts of an encoded message may be concatenated in any order and still are that message. So the part
//! common to all channels, the part of a channel and the content are stored once and joined when sent.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;

use bytes::BufMut;

/// Bytes read at a time, so that they stay in the processor's cache between the file and the answer.
const PIECE: usize = 16 << 10;

/// A byte range of the file.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub(crate) struct Span {
    /// Position of the first byte.
    #[prost(uint64, tag = "1")]
    pub(crate) offset: u64,
    /// Number of bytes.
    #[prost(uint64, tag = "2")]
    pub(crate) length: u64,
}

/// Positions of the encoded parts of one message. Nothing is read before it is sent.
#[derive(Clone, Debug)]
pub struct Frame {
    file: Arc<File>,
    parts: [Span; 3],
}

impl Frame {
    /// Returns a message of these parts; an empty part adds nothing.
    pub(crate) fn new(file: &Arc<File>, parts: [Span; 3]) -> Self {
        Self {
            file: Arc::clone(file),
            parts,
        }
    }

    /// Returns the message's length in bytes.
    ///
    /// # Errors
    /// The length exceeds the address space.
    pub fn length(&self) -> io::Result<usize> {
        let length = self.parts.iter().map(|part| part.length).sum::<u64>();
        usize::try_from(length).map_err(io::Error::other)
    }

    /// Appends the message to `buffer`.
    ///
    /// # Errors
    /// The file cannot be read; `buffer` then has a part of the message.
    pub fn read_into(&self, buffer: &mut impl BufMut) -> io::Result<()> {
        let mut piece = [0; PIECE];
        for part in self.parts {
            let end = part.offset + part.length;
            let mut offset = part.offset;
            while offset < end {
                let length = PIECE.min(usize::try_from(end - offset).unwrap_or(PIECE));
                self.file.read_exact_at(&mut piece[..length], offset)?;
                buffer.put_slice(&piece[..length]);
                offset += length as u64;
            }
        }
        Ok(())
    }

    /// Returns the message in one piece.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn to_bytes(&self) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::with_capacity(self.length()?);
        self.read_into(&mut bytes)?;
        Ok(bytes)
    }

    /// Returns the decoded message.
    ///
    /// # Errors
    /// The file cannot be read, or has another message.
    pub(crate) fn decode<M: prost::Message + Default>(&self) -> io::Result<M> {
        M::decode(self.to_bytes()?.as_slice()).map_err(io::Error::other)
    }
}
