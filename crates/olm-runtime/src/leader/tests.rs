use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use k8s_openapi::api::coordination::v1::LeaseSpec;
use olm_testing::cluster::{FakeCluster, Fault, Refusal, Request};
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use super::*;

mod release;

const SECOND: Duration = Duration::from_secs(1);

fn named() -> ObjectMeta {
    ObjectMeta {
        namespace: Some("olm".to_owned()),
        name: Some("lease".to_owned()),
        ..ObjectMeta::default()
    }
}

/// Lease held by `holder` for `seconds`.
fn lease(version: &str, holder: &str, seconds: i32) -> Lease {
    Lease {
        metadata: ObjectMeta {
            resource_version: Some(version.to_owned()),
            ..named()
        },
        spec: Some(LeaseSpec {
            holder_identity: Some(holder.to_owned()),
            lease_duration_seconds: Some(seconds),
            lease_transitions: Some(3),
            ..LeaseSpec::default()
        }),
    }
}

fn candidate() -> Candidate {
    Candidate::new("me".to_owned(), LeaseTimes::default())
}

fn decide(candidate: &Candidate, now: Instant) -> Step {
    candidate.decide(&named(), now, jiff::Timestamp::UNIX_EPOCH)
}

/// Returns holder, version, seconds and transitions of the Lease to write; `None` for other steps.
fn written(step: &Step) -> Option<(String, Option<String>, i32, i32)> {
    let Step::Write(lease) = step else {
        return None;
    };
    let spec = lease.spec.clone().unwrap();
    Some((
        spec.holder_identity.unwrap(),
        lease.metadata.resource_version.clone(),
        spec.lease_duration_seconds.unwrap(),
        spec.lease_transitions.unwrap(),
    ))
}

/// Candidate that leads by a renewal sent at `now`, and the end of its term.
fn leader(now: Instant) -> (Candidate, Instant) {
    let mut candidate = candidate();
    candidate.saw(None, now);
    let end = candidate.wrote(lease("1", "me", 15), now, now).unwrap();
    (candidate, end)
}

#[test]
fn times_have_to_fit_together() {
    let of = |lease: u64, deadline: u64, period: u64| {
        LeaseTimes::new(
            Duration::from_millis(lease),
            Duration::from_millis(deadline),
            Duration::from_millis(period),
        )
    };
    assert_eq!(of(15_000, 10_000, 2000), Ok(LeaseTimes::default()));
    assert!(of(15_000, 12_000, 6000).is_ok());
    for (times, flag, way_out) in [
        (
            (15_500, 10_000, 2000),
            "--leader-elect-lease-duration=15.5s",
            "whole seconds",
        ),
        ((0, 0, 0), "--leader-elect-lease-duration=0s", "from 1s to 300s"),
        (
            (301_000, 10_000, 2000),
            "--leader-elect-lease-duration=301s",
            "from 1s to 300s",
        ),
        (
            (15_000, 12_001, 2000),
            "--leader-elect-renew-deadline=12.001s",
            "use 12s or less",
        ),
        (
            (15_000, 10_000, 5001),
            "--leader-elect-retry-period=5.001s",
            "at most 5s",
        ),
        (
            (15_000, 10_000, 0),
            "--leader-elect-retry-period=0s",
            "more than 0s",
        ),
    ] {
        let error = of(times.0, times.1, times.2).unwrap_err();
        assert!(error.contains(flag) && error.contains(way_out), "{error}");
    }
}

#[test]
fn what_a_candidate_does_about_a_lease() {
    let start = Instant::now();
    assert_eq!(decide(&candidate(), start), Step::Read);
    for (seen, holder, version, transitions) in [
        (None, "me", None, 0),
        (Some(lease("7", "", 1)), "me", Some("7"), 4),
        // The candidate's own write, whose answer never arrived.
        (Some(lease("7", "me", 15)), "me", Some("7"), 3),
    ] {
        let mut candidate = candidate();
        candidate.saw(seen, start);
        let version = version.map(str::to_owned);
        assert_eq!(
            written(&decide(&candidate, start)),
            Some((holder.to_owned(), version, 15, transitions))
        );
    }
}

/// The clocks of two machines may differ, so the times in the Lease are ignored.
#[test]
fn a_lease_is_taken_when_it_has_not_changed_for_as_long_as_it_lasts() {
    let start = Instant::now();
    for (seconds, lasts) in [(15, 15), (40, 40), (4, 15), (0, 15), (100_000, 300)] {
        let mut candidate = candidate();
        candidate.saw(Some(lease("7", "other", seconds)), start);
        let mut looks = 0;
        let mut now = start;
        let taken = loop {
            match decide(&candidate, now) {
                Step::Wait(until) => {
                    assert!(until > now);
                    now = until;
                }
                Step::Read => {
                    looks += 1;
                    assert!(looks < 200, "it never takes it");
                    candidate.saw(Some(lease("7", "other", seconds)), now);
                }
                step => break written(&step).unwrap(),
            }
        };
        assert_eq!(now, start + SECOND * lasts, "{seconds}");
        assert_eq!(taken.1.as_deref(), Some("7"));
        assert!(looks >= lasts / 2 - 1, "it looks every two seconds: {looks}");
        // A renewal restarts the wait.
        candidate.saw(Some(lease("8", "other", seconds)), now);
        assert!(matches!(decide(&candidate, now), Step::Wait(_)));
    }
}

#[test]
fn the_holder_of_a_deleted_lease_creates_it_again() {
    let start = Instant::now();
    let (mut leader, _) = leader(start);
    leader.was_refused(start + SECOND);
    leader.saw(None, start + SECOND * 2);
    assert_eq!(written(&decide(&leader, start + SECOND * 2)).unwrap().1, None);
}

#[test]
fn a_leader_renews_and_leads_from_when_it_sent_that() {
    let start = Instant::now();
    let (mut leader, end) = leader(start);
    assert_eq!(end, start + SECOND * 10);
    assert_eq!(decide(&leader, start), Step::Wait(start + SECOND * 2));
    let sent = start + SECOND * 2;
    assert_eq!(written(&decide(&leader, sent)).unwrap().1.as_deref(), Some("1"));
    // The answer arrives late.
    let now = start + SECOND * 6;
    let end = leader.wrote(lease("2", "me", 15), sent, now).unwrap();
    assert_eq!(end, sent + SECOND * 10);
    assert_eq!(written(&decide(&leader, now)).unwrap().1.as_deref(), Some("2"));
}

/// Under load the API server answers late. A Lease that still has the version of the last renewal cannot have had another holder.
#[test]
fn a_leader_that_cannot_renew_in_time_continues_while_no_other_has_the_lease() {
    let start = Instant::now();
    let (mut leader, end) = leader(start);
    let mut sent = start + SECOND * 2;
    while sent < end + SECOND * 60 {
        assert_eq!(written(&decide(&leader, sent)).unwrap().1.as_deref(), Some("1"));
        leader.got_no_answer(sent, sent + leader.patience(), "no answer".to_owned());
        sent += leader.patience();
    }
    let end = leader.wrote(lease("2", "me", 15), sent, sent + SECOND).unwrap();
    assert_eq!(end, sent + SECOND * 10);
    // The next time another process is faster.
    let late = sent + SECOND * 60;
    leader.was_refused(late);
    leader.saw(Some(lease("3", "other", 15)), late + SECOND);
    let end = Step::End(Loss::Taken("other".to_owned()));
    assert_eq!(decide(&leader, late + SECOND), end);
}

#[test]
fn a_leader_whose_lease_another_took_stops_leading() {
    let start = Instant::now();
    for (holder, loss) in [("other", Loss::Taken("other".to_owned())), ("", Loss::TakenAway)] {
        let (mut leader, _) = leader(start);
        leader.was_refused(start + SECOND);
        assert!(
            matches!(decide(&leader, start + SECOND), Step::Wait(_)),
            "not in a hurry"
        );
        assert_eq!(decide(&leader, start + SECOND * 2), Step::Read);
        leader.saw(Some(lease("2", holder, 15)), start + SECOND * 2);
        assert_eq!(decide(&leader, start + SECOND * 2), Step::End(loss));
    }
    // A user labelled the Lease.
    let (mut leader, _) = leader(start);
    leader.was_refused(start + SECOND);
    leader.saw(Some(lease("2", "me", 15)), start + SECOND * 2);
    assert_eq!(
        written(&decide(&leader, start + SECOND * 2))
            .unwrap()
            .1
            .as_deref(),
        Some("2")
    );
}

#[test]
fn only_ones_own_lease_is_given_back() {
    let start = Instant::now();
    let wall = jiff::Timestamp::UNIX_EPOCH;
    let mut standby = candidate();
    assert_eq!(standby.released(wall), None);
    standby.saw(Some(lease("7", "other", 15)), start);
    assert_eq!(standby.released(wall), None);
    let (leader, _) = leader(start);
    let released = leader.released(wall).unwrap();
    assert_eq!(released.metadata.resource_version.as_deref(), Some("1"));
    let spec = released.spec.unwrap();
    assert_eq!(spec.holder_identity.as_deref(), Some(""));
    assert_eq!(spec.lease_duration_seconds, Some(1), "the server takes no 0");
}

// --- Electors on a fake cluster ---

/// A process that takes part in an election.
struct Process {
    gate: WriteGate,
    leadership: Leadership,
    running: JoinHandle<Loss>,
}

fn elector(cluster: &FakeCluster, identity: &str) -> Elector {
    let candidacy = Candidacy {
        lease: NamespacedName::new("olm", "lease"),
        identity: identity.to_owned(),
        times: LeaseTimes::default(),
    };
    Elector::new(cluster.connect().0, candidacy)
}

impl Process {
    fn start(cluster: &FakeCluster, identity: &str) -> Self {
        let mut elector = elector(cluster, identity);
        let (gate, leadership) = (elector.gate().clone(), elector.leadership());
        assert!(!gate.is_open(), "nobody writes before it is elected");
        let running = tokio::spawn(async move {
            match elector.acquire().await {
                Ok(()) => elector.renew().await,
                Err(loss) => loss,
            }
        });
        Self {
            gate,
            leadership,
            running,
        }
    }

    /// Returns the text of `/readyz`.
    fn text(&self) -> String {
        self.leadership.readiness().unwrap().unwrap()
    }
}

fn cluster() -> FakeCluster {
    let cluster = FakeCluster::new();
    cluster.put(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "olm"}}));
    cluster
}

fn spec(cluster: &FakeCluster) -> Value {
    cluster.get("Lease", "olm", "lease").unwrap()["spec"].clone()
}

fn is_lease_write(request: &Request) -> bool {
    request.kind.kind == "Lease" && request.verb.writes()
}

async fn seconds(seconds: u32) {
    tokio::time::sleep(SECOND * seconds).await;
}

/// Waits until `gate` is open and returns the time it took.
async fn opened(gate: &WriteGate) -> Duration {
    let began = Instant::now();
    while !gate.is_open() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    began.elapsed()
}

#[tokio::test(start_paused = true)]
async fn one_leads_and_the_other_stands_by_and_takes_over_when_that_is_killed() {
    let cluster = cluster();
    let first = Process::start(&cluster, "first");
    seconds(1).await;
    let second = Process::start(&cluster, "second");
    seconds(60).await;
    assert!(first.gate.is_open() && !second.gate.is_open());
    assert_eq!(first.text(), "leader by lease olm/lease");
    assert_eq!(second.text(), "standby: first holds lease olm/lease");
    assert_eq!(spec(&cluster)["leaseTransitions"], 0);
    assert_eq!(spec(&cluster)["leaseDurationSeconds"], 15);
    first.running.abort();
    let took = opened(&second.gate).await;
    assert!(took >= SECOND * 13 && took < SECOND * 18, "{took:?}");
    assert!(!first.gate.is_open(), "though nobody shut it");
    assert_eq!(spec(&cluster)["holderIdentity"], "second");
    assert_eq!(spec(&cluster)["leaseTransitions"], 1);
    assert!(spec(&cluster)["acquireTime"].is_string());
}

/// The standby writes nothing and reads only the Lease.
#[tokio::test(start_paused = true)]
async fn a_standby_reads_every_two_seconds_and_writes_nothing() {
    let cluster = cluster();
    let _leader = Process::start(&cluster, "first");
    seconds(1).await;
    let before = cluster.take_log();
    assert_eq!(before.counts[&("create", "Lease".to_owned())], 1);
    let _standby = Process::start(&cluster, "second");
    seconds(60).await;
    let counts = cluster.take_log().counts;
    assert_eq!(counts.len(), 2, "{counts:?}");
    for verb in ["get", "update"] {
        let count = counts[&(verb, "Lease".to_owned())];
        assert!((29..=31).contains(&count), "{counts:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_leader_without_responses_closes_its_gate_before_another_leads_and_then_exits() {
    let cluster = cluster();
    let first = Process::start(&cluster, "first");
    seconds(1).await;
    let second = Process::start(&cluster, "second");
    let cut_off = Arc::new(AtomicBool::new(false));
    let is_cut_off = Arc::clone(&cut_off);
    cluster.on_request(move |request| {
        let of_first = request.body["spec"]["holderIdentity"] == "first";
        (of_first && is_cut_off.load(Ordering::SeqCst)).then_some(Fault::Hang)
    });
    seconds(10).await;
    cut_off.store(true, Ordering::SeqCst);
    let began = Instant::now();
    while first.gate.is_open() {
        seconds(1).await;
    }
    assert!(began.elapsed() <= SECOND * 11);
    assert!(!second.gate.is_open());
    opened(&second.gate).await;
    assert!(began.elapsed() < SECOND * 18);
    cut_off.store(false, Ordering::SeqCst);
    assert_eq!(first.running.await.unwrap(), Loss::Taken("second".to_owned()));
    assert!(!first.gate.is_open());
}

/// `kubectl edit lease` by a user: nothing is written any more once the change is seen.
#[tokio::test(start_paused = true)]
async fn a_leader_who_is_put_out_shuts_its_gate_though_its_time_is_not_over() {
    let cluster = cluster();
    let first = Process::start(&cluster, "first");
    seconds(5).await;
    cluster.edit("Lease", "olm", "lease", &json!({"spec": {"holderIdentity": ""}}));
    assert_eq!(first.running.await.unwrap(), Loss::TakenAway);
    assert!(!first.gate.is_open());
}

/// SIGSTOP and SIGCONT: no task runs, and then all do. The gate is shut without any of them running first.
#[tokio::test(start_paused = true)]
async fn a_leader_that_wakes_after_its_lease_writes_nothing() {
    let cluster = cluster();
    let mut first = elector(&cluster, "first");
    first.acquire().await.unwrap();
    let second = Process::start(&cluster, "second");
    opened(&second.gate).await;
    assert!(!first.gate().is_open());
    assert_eq!(first.renew().await, Loss::Taken("second".to_owned()));
    assert!(!first.gate().is_open());
    assert_eq!(spec(&cluster)["holderIdentity"], "second");
}

/// A single replica without answers for a minute waits, and continues without a restart.
#[tokio::test(start_paused = true)]
async fn a_lone_leader_survives_an_api_server_that_does_not_answer() {
    let cluster = cluster();
    let lone = Process::start(&cluster, "first");
    seconds(1).await;
    let is_away = Arc::new(AtomicBool::new(true));
    let away = Arc::clone(&is_away);
    cluster.on_request(move |_| away.load(Ordering::SeqCst).then_some(Fault::Hang));
    seconds(60).await;
    assert!(!lone.gate.is_open());
    assert!(
        lone.text().starts_with("waiting to renew lease olm/lease"),
        "{}",
        lone.text()
    );
    assert!(!lone.running.is_finished());
    is_away.store(false, Ordering::SeqCst);
    seconds(10).await;
    assert!(lone.gate.is_open() && !lone.running.is_finished());
    assert_eq!(spec(&cluster)["leaseTransitions"], 0);
}

#[tokio::test(start_paused = true)]
async fn a_renewal_without_an_answer_loses_nothing() {
    let cluster = cluster();
    let first = Process::start(&cluster, "first");
    seconds(1).await;
    let number = AtomicUsize::new(0);
    cluster.on_request(move |request| {
        let is_third = || number.fetch_add(1, Ordering::SeqCst).is_multiple_of(3);
        (is_lease_write(request) && is_third()).then_some(Fault::LoseAnswer)
    });
    for _ in 0..100 {
        seconds(1).await;
        assert!(first.gate.is_open());
    }
    assert!(first.text().starts_with("leader by"), "{}", first.text());
}

#[tokio::test(start_paused = true)]
async fn a_process_that_cannot_read_the_lease_is_not_ready_and_reports_it() {
    let cluster = cluster();
    cluster.on_request(|request| {
        let refusal = || Fault::Refuse(Refusal::new(403, "Forbidden", "leases is forbidden"));
        (request.kind.kind == "Lease").then(refusal)
    });
    let process = Process::start(&cluster, "first");
    assert!(process.leadership.readiness().is_err());
    seconds(5).await;
    let text = process.leadership.readiness().unwrap_err();
    assert!(
        text.contains("olm/lease") && text.contains("leases is forbidden"),
        "{text}"
    );
}

#[tokio::test(start_paused = true)]
async fn the_leader_is_reported_as_a_metric() {
    let metrics = Metrics::registered();
    let cluster = cluster();
    let first = Process::start(&cluster, "first");
    first.leadership.count_in(&metrics);
    let line = |figure: u8| format!("leader_election_master_status{{name=\"lease\"}} {figure}\n");
    assert!(metrics.text().unwrap().contains(&line(0)));
    opened(&first.gate).await;
    assert!(metrics.text().unwrap().contains(&line(1)));
    first.running.abort();
    seconds(10).await;
    assert!(metrics.text().unwrap().contains(&line(0)), "by the clock alone");
    Leadership::default().count_in(&metrics);
    assert_eq!(Leadership::default().readiness(), Ok(None));
}

#[test]
fn no_two_processes_have_one_name() {
    let name = || Candidacy::new(NamespacedName::new("olm", "lease"), LeaseTimes::default()).identity;
    assert_ne!(name(), name());
}
