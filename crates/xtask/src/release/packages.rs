//! The packages that are linked into a program.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context as _;

use crate::{images, process, workspace};

/// A package that is linked in.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Package {
    pub(super) name: String,
    pub(super) version: String,
    /// SPDX expression as its author wrote it; empty where there is none.
    pub(super) licence: String,
    /// Comes from no registry of crates: a package of this workspace, or a library of this machine.
    pub(super) is_without_registry: bool,
}

/// Has cargo download the packages that are missing, with the user's settings.
///
/// # Errors
/// When cargo cannot.
pub(super) fn fetch(sources: &Path) -> anyhow::Result<()> {
    let mut command = workspace::cargo();
    command
        .args(["fetch", "--locked", "--target", &images::target()])
        .current_dir(sources);
    process::output(command, None, "cargo fetch").map(drop)
}

/// The packages of `program`, itself and procedural macros among them.
///
/// # Errors
/// When cargo cannot tell.
pub(super) fn of_program(sources: &Path, program: &str) -> anyhow::Result<BTreeSet<Package>> {
    let mut command = workspace::cargo();
    // Unlike `cargo metadata` it leaves out what only features of others in the workspace need.
    command
        .args(["tree", "--locked", "--edges=normal", "--prefix=none"])
        .args(["--format={p}|{l}", "--target", &images::target()])
        .args(["--package", program])
        .current_dir(sources);
    let listed = process::output(command, None, "cargo tree")?;
    Ok(listed.lines().filter_map(parse).collect())
}

/// Reads `NAME vVERSION (PATH)|LICENCE (*)`, where the last says that what it needs is listed above.
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

/// Where cargo unpacks packages, one folder for each registry or mirror.
///
/// # Errors
/// When there is none.
pub(super) fn folders() -> anyhow::Result<Vec<PathBuf>> {
    let folder = workspace::cargo_home()?.join("registry/src");
    fs::read_dir(&folder)
        .with_context(|| format!("cannot list {}", folder.display()))?
        .map(|entry| Ok(entry?.path()))
        .collect()
}
