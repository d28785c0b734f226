//! Answers that require work that cannot be cancelled. After a disconnect the work continues, later requests share its result,
//! and it never runs twice at once for one key.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::future::Future;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, anyhow};
use tokio::sync::{Semaphore, watch};
use tokio::task::{spawn_blocking, spawn_local};
use tokio::time::{Instant, timeout};

use super::reads::{CATALOG_FRESH, MAX_KEPT, Read};

/// Maximum number of concurrent computations of all kinds.
pub(super) const PLACES: usize = 4;
/// Timeout for preparing the input. Up to four catalogs are read concurrently, in up to 120 s each.
const PREPARE_TIME: Duration = Duration::from_secs(600);

/// Answers by key. Work only starts for a request.
pub(super) struct Works<K, V> {
    places: Arc<Semaphore>,
    kept: RefCell<BTreeMap<K, Kept<V>>>,
}

/// The answer; `None` while the work is running.
type Answer<V> = watch::Receiver<Option<(Instant, Read<V>)>>;

struct Kept<V> {
    used: Instant,
    answer: Answer<V>,
}

impl<V> Kept<V> {
    fn is_done(&self) -> bool {
        // Without a sender no answer will follow.
        self.answer.borrow().is_some() || self.answer.has_changed().is_err()
    }

    fn is_fresh(&self) -> bool {
        match &*self.answer.borrow() {
            Some((at, _)) => at.elapsed() < CATALOG_FRESH,
            None => self.answer.has_changed().is_ok(),
        }
    }
}

impl<K: Ord + Clone, V: Send + 'static> Works<K, V> {
    /// Returns an empty set of answers. `places` limits the work together with others.
    pub(super) fn new(places: &Arc<Semaphore>) -> Self {
        Self {
            places: Arc::clone(places),
            kept: RefCell::new(BTreeMap::new()),
        }
    }

    /// Returns the kept answer if it is fresh, else prepares the input and runs the work.
    pub(super) async fn get<P: Send + 'static>(
        &self,
        key: &K,
        prepare: impl Future<Output = anyhow::Result<P>> + 'static,
        work: impl FnOnce(P) -> anyhow::Result<V> + Send + 'static,
    ) -> Read<V> {
        let mut answer = self.answer(key, prepare, work)?;
        let answered = answer.wait_for(Option::is_some).await;
        match answered.as_deref() {
            Ok(Some((_, read))) => read.clone(),
            _ => Err("it did not finish".to_owned()),
        }
    }

    #[cfg(test)]
    pub(super) fn count(&self) -> usize {
        self.kept.borrow().len()
    }

    /// Drops all answers after a write. Running work keeps its slot until it ends.
    pub(super) fn forget(&self) {
        self.kept.borrow_mut().clear();
    }

    /// Drops expired answers.
    pub(super) fn sweep(&self) {
        self.kept.borrow_mut().retain(|_, kept| kept.is_fresh());
    }

    fn answer<P: Send + 'static>(
        &self,
        key: &K,
        prepare: impl Future<Output = anyhow::Result<P>> + 'static,
        work: impl FnOnce(P) -> anyhow::Result<V> + Send + 'static,
    ) -> Result<Answer<V>, String> {
        self.sweep();
        let mut kept = self.kept.borrow_mut();
        let now = Instant::now();
        if let Some(found) = kept.get_mut(key) {
            found.used = now;
            return Ok(found.answer.clone());
        }
        if kept.len() >= MAX_KEPT {
            let done = kept.iter().filter(|(_, kept)| kept.is_done());
            let oldest = done.min_by_key(|(_, kept)| kept.used);
            let Some(oldest) = oldest.map(|(key, _)| key.clone()) else {
                return Err(format!(
                    "too many requests in progress ({MAX_KEPT}); try again later"
                ));
            };
            kept.remove(&oldest);
        }
        let (sender, answer) = watch::channel(None);
        let places = Arc::clone(&self.places);
        spawn_local(async move {
            let found = found(&places, prepare, work).await;
            let found = found.map(Rc::new).map_err(|error| format!("{error:#}"));
            sender.send_replace(Some((Instant::now(), found)));
        });
        let found = Kept {
            used: now,
            answer: answer.clone(),
        };
        kept.insert(key.clone(), found);
        Ok(answer)
    }
}

async fn found<P: Send + 'static, V: Send + 'static>(
    places: &Arc<Semaphore>,
    prepare: impl Future<Output = anyhow::Result<P>>,
    work: impl FnOnce(P) -> anyhow::Result<V> + Send + 'static,
) -> anyhow::Result<V> {
    let prepared = timeout(PREPARE_TIME, prepare).await;
    let prepared = prepared.map_err(|_| anyhow!("the cluster did not respond"))??;
    let place = Arc::clone(places).acquire_owned().await?;
    let done = spawn_blocking(move || {
        let done = work(prepared);
        drop(place);
        done
    });
    done.await.context("it did not finish")?
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::{Mutex, mpsc};

    use tokio::task::{LocalSet, yield_now};

    use super::*;

    /// Work that blocks until released, with counters of its starts and concurrency.
    struct Long {
        begun: AtomicUsize,
        running: AtomicUsize,
        most: AtomicUsize,
        end: Mutex<mpsc::Receiver<()>>,
    }

    impl Long {
        fn new() -> (Arc<Self>, mpsc::Sender<()>) {
            let (sender, end) = mpsc::channel();
            let long = Self {
                begun: AtomicUsize::new(0),
                running: AtomicUsize::new(0),
                most: AtomicUsize::new(0),
                end: Mutex::new(end),
            };
            (Arc::new(long), sender)
        }

        fn work(self: Arc<Self>) -> anyhow::Result<usize> {
            let begun = self.begun.fetch_add(1, Ordering::SeqCst) + 1;
            let running = self.running.fetch_add(1, Ordering::SeqCst) + 1;
            self.most.fetch_max(running, Ordering::SeqCst);
            // It ends with a message, or if the sender is dropped.
            let _ = self.end.lock().unwrap().recv();
            self.running.fetch_sub(1, Ordering::SeqCst);
            Ok(begun)
        }

        async fn has_begun(&self, count: usize) {
            let begun = async {
                while self.begun.load(Ordering::SeqCst) < count {
                    yield_now().await;
                }
            };
            timeout(Duration::from_secs(60), begun).await.unwrap();
        }
    }

    fn places() -> Arc<Semaphore> {
        Arc::new(Semaphore::new(PLACES))
    }

    async fn ready() -> anyhow::Result<()> {
        Ok(())
    }

    async fn broken() -> anyhow::Result<()> {
        panic!("of a library")
    }

    async fn asked(works: &Works<usize, usize>, key: usize, long: &Arc<Long>) -> Read<usize> {
        let long = Arc::clone(long);
        let asked = works.get(&key, ready(), move |()| long.work());
        timeout(Duration::from_secs(20), asked).await.unwrap()
    }

    #[tokio::test]
    async fn work_whose_askers_left_is_not_begun_anew() {
        let (long, end) = Long::new();
        let works = Works::new(&places());
        let test = async {
            for _ in 0..3 {
                tokio::select! {
                    _ = asked(&works, 1, &long) => panic!("it has no end yet"),
                    () = long.has_begun(1) => {}
                }
            }
            end.send(()).unwrap();
            assert_eq!(*asked(&works, 1, &long).await.unwrap(), 1, "it is found done");
            assert_eq!(long.begun.load(Ordering::SeqCst), 1);
            works.forget();
            drop(end);
            assert_eq!(
                *asked(&works, 1, &long).await.unwrap(),
                2,
                "what was written is seen"
            );
        };
        LocalSet::new().run_until(test).await;
    }

    #[tokio::test]
    async fn no_more_is_worked_at_than_there_are_places_whoever_leaves() {
        let (long, end) = Long::new();
        let places = places();
        let works = Works::new(&places);
        let test = async {
            for key in 0..MAX_KEPT {
                let ask = timeout(Duration::from_millis(1), asked(&works, key, &long));
                assert!(ask.await.is_err(), "it has no end yet");
            }
            long.has_begun(PLACES).await;
            let refused = asked(&works, MAX_KEPT, &long).await.unwrap_err();
            assert!(refused.contains("too many requests in progress"), "{refused}");
            drop(end);
            for key in 0..MAX_KEPT {
                asked(&works, key, &long).await.unwrap();
            }
            assert_eq!(long.most.load(Ordering::SeqCst), PLACES);
            assert_eq!(long.begun.load(Ordering::SeqCst), MAX_KEPT);
            assert_eq!(places.available_permits(), PLACES);
        };
        LocalSet::new().run_until(test).await;
    }

    #[tokio::test]
    async fn what_is_kept_is_bounded_and_goes_when_it_is_old() {
        let works = Works::<usize, usize>::new(&places());
        let test = async {
            tokio::time::pause();
            for key in 0..3 * MAX_KEPT {
                works.get(&key, ready(), move |()| Ok(key)).await.unwrap();
            }
            assert_eq!(works.count(), MAX_KEPT);
            tokio::time::advance(CATALOG_FRESH).await;
            works.sweep();
            assert_eq!(works.count(), 0);
        };
        LocalSet::new().run_until(test).await;
    }

    #[tokio::test]
    async fn what_never_comes_or_fails_is_an_answer_and_no_place_is_lost() {
        let places = places();
        let works = Works::<usize, usize>::new(&places);
        let test = async {
            tokio::time::pause();
            let never = std::future::pending::<anyhow::Result<()>>();
            let silent = timeout(2 * PREPARE_TIME, works.get(&1, never, |()| Ok(1)));
            assert_eq!(silent.await.unwrap().unwrap_err(), "the cluster did not respond");
            let panicked = works.get(&2, ready(), |()| panic!("of a library")).await;
            assert!(panicked.unwrap_err().starts_with("it did not finish"));
            let panicked = works.get(&3, broken(), |()| Ok(1)).await;
            assert_eq!(panicked.unwrap_err(), "it did not finish");
            let failed = works.get(&4, ready(), |()| Err(anyhow!("no route"))).await;
            assert_eq!(failed.unwrap_err(), "no route");
            assert_eq!(places.available_permits(), PLACES);
            works.sweep();
            assert_eq!(works.count(), 3, "nobody is left who could answer 3");
        };
        LocalSet::new().run_until(test).await;
    }
}
