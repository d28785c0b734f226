//! Keys that keep writing are slowed down, and nobody else.

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
async fn a_key_that_keeps_writing_slows_down_to_the_ceiling_whatever_makes_it_write() {
    for (what, names, decide, status) in endless_writers() {
        let keys = names.len() as u64;
        let env = TestEnv::new(&names, decide, status);
        minutes(10).await;
        let before = env.rounds();
        minutes(60).await;
        let rounds = env.rounds() - before;
        assert!(rounds <= 65 * keys, "{what}: {rounds} rounds an hour");
        assert!(
            rounds >= 50 * keys,
            "{what}: {rounds} rounds an hour, it must go on"
        );
        // Status writes are free for longer.
        assert!(before <= 80 * keys, "{what}: {before} rounds before");
        let told = vec![reason::SLOWED_DOWN.to_owned(); names.len()];
        assert_eq!(env.events(), told, "{what}");
        assert!(env.paused() >= rounds, "{what}");
    }
}

#[tokio::test(start_paused = true)]
async fn honest_progress_is_not_slowed_down() {
    let left = AtomicU64::new(10);
    let decide: Decide = Box::new(move |name| {
        let more = left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1));
        writes(more.map(|_| status_of(name)).into_iter().collect())
    });
    let env = TestEnv::new(&["a"], decide, nothing());
    minutes(1).await;
    let patches = env.patches();
    assert_eq!(patches.len(), 10);
    assert_eq!(patches[9].1, patches[0].1);
    assert_eq!(env.paused(), 0);
}

/// A status written by another client answers ours and does not release the key. A new spec of the key's own object, or a foreign object,
/// is reconciled at once.
#[tokio::test(start_paused = true)]
async fn who_wants_something_new_is_served_at_once_though_the_key_is_held_back() {
    let env = TestEnv::new(&["a"], nothing(), Box::new(|name| writes(vec![status_of(name)])));
    // Another client's write, first on the server and then in the store, as the watch would report it.
    let told = |generation: i64| {
        let mut server = env.server.lock();
        server.version += 1;
        server
            .generations
            .insert("/apis/apps/v1/namespaces/ns/deployments/a".to_owned(), generation);
        let object = deployment("a", server.version, generation);
        drop(server);
        env.deployments.put(object);
    };
    let foreign = || {
        let object =
            json!({"metadata": {"namespace": "ns", "name": "new", "uid": "new", "resourceVersion": "5"}});
        env.config_maps.put(serde_json::from_value(object).unwrap());
    };
    let table: [(&str, bool, &dyn Fn()); 3] = [
        ("another's status on the same object", false, &|| told(1)),
        ("a new spec", true, &|| told(2)),
        ("a new object", true, &foreign),
    ];
    for (what, at_once, happens) in table {
        minutes(30).await;
        // Right after a reconcile, so that the next one is a minute away.
        let before = env.rounds();
        while env.rounds() == before {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        let held = env.rounds();
        happens();
        tokio::time::sleep(Duration::from_millis(10)).await;
        assert_eq!(env.rounds() > held, at_once, "{what}");
    }
}

/// A rollout of many Deployments is reported in as many statuses, without any conflict.
#[tokio::test(start_paused = true)]
async fn a_long_rollout_is_neither_slowed_down_nor_told() {
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

/// A status patch requests nothing. So a new spec that arrives during the same reconcile, or later, is the user's.
#[tokio::test(start_paused = true)]
async fn an_edit_during_a_round_that_writes_status_is_not_taken_for_the_keys_own() {
    type Editor = Arc<std::sync::OnceLock<Box<dyn Fn() + Send + Sync>>>;
    let editor = Editor::default();
    let edits = Arc::new(AtomicU64::new(0));
    let (edit, wanted) = (Arc::clone(&editor), Arc::clone(&edits));
    let status: Decide = Box::new(move |name| {
        if wanted.swap(0, Ordering::Relaxed) > 0
            && let Some(edit) = edit.get()
        {
            edit();
        }
        writes(vec![status_of(name)])
    });
    let env = TestEnv::new(&["a"], nothing(), status);
    let (server, store) = (Arc::clone(&env.server), env.deployments.clone());
    let new_spec = move || {
        let mut server = server.lock();
        server.version += 1;
        let version = server.version;
        let path = "/apis/apps/v1/namespaces/ns/deployments/a".to_owned();
        let generation = server.generations.entry(path).or_insert(1);
        *generation += 1;
        let object = deployment("a", version, *generation);
        drop(server);
        store.put(object);
    };
    assert!(editor.set(Box::new(new_spec.clone())).is_ok());
    minutes(30).await;
    edits.store(1, Ordering::Relaxed);
    // The reconcile during which the edit happens, and the following series.
    minutes(30).await;
    let before = env.rounds();
    while env.rounds() == before {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let held = env.rounds();
    new_spec();
    tokio::time::sleep(Duration::from_millis(10)).await;
    assert!(env.rounds() > held, "a later edit is served at once");
}
