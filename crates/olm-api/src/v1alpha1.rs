//! `operators.coreos.com/v1alpha1`: ClusterServiceVersion, Subscription, InstallPlan, CatalogSource.

mod catalog_source;
mod cluster_service_version;
mod install_plan;
mod install_strategy;
mod subscription;

pub use catalog_source::*;
pub use cluster_service_version::*;
pub use install_plan::*;
pub use install_strategy::*;
pub use subscription::*;
