//! The operator registry: a catalog served over gRPC, and its readers.
//!
//! `index` turns a catalog folder into one file with messages encoded once, and `query` answers questions on
//! it. `server` implements the contract of `proto/registry.proto`. `connection`, `client` and `snapshot` are
//! for readers of catalogs.

pub mod cache;
pub mod client;
mod codec;
pub mod connection;
pub mod convert;
pub mod frame;
pub mod health;
pub mod index;
pub mod limits;
pub mod proto;
pub mod query;
pub mod server;
pub mod snapshot;
mod status_details;
mod temp_file;
mod write_coalescer;
