//! What authors of catalogs and bundles need and no cluster does: bundles from files and their checks, lint, templates,
//! migration, drawings of upgrade graphs.
//!
//! As pure as `olm-fbc`, on which it stands: files and values in, blobs, findings and text out; no network, no clock.

pub mod bundle;
pub mod config_map;
pub mod graph;
pub mod icon;
pub mod lint;
pub mod manifest_validator;
pub mod mermaid;
pub mod migrate;
pub mod template;
