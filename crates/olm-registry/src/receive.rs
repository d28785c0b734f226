//! The client's decoding: a message that takes much more memory than its bytes is rejected before it is decoded.

use std::marker::PhantomData;

use bytes::Buf as _;
use prost::Message;
use prost::encoding::{DecodeContext, decode_key, skip_field};
use tonic::Status;
use tonic::codec::{BufferSettings, Codec, DecodeBuf, Decoder};
use tonic_prost::{ProstCodec, ProstEncoder};

use crate::limits::MESSAGE_FIELDS;

/// The codec of [`crate::client::Client`]: requests of type `T`, responses of type `U`.
#[derive(Debug)]
pub(crate) struct BoundedCodec<T, U>(PhantomData<(T, U)>);

impl<T, U> Default for BoundedCodec<T, U> {
    fn default() -> Self {
        Self(PhantomData)
    }
}

impl<T: Message + 'static, U: Message + Default + 'static> Codec for BoundedCodec<T, U> {
    type Encode = T;
    type Decode = U;
    type Encoder = ProstEncoder<T>;
    type Decoder = BoundedDecoder<U>;

    fn encoder(&mut self) -> Self::Encoder {
        ProstCodec::<T, U>::raw_encoder(BufferSettings::default())
    }

    fn decoder(&mut self) -> Self::Decoder {
        BoundedDecoder(PhantomData)
    }
}

/// Decodes responses of type `U`.
#[derive(Debug)]
pub(crate) struct BoundedDecoder<U>(PhantomData<U>);

impl<U: Message + Default> Decoder for BoundedDecoder<U> {
    type Item = U;
    type Error = Status;

    fn decode(&mut self, source: &mut DecodeBuf<'_>) -> Result<Option<Self::Item>, Status> {
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
