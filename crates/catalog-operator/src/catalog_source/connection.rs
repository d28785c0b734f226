//! Connections to registry servers: one task for each CatalogSource keeps one connection to it.
//!
//! # Expected flow
//! The reconciler sets the endpoint of a source with [`Connections::set_endpoint`]. The task connects,
//! publishes the result and triggers the reconciler.
//!
//! While an image source has no ready pod there is no endpoint and no attempt. So the first attempt follows
//! the readiness of the pod. In the next seconds, until the cluster's proxies have updated, attempts follow
//! in short intervals, and later with growing delays.
//!
//! # Guarantees
//! - A [`Channel`] is one TCP connection and never reconnects by itself, so one read of a catalog reads from
//!   one server. Its end is noticed at once, because the connection task drops the socket.
//! - Every change of the endpoint gets a new generation, also when a pod behind the same address was
//!   replaced.
//! - A break that is repaired within [`GRACE`] is published as a new generation, not as a failure.
//!
//! The states are those of gRPC (`docs/reference/catalogs.md`), without the short-lived ones.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use jiff::Timestamp;
use olm_registry::connection::{Dial, Dialled, Tcp};
use olm_runtime::isolation::{Panicked, isolated};
use olm_runtime::sync::Mutex;
use olm_runtime::{NamespacedName, clock};
use tokio::sync::watch;
use tokio::sync::watch::error::RecvError;
use tokio::task::JoinSet;
use tokio::time::error::Elapsed;
use tokio::time::{Instant, sleep, timeout};
use tonic::transport::Channel;

/// Time without a connection after which its source counts as failing.
pub(crate) const GRACE: Duration = Duration::from_secs(2);
const ATTEMPT_DEADLINE: Duration = Duration::from_secs(5);
const EAGER_FOR: Duration = Duration::from_secs(10);
const EAGER_DELAY: Duration = Duration::from_millis(50);
const LONGEST_DELAY: Duration = Duration::from_secs(15);
const STABLE_AFTER: Duration = Duration::from_secs(5);

/// Endpoint of a registry server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    /// `host:port` as users see it in the status.
    pub address: String,
    /// `host:port` to connect to: the Service's cluster address if known, which avoids a DNS lookup.
    pub dial: String,
    /// Identity of the server behind the address; another value means that the content may differ.
    pub epoch: String,
    /// True when the content may change during a connection: a server that is not our pod may do so.
    pub may_change: bool,
}

/// State of a source's connection.
#[derive(Debug, Clone)]
pub enum ConnectionState {
    /// No endpoint yet.
    Waiting,
    /// Connecting, for less than [`GRACE`].
    Connecting,
    /// Connected, and the server responds.
    Ready(LiveConnection),
    /// Not connected, despite attempts.
    Failing {
        /// Start of the failure.
        since: Timestamp,
        /// Error of the last attempt.
        error: String,
    },
}

impl ConnectionState {
    /// The state before the first attempt to connect.
    fn first(endpoint: Option<&Endpoint>) -> Self {
        endpoint.map_or(Self::Waiting, |_| Self::Connecting)
    }
}

/// An established connection.
#[derive(Debug, Clone)]
pub struct LiveConnection {
    /// Time of the connect.
    pub since: Timestamp,
    /// Unique for each connection of this process.
    pub generation: u64,
    /// True when the server may change its content, see [`Endpoint::may_change`].
    pub may_change: bool,
    /// The connection.
    pub channel: Channel,
}

type Wake = Arc<dyn Fn(&NamespacedName) + Send + Sync>;

/// The connections of all sources; clones share the state.
#[derive(Clone)]
pub struct Connections {
    entries: Arc<Mutex<BTreeMap<NamespacedName, Entry>>>,
    generations: Arc<AtomicU64>,
    wake: Wake,
    dial: Arc<dyn Dial>,
}

struct Entry {
    target: watch::Sender<Option<Endpoint>>,
    state: Arc<Mutex<ConnectionState>>,
    /// The task of the connection, which ends when this is dropped.
    _task: JoinSet<()>,
}

impl Connections {
    /// Creates an empty set; `wake` is called with a source's key whenever its state has changed.
    pub fn new(wake: impl Fn(&NamespacedName) + Send + Sync + 'static) -> Self {
        Self {
            entries: Arc::default(),
            generations: Arc::default(),
            wake: Arc::new(wake),
            dial: Arc::new(Tcp),
        }
    }

    /// Replaces the way connections are made.
    #[must_use]
    pub fn with_dial(mut self, dial: Arc<dyn Dial>) -> Self {
        self.dial = dial;
        self
    }

    /// Sets the endpoint of `key` (`None` if there is none yet) and returns the state of its connection.
    ///
    /// Must be called within a tokio runtime. Does not wait.
    pub fn set_endpoint(&self, key: &NamespacedName, endpoint: Option<Endpoint>) -> ConnectionState {
        let mut entries = self.entries.lock();
        let entry = entries
            .entry(key.clone())
            .or_insert_with(|| self.start(key, endpoint.clone()));
        let moved = entry.target.send_if_modified(|target| {
            let moved = *target != endpoint;
            *target = endpoint;
            moved
        });
        let mut state = entry.state.lock();
        if moved {
            // The last published state was about another endpoint.
            *state = ConnectionState::first(entry.target.borrow().as_ref());
        }
        state.clone()
    }

    /// Returns the endpoint of `key` that was set last.
    pub fn endpoint(&self, key: &NamespacedName) -> Option<Endpoint> {
        let entries = self.entries.lock();
        entries.get(key)?.target.borrow().clone()
    }

    /// Closes and forgets the connection of a deleted source.
    pub fn forget(&self, key: &NamespacedName) {
        self.entries.lock().remove(key);
    }

    /// Returns the established connection of a source, if there is one.
    pub fn link(&self, key: &NamespacedName) -> Option<LiveConnection> {
        let entries = self.entries.lock();
        let state = entries.get(key)?.state.lock();
        match &*state {
            ConnectionState::Ready(link) => Some(link.clone()),
            _ => None,
        }
    }

    fn start(&self, key: &NamespacedName, endpoint: Option<Endpoint>) -> Entry {
        let state = Arc::new(Mutex::new(ConnectionState::first(endpoint.as_ref())));
        let (target, receiver) = watch::channel(endpoint);
        let keeper = ConnectionTask {
            key: key.clone(),
            target: receiver,
            state: Arc::clone(&state),
            generations: Arc::clone(&self.generations),
            wake: Arc::clone(&self.wake),
            dial: Arc::clone(&self.dial),
        };
        let mut task = JoinSet::new();
        task.spawn(keeper.run());
        Entry {
            target,
            state,
            _task: task,
        }
    }
}

/// The task that keeps one source's connection.
struct ConnectionTask {
    key: NamespacedName,
    target: watch::Receiver<Option<Endpoint>>,
    state: Arc<Mutex<ConnectionState>>,
    generations: Arc<AtomicU64>,
    wake: Wake,
    dial: Arc<dyn Dial>,
}

/// Result of an attempt to connect that ended in time.
type Attempt = Result<Result<Dialled, String>, Panicked>;

impl ConnectionTask {
    async fn run(mut self) {
        loop {
            let endpoint = self.target.borrow_and_update().clone();
            let ended = match endpoint {
                None => self.target.changed().await,
                Some(endpoint) => self.keep(&endpoint).await,
            };
            if ended.is_err() {
                return;
            }
        }
    }

    /// Returns the result of an attempt, or an error if it timed out.
    fn attempted(&self, endpoint: &Endpoint, result: Result<Attempt, Elapsed>) -> Result<Dialled, String> {
        let cause = match result {
            Ok(Ok(dialled)) => return dialled,
            Ok(Err(panicked)) => {
                tracing::error!(catalog = %self.key, %panicked, "connecting to a registry panicked");
                "invalid response".to_owned()
            }
            Err(_) => format!("timed out after {} s", ATTEMPT_DEADLINE.as_secs()),
        };
        Err(format!("cannot connect to {}: {cause}", endpoint.address))
    }

    /// Connects to `endpoint`, and reconnects, until it changes.
    ///
    /// # Errors
    /// The connection is no longer needed.
    async fn keep(&mut self, endpoint: &Endpoint) -> Result<(), RecvError> {
        let mut pace = ReconnectBackoff::new();
        let dial = Arc::clone(&self.dial);
        loop {
            // Libraries parse the server's responses, and a bad header must not end the process.
            let attempt = timeout(
                ATTEMPT_DEADLINE,
                isolated(dial.connect(&endpoint.dial, &endpoint.address)),
            );
            let result = tokio::select! {
                result = attempt => self.attempted(endpoint, result),
                ended = self.target.changed() => return ended,
            };
            match result {
                Ok(Dialled { channel, lost }) => {
                    let connected = Instant::now();
                    self.publish(
                        endpoint,
                        ConnectionState::Ready(LiveConnection {
                            since: clock::now(),
                            generation: self.generations.fetch_add(1, Ordering::Relaxed),
                            may_change: endpoint.may_change,
                            channel,
                        }),
                    );
                    tokio::select! {
                        _ = lost => {}
                        ended = self.target.changed() => return ended,
                    }
                    tracing::info!(catalog = %self.key, address = %endpoint.address, "connection to the registry lost");
                    // The dead channel must not be returned any more; the reconciler is triggered by the next
                    // state.
                    self.note(endpoint, ConnectionState::Connecting);
                    pace.lost(connected.elapsed());
                }
                Err(error) => self.failed(endpoint, &pace, error),
            }
            tokio::select! {
                () = sleep(pace.next()) => {}
                ended = self.target.changed() => return ended,
            }
        }
    }

    fn failed(&self, endpoint: &Endpoint, pace: &ReconnectBackoff, error: String) {
        if pace.is_late() {
            let since = clock::now();
            self.publish(endpoint, ConnectionState::Failing { since, error });
        } else {
            tracing::debug!(catalog = %self.key, %error, "not connected yet");
        }
    }

    /// Records the state, and triggers the reconciler if it has changed.
    fn publish(&self, endpoint: &Endpoint, next: ConnectionState) {
        if self.note(endpoint, next) {
            (self.wake)(&self.key);
        }
    }

    /// Records the state. Returns true if it has changed; the same failure again is no change.
    fn note(&self, endpoint: &Endpoint, next: ConnectionState) -> bool {
        let mut state = self.state.lock();
        // `set_endpoint` changed the endpoint meanwhile, so this state is about the old one.
        if self.target.borrow().as_ref() != Some(endpoint) {
            return false;
        }
        if let (ConnectionState::Failing { error: known, .. }, ConnectionState::Failing { error, .. }) =
            (&*state, &next)
            && known == error
        {
            return false;
        }
        *state = next;
        true
    }
}

/// Delays between attempts: none after a break, short while a pod has just become ready, then growing.
struct ReconnectBackoff {
    started: Instant,
    delay: Duration,
}

impl ReconnectBackoff {
    fn new() -> Self {
        Self {
            started: Instant::now(),
            delay: Duration::ZERO,
        }
    }

    fn is_late(&self) -> bool {
        self.started.elapsed() >= GRACE
    }

    /// Handles the end of a connection. One that lasted long resets the delays; one that broke at once counts
    /// as a failed attempt.
    fn lost(&mut self, lived: Duration) {
        if lived >= STABLE_AFTER {
            *self = Self::new();
        } else {
            self.delay = (self.delay * 2).max(EAGER_DELAY);
        }
    }

    fn next(&mut self) -> Duration {
        let delay = self.delay.min(LONGEST_DELAY);
        self.delay = if self.started.elapsed() < EAGER_FOR {
            delay.max(EAGER_DELAY)
        } else {
            (delay * 2).max(Duration::from_secs(1))
        };
        delay
    }
}

#[cfg(test)]
pub mod testing;
#[cfg(test)]
mod tests;
