use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use k8s_openapi::api::core::v1::ConfigMap;
use olm_testing::cluster::{FakeCluster, Fault, Refusal, Verb};
use serde_json::json;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::*;
use crate::leader::LeaseTimes;
use crate::store::Watch;

type Failure = Box<dyn std::error::Error>;

#[test]
fn bad_flags_and_failed_work_have_exit_codes_of_their_own() {
    let complaining = Start {
        usage_error: Some("no".to_owned()),
        ..Start::default()
    };
    let never = async || -> Result<(), Failure> { unreachable!("flags are wrong") };
    assert_eq!(main(complaining, never), ExitCode::from(2));
    let broken = async || Err(Failure::from("broken"));
    assert_eq!(main(Start::default(), broken), ExitCode::FAILURE);
    let fine = async || Ok::<(), Failure>(());
    assert_eq!(main(Start::default(), fine), ExitCode::SUCCESS);
}

/// A resolution may take long, and Kubernetes kills a process that does not end.
#[test]
fn nobody_waits_for_work_in_the_pool_at_the_end() {
    let (release, held) = std::sync::mpsc::channel::<()>();
    let work = async move || {
        tokio::task::spawn_blocking(move || held.recv());
        tokio::task::yield_now().await;
        Ok::<(), Failure>(())
    };
    assert_eq!(main(Start::default(), work), ExitCode::SUCCESS);
    drop(release);
}

/// A broken certificate must not stop installs when the process moves to another node.
#[tokio::test(start_paused = true)]
async fn metrics_alone_wait_for_a_certificate() {
    let folder = tempfile::TempDir::new().unwrap();
    let authority = crate::tls::authority::Authority::new("one");
    let files = authority.files(folder.path(), None);
    std::fs::write(&files.key, "nothing").unwrap();
    let waiting = tokio::spawn(usable(files.clone()));
    tokio::time::sleep(5 * LOOK_EVERY).await;
    assert!(!waiting.is_finished());
    let _ = authority.files(folder.path(), None);
    tokio::time::sleep(2 * LOOK_EVERY).await;
    assert!(waiting.is_finished());
}

/// Lease times may be long, and a process that does not answer probes is killed earlier.
#[tokio::test(start_paused = true)]
async fn health_is_served_soon_though_the_lease_cannot_be_read() {
    let cluster = cluster();
    cluster.on_request(|request| (request.kind.kind == "Lease").then_some(Fault::Hang));
    let (client, _) = cluster.connect();
    let times = LeaseTimes::new(
        Duration::from_secs(300),
        Duration::from_secs(240),
        Duration::from_secs(2),
    );
    let candidacy = Candidacy::new(NamespacedName::new("olm", "lease"), times.unwrap());
    // The port is in use, so binding it fails as soon as the process tries to serve.
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoints = Endpoints {
        health: taken.local_addr().unwrap(),
        secure: None,
    };
    let began = tokio::time::Instant::now();
    let metrics = Metrics::default();
    let start = |_: &Runner| JoinSet::new();
    let ended = run(
        client,
        StoreSet::new(),
        endpoints,
        metrics,
        Some(candidacy),
        start,
    )
    .await;
    assert!(matches!(ended, Err(RunError::Health { .. })), "{ended:?}");
    assert!(began.elapsed() <= Duration::from_secs(6), "{:?}", began.elapsed());
}

// --- Processes with leader election ---

/// Process with one controller that is in a reconcile when it is stopped.
struct Process {
    log: Arc<Mutex<Vec<&'static str>>>,
    /// Names of the ConfigMaps it knew when its reconciles started.
    known: Arc<Mutex<Vec<String>>>,
    /// Number of keys in its queues.
    waiting: Arc<AtomicUsize>,
    stop: Option<oneshot::Sender<()>>,
    running: JoinHandle<Result<(), RunError>>,
}

/// Duration of the reconcile in progress.
const ROUND: Duration = Duration::from_secs(3);

impl Process {
    fn start(cluster: &FakeCluster, identity: &str) -> Self {
        let (client, _) = cluster.connect();
        let candidacy = Candidacy {
            lease: NamespacedName::new("olm", "lease"),
            identity: identity.to_owned(),
            times: LeaseTimes::default(),
        };
        let mut elector = Elector::new(client.clone(), candidacy);
        let mut set = StoreSet::new();
        let store = set.add(Watch::<ConfigMap>::new(&client));
        let waiting = Arc::<AtomicUsize>::default();
        let queues = Arc::clone(&waiting);
        set.fills(move || queues.load(Ordering::SeqCst));
        let log = Arc::<Mutex<Vec<&'static str>>>::default();
        let known = Arc::<Mutex<Vec<String>>>::default();
        let (told, seen) = (Arc::clone(&log), Arc::clone(&known));
        let start = move |runner: &Runner| {
            told.lock().unwrap().push("rounds");
            let names = store.list().into_iter().filter_map(|it| it.metadata.name.clone());
            seen.lock().unwrap().extend(names);
            let mut shutdown = runner.shutdown.clone();
            let mut workers = JoinSet::new();
            workers.spawn(async move {
                let _ = shutdown.wait_for(|stop| *stop).await;
                tokio::time::sleep(ROUND).await;
                told.lock().unwrap().push("finished");
            });
            workers
        };
        let (stop, stopped) = oneshot::channel::<()>();
        let stopped = async {
            let _ = stopped.await;
        };
        let running = async move {
            elector.look().await;
            let mut watches = JoinSet::new();
            let stores = set.start(&mut watches);
            controllers(client, watches, stores, Some(elector), start, stopped).await
        };
        Self {
            log,
            known,
            waiting,
            stop: Some(stop),
            running: tokio::spawn(running),
        }
    }

    fn told(&self) -> Vec<&'static str> {
        self.log.lock().unwrap().clone()
    }

    fn stop(&mut self) {
        self.stop.take().unwrap().send(()).unwrap();
    }
}

fn cluster() -> FakeCluster {
    let cluster = FakeCluster::new();
    cluster.put(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "olm"}}));
    cluster
}

fn holder(cluster: &FakeCluster) -> String {
    let lease = cluster.get("Lease", "olm", "lease").unwrap();
    lease["spec"]["holderIdentity"].as_str().unwrap().to_owned()
}

async fn seconds(seconds: u64) {
    tokio::time::sleep(Duration::from_secs(seconds)).await;
}

#[tokio::test(start_paused = true)]
async fn a_standby_begins_no_rounds_and_the_leader_finishes_its_own_before_it_makes_way() {
    let cluster = cluster();
    let mut first = Process::start(&cluster, "first");
    seconds(1).await;
    let mut second = Process::start(&cluster, "second");
    seconds(60).await;
    assert_eq!(first.told(), ["rounds"]);
    assert!(second.told().is_empty());
    first.stop();
    seconds(2).await;
    assert_eq!(holder(&cluster), "first", "a round is in hand");
    seconds(3).await;
    assert!(first.running.await.unwrap().is_ok());
    assert_eq!(first.log.lock().unwrap().as_slice(), ["rounds", "finished"]);
    assert_eq!(holder(&cluster), "second", "within a retry period");
    assert_eq!(second.told(), ["rounds"]);
    let events = cluster.take_log().events;
    assert_eq!(
        events,
        [
            "LeaderElection: first became leader",
            "LeaderElection: second became leader"
        ]
    );
    second.stop();
    assert!(second.running.await.unwrap().is_ok());
    assert_eq!(holder(&cluster), "");
}

#[tokio::test(start_paused = true)]
async fn a_standby_that_is_told_to_stop_does() {
    let cluster = cluster();
    let _first = Process::start(&cluster, "first");
    seconds(1).await;
    let mut second = Process::start(&cluster, "second");
    seconds(5).await;
    second.stop();
    assert!(second.running.await.unwrap().is_ok());
    assert_eq!(holder(&cluster), "first");
}

/// Its work must not continue beside the next leader, and its log and exit code show the reason.
#[tokio::test(start_paused = true)]
async fn a_process_that_leads_no_more_ends_with_an_error_and_without_its_rounds() {
    let cluster = cluster();
    let first = Process::start(&cluster, "first");
    seconds(5).await;
    cluster.edit(
        "Lease",
        "olm",
        "lease",
        &json!({"spec": {"holderIdentity": "other"}}),
    );
    seconds(5).await;
    let error = first.running.await.unwrap().unwrap_err();
    let text = error.to_string();
    assert!(
        text.starts_with("lost leader election on lease olm/lease: other holds it now"),
        "{text}"
    );
    seconds(60).await;
    assert_eq!(first.log.lock().unwrap().as_slice(), ["rounds"]);
    assert_eq!(holder(&cluster), "other");
}

/// The Lease may be free before the new leader's watch has delivered the last write of the old one.
#[tokio::test(start_paused = true)]
async fn who_follows_begins_with_all_that_the_one_before_wrote() {
    let cluster = cluster();
    let mut first = Process::start(&cluster, "first");
    seconds(1).await;
    let second = Process::start(&cluster, "second");
    seconds(1).await;
    cluster.hold("ConfigMap");
    cluster.put(
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": "olm", "name": "last"}}),
    );
    first.stop();
    seconds(10).await;
    assert_eq!(second.told(), ["rounds"]);
    assert_eq!(*second.known.lock().unwrap(), ["last"]);
}

/// Otherwise it would hold the Lease, renew it and do nothing while the API server refuses lists.
#[tokio::test(start_paused = true)]
async fn who_follows_and_cannot_list_gives_the_lease_back_and_ends() {
    let cluster = cluster();
    let mut first = Process::start(&cluster, "first");
    seconds(1).await;
    let second = Process::start(&cluster, "second");
    seconds(1).await;
    cluster.on_request(|request| {
        let refusal = || Fault::Refuse(Refusal::new(500, "InternalError", "no"));
        (request.verb == Verb::List && request.kind.kind == "ConfigMap").then(refusal)
    });
    first.stop();
    seconds(100).await;
    assert!(first.running.await.unwrap().is_ok());
    assert!(second.told().is_empty());
    assert_eq!(holder(&cluster), "second");
    assert!(!second.running.is_finished());
    seconds(LISTING.as_secs()).await;
    assert_eq!(holder(&cluster), "");
    let error = second.running.await.unwrap().unwrap_err().to_string();
    let wanted =
        "cannot start as leader by lease olm/lease: no new list of configmaps. and no progress within 120 s";
    assert!(error.starts_with(wanted), "{error}");
    assert!(second.log.lock().unwrap().is_empty());
}

/// On a large or slow cluster each process would otherwise give up the list that the next one starts again.
#[tokio::test(start_paused = true)]
async fn who_follows_waits_for_lists_that_go_on_however_long_they_take() {
    let cluster = cluster();
    for number in 0..300 {
        let metadata = json!({"namespace": "olm", "name": format!("n{number}")});
        cluster.put(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}));
    }
    let mut first = Process::start(&cluster, "first");
    seconds(1).await;
    let second = Process::start(&cluster, "second");
    seconds(1).await;
    cluster.on_request(|request| {
        let is_page = request.verb == Verb::List && request.kind.kind == "ConfigMap";
        is_page.then_some(Fault::Delay(Duration::from_secs(100)))
    });
    first.stop();
    seconds(LISTING.as_secs() + 60).await;
    assert_eq!(holder(&cluster), "second");
    assert!(second.told().is_empty());
    seconds(180).await;
    assert_eq!(second.told(), ["rounds"]);
    assert_eq!(second.known.lock().unwrap().len(), 300);
}

/// No process has written since its stores started to list.
#[tokio::test(start_paused = true)]
async fn who_finds_the_lease_free_lists_once_and_who_waits_for_it_twice() {
    let cluster = cluster();
    let lists = Arc::<AtomicUsize>::default();
    let count = Arc::clone(&lists);
    cluster.on_request(move |request| {
        if request.verb == Verb::List && request.kind.kind == "ConfigMap" {
            count.fetch_add(1, Ordering::SeqCst);
        }
        None
    });
    let listed = || lists.swap(0, Ordering::SeqCst);
    let mut first = Process::start(&cluster, "first");
    seconds(5).await;
    // A missing Lease may have been deleted.
    assert_eq!(listed(), 2);
    first.stop();
    assert!(first.running.await.unwrap().is_ok());
    let second = Process::start(&cluster, "second");
    seconds(5).await;
    assert_eq!(second.told(), ["rounds"]);
    assert_eq!(listed(), 1);
    // The killed process may have written after the next one listed.
    second.running.abort();
    let third = Process::start(&cluster, "third");
    seconds(30).await;
    assert_eq!(third.told(), ["rounds"]);
    assert_eq!(listed(), 2);
}

/// No worker processes the queues of a standby.
#[tokio::test(start_paused = true)]
async fn a_standby_in_whose_queues_much_is_added_begins_anew_and_a_leader_does_not() {
    let cluster = cluster();
    let first = Process::start(&cluster, "first");
    first.waiting.store(1_000_000, Ordering::SeqCst);
    seconds(1).await;
    let second = Process::start(&cluster, "second");
    // Keys of existing objects do not count.
    second.waiting.store(1_000_000, Ordering::SeqCst);
    seconds(1).await;
    for process in [&first, &second] {
        process.waiting.fetch_add(MOST_ADDED - 1, Ordering::SeqCst);
    }
    seconds(1000).await;
    assert!(!second.running.is_finished());
    for process in [&first, &second] {
        process.waiting.fetch_add(1, Ordering::SeqCst);
    }
    seconds(61).await;
    assert!(second.running.await.unwrap().is_ok());
    assert!(!first.running.is_finished());
}
