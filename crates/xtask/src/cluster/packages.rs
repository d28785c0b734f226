//! Programs of the machine that a cluster uses, and their installation.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context as _, bail};

use crate::progress::Progress;

/// A required program or folder, its Debian package, and whether only nodes need it.
struct Need {
    file: &'static str,
    package: &'static str,
    node_only: bool,
}

const NEEDS: [Need; 11] = [
    Need {
        file: "ip",
        package: "iproute2",
        node_only: false,
    },
    Need {
        file: "nsenter",
        package: "util-linux",
        node_only: false,
    },
    Need {
        file: "setsid",
        package: "util-linux",
        node_only: false,
    },
    Need {
        file: "docker-registry",
        package: "docker-registry",
        node_only: false,
    },
    Need {
        file: "skopeo",
        package: "skopeo",
        node_only: false,
    },
    Need {
        file: "containerd",
        package: "containerd",
        node_only: true,
    },
    Need {
        file: "runc",
        package: "runc",
        node_only: true,
    },
    Need {
        file: "/usr/lib/cni/bridge",
        package: "containernetworking-plugins",
        node_only: true,
    },
    Need {
        file: "iptables",
        package: "iptables",
        node_only: true,
    },
    Need {
        file: "conntrack",
        package: "conntrack",
        node_only: true,
    },
    Need {
        file: "ethtool",
        package: "ethtool",
        node_only: true,
    },
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
    let has_apt = is_present("apt-get");
    if !has_apt {
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
    let output = Command::new("apt-get")
        // Another apt may be running, and a mirror may be busy.
        .args(["-o", "DPkg::Lock::Timeout=120", "-o", "Acquire::Retries=3"])
        .args(arguments)
        .env("DEBIAN_FRONTEND", "noninteractive")
        // Debian starts a package's service on installation; the cluster runs its own instances.
        .env("RUNLEVEL", "1")
        .stdin(Stdio::null())
        .output()
        .context("cannot run apt-get")?;
    if !output.status.success() {
        bail!(
            "`apt-get {}` failed:\n{}",
            arguments.join(" "),
            String::from_utf8_lossy(&output.stderr).trim()
        );
    }
    Ok(())
}

fn missing(with_node: bool, is_present: impl Fn(&str) -> bool) -> Vec<&'static str> {
    let mut packages: Vec<&str> = NEEDS
        .iter()
        .filter(|need| (with_node || !need.node_only) && !is_present(need.file))
        .map(|need| need.package)
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
