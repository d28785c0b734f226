//! Controller of ClusterExtension: from the catalogs to the objects of a bundle in the cluster.
//!
//! # Data flow
//! [`catalog_content`] reads a package from the server of each ClusterCatalog, and [`resolve`] chooses a bundle. [`bundle_images`] pulls
//! it, [`render`] makes Kubernetes objects of it, and [`cluster_extension`] makes a revision of them. [`apply`] applies the objects of
//! each revision.

#![cfg_attr(not(test), warn(unreachable_pub))]

pub mod apply;
pub mod args;
pub mod bundle_images;
pub mod catalog_content;
pub mod cluster_extension;
mod reads;
pub mod render;
pub mod resolve;
pub mod run;

pub use olm_runtime::discovery::Discovery;
pub use olm_runtime::key::is_path_segment;
