//! `cargo xtask bench packages`: how soon the package server serves and what it takes for 125 real operators (targets P6 and P6b), by its own test.

use std::process::ExitCode;

use anyhow::Context as _;

use crate::workspace;

/// Runs the measurement in release and passes its line on.
///
/// # Errors
/// Cargo cannot be run.
pub(super) fn run() -> anyhow::Result<ExitCode> {
    let status = workspace::cargo()
        .current_dir(workspace::root())
        .args(["test", "--quiet", "--release", "--package", "package-server"])
        .args(["--test", "process", "real_operators", "--", "--nocapture"])
        .status()
        .context("run cargo")?;
    Ok(if status.success() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}
