//! Resolution of a namespace on a cluster in memory: its controller with the real stores, wiring, queue, executor, resolver,
//! snapshots and unpacker.
//!
//! [`World`] plays the other controllers, and can kill the process after any write.

mod decisions;
mod flows;
mod world;

use world::{World, bundle};
