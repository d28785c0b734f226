//! Test environment: a cluster with both operators, and the steps of stories.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use catalog_operator::args::Args;
use clap::Parser as _;
use kube::Client;
use olm_fbc::entry::BundleEntry;
use olm_runtime::NamespacedName;
use olm_runtime::driver::Runner;
use olm_runtime::leader::{Candidacy, Elector, LeaseTimes};
use olm_runtime::metrics::Metrics;
use olm_runtime::process::{self, RunError};
use olm_runtime::store::StoreSet;
use olm_testing::cluster::LEASE;
use olm_testing::stage::story::StoryEnv;
use olm_testing::stage::{Operator, Stage};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::outside::Outside;

/// A step of a story.
#[derive(Clone)]
pub enum Step {
    Put(Value),
    Edit(&'static str, &'static str, Value),
    Delete(&'static str, &'static str),
    /// Replaces the content of the catalog.
    Serve(Vec<BundleEntry>),
    /// Approves every plan.
    Approve,
    /// Deletes the registry pods.
    LosePods,
}

/// Metrics of every process so far.
type Stats = Arc<Mutex<Vec<Metrics>>>;

pub struct TestEnv {
    pub stage: Stage,
    outside: Arc<Outside>,
    stats: Stats,
    /// Writes of both operators, in order.
    pub writes: Vec<String>,
    pub events: Vec<String>,
}

impl TestEnv {
    /// Creates one process of each operator, without leader election.
    pub fn new() -> Self {
        let (outside, stats) = (Arc::<Outside>::default(), Stats::default());
        let operators = vec![
            catalog_operator(&outside, &stats, false),
            olm_operator(&stats, false),
        ];
        Self::of(operators, outside, stats)
    }

    /// Creates two processes of each operator, with leader election.
    pub fn with_standbys() -> Self {
        let (outside, stats) = (Arc::<Outside>::default(), Stats::default());
        let of_each = || {
            [
                catalog_operator(&outside, &stats, true),
                olm_operator(&stats, true),
            ]
        };
        let operators = of_each().into_iter().chain(of_each()).collect();
        Self::of(operators, Arc::clone(&outside), Arc::clone(&stats))
    }

    fn of(operators: Vec<Operator>, outside: Arc<Outside>, stats: Stats) -> Self {
        let stage = Stage::of(operators);
        let env = Self {
            stage,
            outside,
            stats,
            writes: Vec::new(),
            events: Vec::new(),
        };
        for name in ["ns", "other", "olm"] {
            env.put(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}));
        }
        env
    }

    pub fn put(&self, object: Value) {
        self.stage.as_user(|cluster| cluster.put(object));
    }

    #[track_caller]
    fn delete(&self, kind: &str, name: &str) {
        let found = self.stage.as_user(|cluster| cluster.delete(kind, "ns", name));
        assert!(found, "{kind} {name} exists");
    }

    #[track_caller]
    fn edit(&self, kind: &str, name: &str, patch: &Value) {
        let found = self
            .stage
            .as_user(|cluster| cluster.edit(kind, "ns", name, patch));
        assert!(found, "{kind} {name} exists");
    }

    /// Returns the objects of a kind, ordered by name.
    pub fn all(&self, kind: &str) -> Vec<Value> {
        let objects = self.stage.cluster.objects();
        let found = objects.iter().filter(|(key, _)| key.kind == kind);
        found.map(|(_, object)| Value::clone(object)).collect()
    }

    /// Returns the only object of a kind; of ClusterRoles and their bindings, the only one of the demo.
    #[track_caller]
    pub fn only(&self, kind: &str) -> Value {
        let mut found = self.all(kind);
        if kind.starts_with("ClusterRole") {
            found.retain(is_of_demo);
        }
        assert_eq!(found.len(), 1, "{kind}: {found:#?}");
        found.remove(0)
    }

    /// Returns each ClusterServiceVersion and its phase.
    pub fn phases(&self) -> Vec<String> {
        let text = |value: &Value| value.as_str().unwrap_or("-").to_owned();
        let csvs = self.all("ClusterServiceVersion");
        csvs.iter()
            .map(|csv| {
                format!(
                    "{} {}",
                    text(&csv["metadata"]["name"]),
                    text(&csv["status"]["phase"])
                )
            })
            .collect()
    }

    /// Returns the image that the demo runs.
    pub fn image(&self) -> String {
        let deployment = self.only("Deployment");
        let container = &deployment["spec"]["template"]["spec"]["containers"][0];
        container["image"].as_str().unwrap().to_owned()
    }

    /// Number of pauses of keys, in all processes.
    pub fn paused(&self) -> u64 {
        let pauses = |metrics: &Metrics| metrics.total("olm_reconcile_pauses_total") as u64;
        self.stats.lock().unwrap().iter().map(pauses).sum()
    }

    /// Runs for this many seconds.
    pub fn run_for(&mut self, seconds: u64) {
        self.stage.start();
        self.stage.advance(Duration::from_secs(seconds));
        self.take_log();
    }

    /// Runs for this many seconds and until there are no more writes.
    #[track_caller]
    pub fn settle_for(&mut self, seconds: u64) {
        self.run_for(seconds);
        if self.stage.is_killed() {
            // Restarted operators have timers of their own.
            self.run_for(seconds);
        }
        self.stage.settle();
        self.take_log();
    }

    fn take_log(&mut self) {
        let log = self.stage.cluster.take_log();
        let lease = format!(" {LEASE} ");
        let own = |write: &String| !write.starts_with("kubernetes") && !write.contains(&lease);
        self.writes.extend(log.writes.into_iter().filter(own));
        self.events.extend(log.events);
    }
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
            Step::Serve(entries) => self.outside.serve(entries),
            Step::Approve => {
                let patch = json!({"spec": {"approved": true}});
                self.stage.edit_all("InstallPlan", &patch);
            }
            Step::LosePods => self.stage.delete_all("Pod"),
        }
    }

    fn rest(&mut self) {
        self.settle_for(60);
    }

    fn go_on(&mut self, seconds: u64) {
        self.settle_for(seconds);
    }

    fn writes(&self) -> &[String] {
        &self.writes
    }
}

/// True for objects that a ClusterServiceVersion of the demo brings or owns, but not for those of the catalog or the group.
pub fn is_of_demo(object: &Value) -> bool {
    object["metadata"]["name"]
        .as_str()
        .is_some_and(|name| name == "demo" || name.starts_with("demo."))
}

fn catalog_operator(outside: &Arc<Outside>, stats: &Stats, is_elected: bool) -> Operator {
    let (outside, stats) = (Arc::clone(outside), Arc::clone(stats));
    Box::new(move |client| {
        let args = Args::parse_from(["catalog-operator", "--namespace", "olm"]);
        let (outside, metrics) = (outside.of_operator(), Metrics::default());
        let (set, start) = catalog_operator::run::controllers(args, &client, outside, &metrics);
        let elector = is_elected.then(|| elector(&client, "catalog-operator"));
        Box::pin(operate(client, set, elector, start, Arc::clone(&stats)))
    })
}

fn olm_operator(stats: &Stats, is_elected: bool) -> Operator {
    let stats = Arc::clone(stats);
    Box::new(move |client| {
        let (set, start) = olm_operator::run::controllers(
            &client,
            olm_operator::run::Settings::default(),
            &Metrics::default(),
        );
        let elector = is_elected.then(|| elector(&client, "olm-operator"));
        Box::pin(operate(client, set, elector, start, Arc::clone(&stats)))
    })
}

fn elector(client: &Client, name: &str) -> Elector {
    let candidacy = Candidacy::new(NamespacedName::new("olm", name), LeaseTimes::default());
    Elector::new(client.clone(), candidacy)
}

/// Runs an operator until it is dropped.
async fn operate(
    client: Client,
    set: StoreSet,
    elector: Option<Elector>,
    start: impl FnOnce(&Runner) -> JoinSet<()>,
    stats: Stats,
) {
    let mut watches = JoinSet::new();
    let metrics = Metrics::registered();
    let readiness = set.with_metrics(metrics).start(&mut watches);
    let start = |runner: &Runner| {
        stats.lock().unwrap().push(runner.metrics.clone());
        start(runner)
    };
    let ended =
        process::controllers(client, watches, readiness, elector, start, std::future::pending()).await;
    // A killed process gets no more answers, so it loses its Lease.
    let is_lost = matches!(ended, Err(RunError::LeadershipLost { .. }));
    assert!(ended.is_ok() || is_lost, "its controllers go on");
}
