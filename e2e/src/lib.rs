//! End-to-end tests against the embedded cluster.
