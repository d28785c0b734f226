mod fairness;
mod subscribers;

use std::collections::VecDeque;

use futures::FutureExt as _;
use serde_json::json;

use super::super::config_map::decode;
use super::super::error::UnpackClass;
use super::*;

impl Default for UnpackerConfig {
    fn default() -> Self {
        Self {
            parallel: 4,
            deadline: Duration::from_secs(600),
            global_namespace: "olm".to_owned(),
        }
    }
}

impl Unpacker {
    /// Number of known bundles, in any state.
    fn count(&self) -> usize {
        self.shared.entries.lock().len()
    }
}

/// Returns the results in order; the last one repeats.
struct Script {
    answers: Mutex<VecDeque<Result<UnpackedBundle, UnpackError>>>,
    fetched: Mutex<Vec<String>>,
    takes: Duration,
}

#[async_trait]
impl BundleSource for Script {
    async fn fetch(&self, image: &str, catalog: &NamespacedName) -> Result<UnpackedBundle, UnpackError> {
        self.fetched.lock().push(format!("{image} for {catalog}"));
        tokio::time::sleep(self.takes).await;
        let mut answers = self.answers.lock();
        if answers.len() > 1 {
            answers.pop_front().unwrap()
        } else {
            answers[0].clone()
        }
    }
}

struct Rig {
    unpacker: Unpacker,
    script: Arc<Script>,
    woken: Arc<Mutex<Vec<Subscriber>>>,
    /// Folder of the store.
    folder: tempfile::TempDir,
}

fn rig(answers: Vec<Result<UnpackedBundle, UnpackError>>) -> Rig {
    let script = Arc::new(Script {
        answers: Mutex::new(answers.into()),
        fetched: Mutex::default(),
        takes: Duration::from_secs(1),
    });
    let woken = Arc::new(Mutex::new(Vec::new()));
    let wake = {
        let woken = Arc::clone(&woken);
        move |subscriber: &Subscriber| woken.lock().push(subscriber.clone())
    };
    let folder = tempfile::tempdir().unwrap();
    let unpacker = Unpacker::new(
        script.clone(),
        Arc::new(BundleStore::new(Some(folder.path().to_owned()))),
        None,
        UnpackerConfig::default(),
        Figures::default(),
        wake,
    );
    Rig {
        unpacker,
        script,
        woken,
        folder,
    }
}

impl Rig {
    fn ask(&self, namespace: &str) -> String {
        told(&self.unpacker.request(&request(namespace)))
    }

    fn fetches(&self) -> usize {
        self.script.fetched.lock().len()
    }

    /// Removes all bundles, as the store does above its limit.
    fn empty_store(&self) {
        for entry in std::fs::read_dir(self.folder.path()).unwrap() {
            std::fs::remove_file(entry.unwrap().path()).unwrap();
        }
    }

    fn woken(&self) -> Vec<String> {
        let woken = std::mem::take(&mut *self.woken.lock());
        woken
            .into_iter()
            .map(|subscriber| match subscriber {
                Subscriber::Namespace(name) => name,
                Subscriber::InstallPlan(key) => key.to_string(),
            })
            .collect()
    }
}

fn told(state: &UnpackState) -> String {
    match state {
        UnpackState::Unpacking { trouble: None, .. } => "unpacking".into(),
        UnpackState::Unpacking {
            trouble: Some(error), ..
        } => format!("unpacking after {:?}", error.class),
        UnpackState::Ready(bundle) => format!("ready {}", bundle.image()),
        UnpackState::Failed { error, .. } => format!("failed {:?}", error.class),
    }
}

fn request(namespace: &str) -> UnpackRequest {
    UnpackRequest {
        image: "r/b:v1".into(),
        inline: None,
        bundle: "a.v1".into(),
        catalog: NamespacedName::new("olm", "cat"),
        deadline: None,
        retry_interval: None,
        subscriber: Subscriber::Namespace(namespace.into()),
    }
}

fn bundle() -> Result<UnpackedBundle, UnpackError> {
    let csv = json!({"apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion", "metadata": {"name": "a.v1"}});
    Ok(UnpackedBundle {
        image: "r/b@sha256:00".into(),
        csv,
        ..UnpackedBundle::default()
    })
}

fn error(class: UnpackClass) -> Result<UnpackedBundle, UnpackError> {
    Err(UnpackError::new(class, "cause"))
}

async fn wait(seconds: u64) {
    tokio::time::sleep(Duration::from_secs(seconds)).await;
    tokio::task::yield_now().await;
}

#[tokio::test(start_paused = true)]
async fn one_fetch_serves_everybody_and_wakes_them() {
    let rig = rig(vec![bundle()]);
    assert_eq!(rig.ask("one"), "unpacking");
    assert_eq!(rig.ask("two"), "unpacking");
    assert!(rig.woken().is_empty());
    wait(2).await;
    assert_eq!(rig.woken(), ["one", "two"]);
    assert_eq!(rig.ask("one"), "ready r/b@sha256:00");
    assert_eq!(rig.fetches(), 1);
}

#[tokio::test(start_paused = true)]
async fn bundle_asked_for_by_tag_is_there_by_digest() {
    let rig = rig(vec![bundle()]);
    rig.ask("one");
    wait(2).await;
    let by_digest = UnpackRequest {
        image: "r/b@sha256:00".into(),
        ..request("one")
    };
    assert!(matches!(rig.unpacker.request(&by_digest), UnpackState::Ready(_)));
    assert_eq!(rig.fetches(), 1);
}

#[tokio::test(start_paused = true)]
async fn catalogs_do_not_share_what_they_may_see() {
    let rig = rig(vec![bundle()]);
    rig.ask("one");
    let other = UnpackRequest {
        catalog: NamespacedName::new("team", "cat"),
        ..request("team")
    };
    assert!(matches!(
        rig.unpacker.request(&other),
        UnpackState::Unpacking { .. }
    ));
    wait(2).await;
    assert_eq!(
        *rig.script.fetched.lock(),
        ["r/b:v1 for olm/cat", "r/b:v1 for team/cat"]
    );
}

/// The next request needs the catalog's secrets.
#[tokio::test(start_paused = true)]
async fn a_bundle_nobody_uses_is_forgotten() {
    let rig = rig(vec![bundle()]);
    rig.ask("one");
    for _ in 0..5 {
        wait(KEEP_READY.as_secs() - 10).await;
        assert_eq!(rig.ask("one"), "ready r/b@sha256:00", "used just before");
    }
    assert_eq!(rig.fetches(), 1);
    wait(KEEP_READY.as_secs()).await;
    let other = UnpackRequest {
        image: "r/other:v1".into(),
        ..request("one")
    };
    rig.unpacker.request(&other);
    assert_eq!(rig.unpacker.count(), 1);
    assert_eq!(rig.ask("one"), "unpacking");
}

#[tokio::test(start_paused = true)]
async fn a_bundle_that_is_no_longer_on_disk_is_fetched_again() {
    let rig = rig(vec![bundle()]);
    rig.ask("one");
    wait(2).await;
    let UnpackState::Ready(stored) = rig.unpacker.request(&request("one")) else {
        panic!("not ready")
    };
    assert_eq!(stored.read(), bundle().ok());
    rig.empty_store();
    assert_eq!(stored.read(), None);
    // A plan gets the approved content, even if the tag has moved.
    let by_digest = UnpackRequest {
        image: "r/b@sha256:00".into(),
        ..request("two")
    };
    assert_eq!(told(&rig.unpacker.request(&by_digest)), "unpacking");
    rig.woken();
    wait(2).await;
    assert_eq!(rig.woken(), ["two"]);
    assert_eq!(stored.read(), bundle().ok());
    assert_eq!(rig.script.fetched.lock()[1], "r/b@sha256:00 for olm/cat");
}

/// A first request that returned at once used to block everything else meanwhile.
#[tokio::test]
async fn a_large_bundle_delays_no_other() {
    let csv =
        "apiVersion: operators.coreos.com/v1alpha1\nkind: ClusterServiceVersion\nmetadata: {name: a.v1}\n";
    let large = "kind: ConfigMap\napiVersion: v1\nmetadata: {name: x}\ndata:\n  k: v\n";
    let entries: serde_json::Map<String, serde_json::Value> = (0..2000)
        .map(|index| {
            let text = large.replace("name: x", &format!("name: x{index}"));
            (format!("{index}.yaml"), text.into())
        })
        .chain([("csv.yaml".to_owned(), csv.into())])
        .collect();
    let config_map = json!({ "data": entries });
    let rig = rig(vec![bundle()]);
    let unpack = Unpack::new(Arc::clone(&rig.unpacker.shared), Key::of(&request("one")));
    let mut storing = Box::pin(unpack.store(false, move || decode(&config_map)));
    assert!(storing.as_mut().now_or_never().is_none(), "it was read at once");
    let stored = storing.await.unwrap();
    assert_eq!(stored.read().unwrap().objects.len(), 2000);
}

#[tokio::test(start_paused = true)]
async fn an_unresponsive_registry_is_retried_without_a_new_request() {
    let rig = rig(vec![
        error(UnpackClass::Unreachable),
        error(UnpackClass::Unreachable),
        bundle(),
    ]);
    rig.ask("one");
    wait(2).await;
    assert_eq!(rig.woken(), ["one"], "told of the trouble once");
    assert_eq!(rig.ask("one"), "unpacking after Unreachable");
    wait(10).await;
    assert_eq!(rig.woken(), ["one"]);
    assert_eq!(rig.ask("one"), "ready r/b@sha256:00");
    assert_eq!(rig.fetches(), 3);
}

#[tokio::test(start_paused = true)]
async fn silence_beyond_the_deadline_is_a_failure() {
    let rig = rig(vec![error(UnpackClass::Unreachable)]);
    rig.unpacker.request(&UnpackRequest {
        deadline: Some(Duration::from_secs(30)),
        ..request("one")
    });
    wait(60).await;
    let UnpackState::Failed { error, .. } = rig.unpacker.request(&request("one")) else {
        panic!("{}", rig.ask("one"));
    };
    assert_eq!(error.class, UnpackClass::Unreachable);
    assert_eq!(error.cause, "DeadlineExceeded: cause");
}

#[tokio::test(start_paused = true)]
async fn refused_image_is_retried_after_its_time() {
    let rig = rig(vec![error(UnpackClass::Unauthorized), bundle()]);
    rig.ask("one");
    wait(2).await;
    assert_eq!(rig.woken(), ["one"]);
    assert!(rig.ask("one").starts_with("failed Unauthorized"));
    assert_eq!(rig.fetches(), 1, "asking does not hasten it");
    let UnpackState::Failed { retry_in, .. } = rig.unpacker.request(&request("one")) else {
        panic!("{}", rig.ask("one"));
    };
    let seconds = retry_in.as_secs();
    assert!((50..=60).contains(&seconds), "{seconds}");
    wait(60).await;
    assert_eq!(rig.ask("one"), "unpacking");
    wait(2).await;
    assert_eq!(rig.ask("one"), "ready r/b@sha256:00");
}

#[tokio::test(start_paused = true)]
async fn a_changed_catalog_forgets_its_failures() {
    let rig = rig(vec![error(UnpackClass::Unauthorized), bundle()]);
    rig.ask("one");
    wait(2).await;
    rig.ask("one");
    rig.woken();
    rig.unpacker.forget_failures(&NamespacedName::new("olm", "other"));
    assert!(rig.ask("one").starts_with("failed"));
    rig.unpacker.forget_failures(&NamespacedName::new("olm", "cat"));
    assert_eq!(rig.woken(), ["one"]);
    assert_eq!(rig.ask("one"), "unpacking");
}

#[tokio::test(start_paused = true)]
async fn forgotten_failures_leave_memory() {
    let rig = rig(vec![error(UnpackClass::NotFound)]);
    rig.ask("one");
    wait(300).await;
    rig.unpacker.request(&UnpackRequest {
        bundle: "b.v1".into(),
        ..request("one")
    });
    assert_eq!(rig.unpacker.count(), 1);
}

#[tokio::test(start_paused = true)]
async fn the_wrong_operator_in_an_image_is_refused() {
    let rig = rig(vec![bundle()]);
    let request = UnpackRequest {
        bundle: "b.v1".into(),
        ..request("one")
    };
    rig.unpacker.request(&request);
    wait(2).await;
    let UnpackState::Failed { error, .. } = rig.unpacker.request(&request) else {
        panic!("not failed")
    };
    insta::assert_snapshot!(error, @"bundle b.v1: image `r/b@sha256:00`: it contains ClusterServiceVersion a.v1, the catalog names b.v1; correct the file and build the bundle image again");
}

#[test]
fn the_reference_page_has_these_figures() {
    use super::super::bundle_store::{BUNDLE_BYTES, STORE_BYTES};
    use crate::snapshots::{NAMESPACE_BYTES, READ_AGAIN_WHEN_FULL, TOTAL_BYTES};
    let page = include_str!("../../../../../docs/reference/limits.md");
    let mib = |bytes: u64| format!("{} MiB", bytes >> 20);
    for (limit, value) in [
        ("Objects of one bundle", mib(BUNDLE_BYTES as u64)),
        ("Unpacked bundles on disk, all together", mib(STORE_BYTES)),
        ("Catalogs of one namespace", mib(NAMESPACE_BYTES as u64)),
        ("Catalogs of all namespaces", mib(TOTAL_BYTES as u64)),
        (
            "Pause before such a catalog is read again",
            format!("{} s", READ_AGAIN_WHEN_FULL.as_secs()),
        ),
    ] {
        let row = format!("| {limit} | {value} |");
        assert!(page.contains(&row), "no row {row}");
    }
}
