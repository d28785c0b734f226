//! Controllers of CatalogSource, Subscription and InstallPlan; resolution and bundle unpacking.
//!
//! The program is a shell around pure decisions: `run` wires stores to queues, and each controller observes, decides,
//! lets the runtime act, and writes its status. It is a library so that tests of the whole, fuzzing among them, can drive
//! its controllers; `program` only reads the flags.

#![cfg_attr(not(test), warn(unreachable_pub))]

mod annotation;
pub mod args;
mod bundle_unpack;
mod catalog_manifests;
mod catalog_source;
mod cluster_operator;
mod component;
#[doc(hidden)]
pub mod for_tests;
mod grpc_catalog_reader;
mod install_plan;
mod manifest;
mod metrics;
mod object;
mod pruning;
mod registry_tags;
mod resolution;
pub mod run;
mod snapshots;
mod step_kind;
mod stores;
#[cfg(test)]
mod stories;
mod subscription;
#[cfg(test)]
mod test_env;
mod timing;
mod upgrade_policy;
