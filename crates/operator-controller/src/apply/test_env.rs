//! The controller of ClusterObjectSets on a cluster in memory: its real stores, wiring and executor, on a paused clock.

use std::time::Duration;

use olm_api::extension_v1::{API_VERSION, ClusterObjectSet};
use olm_api::labels;
use olm_runtime::discovery::Discovery;
use olm_runtime::driver::Runner;
use olm_runtime::process;
use olm_runtime::store::{Store, StoreSet, Watch};
use olm_testing::cluster::Kind;
use olm_testing::stage::story::StoryEnv;
use olm_testing::stage::{Operator, Stage};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::object_set::triggers::register;
use super::probe::default_probes;

const SET: &str = "ClusterObjectSet";

pub(super) struct TestEnv {
    pub(super) stage: Stage,
    /// Every write of the process, in order.
    pub(super) writes: Vec<String>,
}

/// A step of a story.
#[derive(Debug, Clone)]
pub(super) enum Step {
    /// Creates or replaces an object.
    Put(Value),
    /// Patches an object in the namespace `ns`, or a ClusterObjectSet.
    Edit(&'static str, &'static str, Value),
    /// Deletes an object in the namespace `ns`, or a ClusterObjectSet.
    Delete(&'static str, &'static str),
    /// Passes some seconds.
    Wait(u64),
}

impl TestEnv {
    /// Creates a cluster with the namespace `ns` and one process.
    pub(super) fn new() -> Self {
        let stage = Stage::of(vec![operator()]);
        stage.cluster.serve(Kind {
            group: "olm.operatorframework.io".into(),
            versions: vec!["v1".into()],
            kind: SET.into(),
            plural: "clusterobjectsets".into(),
            namespaced: false,
            status: true,
            custom: true,
        });
        let mut env = Self {
            stage,
            writes: Vec::new(),
        };
        for name in ["ns", "olm", "kube-system"] {
            env.put(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}));
        }
        env
    }

    /// Creates or replaces an object as a user.
    pub(super) fn put(&mut self, object: Value) {
        self.stage.as_user(|cluster| cluster.put(object));
    }

    /// Patches an object as a user.
    #[track_caller]
    pub(super) fn edit(&mut self, kind: &str, name: &str, patch: &Value) {
        let namespace = namespace_of(kind);
        let found = self
            .stage
            .as_user(|cluster| cluster.edit(kind, namespace, name, patch));
        assert!(found, "{kind} {name} exists");
    }

    /// Deletes an object as a user.
    #[track_caller]
    pub(super) fn delete(&mut self, kind: &str, name: &str) {
        let namespace = namespace_of(kind);
        let found = self
            .stage
            .as_user(|cluster| cluster.delete(kind, namespace, name));
        assert!(found, "{kind} {name} exists");
    }

    /// Runs until there are no more writes, without waiting for timers of a second or more.
    #[track_caller]
    pub(super) fn settle(&mut self) {
        self.stage.settle();
        self.writes.extend(self.stage.cluster.take_log().writes);
    }

    /// Passes the time, then settles.
    #[track_caller]
    pub(super) fn settle_for(&mut self, seconds: u64) {
        self.stage.start();
        self.stage.advance(Duration::from_secs(seconds));
        self.settle();
    }

    /// Returns an object; null if it does not exist.
    pub(super) fn get(&self, kind: &str, name: &str) -> Value {
        let found = self.stage.cluster.get(kind, namespace_of(kind), name);
        found.unwrap_or_default()
    }

    /// Returns `status reason: message` of a condition of a ClusterObjectSet.
    pub(super) fn condition(&self, name: &str, type_: &str) -> String {
        let set = self.get(SET, name);
        let conditions = set["status"]["conditions"].as_array().cloned();
        let mut conditions = conditions.unwrap_or_default().into_iter();
        let Some(found) = conditions.find(|condition| condition["type"] == type_) else {
            return "none".to_owned();
        };
        let text = |field: &str| found[field].as_str().unwrap_or("-").to_owned();
        format!("{} {}: {}", text("status"), text("reason"), text("message"))
    }

    /// Returns the writes since the last call that are not of the cluster's own controllers and not of statuses.
    pub(super) fn take_writes(&mut self) -> Vec<String> {
        let mut writes = std::mem::take(&mut self.writes);
        writes.retain(|write| !write.starts_with("kubernetes") && !write.contains("status"));
        writes
    }
}

fn namespace_of(kind: &str) -> &'static str {
    match kind {
        SET | "CustomResourceDefinition" | "ClusterRole" => "",
        "Secret" => "olm",
        _ => "ns",
    }
}

fn operator() -> Operator {
    Box::new(|client| {
        Box::pin(async move {
            let mut set = StoreSet::new();
            let sets: Store<ClusterObjectSet> = set.add(Watch::new(&client));
            let discovery = Discovery::new(client.clone());
            let start = register(&set, &client, &discovery, &sets, "olm");
            let start = move |runner: &Runner| {
                let mut tasks = JoinSet::new();
                start(runner, &mut tasks);
                tasks
            };
            let mut watches = JoinSet::new();
            let stores = set.start(&mut watches);
            let forever = std::future::pending();
            let ended = process::controllers(client, watches, stores, None, start, forever).await;
            ended.unwrap();
        })
    })
}

/// Revision `number` of the extension `e`, with the probes of OLM's revisions.
pub(super) fn object_set(number: i64, phases: &[(&str, Vec<Value>)]) -> Value {
    let phase = |(name, objects): &(&str, Vec<Value>)| {
        let objects: Vec<Value> = objects.iter().map(|object| json!({"object": object})).collect();
        json!({"name": name, "objects": objects})
    };
    let phases: Vec<Value> = phases.iter().map(phase).collect();
    json!({
        "apiVersion": API_VERSION, "kind": SET,
        "metadata": {
            "name": format!("e-{number}"),
            "labels": {labels::EXTENSION_OWNER_NAME: "e"},
            "annotations": {labels::EXTENSION_BUNDLE_VERSION: format!("{number}.0.0")},
        },
        "spec": {
            "lifecycleState": "Active", "revision": number, "collisionProtection": "Prevent", "phases": phases,
            "progressionProbes": default_probes(),
        },
    })
}

pub(super) fn config_map(name: &str, text: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": "ns", "name": name}, "data": {"text": text},
    })
}

pub(super) fn deployment(name: &str) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"namespace": "ns", "name": name},
        "spec": {
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"containers": [{"name": "main", "image": "reg.example/a:1"}]},
            },
        },
    })
}

pub(super) fn definition() -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "demos.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced", "names": {"kind": "Demo", "plural": "demos"},
            "versions": [{
                "name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}},
            }],
        },
    })
}

impl StoryEnv for TestEnv {
    type Step = Step;

    fn begin() -> Self {
        Self::new()
    }

    fn stage(&mut self) -> &mut Stage {
        &mut self.stage
    }

    fn take(&mut self, step: &Step) {
        match step {
            Step::Put(object) => self.put(object.clone()),
            Step::Edit(kind, name, patch) => self.edit(kind, name, patch),
            Step::Delete(kind, name) => self.delete(kind, name),
            Step::Wait(seconds) => self.settle_for(*seconds),
        }
    }

    fn rest(&mut self) {
        self.settle_for(15);
    }

    fn go_on(&mut self, seconds: u64) {
        self.settle_for(seconds);
    }

    fn writes(&self) -> &[String] {
        &self.writes
    }
}
