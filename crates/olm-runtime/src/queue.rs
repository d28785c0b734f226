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
/// - In a [fair](Queue::fair) queue the classes take turns: a key waits for at most one key of each other class, and for
///   those of its own that came before it.
#[derive(Debug)]
pub struct Queue<T> {
    shared: Arc<Shared<T>>,
}

#[derive(Debug)]
struct Shared<T> {
    state: Mutex<State<T>>,
    wake: Notify,
    class: fn(&T) -> &str,
    /// How many keys of a class may be in work at once.
    share: usize,
}

#[derive(Debug)]
struct State<T> {
    /// Keys that wait, by class; a class without any is not there.
    ready: BTreeMap<String, VecDeque<T>>,
    /// The classes of `ready`, the one whose turn it is first.
    turns: VecDeque<String>,
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
    /// An empty queue in which keys are handed out in the order they came.
    pub fn new() -> Self {
        Self::with_classes(|_| "", usize::MAX)
    }

    /// An empty queue whose classes of keys, such as namespaces, take turns. At most `share` keys of a class (at least one)
    /// are handed out at once: with less than there are workers, one class never keeps all of them busy.
    pub fn fair(class: fn(&T) -> &str, share: usize) -> Self {
        Self::with_classes(class, share.max(1))
    }

    fn with_classes(class: fn(&T) -> &str, share: usize) -> Self {
        let state = State {
            ready: BTreeMap::new(),
            turns: VecDeque::new(),
            queued: BTreeSet::new(),
            running: BTreeSet::new(),
            delayed: BTreeMap::new(),
        };
        Self {
            shared: Arc::new(Shared {
                state: Mutex::new(state),
                wake: Notify::new(),
                class,
                share,
            }),
        }
    }

    /// Adds a key to be worked on as soon as a worker is free.
    pub fn add(&self, key: T) {
        let mut state = self.lock();
        state.delayed.remove(&key);
        self.enqueue(&mut state, key);
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
        self.lock().ready.values().map(VecDeque::len).sum()
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
            self.enqueue(&mut state, key);
        }
        match self.take_in_turn(&mut state) {
            Some(key) => Ok(key),
            None => Err(state.delayed.values().min().copied()),
        }
    }

    fn enqueue(&self, state: &mut State<T>, key: T) {
        if !state.queued.insert(key.clone()) {
            return;
        }
        let class = (self.shared.class)(&key);
        if let Some(line) = state.ready.get_mut(class) {
            line.push_back(key);
            return;
        }
        let class = class.to_owned();
        state.turns.push_back(class.clone());
        state.ready.insert(class, VecDeque::from([key]));
    }

    /// The first key that may be worked on now, of the first class in turn that has one. That class goes to the end.
    fn take_in_turn(&self, state: &mut State<T>) -> Option<T> {
        let running = &state.running;
        let busy = |class: &str| {
            let in_work = running.iter().filter(|key| (self.shared.class)(key) == class);
            in_work.count() >= self.shared.share
        };
        let ready = &state.ready;
        let (turn, place) = state.turns.iter().enumerate().find_map(|(turn, class)| {
            let line = ready.get(class).filter(|_| !busy(class))?;
            let place = line.iter().position(|key| !running.contains(key))?;
            Some((turn, place))
        })?;
        let class = state.turns.remove(turn)?;
        let line = state.ready.get_mut(&class)?;
        let key = line.remove(place)?;
        if line.is_empty() {
            state.ready.remove(&class);
        } else {
            state.turns.push_back(class);
        }
        state.queued.remove(&key);
        state.running.insert(key.clone());
        Some(key)
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

    /// Two hundred keys of one class came before: the others wait for one of it each.
    #[tokio::test(start_paused = true)]
    async fn classes_take_turns_whatever_one_of_them_adds() {
        let queue = Queue::fair(|key: &(&str, u32)| key.0, 1);
        for number in 0..200 {
            queue.add(("noisy", number));
        }
        queue.add(("b", 0));
        queue.add(("c", 0));
        queue.add(("b", 1));
        let mut order = Vec::new();
        for _ in 0..6 {
            let key = queue.next().await;
            order.push(key);
            queue.done(&key);
            // Failing keys come back at once.
            queue.add(key);
        }
        assert_eq!(
            order,
            [("noisy", 0), ("b", 0), ("c", 0), ("noisy", 1), ("b", 1), ("c", 0)]
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_class_is_never_handed_to_more_workers_than_its_share() {
        let queue = Queue::fair(|key: &(&str, u32)| key.0, 2);
        for number in 0..10 {
            queue.add(("noisy", number));
        }
        let first = queue.next().await;
        queue.next().await;
        let third = tokio::time::timeout(Duration::from_secs(1), queue.next()).await;
        assert!(third.is_err(), "{third:?}");
        queue.add(("b", 0));
        assert_eq!(queue.next().await, ("b", 0));
        queue.done(&first);
        assert_eq!(queue.next().await, ("noisy", 2));
        assert_eq!(queue.len(), 7);
    }
}
