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
use tokio::time::error::Elapsed;
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
    candidate: Mutex<Candidate>,
}

impl Election {
    /// True if this process may write because it was elected.
    fn leads(&self) -> bool {
        self.candidate.lock().leads() && self.gate.is_open()
    }

    /// Updates what the candidate knows with `change`.
    fn note<T>(&self, change: impl FnOnce(&mut Candidate) -> T) -> T {
        let mut candidate = self.candidate.lock();
        let known = candidate.holder().unwrap_or_default().to_owned();
        let result = change(&mut candidate);
        let holder = candidate.holder().unwrap_or_default();
        if known != holder && !candidate.leads() {
            tracing::info!(lease = %self.lease, holder, "standby");
        }
        result
    }

    /// Shuts the gate for good.
    fn step_down(&self) {
        self.gate.shut();
        self.note(Candidate::step_down);
    }
}

impl Leadership {
    /// Registers a gauge in `metrics` that is 1 while this process leads, as client-go does.
    pub(crate) fn count_in(&self, metrics: &Metrics) {
        let Some(election) = self.election.clone() else {
            return;
        };
        metrics.gauges(
            "leader_election_master_status",
            "Whether this process leads, by the name of the Lease",
            ["name"],
            move || vec![([election.lease.name.clone()], i64::from(election.leads()))],
        );
    }

    /// Returns the text to add to "ok", or the reason why the process is not ready: it has not seen the Lease yet. A standby is ready.
    pub fn readiness(&self) -> Result<Option<String>, String> {
        let Some(election) = &self.election else {
            return Ok(None);
        };
        let candidate = election.candidate.lock();
        let lease = &election.lease;
        let error = candidate.error();
        let Some(holder) = candidate.holder() else {
            let error = error.unwrap_or("not requested yet");
            return Err(format!("waiting to read lease {lease}: {error}"));
        };
        let leads = candidate.leads();
        let mut text = match holder {
            _ if leads && election.gate.is_open() => format!("leader by lease {lease}"),
            _ if leads => format!("waiting to renew lease {lease}"),
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
    election: Arc<Election>,
}

impl Elector {
    /// Creates an elector with its own gate, which is shut.
    pub fn new(client: Client, candidacy: Candidacy) -> Self {
        let gate = WriteGate::default();
        gate.shut();
        Self {
            api: Api::namespaced(client, &candidacy.lease.namespace),
            election: Arc::new(Election {
                lease: candidacy.lease,
                gate,
                candidate: Mutex::new(Candidate::new(candidacy.identity, candidacy.times)),
            }),
        }
    }

    /// Returns the state of the election.
    pub fn leadership(&self) -> Leadership {
        Leadership {
            election: Some(Arc::clone(&self.election)),
        }
    }

    /// Returns the name of the Lease.
    pub fn lease(&self) -> &NamespacedName {
        &self.election.lease
    }

    /// Returns the write gate of this process.
    pub fn gate(&self) -> &WriteGate {
        &self.election.gate
    }

    /// Waits until this process leads; the gate is open then.
    ///
    /// # Errors
    /// If another process took the Lease before this one learned that it held it.
    pub async fn acquire(&mut self) -> Result<(), Loss> {
        while !self.election.leads() {
            self.step().await?;
        }
        let candidate = self.election.candidate.lock();
        tracing::info!(lease = %self.lease(), identity = candidate.identity(), "became leader");
        Ok(())
    }

    /// Publishes an Event that this process leads, as client-go's leaders do.
    pub fn announce(&self, recorder: &Recorder) {
        let candidate = self.election.candidate.lock();
        recorder.publish(EventDraft {
            regarding: reference::<Lease>(self.lease(), candidate.uid().map(str::to_owned)),
            warning: false,
            reason: reason::LEADER_ELECTION.to_owned(),
            message: format!("{} became leader", candidate.identity()),
        });
    }

    /// Renews the Lease and returns when it is lost; the gate is shut then.
    pub async fn renew(&mut self) -> Loss {
        loop {
            if let Err(loss) = self.step().await {
                self.election.step_down();
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
        self.election.step_down();
        let released = self.election.candidate.lock().released(clock::now());
        let Some(lease) = released else {
            return;
        };
        let params = PostParams::default();
        let releasing = self.api.replace(&self.lease().name, &params, &lease);
        match tokio::time::timeout(RELEASING, releasing).await {
            Ok(Ok(_)) => tracing::info!(lease = %self.lease(), "lease released"),
            _ => tracing::warn!(lease = %self.lease(), "cannot release the lease, leaving it to expire"),
        }
    }

    /// Executes the next step of the candidate.
    async fn step(&self) -> Result<(), Loss> {
        let named = ObjectMeta {
            namespace: Some(self.lease().namespace.clone()),
            name: Some(self.lease().name.clone()),
            ..ObjectMeta::default()
        };
        let step = self
            .election
            .candidate
            .lock()
            .decide(&named, Instant::now(), clock::now());
        match step {
            Step::Wait(until) => tokio::time::sleep_until(until).await,
            Step::Read => self.read().await,
            Step::Write(lease) => self.write(&lease).await,
            Step::End(loss) => return Err(loss),
        }
        Ok(())
    }

    async fn read(&self) {
        let sent = Instant::now();
        let answer = self.answer(self.api.get_opt(&self.lease().name)).await;
        let now = Instant::now();
        match answer {
            Ok(Ok(lease)) => self.election.note(|candidate| candidate.saw(lease, now)),
            Ok(Err(error)) => self.failed("read", &with_causes(&error), sent, now),
            Err(_) => self.failed("read", "no answer", sent, now),
        }
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "the Lease is what lets the executor write"
    )]
    async fn write(&self, lease: &Lease) {
        let (sent, params) = (Instant::now(), PostParams::default());
        let is_new = lease.metadata.resource_version.is_none();
        let written = async {
            if is_new {
                self.api.create(&params, lease).await
            } else {
                self.api.replace(&self.lease().name, &params, lease).await
            }
        };
        let answer = self.answer(written).await;
        let now = Instant::now();
        match answer {
            Ok(Ok(lease)) => {
                if let Some(end) = self.election.note(|candidate| candidate.wrote(lease, sent, now)) {
                    self.gate().open_until(end);
                }
            }
            // Another process was first, or the Lease was deleted.
            Ok(Err(kube::Error::Api(status))) if matches!(status.code, 404 | 409) => {
                self.election.note(|candidate| candidate.was_refused(now));
            }
            Ok(Err(error)) => self.failed("written", &with_causes(&error), sent, now),
            Err(_) => self.failed("written", "no answer", sent, now),
        }
    }

    /// Awaits an answer of the API server for as long as the candidate does.
    async fn answer<T>(&self, asked: impl Future<Output = T>) -> Result<T, Elapsed> {
        let patience = self.election.candidate.lock().patience();
        tokio::time::timeout(patience, asked).await
    }

    fn failed(&self, what: &str, error: &str, sent: Instant, now: Instant) {
        let text = format!("cannot be {what}: {error}");
        let got_no_answer = |candidate: &mut Candidate| candidate.got_no_answer(sent, now, text);
        if self.election.note(got_no_answer) {
            tracing::warn!(lease = %self.lease(), error, "lease cannot be {what}, retrying");
        }
    }
}
