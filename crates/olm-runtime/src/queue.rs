//! Work queue of deduplicated keys, with one worker per key, fair classes, delays and a rate limiter.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    hash::Hash,
    sync::Arc,
    time::Duration,
};

use tokio::{sync::Notify, time::Instant};

use crate::{
    brake::{Brake, Pause},
    sync::Mutex,
};

/// A queue of keys. Clones share the same queue.
///
/// # Guarantees
/// - A waiting key is held once, however often it is added.
/// - A key in progress is returned again only after [`Queue::done`].
/// - `add_after` keeps the earlier of two delays; `add` overrides any delay.
/// - In a [fair](Queue::fair) queue the classes take turns. A key waits for at most one key of each other class, and for the keys of its
///   own class that were added before.
/// - A key that keeps writing is delayed however it is added, see [`crate::brake`].
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
    ready: Lines<T>,
    queued: BTreeSet<T>,
    /// Keys in progress, and whether each was added meanwhile.
    running: BTreeMap<T, bool>,
    delayed: BTreeMap<T, Instant>,
    /// Same content as `delayed`, ordered by due time.
    due: BTreeSet<(Instant, T)>,
    brake: Brake,
}

/// Waiting keys: one line per class, and the order of the classes.
#[derive(Debug)]
struct Lines<T> {
    class: fn(&T) -> &str,
    /// Maximum number of keys of a class in progress.
    share: usize,
    /// Lines by class; none is empty.
    lines: BTreeMap<String, VecDeque<T>>,
    /// Classes of `lines`, the next one first.
    turns: VecDeque<String>,
}

impl<T> Clone for Queue<T> {
    fn clone(&self) -> Self {
        Self {
            shared: Arc::clone(&self.shared),
        }
    }
}

impl<T: Clone + Ord + Hash> Default for Queue<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T: Clone + Ord + Hash> Queue<T> {
    /// Creates an empty queue that returns keys in the order they were added.
    pub fn new() -> Self {
        Self::with_classes(|_| "", usize::MAX)
    }

    /// Creates an empty queue whose classes of keys, such as namespaces, take turns. At most `share` keys of a class (at least one) are
    /// in progress at once. If `share` is less than the number of workers, one class never occupies all of them.
    pub fn fair(class: fn(&T) -> &str, share: usize) -> Self {
        Self::with_classes(class, share.max(1))
    }

    fn with_classes(class: fn(&T) -> &str, share: usize) -> Self {
        let state = State {
            ready: Lines {
                class,
                share,
                lines: BTreeMap::new(),
                turns: VecDeque::new(),
            },
            queued: BTreeSet::new(),
            running: BTreeMap::new(),
            delayed: BTreeMap::new(),
            due: BTreeSet::new(),
            brake: Brake::default(),
        };
        Self {
            shared: Arc::new(Shared {
                state: Mutex::new(state),
                wake: Notify::new(),
            }),
        }
    }

    /// Adds a key to be processed as soon as a worker is free.
    pub fn add(&self, key: T) {
        self.shared.state.lock().add(key, Instant::now());
        self.shared.wake.notify_waiters();
    }

    /// Adds a key to be processed after `delay`, unless it is due earlier already.
    pub fn add_after(&self, key: T, delay: Duration) {
        let now = Instant::now();
        // A delay that the clock cannot represent never ends.
        if let Some(due) = now.checked_add(delay) {
            self.shared.state.lock().add_at(key, due, now);
            self.shared.wake.notify_waiters();
        }
    }

    /// Waits for the next key and returns it. Call [`Queue::done`] with it afterwards.
    pub async fn next(&self) -> T {
        loop {
            // Registered before the state is read, so that an addition in between is not missed.
            let notified = self.shared.wake.notified();
            tokio::pin!(notified);
            notified.as_mut().enable();
            let wait_until = match self.shared.state.lock().take(Instant::now()) {
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

    /// Ends the work on a key; if it was added meanwhile it is returned again.
    pub fn done(&self, key: &T) {
        self.shared.state.lock().done(key, Instant::now());
        self.shared.wake.notify_waiters();
    }

    /// Like [`Queue::done`], for work that wrote. Returns the pause that the key has to make.
    pub fn done_writing(&self, key: &T) -> Option<Pause> {
        let now = Instant::now();
        let mut state = self.shared.state.lock();
        let pause = state.brake.wrote(key, now);
        state.done(key, now);
        drop(state);
        self.shared.wake.notify_waiters();
        pause
    }

    /// Number of keys waiting now, without delayed ones.
    pub fn len(&self) -> usize {
        let state = self.shared.state.lock();
        let again = state.running.values().filter(|again| **again);
        state.queued.len() + again.count()
    }

    /// True if no key is waiting now.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<T: Clone + Ord + Hash> State<T> {
    fn add(&mut self, key: T, now: Instant) {
        match self.running.get_mut(&key) {
            Some(again) => *again = true,
            None => self.add_now(key, now),
        }
    }

    /// Adds a key that is not in progress.
    fn add_now(&mut self, key: T, now: Instant) {
        self.remove_delay(&key);
        match self.brake.paused_until(&key, now) {
            Some(until) => self.insert_delay(key, until),
            None => self.push(key),
        }
    }

    fn add_at(&mut self, key: T, due: Instant, now: Instant) {
        if self.queued.contains(&key) {
            return;
        }
        let pause = self.brake.paused_until(&key, now);
        let due = pause.map_or(due, |until| due.max(until));
        if self.delayed.get(&key).is_none_or(|known| due < *known) {
            self.remove_delay(&key);
            self.insert_delay(key, due);
        }
    }

    /// Returns a key for a worker. Without one, returns the end of the first delay.
    fn take(&mut self, now: Instant) -> Result<T, Option<Instant>> {
        self.brake.tidy(now);
        while let Some((due, _)) = self.due.first()
            && *due <= now
            && let Some((_, key)) = self.due.pop_first()
        {
            self.delayed.remove(&key);
            match self.running.get_mut(&key) {
                Some(again) => *again = true,
                None => self.push(key),
            }
        }
        match self.ready.pop(&self.running) {
            Some(key) => {
                self.queued.remove(&key);
                self.running.insert(key.clone(), false);
                Ok(key)
            }
            None => Err(self.due.first().map(|(due, _)| *due)),
        }
    }

    fn done(&mut self, key: &T, now: Instant) {
        if self.running.remove(key) == Some(true) {
            self.add_now(key.clone(), now);
        } else if let Some(due) = self.delayed.get(key).copied() {
            // The delay was set before the pause.
            self.remove_delay(key);
            self.add_at(key.clone(), due, now);
        }
    }

    fn push(&mut self, key: T) {
        if self.queued.insert(key.clone()) {
            self.ready.push(key);
        }
    }

    fn insert_delay(&mut self, key: T, due: Instant) {
        self.due.insert((due, key.clone()));
        self.delayed.insert(key, due);
    }

    fn remove_delay(&mut self, key: &T) {
        if let Some((key, due)) = self.delayed.remove_entry(key) {
            self.due.remove(&(due, key));
        }
    }
}

impl<T: Ord> Lines<T> {
    fn push(&mut self, key: T) {
        let class = (self.class)(&key);
        if let Some(line) = self.lines.get_mut(class) {
            line.push_back(key);
            return;
        }
        let class = class.to_owned();
        self.turns.push_back(class.clone());
        self.lines.insert(class, VecDeque::from([key]));
    }

    /// Returns the first key of the first class in turn that has less than its share in `running`. That class moves to the end.
    fn pop(&mut self, running: &BTreeMap<T, bool>) -> Option<T> {
        let is_free = |class: &String| {
            let in_work = running.keys().filter(|key| (self.class)(key) == class);
            in_work.count() < self.share
        };
        let turn = self.turns.iter().position(is_free)?;
        let class = self.turns.remove(turn)?;
        let line = self.lines.get_mut(&class)?;
        let key = line.pop_front();
        if line.is_empty() {
            self.lines.remove(&class);
        } else {
            self.turns.push_back(class);
        }
        key
    }
}

#[cfg(test)]
mod tests;
