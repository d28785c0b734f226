//! Tests of the driver with real queues, stores and executor, on a paused clock, against a minimal server.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use http::{Method, Request, Response};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, ObjectReference, Service};
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};

mod reads;
mod requeues;
mod slowing;

use super::*;
use crate::event::regarding;
use crate::gate::WriteGate;
use crate::plan::{Guard, Identity, Target};
use crate::store::{Store, StoreSet, Watch};
use crate::{NamespacedName, queue::Queue};

/// Server that accepts every patch. It keeps the versions and generations of patched objects, and answers every other request with 404.
#[derive(Default)]
struct Server {
    version: u64,
    generations: BTreeMap<String, i64>,
    events: Vec<String>,
    /// Path and time of each patch.
    patches: Vec<(String, Instant)>,
    /// Answers every patch with a conflict.
    refuses: bool,
    /// Forbids every patch.
    forbids: bool,
    /// Answers patches of this path with a conflict.
    refused: Option<&'static str>,
    /// Answers requests for this path with 404.
    missing: Option<&'static str>,
    /// Never answers.
    is_silent: bool,
    /// Shuts the gate during a patch of this path.
    shuts: Option<(&'static str, WriteGate)>,
}

type Shared = Arc<Mutex<Server>>;

/// Delay that batches requeues caused by ConfigMaps.
const GATHER: Duration = Duration::from_millis(5);

impl Server {
    fn answer(&mut self, method: &Method, path: &str, body: &[u8]) -> (u16, Value) {
        let body: Value = serde_json::from_slice(body).unwrap_or_default();
        if path.contains("/events") {
            self.events
                .push(body["reason"].as_str().unwrap_or_default().to_owned());
            return (200, body);
        }
        if method != Method::PATCH {
            return refusal(404, "NotFound");
        }
        self.patches.push((path.to_owned(), Instant::now()));
        assert!(self.patches.len() < 20_000, "a hot loop");
        if self.forbids {
            return refusal(403, "Forbidden");
        }
        if self.refuses || self.refused == Some(path) {
            return refusal(409, "Conflict");
        }
        if self.missing == Some(path) {
            return refusal(404, "NotFound");
        }
        if let Some((shutting, gate)) = &self.shuts
            && *shutting == path
        {
            gate.shut();
        }
        self.version += 1;
        let object_path = path.trim_end_matches("/status");
        let generation = self.generations.entry(object_path.to_owned()).or_insert(1);
        *generation += i64::from(object_path == path);
        let is_deployment = path.contains("/deployments/");
        let name = object_path.rsplit('/').next();
        let object = json!({
            "apiVersion": if is_deployment { "apps/v1" } else { "v1" },
            "kind": if is_deployment { "Deployment" } else { "ConfigMap" },
            "metadata": {
                "namespace": "ns", "name": name, "uid": name, "resourceVersion": self.version.to_string(),
                "generation": is_deployment.then_some(*generation),
            },
        });
        (200, object)
    }
}

fn refusal(code: u16, reason: &str) -> (u16, Value) {
    (
        code,
        json!({"kind": "Status", "code": code, "status": "Failure", "reason": reason}),
    )
}

fn client(server: &Shared) -> Client {
    let server = Arc::clone(server);
    let service = tower::service_fn(move |request: Request<Body>| {
        let server = Arc::clone(&server);
        async move {
            let (parts, body) = request.into_parts();
            let body = body.collect_bytes().await?;
            let (is_silent, (code, answer)) = {
                let mut server = server.lock();
                let answer = server.answer(&parts.method, parts.uri.path(), &body);
                (server.is_silent, answer)
            };
            if is_silent {
                std::future::pending::<()>().await;
            }
            let body = Body::from(serde_json::to_vec(&answer).unwrap());
            Ok::<_, kube::Error>(Response::builder().status(code).body(body).unwrap())
        }
    });
    Client::new(service, "default")
}

type Decide = Box<dyn Fn(&str) -> Plan + Send + Sync>;

/// Controller of Deployments that runs the script of a test.
struct Writer {
    deployments: Store<Deployment>,
    script: Arc<Script>,
    observe_panics: bool,
    rounds: AtomicU64,
    observes: Mutex<Observes>,
    /// Errors passed to `unobserved`, and when.
    unobserved: Mutex<Vec<(String, Instant)>>,
}

/// Behaviour of a writer's reconciles, and what they saw.
struct Script {
    decide: Decide,
    status: Decide,
    /// Memory that each `decide` so far received.
    remembered: Mutex<Vec<Option<String>>>,
}

/// Observation of a Deployment, with the script that handles it.
struct Observed {
    name: String,
    script: Arc<Script>,
}

/// Result of the writer's next observation.
#[derive(Default)]
enum Observes {
    #[default]
    Something,
    Nothing,
    Error,
}

#[async_trait]
impl Reconciler for Writer {
    type Key = NamespacedName;
    type Observed = Observed;
    type Verdict = ();
    /// Debug form of the class of the first refused write, or of `None`.
    type Memory = String;

    const NAME: &'static str = "writer";
    const FIRST_BACKOFF_OF_REFUSED: Duration = Duration::from_secs(2);

    fn regarding(&self, key: &NamespacedName) -> Option<ObjectReference> {
        regarding(&self.deployments, key)
    }

    async fn observe(&self, key: &NamespacedName) -> Result<Option<Observed>, ObserveError> {
        self.rounds.fetch_add(1, Ordering::Relaxed);
        assert!(
            !(self.observe_panics && key.name == "bad"),
            "cannot observe {key}"
        );
        match *self.observes.lock() {
            Observes::Something => Ok(Some(Observed {
                name: key.name.clone(),
                script: Arc::clone(&self.script),
            })),
            Observes::Nothing => Ok(None),
            Observes::Error => Err(ObserveError::read("a thing", "not now")),
        }
    }

    fn unobserved(&self, key: &NamespacedName, error: &ObserveError) -> Option<Action> {
        let mut told = self.unobserved.lock();
        told.push((error.to_string(), Instant::now()));
        (told.len() == 1).then(|| status_of(&key.name))
    }

    fn decide(observed: &Observed, memory: Option<&String>, _: Timestamp) -> (Plan, ()) {
        let script = &observed.script;
        script.remembered.lock().push(memory.cloned());
        ((script.decide)(&observed.name), ())
    }

    fn status(observed: &Observed, (): (), outcomes: &Outcomes, _: Timestamp) -> StatusUpdate<String> {
        let plan = (observed.script.status)(&observed.name);
        let refusal = outcomes.failure().map(|(_, failure)| failure.class);
        StatusUpdate {
            patches: plan.actions,
            events: plan.events,
            requeue: plan.requeue,
            memory: Some(format!("{refusal:?}")),
        }
    }
}

struct TestEnv {
    server: Shared,
    /// Wakes the keys as long as it is there.
    _config_maps: Store<ConfigMap>,
    queue: Queue<NamespacedName>,
    writer: Arc<Writer>,
    metrics: Metrics,
    first_rounds: FirstRounds,
    gate: WriteGate,
    _stop: watch::Sender<bool>,
    _tasks: JoinSet<()>,
}

fn key(name: &str) -> NamespacedName {
    NamespacedName::new("ns", name)
}

fn deployment(name: &str, version: u64, generation: i64) -> Deployment {
    serde_json::from_value(json!({"metadata": {
        "namespace": "ns", "name": name, "uid": name,
        "resourceVersion": version.to_string(), "generation": generation,
    }}))
    .unwrap()
}

fn patch(target: Target, subresource: Option<&'static str>) -> Action {
    Action::Patch {
        target,
        patch: json!({}),
        subresource,
        guard: Guard::default(),
        identity: Identity::Operator,
    }
}

fn status_of(name: &str) -> Action {
    patch(Target::of::<Deployment>("ns", name), Some("status"))
}

fn writes(actions: Vec<Action>) -> Plan {
    Plan::of(actions)
}

fn nothing() -> Decide {
    Box::new(|_| Plan::default())
}

impl TestEnv {
    /// Creates Deployments `names`, each a key. A change of one requeues it; a change of a ConfigMap requeues all of them a little later.
    fn new(names: &[&str], decide: Decide, status: Decide) -> Self {
        Self::build(names, decide, status, false)
    }

    fn build(names: &[&str], decide: Decide, status: Decide, observe_panics: bool) -> Self {
        let server = Shared::default();
        let client = client(&server);
        let mut set = StoreSet::new().with_metrics(Metrics::registered());
        let deployments: Store<Deployment> = set.add(Watch::new(&client));
        let config_maps: Store<ConfigMap> = set.add(Watch::new(&client));
        // The watches end here, so the tests report the changes.
        let stores = set.start(&mut JoinSet::new());
        for name in names {
            deployments.put(deployment(name, 0, 1));
        }
        let queue = Queue::new();
        let woken = queue.clone();
        deployments.on_change(move |change| woken.add(NamespacedName::from_object(change.object().as_ref())));
        let (woken, all) = (queue.clone(), deployments.clone());
        config_maps.on_change(move |_| {
            for object in all.list() {
                woken.add_after(NamespacedName::from_object(object.as_ref()), GATHER);
            }
        });
        let writer = Arc::new(Writer {
            deployments,
            script: Arc::new(Script {
                decide,
                status,
                remembered: Mutex::default(),
            }),
            observe_panics,
            rounds: AtomicU64::new(0),
            observes: Mutex::default(),
            unobserved: Mutex::default(),
        });
        let mut tasks = JoinSet::new();
        let gate = WriteGate::default();
        let (recorder, sending) = Recorder::new(client.clone(), gate.clone(), Metrics::default());
        tasks.spawn(sending);
        let (stop, shutdown) = watch::channel(false);
        let runner = Runner::new(Executor::new(client, stores, gate.clone()), recorder, shutdown);
        runner.spawn(&mut tasks, &writer, &queue, 2);
        for name in names {
            queue.add(key(name));
        }
        Self {
            server,
            _config_maps: config_maps,
            queue,
            writer,
            metrics: runner.metrics.clone(),
            first_rounds: runner.first_rounds.clone(),
            gate,
            _stop: stop,
            _tasks: tasks,
        }
    }

    fn rounds(&self) -> u64 {
        self.writer.rounds.load(Ordering::Relaxed)
    }

    fn counted(&self, name: &str) -> u64 {
        self.metrics.total(name) as u64
    }

    fn paused(&self) -> u64 {
        self.counted("olm_reconcile_pauses_total")
    }

    fn failed(&self) -> u64 {
        self.counted("controller_runtime_reconcile_errors_total")
    }

    fn panicked(&self) -> u64 {
        self.counted("controller_runtime_reconcile_panics_total")
    }

    fn patches(&self) -> Vec<(String, Instant)> {
        self.server.lock().patches.clone()
    }

    fn events(&self) -> Vec<String> {
        self.server.lock().events.clone()
    }
}

/// Returns an event about a Deployment.
fn event(name: &str, warning: bool, reason: &str) -> EventDraft {
    EventDraft {
        regarding: ObjectReference {
            kind: Some("Deployment".to_owned()),
            namespace: Some("ns".to_owned()),
            name: Some(name.to_owned()),
            ..ObjectReference::default()
        },
        warning,
        reason: reason.to_owned(),
        message: reason.to_owned(),
    }
}

async fn minutes(count: u64) {
    tokio::time::sleep(Duration::from_secs(60 * count)).await;
}

#[tokio::test(start_paused = true)]
async fn a_failure_that_asks_for_a_look_at_once_is_repeated_with_backoff() {
    let status: Decide = Box::new(|_| Plan {
        requeue: Requeue::After {
            delay: Duration::from_millis(100),
            reason: "an object had changed",
        },
        ..Plan::default()
    });
    let env = TestEnv::new(&["a"], Box::new(|name| writes(vec![status_of(name)])), status);
    env.server.lock().refuses = true;
    minutes(10).await;
    let patches = env.patches();
    assert!(
        patches.len() <= 10 * 12 + 10,
        "{} tries in ten minutes",
        patches.len()
    );
    let pause = |index: usize| patches[index + 1].1 - patches[index].1;
    assert!(pause(0) < Duration::from_millis(150), "the first look is soon");
    assert!(pause(20) >= Duration::from_secs(5));
    assert_eq!(env.failed(), env.counted("controller_runtime_reconcile_total"));
    // A success resets the backoff.
    env.server.lock().refuses = false;
    minutes(1).await;
    let after = env.rounds();
    assert!(after > patches.len() as u64);
}

/// The memory of a reconcile reaches the key's next one and survives a reconcile that could not observe. A key with nothing to do loses
/// its memory.
#[tokio::test(start_paused = true)]
async fn the_next_reconcile_gets_the_state_of_the_last_one() {
    let env = TestEnv::new(&["a"], Box::new(|name| writes(vec![status_of(name)])), nothing());
    // The first writes requeue the key, so only keys that the test adds from now on are single reconciles.
    let next_round = async |observes: Observes| {
        *env.writer.observes.lock() = observes;
        env.queue.add(key("a"));
        minutes(2).await;
        std::mem::take(&mut *env.writer.script.remembered.lock())
    };
    env.server.lock().refuses = true;
    let first = next_round(Observes::Something).await;
    assert_eq!(first[0], None, "nothing came before");
    let refused = Some("Some(Conflict)".to_owned());
    assert!(first[1..].iter().all(|memory| *memory == refused), "{first:?}");
    assert!(next_round(Observes::Error).await.is_empty());
    assert_eq!(next_round(Observes::Something).await[0], refused);
    env.server.lock().refuses = false;
    let forgiven = next_round(Observes::Something).await;
    assert_eq!(forgiven[0], refused);
    assert_eq!(forgiven[1], Some("None".to_owned()), "{forgiven:?}");
    next_round(Observes::Nothing).await;
    assert_eq!(next_round(Observes::Something).await[0], None);
}

#[tokio::test(start_paused = true)]
async fn the_statuses_of_a_reconcile_are_written_independently() {
    const REFUSED: &str = "/apis/apps/v1/namespaces/ns/deployments/b/status";
    // The other keys are requeued by their statuses and have nothing to report.
    let status: Decide = Box::new(|name| match name {
        "a" => Plan {
            events: ["a", "b", "c", "d"].map(|name| event(name, true, name)).into(),
            ..writes(["b", "c", "d"].map(status_of).into())
        },
        _ => Plan::default(),
    });
    let env = TestEnv::new(&["a"], nothing(), status);
    env.server.lock().refused = Some(REFUSED);
    tokio::time::sleep(Duration::from_millis(50)).await;
    let paths: Vec<String> = env.patches().into_iter().map(|(path, _)| path).collect();
    let path = |name: &str| format!("/apis/apps/v1/namespaces/ns/deployments/{name}/status");
    assert_eq!(paths, ["b", "c", "d"].map(path));
    assert_eq!(env.failed(), 1);
    assert_eq!(
        env.events(),
        ["a", "c", "d"],
        "of b the round tells that writes its status"
    );
    env.server.lock().refused = None;
    minutes(1).await;
    assert!(env.events().contains(&"b".to_owned()), "{:?}", env.events());
}

/// After a write without an answer no status is written, since it would wait as long.
#[tokio::test(start_paused = true)]
async fn after_a_write_that_nobody_answers_no_status_is_tried() {
    let decide: Decide = Box::new(|_| writes(vec![patch(Target::of::<ConfigMap>("ns", "one"), None)]));
    let status: Decide = Box::new(|name| writes(vec![status_of(name)]));
    let env = TestEnv::new(&["a"], decide, status);
    env.server.lock().is_silent = true;
    minutes(5).await;
    let patches = env.patches();
    assert!(patches.len() > 1, "{patches:?}");
    let written = patches
        .iter()
        .filter(|(path, _)| path == "/api/v1/namespaces/ns/configmaps/one");
    assert_eq!(written.count(), patches.len(), "{patches:?}");
    // Once the server answers, the status is written.
    env.server.lock().is_silent = false;
    minutes(3).await;
    assert!(
        env.patches()
            .iter()
            .any(|(path, _)| path.ends_with("deployments/a/status"))
    );
}

/// The gate shuts between two writes of one plan. Later writes and the status are not sent, and the reconcile is retried until the gate
/// is open.
#[tokio::test(start_paused = true)]
async fn a_gate_that_shuts_in_the_middle_of_a_plan_stops_every_later_write() {
    let services = || ["one", "two", "three"].map(|name| patch(Target::of::<Service>("ns", name), None));
    for independent in [0, 3] {
        let decide: Decide = Box::new(move |name| match name {
            "a" => Plan {
                independent,
                ..writes(services().into())
            },
            _ => Plan::default(),
        });
        let status: Decide = Box::new(|name| match name {
            "a" => writes(vec![patch(Target::of::<Service>("ns", "four"), Some("status"))]),
            _ => Plan::default(),
        });
        let env = TestEnv::new(&["a"], decide, status);
        env.server.lock().shuts = Some(("/api/v1/namespaces/ns/services/one", env.gate.clone()));
        minutes(1).await;
        let written = |env: &TestEnv| -> Vec<String> {
            let patches = env.patches().into_iter();
            patches
                .map(|(path, _)| {
                    path.trim_start_matches("/api/v1/namespaces/ns/services/")
                        .to_owned()
                })
                .collect()
        };
        assert_eq!(written(&env), ["one"], "{independent} independent");
        let rounds = env.rounds();
        assert!(rounds > 5, "it is tried again: {rounds}");
        assert!(rounds < 20, "with backoff: {rounds}");
        assert_eq!(env.failed(), rounds);
        // Each reconcile attempts its first write or all independent ones, and the status. One write of the first reconcile succeeded.
        let held_back = if independent == 0 {
            2 * rounds
        } else {
            4 * rounds - 1
        };
        assert_eq!(
            env.counted("olm_writes_total"),
            held_back + 1,
            "{independent} independent"
        );
        env.server.lock().shuts = None;
        env.gate
            .open_until(tokio::time::Instant::now() + Duration::from_secs(3600));
        env.queue.add(key("a"));
        tokio::time::sleep(Duration::from_millis(2)).await;
        let all = written(&env);
        assert_eq!(
            all[1..5],
            ["one", "two", "three", "four/status"],
            "{independent} independent"
        );
    }
}

/// The warning may not be repeated: a write before the refused one can record that it was reported.
#[tokio::test(start_paused = true)]
async fn a_refused_write_takes_no_warning_with_it() {
    let decide: Decide = Box::new(|_| Plan {
        events: vec![event("a", true, "Found"), event("a", false, "Did")],
        ..writes(vec![status_of("a")])
    });
    let env = TestEnv::new(&["a"], decide, nothing());
    env.server.lock().refuses = true;
    minutes(1).await;
    let told = env.events();
    assert!(told.contains(&"Found".to_owned()), "{told:?}");
    assert!(!told.contains(&"Did".to_owned()), "nothing was done: {told:?}");
}

/// Covers a panic in each step of a reconciler.
#[tokio::test(start_paused = true)]
async fn a_panic_in_one_keys_reconcile_leaves_the_others_alone() {
    let bug = |name: &str| -> Plan {
        assert!(name != "bad", "a bug");
        writes(vec![])
    };
    for step in ["observe", "decide", "status"] {
        let names = ["bad", "good"];
        let env = match step {
            "observe" => TestEnv::build(&names, nothing(), nothing(), true),
            "decide" => TestEnv::new(&names, Box::new(bug), nothing()),
            _ => TestEnv::new(&names, nothing(), Box::new(bug)),
        };
        minutes(10).await;
        let panicked = env.panicked();
        // From 100 ms to 60 s: ten doublings, then once a minute.
        assert!(
            (15..=30).contains(&panicked),
            "{step}: {panicked} times in ten minutes"
        );
        assert_eq!(env.failed(), panicked, "{step}");
        assert!(
            env.events().iter().all(|reason| reason == reason::PANICKED),
            "{step}"
        );
        assert!(!env.events().is_empty(), "{step}");
        let before = env.rounds();
        env.queue.add(key("good"));
        tokio::time::sleep(Duration::from_millis(10)).await;
        assert_eq!(env.rounds(), before + 1, "{step}: the workers go on");
    }
}
