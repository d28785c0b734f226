//! The embedded Kubernetes: a real cluster that consists of ordinary processes in a network namespace of its own.
//!
//! # Expected flow
//! [`Cluster::up`] builds missing programs, starts those that do not run, and waits until the cluster is ready. The handle then
//! runs commands inside ([`Cluster::command`], [`Cluster::kubectl`]), pushes images ([`Cluster::load`]) and reads the API
//! server's requests ([`Cluster::audit_events`]). [`Cluster::down`] removes everything.
//!
//! # Guarantees
//! - Processes inside cannot reach the network outside, and only [`Cluster::command`] leads inside.
//! - Clusters of different names, and of different checkouts, do not affect each other.
//! - After [`Cluster::down`] no process, mount, cgroup or namespace of the cluster remains.
//!
//! # Caveats
//! kubelet sets a few kernel parameters for the whole machine (`vm.overcommit_memory`, `kernel.panic`, `kernel.panic_on_oops`),
//! as it does on every node.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, bail};
use serde::{Deserialize, Serialize};

mod address;
pub mod audit;
mod build;
mod certs;
mod cgroup;
pub(crate) mod command;
mod config_file;
mod containerd;
mod control_plane;
mod dns;
pub mod layout;
mod network;
mod node;
mod packages;
mod processes;
mod registry;
mod start;
pub mod status;
mod teardown;

pub use build::{alerts, build as build_programs, helm};
pub use packages::ensure as ensure_packages;

use layout::Layout;

use crate::files;
use crate::progress::Progress;

/// Variable with the cluster's name, for commands run inside a cluster.
pub const CLUSTER_VARIABLE: &str = "OLM_CLUSTER";

/// A cluster that has been started at least once.
#[derive(Debug, Clone)]
pub struct Cluster {
    layout: Layout,
    record: Record,
}

/// Data needed to start a cluster again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct Record {
    /// False for a control plane alone.
    node: bool,
}

impl Record {
    /// Returns the names of the cluster's programs.
    fn programs(self) -> Vec<&'static str> {
        let mut names = vec![
            "etcd",
            "kube-apiserver",
            "kube-controller-manager",
            "kube-scheduler",
            "docker-registry",
            control_plane::PROXY,
        ];
        if self.node {
            names.extend(["containerd", "kubelet", "kube-proxy"]);
        }
        names
    }

    fn read(layout: &Layout) -> anyhow::Result<Option<Self>> {
        let path = layout.record();
        if !path.exists() {
            return Ok(None);
        }
        serde_json::from_str(&files::read(&path)?)
            .with_context(|| format!("{} is damaged", path.display()))
            .map(Some)
    }
}

/// Options of [`Cluster::up`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct UpOptions {
    /// True to omit everything that runs containers.
    pub no_node: bool,
}

impl Cluster {
    /// Starts the cluster, or those of its programs that do not run, and waits until it is ready.
    ///
    /// # Errors
    /// The user is not root (the error has the command to run instead), a package is missing, or a step fails. The error then
    /// names the program, its log and the log's last lines. Started programs are ended; state and logs are kept.
    pub fn up(name: &str, options: UpOptions, progress: &Progress) -> anyhow::Result<Self> {
        start::up(Layout::new(name)?, options, progress)
    }

    /// Returns an existing cluster, running or not.
    ///
    /// # Errors
    /// There is no cluster of that name.
    pub fn open(name: &str) -> anyhow::Result<Self> {
        let layout = Layout::new(name)?;
        match Record::read(&layout)? {
            Some(record) => Ok(Self { layout, record }),
            None => bail!(
                "there is no cluster `{name}`; start it with: cargo xtask cluster up{}",
                flag(name)
            ),
        }
    }

    /// Ends all processes and containers, and removes the state unless `keep_state` is set.
    ///
    /// # Errors
    /// A process cannot be ended or an object not be removed. Another call continues.
    pub fn down(name: &str, keep_state: bool) -> anyhow::Result<()> {
        let layout = Layout::new(name)?;
        let _guard = start::lock(&layout)?;
        teardown::stop(&layout)?;
        if keep_state {
            Ok(())
        } else {
            teardown::forget(&layout)
        }
    }

    /// Ends one of the cluster's programs, which [`Cluster::up`] starts again.
    ///
    /// # Errors
    /// It does not end.
    pub(crate) fn end(&self, program: &str) -> anyhow::Result<()> {
        processes::kill(&self.layout, program)
    }

    /// Returns everything that `down` should have removed but did not.
    ///
    /// # Errors
    /// The state of the machine cannot be read.
    pub fn leftovers(name: &str) -> anyhow::Result<Vec<String>> {
        teardown::leftovers(&Layout::new(name)?)
    }

    /// Returns the running programs of the cluster of that name, which need not exist.
    ///
    /// # Errors
    /// The cluster's record is damaged.
    pub fn status(name: &str) -> anyhow::Result<status::Status> {
        let layout = Layout::new(name)?;
        let record = Record::read(&layout)?;
        Ok(status::read(&layout, record))
    }

    /// Returns the cluster's name, which is also that of its node.
    pub fn name(&self) -> &str {
        self.layout.name()
    }

    /// Returns the path of the administrator's kubeconfig. Its addresses only exist in the cluster's network namespace.
    pub fn kubeconfig(&self) -> PathBuf {
        self.layout.kubeconfig()
    }

    /// Returns the Unix socket on which the API server can be asked over plain HTTP, with the administrator's rights.
    pub(crate) fn api_socket(&self) -> PathBuf {
        self.layout.api_socket()
    }

    /// Returns `host:port` of the registry, which uses plain HTTP. The address only exists in the cluster's network namespace and
    /// for pods.
    pub fn registry(&self) -> String {
        address::REGISTRY.to_owned()
    }

    /// Returns the folder of `hosts.toml` files that redirect every registry name to [`Cluster::registry`]. containerd reads it;
    /// pods that pull images themselves can mount it. The path is constant for a checkout.
    pub fn registry_config(&self) -> PathBuf {
        self.layout.registry_config()
    }

    /// Makes a program of this machine available to commands in the cluster, as `name` on their `PATH`.
    ///
    /// # Errors
    /// The link cannot be written.
    pub(crate) fn add_program(&self, name: &str, program: &Path) -> anyhow::Result<()> {
        let link = self.layout.wrappers().join(name);
        // It may be there; if it cannot be removed, the link cannot be written.
        let _ = fs::remove_file(&link);
        std::os::unix::fs::symlink(program, &link).with_context(|| format!("cannot write {}", link.display()))
    }

    /// Returns a command that runs in the cluster's network namespace, with `KUBECONFIG` set. `PATH` begins with the `kubectl` of
    /// this cluster and the programs that the demo added, and ends with those that clusters share, such as helm.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = network::enter(&self.layout, program);
        let inherited = std::env::var_os("PATH").unwrap_or_else(|| packages::SEARCH_PATH.into());
        let mut path = self.layout.wrappers().into_os_string();
        for part in [inherited, layout::binaries().into_os_string()] {
            path.push(":");
            path.push(part);
        }
        command
            .env("PATH", path)
            .env("KUBECONFIG", self.kubeconfig())
            .env(CLUSTER_VARIABLE, self.name());
        // A proxy of the machine is unreachable from inside, and would receive requests for the cluster's addresses.
        for variable in [
            "HTTP_PROXY",
            "HTTPS_PROXY",
            "ALL_PROXY",
            "http_proxy",
            "https_proxy",
            "all_proxy",
        ] {
            command.env_remove(variable);
        }
        command
    }

    /// Returns a kubectl command, with the version of the cluster.
    pub fn kubectl(&self, arguments: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Command {
        let mut command = self.command(layout::kubectl_binary());
        command.args(arguments).stdin(Stdio::null());
        command
    }

    /// Pushes an image tar (OCI layout or `docker save`) into the registry, under each of `references`.
    ///
    /// # Errors
    /// The tar holds not exactly one image, a reference is malformed, or the push fails.
    pub fn load(&self, tar: &Path, references: &[String]) -> anyhow::Result<()> {
        registry::push(&self.layout, tar, references)
    }

    /// Returns the path of the API server's audit log: one JSON event per line, level Metadata, without stage RequestReceived.
    pub fn audit_log(&self) -> PathBuf {
        self.layout.audit_log()
    }

    /// Returns all events of the audit log, in the order in which the requests completed.
    ///
    /// # Errors
    /// The log cannot be read or parsed.
    pub fn audit_events(&self) -> anyhow::Result<Vec<audit::AuditEvent>> {
        audit::read(&self.audit_log())
    }

    /// Returns the log of one of the cluster's programs, for example `kubelet`.
    pub fn log(&self, program: &str) -> PathBuf {
        self.layout.log(program)
    }
}

/// Returns ` --name NAME`; empty for the default cluster.
pub(crate) fn flag(name: &str) -> String {
    if name == "default" {
        String::new()
    } else {
        format!(" --name {name}")
    }
}

/// # Errors
/// The user is not root; the error has the reason and the command to run.
fn require_root(what: &str) -> anyhow::Result<()> {
    if rustix::process::geteuid().is_root() {
        return Ok(());
    }
    let given: Vec<String> = std::env::args().skip(1).collect();
    bail!(
        "{what} needs root, for network namespaces, mounts and containers; run:\n  sudo -E env \"PATH=$PATH\" cargo xtask {}",
        given.join(" ")
    );
}
