//! Stops a cluster: processes, containers, mounts, cgroups and the network namespace.

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use rustix::mount::UnmountFlags;

use super::layout::Layout;
use super::{cgroup, network, processes};
use crate::files;

/// Ends and removes everything of the cluster except for its state folder. This also works after an incomplete start.
///
/// # Errors
/// A process cannot be ended or an object not be removed. Another call continues.
pub(super) fn stop(layout: &Layout) -> anyhow::Result<()> {
    // kubelet and containerd are ended first, because they would restart the others.
    let mut names = processes::started(layout);
    names.sort_by_key(|name| !["kubelet", "containerd"].contains(&name.as_str()));
    for name in &names {
        processes::kill(layout, name)?;
    }
    kill_containers(layout)?;
    remove_shim_sockets(layout);
    unmount(layout)?;
    cgroup::delete(layout.key());
    network::delete(layout)?;
    files::remove(&layout.run())
}

/// Removes the state folder of a stopped cluster.
///
/// # Errors
/// The folder cannot be removed.
pub(super) fn forget(layout: &Layout) -> anyhow::Result<()> {
    // Otherwise the content of a remaining mount would be deleted.
    unmount(layout)?;
    files::remove(layout.state())
}

/// Returns everything that a stopped cluster left on the machine; normally empty.
///
/// # Errors
/// The state of the machine cannot be read.
pub(super) fn leftovers(layout: &Layout) -> anyhow::Result<Vec<String>> {
    let mut found: Vec<String> = processes::started(layout)
        .into_iter()
        .map(|name| format!("process record {name}"))
        .collect();
    found.extend(
        shims(layout)
            .into_iter()
            .map(|pid| format!("container shim {pid}")),
    );
    found.extend(
        cgroup::processes(layout.key())
            .into_iter()
            .map(|pid| format!("container process {pid}")),
    );
    found.extend(
        mounts(layout)?
            .into_iter()
            .map(|mount| format!("mount {}", mount.display())),
    );
    for (what, exists) in [
        ("cgroup", cgroup::exists(layout.key())),
        ("network namespace", layout.network_namespace().exists()),
        ("run folder", layout.run().exists()),
    ] {
        if exists {
            found.push(format!("{what} {}", layout.key()));
        }
    }
    Ok(found)
}

fn kill_containers(layout: &Layout) -> anyhow::Result<()> {
    // Shims are killed first, because they would report and reap containers. The loop repeats because a container may fork while
    // it is killed.
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        let mut pids = shims(layout);
        pids.extend(cgroup::processes(layout.key()));
        if pids.is_empty() {
            return Ok(());
        }
        if Instant::now() > deadline {
            bail!("container processes {pids:?} do not end");
        }
        processes::kill_pids(&pids)?;
    }
}

/// Returns the shim processes of this cluster's containers, which have containerd's address in their command line.
fn shims(layout: &Layout) -> Vec<u32> {
    let socket = layout.containerd_socket();
    let socket = socket.as_os_str().as_encoded_bytes();
    fs::read_dir("/proc")
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok())
        .filter(|pid| {
            let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            let mut words = line.split(|byte| *byte == 0);
            let is_shim = words
                .next()
                .is_some_and(|program| program.ends_with(b"containerd-shim-runc-v2"));
            is_shim && words.any(|word| word == socket)
        })
        .collect()
}

/// Removes sockets of shims. They are in a folder that all containerds share, and the bundle names them.
fn remove_shim_sockets(layout: &Layout) {
    let bundles = layout
        .containerd_state()
        .join("io.containerd.runtime.v2.task/k8s.io");
    for bundle in fs::read_dir(bundles).into_iter().flatten().flatten() {
        let address = fs::read_to_string(bundle.path().join("address")).unwrap_or_default();
        if let Some(socket) = address.trim().strip_prefix("unix://") {
            let _ = fs::remove_file(socket);
        }
    }
}

fn unmount(layout: &Layout) -> anyhow::Result<()> {
    for mount in mounts(layout)? {
        rustix::mount::unmount(&mount, UnmountFlags::DETACH)
            .with_context(|| format!("cannot unmount {}", mount.display()))?;
    }
    Ok(())
}

/// Returns the cluster's mounts, innermost first.
fn mounts(layout: &Layout) -> anyhow::Result<Vec<PathBuf>> {
    let text = fs::read_to_string("/proc/self/mountinfo").context("cannot read /proc/self/mountinfo")?;
    Ok(mounts_below(&text, &[layout.state().to_owned(), layout.run()]))
}

fn mounts_below(mountinfo: &str, roots: &[PathBuf]) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = mountinfo
        .lines()
        .filter_map(|line| line.split(' ').nth(4))
        .map(|mount| PathBuf::from(unescape(mount)))
        .filter(|mount| roots.iter().any(|root| mount.starts_with(root)))
        .collect();
    // Later mounts can only be on or inside earlier ones.
    found.reverse();
    found
}

/// Unescapes a path. The kernel writes blanks, tabs, newlines and backslashes as three octal digits.
fn unescape(text: &str) -> String {
    let mut out = text.to_owned();
    for (code, character) in [(r"\040", " "), (r"\011", "\t"), (r"\012", "\n"), (r"\134", "\\")] {
        out = out.replace(code, character);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_clusters_own_mounts_are_found_innermost_first() {
        let mountinfo = r"22 1 8:1 / / rw - ext4 /dev/sda rw
30 22 0:5 / /run/olm-a-1/containerd/rootfs rw - overlay overlay rw
31 30 0:6 / /run/olm-a-1/containerd/rootfs/inner\040mount rw - tmpfs tmpfs rw
32 22 0:7 / /run/olm-a-12/containerd rw - tmpfs tmpfs rw
33 22 0:8 / /src/target/cluster/a/kubelet/x rw - tmpfs tmpfs rw
";
        let roots = [
            PathBuf::from("/run/olm-a-1"),
            PathBuf::from("/src/target/cluster/a"),
        ];
        assert_eq!(
            mounts_below(mountinfo, &roots),
            [
                PathBuf::from("/src/target/cluster/a/kubelet/x"),
                PathBuf::from("/run/olm-a-1/containerd/rootfs/inner mount"),
                PathBuf::from("/run/olm-a-1/containerd/rootfs"),
            ]
        );
    }
}
