//! Controllers of ClusterServiceVersion and OperatorGroup.
//!
//! The program is a shell around pure decisions. `run` connects stores to queues, and each controller
//! observes, decides, lets the runtime execute the plan, and writes its status. `csv` is the most important
//! one. The crate is a library so that end-to-end tests can run its controllers; `program` only reads the
//! flags.

// Rows of test tables are literals, passed by value.
#![cfg_attr(test, allow(clippy::needless_pass_by_value))]

mod adoption;
mod api_role;
pub mod args;
mod cluster_operator;
mod component;
mod copied_csv;
mod csv;
mod csv_sketch;
mod group_role;
mod guarded_labels;
mod metrics;
mod namespace;
mod olm_config;
mod operator;
mod operator_condition;
mod operator_group;
mod operator_sketch;
mod orphaned_caller;
mod owner;
#[doc(hidden)]
pub mod rounds;
pub mod run;
pub mod stores;
#[cfg(test)]
mod test_env;
mod user_role;
