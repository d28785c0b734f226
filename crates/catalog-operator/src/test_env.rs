//! The operator on a cluster in memory: its real stores, wiring, queues, executor and live reads, on a paused clock.
//!
//! Outside of it are registry servers (one content for all catalogs) and bundle images, which are values here, and
//! olm-operator, which a test plays by [`TestEnv::take_over`].

mod catalog;
pub mod health_rules;
pub mod node;
mod outside;

use std::sync::Arc;
use std::time::Duration;

use clap::Parser;
use kube::Client;
use olm_runtime::metrics::Metrics;
use olm_runtime::process;
use olm_runtime::sync::Mutex;
use olm_testing::cluster::FakeCluster;
use olm_testing::stage::Stage;
use olm_testing::stage::normal::{self, Normal};
use serde_json::{Value, json};
use tokio::task::JoinSet;

pub use self::catalog::{BundleRow, bundle};
pub use self::outside::Shared;
use crate::args::Args;
use crate::run;

pub struct TestEnv {
    pub stage: Stage,
    pub cluster: FakeCluster,
    pub outside: Arc<Shared>,
    /// Those of the operator as it last started.
    metrics: Arc<Mutex<Metrics>>,
    /// Every write, in order.
    pub writes: Vec<String>,
}

impl TestEnv {
    /// Namespaces `ns` and `olm`, and an OperatorGroup in `ns` that olm-operator has seen.
    pub fn new() -> Self {
        Self::with_flags(&[])
    }

    /// The same, and the operator is started with these flags.
    pub fn with_flags(flags: &'static [&'static str]) -> Self {
        let outside = Arc::<Shared>::default();
        let metrics = Arc::<Mutex<Metrics>>::default();
        let of_operator = (Arc::clone(&outside), Arc::clone(&metrics));
        let stage = Stage::new(Box::new(move |client| {
            let (outside, metrics) = of_operator.clone();
            Box::pin(operate(client, outside, metrics, flags))
        }));
        let env = Self {
            cluster: stage.cluster.clone(),
            stage,
            outside,
            metrics,
            writes: Vec::new(),
        };
        for name in ["ns", "olm"] {
            env.put(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}));
        }
        env.put(
            json!({"apiVersion": "operators.coreos.com/v1", "kind": "OperatorGroup",
            "metadata": {"namespace": "ns", "name": "og"}, "spec": {"targetNamespaces": ["ns"]},
            "status": {"namespaces": ["ns"], "lastUpdated": null}}),
        );
        env
    }

    pub fn put(&self, object: Value) {
        self.stage.as_user(|cluster| cluster.put(object));
    }

    pub fn get(&self, kind: &str, name: &str) -> Option<Value> {
        self.cluster.get(kind, "ns", name)
    }

    #[track_caller]
    pub fn edit(&self, kind: &str, name: &str, patch: &Value) {
        assert!(
            self.stage
                .as_user(|cluster| cluster.edit(kind, "ns", name, patch))
        );
    }

    #[track_caller]
    pub fn delete(&self, kind: &str, name: &str) {
        let found = self.stage.as_user(|cluster| {
            // As olm-operator does, which is not here. One on its way out is gone then.
            let released = kind == "ClusterServiceVersion"
                && cluster.edit(kind, "ns", name, &json!({"metadata": {"finalizers": null}}));
            cluster.delete(kind, "ns", name) || released
        });
        assert!(found, "{kind} {name} exists");
    }

    /// Objects of a kind, by name.
    pub fn all(&self, kind: &str) -> Vec<Value> {
        let objects = self.cluster.objects();
        let found = objects.iter().filter(|(key, _)| key.kind == kind);
        found.map(|(_, object)| Value::clone(object)).collect()
    }

    /// The only object of a kind.
    #[track_caller]
    pub fn only(&self, kind: &str) -> Value {
        let mut found = self.all(kind);
        assert_eq!(found.len(), 1, "{kind}: {found:#?}");
        found.remove(0)
    }

    /// Runs until nobody writes any more.
    #[track_caller]
    pub fn settle(&mut self) {
        self.stage.settle();
        self.writes.extend(self.cluster.take_log().writes);
    }

    /// Settles after a while.
    #[track_caller]
    pub fn settle_for(&mut self, seconds: u64) {
        self.stage.start();
        self.stage.advance(Duration::from_secs(seconds));
        self.settle();
    }

    /// Settles, with olm-operator at work.
    #[track_caller]
    pub fn rest(&mut self) {
        for _ in 0..3 {
            self.settle_for(10);
            self.take_over();
        }
        self.settle();
    }

    /// What olm-operator does: what is installed succeeds, and what it replaces goes.
    pub fn take_over(&self) {
        for csv in self.all("ClusterServiceVersion") {
            if csv["status"]["phase"] == "Succeeded" {
                continue;
            }
            let name = csv["metadata"]["name"].as_str().unwrap();
            self.edit(
                "ClusterServiceVersion",
                name,
                &json!({"status": {"phase": "Succeeded"}}),
            );
            let replaced = csv["spec"]["replaces"].as_str().unwrap_or_default();
            if self.get("ClusterServiceVersion", replaced).is_some() {
                self.delete("ClusterServiceVersion", replaced);
            }
        }
    }

    /// The series of the metrics whose names begin with `prefix`.
    pub fn metrics(&self, prefix: &str) -> Vec<String> {
        let metrics = self.metrics.lock();
        let text = metrics.text().unwrap();
        let lines = text.lines().filter(|line| line.starts_with(prefix));
        lines.map(str::to_owned).collect()
    }

    /// Everything that outlives a run: what two runs are compared by.
    pub fn normalised(&self) -> Normal {
        normal::normalised(&self.cluster.objects())
    }
}

/// The operator, until it is dropped.
async fn operate(client: Client, outside: Arc<Shared>, metrics: Arc<Mutex<Metrics>>, flags: &[&str]) {
    let registered = Metrics::registered();
    *metrics.lock() = registered.clone();
    let args = Args::parse_from(["catalog-operator"].iter().chain(flags));
    let outside = run::Outside {
        dial: Arc::<Shared>::clone(&outside),
        catalogs: Arc::<Shared>::clone(&outside),
        bundles: Some(Arc::<Shared>::clone(&outside)),
        tags: Some(outside),
    };
    let (set, start) = run::controllers(args, &client, outside, &registered);
    let mut watches = JoinSet::new();
    let readiness = set.with_metrics(registered).start(&mut watches);
    let ended = process::controllers(client, watches, readiness, None, start, std::future::pending()).await;
    ended.unwrap();
}
