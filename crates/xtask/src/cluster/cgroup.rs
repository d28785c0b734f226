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
    for folder in folders(key) {
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
pub(super) fn processes(key: &str) -> Vec<u32> {
    let mut found = Vec::new();
    for folder in folders(key) {
        walk(&folder, &mut |cgroup| {
            let listed = fs::read_to_string(cgroup.join("cgroup.procs")).unwrap_or_default();
            found.extend(listed.lines().filter_map(|line| line.trim().parse::<u32>().ok()));
        });
    }
    found.sort_unstable();
    found.dedup();
    found
}

/// Deletes the cluster's cgroup, except for parts that still contain a process.
pub(super) fn delete(key: &str) {
    for folder in folders(key) {
        walk(&folder, &mut |cgroup| {
            let _ = fs::remove_dir(cgroup);
        });
    }
}

/// Returns true if any part of the cluster's cgroup exists.
pub(super) fn exists(key: &str) -> bool {
    folders(key).iter().any(|folder| folder.exists())
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

fn folders(key: &str) -> Vec<PathBuf> {
    let hierarchies = hierarchies(Path::new("/sys/fs/cgroup")).into_iter();
    hierarchies.map(|mount| mount.join(key)).collect()
}

/// Returns the roots of all hierarchies: the folder itself in version 2 of cgroups, its subfolders in version 1.
fn hierarchies(folder: &Path) -> Vec<PathBuf> {
    let mut found = vec![folder.to_owned()];
    if !is_cgroup(folder) {
        found = fs::read_dir(folder)
            .into_iter()
            .flatten()
            .flatten()
            .map(|entry| entry.path())
            .collect();
    }
    found.retain(|root| is_cgroup(root));
    found
}

fn is_cgroup(folder: &Path) -> bool {
    folder.join("cgroup.procs").exists()
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
    fn hierarchies_of_both_cgroup_versions_are_found() {
        let folder = tempfile::tempdir().unwrap();
        let make = |name: &str, is_cgroup: bool| {
            let path = folder.path().join(name);
            fs::create_dir_all(&path).unwrap();
            if is_cgroup {
                fs::write(path.join("cgroup.procs"), "").unwrap();
            }
            path
        };
        let version_1 = make("memory", true);
        make("other", false);
        assert_eq!(hierarchies(folder.path()), [version_1]);
        let version_2 = make("", true);
        assert_eq!(hierarchies(folder.path()), [version_2]);
    }
}
