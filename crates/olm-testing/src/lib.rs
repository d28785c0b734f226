//! Builders and fixtures for tests.

pub mod cluster;
pub mod laws;
pub mod limits;
pub mod long;
pub mod patch;
pub mod shared;
pub mod stage;
pub mod turns;
