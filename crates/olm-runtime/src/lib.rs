//! Controller runtime shared by the operators: stores, plan executor, driver, events, metrics, admin server.
//!
//! Every controller follows one contract: **observe** (reads only) → **decide** (pure) → **act** (this crate's [`apply::Executor`], the
//! only writer in the workspace) → **status** (pure, written once and only if it changed). See [`driver::Reconciler`].
//!
//! **Invariant:** nothing outside [`apply`] creates, patches or deletes an object. The exceptions are Events, sent by [`event`], and the
//! Lease of leader election, written by [`leader`].
//! **Invariant:** no write bypasses the [`gate`].
//! **Invariant:** this crate has no knowledge of catalogs, registries or resolution.

pub mod admin;
pub mod apply;
pub mod args;
pub mod brake;
pub mod certificate;
pub mod change;
pub mod client;
pub mod clock;
pub mod cluster_operator;
pub mod condition;
pub mod connections;
pub mod discovery;
pub mod driver;
pub mod error;
pub mod event;
pub mod fair_permits;
pub mod gate;
pub mod isolation;
pub mod key;
pub mod leader;
pub mod listener;
pub mod metrics;
pub mod outcome;
pub mod plan;
pub mod process;
pub mod pull_secrets;
pub mod queue;
pub mod reason;
pub mod review;
pub mod store;
pub mod sync;
mod telemetry;
pub mod tls;
pub mod uid;
#[cfg(test)]
mod written;

pub use jiff::Timestamp;
pub use key::NamespacedName;
