//! End-to-end tests against the embedded cluster: what they share.
//!
//! The tests start a Kubernetes, for which they need root; `cargo xtask test` does all they need. They run outside the
//! cluster's network namespace and enter it for each command. Started by `cargo xtask cluster exec -- cargo test …` they
//! run inside and can speak to the cluster's addresses themselves.

pub mod browser;
pub mod cluster;
pub mod corpus;
pub mod demo;
pub mod guide;
pub mod lab;
pub mod normalise;
pub mod operator;
pub mod phases;
pub mod plugin;
pub mod short_leases;
pub mod terminal;
pub mod trial;
pub mod upstream;
pub mod variant;
pub mod writes;
