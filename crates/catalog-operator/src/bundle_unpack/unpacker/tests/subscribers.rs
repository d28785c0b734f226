//! Effects of subscribers of the same bundle on each other.

use super::*;

const HOUR: u64 = 3600;

impl Rig {
    fn ask_with(&self, namespace: &str, deadline: Option<u64>, interval: Option<u64>) -> String {
        let request = UnpackRequest {
            deadline: deadline.map(Duration::from_secs),
            retry_interval: interval.map(Duration::from_secs),
            ..request(namespace)
        };
        told(&self.unpacker.request(&request))
    }
}

/// The first subscriber wants a day between two tries; the next one does not wait for it.
#[tokio::test(start_paused = true)]
async fn one_namespaces_pause_after_a_failure_is_not_anothers() {
    let rig = rig(vec![error(UnpackClass::NotFound), bundle()]);
    rig.ask_with("patient", None, Some(24 * HOUR));
    wait(2).await;
    assert_eq!(rig.woken(), ["patient"]);
    assert_eq!(rig.ask_with("patient", None, Some(24 * HOUR)), "failed NotFound");
    wait(30).await;
    assert_eq!(rig.ask("quiet"), "failed NotFound", "its own minute is not over");
    wait(30).await;
    assert_eq!(rig.ask("quiet"), "unpacking");
    assert_eq!(
        rig.ask_with("patient", None, Some(24 * HOUR)),
        "failed NotFound",
        "what it would not have tried is no news to it"
    );
    wait(2).await;
    let mut woken = rig.woken();
    woken.sort();
    assert_eq!(woken, ["patient", "quiet"], "but what came of it is");
    assert_eq!(
        rig.ask_with("patient", None, Some(24 * HOUR)),
        "ready r/b@sha256:00"
    );
}

#[tokio::test(start_paused = true)]
async fn a_later_subscriber_of_a_failed_bundle_waits_for_its_own_interval() {
    let rig = rig(vec![error(UnpackClass::NotFound), bundle()]);
    rig.ask_with("patient", None, Some(24 * HOUR));
    wait(2).await;
    rig.ask_with("patient", None, Some(24 * HOUR));
    wait(400).await;
    assert_eq!(rig.ask("quiet"), "unpacking");
}

/// A subscriber with a deadline of thirty seconds is first; the other has the default ten minutes.
#[tokio::test(start_paused = true)]
async fn an_unpack_goes_on_for_the_longest_deadline_of_those_who_wait() {
    let rig = rig(vec![error(UnpackClass::Unreachable)]);
    rig.ask_with("hasty", Some(30), None);
    rig.ask("quiet");
    wait(120).await;
    assert_eq!(rig.ask("quiet"), "unpacking after Unreachable");
    wait(600).await;
    assert_eq!(rig.ask("quiet"), "failed Unreachable");
}

#[tokio::test(start_paused = true)]
async fn an_unpack_with_a_subscriber_continues() {
    let rig = rig(vec![error(UnpackClass::Unreachable)]);
    rig.ask_with("there", Some(0), None);
    for _ in 0..60 {
        wait(60).await;
        if !rig.woken().is_empty() {
            rig.ask_with("there", Some(0), None);
        }
    }
    let fetches = rig.fetches();
    wait(120).await;
    assert!(rig.fetches() > fetches);
    assert_eq!(rig.unpacker.count(), 1);
}

struct Faulty;

#[async_trait]
impl BundleSource for Faulty {
    async fn fetch(&self, _image: &str, _catalog: &NamespacedName) -> Result<UnpackedBundle, UnpackError> {
        tokio::task::yield_now().await;
        panic!("a fault")
    }
}

#[tokio::test(start_paused = true)]
async fn a_fault_in_reading_a_bundle_is_a_failure_of_that_bundle() {
    let unpacker = Unpacker::new(
        Arc::new(Faulty),
        Arc::new(BundleStore::new(None)),
        None,
        UnpackerConfig::default(),
        Figures::default(),
        |_| {},
    );
    for _ in 0..8 {
        unpacker.request(&request("one"));
        wait(1).await;
        assert_eq!(told(&unpacker.request(&request("one"))), "failed InvalidManifest");
        wait(400).await;
    }
}
