//! Polls on a paused clock, with registries that respond, fail, or never finish.

use tokio::sync::mpsc;
use tokio::time::{Instant, advance};

use super::*;

/// Responds at once, except for some images, for which it never does.
#[derive(Default)]
struct Registry {
    asked: Mutex<Vec<String>>,
}

#[async_trait]
impl ImageTags for Registry {
    async fn digest(&self, image: &str, catalog: &NamespacedName) -> Result<String, String> {
        self.asked.lock().push(catalog.to_string());
        match image {
            "silent" => std::future::pending().await,
            "refused" => Err("no".to_owned()),
            _ => Ok("sha256:aaa".to_owned()),
        }
    }
}

struct Bench {
    registry: Arc<Registry>,
    polls: ImagePolls,
    woken: mpsc::UnboundedReceiver<String>,
}

fn bench() -> Bench {
    let registry = Arc::<Registry>::default();
    let (sender, woken) = mpsc::unbounded_channel();
    let polls = ImagePolls::new(Arc::<Registry>::clone(&registry), move |key: &NamespacedName| {
        let _ = sender.send(key.to_string());
    });
    Bench {
        registry,
        polls,
        woken,
    }
}

fn due(image: &str, due: Timestamp) -> Poll {
    Poll {
        image: image.to_owned(),
        due: whole_seconds(due),
        check: None,
    }
}

impl Bench {
    fn look(&self, namespace: &str, name: &str, image: &str) -> Option<Check> {
        let now = clock::now();
        self.polls
            .look(&NamespacedName::new(namespace, name), &due(image, now), now)
    }

    fn asked(&self) -> usize {
        self.registry.asked.lock().len()
    }
}

#[tokio::test(start_paused = true)]
async fn cat_022_a_poll_that_is_due_is_made_once_and_wakes_its_catalog() {
    let mut bench = bench();
    let key = NamespacedName::new("ns", "cat");
    let now = clock::now();
    let poll = due("tag", now);
    let early = due("tag", now + Duration::from_secs(60));
    assert_eq!(bench.polls.look(&key, &early, now), None);
    for _ in 0..3 {
        assert_eq!(bench.polls.look(&key, &poll, now), None);
    }
    assert_eq!(bench.woken.recv().await.unwrap(), "ns/cat");
    let check = bench.polls.look(&key, &poll, now).unwrap();
    assert_eq!(check.digest.as_deref(), Some("sha256:aaa"));
    assert_eq!(check.at, whole_seconds(now));
    // The result is kept until the next poll is due, and during that.
    advance(Duration::from_secs(60)).await;
    assert_eq!(bench.polls.look(&key, &poll, clock::now()), Some(check.clone()));
    assert_eq!(bench.asked(), 1);
    assert_eq!(bench.polls.look(&key, &early, clock::now()), Some(check.clone()));
    bench.woken.recv().await.unwrap();
    assert_ne!(bench.polls.look(&key, &early, clock::now()), Some(check));
    assert_eq!(bench.asked(), 2);
}

/// The clock was an hour ahead, and was corrected.
#[tokio::test(start_paused = true)]
async fn a_poll_in_the_future_is_no_poll() {
    let mut bench = bench();
    let key = NamespacedName::new("ns", "cat");
    let now = clock::now();
    bench.polls.look(&key, &due("tag", now), now);
    bench.woken.recv().await.unwrap();
    let before = now - Duration::from_secs(3600);
    bench.polls.look(&key, &due("tag", before), before);
    tokio::time::sleep(Duration::from_millis(1)).await;
    assert_eq!(bench.asked(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_registry_that_refuses_or_never_answers_is_not_waited_for_without_end() {
    for image in ["refused", "silent"] {
        let mut bench = bench();
        assert_eq!(bench.look("ns", "cat", image), None);
        let (began, now) = (Instant::now(), clock::now());
        bench.woken.recv().await.unwrap();
        assert!(began.elapsed() < DEADLINE + Duration::from_millis(2));
        let poll = due(image, now);
        let check = bench.polls.look(&NamespacedName::new("ns", "cat"), &poll, now);
        assert_eq!(check.unwrap().digest, None);
    }
}

/// A registry with dripping or missing responses for one tenant affects only that tenant.
#[tokio::test(start_paused = true)]
async fn silent_registries_of_one_namespace_do_not_hold_up_the_others() {
    let mut bench = bench();
    for catalog in 0..100 {
        bench.look("noisy", &catalog.to_string(), "silent");
    }
    let began = Instant::now();
    tokio::task::yield_now().await;
    bench.look("quiet", "cat", "tag");
    assert_eq!(bench.woken.recv().await.unwrap(), "quiet/cat");
    assert_eq!(began.elapsed(), Duration::ZERO, "it was not waited for");
    assert_eq!(bench.asked(), 1 + PARALLEL / 2);
}

#[tokio::test(start_paused = true)]
async fn another_image_is_asked_for_anew_and_what_is_forgotten_leaves_nothing() {
    let mut bench = bench();
    bench.look("ns", "cat", "silent");
    tokio::task::yield_now().await;
    bench.look("ns", "cat", "tag");
    assert_eq!(bench.woken.recv().await.unwrap(), "ns/cat");
    let key = NamespacedName::new("ns", "cat");
    assert!(bench.look("ns", "cat", "tag").is_some());
    assert_eq!(
        bench.look("ns", "cat", "refused"),
        None,
        "what is known is of another image"
    );
    bench.woken.recv().await.unwrap();
    for _ in 0..=PARALLEL {
        bench.look("ns", "cat", "silent");
        tokio::task::yield_now().await;
        bench.polls.forget(&key);
    }
    assert!(bench.polls.lock().is_empty());
    // The tasks also release their permits.
    bench.look("ns", "cat", "tag");
    let began = Instant::now();
    bench.woken.recv().await.unwrap();
    assert_eq!(began.elapsed(), Duration::ZERO);
}
