//! Types, labels, conditions and API keys of the Operator Lifecycle Manager APIs.
//!
//! One module for each API version; every field users can write is typed, and every struct keeps the fields it does not
//! know in `extra`, so that a read-modify-write loses nothing. The macro `api_type` has these rules. Core Kubernetes types
//! inside ours are [`Embedded`]: kept as written, decoded on demand. Optional lists are [`List`]s, which read like vectors.

pub mod api_key;
mod api_type;
pub mod approval;
pub mod cause;
pub mod cluster_operator;
pub mod condition;
pub mod config_map_catalog;
pub mod crd;
pub mod decode;
pub mod embedded;
pub mod extension_v1;
pub mod hash;
pub mod install_mode;
pub mod intersection;
pub mod labels;
pub mod manifest;
pub mod names;
pub mod object;
mod open_enum;
pub mod overrides;
pub mod packages;
pub mod permission;
pub mod plan_preview;
pub mod pod;
pub mod proxy;
pub mod rights;
pub mod schema_changes;
pub mod selector;
pub mod sparse;
pub mod unpacked_bundle;
pub mod user_role;
pub mod v1;
pub mod v1alpha1;
pub mod v2;

pub use decode::DecodeError;
pub use embedded::Embedded;
pub use manifest::{decode_csv_manifest, decode_manifest};
pub use sparse::{List, Map};

/// Group of all stored kinds except those of [`extension_v1`].
pub const GROUP: &str = "operators.coreos.com";

/// Fields that a struct does not know, as they came.
pub type Extra = std::collections::BTreeMap<String, serde_json::Value>;
