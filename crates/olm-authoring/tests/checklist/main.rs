//! Promises of the format's documents to authors, one test per promise; the modules have the names of the promises.

#![allow(
    clippy::panic,
    clippy::needless_pass_by_value,
    clippy::semicolon_if_nothing_returned,
    reason = "tests"
)]

#[path = "../../../olm-fbc/tests/checklist/catalogs.rs"]
mod catalogs;
mod dep;
mod fbc;
mod sch;
