//! Messages of the contract, generated from `proto/registry.proto`.

#![allow(missing_docs, clippy::all)]

include!("generated/messages.rs");

/// The contract for reflection.
pub const DESCRIPTORS: &[u8] = include_bytes!("generated/descriptors.bin");
