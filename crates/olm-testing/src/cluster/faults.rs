//! What can be made to go wrong between a process and its API server.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;

use super::request::Request;
use super::status::Refusal;

/// What happens to one request.
#[derive(Debug, Clone)]
pub enum Fault {
    /// It is answered so, and nothing is done.
    Refuse(Refusal),
    /// It never arrives: the connection breaks.
    LoseRequest,
    /// It is carried out, and the connection breaks before the answer.
    LoseAnswer,
    /// Nobody ever answers, and nothing is done.
    Hang,
    /// It is carried out, and answered with a warning.
    Warn(&'static str),
    /// It is carried out after a while.
    Delay(Duration),
}

/// Looks at each request and says what goes wrong with it.
pub type Hook = Box<dyn FnMut(&Request) -> Option<Fault> + Send>;

/// How many writes are left to processes; the one that makes the last is killed by it.
#[derive(Clone, Default)]
pub struct Doom {
    writes_left: Arc<Mutex<Option<usize>>>,
}

impl Doom {
    /// Whoever makes this many writes more, at least one, is killed.
    pub fn after(&self, writes: usize) {
        *lock(&self.writes_left) = Some(writes);
    }

    /// Nobody is killed.
    pub fn never(&self) {
        *lock(&self.writes_left) = None;
    }

    /// Counts a write. True if it was the last.
    fn wrote(&self) -> bool {
        let mut left = lock(&self.writes_left);
        *left = left.map(|count| count.saturating_sub(1));
        let is_last = *left == Some(0);
        if is_last {
            // The others go on.
            *left = None;
        }
        is_last
    }
}

/// The connection of one process, which can be killed.
#[derive(Clone)]
pub struct Link {
    alive: Arc<watch::Sender<bool>>,
    doom: Doom,
}

impl Link {
    pub(super) fn new(doom: &Doom) -> Self {
        Self {
            alive: Arc::new(watch::Sender::new(true)),
            doom: doom.clone(),
        }
    }

    /// From now on nothing of this process arrives and nothing reaches it.
    pub fn kill(&self) {
        self.alive.send_replace(false);
    }

    /// True until it is killed.
    pub fn is_alive(&self) -> bool {
        *self.alive.borrow()
    }

    /// Counts a write that was carried out; the last one gets no answer, and nothing does afterwards.
    pub(super) fn wrote(&self) {
        if self.doom.wrote() {
            self.kill();
        }
    }

    /// Never comes back for the dead.
    pub(super) async fn while_alive(&self) {
        if !self.is_alive() {
            std::future::pending::<()>().await;
        }
    }
}

/// What holds watches up.
#[derive(Debug, Default)]
pub(super) struct Watching {
    held: BTreeSet<String>,
    generations: BTreeMap<String, u64>,
    all: u64,
}

impl Watching {
    pub fn hold(&mut self, kind: &str) {
        self.held.insert(kind.to_owned());
    }

    pub fn release(&mut self, kind: &str) {
        self.held.remove(kind);
    }

    pub fn is_held(&self, kind: &str) -> bool {
        self.held.contains(kind)
    }

    /// Ends the open watches of `kind`, of all kinds if it is empty.
    pub fn end(&mut self, kind: &str) {
        if kind.is_empty() {
            self.all += 1;
        } else {
            *self.generations.entry(kind.to_owned()).or_insert(0) += 1;
        }
    }

    pub fn generation(&self, kind: &str) -> u64 {
        self.all + self.generations.get(kind).copied().unwrap_or(0)
    }
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
