//! Controllers of CatalogSource, Subscription and InstallPlan; resolution and bundle unpacking.
//!
//! The program is a shell around pure decisions: `run` wires stores to queues, and each controller observes, decides,
//! lets the runtime act, and writes its status. It is a library so that tests of the whole, fuzzing among them, can drive
//! its controllers; `main.rs` only reads the flags.

pub mod annotation;
pub mod args;
pub mod bundle_unpack;
pub mod catalog_source;
mod debounce;
pub mod fair_permits;
pub mod grpc_catalog_reader;
pub mod install_plan;
pub mod object;
pub mod resolution;
pub mod run;
pub mod snapshots;
pub mod step_kind;
pub mod stores;
#[cfg(test)]
mod stories;
pub mod subscription;
#[cfg(test)]
mod test_env;
