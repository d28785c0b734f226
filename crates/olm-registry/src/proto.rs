//! Messages, clients and server traits of the contract, generated from `proto/registry.proto`.

#![allow(missing_docs, clippy::all)]

include!("proto/messages.rs");

/// The server's side. Bundles are sent as stored bytes.
pub mod server {
    include!("proto/server.rs");
}

/// The contract for reflection.
pub const DESCRIPTORS: &[u8] = include_bytes!("proto/descriptors.bin");
