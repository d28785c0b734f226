//! File-based catalogs: load, validate, channel graph, properties, versions.
//!
//! Reads directories and nothing else: no network, no clock, no cluster. The order of steps is `load` (files to blobs),
//! `validate` (blobs to a checked model, all faults at once), `render` (blobs to text). `entry` is the compact form for
//! resolution.

pub mod base64;
pub mod bundle_files;
pub mod bundle_object;
pub mod channel;
pub mod did_you_mean;
pub mod entry;
pub mod image_ref;
pub mod load;
pub mod manifest;
pub mod misspelling;
pub mod printable;
pub mod property;
pub mod release;
pub mod render;
pub mod schema;
pub mod schema_name;
pub mod validate;
pub mod yaml;
