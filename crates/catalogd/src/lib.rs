//! Controller of ClusterCatalog, and the server of their contents.
//!
//! # Data flow
//! A ClusterCatalog names an image. `unpacking` pulls it from a [`registry`], and puts its file-based catalog into `store`. `api` answers requests from
//! there, and `serving` accepts their connections. `cluster_catalog` reports in the status.
//!
//! Of several processes one leads: it follows the tags of images and writes statuses. The others pull the images that the statuses name,
//! so each process serves every catalog.
//!
//! **Invariant:** in the leader, the last complete content of a catalog is served until a newer one is complete, or the catalog is deleted or switched
//! off.

#![cfg_attr(not(test), warn(unreachable_pub))]

pub mod api;
pub mod args;
mod cluster_catalog;
pub mod registry;
pub mod run;
mod serving;
pub mod store;
#[cfg(test)]
mod test_env;
pub mod unpacking;
