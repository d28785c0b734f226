//! `olm.operatorframework.io/v1`: ClusterCatalog, ClusterExtension, ClusterObjectSet.
//!
//! The API of OLM v1. Its kinds are cluster-scoped, and clusters can have them with or without `operators.coreos.com`.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

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

macro_rules! with_conditions {
    ($($kind:ty),*) => {$(
        impl $kind {
            /// Returns the conditions of the status; empty if there are none yet.
            pub fn conditions(&self) -> &[Condition] {
                let status = self.status.as_ref();
                status.map(|status| status.conditions.as_slice()).unwrap_or_default()
            }

            /// Returns the condition of a type.
            pub fn condition(&self, type_: &str) -> Option<&Condition> {
                self.conditions().iter().find(|condition| condition.type_ == type_)
            }
        }
    )*};
}

with_conditions!(ClusterCatalog, ClusterExtension, ClusterObjectSet);
