//! One namespace keeps the operators as busy as it can; another installs an operator in about the same time as on an idle
//! cluster.
//!
//! The busy namespace has bundles on a registry that answers with a byte per second, and catalogs whose addresses never complete
//! an answer. It also has two hundred Subscriptions that cannot be resolved, and a ClusterServiceVersion whose Deployment is
//! deleted repeatedly. The servers are this test program, run inside the cluster's network.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use e2e::demo::{SECOND, install};
use e2e::lab::{Lab, Namespace, catalog_source, operator_group, subscription};
use e2e::operator::{Operator, assert_no_restart};
use e2e::variant::Variant;
use serde_json::{Value, json};
use xtask::kubectl::text;

/// Number of bundles on the slow registry: more than are fetched at once.
const DRIPPING: usize = 6;
/// Number of catalogs that never complete an answer: more than are read at once.
const ENDLESS: usize = 6;
const FAILING: usize = 200;
/// Registry of the slow bundles, and the prefix of their repositories.
const REGISTRY: &str = "drip.olm.local";
const REPOSITORY: &str = "fair-drip-";
/// Registry configuration of the catalog operator: the ConfigMap, and its file for all registries.
const CONFIG_MAP: &str = "registry-config";
const HOSTS: &str = "_default.hosts.toml";
/// Environment variable with the address of the servers of this test.
const ADDRESS: &str = "OLM_E2E_FAIRNESS_ADDRESS";
/// Variation between runs even on an idle machine.
const NOISE: Duration = Duration::from_secs(5);

/// Not a test: the slow servers, if the test below starts this program in the cluster's network.
#[test]
fn servers_that_drip_when_asked_for() -> anyhow::Result<()> {
    let Ok(address) = std::env::var(ADDRESS) else {
        return Ok(());
    };
    let listener = TcpListener::bind(address)?;
    for connection in listener.incoming().flatten() {
        std::thread::spawn(move || drip(connection));
    }
    Ok(())
}

/// Answers requests slowly. For the slow bundles HTTP gets a manifest with a byte per second, for others 404. HTTP/2 gets
/// settings and pings without end.
fn drip(mut connection: TcpStream) -> std::io::Result<()> {
    let mut head = [0; 1024];
    let count = connection.read(&mut head)?;
    let is_http2 = head
        .get(..count)
        .is_some_and(|head| head.starts_with(b"PRI * HTTP/2"));
    if is_http2 {
        // An empty SETTINGS frame, then PING frames.
        connection.write_all(&[0, 0, 0, 4, 0, 0, 0, 0, 0])?;
        loop {
            std::thread::sleep(Duration::from_secs(1));
            connection.write_all(&[0, 0, 8, 6, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8])?;
        }
    }
    let text = String::from_utf8_lossy(head.get(..count).unwrap_or_default()).into_owned();
    if !text.contains(REPOSITORY) {
        return connection
            .write_all(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    }
    connection.write_all(
        b"HTTP/1.1 200 OK\r\nContent-Type: application/vnd.oci.image.manifest.v1+json\r\nContent-Length: 100000\r\n\r\n",
    )?;
    loop {
        connection.write_all(b" ")?;
        std::thread::sleep(Duration::from_secs(1));
    }
}

/// The servers, killed at the end of the test.
struct Servers<'a> {
    lab: &'a Lab,
    process: Child,
    address: String,
    /// Original registry configuration.
    hosts: String,
}

impl<'a> Servers<'a> {
    /// Starts the servers, and makes them the first mirror of all registries for the catalog operator.
    fn start(lab: &'a Lab) -> anyhow::Result<Self> {
        let cluster = lab.cluster();
        let registry = cluster.registry();
        let (node, _) = registry.rsplit_once(':').context("the registry has no port")?;
        let address = format!("{node}:5988");
        let config = lab
            .kubectl()
            .get(&["configmap", "-n", "olm", CONFIG_MAP])?
            .context("no registry configuration")?;
        let hosts = config["data"][HOSTS]
            .as_str()
            .context("no file for all registries")?;
        let process = cluster
            .command(std::env::current_exe()?)
            .args(["--exact", "servers_that_drip_when_asked_for"])
            .env(ADDRESS, &address)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .context("cannot start the servers")?;
        let servers = Self {
            lab,
            process,
            hosts: hosts.to_owned(),
            address,
        };
        let mirror = format!(
            "[host.\"http://{}\"]\n  capabilities = [\"pull\", \"resolve\"]\n",
            servers.address
        );
        // Mirrors are tried in the order of the file.
        let at = hosts.find("[host").unwrap_or(hosts.len());
        let (before, after) = hosts.split_at(at);
        servers.configure(&format!("{before}{mirror}{after}"))?;
        Ok(servers)
    }

    fn configure(&self, hosts: &str) -> anyhow::Result<()> {
        let patch = json!({"data": {HOSTS: hosts}}).to_string();
        self.lab.kubectl().run(&[
            "patch",
            "configmap",
            "-n",
            "olm",
            CONFIG_MAP,
            "--type",
            "merge",
            "-p",
            &patch,
        ])?;
        Ok(())
    }
}

impl Drop for Servers<'_> {
    fn drop(&mut self) {
        let _ = self.configure(&self.hosts);
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Returns the time from Subscription to Succeeded of the demo operator.
fn install_time(namespace: &Namespace<'_>) -> anyhow::Result<Duration> {
    let started = Instant::now();
    install(namespace, &[namespace.name()], |_| {})?;
    namespace.wait_for_phase(SECOND, "Succeeded")?;
    Ok(started.elapsed())
}

/// Publishes a catalog of bundles on the slow registry.
fn publish(lab: &Lab, names: &[String], image: &str) -> anyhow::Result<()> {
    let home = lab.folder("fairness")?;
    let mut packages = Vec::new();
    for name in names {
        let variant = Variant::new(name, &home.join(name))?;
        packages.push(variant.package(&format!("{REGISTRY}/{name}:v1")));
    }
    lab.opm().write_catalog(&packages, &home.join("catalog"))?;
    let tar = home.join("catalog.tar");
    lab.opm()
        .catalog_image(&home.join("catalog"), lab.opm_image(), image, &tar)?;
    lab.cluster().load(&tar, &[image.to_owned()])?;
    Ok(())
}

/// Returns an operator whose Deployment the test deletes repeatedly.
fn flapping() -> Value {
    json!({
        "apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion", "metadata": {"name": "flapping.v1.0.0"},
        "spec": {"displayName": "flapping", "version": "1.0.0",
            "installModes": [{"type": "OwnNamespace", "supported": true}],
            "install": {"strategy": "deployment", "spec": {"deployments": [{"name": "flapping", "spec": {
                "replicas": 1, "selector": {"matchLabels": {"app": "flapping"}},
                "template": {"metadata": {"labels": {"app": "flapping"}}, "spec": {"containers": [
                    {"name": "main", "image": "olm.local/no-such-operator:v1"}]}}}}]}}}
    })
}

fn make_busy(lab: &Lab, busy: &Namespace<'_>, servers: &Servers<'_>) -> anyhow::Result<()> {
    let dripping: Vec<String> = (0..DRIPPING)
        .map(|number| format!("{REPOSITORY}{number}"))
        .collect();
    let image = "olm.local/fairness-catalog:v1";
    publish(lab, &dripping, image)?;
    let mut objects = vec![
        operator_group("group", &[busy.name()]),
        catalog_source("catalog", image),
        flapping(),
    ];
    for name in &dripping {
        objects.push(subscription(name, name, "stable", "catalog", busy.name()));
    }
    for number in 0..ENDLESS {
        let mut endless = catalog_source(&format!("endless-{number}"), "");
        endless["spec"] = json!({"sourceType": "grpc", "address": servers.address});
        objects.push(endless);
    }
    for number in 0..FAILING {
        let name = format!("failing-{number}");
        objects.push(subscription(
            &name,
            "no-such-package",
            "stable",
            "catalog",
            busy.name(),
        ));
    }
    busy.apply(&objects)?;
    // The operator's kubelet needs a while to update the configuration; until then the bundles are not found.
    for name in &dripping {
        busy.wait_for_condition(name, "BundleUnpacking")?;
    }
    busy.wait_for_condition("failing-199", "ResolutionFailed")?;
    Ok(())
}

#[test]
fn one_namespace_costs_another_no_more_than_twice_its_idle_time() -> anyhow::Result<()> {
    let lab = Lab::shared()?;
    let operators = Operator::all(lab.kubectl())?;
    // Shared objects of all tests are created before the measurement.
    lab.demo_catalog()?;
    let idle = install_time(&lab.namespace("fair-idle")?)?;
    let servers = Servers::start(lab)?;
    let busy = lab.namespace("fair-busy")?;
    make_busy(lab, &busy, &servers)?;
    let quiet = lab.namespace("fair-quiet")?;
    let over = AtomicBool::new(false);
    let beside = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::SeqCst) {
                // The Deployment may not exist at the moment.
                let _ = lab.kubectl().run(&[
                    "delete",
                    "deployment",
                    "flapping",
                    "-n",
                    busy.name(),
                    "--ignore-not-found",
                    "--wait=false",
                ]);
                // The deleting program itself must not add load.
                std::thread::sleep(Duration::from_millis(300));
            }
        });
        let beside = install_time(&quiet);
        over.store(true, Ordering::SeqCst);
        beside
    })?;
    println!("idle {idle:?}, beside a busy namespace {beside:?}");
    assert!(
        beside <= idle * 2 + NOISE.max(idle),
        "{beside:?} beside a busy namespace, {idle:?} without"
    );
    // The namespace was busy to the end: no request was given up.
    let dripping = busy
        .get("subscription", "fair-drip-0")?
        .context("no Subscription")?;
    assert_ne!(text(&dripping, "/status/state"), "AtLatestKnown");
    assert_no_restart(lab.kubectl(), &operators)
}
