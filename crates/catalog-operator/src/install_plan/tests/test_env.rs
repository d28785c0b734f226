//! InstallPlans on a cluster in memory: their controller with the real stores, wiring, queue, executor, reads and unpacker.
//!
//! No other controller runs: tests create plans as resolution does, and bundle images are values.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use clap::Parser;
use kube::Client;
use olm_api::v1alpha1::BundleLookup;
use olm_runtime::outcome::FailureClass;
use olm_runtime::{NamespacedName, process};
use olm_testing::cluster::{FakeCluster, Fault, Refusal, Request};
use olm_testing::stage::Stage;
use olm_testing::stage::normal::{self, Normal};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::super::steps;
use crate::args::Args;
use crate::bundle_unpack::UnpackedBundle;
use crate::bundle_unpack::error::{UnpackClass, UnpackError};
use crate::bundle_unpack::unpacker::BundleSource;
use crate::metrics::Figures;
use crate::object;
use crate::run;

pub const NAMESPACE: &str = "ns";
/// Where pull secrets are copied from.
pub const GLOBAL: &str = "olm";

/// A cluster with the controller of InstallPlans.
pub struct TestEnv {
    pub stage: Stage,
    pub cluster: FakeCluster,
    pub images: Arc<Images>,
    refusing: Arc<Mutex<BTreeMap<String, FailureClass>>>,
    /// Writes of the operator that were carried out, in order, names without the hashes of RBAC objects.
    pub writes: Vec<String>,
    /// Those that were refused.
    pub refused: Vec<String>,
    /// Events, `reason: note`.
    pub events: Vec<String>,
    /// The same as they were sent.
    pub sent_events: Vec<Value>,
}

/// Bundle images.
#[derive(Default)]
pub struct Images {
    bundles: Mutex<BTreeMap<String, UnpackedBundle>>,
    broken: Mutex<Option<UnpackClass>>,
    slow: Mutex<Duration>,
}

impl Images {
    /// Reason why images cannot be pulled; `None` if they can be.
    pub fn set_broken(&self, class: Option<UnpackClass>) {
        *self.broken.lock().unwrap() = class;
    }

    /// How long an image takes.
    pub fn set_slow(&self, slow: Duration) {
        *self.slow.lock().unwrap() = slow;
    }
}

#[async_trait]
impl BundleSource for Images {
    async fn fetch(&self, image: &str, _: &NamespacedName) -> Result<UnpackedBundle, UnpackError> {
        let slow = *self.slow.lock().unwrap();
        tokio::time::sleep(slow).await;
        if let Some(class) = *self.broken.lock().unwrap() {
            return Err(UnpackError::new(class, "registry refuses"));
        }
        Ok(self.bundles.lock().unwrap()[image].clone())
    }
}

impl TestEnv {
    /// Two namespaces, and an OperatorGroup that olm-operator has seen.
    pub fn new() -> Self {
        let images = Arc::<Images>::default();
        let of_operator = Arc::clone(&images);
        let stage = Stage::new(Box::new(move |client| {
            Box::pin(operate(client, Arc::clone(&of_operator)))
        }));
        let refusing = Arc::<Mutex<BTreeMap<String, FailureClass>>>::default();
        let known = Arc::clone(&refusing);
        stage
            .cluster
            .on_request(move |request| refusal(&known.lock().unwrap(), request));
        let env = Self {
            cluster: stage.cluster.clone(),
            stage,
            images,
            refusing,
            writes: Vec::new(),
            refused: Vec::new(),
            events: Vec::new(),
            sent_events: Vec::new(),
        };
        for name in [NAMESPACE, GLOBAL] {
            env.put(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}));
        }
        env.put(group(json!({}), json!({"namespaces": [NAMESPACE]})));
        env
    }

    /// The same with an approved plan for these bundles, one after the other.
    pub fn with_plan(bundles: &[UnpackedBundle]) -> Self {
        let env = Self::new();
        env.add_plan("install-1", bundles);
        env
    }

    // === What users and other controllers do ===

    pub fn add_plan(&self, name: &str, bundles: &[UnpackedBundle]) {
        let mut known = self.images.bundles.lock().unwrap();
        known.extend(
            bundles
                .iter()
                .map(|bundle| (bundle.image.clone(), bundle.clone())),
        );
        drop(known);
        self.put(plan(name, bundles));
    }

    pub fn put(&self, object: Value) {
        self.stage.as_user(|cluster| cluster.put(object));
    }

    /// `key` is `Kind namespace/name`, or `Kind name`.
    #[track_caller]
    pub fn delete(&self, key: &str) {
        let (kind, namespace, name) = parts(key);
        let found = self.stage.as_user(|cluster| {
            // As olm-operator does, which is not here. One on its way out is gone then.
            let released = kind == "ClusterServiceVersion"
                && cluster.edit(kind, namespace, name, &json!({"metadata": {"finalizers": null}}));
            cluster.delete(kind, namespace, name) || released
        });
        assert!(found, "{key} exists");
    }

    /// Puts an object in once `change` has changed it.
    pub fn change(&self, key: &str, change: impl FnOnce(&mut Value)) {
        let mut object = self.object(key);
        change(&mut object);
        self.put(object);
    }

    /// Changes a plan.
    pub fn change_plan(&self, name: &str, change: impl FnOnce(&mut Value)) {
        self.change(&format!("InstallPlan {NAMESPACE}/{name}"), change);
    }

    /// The namespace has these OperatorGroups and no others.
    pub fn set_groups(&self, groups: &[Value]) {
        for object in self.all("OperatorGroup") {
            self.delete(&key(&object));
        }
        for group in groups {
            self.put(group.clone());
        }
    }

    /// Refuses writes whose text begins with this from now on.
    pub fn refuse(&self, prefix: &str, class: FailureClass) {
        self.refusing.lock().unwrap().insert(prefix.to_owned(), class);
    }

    /// Nothing is refused any more.
    pub fn allow(&self) {
        self.refusing.lock().unwrap().clear();
    }

    /// Whether new CustomResourceDefinitions become established.
    pub fn set_establishing(&self, establishing: bool) {
        let set = |cluster: &FakeCluster| cluster.set_controllers(|known| known.establish = establishing);
        self.stage.as_user(set);
    }

    // === Time ===

    /// Runs until there are no more writes; does not wait for timers of a second or more.
    #[track_caller]
    pub fn settle(&mut self) {
        self.stage.settle();
        let log = self.cluster.take_log();
        let own = log.writes.iter().filter(|write| !write.starts_with("kubernetes"));
        for write in own {
            let written = if write.contains(" REFUSED ") {
                &mut self.refused
            } else {
                &mut self.writes
            };
            let text = write.split_once(" {").map_or(write.as_str(), |(text, _)| text);
            written.push(text.split(' ').map(short_word).collect::<Vec<_>>().join(" "));
        }
        self.events.extend(log.events);
        self.sent_events.extend(log.sent_events);
    }

    /// The same after a while.
    #[track_caller]
    pub fn settle_for(&mut self, seconds: u64) {
        self.stage.start();
        self.stage.advance(Duration::from_secs(seconds));
        self.settle();
    }

    /// The same after the pause between two attempts.
    #[track_caller]
    pub fn converge(&mut self) {
        self.settle_for(10);
    }

    // === What there is ===

    pub fn find(&self, key: &str) -> Option<Value> {
        let (kind, namespace, name) = parts(key);
        self.cluster.get(kind, namespace, name)
    }

    #[track_caller]
    pub fn object(&self, key: &str) -> Value {
        self.find(key).unwrap_or_else(|| panic!("{key} exists"))
    }

    /// Objects of a kind, by name.
    pub fn all(&self, kind: &str) -> Vec<Value> {
        let mut objects = self.objects();
        objects.retain(|object| object::kind(object) == kind);
        objects
    }

    pub fn objects(&self) -> Vec<Value> {
        let objects = self.cluster.objects();
        objects.values().map(|object| Value::clone(object)).collect()
    }

    pub fn plan(&self, name: &str) -> Value {
        self.object(&format!("InstallPlan {NAMESPACE}/{name}"))
    }

    /// Every message that a status of the plan ever had.
    pub fn messages(&self, name: &str) -> Vec<String> {
        let changes = self.cluster.changes_since(0).into_iter();
        let of_plan = changes.filter(|change| change.key.kind == "InstallPlan" && change.key.name == name);
        let message = |plan: Arc<Value>| plan["status"]["message"].as_str().map(str::to_owned);
        of_plan
            .filter_map(|change| change.new.and_then(message))
            .collect()
    }

    /// Number of writes that begin with this text.
    pub fn count(&self, prefix: &str) -> usize {
        self.writes
            .iter()
            .filter(|write| write.starts_with(prefix))
            .count()
    }

    /// Everything that outlives a run.
    pub fn normalised(&self) -> Normal {
        normal::normalised(&self.cluster.objects())
    }

    /// Phase, message and condition of a plan, and the status of its steps.
    pub fn summary(&self, name: &str) -> String {
        let plan = self.plan(name);
        let status = &plan["status"];
        let mut text = format!(
            "{} {}",
            status["phase"].as_str().unwrap(),
            status["message"].as_str().unwrap_or("-")
        );
        for condition in status["conditions"].as_array().into_iter().flatten() {
            let word = |field: &str| condition[field].as_str().unwrap_or("-").to_owned();
            text += &format!(
                "\n{}={} {} {}",
                word("type"),
                word("status"),
                word("reason"),
                word("message")
            );
        }
        for step in status["plan"].as_array().unwrap() {
            text += &format!(
                "\n{}/{} {}",
                step["resource"]["kind"].as_str().unwrap(),
                short(step["resource"]["name"].as_str().unwrap()),
                step["status"].as_str().unwrap()
            );
        }
        text
    }

    #[track_caller]
    pub fn assert_summary(&self, name: &str, beginning: &str) {
        let summary = self.summary(name);
        assert!(summary.starts_with(beginning), "{summary}");
    }

    #[track_caller]
    pub fn assert_told(&self, name: &str, text: &str) {
        let summary = self.summary(name);
        assert!(summary.contains(text), "{summary}");
    }
}

/// The operator without its other controllers, until it is dropped.
async fn operate(client: Client, images: Arc<Images>) {
    let args = Args::parse_from(["catalog-operator", "--namespace", GLOBAL]);
    let outside = run::Outside {
        bundles: Some(images),
        ..run::Outside::default()
    };
    let (set, parts) = run::build(args, &client, outside, Figures::default());
    let mut watches = JoinSet::new();
    let readiness = set.start(&mut watches);
    let start = |runner: &olm_runtime::driver::Runner| {
        let mut workers = JoinSet::new();
        parts.start_plans(runner, &mut workers);
        workers
    };
    let ended = process::controllers(client, watches, readiness, None, start, std::future::pending()).await;
    assert!(ended.is_ok(), "the controller goes on");
}

fn refusal(refusing: &BTreeMap<String, FailureClass>, request: &Request) -> Option<Fault> {
    let text = request.text();
    let mut found = refusing.iter().filter(|(prefix, _)| text.starts_with(*prefix));
    let (_, class) = found.next()?;
    let who = match request.user.as_str() {
        "" => String::new(),
        user => format!(" to User \"{user}\""),
    };
    let message = format!("server says {class:?}{who}");
    Some(Fault::Refuse(match class {
        FailureClass::Forbidden => Refusal::forbidden(&message),
        FailureClass::Terminating => Refusal::terminating(&message),
        FailureClass::Conflict => Refusal::conflict(&message),
        FailureClass::Invalid => Refusal::invalid(&message),
        FailureClass::NotFound => Refusal::new(404, "NotFound", &message),
        FailureClass::AlreadyExists => Refusal::new(409, "AlreadyExists", &message),
        FailureClass::Retry => Refusal::unavailable(&message),
    }))
}

/// An approved plan for these bundles, one after the other, as resolution makes it.
pub fn plan(name: &str, bundles: &[UnpackedBundle]) -> Value {
    let lookups: Vec<BundleLookup> = bundles.iter().map(lookup).collect();
    let steps = bundles.iter().zip(&lookups);
    let steps: Vec<_> = steps
        .flat_map(|(bundle, lookup)| steps::plan_steps(bundle.clone(), lookup, NAMESPACE).unwrap())
        .collect();
    let csvs: Vec<&str> = bundles.iter().map(|bundle| object::name(&bundle.csv)).collect();
    json!({
        "apiVersion": "operators.coreos.com/v1alpha1", "kind": "InstallPlan",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {"clusterServiceVersionNames": csvs, "approval": "Automatic", "approved": true, "generation": 1},
        "status": {"phase": "Installing", "catalogSources": ["cat"], "plan": steps, "bundleLookups": lookups},
    })
}

fn lookup(bundle: &UnpackedBundle) -> BundleLookup {
    serde_json::from_value(json!({
        "path": bundle.image, "identifier": object::name(&bundle.csv), "replaces": "demo.v0", "catalogSourceRef": {"name": "cat", "namespace": NAMESPACE},
        "properties": r#"{"properties":[{"type":"olm.package","value":{"packageName":"demo","version":"1.0.0"}}]}"#,
    }))
    .unwrap()
}

#[allow(clippy::needless_pass_by_value)] // Written out in place by every caller.
pub fn group(spec: Value, status: Value) -> Value {
    json!({"apiVersion": "operators.coreos.com/v1", "kind": "OperatorGroup", "metadata": {"name": "og", "namespace": NAMESPACE}, "spec": spec, "status": status})
}

/// `Kind namespace/name` or `Kind name`.
pub fn key(object: &Value) -> String {
    match object::metadata_text(object, "namespace") {
        Some(namespace) => format!("{} {namespace}/{}", object::kind(object), object::name(object)),
        None => format!("{} {}", object::kind(object), object::name(object)),
    }
}

fn parts(key: &str) -> (&str, &str, &str) {
    let (kind, name) = key.split_once(' ').unwrap();
    let (namespace, name) = name.split_once('/').unwrap_or(("", name));
    (kind, namespace, name)
}

fn short_word(word: &str) -> String {
    match word.rsplit_once('/') {
        Some((namespace, name)) => format!("{namespace}/{}", short(name)),
        None => short(word),
    }
}

/// Names without the hashes of RBAC objects.
fn short(name: &str) -> String {
    match name.rsplit_once('-') {
        Some((base, hash)) if hash.len() > 30 => format!("{base}-HASH"),
        _ => name.to_owned(),
    }
}
