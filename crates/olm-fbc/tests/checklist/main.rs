//! Promises of the format's documents, one test per promise; the modules have the names of the promises.

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
