//! Resolution of a namespace on a cluster in memory: its controller with the real stores, wiring, queue, executor, resolver,
//! snapshots and unpacker.
//!
//! [`TestEnv`] plays the other controllers, and can kill the process after any write.

mod approvers;
mod checklist;
mod decisions;
mod flows;
mod test_env;

use test_env::{TestEnv, bundle};
