//! Faults between a process and its API server.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;

use super::request::Request;
use super::status::Refusal;

/// Fault of one request.
#[derive(Debug, Clone)]
pub enum Fault {
    /// It is refused, and nothing is executed.
    Refuse(Refusal),
    /// It never arrives: the connection breaks.
    LoseRequest,
    /// It is executed, and the connection breaks before the answer.
    LoseAnswer,
    /// It is neither executed nor answered.
    Hang,
    /// It is executed, and answered with a warning.
    Warn(&'static str),
    /// It is executed after a delay.
    Delay(Duration),
}

/// Returns the fault of a request, if any.
pub type Hook = Box<dyn FnMut(&Request) -> Option<Fault> + Send>;

/// Number of writes left; the process that makes the last one is killed by it.
#[derive(Clone, Default)]
pub struct Doom {
    writes_left: Arc<Mutex<Option<usize>>>,
}

impl Doom {
    /// Kills the process that makes the last of this many writes, at least one.
    pub fn after(&self, writes: usize) {
        *lock(&self.writes_left) = Some(writes);
    }

    /// Kills no process.
    pub fn never(&self) {
        *lock(&self.writes_left) = None;
    }

    /// Counts a write. True if it was the last.
    fn wrote(&self) -> bool {
        let mut left = lock(&self.writes_left);
        *left = left.map(|count| count.saturating_sub(1));
        let is_last = *left == Some(0);
        if is_last {
            // The other processes continue.
            *left = None;
        }
        is_last
    }
}

/// Connection of one process, which can be killed.
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

    /// Kills the process: from now on no request arrives and no answer reaches it.
    pub fn kill(&self) {
        self.alive.send_replace(false);
    }

    /// True until it is killed.
    pub fn is_alive(&self) -> bool {
        *self.alive.borrow()
    }

    /// Counts an executed write. The last one gets no answer, and neither does any later request.
    pub(super) fn wrote(&self) {
        if self.doom.wrote() {
            self.kill();
        }
    }

    /// Never returns for a killed process.
    pub(super) async fn while_alive(&self) {
        if !self.is_alive() {
            std::future::pending::<()>().await;
        }
    }
}

/// Faults of watches.
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

    /// Ends the open watches of `kind`, or of all kinds if it is empty.
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
