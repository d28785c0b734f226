//! A bundle message as the bytes it was stored as.
//!
//! Parts of an encoded message may be put one behind another in any order and still are that message, so the part common
//! to all channels, the part of a channel and the content are stored once and joined when sent.

use bytes::{Buf, BufMut, Bytes};
use prost::DecodeError;
use prost::encoding::{DecodeContext, WireType};

/// Encoded parts of one [`crate::proto::Bundle`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Frame {
    parts: Vec<Bytes>,
}

impl Frame {
    /// A message of these parts.
    pub fn new(parts: Vec<Bytes>) -> Self {
        Self { parts }
    }

    /// The message in one piece.
    pub fn to_bytes(&self) -> Vec<u8> {
        self.parts.concat()
    }
}

/// Encoding copies the parts. Servers never decode a bundle, so decoding is an error.
impl prost::Message for Frame {
    fn encode_raw(&self, buf: &mut impl BufMut) {
        for part in &self.parts {
            buf.put_slice(part);
        }
    }

    fn merge_field(
        &mut self,
        _tag: u32,
        _wire_type: WireType,
        _buf: &mut impl Buf,
        _ctx: DecodeContext,
    ) -> Result<(), DecodeError> {
        // prost offers no public way to build an error of one's own; reading a varint from nothing gives one.
        prost::encoding::decode_varint(&mut Bytes::new()).map(drop)
    }

    fn encoded_len(&self) -> usize {
        self.parts.iter().map(Bytes::len).sum()
    }

    fn clear(&mut self) {
        self.parts.clear();
    }
}
