//! What the format's documents promise, a test a promise; the modules are named as the promises.

#![allow(
    clippy::panic,
    clippy::needless_pass_by_value,
    clippy::semicolon_if_nothing_returned,
    reason = "tests"
)]

mod catalogs;
mod dpr;
mod fbc;
mod sch;
