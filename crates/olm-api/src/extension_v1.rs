//! `olm.operatorframework.io/v1`: ClusterCatalog, ClusterExtension, ClusterObjectSet.
//!
//! The API of OLM v1. Its kinds are cluster-scoped, and clusters can have them with or without `operators.coreos.com`.

use serde_json::{Value, json};

mod cluster_catalog;
mod cluster_extension;
mod cluster_object_set;

/// API group of these kinds.
pub const GROUP: &str = "olm.operatorframework.io";
/// `apiVersion` of these kinds.
pub const API_VERSION: &str = "olm.operatorframework.io/v1";
/// Label of a ClusterCatalog with its own name as the value, so that label selectors can select it by name.
pub const METADATA_NAME_LABEL: &str = "olm.operatorframework.io/metadata.name";

pub use cluster_catalog::*;
pub use cluster_extension::*;
pub use cluster_object_set::*;

/// Returns a validation rule of a schema: an expression that must hold, and the message if it does not.
fn rule(rule: &str, message: &str) -> Value {
    json!({"rule": rule, "message": message})
}
