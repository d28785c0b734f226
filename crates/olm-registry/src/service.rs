//! The server's side of the contract, generated from `proto/registry.proto`. Bundles are sent as stored bytes.

#![allow(missing_docs, clippy::all)]

include!("generated/server.rs");
