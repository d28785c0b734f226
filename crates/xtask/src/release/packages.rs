//! Packages that are linked into a program.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::{files, images, process, workspace};

/// A linked package.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Package {
    pub(super) name: String,
    pub(super) version: String,
    /// SPDX expression of the author; empty if there is none.
    pub(super) licence: String,
    /// True for packages of this workspace and libraries of this machine, which are in no registry of crates.
    pub(super) is_without_registry: bool,
}

/// Downloads missing packages with cargo and the user's settings.
///
/// # Errors
/// cargo fails.
pub(super) fn fetch(sources: &Path) -> anyhow::Result<()> {
    let mut command = workspace::cargo();
    command
        .args(["fetch", "--locked", "--target", &images::target()])
        .current_dir(sources);
    process::run(&mut command).map(drop)
}

/// Returns the packages of `program`, including itself and procedural macros.
///
/// # Errors
/// cargo fails.
pub(super) fn of_program(sources: &Path, program: &str) -> anyhow::Result<BTreeSet<Package>> {
    let mut command = workspace::cargo();
    // Unlike `cargo metadata` it omits packages that only features of other workspace members need.
    command
        .args(["tree", "--locked", "--edges=normal", "--prefix=none"])
        .args(["--format={p}|{l}", "--target", &images::target()])
        .args(["--package", program])
        .current_dir(sources);
    let listed = process::run(&mut command)?;
    Ok(listed.lines().filter_map(parse).collect())
}

/// Parses `NAME vVERSION (PATH)|LICENCE (*)`, in which `(*)` means that the dependencies were listed before.
fn parse(line: &str) -> Option<Package> {
    let (package, licence) = line.split_once('|')?;
    let (name, rest) = package.split_once(" v")?;
    Some(Package {
        name: name.to_owned(),
        version: rest.split(' ').next()?.to_owned(),
        licence: licence.trim_end_matches(" (*)").to_owned(),
        is_without_registry: rest.contains("(/"),
    })
}

/// Returns the folders in which cargo unpacks packages, one for each registry or mirror.
///
/// # Errors
/// There is none.
pub(super) fn folders() -> anyhow::Result<Vec<PathBuf>> {
    files::entries(&workspace::cargo_home()?.join("registry/src"))
}
