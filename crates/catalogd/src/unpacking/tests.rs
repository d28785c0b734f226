//! Tasks of catalogs, without a cluster.

use tokio::sync::Notify;

use super::*;
use crate::test_env::Registry;

const IMAGE: &str = "reg.example/cat:latest";

/// A registry whose images can be held back.
struct Held {
    registry: Registry,
    running: Mutex<(usize, usize)>,
    released: Notify,
}

#[async_trait]
impl CatalogImages for Held {
    async fn resolve(&self, image: &Reference) -> Result<Reference, UnpackError> {
        self.registry.resolve(image).await
    }

    async fn fetch(
        &self,
        image: &Reference,
        as_requested: &Reference,
        folder: &Path,
    ) -> Result<(), UnpackError> {
        {
            let mut running = self.running.lock();
            running.0 += 1;
            running.1 = running.1.max(running.0);
        }
        self.released.notified().await;
        self.running.lock().0 -= 1;
        self.registry.fetch(image, as_requested, folder).await
    }
}

fn request() -> Request {
    Request {
        image: IMAGE.into(),
        poll: None,
    }
}

/// Waits until tasks can do nothing more without time passing.
async fn rest() {
    tokio::time::sleep(Duration::from_millis(1)).await;
}

#[tokio::test(start_paused = true)]
async fn a_removed_catalog_gets_no_content_from_a_pull_that_was_under_way() {
    let root = tempfile::tempdir().unwrap();
    let store = ContentStore::open(root.path()).unwrap();
    let registry = Registry::default();
    registry.push(IMAGE, "schema: one\n");
    let images = Arc::new(Held {
        registry,
        running: Mutex::default(),
        released: Notify::new(),
    });
    let unpacking = Unpacking::new(store.clone(), images.clone(), |_| {});
    assert_eq!(unpacking.want("a", &request()), None);
    rest().await;
    assert!(!unpacking.has_content("a"));
    assert_eq!(images.running.lock().0, 1);
    unpacking.remove("a");
    images.released.notify_one();
    rest().await;
    assert_eq!(store.names(), [""; 0]);
    assert_eq!(std::fs::read_dir(root.path()).unwrap().count(), 0);
    // It can be requested again.
    unpacking.want("a", &request());
    rest().await;
    images.released.notify_one();
    rest().await;
    assert!(unpacking.want("a", &request()).unwrap().is_ok());
    assert!(unpacking.has_content("a"));
    assert_eq!(store.names(), ["a"]);
}

#[tokio::test(start_paused = true)]
async fn few_images_are_pulled_at_a_time() {
    let root = tempfile::tempdir().unwrap();
    let store = ContentStore::open(root.path()).unwrap();
    let registry = Registry::default();
    registry.push(IMAGE, "schema: one\n");
    let images = Arc::new(Held {
        registry,
        running: Mutex::default(),
        released: Notify::new(),
    });
    let unpacking = Unpacking::new(store.clone(), images.clone(), |_| {});
    for number in 0..5 {
        unpacking.want(&format!("cat-{number}"), &request());
    }
    for _ in 0..5 {
        rest().await;
        images.released.notify_one();
    }
    rest().await;
    assert_eq!(images.running.lock().1, PARALLEL);
    assert_eq!(store.names().len(), 5);
}

#[tokio::test(start_paused = true)]
async fn tasks_end_with_their_owner() {
    let root = tempfile::tempdir().unwrap();
    let store = ContentStore::open(root.path()).unwrap();
    let registry = Registry::default();
    let unpacking = Unpacking::new(store, Arc::new(registry.clone()), |_| {});
    unpacking.want("a", &request());
    tokio::time::sleep(Duration::from_secs(60)).await;
    let (resolved, _) = registry.counts();
    assert!(resolved > 1, "{resolved}");
    drop(unpacking.clone());
    tokio::time::sleep(Duration::from_secs(600)).await;
    let (more, _) = registry.counts();
    assert!(more > resolved);
    drop(unpacking);
    tokio::time::sleep(Duration::from_secs(600)).await;
    assert_eq!(registry.counts().0, more);
}

#[test]
fn delays_double_up_to_five_minutes() {
    let delays: Vec<u64> = (0..12)
        .map(|failures| backoff(FIRST_BACKOFF, LONGEST_BACKOFF, failures).as_secs())
        .collect();
    assert_eq!(delays, [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300, 300]);
    assert_eq!(backoff(FIRST_BACKOFF, LONGEST_BACKOFF, u32::MAX), LONGEST_BACKOFF);
    let interval = Duration::from_secs(1000);
    for _ in 0..100 {
        let delay = jittered(interval);
        assert!(
            delay >= interval && delay <= interval + Duration::from_secs(10),
            "{delay:?}"
        );
    }
}
