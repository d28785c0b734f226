//! `olm.operatorframework.io/v1`: ClusterCatalog.
//!
//! The API of OLM v1. Its kinds are cluster-scoped, and clusters can have them with or without `operators.coreos.com`.

mod cluster_catalog;

/// `apiVersion` of these kinds.
pub const API_VERSION: &str = "olm.operatorframework.io/v1";
/// Label of a ClusterCatalog with its own name as the value, so that label selectors can select it by name.
pub const METADATA_NAME_LABEL: &str = "olm.operatorframework.io/metadata.name";

pub use cluster_catalog::*;
