use super::*;

/// Runs `add` during a change that requests something new of an object with this name.
fn requested(name: &str, add: impl FnOnce()) {
    use k8s_openapi::api::core::v1::ConfigMap;
    let mut object = ConfigMap::default();
    object.metadata.name = Some(name.to_owned());
    let change = crate::store::Change::Applied {
        old: None,
        new: Arc::new(object),
    };
    let kind = kube::core::GroupVersionKind::gvk("", "v1", "ConfigMap");
    let _cause = wake::because_of(&kind, &change);
    add();
}

fn written() -> Written {
    Written {
        extent: crate::brake::Extent::More,
        objects: Vec::new(),
    }
}

/// The first request is the trigger; a request during a reconcile is the trigger of the next.
#[tokio::test(start_paused = true)]
async fn what_asked_for_a_round_is_known_in_it() {
    let queue = Queue::new();
    let trigger = |key| queue.trigger(&key).map(|object| object.key.name.clone());
    requested("one", || queue.add("a"));
    requested("two", || queue.add("a"));
    queue.add("b");
    assert_eq!((queue.next().await, queue.next().await), ("a", "b"));
    assert_eq!((trigger("a").as_deref(), trigger("b")), (Some("one"), None));
    requested("three", || queue.add("a"));
    queue.done(&"a");
    queue.done(&"b");
    assert_eq!(queue.next().await, "a");
    assert_eq!(trigger("a").as_deref(), Some("three"));
    queue.done(&"a");
    assert!(queue.shared.state.lock().triggers.is_empty());
}

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
async fn the_end_of_a_round_wakes_who_waits() {
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
    let written = written();
    let start = Instant::now();
    queue.add("a");
    for round in 0..100 {
        let key = queue.next().await;
        queue.add(key);
        queue.done_writing(&key, &written);
        queue.add(key);
        queue.add_after(key, Duration::from_millis(1));
        if round == 9 {
            assert_eq!(start.elapsed(), Duration::ZERO, "progress is not held up");
        }
    }
    let first = start.elapsed();
    assert!(first > Duration::from_secs(70 * 60), "{first:?}");
    // A key that writes nothing is not delayed.
    queue.add("b");
    assert_eq!(queue.next().await, "b");
    assert_eq!(start.elapsed(), first);
}

/// Tens of thousands of keys may each write once, and never again.
#[tokio::test(start_paused = true)]
async fn keys_at_rest_are_forgotten_by_a_queue_at_rest() {
    let queue = Queue::new();
    let written = written();
    for key in 0..1000 {
        queue.add(key);
        queue.next().await;
        queue.done_writing(&key, &written);
    }
    let mut rests = 0;
    while queue.shared.state.lock().brake.tidy_at().is_some() && rests < 10 {
        let nothing = tokio::time::timeout(Duration::from_secs(60), queue.next()).await;
        assert!(nothing.is_err(), "{nothing:?}");
        rests += 1;
    }
    assert!((2..=3).contains(&rests), "{rests} minutes");
    // No timer is left.
    assert_eq!(queue.shared.state.lock().take(Instant::now()), Err(None));
}

/// A listener that batches changes adds with a delay; user requests count there as well, during a reconcile and outside.
#[tokio::test(start_paused = true)]
async fn a_request_that_comes_with_a_delay_lets_go_of_a_key_held_back() {
    const GATHER: Duration = Duration::from_millis(50);
    let written = written();
    for is_running in [false, true] {
        let queue = Queue::new();
        queue.add("a");
        for _ in 0..40 {
            let key = queue.next().await;
            queue.done_writing(&key, &written);
            queue.add(key);
        }
        if is_running {
            queue.next().await;
        }
        requested("", || queue.add_after("a", GATHER));
        if is_running {
            queue.done_writing(&"a", &written);
        }
        let start = Instant::now();
        assert_eq!(queue.next().await, "a");
        assert_eq!(start.elapsed(), GATHER, "running: {is_running}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_delay_without_end_is_none() {
    let queue = Queue::new();
    queue.add_after("a", Duration::MAX);
    queue.add_after("b", Duration::from_secs(5));
    assert_eq!(queue.next().await, "b");
}

#[tokio::test(start_paused = true)]
async fn what_falls_due_in_a_round_comes_after_it() {
    let queue = Queue::new();
    queue.add("a");
    assert_eq!(queue.next().await, "a");
    queue.add_after("a", Duration::from_secs(1));
    let early = tokio::time::timeout(Duration::from_secs(2), queue.next()).await;
    assert!(early.is_err());
    queue.done(&"a");
    assert_eq!(queue.next().await, "a");
}
