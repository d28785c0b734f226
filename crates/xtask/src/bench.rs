//! `cargo xtask bench`: figures of the main job, of catalogs, of resolution, of many installs, of contents in memory, of
//! PackageManifests.

mod catalogs;
mod churn;
mod deployed;
mod main_job;
mod memory;
mod packages;
mod resolver;
mod snapshots;

use std::process::ExitCode;

use crate::args::{BenchCommand, BenchOptions};

pub use memory::find_process;

/// Measures what the options name, the main job if they name nothing. A miss is printed and fails nothing.
///
/// # Errors
/// What is measured does not come about.
pub(crate) fn run(options: &BenchOptions) -> anyhow::Result<ExitCode> {
    match &options.what {
        Some(BenchCommand::Catalogs(catalogs)) => catalogs::run(catalogs),
        Some(BenchCommand::Churn(churn)) => churn::run(churn),
        Some(BenchCommand::Packages) => packages::run(),
        Some(BenchCommand::Resolver) => resolver::run(),
        Some(BenchCommand::Snapshots) => snapshots::run(),
        None => main_job::run(options),
    }
}
