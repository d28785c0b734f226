//! Which objects are watched, for how long, and how many.

use std::time::Duration;

use olm_testing::cluster::{FakeCluster, Link};
use serde_json::json;

use super::*;
use crate::step_kind::StepKind;

struct Rig {
    previewed: Previewed,
    cluster: FakeCluster,
    woken: Arc<Mutex<Vec<String>>>,
    _link: Link,
}

fn plan(namespace: &str, number: usize) -> NamespacedName {
    NamespacedName::new(namespace, format!("install-{number}"))
}

fn account(name: &str) -> PreviewedObject {
    PreviewedObject {
        kind: StepKind::ServiceAccount,
        name: name.to_owned(),
        was_there: false,
    }
}

fn accounts(prefix: &str, count: usize) -> Vec<PreviewedObject> {
    (0..count)
        .map(|number| account(&format!("{prefix}-{number}")))
        .collect()
}

impl Rig {
    fn new() -> Self {
        let cluster = FakeCluster::new();
        let (client, link) = cluster.connect();
        let previewed = Previewed::register(&StoreSet::new(), &client);
        let woken = Arc::<Mutex<Vec<String>>>::default();
        let noted = Arc::clone(&woken);
        previewed.on_change(move |plan| noted.lock().unwrap().push(plan.to_string()));
        Self {
            previewed,
            cluster,
            woken,
            _link: link,
        }
    }

    fn put(&self, name: &str) {
        self.cluster.put(
            json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"namespace": "ns", "name": name},
            "automountServiceAccountToken": true}),
        );
    }

    /// What is known once there was time to look.
    async fn later(&self, plan: &NamespacedName, uid: &str, objects: &[PreviewedObject]) -> Looks {
        self.previewed.follow(plan, uid, objects);
        later().await;
        self.previewed.follow(plan, uid, objects)
    }

    fn take_woken(&self) -> Vec<String> {
        let mut woken = std::mem::take(&mut *self.woken.lock().unwrap());
        woken.dedup();
        woken
    }

    fn watched(&self) -> usize {
        self.previewed.watches.scopes().len()
    }
}

async fn later() {
    tokio::time::sleep(Duration::from_millis(500)).await;
}

#[tokio::test(start_paused = true)]
async fn a_plan_hears_of_its_objects_and_the_first_look_stays() {
    let rig = Rig::new();
    rig.put("there");
    let (plan, objects) = (plan("ns", 1), [account("there"), account("missing")]);
    assert_eq!(
        rig.previewed.follow(&plan, "1", &objects),
        Looks::default(),
        "nothing is waited for"
    );
    later().await;
    assert_eq!(rig.take_woken(), ["ns/install-1"]);
    let is_there = |looks: &Looks| -> Vec<(bool, bool)> {
        let is_there = |look: &Look| (look.first.is_some(), look.now.is_some());
        looks.looks.iter().map(is_there).collect()
    };
    let looks = rig.previewed.follow(&plan, "1", &objects);
    assert_eq!(is_there(&looks), [(true, true), (false, false)]);
    rig.put("missing");
    rig.cluster.delete("ServiceAccount", "ns", "there");
    rig.put("nobody's");
    later().await;
    assert_eq!(rig.take_woken(), ["ns/install-1"]);
    let looks = rig.previewed.follow(&plan, "1", &objects);
    assert_eq!(is_there(&looks), [(true, false), (false, true)]);
    let another = rig.later(&plan, "2", &objects).await;
    assert_eq!(
        is_there(&another),
        [(false, false), (true, true)],
        "another plan of its name"
    );
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_breaks_off_is_no_change() {
    let rig = Rig::new();
    rig.put("there");
    let (plan, objects) = (plan("ns", 1), [account("there")]);
    rig.later(&plan, "1", &objects).await;
    rig.cluster.end_watches("ServiceAccount");
    later().await;
    rig.cluster.forget_history();
    tokio::time::sleep(Duration::from_secs(30)).await;
    let looks = rig.previewed.follow(&plan, "1", &objects).looks;
    assert!(
        looks[0].now.is_some() && looks[0].first == looks[0].now,
        "{looks:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn the_watches_of_a_plan_end_with_it() {
    let rig = Rig::new();
    rig.later(&plan("ns", 1), "1", &accounts("a", 3)).await;
    rig.later(&plan("ns", 2), "2", &accounts("a", 1)).await;
    assert_eq!(rig.watched(), 3, "what two plans are about is watched once");
    rig.later(&plan("ns", 1), "1", &accounts("a", 2)).await;
    rig.previewed.forget(&plan("ns", 1));
    tokio::time::sleep(Duration::from_secs(61)).await;
    assert_eq!(rig.watched(), 1);
    rig.later(&plan("ns", 2), "2", &[]).await;
    tokio::time::sleep(Duration::from_secs(61)).await;
    assert_eq!(rig.watched(), 0);
    rig.take_woken();
    rig.put("a-0");
    later().await;
    assert_eq!(rig.take_woken(), Vec::<String>::new());
    assert!(lock(&rig.previewed.state).waiting.is_empty());
}

#[tokio::test(start_paused = true)]
async fn neither_a_namespace_nor_all_can_have_connections_without_end() {
    let rig = Rig::new();
    for number in 0..3 {
        let objects = accounts(&format!("of-{number}"), 20);
        let known = rig.later(&plan("ns", number), "1", &objects).await;
        let expected = if number < 2 { (20, false) } else { (0, true) };
        assert_eq!((known.looks.len(), known.lacks_room), expected);
    }
    assert_eq!(rig.watched(), MAX_OF_NAMESPACE);
    // Plans that come and go leave theirs behind for a minute.
    rig.previewed.forget(&plan("ns", 0));
    let third = accounts("of-2", 20);
    assert_eq!(rig.later(&plan("ns", 2), "1", &third).await.looks.len(), 0);
    tokio::time::sleep(Duration::from_secs(61)).await;
    let known = rig.later(&plan("ns", 2), "1", &third).await;
    assert_eq!((known.looks.len(), known.lacks_room), (20, false), "tried again");
    for number in 0..MAX_IN_ALL / 20 {
        let objects = accounts("other", 20);
        rig.later(&plan(&format!("ns-{number}"), 1), "1", &objects).await;
    }
    assert_eq!(rig.watched(), MAX_IN_ALL);
}
