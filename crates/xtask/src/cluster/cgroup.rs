//! The cgroup of all pods of a cluster, in every hierarchy of the kernel.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context as _;

/// CPU weight of all pods together, for both versions of cgroups. It is eight times the default, so that compilers on the machine
/// do not starve the cluster.
const WEIGHTS: [(&str, &str); 2] = [("cpu.shares", "8192"), ("cpu.weight", "800")];

/// Creates the cluster's cgroup in each hierarchy. Needs root.
///
/// # Errors
/// The cgroup cannot be created in a hierarchy.
pub(super) fn create(key: &str) -> anyhow::Result<()> {
    for folder in folders(key)? {
        fs::create_dir_all(&folder)
            .with_context(|| format!("cannot create the cgroup {}", folder.display()))?;
        weigh(&folder);
    }
    Ok(())
}

/// Sets the weights. A failure is ignored, because it only makes the cluster slower.
fn weigh(folder: &Path) {
    for (file, weight) in WEIGHTS {
        let file = folder.join(file);
        if file.exists() {
            let _ = fs::write(file, weight);
        }
    }
}

/// Returns the ids of processes in the cluster's cgroup and below, without duplicates.
///
/// # Errors
/// The mounts cannot be read.
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

/// Deletes the cluster's cgroup, except for parts that still contain a process.
///
/// # Errors
/// The mounts cannot be read.
pub(super) fn delete(key: &str) -> anyhow::Result<()> {
    for folder in folders(key)? {
        walk(&folder, &mut |cgroup| {
            let _ = fs::remove_dir(cgroup);
        });
    }
    Ok(())
}

/// Returns true if any part of the cluster's cgroup exists.
pub(super) fn exists(key: &str) -> bool {
    folders(key).is_ok_and(|folders| folders.iter().any(|folder| folder.exists()))
}

/// Calls `visit` for `folder` and every folder below, deepest first.
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

/// Returns the mount points of all cgroup file systems below `/sys/fs/cgroup`, from the text of a mountinfo file.
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
