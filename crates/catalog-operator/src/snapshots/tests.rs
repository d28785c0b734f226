//! Reading, sharing and dropping of contents, over connections to a silent listener.

use std::sync::atomic::{AtomicUsize, Ordering};

use olm_fbc::entry::{BundleEntry, ManifestDigest};
use tokio::time::sleep;

use super::*;
use crate::catalog_source::connection::testing::{self, Answering};
use crate::catalog_source::connection::{ConnectionState, Endpoint};

impl Snapshots {
    /// Sets other limits for the catalogs of a namespace, and for all outside of the global one.
    #[must_use]
    pub fn with_bounds(mut self, namespace: usize, total: usize) -> Self {
        if let Some(shared) = Arc::get_mut(&mut self.shared) {
            shared.bounds = Bounds { namespace, total };
        }
        self
    }
}

type ContentId = u64;

/// A catalog with as many bundles as the number of reads, or always one.
struct Fake {
    reads: AtomicUsize,
    grows: bool,
    fails: AtomicUsize,
    /// Number of reads that never end.
    endless: AtomicUsize,
}

#[async_trait]
impl CatalogReader for Fake {
    async fn read(&self, _channel: Channel) -> Result<(CatalogSnapshot, usize), String> {
        let read = self.reads.fetch_add(1, Ordering::SeqCst);
        if read < self.endless.load(Ordering::SeqCst) {
            std::future::pending::<()>().await;
        }
        if self.fails.load(Ordering::SeqCst) > read {
            return Err("failed to list bundles: down".to_owned());
        }
        let count = if self.grows { read + 1 } else { 1 };
        let entries = (0..count).map(entry).collect();
        Ok((
            CatalogSnapshot::new(BTreeMap::new(), entries),
            count * CONTENT_BYTES,
        ))
    }

    async fn manifests(&self, _channel: Channel, bundle: &InlineBundle) -> Result<Vec<String>, String> {
        Ok(vec![bundle.name.clone()])
    }
}

/// Size of a content of the fake reader, if it does not grow.
const CONTENT_BYTES: usize = 2 << 20;

fn entry(number: usize) -> BundleEntry {
    BundleEntry {
        name: format!("a.v{number}").into(),
        package: "a".into(),
        channel: "stable".into(),
        default_channel: true,
        bundle_path: Some("quay.io/a/b:1".into()),
        ..BundleEntry::default()
    }
}

struct Rig {
    connections: Connections,
    snapshots: Snapshots,
    reader: Arc<Fake>,
    woken: Arc<Mutex<Vec<String>>>,
    port: u16,
    _server: Answering,
}

fn key() -> NamespacedName {
    NamespacedName::new("ns", "cat")
}

impl Rig {
    async fn new(grows: bool, fails: usize) -> Self {
        let (server, port) = testing::answer_anywhere().await;
        let connections = Connections::new(|_: &NamespacedName| {});
        let reader = Arc::new(Fake {
            reads: AtomicUsize::new(0),
            grows,
            fails: AtomicUsize::new(fails),
            endless: AtomicUsize::new(0),
        });
        let woken: Arc<Mutex<Vec<String>>> = Arc::default();
        let told = Arc::clone(&woken);
        let reading: Arc<dyn CatalogReader> = Arc::<Fake>::clone(&reader);
        let snapshots = Snapshots::new(connections.clone(), reading, "olm", move |namespace: &str| {
            told.lock().push(namespace.to_owned());
        });
        Self {
            connections,
            snapshots,
            reader,
            woken,
            port,
            _server: server,
        }
    }

    /// The same connections and reader for contents of their own.
    fn new_snapshots(&self) -> Snapshots {
        let (reading, told) = (Arc::<Fake>::clone(&self.reader), Arc::clone(&self.woken));
        Snapshots::new(
            self.connections.clone(),
            reading,
            "olm",
            move |namespace: &str| {
                told.lock().push(namespace.to_owned());
            },
        )
    }

    async fn connect(&self, epoch: &str) {
        self.connect_to(epoch, false).await;
    }

    async fn connect_to(&self, epoch: &str, may_change: bool) {
        self.connect_key(&key(), epoch, may_change).await;
    }

    async fn connect_key(&self, key: &NamespacedName, epoch: &str, may_change: bool) {
        let endpoint = || Endpoint {
            may_change,
            address: "cat.ns.svc:1".to_owned(),
            dial: format!("127.0.0.1:{}", self.port),
            epoch: epoch.to_owned(),
        };
        while !matches!(
            self.connections.set_endpoint(key, Some(endpoint())),
            ConnectionState::Ready(_)
        ) {
            sleep(Duration::from_millis(5)).await;
        }
    }

    async fn known(&self, unlike: Option<ContentId>) -> ContentId {
        loop {
            if let ContentState::Known(Content { id, .. }) = self.snapshots.get(&key(), "ns")
                && Some(id) != unlike
            {
                return id;
            }
            sleep(Duration::from_millis(5)).await;
        }
    }

    fn here(&self, id: ContentId) -> Option<Arc<Snapshot>> {
        let entries = self.snapshots.shared.entries.lock();
        let content = entries.get(&key())?.content.as_ref()?;
        (content.id == id).then(|| Arc::clone(&content.snapshot))
    }

    fn reads(&self) -> usize {
        self.reader.reads.load(Ordering::SeqCst)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_catalog_is_read_once_for_all_who_ask_and_they_are_woken() {
    let rig = Rig::new(false, 0).await;
    assert!(matches!(
        rig.snapshots.get(&key(), "ns"),
        ContentState::Unreachable
    ));
    rig.connect("1").await;
    assert!(matches!(
        rig.snapshots.get(&key(), "ns"),
        ContentState::Loading(_)
    ));
    rig.snapshots.get(&key(), "other");
    let id = rig.known(None).await;
    assert_eq!(rig.here(id).unwrap().entries().len(), 1);
    assert_eq!(rig.reads(), 1);
    let mut woken = rig.woken.lock().clone();
    woken.sort();
    assert_eq!(woken, ["ns", "other"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_connection_is_read_again_and_only_new_content_has_a_new_identity() {
    for grows in [false, true] {
        let rig = Rig::new(grows, 0).await;
        rig.connect("1").await;
        let first = rig.known(None).await;
        rig.connect("2").await;
        assert_eq!(
            rig.snapshots.get(&key(), "ns").id(),
            Some(first),
            "the old content stands until the new is read"
        );
        while rig.reads() < 2 {
            sleep(Duration::from_millis(5)).await;
        }
        if grows {
            let next = rig.known(Some(first)).await;
            assert!(rig.here(first).is_none());
            assert_eq!(rig.here(next).unwrap().entries().len(), 2);
        } else {
            sleep(Duration::from_millis(50)).await;
            assert_eq!(rig.known(None).await, first);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_last_good_content_outlives_the_connection() {
    let rig = Rig::new(false, 0).await;
    rig.connect("1").await;
    let id = rig.known(None).await;
    rig.connections.set_endpoint(&key(), None);
    assert_eq!(rig.snapshots.get(&key(), "ns").id(), Some(id));
    assert!(rig.here(id).is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_read_is_reported_and_tried_again_by_itself() {
    let rig = Rig::new(false, 1).await;
    rig.connect("1").await;
    rig.snapshots.get(&key(), "ns");
    while rig.woken.lock().is_empty() {
        sleep(Duration::from_millis(5)).await;
    }
    let ContentState::Failed(text) = rig.snapshots.get(&key(), "ns") else {
        unreachable!()
    };
    assert_eq!(text, "failed to list bundles: down");
    assert_eq!(rig.reads(), 1, "not asked again before its time");
    let started = Instant::now();
    while rig.woken.lock().len() < 2 {
        sleep(Duration::from_millis(5)).await;
    }
    assert!(started.elapsed() > FIRST_RETRY / 2);
    rig.known(None).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn unused_entries_are_forgotten() {
    let rig = Rig::new(false, 0).await;
    rig.connect("1").await;
    rig.snapshots.get(&key(), "other");
    let id = rig.known(None).await;
    rig.snapshots.retain("ns", &BTreeSet::new());
    assert!(rig.here(id).is_some(), "`other` still uses it");
    rig.snapshots.retain("other", &BTreeSet::from([key()]));
    rig.snapshots.retain("other", &BTreeSet::new());
    assert!(rig.here(id).is_none());
}

/// Measured by the machine's clock: the clock of the tests may stop, or jump.
async fn eventually(what: impl Fn() -> bool) {
    let began = std::time::Instant::now();
    while !what() {
        assert!(began.elapsed() < Duration::from_secs(60), "not within a minute");
        sleep(Duration::from_millis(1)).await;
    }
}

/// Idle for a day and then without its server: the last content is still available.
#[tokio::test]
async fn the_last_good_content_outlives_idleness_and_an_outage() {
    let rig = Rig::new(true, 0).await;
    rig.connect("1").await;
    let id = rig.known(None).await;
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(24 * 3600)).await;
    tokio::time::resume();
    rig.connections.set_endpoint(&key(), None);
    assert_eq!(rig.snapshots.get(&key(), "ns").id(), Some(id));
    assert!(rig.here(id).is_some());
    assert_eq!(rig.reads(), 1);
}

/// A server at an address changes its catalog during the connection; our pod does not.
#[tokio::test]
async fn a_server_at_an_address_is_read_again_after_half_an_hour() {
    for may_change in [false, true] {
        let rig = Rig::new(true, 0).await;
        rig.connect_to("1", may_change).await;
        let first = rig.known(None).await;
        tokio::time::pause();
        tokio::time::advance(READ_AGAIN + Duration::from_secs(1)).await;
        tokio::time::resume();
        if may_change {
            eventually(|| rig.reads() == 2).await;
            let next = rig.known(Some(first)).await;
            assert_eq!(rig.here(next).unwrap().entries().len(), 2);
            assert_eq!(rig.woken.lock().len(), 2);
        } else {
            sleep(Duration::from_millis(50)).await;
            assert_eq!(rig.reads(), 1);
        }
    }
}

#[tokio::test]
async fn an_unchanged_catalog_that_is_read_again_wakes_no_namespace() {
    let rig = Rig::new(false, 0).await;
    rig.connect_to("1", true).await;
    let first = rig.known(None).await;
    for reads in 2..4 {
        tokio::time::pause();
        tokio::time::advance(READ_AGAIN + Duration::from_secs(1)).await;
        tokio::time::resume();
        eventually(|| rig.reads() == reads).await;
        sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(rig.known(None).await, first);
    assert_eq!(rig.woken.lock().len(), 1);
}

/// Servers of four catalogs of one namespace never complete a response; another namespace's is read.
#[tokio::test]
async fn endless_catalogs_of_one_namespace_do_not_hold_up_another() {
    let rig = Rig::new(false, 0).await;
    rig.reader.endless.store(4, Ordering::SeqCst);
    let other = NamespacedName::new("quiet", "cat");
    let noisy = |number: usize| NamespacedName::new("ns", format!("cat{number}"));
    for number in 0..8 {
        rig.connect_key(&noisy(number), "1", false).await;
        rig.snapshots.get(&noisy(number), "ns");
    }
    eventually(|| rig.reads() >= PARALLEL_READS / 2).await;
    sleep(Duration::from_millis(20)).await;
    assert_eq!(rig.reads(), PARALLEL_READS / 2);
    rig.reader.endless.store(0, Ordering::SeqCst);
    rig.connect_key(&other, "1", false).await;
    rig.snapshots.get(&other, "quiet");
    eventually(|| rig.snapshots.get(&other, "quiet").id().is_some()).await;
    assert_eq!(rig.reads(), PARALLEL_READS / 2 + 1);
}

/// There is memory for two. The third reports this and is read when there is memory again, and another
/// namespace has its own memory.
#[tokio::test]
async fn the_catalogs_of_a_namespace_have_a_bound_together() {
    let mut rig = Rig::new(false, 0).await;
    let reading: Arc<dyn CatalogReader> = Arc::<Fake>::clone(&rig.reader);
    let snapshots = Snapshots::new(rig.connections.clone(), reading, "olm", |_: &str| {});
    rig.snapshots = snapshots.with_bounds(CONTENT_BYTES * 5 / 2, TOTAL_BYTES);
    let of = |namespace: &str, number: usize| NamespacedName::new(namespace, format!("cat{number}"));
    let get = |key: &NamespacedName| rig.snapshots.get(key, "user");
    for key in [of("ns", 0), of("ns", 1), of("other", 0)] {
        rig.connect_key(&key, "1", false).await;
        eventually(|| get(&key).id().is_some()).await;
    }
    let third = of("ns", 2);
    rig.connect_key(&third, "1", false).await;
    eventually(|| matches!(get(&third), ContentState::Failed(_))).await;
    let ContentState::Failed(text) = get(&third) else {
        unreachable!()
    };
    insta::assert_snapshot!(text, @"failed to list bundles: out of memory for catalogs: this one needs 2 MiB, others of its namespace use 4 MiB, the limit of a namespace is 5 MiB");
    // Another read of the first takes no more memory than it has.
    let first = get(&of("ns", 0)).id();
    rig.connect_key(&of("ns", 0), "2", false).await;
    let reads = rig.reads();
    get(&of("ns", 0));
    eventually(|| rig.reads() == reads + 1).await;
    sleep(Duration::from_millis(20)).await;
    assert_eq!(get(&of("ns", 0)).id(), first);
    assert_eq!(rig.snapshots.trouble(&of("ns", 0)), None);
    // One is not used any more.
    rig.snapshots.retain(
        "user",
        &BTreeSet::from([of("ns", 0), third.clone(), of("other", 0)]),
    );
    get(&third);
    assert_eq!(rig.reads(), reads + 1, "not before its time");
    tokio::time::pause();
    tokio::time::advance(READ_AGAIN_WHEN_FULL).await;
    tokio::time::resume();
    eventually(|| get(&third).id().is_some()).await;
}

/// The memory of all catalogs is in use: what is there stays, and the next one reports it.
#[tokio::test(flavor = "multi_thread")]
async fn the_catalogs_of_all_namespaces_have_a_bound_together() {
    let mut rig = Rig::new(false, 0).await;
    rig.snapshots = rig
        .new_snapshots()
        .with_bounds(NAMESPACE_BYTES, CONTENT_BYTES * 5 / 2);
    let [first, second, late] = ["a", "b", "late"].map(|namespace| NamespacedName::new(namespace, "cat"));
    let get = |key: &NamespacedName| rig.snapshots.get(key, &key.namespace);
    for key in [&first, &second] {
        rig.connect_key(key, "1", false).await;
        eventually(|| get(key).id().is_some()).await;
    }
    rig.connect_key(&late, "1", false).await;
    eventually(|| matches!(get(&late), ContentState::Failed(_))).await;
    let ContentState::Failed(text) = get(&late) else {
        unreachable!()
    };
    insta::assert_snapshot!(text, @"failed to list bundles: out of memory for catalogs: this one needs 2 MiB, all others outside of the global namespace use 4 MiB, their limit together is 5 MiB");
    assert_eq!(rig.snapshots.refused(), [(late, 1)]);
    assert_eq!(rig.snapshots.bytes().len(), 2);
    assert_eq!(rig.snapshots.total_bytes(), 2 * CONTENT_BYTES);
}

/// Tenants have filled their memory before the global catalogs are read, as after a restart.
#[tokio::test(flavor = "multi_thread")]
async fn the_catalogs_of_the_global_namespace_have_memory_of_their_own() {
    let mut rig = Rig::new(false, 0).await;
    let room = CONTENT_BYTES * 5 / 2;
    rig.snapshots = rig.new_snapshots().with_bounds(room, room);
    let [first, second, late] = ["a", "b", "late"].map(|namespace| NamespacedName::new(namespace, "cat"));
    let global = |number: usize| NamespacedName::new("olm", format!("cat{number}"));
    let get = |key: &NamespacedName| rig.snapshots.get(key, "user");
    // One of them is there before, and takes no memory from the tenants.
    for key in [&global(0), &first, &second, &global(1)] {
        rig.connect_key(key, "1", false).await;
        eventually(|| get(key).id().is_some()).await;
    }
    for (key, limit) in [
        (late, "their limit together"),
        (global(2), "the limit of a namespace"),
    ] {
        rig.connect_key(&key, "1", false).await;
        eventually(|| matches!(get(&key), ContentState::Failed(_))).await;
        let ContentState::Failed(text) = get(&key) else {
            unreachable!()
        };
        assert!(text.contains(limit), "{text}");
    }
    assert_eq!(rig.snapshots.total_bytes(), 4 * CONTENT_BYTES);
}

/// Fetched manifests must match the resolved ones; otherwise the catalog is read again.
#[tokio::test]
async fn manifests_that_are_not_those_that_were_read_have_the_catalog_read_again() {
    let rig = Rig::new(false, 0).await;
    let digest = manifest_digest(&["a.v0".to_owned()]);
    let fetch = |digest: ManifestDigest| {
        let snapshots = rig.snapshots.clone();
        let bundle = InlineBundle {
            package: "a".to_owned(),
            channel: "stable".to_owned(),
            name: "a.v0".to_owned(),
            digest,
        };
        async move { snapshots.manifests(&key(), &bundle).await }
    };
    insta::assert_snapshot!(fetch(digest).await.unwrap_err(), @"cannot read a.v0: catalog ns/cat is not connected");
    rig.connect("1").await;
    rig.known(None).await;
    assert_eq!(fetch(digest).await.unwrap(), ["a.v0"]);
    insta::assert_snapshot!(fetch([0; 32]).await.unwrap_err(), @"manifests of a.v0 in catalog ns/cat have changed since it was read; the catalog is being read again");
    sleep(Duration::from_millis(20)).await;
    assert_eq!(rig.reads(), 1, "it was just read");
    tokio::time::pause();
    tokio::time::advance(READ_AGAIN_WHEN_CHANGED).await;
    tokio::time::resume();
    fetch([0; 32]).await.unwrap_err();
    eventually(|| rig.reads() == 2).await;
}

impl ContentState {
    fn id(&self) -> Option<ContentId> {
        match self {
            Self::Known(content) => Some(content.id),
            _ => None,
        }
    }
}

/// The connected server has new content that cannot be read: the old one is kept, and is known to be
/// outdated.
#[tokio::test(flavor = "multi_thread")]
async fn that_the_last_good_content_is_not_the_present_one_is_known() {
    let rig = Rig::new(false, 0).await;
    rig.connect("1").await;
    let id = rig.known(None).await;
    assert_eq!(rig.snapshots.trouble(&key()), None);
    rig.reader.fails.store(2, Ordering::SeqCst);
    rig.connect("2").await;
    rig.snapshots.get(&key(), "ns");
    eventually(|| rig.snapshots.trouble(&key()).is_some()).await;
    assert_eq!(rig.snapshots.get(&key(), "ns").id(), Some(id));
    // One for the content, and one for the error.
    eventually(|| rig.woken.lock().len() >= 2).await;
    sleep(FIRST_RETRY).await;
    rig.snapshots.get(&key(), "ns");
    eventually(|| rig.snapshots.trouble(&key()).is_none()).await;
    assert_eq!(rig.snapshots.get(&key(), "ns").id(), Some(id));
}

struct Faulty;

#[async_trait]
impl CatalogReader for Faulty {
    async fn read(&self, _channel: Channel) -> Result<(CatalogSnapshot, usize), String> {
        panic!("a fault")
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fault_in_reading_a_catalog_is_a_failure_of_that_catalog() {
    let mut rig = Rig::new(false, 0).await;
    rig.snapshots = Snapshots::new(rig.connections.clone(), Arc::new(Faulty), "olm", |_: &str| {});
    rig.connect("1").await;
    eventually(|| matches!(rig.snapshots.get(&key(), "ns"), ContentState::Failed(_))).await;
}

/// Also without reads of the metrics.
#[tokio::test]
async fn nothing_is_counted_of_a_catalog_that_is_gone() {
    let rig = Rig::new(false, 0).await;
    rig.connect("pod-1").await;
    rig.known(None).await;
    let count = || rig.snapshots.counts(|_| true).len();
    // The server is another one, and the catalog the same.
    rig.snapshots.forget(&key());
    assert_eq!(count(), 1);
    rig.snapshots.forget_source(&key());
    assert_eq!(count(), 0);
}
