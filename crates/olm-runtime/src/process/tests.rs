use std::sync::{Arc, Mutex};

use k8s_openapi::api::core::v1::ConfigMap;
use olm_testing::cluster::FakeCluster;
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

// --- Processes with leader election ---

/// Process with one controller that is in a reconcile when it is stopped.
struct Process {
    log: Arc<Mutex<Vec<&'static str>>>,
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
        let elector = Elector::new(client.clone(), candidacy);
        let mut set = StoreSet::new();
        let _store = set.add(Watch::<ConfigMap>::new(&client));
        let log = Arc::<Mutex<Vec<&'static str>>>::default();
        let told = Arc::clone(&log);
        let start = move |runner: &Runner| {
            told.lock().unwrap().push("rounds");
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
            let mut watches = JoinSet::new();
            let stores = set.start(&mut watches);
            controllers(client, watches, stores, Some(elector), start, stopped).await
        };
        Self {
            log,
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
async fn a_standby_stops_on_request() {
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
async fn a_process_that_lost_the_lease_ends_with_an_error_and_without_its_reconciles() {
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
