//! Starts a cluster, stage by stage.

use std::fs::{self, File};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, anyhow, bail};

use super::address::{API_SERVER, REGISTRY};
use super::build::{self, DNS_IMAGE, GUIDES_PAUSE_IMAGE, PAUSE_IMAGE};
use super::layout::{Layout, binaries, kubectl_binary};
use super::{
    CLUSTER_VARIABLE, Cluster, Record, UpOptions, certs, cgroup, config_file, containerd, control_plane, dns,
    flag, network, node, packages, processes, registry, require_root, teardown,
};
use crate::progress::Progress;
use crate::{interrupt, process};

/// Generous timeout, because the machine may be compiling. A program that exits is detected at once.
const PATIENCE: Duration = Duration::from_secs(180);

pub(super) fn up(layout: Layout, options: UpOptions, progress: &Progress) -> anyhow::Result<Cluster> {
    if !rustix::process::geteuid().is_root() {
        progress.note("starting a cluster needs root; building its programs, which does not");
    }
    build::build(progress)?;
    require_root("starting a cluster")?;
    packages::ensure(!options.no_node, progress)?;

    let _guard = lock(&layout)?;
    let known = Record::read(&layout)?;
    let record = match known {
        Some(record) if record.node == options.no_node => bail!(
            "cluster `{name}` exists {} a node; remove it first with: cargo xtask cluster down{}",
            if record.node { "with" } else { "without" },
            flag(layout.name()),
            name = layout.name(),
        ),
        Some(record) => record,
        None => record(&layout, options)?,
    };
    let cluster = Cluster { layout, record };
    let mut running = cluster.record.programs();
    running.retain(|name| processes::find(&cluster.layout, name).is_some());
    start(&cluster, progress).map_err(|error| clean_up(&cluster, known.is_none(), &running, error))?;
    Ok(cluster)
}

/// Ends the programs that a failed start has started, and keeps those that were `running` before. Logs are kept, except after
/// Ctrl-C on a new cluster.
fn clean_up(cluster: &Cluster, is_new: bool, running: &[&str], error: anyhow::Error) -> anyhow::Error {
    let Cluster { layout, record } = cluster;
    let interrupted = interrupt::is_requested();
    let stopped = if running.is_empty() {
        teardown::stop(layout).and_then(|()| {
            if is_new && interrupted {
                teardown::forget(layout)
            } else {
                Ok(())
            }
        })
    } else {
        let mut started = record
            .programs()
            .into_iter()
            .filter(|name| !running.contains(name));
        started.try_for_each(|name| processes::kill(layout, name))
    };
    // Ctrl-C also reaches child processes, whose errors are not the cause.
    let error = if interrupted {
        anyhow!("interrupted")
    } else {
        error
    };
    match stopped {
        Ok(()) => error,
        Err(second) => error.context(anyhow!("and cleaning up failed too: {second:#}")),
    }
}

/// Locks the cluster against other starts and stops until the result is dropped.
pub(super) fn lock(layout: &Layout) -> anyhow::Result<File> {
    locked(&format!(".{}.lock", layout.name()))
}

/// Locks a file in the folder of binaries until the result is dropped.
pub(super) fn locked(name: &str) -> anyhow::Result<File> {
    let path = binaries().join(name);
    fs::create_dir_all(binaries())?;
    let file = File::create(&path).with_context(|| format!("cannot create {}", path.display()))?;
    file.lock()
        .with_context(|| format!("cannot lock {}", path.display()))?;
    Ok(file)
}

/// Writes the record of a new cluster.
fn record(layout: &Layout, options: UpOptions) -> anyhow::Result<Record> {
    let record = Record {
        node: !options.no_node,
    };
    fs::create_dir_all(layout.state())?;
    fs::write(layout.record(), serde_json::to_string(&record)?)
        .with_context(|| format!("cannot write {}", layout.record().display()))?;
    Ok(record)
}

fn start(cluster: &Cluster, progress: &Progress) -> anyhow::Result<()> {
    let Cluster { layout, record } = cluster;
    if record
        .programs()
        .iter()
        .all(|name| processes::find(layout, name).is_none())
    {
        // Parts left by a crash or a reboot would conflict.
        teardown::stop(layout)?;
    }
    progress.stage("network namespace, certificates, configuration", || {
        configure(layout, *record)
    })?;
    start_control_plane(cluster, progress)?;
    if record.node {
        start_node(cluster, progress)?;
    }
    progress.stage("default service account", || {
        wait_for(
            cluster,
            "default service account",
            &["kube-apiserver", "kube-controller-manager"],
            &[
                "get",
                "serviceaccount",
                "default",
                "--namespace=default",
                "--output=name",
            ],
            |_| true,
        )
    })
}

fn configure(layout: &Layout, record: Record) -> anyhow::Result<()> {
    network::create(layout)?;
    certs::create(&layout.pki(), layout.name())?;
    control_plane::configure(layout)?;
    registry::configure(layout)?;
    containerd::configure(layout)?;
    write_kubectl(layout)?;
    if record.node {
        cgroup::create(layout.key())?;
        node::configure(layout)?;
    }
    Ok(())
}

/// Writes a `kubectl` for this cluster, which works inside its namespace and, for root, outside.
fn write_kubectl(layout: &Layout) -> anyhow::Result<()> {
    let path = layout.wrappers().join("kubectl");
    // Outside, KUBECONFIG is for another cluster. Inside, a test sets it to act as another user.
    let script = format!(
        "#!/bin/sh\n\
         if [ \"${CLUSTER_VARIABLE}\" != '{name}' ]; then KUBECONFIG='{kubeconfig}'; export KUBECONFIG; fi\n\
         exec nsenter --net='{namespace}' -- '{binary}' \"$@\"\n",
        name = layout.name(),
        kubeconfig = layout.kubeconfig().display(),
        namespace = layout.network_namespace().display(),
        binary = kubectl_binary().display(),
    );
    config_file::write_with_mode(&path, &script, 0o755)
}

/// Starts etcd, API server, registry and containerd concurrently, and pushes the cluster's own images meanwhile.
fn start_control_plane(cluster: &Cluster, progress: &Progress) -> anyhow::Result<()> {
    let Cluster { layout, record } = cluster;
    for program in [
        control_plane::etcd(layout),
        control_plane::api_server(layout),
        control_plane::proxy(layout),
        registry::program(layout),
    ] {
        processes::start(layout, &program)?;
    }
    if record.node {
        processes::start(layout, &containerd::program(layout))?;
    }
    let began = Instant::now();
    let (registry, api_server) = thread::scope(|scope| {
        let registry = scope.spawn(|| wait_for_registry(cluster).map(|()| began.elapsed()));
        let api_server = wait_for(
            cluster,
            "ready API server",
            &["etcd", "kube-apiserver"],
            &["get", "--raw=/readyz"],
            |text| text == "ok",
        )
        .map(|()| began.elapsed());
        (registry.join(), api_server)
    });
    let registry = registry.map_err(|_| anyhow!("pushing the cluster's own images crashed"))??;
    progress.done(&format!("registry {REGISTRY}"), registry);
    progress.done(&format!("API server {API_SERVER}"), api_server?);
    for program in [
        control_plane::controller_manager(layout),
        control_plane::scheduler(layout),
    ] {
        processes::start(layout, &program)?;
    }
    Ok(())
}

/// Waits for the registry by pushing the cluster's own images.
fn wait_for_registry(cluster: &Cluster) -> anyhow::Result<()> {
    let Cluster { layout, record } = cluster;
    let images: &[(&str, &str)] = if record.node {
        &[
            ("pause", PAUSE_IMAGE),
            ("pause", GUIDES_PAUSE_IMAGE),
            ("coredns", DNS_IMAGE),
        ]
    } else {
        &[("pause", PAUSE_IMAGE)]
    };
    for (program, reference) in images {
        let mut last = None;
        let pushed = processes::wait(
            layout,
            "registry",
            &["docker-registry"],
            Duration::from_secs(60),
            || match cluster.load(&build::image(program), &[(*reference).to_owned()]) {
                Ok(()) => Ok(Some(())),
                Err(error) => {
                    last = Some(error);
                    Ok(None)
                }
            },
        );
        match (pushed, last) {
            (Err(error), Some(last)) => return Err(last.context(error)),
            (pushed, _) => pushed?,
        }
    }
    Ok(())
}

fn start_node(cluster: &Cluster, progress: &Progress) -> anyhow::Result<()> {
    let layout = &cluster.layout;
    progress.stage("containerd", || {
        processes::wait(layout, "containerd's socket", &["containerd"], PATIENCE, || {
            Ok(
                std::os::unix::net::UnixStream::connect(layout.containerd_socket())
                    .ok()
                    .map(drop),
            )
        })
    })?;
    // A kept state may still be Ready without a running kubelet, so only a newer heartbeat counts.
    let heartbeat = ["get", "node", layout.name(), "--ignore-not-found", HEARTBEAT];
    let before = match processes::find(layout, "kubelet") {
        Some(_) => String::new(),
        None => query(cluster, &heartbeat)?.unwrap_or_default(),
    };
    processes::start(layout, &node::kubelet(layout))?;
    processes::start(layout, &node::proxy(layout))?;
    progress.stage("cluster DNS applied", || {
        let mut apply = cluster.kubectl(["apply", "--server-side", "--filename=-"]);
        process::output(&mut apply, Some(&dns::manifest()), "kubectl apply of CoreDNS").map(drop)
    })?;
    progress.stage("node ready", || {
        wait_for(
            cluster,
            "ready node",
            &["containerd", "kubelet", "kube-proxy"],
            &heartbeat,
            |now| now.starts_with("True") && now != before,
        )
    })?;
    progress.stage("cluster DNS ready", || {
        wait_for(
            cluster,
            "ready CoreDNS",
            &["kubelet", "kube-proxy", "kube-scheduler"],
            &["get", "--raw", dns::READY_PATH],
            |_| true,
        )
    })
}

/// Selects `True` or `False`, and the time of kubelet's last report.
const HEARTBEAT: &str =
    r#"--output=jsonpath={range .status.conditions[?(@.type=="Ready")]}{.status} {.lastHeartbeatTime}{end}"#;

/// Polls a kubectl command until it succeeds with an output that `is_ready` accepts.
fn wait_for(
    cluster: &Cluster,
    what: &str,
    programs: &[&str],
    arguments: &[&str],
    is_ready: impl Fn(&str) -> bool,
) -> anyhow::Result<()> {
    processes::wait(&cluster.layout, what, programs, PATIENCE, || {
        Ok(query(cluster, arguments)?.filter(|text| is_ready(text)).map(drop))
    })
}

/// Returns the output of a kubectl command; `None` if it fails.
fn query(cluster: &Cluster, arguments: &[&str]) -> anyhow::Result<Option<String>> {
    let output = cluster
        .kubectl(["--request-timeout=5s"].iter().chain(arguments))
        .output()
        .context("cannot run kubectl")?;
    Ok(output
        .status
        .success()
        .then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned()))
}
