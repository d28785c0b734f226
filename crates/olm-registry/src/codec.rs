//! Encoding and decoding of both sides: stored messages are sent straight from the file, and a message that takes
//! much more memory than its bytes is rejected before it is decoded.

use std::marker::PhantomData;

use bytes::Buf as _;
use prost::Message;
use prost::encoding::{DecodeContext, decode_key, skip_field};
use tonic::Status;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};

use crate::frame::Frame;
use crate::limits::MESSAGE_FIELDS;

/// A message that is sent.
pub(crate) trait Outgoing: Send + 'static {
    /// Appends the encoded message to `buffer`.
    fn put(self, buffer: &mut EncodeBuf<'_>) -> Result<(), Status>;
}

impl Outgoing for Frame {
    fn put(self, buffer: &mut EncodeBuf<'_>) -> Result<(), Status> {
        let failed = |error| Status::internal(format!("read index: {error}"));
        buffer.reserve(self.length().map_err(failed)?);
        self.read_into(buffer).map_err(failed)
    }
}

impl<M: Message + 'static> Outgoing for M {
    fn put(self, buffer: &mut EncodeBuf<'_>) -> Result<(), Status> {
        self.encode(buffer)
            .map_err(|error| Status::internal(format!("encode answer: {error}")))
    }
}

/// The codec: messages of type `T` are sent, messages of type `U` are received.
#[derive(Debug)]
pub(crate) struct BoundedCodec<T, U>(PhantomData<(T, U)>);

impl<T, U> Default for BoundedCodec<T, U> {
    fn default() -> Self {
        Self(PhantomData)
    }
}

impl<T: Outgoing, U: Message + Default + 'static> Codec for BoundedCodec<T, U> {
    type Encode = T;
    type Decode = U;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self::Encoder {
        Self::default()
    }

    fn decoder(&mut self) -> Self::Decoder {
        Self::default()
    }
}

impl<T: Outgoing, U> Encoder for BoundedCodec<T, U> {
    type Item = T;
    type Error = Status;

    fn encode(&mut self, message: T, buffer: &mut EncodeBuf<'_>) -> Result<(), Status> {
        message.put(buffer)
    }
}

impl<T, U: Message + Default> Decoder for BoundedCodec<T, U> {
    type Item = U;
    type Error = Status;

    fn decode(&mut self, source: &mut DecodeBuf<'_>) -> Result<Option<U>, Status> {
        let bytes = source.copy_to_bytes(source.remaining());
        let broken = |error: prost::DecodeError| Status::internal(error.to_string());
        if !has_few_fields(&bytes).map_err(broken)? {
            return Err(Status::out_of_range(format!(
                "a message has more than {MESSAGE_FIELDS} fields, the limit"
            )));
        }
        U::decode(bytes).map(Some).map_err(broken)
    }
}

/// Returns whether a message has no more fields than allowed. Nested messages are not counted: those of the
/// contract have no repeated fields.
fn has_few_fields(mut bytes: &[u8]) -> Result<bool, prost::DecodeError> {
    let mut fields = 0_usize;
    while bytes.has_remaining() {
        fields = fields.saturating_add(1);
        if fields > MESSAGE_FIELDS {
            return Ok(false);
        }
        let (tag, wire_type) = decode_key(&mut bytes)?;
        skip_field(wire_type, tag, &mut bytes, DecodeContext::default())?;
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto;

    #[test]
    fn fields_are_counted_before_they_take_memory() {
        let bundle = |skips| {
            let bundle = proto::Bundle {
                csv_name: "x".into(),
                skips: vec![String::new(); skips],
                ..proto::Bundle::default()
            };
            bundle.encode_to_vec()
        };
        assert!(has_few_fields(&[]).expect("nothing"));
        assert!(has_few_fields(&bundle(MESSAGE_FIELDS - 1)).expect("message"));
        assert!(!has_few_fields(&bundle(MESSAGE_FIELDS)).expect("message"));
        for broken in [&[0x0a, 0x7f][..], &[0xff; 20], &[0x0f]] {
            assert!(has_few_fields(broken).is_err(), "{broken:?}");
        }
    }

    /// Repeated fields of nested messages would not be counted.
    #[test]
    fn messages_inside_of_messages_repeat_nothing() {
        let contract = include_str!("../../../proto/registry.proto");
        for message in contract.split("\nmessage ").skip(1) {
            let name = message.split_whitespace().next().unwrap_or_default();
            let body = message.split('}').next().unwrap_or_default();
            let is_inside =
                contract.contains(&format!("repeated {name} ")) || contract.contains(&format!("\n  {name} "));
            assert!(!(is_inside && body.contains("repeated ")), "{name}");
        }
    }
}
