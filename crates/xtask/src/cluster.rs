//! The embedded Kubernetes: a real cluster made of ordinary processes in a network namespace of its own.
//!
//! # Expected flow
//! [`Cluster::up`] builds what is missing, starts what does not run and waits until it is ready. The handle then runs
//! commands inside ([`Cluster::command`], [`Cluster::kubectl`]), pushes images ([`Cluster::load`]) and reads what the API
//! server was asked ([`Cluster::audit_events`]). [`Cluster::down`] removes everything.
//!
//! # Guarantees
//! - Nothing inside reaches the network outside, and nothing outside reaches in, except through [`Cluster::command`].
//! - Clusters of different names, and of different checkouts, do not disturb each other.
//! - After [`Cluster::down`] no process, mount, cgroup or namespace of the cluster is left.
//!
//! # Caveats
//! kubelet sets a few kernel parameters for the whole machine (`vm.overcommit_memory`, `kernel.panic`,
//! `kernel.panic_on_oops`), as it does on every node.

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

use address::Addresses;
use layout::Layout;

use crate::progress::Progress;
use crate::workspace;

/// Set for commands run inside a cluster to the cluster's name.
pub const CLUSTER_VARIABLE: &str = "OLM_CLUSTER";

/// A cluster that has been started at least once.
#[derive(Debug, Clone)]
pub struct Cluster {
    layout: Layout,
    record: Record,
}

/// What must be remembered to start a cluster again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct Record {
    slot: u8,
    node: bool,
}

impl Record {
    fn addresses(self) -> Addresses {
        Addresses::of_slot(self.slot)
    }

    /// The programs that make up the cluster.
    fn programs(self) -> Vec<&'static str> {
        let mut names = vec![
            "etcd",
            "kube-apiserver",
            "kube-controller-manager",
            "kube-scheduler",
            "docker-registry",
        ];
        if self.node {
            names.extend(["containerd", "kubelet", "kube-proxy"]);
        }
        names
    }

    fn read(layout: &Layout) -> anyhow::Result<Option<Self>> {
        let path = layout.record();
        match fs::read_to_string(&path) {
            Ok(text) => serde_json::from_str(&text)
                .with_context(|| format!("{} is damaged", path.display()))
                .map(Some),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error).with_context(|| format!("cannot read {}", path.display())),
        }
    }
}

/// What kind of cluster [`Cluster::up`] makes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct UpOptions {
    /// Leave out everything that runs containers.
    pub no_node: bool,
}

impl Cluster {
    /// Starts the cluster, or whatever of it does not run, and waits until it is ready.
    ///
    /// # Errors
    /// When not root (with the command to run instead), when a package is missing, or when a step fails, naming the
    /// program, its last log lines and its log. What was started is then ended; state and logs are kept.
    pub fn up(name: &str, options: UpOptions, progress: &Progress) -> anyhow::Result<Self> {
        start::up(Layout::new(name)?, options, progress)
    }

    /// A cluster that exists, running or not.
    ///
    /// # Errors
    /// When there is none of that name.
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

    /// Ends all processes and containers; removes the state as well unless it is to be kept.
    ///
    /// # Errors
    /// When something cannot be ended or removed; calling it again continues.
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

    /// What `down` should have removed and did not; empty is good.
    ///
    /// # Errors
    /// When the machine cannot be asked.
    pub fn leftovers(name: &str) -> anyhow::Result<Vec<String>> {
        teardown::leftovers(&Layout::new(name)?)
    }

    /// What runs of the cluster of that name, which need not exist.
    ///
    /// # Errors
    /// When the cluster's record is damaged.
    pub fn status(name: &str) -> anyhow::Result<status::Status> {
        let layout = Layout::new(name)?;
        let record = Record::read(&layout)?;
        Ok(status::read(&layout, record))
    }

    /// The cluster's name, also that of its node.
    pub fn name(&self) -> &str {
        self.layout.name()
    }

    /// The administrator's kubeconfig. Its addresses exist inside the cluster's network namespace only.
    pub fn kubeconfig(&self) -> PathBuf {
        self.layout.kubeconfig()
    }

    /// `host:port` of the registry, which speaks plain http. Exists inside the cluster's network namespace and for pods.
    pub fn registry(&self) -> String {
        self.record.addresses().registry()
    }

    /// Folder of `hosts.toml` files sending every registry name to [`Cluster::registry`]: what containerd reads, to be
    /// mounted into pods that pull by themselves. The path stays the same as long as the checkout does.
    pub fn registry_config(&self) -> PathBuf {
        self.layout.registry_config()
    }

    /// A command that will run inside the cluster's network namespace with `KUBECONFIG` set and `kubectl` first on `PATH`.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = network::enter(&self.layout, program);
        let inherited = std::env::var_os("PATH").unwrap_or_else(|| packages::SEARCH_PATH.into());
        let mut path = self.layout.wrappers().into_os_string();
        path.push(":");
        path.push(inherited);
        command
            .env("PATH", path)
            .env("KUBECONFIG", self.kubeconfig())
            .env(CLUSTER_VARIABLE, self.name());
        // A proxy of the machine's cannot be reached from inside, and would be asked for the cluster's addresses.
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

    /// A kubectl command; its version is the cluster's.
    pub fn kubectl<I, S>(&self, arguments: I) -> Command
    where
        I: IntoIterator<Item = S>,
        S: AsRef<OsStr>,
    {
        let mut command = self.command(layout::kubernetes_binary());
        command.arg("kubectl").args(arguments).stdin(Stdio::null());
        command
    }

    /// Pushes an image tar (OCI layout or `docker save`) into the registry, under `references` or its own names. Returns
    /// the references pushed.
    ///
    /// # Errors
    /// When the tar is no image, has no name and none is given, a reference is malformed, or the push fails.
    pub fn load(&self, tar: &Path, references: &[String]) -> anyhow::Result<Vec<String>> {
        registry::push(&self.layout, self.record.addresses(), tar, references)
    }

    /// The API server's audit log: one JSON event a line, level Metadata, stage RequestReceived left out.
    pub fn audit_log(&self) -> PathBuf {
        self.layout.audit_log()
    }

    /// All events of the audit log in the order the requests were finished.
    ///
    /// # Errors
    /// When the log cannot be read or understood.
    pub fn audit_events(&self) -> anyhow::Result<Vec<audit::AuditEvent>> {
        audit::read(&self.audit_log())
    }

    /// Log of one of the cluster's programs, for example `kubelet`.
    pub fn log(&self, program: &str) -> PathBuf {
        self.layout.log(program)
    }
}

/// ` --name NAME`, or nothing for the default cluster.
fn flag(name: &str) -> String {
    if name == "default" {
        String::new()
    } else {
        format!(" --name {name}")
    }
}

/// # Errors
/// When not root; the message says what for and which command to run.
fn require_root(what: &str, arguments: &str) -> anyhow::Result<()> {
    if rustix::process::geteuid().is_root() {
        return Ok(());
    }
    // The commands around a cluster compile as well, and need the user's toolchain for it.
    let given: Vec<String> = std::env::args().skip(1).collect();
    if given.first().is_some_and(|command| command != "cluster") {
        bail!(
            "{what} needs root, for network namespaces, mounts and containers; run:\n  sudo -E env \"PATH=$PATH\" cargo xtask {}",
            given.join(" ")
        );
    }
    // Started by its path, the binary needs no cargo and no toolchain of root's.
    let program = workspace::root().join("target/debug/xtask");
    let program = if program.exists() {
        program.display().to_string()
    } else {
        "env PATH=\"$PATH\" cargo xtask".into()
    };
    bail!(
        "{what} needs root, for network namespaces, mounts and containers; run:\n  sudo {program} cluster {arguments}"
    );
}
