//! Tools for authors of catalogs and bundles that no cluster needs: bundles from files and their checks, lint, templates,
//! migration. The drawings of upgrade graphs also serve the kubectl plugin.
//!
//! Like `olm-fbc`, on which it is based, it has no network and no clock: files and values in, blobs, findings and text out.

pub mod bundle;
pub mod config_map;
pub mod graph;
pub mod icon;
pub mod lint;
pub mod manifest_validator;
pub mod mermaid;
pub mod migrate;
pub mod template;

/// Error: input is no bundle, template or catalog, or cannot be drawn. The text includes its causes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Error(String);

impl From<String> for Error {
    fn from(text: String) -> Self {
        Self(text)
    }
}
