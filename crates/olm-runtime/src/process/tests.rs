use std::sync::{Arc, Mutex};

use olm_testing::cluster::FakeCluster;
use serde_json::json;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::*;
use crate::leader::Terms;

#[test]
fn bad_flags_and_failed_work_have_exit_codes_of_their_own() {
    let complaining = Start {
        usage_error: Some("no".to_owned()),
        ..Start::default()
    };
    let never = async || -> Result<(), &str> { unreachable!("flags are wrong") };
    assert_eq!(main(complaining, never), ExitCode::from(2));
    assert_eq!(main(Start::default(), async || Err("broken")), ExitCode::FAILURE);
    assert_eq!(
        main(Start::default(), async || Ok::<(), &str>(())),
        ExitCode::SUCCESS
    );
}

/// A resolution may take long, and Kubernetes kills who does not end.
#[test]
fn nobody_waits_for_work_in_the_pool_at_the_end() {
    let (release, held) = std::sync::mpsc::channel::<()>();
    let work = async move || {
        tokio::task::spawn_blocking(move || held.recv());
        tokio::task::yield_now().await;
        Ok::<(), &str>(())
    };
    assert_eq!(main(Start::default(), work), ExitCode::SUCCESS);
    drop(release);
}

// --- Processes of which one is elected ---

/// A process with one controller, which is in a round when it is to stop.
struct Process {
    log: Arc<Mutex<Vec<&'static str>>>,
    stores: StoreSetHandle,
    stop: Option<oneshot::Sender<()>>,
    running: JoinHandle<Result<(), RunError>>,
}

/// How long the round in hand takes.
const ROUND: Duration = Duration::from_secs(3);

impl Process {
    fn start(cluster: &FakeCluster, identity: &str) -> Self {
        let (client, _) = cluster.connect();
        let candidacy = Candidacy {
            lease: NamespacedName::new("olm", "lease"),
            identity: identity.to_owned(),
            terms: Terms::default(),
        };
        let elector = Elector::new(client.clone(), candidacy, WriteGate::default());
        let mut watches = JoinSet::new();
        let stores = StoreSet::new().start(&mut watches);
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
        let running = controllers(client, watches, stores.clone(), Some(elector), start, stopped);
        Self {
            log,
            stores,
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

/// Nothing of it goes on beside the next one, and whoever looks at its log or exit code sees why.
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
        text.starts_with("leads no more by the Lease olm/lease: other has it now"),
        "{text}"
    );
    seconds(60).await;
    assert_eq!(first.log.lock().unwrap().as_slice(), ["rounds"]);
    assert_eq!(holder(&cluster), "other");
}

/// Its queues remember what is gone, as nobody works them off.
#[tokio::test(start_paused = true)]
async fn a_standby_that_has_heard_of_much_that_is_gone_begins_anew_and_a_leader_does_not() {
    let cluster = cluster();
    let first = Process::start(&cluster, "first");
    seconds(1).await;
    let second = Process::start(&cluster, "second");
    seconds(1).await;
    for process in [&first, &second] {
        process.stores.note_gone(MOST_GONE - 1);
    }
    seconds(1000).await;
    assert!(!second.running.is_finished());
    for process in [&first, &second] {
        process.stores.note_gone(1);
    }
    seconds(61).await;
    assert!(second.running.await.unwrap().is_ok());
    assert!(!first.running.is_finished());
}
