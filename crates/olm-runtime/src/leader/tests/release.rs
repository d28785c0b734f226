//! Tests of releasing the Lease at shutdown.

use super::*;
use crate::written::Written;

#[tokio::test(start_paused = true)]
async fn a_lease_that_is_given_back_is_taken_within_a_retry_period() {
    let cluster = cluster();
    let mut first = elector(&cluster, "first");
    first.acquire().await.unwrap();
    let second = Process::start(&cluster, "second");
    seconds(5).await;
    let began = Instant::now();
    first.release().await;
    assert!(!first.gate().is_open());
    assert_eq!(spec(&cluster)["holderIdentity"], "");
    opened(&second.gate).await;
    assert!(began.elapsed() < SECOND * 4, "{:?}", began.elapsed());
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
async fn a_lease_that_cannot_be_released_is_reported() {
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
