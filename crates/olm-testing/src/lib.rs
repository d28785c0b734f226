//! Test support: a fake cluster, stages for operators, and fixtures.

pub mod cluster;
pub mod flags;
pub mod guides;
pub mod limits;
pub mod long;
pub mod patch;
pub mod properties;
pub mod rbac;
pub mod samples;
pub mod shared;
pub mod stage;
pub mod turns;
