//! Effects of one namespace's bundles on others.

use super::*;

/// A registry `drip` that never completes a response, one that takes a second, and one, `slow`, that takes a
/// minute and a half.
#[derive(Default)]
struct Registries {
    begun: Mutex<Vec<String>>,
}

#[async_trait]
impl BundleSource for Registries {
    async fn fetch(&self, image: &str, _catalog: &NamespacedName) -> Result<UnpackedBundle, UnpackError> {
        self.begun.lock().push(image.to_owned());
        let seconds = match image.split_once('/') {
            Some(("drip", _)) => 1_000_000,
            Some(("slow", _)) => 90,
            _ => 1,
        };
        tokio::time::sleep(Duration::from_secs(seconds)).await;
        bundle()
    }
}

fn unpacker() -> (Unpacker, Arc<Registries>) {
    let registries = Arc::new(Registries::default());
    let source: Arc<dyn BundleSource> = Arc::<Registries>::clone(&registries);
    let store = Arc::new(BundleStore::new(None));
    let (config, figures) = (UnpackerConfig::default(), Figures::default());
    let unpacker = Unpacker::new(source, store, None, config, figures, |_| {});
    (unpacker, registries)
}

/// A request for a bundle of the namespace's own catalog.
fn wants(namespace: &str, image: &str) -> UnpackRequest {
    UnpackRequest {
        image: image.to_owned(),
        catalog: NamespacedName::new(namespace, "cat"),
        ..request(namespace)
    }
}

fn is_ready(unpacker: &Unpacker, request: &UnpackRequest) -> bool {
    matches!(unpacker.request(request), UnpackState::Ready(_))
}

/// Four and many more bundles are on a registry with dripping responses; another namespace's bundle still
/// takes one second.
#[tokio::test(start_paused = true)]
async fn a_dripping_registry_of_one_namespace_does_not_hold_up_another() {
    let (unpacker, registries) = unpacker();
    for number in 0..50 {
        unpacker.request(&wants("noisy", &format!("drip/b:v{number}")));
    }
    wait(5).await;
    let quiet = wants("quiet", "r/b:v1");
    unpacker.request(&quiet);
    wait(2).await;
    assert!(is_ready(&unpacker, &quiet));
    let begun = registries.begun.lock().clone();
    assert_eq!(begun, ["drip/b:v0", "drip/b:v1", "r/b:v1"]);
}

/// The tenant whose own registry drips is the first to request the bundle.
#[tokio::test(start_paused = true)]
async fn dripping_registries_of_tenants_do_not_hold_up_global_catalogs() {
    let (unpacker, _) = unpacker();
    for tenant in ["a", "b", "c"] {
        for number in 0..9 {
            unpacker.request(&wants(tenant, &format!("drip/{tenant}:v{number}")));
        }
    }
    wait(5).await;
    unpacker.request(&request("a"));
    wait(2).await;
    assert!(is_ready(&unpacker, &request("quiet")));
}

/// A reconcile needs all of its bundles at once, and each time requests all of them.
#[tokio::test(start_paused = true)]
async fn a_bundle_that_waits_for_others_is_fetched_once() {
    let (unpacker, registries) = unpacker();
    let needed = ["r/b:v1", "slow/b:v1", "r/b:v2"].map(|image| wants("one", image));
    for request in &needed {
        unpacker.request(request);
    }
    wait(100).await;
    assert!(needed.iter().all(|request| is_ready(&unpacker, request)));
    assert_eq!(registries.begun.lock().len(), 3);
}

/// Two hundred bundles are requested first; those of the other namespace get every second slot.
#[tokio::test(start_paused = true)]
async fn many_bundles_of_one_namespace_cost_another_one_fetch_each() {
    let (unpacker, registries) = unpacker();
    for number in 0..200 {
        unpacker.request(&wants("noisy", &format!("r/noisy:v{number}")));
    }
    wait(0).await;
    for number in 0..3 {
        unpacker.request(&wants("quiet", &format!("r/quiet:v{number}")));
    }
    wait(3).await;
    let begun = registries.begun.lock().clone();
    let last = begun.iter().rposition(|image| image.starts_with("r/quiet"));
    let noisy = begun[..last.unwrap()]
        .iter()
        .filter(|image| image.starts_with("r/noisy"));
    assert!(begun.contains(&"r/quiet:v2".to_owned()), "{begun:?}");
    assert!(noisy.count() <= 3 + 2, "{begun:?}");
}

/// Waiting for others does not count towards an unpack's deadline.
#[tokio::test(start_paused = true)]
async fn waiting_for_a_turn_does_not_count_against_the_deadline() {
    let (unpacker, _) = unpacker();
    let in_ten_seconds = |number: u32| UnpackRequest {
        deadline: Some(Duration::from_secs(10)),
        ..wants("noisy", &format!("r/noisy:v{number}"))
    };
    for number in 0..100 {
        unpacker.request(&in_ten_seconds(number));
    }
    // Two at a time, one second each.
    wait(52).await;
    assert!(is_ready(&unpacker, &in_ten_seconds(99)));
}

/// A deadline of days does not hold a permit for days.
#[tokio::test(start_paused = true)]
async fn no_attempt_takes_longer_than_ten_minutes() {
    let (unpacker, _) = unpacker();
    let patient = UnpackRequest {
        deadline: Some(Duration::from_secs(24 * 3600)),
        ..wants("noisy", "drip/b:v1")
    };
    unpacker.request(&patient);
    wait(601).await;
    let UnpackState::Unpacking {
        trouble: Some(error), ..
    } = unpacker.request(&patient)
    else {
        panic!("goes on without a word")
    };
    assert!(error.cause.contains("pull timed out after 600 s"), "{error}");
}
