//! Tests of a first read without an answer, and of releasing the Lease at shutdown.

use super::*;
use crate::written::Written;

#[tokio::test(start_paused = true)]
async fn a_lease_that_is_given_back_is_taken_within_a_retry_period() {
    let cluster = cluster();
    let mut first = elector(&cluster, "first");
    first.acquire().await.unwrap();
    let second = Process::start(&cluster, "second");
    seconds(5).await;
    let permit = first.gate().pass(SECOND * 30).unwrap();
    let (gate, began) = (first.gate().clone(), Instant::now());
    let resigned = tokio::spawn(async move { first.release().await });
    seconds(1).await;
    assert!(!gate.is_open());
    assert_eq!(spec(&cluster)["holderIdentity"], "first", "a write is on its way");
    permit.answered();
    resigned.await.unwrap();
    assert_eq!(spec(&cluster)["holderIdentity"], "");
    opened(&second.gate).await;
    assert!(began.elapsed() < SECOND * 4, "{:?}", began.elapsed());
}

/// A write that the server may still execute must not overlap with writes of the next holder.
#[tokio::test(start_paused = true)]
async fn with_a_write_on_its_way_that_has_no_answer_the_lease_runs_out() {
    let cluster = cluster();
    let mut first = elector(&cluster, "first");
    first.acquire().await.unwrap();
    let second = Process::start(&cluster, "second");
    let permit = first.gate().pass(SECOND * 30).unwrap();
    let over_by = permit.over_by();
    drop(permit);
    first.release().await;
    opened(&second.gate).await;
    assert!(Instant::now() >= over_by);
}

#[tokio::test(start_paused = true)]
async fn a_standby_that_stops_leaves_the_lease_alone() {
    let cluster = cluster();
    let _leader = Process::start(&cluster, "first");
    seconds(1).await;
    let mut standby = elector(&cluster, "second");
    assert!(
        tokio::time::timeout(SECOND * 10, standby.acquire())
            .await
            .is_err()
    );
    cluster.take_log();
    standby.release().await;
    assert!(cluster.take_log().counts.is_empty());
}

/// The log explains why the next process had to wait 15 s.
#[tokio::test(start_paused = true)]
async fn a_lease_that_cannot_be_given_back_is_told_of() {
    for fault in [
        Fault::Refuse(Refusal::new(500, "InternalError", "no")),
        Fault::Hang,
    ] {
        let cluster = cluster();
        let mut first = elector(&cluster, "first");
        first.acquire().await.unwrap();
        cluster.on_request(move |_| Some(fault.clone()));
        let (written, _here) = Written::of_this_thread();
        first.release().await;
        let told = written.count("cannot release the lease, leaving it to expire");
        assert_eq!(told, 1, "{}", written.text());
        assert_eq!(spec(&cluster)["holderIdentity"], "first");
    }
}

/// With long lease times the first read would block everything else for minutes.
#[tokio::test(start_paused = true)]
async fn a_first_look_without_an_answer_is_over_soon_and_nothing_counts_as_free() {
    let cluster = cluster();
    let mut before = elector(&cluster, "before");
    before.acquire().await.unwrap();
    before.release().await;
    cluster.on_request(|_| Some(Fault::Hang));
    let (client, _) = cluster.connect();
    let candidacy = Candidacy {
        lease: NamespacedName::new("olm", "lease"),
        identity: "patient".to_owned(),
        times: LeaseTimes::new(SECOND * 300, SECOND * 240, SECOND * 2).unwrap(),
    };
    let mut elector = Elector::new(client, candidacy);
    let began = Instant::now();
    elector.look().await;
    assert_eq!(began.elapsed().as_secs(), FIRST_LOOK.as_secs());
    let told = elector.leadership().readiness().unwrap_err();
    assert!(told.ends_with("cannot be read: no answer"), "{told}");
    cluster.clear_hooks();
    assert!(
        elector.acquire().await.unwrap(),
        "another may have written meanwhile"
    );
}

/// A process that stops while its claim of the Lease is in progress releases that as well.
#[tokio::test(start_paused = true)]
async fn what_was_claimed_without_an_answer_is_given_back() {
    let cluster = cluster();
    cluster.on_request(|request| (request.verb == Verb::Create).then_some(Fault::LoseAnswer));
    let mut first = elector(&cluster, "first");
    assert!(tokio::time::timeout(SECOND, first.acquire()).await.is_err());
    assert_eq!(spec(&cluster)["holderIdentity"], "first");
    first.release().await;
    assert_eq!(spec(&cluster)["holderIdentity"], "");
}
