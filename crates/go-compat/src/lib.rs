//! Text as Go and its libraries read and write it.
//!
//! Objects, catalogs and messages were made by programs written in Go, and others compare what they find in them: hashes of
//! JSON, orders of versions, words of errors. What depends on that is here, once; the tests hold what Go itself prints.

pub mod boolean;
pub mod duration;
pub mod json;
pub mod platform;
pub mod semver;

mod error;
mod quote;

pub use error::error_chain;
pub use quote::{Quoted, quote};
