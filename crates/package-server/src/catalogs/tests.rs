mod bounds;
mod corpus;
mod rogue;

use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use serde_json::json;

use super::*;
use crate::index::Item;
use crate::selectors::{FieldSelector, LabelSelector};
use crate::test_env::{self, Registry, source, wait_for};

const HALF_A_DAY: Duration = Duration::from_secs(43_200);

/// Connects as usual, and counts the connections.
#[derive(Default)]
struct Counting(AtomicUsize);

#[async_trait]
impl Dial for Counting {
    async fn connect(&self, dial: &str, address: &str) -> Result<Dialled, String> {
        self.0.fetch_add(1, Ordering::SeqCst);
        Tcp.connect(dial, address).await
    }
}

struct Lab {
    catalogs: Catalogs,
    sources: Store<CatalogSource>,
    dials: Arc<Counting>,
}

impl Lab {
    fn new() -> Self {
        Self::with_bounds(NAMESPACE_BYTES, TENANT_BYTES)
    }

    /// Returns a lab in which the catalogs of one namespace, and those of all tenants, may have so many bytes.
    fn with_bounds(namespace: usize, tenants: usize) -> Self {
        let dials = Arc::<Counting>::default();
        let mut catalogs = Catalogs::new("olm", HALF_A_DAY, Arc::clone(&dials) as Arc<dyn Dial>);
        let bounds = Bounds {
            global: namespace,
            namespace,
            tenants,
        };
        Arc::get_mut(&mut catalogs.shared).unwrap().bounds = bounds;
        let sources = Store::new();
        catalogs.follow(&sources);
        Self {
            catalogs,
            sources,
            dials,
        }
    }

    /// Stores a CatalogSource, or a later version of it.
    fn put(&self, source: &CatalogSource, version: u32) {
        let mut source = source.clone();
        source.metadata.resource_version = Some(version.to_string());
        self.sources.put(source);
    }

    /// Returns the result of a request for `namespace`: packages with their newest version.
    fn seen(&self, namespace: Option<&str>) -> Vec<String> {
        let index = self.catalogs.index().borrow().clone();
        let items = index.list(namespace, &LabelSelector::default(), &FieldSelector::default());
        items.iter().map(told).collect()
    }

    async fn wait_to_see(&self, expected: &[&str]) {
        wait_for(&format!("{expected:?}"), || {
            (self.seen(None) == expected).then_some(())
        })
        .await;
    }

    fn state(&self, namespace: &str, name: &str) -> Option<CatalogState> {
        let states = self.catalogs.states();
        let key = NamespacedName::new(namespace, name);
        states
            .into_iter()
            .find(|(found, _)| *found == key)
            .map(|(_, state)| state)
    }

    async fn wait_for_failure(&self, namespace: &str, name: &str) -> String {
        wait_for("a failure", || self.state(namespace, name)?.failure).await
    }
}

fn told(item: &Item) -> String {
    let status = String::from_utf8(item.package.content.concat()).unwrap();
    let (_, rest) = status.split_once("\"currentCSV\":\"").unwrap();
    let (head, _) = rest.split_once('"').unwrap();
    format!("{}/{head}", item.namespace)
}

#[tokio::test]
async fn pkg_001_catalogs_are_read_when_their_sources_say_where() {
    let lab = Lab::new();
    let folder = test_env::catalog(&[("demo", &["1.0.0", "1.1.0"]), ("upper", &["2.0.0"])]);
    let registry = Registry::of(folder.path()).await;
    let mut waiting = source("olm", "cat", "");
    lab.put(&waiting, 1);
    assert!(lab.catalogs.were_all_tried());
    waiting.spec.address = Some(registry.address.clone());
    lab.put(&waiting, 2);
    lab.wait_to_see(&["olm/demo.v1.1.0", "olm/upper.v2.0.0"]).await;
    assert_eq!(lab.seen(Some("ns")), ["ns/demo.v1.1.0", "ns/upper.v2.0.0"]);
    assert!(lab.catalogs.were_all_tried());
    lab.sources.put(source("ns", "own", &registry.address));
    wait_for("both catalogs", || {
        (lab.seen(Some("ns")).len() == 4).then_some(())
    })
    .await;
    assert_eq!(lab.seen(Some("elsewhere")).len(), 2);
}

#[tokio::test]
async fn what_was_read_last_is_served_while_the_catalog_is_away_and_until_it_is_back() {
    let lab = Lab::new();
    let (old, new) = (
        test_env::catalog(&[("demo", &["1.0.0"]), ("gone", &["1.0.0"])]),
        test_env::catalog(&[("demo", &["1.0.0", "1.1.0"])]),
    );
    let registry = Registry::of(old.path()).await;
    let address = registry.address.clone();
    lab.sources.put(source("olm", "cat", &address));
    lab.wait_to_see(&["olm/demo.v1.0.0", "olm/gone.v1.0.0"]).await;
    registry.stop().await;
    let failure = lab.wait_for_failure("olm", "cat").await;
    assert!(failure.contains(&address), "{failure}");
    assert_eq!(lab.seen(None), ["olm/demo.v1.0.0", "olm/gone.v1.0.0"]);
    let _back = Registry::at(&address, new.path()).await;
    lab.wait_to_see(&["olm/demo.v1.1.0"]).await;
    assert_eq!(lab.state("olm", "cat").unwrap().failure, None);
}

#[tokio::test]
async fn a_catalog_that_is_away_hides_no_other() {
    let lab = Lab::new();
    let folder = test_env::catalog(&[("demo", &["1.0.0"])]);
    let registry = Registry::of(folder.path()).await;
    let away = Registry::of(folder.path()).await;
    let nowhere = away.address.clone();
    away.stop().await;
    for name in ["a", "b", "c", "d", "e", "f"] {
        lab.sources.put(source("tenant", name, &nowhere));
    }
    lab.sources.put(source("olm", "cat", &registry.address));
    lab.wait_to_see(&["olm/demo.v1.0.0"]).await;
    wait_for("an attempt at each", || {
        lab.catalogs.were_all_tried().then_some(())
    })
    .await;
}

/// A user who may write CatalogSources can name a server that accepts connections and never answers.
#[tokio::test]
async fn unresponsive_catalogs_of_tenants_delay_no_global_catalog() {
    let lab = Lab::new();
    let folder = test_env::catalog(&[("demo", &["1.0.0"])]);
    let registry = Registry::of(folder.path()).await;
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = silent.local_addr().unwrap().to_string();
    for number in 0..PARALLEL_READS {
        lab.sources
            .put(source(&format!("tenant-{number}"), "silent", &address));
    }
    let all_dialled = || (lab.dials.0.load(Ordering::SeqCst) == PARALLEL_READS - 1).then_some(());
    wait_for("all but one tenant to be read", all_dialled).await;
    lab.sources.put(source("olm", "cat", &registry.address));
    lab.wait_to_see(&["olm/demo.v1.0.0"]).await;
    let states = lab.catalogs.states();
    let tried: Vec<_> = states
        .iter()
        .filter(|(_, state)| state.was_tried)
        .map(|(key, _)| key.to_string())
        .collect();
    assert_eq!(tried, ["olm/cat"]);
}

/// One user may write any number of CatalogSources.
#[tokio::test]
async fn unresponsive_catalogs_of_one_tenant_delay_no_other_tenant() {
    let lab = Lab::new();
    let folder = test_env::catalog(&[("demo", &["1.0.0"])]);
    let registry = Registry::of(folder.path()).await;
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = silent.local_addr().unwrap().to_string();
    for number in 0..2 * PARALLEL_READS {
        lab.sources
            .put(source("tenant", &format!("silent-{number}"), &address));
    }
    let dials = || lab.dials.0.load(Ordering::SeqCst);
    wait_for("a read", || (dials() > 0).then_some(())).await;
    lab.sources.put(source("other", "cat", &registry.address));
    lab.wait_to_see(&["other/demo.v1.0.0"]).await;
    assert_eq!(dials(), 2);
}

#[tokio::test]
async fn a_deleted_source_takes_its_packages_along_and_one_made_anew_begins_without() {
    let lab = Lab::new();
    let folder = test_env::catalog(&[("demo", &["1.0.0"])]);
    let registry = Registry::of(folder.path()).await;
    let first = source("olm", "cat", &registry.address);
    lab.put(&first, 1);
    lab.wait_to_see(&["olm/demo.v1.0.0"]).await;
    let mut other = source("olm", "cat", "");
    other.metadata.uid = Some("another".to_owned());
    lab.put(&other, 2);
    assert!(lab.seen(None).is_empty());
    lab.catalogs.deleted(&NamespacedName::new("olm", "cat"));
    assert!(lab.catalogs.index().borrow().catalogs.is_empty());
    assert!(lab.catalogs.states().is_empty());
}

#[tokio::test]
async fn pkg_003_the_description_of_a_source_is_served_at_once_and_reads_nothing() {
    let lab = Lab::new();
    let folder = test_env::catalog(&[("demo", &["1.0.0"])]);
    let registry = Registry::of(folder.path()).await;
    let mut source = source("olm", "cat", &registry.address);
    lab.put(&source, 1);
    lab.wait_to_see(&["olm/demo.v1.0.0"]).await;
    source.spec.display_name = Some("Renamed".to_owned());
    source.metadata.labels = Some([("a".to_owned(), "b".to_owned())].into());
    // A connection of the catalog operator that is older than ours causes no read either.
    let status =
        json!({"connectionState": {"lastObservedState": "READY", "lastConnect": "2026-01-01T00:00:00Z"}});
    source.status = Some(serde_json::from_value(status).unwrap());
    lab.put(&source, 2);
    let item = lab.catalogs.index().borrow().get("ns", "demo").unwrap();
    assert_eq!(item.catalog.facts.display_name, "Renamed");
    assert_eq!(item.labels()["a"], "b");
    // Another read of this catalog would come before this one of the same namespace.
    lab.sources
        .put(test_env::source("olm", "next", &registry.address));
    wait_for("the next", || (lab.seen(None).len() == 2).then_some(())).await;
    assert_eq!(lab.dials.0.load(Ordering::SeqCst), 2);
}

#[tokio::test]
async fn a_catalog_is_read_again_when_its_interval_is_over_or_the_source_says_so() {
    let lab = Lab::new();
    let folder = test_env::catalog(&[("demo", &["1.0.0"])]);
    let registry = Registry::of(folder.path()).await;
    let mut source = source("olm", "cat", &registry.address);
    lab.put(&source, 1);
    lab.wait_to_see(&["olm/demo.v1.0.0"]).await;
    let dials = || lab.dials.0.load(Ordering::SeqCst);
    assert_eq!(dials(), 1);
    lab.catalogs.set_interval(Duration::from_millis(1));
    wait_for("another read", || (dials() >= 3).then_some(())).await;
    lab.catalogs.set_interval(HALF_A_DAY);
    let settled = || lab.state("olm", "cat")?.read_at;
    let before = wait_for("a read", settled).await;
    let status = json!({"configMapReference": {"name": "m", "namespace": "olm", "resourceVersion": "7"}});
    source.status = Some(serde_json::from_value(status).unwrap());
    lab.put(&source, 2);
    wait_for("a read of what the status names", || {
        settled().filter(|read_at| *read_at > before)
    })
    .await;
}
