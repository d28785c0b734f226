//! Memory cost of a copy of a ClusterServiceVersion: a whole operator in this process, with the allocator of
//! the program, and an API server that stores nothing.

#![allow(clippy::unwrap_used)] // For tests only.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use kube::Client;
use kube::client::Body;
use olm_operator::run::{Settings, controllers};
use olm_runtime::metrics::Metrics;
use olm_runtime::process;
use olm_testing::long;
use serde_json::{Value, json};
use tikv_jemallocator::Jemalloc;
use tokio::sync::watch;
use tokio::task::JoinSet;

#[global_allocator]
static ALLOCATOR: Jemalloc = Jemalloc;

const HOME: &str = "bench-copies";
const OPERATORS: usize = 5;
/// Time without a write after which the copies are considered complete.
const QUIET: Duration = Duration::from_secs(8);
/// Average size of the corpus's descriptions and annotations, in bytes.
const DESCRIPTION: usize = 5_000;
const ANNOTATION: usize = 2_600;
/// Maximum cost of a copy in bytes.
const LIMIT: f64 = 800.0;

type Response = http::Response<Body>;

/// Derives its responses from the request, and everything else from the name.
struct Server {
    namespaces: usize,
    versions: AtomicU64,
    writes: AtomicUsize,
    /// The version of the originals; one before they exist.
    changes: watch::Sender<u64>,
}

impl Server {
    async fn answer(&self, request: http::Request<Body>) -> Response {
        let (head, body) = request.into_parts();
        let path: Vec<&str> = head.uri.path().split('/').skip(1).collect();
        let query = head.uri.query().unwrap_or_default();
        let is = |kind: &str| path.last() == Some(&kind);
        match (head.method.as_str(), path.as_slice()) {
            ("GET", _) if query.contains("watch=true") => {
                if is("clusterserviceversions") {
                    self.news_of_originals(query).await
                } else {
                    std::future::pending().await
                }
            }
            ("GET", ["apis", _, _, "namespaces", _, "clusterserviceversions", name]) => {
                respond(200, &self.original(name))
            }
            ("GET", _) if is("namespaces") => self.page_of_namespaces(query),
            ("GET", _) if is("operatorgroups") => list(&[group()], None),
            ("GET", _) if query.contains("limit=") => list(&[], None),
            (
                _,
                [
                    "apis",
                    _,
                    _,
                    "namespaces",
                    namespace,
                    "clusterserviceversions",
                    ..,
                ],
            ) if *namespace != HOME => {
                self.writes.fetch_add(1, Relaxed);
                let sent: Value = serde_json::from_slice(&body.collect_bytes().await.unwrap()).unwrap();
                respond(201, &self.written(sent, is("status")))
            }
            _ => respond(
                403,
                &json!({"kind": "Status", "apiVersion": "v1", "code": 403, "reason": "Forbidden"}),
            ),
        }
    }

    fn version(&self) -> String {
        self.versions.fetch_add(1, Relaxed).to_string()
    }

    /// Each watch response ends after one event, and another watch starts.
    async fn news_of_originals(&self, query: &str) -> Response {
        let from = query
            .split('&')
            .find_map(|word| word.strip_prefix("resourceVersion="));
        let from: u64 = from.unwrap().parse().unwrap();
        let mut changes = self.changes.subscribe();
        let change = *changes.wait_for(|change| *change > from).await.unwrap();
        let kind = if from == 1 { "ADDED" } else { "MODIFIED" };
        let lines = (0..OPERATORS).map(|number| {
            let mut object = self.original(&name(number));
            object["metadata"]["resourceVersion"] = json!(change.to_string());
            format!("{}\n", json!({"type": kind, "object": object}))
        });
        let text: String = lines.collect();
        http::Response::new(text.into_bytes().into())
    }

    fn original(&self, name: &str) -> Value {
        let change = *self.changes.borrow();
        json!({
            "apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion",
            "metadata": {"name": name, "namespace": HOME, "uid": uid(HOME, name), "resourceVersion": change.to_string(),
                "generation": change, "finalizers": ["operators.coreos.com/csv-cleanup"],
                "annotations": {"alm-examples": "x".repeat(ANNOTATION), "olm.operatorGroup": "global",
                    "olm.operatorNamespace": HOME}},
            "spec": {"displayName": format!("change {change}"), "version": "1.0.0", "description": "x".repeat(DESCRIPTION),
                "installModes": [{"type": "AllNamespaces", "supported": true}],
                "install": {"strategy": "deployment", "spec": {"deployments": []}}},
            "status": {"phase": "Succeeded", "reason": "InstallSucceeded", "message": "installed"},
        })
    }

    /// Returns the copy after this write.
    fn written(&self, mut sent: Value, is_status: bool) -> Value {
        let metadata = &sent["metadata"];
        let [namespace, name] =
            ["namespace", "name"].map(|field| metadata[field].as_str().unwrap().to_owned());
        let original = self.original(&name);
        // A new object has no status; its version shows that.
        let is_new = metadata["resourceVersion"].is_null();
        if is_status {
            sent["spec"] = original["spec"].clone();
        } else if !is_new {
            sent["status"] = original["status"].clone();
            sent["status"]["reason"] = json!("Copied");
            sent["status"]["message"] = json!(format!(
                "The operator is running in {HOME} but is managing this namespace"
            ));
        }
        sent["metadata"]["uid"] = json!(uid(&namespace, &name));
        sent["metadata"]["resourceVersion"] = json!(self.version());
        sent["metadata"]["generation"] = json!(1);
        sent
    }

    fn page_of_namespaces(&self, query: &str) -> Response {
        let from = query.split('&').find_map(|word| word.strip_prefix("continue="));
        let from: usize = from.map_or(0, |text| text.parse().unwrap());
        let to = self.namespaces.min(from + 100);
        let mut items: Vec<Value> = (from..to)
            .map(|number| namespace(&format!("{HOME}-{number}")))
            .collect();
        if from == 0 {
            items.push(namespace(HOME));
        }
        list(&items, (to < self.namespaces).then_some(to))
    }
}

fn name(number: usize) -> String {
    format!("copied-{number}.v1.0.0")
}

fn uid(namespace: &str, name: &str) -> String {
    let mut hasher = DefaultHasher::new();
    (namespace, name).hash(&mut hasher);
    let low = hasher.finish();
    let text = format!("{:016x}{low:016x}", low.rotate_left(17));
    format!(
        "{}-{}-{}-{}-{}",
        &text[..8],
        &text[8..12],
        &text[12..16],
        &text[16..20],
        &text[20..]
    )
}

fn namespace(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "uid": uid("", name), "resourceVersion": "1",
        "labels": {"kubernetes.io/metadata.name": name}}})
}

fn group() -> Value {
    json!({"apiVersion": "operators.coreos.com/v1", "kind": "OperatorGroup",
        "metadata": {"name": "global", "namespace": HOME, "uid": uid(HOME, "global"), "resourceVersion": "1", "generation": 1},
        "spec": {}, "status": {"namespaces": [""], "lastUpdated": "2026-01-01T00:00:00Z"}})
}

fn list(items: &[Value], next: Option<usize>) -> Response {
    let next = next.map(|next| next.to_string());
    respond(
        200,
        &json!({"apiVersion": "v1", "kind": "List", "metadata": {"resourceVersion": "1", "continue": next}, "items": items}),
    )
}

fn respond(code: u16, object: &Value) -> Response {
    let body = object.to_string().into_bytes();
    http::Response::builder().status(code).body(body.into()).unwrap()
}

/// Anonymous memory of this process, in bytes.
fn memory() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("RssAnon:"))
        .unwrap();
    let kib: f64 = line.trim().trim_end_matches(" kB").parse().unwrap();
    kib * 1024.0
}

/// Waits until there are no more writes.
async fn quiet(server: &Server, at_least: usize) {
    loop {
        let before = server.writes.load(Relaxed);
        tokio::time::sleep(QUIET).await;
        if server.writes.load(Relaxed) == before && before >= at_least {
            return;
        }
    }
}

/// Returns the memory of an operator for the copies in this many namespaces, in bytes: when all are created,
/// when all have changed, and after a rest.
async fn taken(namespaces: usize) -> [f64; 3] {
    let copies = namespaces * OPERATORS;
    let server = Arc::new(Server {
        namespaces,
        versions: AtomicU64::new(1_000_000),
        writes: AtomicUsize::new(0),
        changes: watch::Sender::new(1),
    });
    let asked = Arc::clone(&server);
    let service = tower::service_fn(move |request| {
        let server = Arc::clone(&asked);
        async move { Ok::<_, std::io::Error>(server.answer(request).await) }
    });
    let client = Client::new(service, "default");
    let metrics = Metrics::default();
    let (set, start) = controllers(&client, Settings::default(), &metrics);
    let mut watches = JoinSet::new();
    let stores = set.with_metrics(metrics).start(&mut watches);
    let operator = process::controllers(client, watches, stores, None, start, std::future::pending());
    let operator = tokio::spawn(operator);
    tokio::time::sleep(QUIET).await;
    let before = memory();
    server.changes.send_replace(2);
    quiet(&server, 2 * copies).await;
    let made = memory() - before;
    server.changes.send_replace(3);
    quiet(&server, 3 * copies).await;
    let changed = memory() - before;
    tokio::time::sleep(Duration::from_secs(600)).await;
    let rested = memory() - before;
    let writes = server.writes.load(Relaxed);
    assert_eq!(
        writes,
        3 * copies,
        "two writes for a copy, and one when it changes"
    );
    operator.abort();
    [made, changed, rested]
}

/// Target P8 is 1 KiB for the whole cost of a copy. The cost of a change, for any number of copies, is not
/// part of that, so few copies are compared with more.
#[test]
fn a_copy_takes_little_memory() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build()
        .unwrap();
    let (few, more) = (60, long::count_or("namespaces with copies", 260, 2_000) as usize);
    let base = runtime.block_on(taken(few));
    let all = runtime.block_on(taken(more));
    let copies = (more - few) * OPERATORS;
    let cost = [0, 1, 2].map(|at| (all[at] - base[at]) / copies as f64);
    println!("bytes for each copy when made, changed and at rest: {cost:.0?}");
    let is_right = |bytes: &f64| (100.0..LIMIT).contains(bytes);
    assert!(cost.iter().all(is_right), "bytes for each copy: {cost:?}");
}
