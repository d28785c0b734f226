//! Builders and fixtures for tests.

pub mod shared;
