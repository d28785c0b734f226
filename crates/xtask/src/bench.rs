//! `cargo xtask bench`: measures the main job, catalogs, resolution, memory of catalog contents, PackageManifests, OLM at rest, and
//! OLM v1.

mod catalogs;
mod main_job;
mod memory;
pub mod rest;
mod table;
pub mod v1;

use std::process::ExitCode;

use anyhow::Context as _;

use crate::args::{BenchCommand, BenchOptions};
use crate::workspace;

pub use memory::find_process;

/// Runs the measurement that the options name, by default the main job. A missed target is printed and is no error.
///
/// # Errors
/// The measured operation fails.
pub(crate) fn run(options: &BenchOptions) -> anyhow::Result<ExitCode> {
    match &options.what {
        Some(BenchCommand::Catalogs(catalogs)) => catalogs::run(catalogs),
        Some(BenchCommand::Packages) => cargo(
            "test --quiet --release --package package-server --test process real_operators -- --nocapture",
        ),
        Some(BenchCommand::Resolver) => cargo("bench --quiet --package olm-resolver --bench resolver"),
        Some(BenchCommand::Snapshots) => {
            cargo("run --quiet --release --package catalog-operator --example catalog_memory")
        }
        Some(BenchCommand::Rest(rest)) => rest::run(rest),
        Some(BenchCommand::V1(v1)) => v1::run(v1),
        None => main_job::run(options),
    }
}

/// Runs a measurement of another crate and passes its output on.
fn cargo(arguments: &str) -> anyhow::Result<ExitCode> {
    let status = workspace::cargo()
        .args(arguments.split(' '))
        .status()
        .context("cannot run cargo")?;
    Ok(if status.success() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}
