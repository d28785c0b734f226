//! Leader election: of several processes only the holder of a Lease writes.
//!
//! # Expected flow
//! A process becomes a candidate once its stores are ready ([`Elector::acquire`]). It reads the Lease every retry period. It takes the
//! Lease if there is no holder, or if the Lease has not changed for its duration. Each renewal ([`Elector::renew`]) then opens the
//! [`WriteGate`] until the renew deadline. At shutdown the process removes its name from the Lease ([`Elector::release`]), so that the next
//! holder need not wait.
//!
//! # Guarantees
//! Once another process holds the Lease, this process sends no write ([`LeaseTimes`]). One that it sent before may still be executed; its
//! uid and resourceVersion protect what the next holder wrote. The Lease is written only as it was read (resourceVersion). Times written by
//! others are ignored: only the time at which this process saw the Lease change counts.
//!
//! # Errors
//! A leader that cannot renew the Lease in time sends no writes until it can. [`Elector::renew`] continues as long as no other process
//! has taken the Lease. It returns when another process has. Then this process has to exit, since its memory may contradict the writes of
//! the next holder.

mod candidate;
#[cfg(test)]
mod tests;

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::PostParams;
use kube::{Api, Client};
use tokio::time::Instant;
use uuid::Uuid;

use self::candidate::{Candidate, Step};
pub use self::candidate::{LeaseTimes, Loss};
use crate::clock;
use crate::error::with_causes;
use crate::event::Recorder;
use crate::gate::WriteGate;
use crate::key::{NamespacedName, reference};
use crate::metrics::Metrics;
use crate::plan::EventDraft;
use crate::reason;
use crate::sync::Mutex;

/// Timeout for releasing the Lease; after that it is left to expire.
const RELEASING: Duration = Duration::from_secs(2);

/// Lease, identity and times of a candidate.
#[derive(Debug, Clone)]
pub struct Candidacy {
    /// Name of the Lease.
    pub lease: NamespacedName,
    /// Unique name that no other process has or had.
    pub identity: String,
    /// Times of the election.
    pub times: LeaseTimes,
}

impl Candidacy {
    /// Creates a candidacy of this process for this Lease.
    pub fn new(lease: NamespacedName, times: LeaseTimes) -> Self {
        // Tools that rewrite variables of a Deployment may leave one empty.
        let named = |variable: &str| std::env::var(variable).ok().filter(|name| !name.is_empty());
        let pod = named("POD_NAME").or_else(|| named("HOSTNAME"));
        // A container restarted in its pod is a new process.
        let random = || RandomState::new().hash_one(std::process::id());
        let unique = Uuid::from_u64_pair(random(), random());
        Self {
            lease,
            identity: format!("{}_{unique}", pod.as_deref().unwrap_or("process")),
            times,
        }
    }
}

/// State of the leader election, for readiness and metrics. Clones share the same state. The default is no election.
#[derive(Debug, Clone, Default)]
pub struct Leadership {
    election: Option<Arc<Election>>,
}

#[derive(Debug)]
struct Election {
    lease: NamespacedName,
    gate: WriteGate,
    progress: Mutex<Progress>,
}

#[derive(Debug, Default)]
struct Progress {
    has_seen: bool,
    /// Holder of the Lease; empty if there is none.
    holder: String,
    leads: bool,
    /// Error of the last read or write of the Lease, if it failed.
    error: Option<String>,
}

impl Leadership {
    fn of(lease: &NamespacedName, gate: &WriteGate) -> Self {
        let election = Election {
            lease: lease.clone(),
            gate: gate.clone(),
            progress: Mutex::default(),
        };
        Self {
            election: Some(Arc::new(election)),
        }
    }

    /// Registers a gauge in `metrics` that is 1 while this process leads, as client-go does.
    pub(crate) fn count_in(&self, metrics: &Metrics) {
        if self.election.is_none() {
            return;
        }
        let leadership = self.clone();
        metrics.gauges(
            "leader_election_master_status",
            "Whether this process leads, by the name of the Lease",
            ["name"],
            move || {
                let name = leadership
                    .election
                    .as_ref()
                    .map(|election| election.lease.name.clone());
                let figure = i64::from(leadership.leads());
                name.map(|name| ([name], figure)).into_iter().collect()
            },
        );
    }

    /// True if this process may write because it was elected.
    pub fn leads(&self) -> bool {
        let election = self.election.as_ref();
        election.is_some_and(|election| election.progress.lock().leads && election.gate.is_open())
    }

    /// Returns the text to add to "ok", or the reason why the process is not ready: it has not seen the Lease yet. A standby is ready.
    pub fn readiness(&self) -> Result<Option<String>, String> {
        let Some(election) = &self.election else {
            return Ok(None);
        };
        let progress = election.progress.lock();
        let lease = &election.lease;
        let error = progress.error.as_deref();
        if !progress.has_seen {
            let error = error.unwrap_or("not requested yet");
            return Err(format!("waiting to read lease {lease}: {error}"));
        }
        let mut text = match progress.holder.as_str() {
            _ if progress.leads && election.gate.is_open() => format!("leader by lease {lease}"),
            _ if progress.leads => format!("waiting to renew lease {lease}"),
            "" => format!("standby: lease {lease} has no holder"),
            holder => format!("standby: {holder} holds lease {lease}"),
        };
        if let Some(error) = error {
            text += &format!("; last attempt failed: {error}");
        }
        Ok(Some(text))
    }
}

/// Reads and writes the Lease, and opens the process's write gate while it holds the Lease.
#[derive(Debug)]
pub struct Elector {
    api: Api<Lease>,
    lease: NamespacedName,
    candidate: Candidate,
    gate: WriteGate,
    leadership: Leadership,
}

impl Elector {
    /// Creates an elector with its own gate, which is shut.
    pub fn new(client: Client, candidacy: Candidacy) -> Self {
        let gate = WriteGate::default();
        gate.shut();
        Self {
            api: Api::namespaced(client, &candidacy.lease.namespace),
            leadership: Leadership::of(&candidacy.lease, &gate),
            lease: candidacy.lease,
            candidate: Candidate::new(candidacy.identity, candidacy.times),
            gate,
        }
    }

    /// Returns the state of the election.
    pub fn leadership(&self) -> &Leadership {
        &self.leadership
    }

    /// Returns the name of the Lease.
    pub fn lease(&self) -> &NamespacedName {
        &self.lease
    }

    /// Returns the write gate of this process.
    pub fn gate(&self) -> &WriteGate {
        &self.gate
    }

    /// Waits until this process leads; the gate is open then.
    ///
    /// # Errors
    /// If another process took the Lease before this one learned that it held it.
    pub async fn acquire(&mut self) -> Result<(), Loss> {
        while !self.leadership.leads() {
            self.step().await?;
        }
        tracing::info!(lease = %self.lease, identity = self.candidate.identity(), "became leader");
        Ok(())
    }

    /// Publishes an Event that this process leads, as client-go's leaders do.
    pub fn announce(&self, recorder: &Recorder) {
        recorder.publish(EventDraft {
            regarding: reference::<Lease>(&self.lease, self.candidate.uid().map(str::to_owned)),
            warning: false,
            reason: reason::LEADER_ELECTION.to_owned(),
            message: format!("{} became leader", self.candidate.identity()),
        });
    }

    /// Renews the Lease and returns when it is lost; the gate is shut then.
    pub async fn renew(&mut self) -> Loss {
        loop {
            if let Err(loss) = self.step().await {
                self.gate.shut();
                self.note(|progress| progress.leads = false);
                return loss;
            }
        }
    }

    /// Shuts the gate and removes this process from the Lease. If that fails, the Lease is left to expire.
    #[expect(
        clippy::disallowed_methods,
        reason = "the Lease is what lets the executor write"
    )]
    pub async fn release(&mut self) {
        self.gate.shut();
        self.note(|progress| progress.leads = false);
        let Some(lease) = self.candidate.released(clock::now()) else {
            return;
        };
        let params = PostParams::default();
        let releasing = self.api.replace(&self.lease.name, &params, &lease);
        match tokio::time::timeout(RELEASING, releasing).await {
            Ok(Ok(_)) => tracing::info!(lease = %self.lease, "lease released"),
            _ => tracing::warn!(lease = %self.lease, "cannot release the lease, leaving it to expire"),
        }
    }

    /// Executes the next step of the candidate.
    async fn step(&mut self) -> Result<(), Loss> {
        let named = ObjectMeta {
            namespace: Some(self.lease.namespace.clone()),
            name: Some(self.lease.name.clone()),
            ..ObjectMeta::default()
        };
        match self.candidate.decide(&named, Instant::now(), clock::now()) {
            Step::Wait(until) => tokio::time::sleep_until(until).await,
            Step::Read => self.read().await,
            Step::Write(lease) => self.write(&lease).await,
            Step::End(loss) => return Err(loss),
        }
        Ok(())
    }

    async fn read(&mut self) {
        let sent = Instant::now();
        let answer = self.api.get_opt(&self.lease.name);
        let answer = tokio::time::timeout(self.candidate.patience(), answer).await;
        let now = Instant::now();
        match answer {
            Ok(Ok(lease)) => {
                self.candidate.saw(lease, now);
                self.note(|progress| progress.error = None);
            }
            Ok(Err(error)) => self.failed("read", &with_causes(&error), sent, now),
            Err(_) => self.failed("read", "no answer", sent, now),
        }
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "the Lease is what lets the executor write"
    )]
    async fn write(&mut self, lease: &Lease) {
        let (sent, params) = (Instant::now(), PostParams::default());
        let is_new = lease.metadata.resource_version.is_none();
        let answer = async {
            if is_new {
                self.api.create(&params, lease).await
            } else {
                self.api.replace(&self.lease.name, &params, lease).await
            }
        };
        let answer = tokio::time::timeout(self.candidate.patience(), answer).await;
        let now = Instant::now();
        match answer {
            Ok(Ok(lease)) => {
                if let Some(end) = self.candidate.wrote(lease, sent, now) {
                    self.gate.open_until(end);
                    self.note(|progress| (progress.leads, progress.error) = (true, None));
                }
            }
            // Another process was first, or the Lease was deleted.
            Ok(Err(kube::Error::Api(status))) if matches!(status.code, 404 | 409) => {
                self.candidate.was_refused(now);
            }
            Ok(Err(error)) => self.failed("written", &with_causes(&error), sent, now),
            Err(_) => self.failed("written", "no answer", sent, now),
        }
    }

    fn failed(&mut self, what: &str, error: &str, sent: Instant, now: Instant) {
        self.candidate.got_no_answer(sent, now);
        let text = format!("cannot be {what}: {error}");
        let mut is_news = false;
        self.note(|progress| {
            is_news = progress.error.as_ref() != Some(&text);
            progress.error = Some(text.clone());
        });
        if is_news {
            tracing::warn!(lease = %self.lease, error, "lease cannot be {what}, retrying");
        }
    }

    /// Updates the state of the election with `change`.
    fn note(&self, change: impl FnOnce(&mut Progress)) {
        let Some(election) = &self.leadership.election else {
            return;
        };
        let mut progress = election.progress.lock();
        change(&mut progress);
        progress.has_seen |= self.candidate.has_seen();
        let holder = self.candidate.holder();
        if progress.holder != holder {
            holder.clone_into(&mut progress.holder);
            if !progress.leads {
                tracing::info!(lease = %self.lease, holder, "standby");
            }
        }
    }
}
