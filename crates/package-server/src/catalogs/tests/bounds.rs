//! Limits on the costs of one tenant's catalogs for others.

use tokio::sync::oneshot;

use super::*;
use crate::limits::REGISTRY_MESSAGE_BYTES;

const NO_ROOM: &str = "bytes in memory beside other catalogs, the limit";

#[tokio::test]
async fn what_takes_too_much_memory_is_not_served_and_what_was_stays() {
    let small = test_env::catalog(&[("demo", &["1.0.0"])]);
    let large = test_env::catalog(&[("a", &["1.0.0"]), ("b", &["1.0.0"]), ("c", &["1.0.0"])]);
    let (small, large) = (Registry::of(small.path()).await, Registry::of(large.path()).await);
    // It fits by itself.
    let lab = Lab::with_bounds(bytes_of(&large.address).await + 100, TENANT_BYTES);
    lab.sources.put(source("tenant", "small", &small.address));
    lab.wait_to_see(&["tenant/demo.v1.0.0"]).await;
    lab.sources.put(source("tenant", "large", &large.address));
    let failure = lab.wait_for_failure("tenant", "large").await;
    assert!(failure.contains(NO_ROOM), "{failure}");
    assert_eq!(lab.seen(None), ["tenant/demo.v1.0.0"]);
    assert!(lab.state("tenant", "large").unwrap().has_no_room);
    assert!(!lab.state("tenant", "small").unwrap().has_no_room);
    // One tenant's catalogs take nothing from another's.
    lab.sources.put(source("other", "large", &large.address));
    lab.wait_to_see(&[
        "other/a.v1.0.0",
        "other/b.v1.0.0",
        "other/c.v1.0.0",
        "tenant/demo.v1.0.0",
    ])
    .await;
}

#[tokio::test]
async fn all_tenants_together_have_a_limit_and_global_catalogs_their_own() {
    let folder = test_env::catalog(&[("demo", &["1.0.0"])]);
    let registry = Registry::of(folder.path()).await;
    let bytes = bytes_of(&registry.address).await;
    let lab = Lab::with_bounds(NAMESPACE_BYTES, bytes + bytes / 2);
    lab.sources.put(source("a", "cat", &registry.address));
    lab.wait_to_see(&["a/demo.v1.0.0"]).await;
    lab.sources.put(source("b", "cat", &registry.address));
    let failure = lab.wait_for_failure("b", "cat").await;
    assert!(failure.contains(NO_ROOM), "{failure}");
    // The room may be taken while a catalog is read.
    let late = reader::Read {
        bytes,
        ..reader::Read::default()
    };
    let key = NamespacedName::new("b", "cat");
    assert!(lab.catalogs.shared.keep(&key, None, late).is_err());
    lab.sources.put(source("olm", "cat", &registry.address));
    lab.wait_to_see(&["a/demo.v1.0.0", "olm/demo.v1.0.0"]).await;
}

/// Returns the bytes of the catalog behind `address`.
async fn bytes_of(address: &str) -> usize {
    let lab = Lab::new();
    lab.sources.put(source("tenant", "cat", address));
    wait_for("its size", || {
        lab.state("tenant", "cat")
            .map(|state| state.bytes)
            .filter(|bytes| *bytes > 0)
    })
    .await
}

/// All heads of a package are in memory until it is complete, including the parts that are not kept.
#[tokio::test]
async fn heads_are_bounded_while_a_package_is_read() {
    let folder = test_env::catalog(&[("demo", &["1.0.0"])]);
    let registry = Registry::of(folder.path()).await;
    let kept = bytes_of(&registry.address).await;
    let side = test_env::catalog_with_side_channel(60_000, 0);
    let side = Registry::of(side.path()).await;
    let both = bytes_of(&side.address).await;
    assert!(both < kept + 20_000, "the icon of a side channel is kept");
    let lab = Lab::with_bounds(kept + 30_000, TENANT_BYTES);
    lab.sources.put(source("tenant", "cat", &side.address));
    let failure = lab.wait_for_failure("tenant", "cat").await;
    assert!(failure.contains(NO_ROOM), "{failure}");
}

#[tokio::test]
async fn the_channel_of_a_bundle_that_is_too_large_is_left_out() {
    let folder = test_env::catalog_with_side_channel(1, REGISTRY_MESSAGE_BYTES);
    let registry = Registry::of(folder.path()).await;
    let lab = Lab::new();
    lab.sources.put(source("tenant", "cat", &registry.address));
    lab.wait_to_see(&["tenant/demo.v1.0.0"]).await;
    assert_eq!(lab.state("tenant", "cat").unwrap().left_out, 1);
}

/// Closes connections when the test asks for it.
#[derive(Default)]
struct HangingUp {
    dialled: Mutex<Vec<(Instant, oneshot::Sender<()>)>>,
}

#[async_trait]
impl Dial for HangingUp {
    async fn connect(&self, dial: &str, address: &str) -> Result<Dialled, String> {
        let dialled = Tcp.connect(dial, address).await?;
        let (alive, lost) = oneshot::channel();
        self.dialled.lock().push((Instant::now(), alive));
        Ok(Dialled { lost, ..dialled })
    }
}

#[tokio::test]
async fn a_registry_that_hangs_up_when_it_was_read_is_not_read_without_a_pause() {
    let folder = test_env::catalog(&[("demo", &["1.0.0"])]);
    let registry = Registry::of(folder.path()).await;
    let dial = Arc::<HangingUp>::default();
    let catalogs = Catalogs::new("olm", HALF_A_DAY, Arc::clone(&dial) as Arc<dyn Dial>);
    let sources = Store::new();
    catalogs.follow(&sources);
    sources.put(source("tenant", "cat", &registry.address));
    let read_at = || catalogs.states().first().and_then(|(_, state)| state.read_at);
    wait_for("a read", read_at).await;
    let (first, alive) = dial.dialled.lock().pop().unwrap();
    drop(alive);
    let second = wait_for("another", || dial.dialled.lock().pop()).await.0;
    assert!(second - first >= FIRST_RETRY, "{:?}", second - first);
}

#[tokio::test]
async fn what_was_read_of_one_is_not_served_as_another_of_its_name() {
    let lab = Lab::new();
    let folder = test_env::catalog(&[("demo", &["1.0.0"])]);
    let registry = Registry::of(folder.path()).await;
    lab.put(&source("olm", "cat", &registry.address), 1);
    lab.wait_to_see(&["olm/demo.v1.0.0"]).await;
    let key = NamespacedName::new("olm", "cat");
    let shared = &lab.catalogs.shared;
    shared
        .keep(&key, Some("another"), reader::Read::default())
        .unwrap();
    shared.note_failure(&key, Some("another"), &ReadError::new("away"));
    assert_eq!(lab.seen(None), ["olm/demo.v1.0.0"]);
    assert_eq!(lab.state("olm", "cat").unwrap().failure, None);
}
