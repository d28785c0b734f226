//! Messages of the contract, generated from `proto/registry.proto`. As JSON a bundle is what upstream's cache has.

#![allow(missing_docs, clippy::all)]

include!("generated/messages.rs");

/// The contract for reflection.
pub const DESCRIPTORS: &[u8] = include_bytes!("generated/descriptors.bin");

impl From<&str> for Deprecation {
    fn from(message: &str) -> Self {
        Self {
            message: message.to_owned(),
        }
    }
}

/// Returns true for a value that upstream omits in JSON.
fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}
