//! The cgroup under which all pods of a cluster live, in every hierarchy the kernel has.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context as _;

/// What all pods together get of a busy processor, as the kernel's two versions count it: eight times what a session of other
/// programs gets, so that a compiler at work beside the cluster does not starve them.
const WEIGHTS: [(&str, &str); 2] = [("cpu.shares", "8192"), ("cpu.weight", "800")];

/// Makes the cluster's cgroup in each hierarchy. Needs root.
///
/// # Errors
/// When a hierarchy refuses.
pub(super) fn create(key: &str) -> anyhow::Result<()> {
    for folder in folders(key)? {
        fs::create_dir_all(&folder)
            .with_context(|| format!("cannot create the cgroup {}", folder.display()))?;
        weigh(&folder);
    }
    Ok(())
}

/// A machine that does not let itself be told has a slower cluster, and no other harm.
fn weigh(folder: &Path) {
    for (file, weight) in WEIGHTS {
        let file = folder.join(file);
        if file.exists() {
            let _ = fs::write(file, weight);
        }
    }
}

/// Ids of the processes in the cluster's cgroup and below, each once.
///
/// # Errors
/// When the mounts cannot be read.
pub(super) fn processes(key: &str) -> anyhow::Result<Vec<u32>> {
    let mut found = Vec::new();
    for folder in folders(key)? {
        walk(&folder, &mut |cgroup| {
            let listed = fs::read_to_string(cgroup.join("cgroup.procs")).unwrap_or_default();
            found.extend(listed.lines().filter_map(|line| line.trim().parse::<u32>().ok()));
        });
    }
    found.sort_unstable();
    found.dedup();
    Ok(found)
}

/// Removes the cluster's cgroup; what still holds a process stays.
///
/// # Errors
/// When the mounts cannot be read.
pub(super) fn delete(key: &str) -> anyhow::Result<()> {
    for folder in folders(key)? {
        walk(&folder, &mut |cgroup| {
            let _ = fs::remove_dir(cgroup);
        });
    }
    Ok(())
}

/// Whether any part of the cluster's cgroup is left.
pub(super) fn exists(key: &str) -> bool {
    folders(key).is_ok_and(|folders| folders.iter().any(|folder| folder.exists()))
}

/// Calls `visit` for every folder below and including `folder`, deepest first.
fn walk(folder: &Path, visit: &mut dyn FnMut(&Path)) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            walk(&entry.path(), visit);
        }
    }
    if folder.exists() {
        visit(folder);
    }
}

fn folders(key: &str) -> anyhow::Result<Vec<PathBuf>> {
    let mounts = fs::read_to_string("/proc/self/mountinfo").context("cannot read /proc/self/mountinfo")?;
    Ok(hierarchies(&mounts)
        .into_iter()
        .map(|mount| mount.join(key))
        .collect())
}

/// Mount points of all cgroup file systems below `/sys/fs/cgroup`, from the text of a mountinfo file.
fn hierarchies(mounts: &str) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = mounts
        .lines()
        .filter_map(|line| {
            let (place, kind) = line.split_once(" - ")?;
            let kind = kind.split(' ').next()?;
            let mount = place.split(' ').nth(4)?;
            (kind == "cgroup" || kind == "cgroup2").then(|| PathBuf::from(mount))
        })
        .filter(|mount| mount.starts_with("/sys/fs/cgroup"))
        .collect();
    found.sort();
    found.dedup();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_weight_is_written_where_the_kernel_has_a_file_for_it() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("cpu.shares"), "1024").unwrap();
        weigh(folder.path());
        let shares = fs::read_to_string(folder.path().join("cpu.shares")).unwrap();
        assert_eq!(shares, "8192");
        assert!(!folder.path().join("cpu.weight").exists());
    }

    #[test]
    fn hierarchies_of_both_cgroup_versions_are_found_once() {
        let mounts = "\
24 1 0:22 / /proc rw - proc proc rw
32 30 0:28 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory
33 30 0:29 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw
62 30 0:28 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory
70 30 0:28 / /mnt/other rw,relatime - cgroup cgroup rw,memory
";
        assert_eq!(
            hierarchies(mounts),
            [
                PathBuf::from("/sys/fs/cgroup/memory"),
                PathBuf::from("/sys/fs/cgroup/unified")
            ]
        );
    }
}
