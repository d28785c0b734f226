//! Tests of watches and their users, with a minimal server, on a paused clock.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};

use k8s_openapi::api::core::v1::ConfigMap;
use kube::client::Body;
use kube::core::DynamicObject;
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::*;
use crate::store::{StoreSet, StoreSetHandle};

/// Projection of a ConfigMap: one of its texts.
#[derive(Debug, Clone)]
struct Text(String);

impl Projection for Text {
    type Object = DynamicObject;

    fn of(object: DynamicObject) -> Self {
        let text = object.data["data"]["text"].as_str();
        Self(text.unwrap_or_default().to_owned())
    }
}

/// Requests that the server received.
#[derive(Default)]
struct Asked {
    /// Path and query of each list.
    lists: Mutex<Vec<String>>,
    /// Number of watches with an open connection.
    open: AtomicUsize,
}

struct Connection(Arc<Asked>);

impl Drop for Connection {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::SeqCst);
    }
}

fn object(namespace: &str, name: &str, version: u64, text: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"namespace": namespace, "name": name, "uid": name, "resourceVersion": version.to_string()},
        "data": {"text": text, "more": "that nobody reads"},
    })
}

/// Returns a client of a server with a ConfigMap `a` in every namespace, whose watches send no events.
fn client(asked: &Arc<Asked>) -> Client {
    let asked = Arc::clone(asked);
    let service = tower::service_fn(move |request: http::Request<Body>| {
        let asked = Arc::clone(&asked);
        async move {
            let (path, query) = (request.uri().path(), request.uri().query().unwrap_or_default());
            if query.contains("watch=true") {
                asked.open.fetch_add(1, Ordering::SeqCst);
                let _connection = Connection(asked);
                return std::future::pending().await;
            }
            asked.lists.lock().push(format!("{path}?{query}"));
            let namespace = path.split('/').nth(4).unwrap_or("all");
            let list = json!({
                "apiVersion": "v1", "kind": "ConfigMapList", "metadata": {"resourceVersion": "3"},
                "items": [object(namespace, "a", 1, "listed")],
            });
            Ok::<_, std::io::Error>(http::Response::new(Body::from(list.to_string().into_bytes())))
        }
    });
    Client::new(service, "default")
}

struct Bench {
    asked: Arc<Asked>,
    watches: OnDemand<Text>,
    handle: StoreSetHandle,
    heard: Arc<Mutex<Vec<String>>>,
}

impl Bench {
    fn new() -> Self {
        let asked = Arc::<Asked>::default();
        let set = StoreSet::new().with_metrics(Metrics::registered());
        let watches: OnDemand<Text> = set.on_demand(&client(&asked));
        let heard = Arc::<Mutex<Vec<String>>>::default();
        let log = Arc::clone(&heard);
        watches.on_change(move |scope, change| {
            let namespace = scope.namespace.as_deref().unwrap_or("all");
            log.lock().push(format!("{namespace}: {}", change.object().0));
        });
        Self {
            asked,
            watches,
            handle: set.start(&mut JoinSet::new()),
            heard,
        }
    }

    fn open(&self) -> usize {
        self.asked.open.load(Ordering::SeqCst)
    }

    fn lists(&self) -> usize {
        self.asked.lists.lock().len()
    }

    fn objects_told(&self) -> bool {
        let text = self.handle.metrics().text().unwrap();
        text.contains("olm_store_objects{resource=\"configmaps.\"}")
    }
}

fn scope(namespace: &str) -> Scope {
    Scope {
        api: ApiResource::erase::<ConfigMap>(&()),
        namespace: Some(namespace.to_owned()),
        name: None,
        label: None,
    }
}

async fn pass(time: Duration) {
    tokio::time::sleep(time).await;
}

const MOMENT: Duration = Duration::from_millis(10);

#[tokio::test(start_paused = true)]
async fn users_share_a_watch_that_goes_on_for_a_while_after_the_last_of_them() {
    let bench = Bench::new();
    let first = bench.watches.user(&scope("ns"));
    first.ready().await;
    let second = bench.watches.user(&scope("ns"));
    pass(MOMENT).await;
    assert_eq!((bench.lists(), bench.open()), (1, 1));
    assert_eq!(second.store().get("ns", "a").unwrap().0, "listed");
    drop(first);
    pass(LINGER * 60).await;
    assert_eq!(bench.open(), 1, "somebody needs it");
    drop(second);
    pass(LINGER / 2).await;
    assert_eq!(bench.open(), 1);
    let third = bench.watches.user(&scope("ns"));
    assert!(third.store().is_ready(), "it was there all the while");
    pass(LINGER * 60).await;
    assert_eq!((bench.lists(), bench.open()), (1, 1));
    // A short use later does not shorten the linger time.
    drop(third);
    pass(LINGER - MOMENT).await;
    drop(bench.watches.user(&scope("ns")));
    pass(LINGER - MOMENT).await;
    assert_eq!(bench.open(), 1);
    pass(MOMENT * 2).await;
    assert_eq!(bench.open(), 0);
    let back = bench.watches.user(&scope("ns"));
    assert!(!back.store().is_ready());
    back.ready().await;
    assert_eq!(bench.lists(), 2);
}

#[tokio::test(start_paused = true)]
async fn nothing_is_left_of_a_watch_that_has_ended() {
    let bench = Bench::new();
    let user = bench.watches.user(&scope("ns"));
    user.ready().await;
    let store = Arc::downgrade(&user.store().shared);
    assert!(bench.objects_told());
    drop(user);
    pass(LINGER + MOMENT).await;
    assert!(store.upgrade().is_none(), "the memory is given back");
    assert!(bench.watches.shared.running.lock().is_empty());
    assert!(!bench.objects_told());
    let heard = bench.heard.lock().len();
    bench.handle.absorb(&object("ns", "a", 9, "written"));
    assert_eq!(bench.heard.lock().len(), heard);
}

#[tokio::test(start_paused = true)]
async fn a_scope_is_a_namespace_or_one_object() {
    let bench = Bench::new();
    let one = Scope {
        name: Some("a".to_owned()),
        ..scope("ns")
    };
    let all = Scope {
        namespace: None,
        ..scope("")
    };
    let users = [&scope("ns"), &one, &all].map(|scope| bench.watches.user(scope));
    for user in &users {
        user.ready().await;
    }
    let mut lists = bench.asked.lists.lock().clone();
    lists.sort();
    let paths: Vec<&str> = lists.iter().filter_map(|list| list.split('?').next()).collect();
    let in_namespace = "/api/v1/namespaces/ns/configmaps";
    assert_eq!(paths, ["/api/v1/configmaps", in_namespace, in_namespace]);
    let by_name = |list: &&String| list.contains("fieldSelector=metadata.name%3Da");
    assert_eq!(lists.iter().filter(by_name).count(), 1, "{lists:?}");
}

/// The result of one of our writes is in the stores whose scope includes it, and in no other.
#[tokio::test(start_paused = true)]
async fn our_own_writes_are_in_at_once_where_they_belong() {
    let bench = Bench::new();
    let one = Scope {
        name: Some("a".to_owned()),
        ..scope("ns")
    };
    let [namespace, one, other] =
        [&scope("ns"), &one, &scope("other")].map(|scope| bench.watches.user(scope));
    for user in [&namespace, &one, &other] {
        user.ready().await;
    }
    bench.heard.lock().clear();
    bench.handle.absorb(&object("ns", "a", 9, "written"));
    bench.handle.absorb(&object("ns", "b", 10, "made"));
    let text = |user: &WatchUser<Text>, name| user.store().get("ns", name).map(|kept| kept.0.clone());
    assert_eq!(text(&namespace, "a").as_deref(), Some("written"));
    assert_eq!(text(&one, "a").as_deref(), Some("written"));
    assert_eq!(text(&namespace, "b").as_deref(), Some("made"));
    assert_eq!(text(&one, "b"), None);
    assert_eq!(other.store().list().len(), 1);
    let heard = bench.heard.lock().clone();
    assert_eq!(heard, ["ns: written", "ns: written", "ns: made"]);
    let kept = namespace.store().get("ns", "a").unwrap();
    assert_eq!(
        (kept.uid(), kept.resource_version().as_deref()),
        (Some("a".to_owned()), Some("9"))
    );
}

/// With users created and dropped at random, a watch exists exactly while it has users, and for the linger time.
#[tokio::test(start_paused = true)]
async fn a_watch_is_there_exactly_as_long_as_it_is_needed() {
    const NAMESPACES: [&str; 3] = ["one", "two", "three"];
    let bench = Bench::new();
    let mut random = crate::store::properties::Random::new("users of watches come and go");
    let mut users: BTreeMap<&str, Vec<WatchUser<Text>>> = BTreeMap::new();
    let mut left: BTreeMap<&str, Instant> = BTreeMap::new();
    for _ in 0..2_000 {
        let namespace = NAMESPACES[random.below(NAMESPACES.len())];
        let present = users.entry(namespace).or_default();
        if random.one_in(2) {
            present.push(bench.watches.user(&scope(namespace)));
        } else if present.pop().is_some() && present.is_empty() {
            left.insert(namespace, Instant::now());
        }
        // Time never advances to exactly the end of a linger time.
        let seconds = u64::try_from(random.below(50)).unwrap();
        pass(Duration::from_secs(seconds) + MOMENT).await;
        let is_needed = |namespace: &&&str| {
            let has_users = users.get(**namespace).is_some_and(|present| !present.is_empty());
            has_users || left.get(**namespace).is_some_and(|at| at.elapsed() < LINGER)
        };
        let needed = NAMESPACES.iter().filter(is_needed).count();
        assert_eq!(bench.open(), needed);
        assert_eq!(bench.watches.shared.running.lock().len(), needed);
    }
}
