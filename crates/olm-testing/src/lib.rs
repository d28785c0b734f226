//! Builders and fixtures for tests.

pub mod laws;
pub mod patch;
pub mod shared;
