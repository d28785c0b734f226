//! The operator on a cluster in memory: its real stores, wiring, queues, executor and live reads, on a paused
//! clock.
//!
//! Tests are plain functions: each call runs the clock until nothing is left to do, and returns.
//! `olm_testing::cluster` simulates the API server and the controllers of Kubernetes that matter here
//! (garbage collection, Deployments).

mod objects;
mod plans;
mod rounds;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use jiff::Timestamp;
use olm_api::api_key::ApiKey;
use olm_runtime::{NamespacedName, metrics::Metrics, outcome::FailureClass, process, sync::Mutex};
use olm_testing::{
    cluster::{self, FakeCluster, Fault, Refusal, Seen, Verb},
    stage::{
        Stage,
        normal::{self, Normal},
    },
};
use serde_json::Value;
use tokio::task::JoinSet;

pub(crate) use objects::*;

use crate::{cluster_operator::settings::ReportSettings, run};

/// The namespace that keeps copies although copying is disabled.
pub(crate) const PROTECTED: &str = "protected";

/// Kind, namespace and name.
pub(crate) type Key = (String, String, String);

/// The model of a cluster, with an operator that starts on the first call of a settle function.
pub(crate) struct TestEnv {
    pub(crate) stage: Stage,
    pub(crate) cluster: FakeCluster,
    /// Changes up to this version are in `log`.
    seen: u64,
    refusing: Arc<Mutex<BTreeMap<String, FailureClass>>>,
    /// Metrics of the operator that started last.
    metrics: Arc<Mutex<Metrics>>,
    /// Objects of the cluster, as of the last call.
    pub(crate) objects: BTreeMap<Key, Value>,
    pub(crate) now: Timestamp,
    pub(crate) server_version: String,
    pub(crate) served: BTreeSet<ApiKey>,
    /// Deployments that never become available, with their status.
    pub(crate) sick: BTreeMap<String, Value>,
    /// Kinds whose writes are refused, except for statuses: `Role` in all namespaces, `Role one` in namespace
    /// `one`.
    pub(crate) refused: BTreeMap<String, FailureClass>,
    /// True when ClusterServiceVersions have no InstallPlan that creates accounts and RBAC.
    pub(crate) by_hand: bool,
    /// Every write, in order.
    pub(crate) writes: Vec<String>,
    /// Every phase a ClusterServiceVersion was seen in.
    pub(crate) log: Vec<String>,
    pub(crate) events: Vec<String>,
}

impl TestEnv {
    /// Creates a cluster with namespace `ns`; the operator is not started yet.
    pub(crate) fn new() -> Self {
        let metrics = Arc::<Mutex<Metrics>>::default();
        let stage = {
            let metrics = Arc::clone(&metrics);
            Stage::new(Box::new(move |client| {
                Box::pin(operate(client, Arc::clone(&metrics)))
            }))
        };
        let cluster = stage.cluster.clone();
        let refusing = Arc::default();
        cluster.on_request(refuse(Arc::clone(&refusing)));
        let mut env = Self {
            now: stage.now(),
            stage,
            cluster,
            seen: 0,
            refusing,
            metrics,
            objects: BTreeMap::new(),
            server_version: "v1.34.4".into(),
            served: BTreeSet::new(),
            sick: BTreeMap::new(),
            refused: BTreeMap::new(),
            by_hand: false,
            writes: Vec::new(),
            log: Vec::new(),
            events: Vec::new(),
        };
        env.put(namespace_object("ns"));
        env
    }

    /// Adds one more object.
    pub(crate) fn with(mut self, object: Value) -> Self {
        self.put(object);
        self
    }

    /// Stores an object as given; missing uid, version and time are added. A ClusterServiceVersion comes with
    /// a completed InstallPlan, except in tests that create them by hand.
    pub(crate) fn put(&mut self, object: Value) {
        let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default().to_owned();
        let csv = (object["kind"] == "ClusterServiceVersion" && !self.by_hand)
            .then(|| NamespacedName::new(text("namespace"), text("name")));
        self.as_user(|cluster| cluster.put(object));
        if let Some(csv) = csv {
            self.install_plan(&csv);
        }
    }

    pub(crate) fn get(&self, kind: &str, namespace: &str, name: &str) -> Option<&Value> {
        self.objects.get(&(kind.into(), namespace.into(), name.into()))
    }

    #[track_caller]
    pub(crate) fn edit(&mut self, kind: &str, namespace: &str, name: &str, patch: Value) {
        let found = self.as_user(|cluster| cluster.edit(kind, namespace, name, &patch));
        assert!(found, "{kind} {namespace}/{name} exists");
    }

    /// Edits an object as field manager `manager`.
    #[track_caller]
    pub(crate) fn edit_as(&mut self, manager: &str, kind: &str, namespace: &str, name: &str, patch: Value) {
        let found = self.as_user(|cluster| cluster.edit_as(manager, kind, namespace, name, &patch));
        assert!(found, "{kind} {namespace}/{name} exists");
    }

    /// Replaces an object as if `manager` had written it.
    pub(crate) fn put_as(&mut self, manager: &str, object: Value) {
        self.as_user(|cluster| cluster.put_as(manager, object));
    }

    /// Makes Deployments create ReplicaSets from now on.
    pub(crate) fn make_replica_sets(&mut self) {
        self.as_user(|cluster| cluster.set_controllers(|controllers| controllers.replica_sets = true));
    }

    /// Stops the simulated Deployment controller.
    pub(crate) fn keep_deployments_as_they_are(&mut self) {
        self.as_user(|cluster| cluster.set_controllers(|controllers| controllers.deployments = false));
    }

    /// Deletes an object as a user would.
    #[track_caller]
    pub(crate) fn delete(&mut self, kind: &str, namespace: &str, name: &str) {
        let found = self.as_user(|cluster| cluster.delete(kind, namespace, name));
        assert!(found, "{kind} {namespace}/{name} exists");
    }

    /// `phase reason: message` of a ClusterServiceVersion of `ns`.
    pub(crate) fn status(&self, name: &str) -> String {
        let Some(csv) = self.get("ClusterServiceVersion", "ns", name) else {
            return "gone".into();
        };
        let text = |field: &str| csv["status"][field].as_str().unwrap_or("-").to_owned();
        format!("{} {}: {}", text("phase"), text("reason"), text("message"))
    }

    /// Returns the names of all ClusterRoles except those for users.
    pub(crate) fn cluster_roles(&self) -> Vec<String> {
        let mut names = self.names("ClusterRole");
        names.retain(|name| !is_for_users(name));
        names
    }

    pub(crate) fn names(&self, kind: &str) -> Vec<String> {
        self.objects
            .keys()
            .filter(|key| key.0 == kind)
            .map(|key| format!("{}/{}", key.1, key.2))
            .collect()
    }

    /// Returns all state that outlives a run, for a comparison of two runs.
    pub(crate) fn normalised(&self) -> Normal {
        normal::normalised(&self.cluster.objects())
    }

    // === Time ===

    /// Runs the operator until there are no more writes; it does not wait for timers of a second or more.
    #[track_caller]
    pub(crate) fn settle(&mut self) {
        self.hand_in();
        self.stage.settle();
        self.take_out();
    }

    /// Settles after all of the operator's delays have passed.
    #[track_caller]
    pub(crate) fn settle_long(&mut self) {
        self.settle_for(21);
    }

    /// Advances the time, then settles.
    #[track_caller]
    pub(crate) fn settle_for(&mut self, seconds: u64) {
        self.stage.start();
        self.advance(seconds);
        self.settle();
    }

    /// Advances the time while the operator runs.
    pub(crate) fn advance(&mut self, seconds: u64) {
        self.advance_by(Duration::from_secs(seconds));
    }

    /// Advances by any duration.
    pub(crate) fn advance_by(&mut self, time: Duration) {
        self.hand_in();
        self.stage.advance(time);
        self.take_out();
    }

    /// Advances to the start of the next second.
    pub(crate) fn begin_second(&mut self) {
        self.run(async {
            let gone = olm_runtime::clock::now().subsec_nanosecond();
            let gone = u64::try_from(gone).unwrap_or_default();
            tokio::time::sleep(Duration::from_nanos(1_000_000_000 - gone)).await;
        });
    }

    /// Kills the operator; the next settle function starts a new one.
    pub(crate) fn kill(&mut self) {
        self.stage.kill();
    }

    // === Between the test and the cluster ===

    fn run<T>(&mut self, work: impl Future<Output = T>) -> T {
        self.hand_in();
        let result = self.stage.run(work);
        self.take_out();
        result
    }

    fn as_user<T>(&mut self, change: impl FnOnce(&FakeCluster) -> T) -> T {
        self.take_out();
        let result = self.stage.as_user(change);
        // Writes of users are not in the log.
        self.seen = self.cluster.version();
        self.take_out();
        result
    }

    fn hand_in(&mut self) {
        self.refusing.lock().clone_from(&self.refused);
        self.cluster.set_server_version(&self.server_version);
        for kind in &self.served {
            self.cluster.serve(cluster::Kind {
                group: kind.group.clone(),
                versions: vec![kind.version.clone()],
                kind: kind.kind.clone(),
                plural: format!("{}s", kind.kind.to_lowercase()),
                namespaced: true,
                status: true,
                custom: true,
            });
        }
        let sick = self.sick.clone();
        self.cluster
            .set_controllers(|controllers| controllers.sick = sick);
    }

    /// Returns the metric series whose names begin with `prefix`.
    pub(crate) fn metrics(&self, prefix: &str) -> Vec<String> {
        let metrics = self.metrics.lock();
        let text = metrics.text().unwrap();
        let lines = text.lines().filter(|line| line.starts_with(prefix));
        lines.map(str::to_owned).collect()
    }

    fn take_out(&mut self) {
        let log = self.cluster.take_log();
        self.writes.extend(log.writes);
        self.events.extend(log.events);
        for change in self.cluster.changes_since(self.seen) {
            self.log.extend(lines(&change));
        }
        self.seen = self.cluster.version();
        let objects = self.cluster.objects();
        self.objects = objects
            .into_iter()
            .map(|(key, object)| ((key.kind, key.namespace, key.name), Value::clone(&object)))
            .collect();
        self.now = self.stage.now();
    }
}

/// Runs the operator until it is dropped.
async fn operate(client: kube::Client, metrics: Arc<Mutex<Metrics>>) {
    let registered = Metrics::registered();
    *metrics.lock() = registered.clone();
    let settings = run::Settings {
        protected: BTreeSet::from([PROTECTED.to_owned()]),
        reports: ReportSettings {
            olm: "olm".into(),
            package_server: "olm-packages".into(),
            namespace: "olm".into(),
            release: "4.18.0".into(),
        },
    };
    let (set, start) = run::controllers(&client, settings, &registered);
    let mut watches = JoinSet::new();
    let readiness = set.start(&mut watches);
    let ended = process::controllers(client, watches, readiness, None, start, std::future::pending()).await;
    ended.unwrap();
}

/// Refuses writes of kinds, except for statuses.
fn refuse(
    refusing: Arc<Mutex<BTreeMap<String, FailureClass>>>,
) -> impl FnMut(&cluster::Request) -> Option<Fault> {
    const TEXT: &str = "refused by the model";
    move |request| {
        if !request.verb.writes() || !request.subresource.is_empty() || request.verb == Verb::Delete {
            return None;
        }
        let refusing = refusing.lock();
        let kind = &request.kind.kind;
        let within = format!("{kind} {}", request.namespace);
        let refusal = match refusing.get(kind).or_else(|| refusing.get(&within))? {
            FailureClass::Forbidden => Refusal::forbidden(TEXT),
            FailureClass::Terminating => Refusal::terminating(TEXT),
            FailureClass::Conflict => Refusal::conflict(TEXT),
            FailureClass::Invalid => Refusal::invalid(TEXT),
            FailureClass::NotFound => Refusal::new(404, "NotFound", TEXT),
            FailureClass::AlreadyExists => Refusal::new(409, "AlreadyExists", TEXT),
            _ => Refusal::unavailable(TEXT),
        };
        Some(Fault::Refuse(refusal))
    }
}

/// Returns one line for each new entry of a ClusterServiceVersion's history, or for a changed message.
fn lines(change: &Seen) -> Vec<String> {
    let (Some(old), Some(new)) = (&change.old, &change.new) else {
        return Vec::new();
    };
    if change.key.kind != "ClusterServiceVersion" {
        return Vec::new();
    }
    let history = |object: &Value| {
        let entries = object["status"]["conditions"].as_array();
        entries.cloned().unwrap_or_default()
    };
    let line = |entry: &Value| {
        let text = |field: &str| entry[field].as_str().unwrap_or("-").to_owned();
        let (phase, reason, message) = (text("phase"), text("reason"), text("message"));
        format!("{}: {phase} ({reason}) {message}", change.key.name)
    };
    let (before, after) = (history(old), history(new));
    // The history is trimmed from the front.
    let kept = (0..=before.len())
        .find(|cut| after.starts_with(&before[*cut..]))
        .unwrap_or(before.len());
    let fresh: Vec<String> = after[before.len() - kept..].iter().map(line).collect();
    if fresh.is_empty() && old["status"]["message"] != new["status"]["message"] {
        return vec![line(&new["status"])];
    }
    fresh
}

#[track_caller]
pub(crate) fn decode<K: serde::de::DeserializeOwned>(value: Value) -> K {
    serde_json::from_value(value).unwrap()
}

/// Key of a ClusterServiceVersion of `ns`.
pub(crate) fn csv_key(name: &str) -> NamespacedName {
    NamespacedName::new("ns", name)
}
