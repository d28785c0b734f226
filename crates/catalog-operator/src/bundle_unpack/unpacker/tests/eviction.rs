//! Memory use of bundles, and evictions.

use super::super::eviction::{KEEP_READY, NEEDED_BYTES, PROMISE, READY_BYTES};
use super::*;

const MIB: usize = 1 << 20;

/// A registry whose images `r/NAME:SIZE` have bundles of this size in MiB and take `takes` to fetch.
struct Sized {
    takes: Duration,
    fetched: Mutex<Vec<String>>,
}

#[async_trait]
impl BundleSource for Sized {
    async fn fetch(&self, image: &str, _catalog: &NamespacedName) -> Result<UnpackedBundle, UnpackError> {
        self.fetched.lock().unwrap().push(image.to_owned());
        let (image, takes) = match image.split_once('@') {
            Some(("slow", image)) => (image, self.takes * 1000),
            _ => (image, self.takes),
        };
        tokio::time::sleep(takes).await;
        let size: usize = image.rsplit(':').next().unwrap().parse().unwrap();
        let mut bundle = bundle()?;
        bundle.image = image.to_owned();
        bundle.csv["spec"] = json!({ "description": "x".repeat(size * MIB) });
        Ok(bundle)
    }
}

struct Room {
    unpacker: Unpacker,
    source: Arc<Sized>,
    woken: Arc<Mutex<Vec<Waiter>>>,
}

impl Room {
    fn new(takes: u64) -> Self {
        let source = Arc::new(Sized {
            takes: Duration::from_secs(takes),
            fetched: Mutex::default(),
        });
        let woken: Arc<Mutex<Vec<Waiter>>> = Arc::default();
        let told = Arc::clone(&woken);
        let fetching: Arc<dyn BundleSource> = Arc::<Sized>::clone(&source);
        let config = UnpackerConfig {
            deadline: Duration::ZERO,
            ..UnpackerConfig::default()
        };
        let unpacker = Unpacker::new(fetching, config, Figures::default(), move |waiter| {
            told.lock().unwrap().push(waiter.clone());
        });
        Self {
            unpacker,
            source,
            woken,
        }
    }

    /// Runs one reconcile: requests all of `images`, and returns the number of available ones.
    fn round(&self, namespace: &str, images: &[String]) -> usize {
        let states = images.iter().map(|image| {
            let request = UnpackRequest {
                image: image.clone(),
                ..request(namespace)
            };
            told(&self.unpacker.request(&request))
        });
        states.filter(|told| told.starts_with("ready")).count()
    }

    /// Runs a reconcile whenever the namespace is triggered, until one has all bundles, for at most this many
    /// seconds.
    async fn rounds_until_all_are_there(&self, namespace: &str, images: &[String], seconds: u64) {
        for _ in 0..seconds {
            let is_woken = self.woken_namespaces().contains(namespace);
            if is_woken && self.round(namespace, images) == images.len() {
                return;
            }
            wait(1).await;
        }
        panic!("{namespace} never had all; fetched {:?}", self.fetches());
    }

    fn woken_namespaces(&self) -> BTreeSet<String> {
        let woken = std::mem::take(&mut *self.woken.lock().unwrap());
        woken.iter().map(|waiter| waiter.namespace().to_owned()).collect()
    }

    /// Installs a bundle for `namespace`, which then no longer needs it.
    async fn pass(&self, namespace: &str, image: &str) {
        let images = [image.to_owned()];
        if self.round(namespace, &images) == 0 {
            wait(self.source.takes.as_secs() + 1).await;
            assert_eq!(self.round(namespace, &images), 1, "{image}");
        }
    }

    fn bytes(&self) -> usize {
        let entries = self.unpacker.shared.lock();
        let ready = entries.values().filter_map(|entry| match &entry.state {
            EntryState::Ready(bundle) => Some(bundle.bytes()),
            _ => None,
        });
        ready.sum()
    }

    fn names(&self) -> Vec<String> {
        self.unpacker
            .shared
            .lock()
            .keys()
            .map(|key| key.image.clone())
            .collect()
    }

    fn fetches(&self) -> Vec<String> {
        self.source.fetched.lock().unwrap().clone()
    }
}

fn images(prefix: &str, count: usize, mib: usize) -> Vec<String> {
    (0..count)
        .map(|number| format!("r/{prefix}{number}:{mib}"))
        .collect()
}

#[tokio::test(start_paused = true)]
async fn bundles_that_nobody_needs_are_bounded_in_bytes() {
    let room = Room::new(0);
    for image in images("a", 12, 3) {
        room.pass("one", &image).await;
        assert!(room.bytes() <= READY_BYTES, "{}", room.bytes());
    }
    assert_eq!(room.names(), ["r/a10:3", "r/a11:3", "r/a7:3", "r/a8:3", "r/a9:3"]);
}

#[tokio::test(start_paused = true)]
async fn a_namespace_that_has_most_makes_room_with_what_it_used_first() {
    let room = Room::new(0);
    room.pass("quiet", "r/quiet:2").await;
    for image in images("noisy", 12, 3) {
        room.pass("noisy", &image).await;
        room.pass("quiet", "r/quiet:2").await;
        wait(3).await;
    }
    assert_eq!(room.fetches().len(), 13, "{:?}", room.fetches());
    let names = room.names();
    assert!(names.contains(&"r/quiet:2".to_owned()), "{names:?}");
    assert!(!names.contains(&"r/noisy0:3".to_owned()), "{names:?}");
}

/// The bundles of one reconcile exceed the limit, each takes longer to fetch than an unneeded one is kept,
/// and other namespaces are active. Still each is fetched once.
#[tokio::test(start_paused = true)]
async fn a_bundle_that_a_waiting_round_needs_is_fetched_once() {
    let room = Room::new(KEEP_READY.as_secs() * 2);
    let needed = images("big", 10, 4);
    assert!(needed.len() * 4 * MIB > 2 * READY_BYTES);
    room.round("one", &needed);
    for image in images("other", 3, 5) {
        room.round("two", &[image]);
    }
    room.rounds_until_all_are_there("one", &needed, 1000).await;
    let mut fetched = room.fetches();
    fetched.retain(|image| image.starts_with("r/big"));
    fetched.sort();
    assert_eq!(fetched, needed);
    wait(KEEP_READY.as_secs() * 3).await;
    let ready = room.bytes();
    assert!(ready <= READY_BYTES, "{ready}: nobody needs them any more");
}

#[tokio::test(start_paused = true)]
async fn a_bundle_waits_for_a_round_that_is_held_back() {
    let room = Room::new(1);
    let one = images("a", 1, 1);
    room.round("one", &one);
    wait(PROMISE.as_secs() - 20).await;
    assert_eq!(room.round("one", &one), 1);
    assert_eq!(room.fetches().len(), 1);
    wait(KEEP_READY.as_secs() * 2).await;
    assert_eq!(room.bytes(), 0, "nor longer than it is needed");
    room.round("gone", &one);
    wait(PROMISE.as_secs() + KEEP_READY.as_secs() * 2).await;
    assert_eq!(room.bytes(), 0, "nor for ever, for one that does not come");
}

/// One namespace waits for a bundle that never arrives, and holds all it can get; another still gets memory.
#[tokio::test(start_paused = true)]
async fn what_one_namespace_needs_leaves_room_for_another() {
    let room = Room::new(1);
    let mut greedy = images("greedy", 40, 8);
    greedy.push("slow@r/never:1".to_owned());
    room.round("greedy", &greedy);
    for _ in 0..100 {
        wait(1).await;
        if room.woken_namespaces().contains("greedy") {
            room.round("greedy", &greedy);
        }
    }
    let held = room.bytes();
    assert!((NEEDED_BYTES / 2..=NEEDED_BYTES).contains(&held), "{held}");
    let last = UnpackRequest {
        image: greedy[39].clone(),
        ..request("greedy")
    };
    let UnpackState::Failed { error } = room.unpacker.request(&last) else {
        panic!("not refused")
    };
    insta::assert_snapshot!(error, @"bundle a.v1: image `r/greedy39:8`: bundles that are needed together exceed 128 MiB (limit NEEDED_BYTES), and those of namespace greedy exceed its share; OLM retries; installing fewer operators at a time, or smaller bundles, needs less memory");

    let modest = images("modest", 4, 8);
    room.round("modest", &modest);
    room.rounds_until_all_are_there("modest", &modest, 20).await;
    assert!(
        room.bytes() <= NEEDED_BYTES + 4 * 8 * MIB + 4096,
        "{}",
        room.bytes()
    );
}

/// A bundle known by tag and by digest is in memory once, and counts once.
#[tokio::test(start_paused = true)]
async fn one_content_counts_once() {
    let rig = rig(vec![bundle()]);
    rig.ask("one");
    wait(2).await;
    assert_eq!(rig.unpacker.count(), 2);
    let entries = rig.unpacker.shared.lock();
    assert_eq!(
        super::super::eviction::memory_use(&entries, Instant::now()).len(),
        1
    );
}

#[test]
fn the_reference_page_has_these_figures() {
    use super::super::super::packed::BUNDLE_BYTES;
    use crate::snapshots::{NAMESPACE_BYTES, READ_AGAIN_WHEN_FULL, TOTAL_BYTES};
    let page = include_str!("../../../../../../docs/reference/limits.md");
    let mib = |bytes: usize| format!("{} MiB", bytes / MIB);
    for (limit, value) in [
        ("Objects of one bundle", mib(BUNDLE_BYTES)),
        ("Bundles being installed, all together", mib(NEEDED_BYTES)),
        ("Catalogs of one namespace", mib(NAMESPACE_BYTES)),
        ("Catalogs of all namespaces", mib(TOTAL_BYTES)),
        (
            "Pause before such a catalog is read again",
            format!("{} s", READ_AGAIN_WHEN_FULL.as_secs()),
        ),
    ] {
        let row = format!("| {limit} | {value} |");
        assert!(page.contains(&row), "no row {row}");
    }
}
