//! The kubectl plugin for tests.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use anyhow::{Context as _, anyhow, ensure};
use xtask::test::PLUGIN_VARIABLE;
use xtask::workspace;

/// Returns the plugin, built once per test program unless the caller has built it.
///
/// # Errors
/// It cannot be built.
pub fn program() -> anyhow::Result<&'static Path> {
    static BUILT: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    let built = BUILT.get_or_init(|| build().map_err(|error| format!("{error:#}")));
    built.as_deref().map_err(|error| anyhow!("{error}"))
}

fn build() -> anyhow::Result<PathBuf> {
    if let Some(built) = std::env::var_os(PLUGIN_VARIABLE) {
        return Ok(built.into());
    }
    let built = workspace::cargo()
        .args(["build", "--quiet", "--package", "kubectl-operator"])
        .status()
        .context("cannot run cargo")?;
    ensure!(built.success(), "the plugin could not be built");
    Ok(workspace::target().join("debug/kubectl-operator"))
}
