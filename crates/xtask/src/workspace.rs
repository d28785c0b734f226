//! Paths in this checkout.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context as _;
use serde_json::Value;

use crate::process;

/// Returns the workspace's root folder, which contains the top `Cargo.toml`.
///
/// Fixed at compile time, so that a binary started by path (`sudo target/debug/xtask …`) finds its checkout.
pub fn root() -> PathBuf {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    manifest.ancestors().nth(2).unwrap_or(manifest).to_path_buf()
}

/// Returns cargo's target folder. As in cargo, `CARGO_TARGET_DIR` takes precedence.
pub fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), |named| root().join(named))
}

/// Returns cargo's home, with its settings and the archives of packages.
///
/// # Errors
/// Neither CARGO_HOME nor HOME is set.
pub(crate) fn cargo_home() -> anyhow::Result<PathBuf> {
    home_of("CARGO_HOME", ".cargo")
}

/// Returns the folder that a variable names, else `folder` in the user's home.
///
/// # Errors
/// Neither the variable nor HOME is set.
pub(crate) fn home_of(variable: &str, folder: &str) -> anyhow::Result<PathBuf> {
    if let Some(home) = std::env::var_os(variable).filter(|home| !home.is_empty()) {
        return Ok(PathBuf::from(home));
    }
    let home = std::env::var_os("HOME").with_context(|| format!("neither {variable} nor HOME is set"))?;
    Ok(PathBuf::from(home).join(folder))
}

/// Prefixes of variables with which cargo describes the package of a program. Build scripts depend on them, so an inherited value
/// makes cargo compile most dependencies again.
const ABOUT_A_PACKAGE: [&str; 4] = [
    "CARGO_PKG_",
    "CARGO_MANIFEST_",
    "CARGO_BIN_",
    "CARGO_PRIMARY_PACKAGE",
];

/// Returns a cargo command in the workspace's root, as a user would run it.
pub fn cargo() -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root());
    for name in about_a_package(std::env::vars_os().map(|(name, _)| name)) {
        command.env_remove(name);
    }
    command
}

/// Returns what `cargo metadata` prints about the packages of the workspace, without their dependencies' own.
///
/// # Errors
/// cargo fails.
pub(crate) fn metadata() -> anyhow::Result<Value> {
    let mut command = cargo();
    let printed = process::run(command.args(["metadata", "--no-deps", "--format-version=1"]))?;
    serde_json::from_str(&printed).context("cargo metadata did not print JSON")
}

fn about_a_package(names: impl Iterator<Item = OsString>) -> impl Iterator<Item = OsString> {
    names.filter(|name| {
        let name = name.to_string_lossy();
        ABOUT_A_PACKAGE.iter().any(|start| name.starts_with(start))
    })
}

/// Returns the folder of all clusters: built programs in `bin`, and one folder for each cluster.
pub(crate) fn clusters() -> PathBuf {
    root().join("target/cluster")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cargo_within_does_not_take_the_package_of_its_caller_for_its_own() {
        let names = [
            "CARGO_PKG_NAME",
            "CARGO_MANIFEST_DIR",
            "CARGO_HOME",
            "CARGO_TARGET_DIR",
            "PATH",
        ];
        let left_out: Vec<OsString> = about_a_package(names.into_iter().map(OsString::from)).collect();
        assert_eq!(left_out, ["CARGO_PKG_NAME", "CARGO_MANIFEST_DIR"]);
        let removed = |wanted: &str| {
            cargo()
                .get_envs()
                .any(|(name, value)| name == wanted && value.is_none())
        };
        assert!(removed("CARGO_PKG_NAME"), "this test has it from cargo");
    }
}
