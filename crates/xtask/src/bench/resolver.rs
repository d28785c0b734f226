//! `cargo xtask bench resolver`: how long resolution takes (target P14), by the resolver's own bench.

use std::process::ExitCode;

use anyhow::Context as _;

use crate::workspace;

/// Runs the bench in release and passes its lines on. A miss is printed and fails nothing.
///
/// # Errors
/// Cargo cannot be run.
pub(super) fn run() -> anyhow::Result<ExitCode> {
    let status = workspace::cargo()
        .current_dir(workspace::root())
        .args([
            "bench",
            "--quiet",
            "--package",
            "olm-resolver",
            "--bench",
            "resolver",
        ])
        .status()
        .context("run cargo bench")?;
    Ok(if status.success() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}
