//! Builders and fixtures for tests.

pub mod laws;
pub mod shared;
