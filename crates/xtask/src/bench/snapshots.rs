//! `cargo xtask bench snapshots`: what the contents of ten catalogs take in memory (target P18), by the code of the operator.

use std::process::ExitCode;

use anyhow::Context as _;

use crate::workspace;

/// Runs the measurement in release and passes its line on. A miss is printed and fails nothing.
///
/// # Errors
/// Cargo cannot be run.
pub(super) fn run() -> anyhow::Result<ExitCode> {
    let status = workspace::cargo()
        .current_dir(workspace::root())
        .args(["run", "--quiet", "--release"])
        .args(["--package", "catalog-operator", "--example", "catalog_memory"])
        .status()
        .context("run cargo")?;
    Ok(if status.success() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}
