//! `operators.coreos.com/v1alpha1`: ClusterServiceVersion, Subscription, InstallPlan, CatalogSource.

mod catalog_source;
mod cluster_service_version;
mod cluster_service_version_status;
mod install_plan;
mod install_strategy;
mod provided_api;
mod subscription;
mod webhook_description;

/// `apiVersion` of these kinds.
pub const API_VERSION: &str = "operators.coreos.com/v1alpha1";
/// The version in [`API_VERSION`].
pub const VERSION: &str = "v1alpha1";

pub use catalog_source::*;
pub use cluster_service_version::*;
pub use cluster_service_version_status::*;
pub use install_plan::*;
pub use install_strategy::*;
pub use provided_api::*;
pub use subscription::*;
pub use webhook_description::*;
