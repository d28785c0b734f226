//! Work queue: keys, deduplicated, one worker a key at a time, with delays.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::{sync::Notify, time::Instant};

/// A queue of keys; a clone is another handle to the same queue.
///
/// # Guarantees
/// - A key that is waiting is held once, however often it is added.
/// - A key that is being worked on is handed out again only after [`Queue::done`].
/// - `add_after` keeps the sooner of two delays; `add` overrides any delay.
#[derive(Debug)]
pub struct Queue<T> {
    shared: Arc<Shared<T>>,
}

#[derive(Debug)]
struct Shared<T> {
    state: Mutex<State<T>>,
    wake: Notify,
}

#[derive(Debug)]
struct State<T> {
    ready: VecDeque<T>,
    queued: BTreeSet<T>,
    running: BTreeSet<T>,
    delayed: BTreeMap<T, Instant>,
}

impl<T> Clone for Queue<T> {
    fn clone(&self) -> Self {
        Self {
            shared: Arc::clone(&self.shared),
        }
    }
}

impl<T: Clone + Ord> Default for Queue<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T: Clone + Ord> Queue<T> {
    /// An empty queue.
    pub fn new() -> Self {
        let state = State {
            ready: VecDeque::new(),
            queued: BTreeSet::new(),
            running: BTreeSet::new(),
            delayed: BTreeMap::new(),
        };
        Self {
            shared: Arc::new(Shared {
                state: Mutex::new(state),
                wake: Notify::new(),
            }),
        }
    }

    /// Adds a key to be worked on as soon as a worker is free.
    pub fn add(&self, key: T) {
        let mut state = self.lock();
        state.delayed.remove(&key);
        if state.queued.insert(key.clone()) {
            state.ready.push_back(key);
        }
        drop(state);
        self.shared.wake.notify_waiters();
    }

    /// Adds a key to be worked on after `delay`, unless it is due sooner already.
    pub fn add_after(&self, key: T, delay: Duration) {
        let due = Instant::now() + delay;
        let mut state = self.lock();
        if !state.queued.contains(&key) {
            let entry = state.delayed.entry(key).or_insert(due);
            *entry = due.min(*entry);
        }
        drop(state);
        self.shared.wake.notify_waiters();
    }

    /// The next key; waits for one. Call [`Queue::done`] with it afterwards.
    pub async fn next(&self) -> T {
        loop {
            // Registered before the state is read, so that an addition in between is not missed.
            let notified = self.shared.wake.notified();
            tokio::pin!(notified);
            notified.as_mut().enable();
            let wait_until = match self.take(Instant::now()) {
                Ok(key) => return key,
                Err(next_due) => next_due,
            };
            match wait_until {
                Some(due) => {
                    tokio::select! {
                        () = &mut notified => {}
                        () = tokio::time::sleep_until(due) => {}
                    }
                }
                None => notified.await,
            }
        }
    }

    /// Says that work on a key has ended; if it was added meanwhile it is handed out again.
    pub fn done(&self, key: &T) {
        self.lock().running.remove(key);
        self.shared.wake.notify_waiters();
    }

    /// Number of keys waiting now, delayed ones left out.
    pub fn len(&self) -> usize {
        self.lock().ready.len()
    }

    /// True when no key waits now.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn take(&self, now: Instant) -> Result<T, Option<Instant>> {
        let mut state = self.lock();
        let due: Vec<T> = state
            .delayed
            .iter()
            .filter(|(_, at)| **at <= now)
            .map(|(key, _)| key.clone())
            .collect();
        for key in due {
            state.delayed.remove(&key);
            if state.queued.insert(key.clone()) {
                state.ready.push_back(key);
            }
        }
        let position = state.ready.iter().position(|key| !state.running.contains(key));
        if let Some(key) = position.and_then(|index| state.ready.remove(index)) {
            state.queued.remove(&key);
            state.running.insert(key.clone());
            return Ok(key);
        }
        Err(state.delayed.values().min().copied())
    }

    fn lock(&self) -> MutexGuard<'_, State<T>> {
        // Every critical section leaves the state consistent, so a panic elsewhere cannot spoil it.
        self.shared.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_key_added_twice_is_handed_out_once() {
        let queue = Queue::new();
        queue.add("a");
        queue.add("a");
        queue.add("b");
        assert_eq!(queue.next().await, "a");
        assert_eq!(queue.next().await, "b");
        assert!(queue.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn a_key_in_work_comes_again_only_after_done() {
        let queue = Queue::new();
        queue.add("a");
        assert_eq!(queue.next().await, "a");
        queue.add("a");
        let early = tokio::time::timeout(Duration::from_secs(1), queue.next()).await;
        assert!(early.is_err());
        queue.done(&"a");
        assert_eq!(queue.next().await, "a");
    }

    #[tokio::test(start_paused = true)]
    async fn the_sooner_delay_wins_and_add_overrides_it() {
        let queue = Queue::new();
        let start = Instant::now();
        queue.add_after("a", Duration::from_secs(10));
        queue.add_after("a", Duration::from_secs(2));
        queue.add_after("a", Duration::from_secs(5));
        assert_eq!(queue.next().await, "a");
        assert_eq!(start.elapsed().as_secs(), 2);
        queue.done(&"a");
        queue.add_after("a", Duration::from_secs(10));
        queue.add("a");
        assert_eq!(queue.next().await, "a");
        assert_eq!(start.elapsed().as_secs(), 2);
    }
}
