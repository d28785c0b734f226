//! Controller of ClusterExtension: from the catalogs to the objects of a bundle in the cluster.
//!
//! # Data flow
//! `resolve` chooses a bundle among those the ClusterCatalogs offer. [`apply`] makes a revision of its objects, and applies them.

#![cfg_attr(not(test), warn(unreachable_pub))]

pub mod apply;
pub mod resolve;
