//! Tests of when a key is requeued.

use super::*;

fn later(seconds: u64) -> Requeue {
    Requeue::After {
        delay: Duration::from_secs(seconds),
        reason: "a test",
    }
}

fn asking(requeue: Requeue) -> Decide {
    Box::new(move |_| Plan {
        requeue,
        ..Plan::default()
    })
}

async fn seconds(count: u64) {
    tokio::time::sleep(Duration::from_secs(count)).await;
}

#[tokio::test(start_paused = true)]
async fn a_requeue_brings_the_key_back_and_the_sooner_one_counts() {
    let table = [
        (later(10), Requeue::AwaitChange),
        (Requeue::AwaitChange, later(10)),
        (later(10), later(60)),
        (later(60), later(10)),
    ];
    for (of_decide, of_status) in table {
        let env = TestEnv::new(&["a"], asking(of_decide), asking(of_status));
        seconds(35).await;
        assert_eq!(env.rounds(), 4, "{of_decide:?} {of_status:?}");
    }
}

/// An earlier series of failures does not delay the next retry.
#[tokio::test(start_paused = true)]
async fn what_settles_a_key_resets_its_backoff() {
    for settled in [Requeue::AwaitChange, later(100_000)] {
        let env = TestEnv::new(&["a"], asking(settled), nothing());
        let observes = |what| *env.writer.observes.lock() = what;
        observes(Observes::Error);
        minutes(30).await;
        observes(Observes::Something);
        env.queue.add(key("a"));
        seconds(1).await;
        observes(Observes::Error);
        let before = env.rounds();
        env.queue.add(key("a"));
        tokio::time::sleep(FIRST_BACKOFF * 4).await;
        assert_eq!(env.rounds() - before, 3, "{settled:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_controller_counts_as_working_after_its_first_successful_reconcile() {
    let env = TestEnv::new(&["a"], nothing(), nothing());
    let told = Arc::<AtomicUsize>::default();
    let listen = || {
        let count = Arc::clone(&told);
        env.first_rounds.on_first_of::<Writer>(move || {
            count.fetch_add(1, Ordering::SeqCst);
        });
    };
    let has_worked = || {
        (
            env.first_rounds.has_one_of::<Writer>(),
            told.load(Ordering::SeqCst),
        )
    };
    listen();
    let observes = |what| *env.writer.observes.lock() = what;
    for nothing_done in [Observes::Error, Observes::Nothing] {
        observes(nothing_done);
        minutes(2).await;
        env.queue.add(key("a"));
        seconds(1).await;
        assert_eq!(has_worked(), (false, 0));
    }
    observes(Observes::Something);
    for _ in 0..2 {
        env.queue.add(key("a"));
        seconds(1).await;
        assert_eq!(has_worked(), (true, 1));
    }
    listen();
    seconds(1).await;
    assert_eq!(has_worked(), (true, 2));
}

#[tokio::test(start_paused = true)]
async fn a_write_that_is_refused_is_repeated_as_its_controller_wants() {
    for (forbids, first) in [(true, Duration::from_secs(2)), (false, FIRST_BACKOFF)] {
        let env = TestEnv::new(&["a"], Box::new(|name| writes(vec![status_of(name)])), nothing());
        {
            let mut server = env.server.lock();
            (server.forbids, server.refuses) = (forbids, !forbids);
        }
        minutes(10).await;
        let patches = env.patches();
        let pause = |index: usize| patches[index + 1].1 - patches[index].1;
        assert_eq!(pause(0), first, "forbidden: {forbids}");
        assert_eq!(pause(1), 2 * first, "forbidden: {forbids}");
        assert_eq!(pause(patches.len() - 2), LONGEST_BACKOFF, "forbidden: {forbids}");
    }
}

/// A refused status is written by a later reconcile; the status of a deleted object is not needed.
#[tokio::test(start_paused = true)]
async fn a_refused_status_is_a_failed_reconcile_unless_its_object_is_gone() {
    let path = "/apis/apps/v1/namespaces/ns/deployments/a/status";
    for is_gone in [false, true] {
        let env = TestEnv::new(&[], nothing(), Box::new(|name| writes(vec![status_of(name)])));
        if is_gone {
            env.server.lock().missing = Some(path);
        } else {
            env.server.lock().refused = Some(path);
        }
        env.queue.add(key("a"));
        minutes(1).await;
        assert_eq!(env.failed() > 0, !is_gone, "gone: {is_gone}");
        assert_eq!(env.rounds() > 1, !is_gone, "gone: {is_gone}");
    }
}
