//! Keys that keep writing are slowed down, and no others.

use super::*;

/// Writers that never end because each requeues itself. They write their own status, an object that never becomes what was applied, an
/// object that two keys want differently, and ever new objects.
fn endless_writers() -> Vec<(&'static str, Vec<&'static str>, Decide, Decide)> {
    let shared = || patch(Target::of::<ConfigMap>("ns", "shared"), None);
    let fresh = AtomicU64::new(0);
    vec![
        (
            "a status that says something else each time",
            vec!["a"],
            nothing(),
            Box::new(|name| writes(vec![status_of(name)])),
        ),
        (
            "a policy takes back what is applied",
            vec!["a"],
            Box::new(|name| writes(vec![patch(Target::of::<Deployment>("ns", name), None)])),
            Box::new(|name| writes(vec![status_of(name)])),
        ),
        (
            "two keys apply each its own form of one object",
            vec!["a", "b"],
            Box::new(move |_| writes(vec![shared()])),
            nothing(),
        ),
        (
            "ever new objects",
            vec!["a"],
            Box::new(move |_| {
                let name = fresh.fetch_add(1, Ordering::Relaxed).to_string();
                writes(vec![patch(Target::of::<ConfigMap>("ns", &name), None)])
            }),
            nothing(),
        ),
    ]
}

#[tokio::test(start_paused = true)]
async fn a_key_that_keeps_writing_slows_down_whatever_makes_it_write() {
    for (what, names, decide, status) in endless_writers() {
        let keys = names.len() as u64;
        let env = TestEnv::new(&names, decide, status);
        minutes(10).await;
        let before = env.rounds();
        minutes(60).await;
        let rounds = env.rounds() - before;
        // One in ten seconds.
        assert!(rounds <= 362 * keys, "{what}: {rounds} rounds an hour");
        assert!(
            rounds >= 350 * keys,
            "{what}: {rounds} rounds an hour, it must go on"
        );
        assert!(before <= 370 * keys, "{what}: {before} rounds before");
        let told = vec![reason::SLOWED_DOWN.to_owned(); names.len()];
        assert_eq!(env.events(), told, "{what}");
        assert!(env.paused() >= rounds, "{what}");
    }
}

#[tokio::test(start_paused = true)]
async fn honest_progress_is_not_slowed_down() {
    let left = AtomicU64::new(200);
    let decide: Decide = Box::new(move |name| {
        let more = left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1));
        writes(more.map(|_| status_of(name)).into_iter().collect())
    });
    let env = TestEnv::new(&["a"], decide, nothing());
    minutes(1).await;
    let patches = env.patches();
    assert_eq!(patches.len(), 200);
    assert_eq!(patches[199].1, patches[0].1);
    assert_eq!(env.paused(), 0);
}

/// A rollout of many Deployments is reported in as many statuses, without any conflict.
#[tokio::test(start_paused = true)]
async fn a_long_rollout_is_neither_slowed_down_nor_reported() {
    const CHANGES: u64 = 30;
    let ready = Arc::new(AtomicU64::new(0));
    let (seen, told) = (Arc::clone(&ready), AtomicU64::new(0));
    let status: Decide = Box::new(move |name| {
        let now = seen.load(Ordering::Relaxed);
        let is_news = told.swap(now, Ordering::Relaxed) != now;
        writes(is_news.then(|| status_of(name)).into_iter().collect())
    });
    let env = TestEnv::new(&["a"], nothing(), status);
    for change in 1..=CHANGES {
        tokio::time::sleep(Duration::from_secs(2)).await;
        ready.store(change, Ordering::Relaxed);
        // A status change of another object requeues the key but requests nothing.
        env.queue.add(key("a"));
        tokio::time::sleep(Duration::from_millis(10)).await;
        assert_eq!(env.patches().len() as u64, change, "told at once");
    }
    assert_eq!(env.paused(), 0);
    assert_eq!(env.events(), Vec::<String>::new());
}
