//! Controllers of ClusterServiceVersion and OperatorGroup.
//!
//! The program is a shell around pure decisions: `run` wires stores to queues, and each controller observes, decides,
//! lets the runtime act, and writes its status. See `csv` for the one that matters most. It is a library so that tests
//! of the whole can drive its controllers; `program` only reads the flags.

// Rows of test tables are literals, handed over as they stand.
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
mod mislabelled_csv;
mod namespace;
mod olm_config;
mod operator;
mod operator_condition;
mod operator_group;
mod operator_sketch;
mod orphaned_caller;
mod owner;
pub mod program;
#[doc(hidden)]
pub mod rounds;
pub mod run;
pub mod stores;
#[cfg(test)]
mod test_env;
mod user_role;
