//! Reads ten served catalogs as catalog-operator does, all of them again at once, and prints what memory that takes, for
//! `cargo xtask bench snapshots` (target P18).
//!
//! `catalog_memory` measures; the catalogs are served by a second process, `catalog_memory serve FOLDER`, as their memory is that of
//! pods. Connections, reader, contents and allocator are those of the operator.

use std::error::Error;
use std::fmt::Write as _;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use catalog_operator::for_tests::{
    ConnectionState, Connections, ContentState, Endpoint, GrpcCatalogReader, Snapshots,
};
use olm_registry::{cache, server};
use olm_runtime::NamespacedName;
use tikv_jemallocator::Jemalloc;
use tokio::net::TcpListener;

/// That of the operator, see decision record 0024.
#[global_allocator]
static ALLOCATOR: Jemalloc = Jemalloc;

type Failure = Box<dyn Error + Send + Sync>;

const CATALOGS: usize = 10;
const PACKAGES: usize = 50;
const VERSIONS: usize = 20;
const CHANNELS: [&str; 2] = ["stable", "fast"];
/// Of the catalogs, those whose bundles bring their manifests along.
const INLINE: usize = 2;
/// Bytes of each such manifest.
const MANIFEST: usize = 10_000;
/// How often all catalogs are read again.
const REFRESHES: usize = 3;
const PATIENCE: Duration = Duration::from_secs(300);
/// Target P18, in MiB.
const TARGET: f64 = 30.0;

fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    // The operator has one thread for reconciles, too.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    match arguments
        .iter()
        .map(String::as_str)
        .collect::<Vec<_>>()
        .as_slice()
    {
        ["serve", folder] => runtime.block_on(serve(Path::new(folder))),
        [] => runtime.block_on(measure()),
        _ => Err("usage: catalog_memory [serve FOLDER]".into()),
    }
}

/// A catalog of 1,000 bundles in two channels, as JSON.
fn catalog(number: usize) -> Result<String, Failure> {
    let mut text = String::new();
    for package in 0..PACKAGES {
        let name = format!("operator-{number}-{package}");
        let version = |minor: usize| format!("{name}.v1.{minor}.0");
        writeln!(
            text,
            r#"{{"schema":"olm.package","name":"{name}","defaultChannel":"stable"}}"#
        )?;
        for channel in CHANNELS {
            let entries: Vec<String> = (0..VERSIONS)
                .map(|minor| match minor.checked_sub(1) {
                    None => format!(r#"{{"name":"{}"}}"#, version(minor)),
                    Some(last) => format!(
                        r#"{{"name":"{}","replaces":"{}","skipRange":">=1.0.0 <1.{minor}.0"}}"#,
                        version(minor),
                        version(last)
                    ),
                })
                .collect();
            writeln!(
                text,
                r#"{{"schema":"olm.channel","package":"{name}","name":"{channel}","entries":[{}]}}"#,
                entries.join(",")
            )?;
        }
        for minor in 0..VERSIONS {
            let mut properties = format!(
                r#"{{"type":"olm.package","value":{{"packageName":"{name}","version":"1.{minor}.0"}}}},{{"type":"olm.maxOpenShiftVersion","value":"4.{minor}"}}"#
            );
            for kind in 0..5 {
                write!(
                    properties,
                    r#",{{"type":"olm.gvk","value":{{"group":"{name}.example.com","version":"v1","kind":"Kind{kind}"}}}}"#
                )?;
            }
            for kind in 0..2 {
                write!(
                    properties,
                    r#",{{"type":"olm.gvk.required","value":{{"group":"other.example.com","version":"v1","kind":"Kind{kind}"}}}}"#
                )?;
            }
            let image = if number < INLINE {
                let manifest = format!(
                    r#"{{"apiVersion":"operators.coreos.com/v1alpha1","kind":"ClusterServiceVersion","metadata":{{"name":"{}"}},"spec":{{"description":"{}"}}}}"#,
                    version(minor),
                    "x".repeat(MANIFEST)
                );
                let data = encode(manifest.as_bytes());
                write!(
                    properties,
                    r#",{{"type":"olm.bundle.object","value":{{"data":"{data}"}}}}"#
                )?;
                String::new()
            } else {
                format!("registry.example/{name}@sha256:{minor:064}")
            };
            writeln!(
                text,
                r#"{{"schema":"olm.bundle","package":"{name}","name":"{}","image":"{image}","properties":[{properties}]}}"#,
                version(minor)
            )?;
        }
    }
    Ok(text)
}

fn encode(bytes: &[u8]) -> String {
    olm_fbc::base64::encode(bytes)
}

/// Serves all catalogs, prints the port of each, and ends with the process that reads them.
async fn serve(folder: &Path) -> Result<(), Failure> {
    let mut servers = Vec::new();
    for number in 0..CATALOGS {
        let folder = folder.join(number.to_string());
        fs::create_dir_all(&folder)?;
        fs::write(folder.join("catalog.json"), catalog(number)?)?;
        let index = Arc::new(cache::open_temporary(&folder, None)?);
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        println!("{}", listener.local_addr()?.port());
        servers.push(tokio::spawn(server::serve(
            index,
            listener,
            std::future::pending(),
        )));
    }
    for server in servers {
        server.await??;
    }
    Ok(())
}

/// The process that serves, ended when dropped.
struct Servers {
    child: Child,
    ports: Vec<u16>,
}

impl Servers {
    fn start(folder: &Path) -> Result<Self, Failure> {
        let mut child = Command::new(std::env::current_exe()?)
            .arg("serve")
            .arg(folder)
            .stdout(Stdio::piped())
            .spawn()?;
        let told = child.stdout.take().ok_or("no output of the servers")?;
        let mut servers = Self {
            child,
            ports: Vec::new(),
        };
        for line in BufReader::new(told).lines().take(CATALOGS) {
            servers.ports.push(line?.trim().parse()?);
        }
        Ok(servers)
    }
}

impl Drop for Servers {
    fn drop(&mut self) {
        // It may have ended by itself; then there is nothing to end.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Anonymous memory of this process in KiB.
fn anonymous() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"));
    let number = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
    number.unwrap_or_default()
}

fn mebibytes(kibibytes: u64) -> f64 {
    kibibytes as f64 / 1024.0
}

/// Waits until all catalogs have been read over connections of this epoch.
async fn refresh(
    connections: &Connections,
    snapshots: &Snapshots,
    ports: &[u16],
    epoch: usize,
) -> Result<(), Failure> {
    let began = Instant::now();
    let mut left: Vec<usize> = (0..ports.len()).collect();
    while !left.is_empty() {
        if began.elapsed() > PATIENCE {
            return Err(format!("catalogs {left:?} were not read within {} s", PATIENCE.as_secs()).into());
        }
        left.retain(|&number| {
            let key = NamespacedName::new(format!("tenant-{number}"), "catalog");
            let endpoint = Endpoint {
                address: format!("catalog.tenant-{number}.svc:50051"),
                dial: format!("127.0.0.1:{}", ports[number]),
                epoch: epoch.to_string(),
                may_change: false,
            };
            let state = connections.set_endpoint(&key, Some(endpoint));
            let ConnectionState::Ready(link) = state else {
                return true;
            };
            let state = snapshots.get(&key, &key.namespace);
            let known = matches!(state, ContentState::Known(_));
            !known || snapshots.read_generation(&key) != Some(link.generation)
        });
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    Ok(())
}

async fn measure() -> Result<(), Failure> {
    let folder = tempfile::tempdir()?;
    let servers = Servers::start(folder.path())?;
    let connections = Connections::new(|_: &NamespacedName| {});
    let snapshots = Snapshots::new(
        connections.clone(),
        Arc::new(GrpcCatalogReader),
        "olm",
        |_: &str| {},
    );
    let before = anonymous();
    refresh(&connections, &snapshots, &servers.ports, 0).await?;
    let read = anonymous();
    let (most, over) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
    let poll = {
        let (most, over) = (Arc::clone(&most), Arc::clone(&over));
        std::thread::spawn(move || {
            while !over.load(Ordering::Relaxed) {
                most.fetch_max(anonymous(), Ordering::Relaxed);
                std::thread::sleep(Duration::from_millis(2));
            }
        })
    };
    for epoch in 1..=REFRESHES {
        refresh(&connections, &snapshots, &servers.ports, epoch).await?;
    }
    over.store(true, Ordering::Relaxed);
    poll.join().map_err(|_| "the poll ended early")?;
    let peak = mebibytes(most.load(Ordering::Relaxed));
    let verdict = if peak <= TARGET { "met" } else { "missed" };
    println!(
        "P18 RssAnon, {CATALOGS} catalogs of {} bundles in {} channels, {INLINE} of them with manifests of {} MiB: {:.1} MiB before, {:.1} read, {peak:.1} \
         at most while all are read again {REFRESHES} times; counted {:.1}; target {TARGET:.0} {verdict}",
        PACKAGES * VERSIONS,
        CHANNELS.len(),
        (PACKAGES * VERSIONS * MANIFEST) >> 20,
        mebibytes(before),
        mebibytes(read),
        mebibytes(snapshots.total_bytes() as u64 >> 10),
    );
    Ok(())
}
