//! Rounds of a namespace, with the real resolver, snapshots and unpacker, over a cluster of a few maps.
//!
//! [`World`] carries out plans as the API server would, as far as this reconciler can see, and can stop after any write.

mod decisions;
mod flows;
mod world;

use world::{World, bundle};
