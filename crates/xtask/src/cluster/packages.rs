//! Programs of the machine that a cluster uses, and their installation.

use std::path::Path;
use std::process::Command;

use anyhow::bail;

use crate::process;
use crate::progress::Progress;

/// Programs and folders that every cluster needs, each with its Debian package.
const NEEDS: [(&str, &str); 5] = [
    ("ip", "iproute2"),
    ("nsenter", "util-linux"),
    ("setsid", "util-linux"),
    ("docker-registry", "docker-registry"),
    ("skopeo", "skopeo"),
];
/// What clusters with a node need in addition.
const NEEDS_OF_NODE: [(&str, &str); 6] = [
    ("containerd", "containerd"),
    ("runc", "runc"),
    ("/usr/lib/cni/bridge", "containernetworking-plugins"),
    ("iptables", "iptables"),
    ("conntrack", "conntrack"),
    ("ethtool", "ethtool"),
];

/// Folder of the CNI plugins in Debian's package.
pub(super) const CNI_PLUGINS: &str = "/usr/lib/cni";

/// Search path of all programs that the cluster starts.
pub(super) const SEARCH_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Installs missing packages if possible, as root on a machine with apt, and prints them before. Tests without a cluster need
/// only the packages without `with_node`.
///
/// # Errors
/// Packages are missing and cannot be installed; the error names them and the command that installs them.
pub fn ensure(with_node: bool, progress: &Progress) -> anyhow::Result<()> {
    let missing = missing(with_node, is_present);
    if missing.is_empty() {
        return Ok(());
    }
    let list = missing.join(" ");
    if !is_present("apt-get") {
        bail!(
            "the cluster needs programs this machine does not have, and there is no apt to install them with: install \
             what Debian packages as {list}"
        );
    }
    if !rustix::process::geteuid().is_root() {
        bail!("the cluster needs Debian packages that are not installed; run: sudo apt-get install {list}");
    }
    progress.note(&format!("installing Debian packages: {list}"));
    progress.stage("packages installed", || {
        apt(&["update"])?;
        let mut arguments = vec!["install", "--yes", "--no-install-recommends"];
        arguments.extend(missing.iter().copied());
        apt(&arguments)
    })
}

fn apt(arguments: &[&str]) -> anyhow::Result<()> {
    let mut command = Command::new("apt-get");
    command
        // Another apt may be running, and a mirror may be busy.
        .args(["-o", "DPkg::Lock::Timeout=120", "-o", "Acquire::Retries=3"])
        .args(arguments)
        .env("DEBIAN_FRONTEND", "noninteractive")
        // Debian starts a package's service on installation; the cluster runs its own instances.
        .env("RUNLEVEL", "1");
    process::run(&mut command).map(drop)
}

fn missing(with_node: bool, is_present: impl Fn(&str) -> bool) -> Vec<&'static str> {
    let of_node = NEEDS_OF_NODE.iter().filter(|_| with_node);
    let mut packages: Vec<&str> = NEEDS
        .iter()
        .chain(of_node)
        .filter(|(file, _)| !is_present(file))
        .map(|(_, package)| *package)
        .collect();
    packages.dedup();
    packages
}

fn is_present(file: &str) -> bool {
    Path::new(file).is_absolute() && Path::new(file).exists()
        || SEARCH_PATH
            .split(':')
            .any(|folder| Path::new(folder).join(file).exists())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_the_cluster_uses_is_asked_for() {
        assert_eq!(
            missing(false, |_| false),
            ["iproute2", "util-linux", "docker-registry", "skopeo"]
        );
        assert_eq!(missing(true, |file| file != "runc"), ["runc"]);
        assert!(missing(true, |_| true).is_empty());
    }
}
