//! The server's response encoding: stored messages straight from the file, others as in any server.

use std::marker::PhantomData;

use prost::Message;
use tonic::Status;
use tonic::codec::{BufferSettings, Codec, EncodeBuf, Encoder};
use tonic_prost::{ProstCodec, ProstDecoder};

use crate::frame::Frame;
use crate::proto;

/// A message that the server sends.
pub(crate) trait ResponseMessage: Send + 'static {
    /// Appends the encoded message to `buffer`.
    fn put(self, buffer: &mut EncodeBuf<'_>) -> Result<(), Status>;
}

impl ResponseMessage for Frame {
    fn put(self, buffer: &mut EncodeBuf<'_>) -> Result<(), Status> {
        let failed = |error| Status::internal(format!("read index: {error}"));
        buffer.reserve(self.length().map_err(failed)?);
        self.read_into(buffer).map_err(failed)
    }
}

macro_rules! response_messages {
    ($($message:ty),*) => {$(
        impl ResponseMessage for $message {
            fn put(self, buffer: &mut EncodeBuf<'_>) -> Result<(), Status> {
                self.encode(buffer).map_err(|error| Status::internal(format!("encode answer: {error}")))
            }
        }
    )*};
}

response_messages!(proto::Package, proto::PackageName, proto::ChannelEntry);

/// The server's codec: responses of type `T`, requests of type `U`.
#[derive(Debug)]
pub(crate) struct ResponseCodec<T, U>(PhantomData<(T, U)>);

impl<T, U> Default for ResponseCodec<T, U> {
    fn default() -> Self {
        Self(PhantomData)
    }
}

impl<T: ResponseMessage, U: Message + Default + 'static> Codec for ResponseCodec<T, U> {
    type Encode = T;
    type Decode = U;
    type Encoder = ResponseEncoder<T>;
    type Decoder = ProstDecoder<U>;

    fn encoder(&mut self) -> Self::Encoder {
        ResponseEncoder(PhantomData)
    }

    fn decoder(&mut self) -> Self::Decoder {
        ProstCodec::<proto::Package, U>::raw_decoder(BufferSettings::default())
    }
}

/// Encodes responses of type `T`.
#[derive(Debug)]
pub(crate) struct ResponseEncoder<T>(PhantomData<T>);

impl<T: ResponseMessage> Encoder for ResponseEncoder<T> {
    type Item = T;
    type Error = Status;

    fn encode(&mut self, answer: T, buffer: &mut EncodeBuf<'_>) -> Result<(), Status> {
        answer.put(buffer)
    }
}
