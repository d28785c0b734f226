//! What the format's documents promise authors, a test a promise; the modules are named as the promises.

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
