//! Decisions of a candidate about the Lease. Pure: times are passed as values.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use tokio::time::Instant;

/// Longest duration of a Lease. Longer durations in a record count as this, so that no wait is endless.
const LONGEST_LEASE: Duration = Duration::from_secs(300);
/// Duration written into a released Lease; the server does not accept 0.
const RELEASED_SECONDS: i32 = 1;

/// Times of an election.
///
/// A holder renews the Lease every `retry_period`. It sends no write once `renew_deadline` has passed since it sent the last answered
/// renewal. Another process takes the Lease `lease_duration` after it saw that renewal, which is later. So no two processes send writes at
/// once, as long as the clock rates of the machines hardly differ. The wall times of the clocks do not matter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeaseTimes {
    lease_duration: Duration,
    renew_deadline: Duration,
    retry_period: Duration,
}

impl Default for LeaseTimes {
    /// Returns the times of client-go.
    fn default() -> Self {
        Self {
            lease_duration: Duration::from_secs(15),
            renew_deadline: Duration::from_secs(10),
            retry_period: Duration::from_secs(2),
        }
    }
}

impl LeaseTimes {
    /// Creates checked times.
    ///
    /// # Errors
    /// If they do not fit together; the text names the flag and its limit.
    pub fn new(
        lease_duration: Duration,
        renew_deadline: Duration,
        retry_period: Duration,
    ) -> Result<Self, String> {
        let seconds = Duration::as_secs_f64;
        if lease_duration.subsec_nanos() != 0 || lease_duration.is_zero() || lease_duration > LONGEST_LEASE {
            return Err(format!(
                "invalid --leader-elect-lease-duration={}s: expected whole seconds from 1s to {}s",
                seconds(&lease_duration),
                LONGEST_LEASE.as_secs()
            ));
        }
        let longest_deadline = lease_duration * 4 / 5;
        if renew_deadline > longest_deadline {
            return Err(format!(
                "invalid --leader-elect-renew-deadline={}s: leaves no time for the last writes before another process may take the lease; use {}s or less, or a longer --leader-elect-lease-duration",
                seconds(&renew_deadline),
                seconds(&longest_deadline)
            ));
        }
        let longest_period = renew_deadline / 2;
        if retry_period.is_zero() || retry_period > longest_period {
            return Err(format!(
                "invalid --leader-elect-retry-period={}s: two attempts must fit into --leader-elect-renew-deadline; use more than 0s and at most {}s, or a longer deadline",
                seconds(&retry_period),
                seconds(&longest_period)
            ));
        }
        Ok(Self {
            lease_duration,
            renew_deadline,
            retry_period,
        })
    }
}

/// Next step of a candidate.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Step {
    /// Wait until this time.
    Wait(Instant),
    /// Read the Lease.
    Read,
    /// Write this Lease: create it if it has no resourceVersion, else replace that version.
    Write(Box<Lease>),
    /// Stop: leadership is lost for good.
    End(Loss),
}

/// Reason why leadership was lost.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Loss {
    /// Another process holds the Lease.
    #[error("{0} holds it now")]
    Taken(String),
    /// The holder was removed from the Lease.
    #[error("its holder was removed")]
    TakenAway,
}

/// Candidate or leader, with its knowledge of the Lease. A process is one candidate, with a unique name.
#[derive(Debug)]
pub(super) struct Candidate {
    identity: String,
    times: LeaseTimes,
    /// The Lease as last read or written; `None` if it has not been read since another client wrote it.
    seen: Option<Sighting>,
    /// Holder of the Lease when it was last seen, empty if it had none; `None` before it is seen.
    holder: Option<String>,
    /// Reason why the last request got no answer; `None` if it got one.
    error: Option<String>,
    /// Time of the next step; at once if `None`.
    next: Option<Instant>,
    /// True once a claim of this candidate was answered.
    leads: bool,
}

/// Observation of the Lease.
#[derive(Debug)]
struct Sighting {
    /// The Lease; `None` if it does not exist.
    lease: Option<Lease>,
    /// Time of the first observation of this version. It is after the write, even if the answer was slow.
    since: Instant,
    /// Time after `since` during which the holder may still rely on the Lease.
    lasts: Duration,
}

impl Candidate {
    pub fn new(identity: String, times: LeaseTimes) -> Self {
        Self {
            identity,
            times,
            seen: None,
            holder: None,
            error: None,
            next: None,
            leads: false,
        }
    }

    /// Returns the step to take at `now`, which is `wall` as wall time. `named` is the metadata for a Lease that has to be created.
    pub fn decide(&self, named: &ObjectMeta, now: Instant, wall: Timestamp) -> Step {
        if let Some(loss) = self.loss() {
            return Step::End(loss);
        }
        if let Some(next) = self.next.filter(|next| now < *next) {
            return Step::Wait(next);
        }
        match &self.seen {
            Some(seen) if self.may_write(seen, now) => {
                Step::Write(Box::new(self.mine(seen.lease.as_ref(), named, wall)))
            }
            _ => Step::Read,
        }
    }

    /// Returns the reason why this candidate lost leadership, if it did. A Lease that was not renewed in time is still its own until
    /// another holder is seen. The write gate has shut meanwhile, and renewing the very version that was seen proves that no other
    /// process held it.
    fn loss(&self) -> Option<Loss> {
        let lease = self.seen.as_ref()?.lease.as_ref()?;
        match holder_of(lease) {
            _ if !self.leads => None,
            "" => Some(Loss::TakenAway),
            holder if holder == self.identity => None,
            holder => Some(Loss::Taken(holder.to_owned())),
        }
    }

    /// True if no other process can still rely on the Lease.
    fn may_write(&self, seen: &Sighting, now: Instant) -> bool {
        self.leads || now >= seen.since + seen.lasts
    }

    /// Returns the Lease as this candidate writes it.
    fn mine(&self, old: Option<&Lease>, named: &ObjectMeta, wall: Timestamp) -> Lease {
        let mut lease = old.cloned().unwrap_or_else(|| Lease {
            metadata: named.clone(),
            spec: None,
        });
        let is_mine = holder_of(&lease) == self.identity;
        let spec = lease.spec.get_or_insert_with(LeaseSpec::default);
        if !is_mine {
            spec.holder_identity = Some(self.identity.clone());
            spec.acquire_time = Some(MicroTime(wall));
            let times = spec.lease_transitions.unwrap_or(0);
            spec.lease_transitions = Some(times.saturating_add(i32::from(old.is_some())));
        }
        spec.renew_time = Some(MicroTime(wall));
        spec.lease_duration_seconds = i32::try_from(self.times.lease_duration.as_secs()).ok();
        lease
    }

    /// Returns the timeout for an answer.
    pub fn patience(&self) -> Duration {
        self.times.renew_deadline / 2
    }

    /// Records a read of the Lease that was answered at `now`; `None` if it does not exist.
    pub fn saw(&mut self, lease: Option<Lease>, now: Instant) {
        let old = self.seen.take();
        let same = |old: &&Sighting| old.lease.as_ref().map(version_of) == lease.as_ref().map(version_of);
        let seen = match old.as_ref().filter(same) {
            Some(old) => Sighting {
                lease,
                since: old.since,
                lasts: old.lasts,
            },
            None => Sighting {
                lasts: self.lasts(lease.as_ref()),
                lease,
                since: now,
            },
        };
        self.error = None;
        self.holder = Some(seen.lease.as_ref().map_or("", holder_of).to_owned());
        self.next = match self.may_write(&seen, now) {
            true => None,
            false => Some((now + self.times.retry_period).min(seen.since + seen.lasts)),
        };
        self.seen = Some(seen);
    }

    /// Returns how long a holder may rely on a Lease that is now seen for the first time.
    fn lasts(&self, lease: Option<&Lease>) -> Duration {
        match lease {
            // The holder may use other times. A Lease of this candidate's own is from a write without an answer.
            Some(lease) if !["", self.identity.as_str()].contains(&holder_of(lease)) => {
                duration_of(lease).max(self.times.lease_duration)
            }
            _ => Duration::ZERO,
        }
    }

    /// Records a write sent at `sent` that succeeded, answered at `now`. Returns the time until which writes may be sent; `None` if the
    /// answer names another holder.
    pub fn wrote(&mut self, lease: Lease, sent: Instant, now: Instant) -> Option<Instant> {
        let is_mine = holder_of(&lease) == self.identity;
        self.saw(Some(lease), now);
        if !is_mine {
            return None;
        }
        self.leads = true;
        self.next = Some(sent + self.times.retry_period);
        Some(sent + self.times.renew_deadline)
    }

    /// Records a refused write: the Lease has changed since it was seen.
    pub fn was_refused(&mut self, now: Instant) {
        self.seen = None;
        // The pause limits requests even if another client keeps writing the Lease.
        self.next = Some(now + self.times.retry_period / 8);
    }

    /// Records that a request sent at `sent` got no answer, or none that shows the state of the Lease. Returns true if the reason is new.
    pub fn got_no_answer(&mut self, sent: Instant, now: Instant, error: String) -> bool {
        self.next = Some((sent + self.times.retry_period).max(now));
        let error = Some(error);
        let is_new = self.error != error;
        self.error = error;
        is_new
    }

    /// Returns the Lease to write so that others need not wait; `None` if this candidate does not hold it, as far as it knows.
    pub fn released(&self, wall: Timestamp) -> Option<Lease> {
        let mut lease = self.seen.as_ref()?.lease.clone()?;
        if holder_of(&lease) != self.identity {
            return None;
        }
        let spec = lease.spec.get_or_insert_with(LeaseSpec::default);
        spec.holder_identity = Some(String::new());
        spec.lease_duration_seconds = Some(RELEASED_SECONDS);
        spec.renew_time = Some(MicroTime(wall));
        Some(lease)
    }

    /// Returns the holder of the Lease when it was last seen, empty if it had none; `None` before it is seen.
    pub fn holder(&self) -> Option<&str> {
        self.holder.as_deref()
    }

    /// Returns the reason why the last request got no answer; `None` if it got one.
    pub fn error(&self) -> Option<&str> {
        self.error.as_deref()
    }

    /// True once a claim of this candidate was answered, until it steps down.
    pub fn leads(&self) -> bool {
        self.leads
    }

    /// Records that this candidate does not write any more.
    pub fn step_down(&mut self) {
        self.leads = false;
    }

    /// Returns the Lease's uid, if known.
    pub fn uid(&self) -> Option<&str> {
        self.seen.as_ref()?.lease.as_ref()?.metadata.uid.as_deref()
    }

    pub fn identity(&self) -> &str {
        &self.identity
    }
}

/// Returns the holder of a Lease; empty if there is none.
fn holder_of(lease: &Lease) -> &str {
    let spec = lease.spec.as_ref();
    spec.and_then(|spec| spec.holder_identity.as_deref())
        .unwrap_or_default()
}

/// Returns the duration for which the holder holds the Lease after each renewal.
fn duration_of(lease: &Lease) -> Duration {
    let spec = lease.spec.as_ref();
    let seconds = spec.and_then(|spec| spec.lease_duration_seconds).unwrap_or(0);
    Duration::from_secs(u64::try_from(seconds).unwrap_or(0)).min(LONGEST_LEASE)
}

/// Returns the fields that identify a version of the Lease.
fn version_of(lease: &Lease) -> (Option<String>, Option<String>) {
    let metadata = &lease.metadata;
    (metadata.uid.clone(), metadata.resource_version.clone())
}
