//! Text as Go and its libraries read and write it.
//!
//! Programs written in Go created the existing objects, catalogs and messages, and other programs compare their contents: hashes
//! of JSON, orders of versions, texts of errors. All code that depends on Go's formats is in this crate. The tests contain Go's
//! own output.

pub mod boolean;
pub mod duration;
pub mod image_ref;
pub mod json;
pub mod masterminds;
pub mod platform;
pub mod quantity;
pub mod semver;

mod error;
mod quote;

pub use error::error_chain;
pub use quote::{Quoted, quote};
