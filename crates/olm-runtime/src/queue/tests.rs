use super::*;
use crate::brake::{FREE_ROUNDS, PAUSE};

#[tokio::test(start_paused = true)]
async fn a_key_added_twice_is_handed_out_once() {
    let queue = Queue::new();
    queue.add("a");
    queue.add("a");
    queue.add("b");
    assert_eq!(queue.next().await, "a");
    assert_eq!(queue.next().await, "b");
    assert!(queue.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_key_that_waits_already_gets_no_delay_besides() {
    let queue = Queue::new();
    queue.add("a");
    queue.add_after("a", Duration::from_secs(1));
    assert_eq!(queue.next().await, "a");
    queue.done(&"a");
    let again = tokio::time::timeout(Duration::from_secs(60), queue.next()).await;
    assert!(again.is_err(), "{again:?}");
}

#[tokio::test(start_paused = true)]
async fn a_key_in_work_comes_again_only_after_done() {
    let queue = Queue::new();
    queue.add("a");
    assert_eq!(queue.next().await, "a");
    queue.add("a");
    let early = tokio::time::timeout(Duration::from_secs(1), queue.next()).await;
    assert!(early.is_err());
    queue.done(&"a");
    assert_eq!(queue.next().await, "a");
}

/// Another worker may have requested the key during the reconcile.
#[tokio::test(start_paused = true)]
async fn the_end_of_a_reconcile_wakes_its_waiters() {
    let queue = Queue::new();
    queue.add("a");
    assert_eq!(queue.next().await, "a");
    queue.add("a");
    let waiting = queue.clone();
    let waiter = tokio::spawn(async move { waiting.next().await });
    tokio::task::yield_now().await;
    queue.done(&"a");
    let next = tokio::time::timeout(Duration::from_secs(1), waiter).await;
    assert_eq!(next.unwrap().unwrap(), "a");
}

#[tokio::test(start_paused = true)]
async fn the_sooner_delay_wins_and_add_overrides_it() {
    let queue = Queue::new();
    let start = Instant::now();
    queue.add_after("a", Duration::from_secs(10));
    queue.add_after("a", Duration::from_secs(2));
    queue.add_after("a", Duration::from_secs(5));
    assert_eq!(queue.next().await, "a");
    assert_eq!(start.elapsed().as_secs(), 2);
    queue.done(&"a");
    queue.add_after("a", Duration::from_secs(10));
    queue.add("a");
    assert_eq!(queue.next().await, "a");
    assert_eq!(start.elapsed().as_secs(), 2);
}

/// Two hundred keys of one class were added first; the others wait for only one of them each.
#[tokio::test(start_paused = true)]
async fn classes_take_turns_whatever_one_of_them_adds() {
    let queue = Queue::fair(|key: &(&str, u32)| key.0, 1);
    for number in 0..200 {
        queue.add(("noisy", number));
    }
    queue.add(("b", 0));
    queue.add(("c", 0));
    queue.add(("b", 1));
    let mut order = Vec::new();
    for _ in 0..6 {
        let key = queue.next().await;
        order.push(key);
        queue.done(&key);
        // Failing keys are added again at once.
        queue.add(key);
    }
    assert_eq!(
        order,
        [("noisy", 0), ("b", 0), ("c", 0), ("noisy", 1), ("b", 1), ("c", 0)]
    );
}

#[tokio::test(start_paused = true)]
async fn a_class_is_never_handed_to_more_workers_than_its_share() {
    let queue = Queue::fair(|key: &(&str, u32)| key.0, 2);
    for number in 0..10 {
        queue.add(("noisy", number));
    }
    let first = queue.next().await;
    queue.next().await;
    let third = tokio::time::timeout(Duration::from_secs(1), queue.next()).await;
    assert!(third.is_err(), "{third:?}");
    queue.add(("b", 0));
    assert_eq!(queue.next().await, ("b", 0));
    queue.done(&first);
    assert_eq!(queue.next().await, ("noisy", 2));
    assert_eq!(queue.len(), 7);
}

#[tokio::test(start_paused = true)]
async fn a_key_that_writes_on_and_on_is_held_back_however_it_is_added() {
    let queue = Queue::new();
    let start = Instant::now();
    queue.add("a");
    for round in 1..=FREE_ROUNDS + 100 {
        let key = queue.next().await;
        queue.add(key);
        queue.done_writing(&key);
        queue.add(key);
        queue.add_after(key, Duration::from_millis(1));
        if round == FREE_ROUNDS {
            assert_eq!(start.elapsed(), Duration::ZERO, "progress is not held up");
        }
    }
    let held_up = start.elapsed();
    assert_eq!(held_up, 99 * PAUSE);
    // A key that writes nothing is not delayed.
    queue.add("b");
    assert_eq!(queue.next().await, "b");
    assert_eq!(start.elapsed(), held_up);
}

#[tokio::test(start_paused = true)]
async fn a_delay_without_end_is_none() {
    let queue = Queue::new();
    queue.add_after("a", Duration::MAX);
    queue.add_after("b", Duration::from_secs(5));
    assert_eq!(queue.next().await, "b");
}

#[tokio::test(start_paused = true)]
async fn keys_due_during_a_reconcile_follow_it() {
    let queue = Queue::new();
    queue.add("a");
    assert_eq!(queue.next().await, "a");
    queue.add_after("a", Duration::from_secs(1));
    let early = tokio::time::timeout(Duration::from_secs(2), queue.next()).await;
    assert!(early.is_err());
    queue.done(&"a");
    assert_eq!(queue.next().await, "a");
}
