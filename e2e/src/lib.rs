//! End-to-end tests against the embedded cluster: shared code.
//!
//! The tests start a Kubernetes, which requires root; `cargo xtask test` does all that is needed. They run outside the cluster's
//! network namespace and enter it for each command. With `cargo xtask cluster exec -- cargo test …` they run inside and can
//! connect to the cluster's addresses themselves.

pub mod browser;
pub mod cluster;
pub mod corpus;
pub mod debian;
pub mod demo;
pub mod guide;
pub mod helm;
pub mod lab;
pub mod normalise;
pub mod olm_v1;
pub mod operator;
pub mod phases;
pub mod plugin;
pub mod short_leases;
pub mod terminal;
pub mod trial;
pub mod upstream;
pub mod variant;
pub mod writes;
