//! Controller of ClusterExtension: from the catalogs to the objects of a bundle in the cluster.
//!
//! # Data flow
//! [`resolve`] chooses a bundle among those the ClusterCatalogs offer. [`render`] makes the Kubernetes objects of it. [`apply`] makes a
//! revision of these objects, and applies them.

#![cfg_attr(not(test), warn(unreachable_pub))]

pub mod apply;
pub mod render;
pub mod resolve;
