//! catalog-operator: CatalogSources, Subscriptions, resolution, InstallPlans and bundle unpacking.

mod args;
mod bundle_unpack;
mod catalog_source;
mod install_plan;
mod resolution;
mod snapshots;
mod subscription;

fn main() {}
