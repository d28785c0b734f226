//! What a candidate does about the Lease as it was seen: pure, with the times as values.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use tokio::time::Instant;

use crate::gate::WriteWindow;

/// Longest time for which a Lease may be had; a record that says more counts as this, so that none is waited for without end.
const LONGEST_LEASE: Duration = Duration::from_secs(300);
/// What a Lease says that nobody has: the server takes no duration of 0.
const RELEASED_SECONDS: i32 = 1;

/// The times of an election.
///
/// A holder renews the Lease every `retry_period`. Counted from when it sent the last renewal that was answered, it begins no write
/// after `renew_deadline`, and has given up each unanswered one half-way from there to `lease_duration`. Another takes the
/// Lease `lease_duration` after it saw the last renewal, which is later than that was sent. What goes to the server and is not
/// acknowledged is given up by the connection half-way from there ([`LeaseTimes::unacknowledged`]): the server begins with it no later, and
/// is told how long it may take. So a write is over before
/// another begins as long as the clocks of two machines do not go apart by more than a twentieth; what they show does not matter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeaseTimes {
    lease_duration: Duration,
    renew_deadline: Duration,
    retry_period: Duration,
}

impl Default for LeaseTimes {
    /// Those of client-go.
    fn default() -> Self {
        Self {
            lease_duration: Duration::from_secs(15),
            renew_deadline: Duration::from_secs(10),
            retry_period: Duration::from_secs(2),
        }
    }
}

impl LeaseTimes {
    /// These times.
    ///
    /// # Errors
    /// When they do not fit together; the text says which flag is to be how long.
    pub fn new(
        lease_duration: Duration,
        renew_deadline: Duration,
        retry_period: Duration,
    ) -> Result<Self, String> {
        let seconds = Duration::as_secs_f64;
        if lease_duration.subsec_nanos() != 0 || lease_duration.is_zero() || lease_duration > LONGEST_LEASE {
            return Err(format!(
                "--leader-elect-lease-duration={}s: a Lease is had for whole seconds, from 1s to {}s",
                seconds(&lease_duration),
                LONGEST_LEASE.as_secs()
            ));
        }
        let longest_deadline = lease_duration * 4 / 5;
        if renew_deadline > longest_deadline {
            return Err(format!(
                "--leader-elect-renew-deadline={}s leaves no time for the last writes before another may take the Lease: \
                 make it {}s or less, or --leader-elect-lease-duration longer",
                seconds(&renew_deadline),
                seconds(&longest_deadline)
            ));
        }
        let longest_period = renew_deadline / 2;
        if retry_period.is_zero() || retry_period > longest_period {
            return Err(format!(
                "--leader-elect-retry-period={}s: there have to be two tries within --leader-elect-renew-deadline: \
                 make it more than 0s and at most {}s, or the deadline longer",
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

    /// How long what was sent to the API server may stay without the acknowledgement of the machine there, before the connection is given up
    /// and it is sent no more.
    pub fn unacknowledged(&self) -> Duration {
        (self.lease_duration - self.renew_deadline) / 4
    }

    /// For how long a holder may write whose last answered renewal was sent at `sent`.
    pub(super) fn window(&self, sent: Instant) -> WriteWindow {
        WriteWindow {
            send_before: sent + self.renew_deadline,
            over_by: sent + (self.renew_deadline + self.lease_duration) / 2,
        }
    }
}

/// What is to be done next.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Step {
    /// Nothing before this time.
    Wait(Instant),
    /// Read the Lease.
    Read,
    /// Write this: create it where it has no resourceVersion, else replace what has that.
    Write(Box<Lease>),
    /// It leads no more, for good.
    End(Loss),
}

/// Why somebody leads no more.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Loss {
    /// Another has it.
    #[error("{0} has it now")]
    Taken(String),
    /// Somebody took it away.
    #[error("somebody has taken the holder out of it")]
    TakenAway,
}

/// One who would lead, or leads: what it knows of the Lease. A process is one candidate, under a name that no other process has.
#[derive(Debug)]
pub(super) struct Candidate {
    identity: String,
    times: LeaseTimes,
    seen: Option<Sighting>,
    /// What was seen is out of date: somebody else wrote.
    is_stale: bool,
    /// When to do the next thing; at once if none.
    next: Option<Instant>,
    /// When the write was sent with which it last got or renewed the Lease, if it leads.
    held_since: Option<Instant>,
    /// A write may have been carried out that says so.
    has_claimed: bool,
    /// The Lease as nobody had it, when the stores of this process were empty.
    was_free: Option<Version>,
    /// The Lease of that version was taken, and nobody else had it in between.
    took_what_was_free: bool,
}

/// Uid and resourceVersion of a Lease.
type Version = (Option<String>, Option<String>);

/// The Lease as it was seen.
#[derive(Debug)]
struct Sighting {
    /// None if there is none.
    lease: Option<Lease>,
    /// When it was first seen as it is: after it was written, however long the answer took.
    since: Instant,
    /// How long after that somebody may still count on it.
    lasts: Duration,
}

impl Candidate {
    pub fn new(identity: String, times: LeaseTimes) -> Self {
        Self {
            identity,
            times,
            seen: None,
            is_stale: false,
            next: None,
            held_since: None,
            has_claimed: false,
            was_free: None,
            took_what_was_free: false,
        }
    }

    /// To be called before the stores list: what nobody has now, and nobody has taken when this candidate takes it, nobody wrote under.
    /// A Lease that has run out is not free: writes under it may be on their way. One that is not there may have been deleted.
    pub fn remember_if_free(&mut self) {
        let lease = self.seen.as_ref().and_then(|seen| seen.lease.as_ref());
        self.was_free = lease.filter(|lease| holder_of(lease).is_empty()).map(version_of);
    }

    /// Whether it leads and nobody did since [`Candidate::remember_if_free`].
    pub fn took_what_was_free(&self) -> bool {
        self.took_what_was_free
    }

    /// What to do at `now`, which is `wall` for others. `named` is the Lease's name, should it have to be made.
    pub fn decide(&self, named: &ObjectMeta, now: Instant, wall: Timestamp) -> Step {
        if let Some(loss) = self.loss() {
            return Step::End(loss);
        }
        if let Some(next) = self.next.filter(|next| now < *next) {
            return Step::Wait(next);
        }
        match &self.seen {
            Some(seen) if !self.is_stale && self.may_write(seen, now) => {
                Step::Write(Box::new(self.mine(seen.lease.as_ref(), named, wall)))
            }
            _ => Step::Read,
        }
    }

    /// Why this candidate leads no more, if it led. A Lease that it could not renew in time is still its own until another is seen in
    /// it: the write gate has shut by itself meanwhile, and a renewal of the very version that was seen proves that nobody else had it.
    fn loss(&self) -> Option<Loss> {
        self.held_since?;
        let lease = self.seen.as_ref()?.lease.as_ref().filter(|_| !self.is_stale)?;
        match holder_of(lease) {
            "" => Some(Loss::TakenAway),
            holder if holder == self.identity => None,
            holder => Some(Loss::Taken(holder.to_owned())),
        }
    }

    /// Whether nobody else can count on the Lease any more.
    fn may_write(&self, seen: &Sighting, now: Instant) -> bool {
        self.held_since.is_some() || now >= seen.since + seen.lasts
    }

    /// The Lease as this candidate writes it.
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

    /// How long to wait for an answer.
    pub fn patience(&self) -> Duration {
        self.times.renew_deadline / 2
    }

    /// The Lease was read, as which the answer came at `now`; none if there is none.
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
                lasts: self.lasts(lease.as_ref(), old.as_ref()),
                lease,
                since: now,
            },
        };
        self.is_stale = false;
        self.next = match self.may_write(&seen, now) {
            true => None,
            false => Some((now + self.times.retry_period).min(seen.since + seen.lasts)),
        };
        self.seen = Some(seen);
    }

    /// How long somebody may count on a Lease that is seen now for the first time.
    fn lasts(&self, lease: Option<&Lease>, old: Option<&Sighting>) -> Duration {
        let Some(lease) = lease else {
            // Deleted: whoever had it does not know yet.
            return old.map_or(Duration::ZERO, |old| old.lasts);
        };
        match holder_of(lease) {
            "" => Duration::ZERO,
            // A write of this process that was not answered.
            holder if holder == self.identity => Duration::ZERO,
            // The holder's times may be others.
            _ => duration_of(lease).max(self.times.lease_duration),
        }
    }

    /// A write is on its way; whatever its answer, it may be carried out.
    pub fn claims(&mut self) {
        self.has_claimed = true;
    }

    /// A write that was sent at `sent` was carried out, as which the answer came at `now`. Gives how long may be written.
    pub fn wrote(&mut self, lease: Lease, sent: Instant, now: Instant) -> Option<WriteWindow> {
        let is_mine = holder_of(&lease) == self.identity;
        // The server writes over what was seen and over nothing else.
        let old = self.seen.as_ref().and_then(|seen| seen.lease.as_ref());
        let was_free = self.was_free.is_some() && old.map(version_of) == self.was_free;
        self.saw(Some(lease), now);
        if !is_mine {
            return None;
        }
        if self.held_since.is_none() {
            self.took_what_was_free = was_free;
        }
        self.held_since = Some(sent);
        self.next = Some(sent + self.times.retry_period);
        Some(self.times.window(sent))
    }

    /// A write was refused: the Lease is not as it was seen.
    pub fn was_refused(&mut self, now: Instant) {
        self.is_stale = true;
        // Whoever writes the Lease again and again does not have it asked for without a pause.
        self.next = Some(now + self.times.retry_period / 8);
    }

    /// What was asked at `sent` was not answered, or not in a way that says what is so.
    pub fn got_no_answer(&mut self, sent: Instant, now: Instant) {
        self.next = Some((sent + self.times.retry_period).max(now));
    }

    /// What to write so that others need not wait; none if the Lease is not this candidate's, as far as it knows.
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

    /// True when there may be a Lease with this candidate's name.
    pub fn has_claimed(&self) -> bool {
        self.has_claimed
    }

    /// True once the Lease was looked at, or looked for.
    pub fn has_seen(&self) -> bool {
        self.seen.is_some()
    }

    /// Who has the Lease, as far as is known; empty for nobody.
    pub fn holder(&self) -> &str {
        let lease = self.seen.as_ref().and_then(|seen| seen.lease.as_ref());
        lease.map_or("", holder_of)
    }

    /// The Lease's uid, if it is known.
    pub fn uid(&self) -> Option<&str> {
        self.seen.as_ref()?.lease.as_ref()?.metadata.uid.as_deref()
    }

    pub fn identity(&self) -> &str {
        &self.identity
    }
}

/// Who has a Lease; empty for nobody.
fn holder_of(lease: &Lease) -> &str {
    let spec = lease.spec.as_ref();
    spec.and_then(|spec| spec.holder_identity.as_deref())
        .unwrap_or_default()
}

/// For how long its holder has it after each renewal.
fn duration_of(lease: &Lease) -> Duration {
    let spec = lease.spec.as_ref();
    let seconds = spec.and_then(|spec| spec.lease_duration_seconds).unwrap_or(0);
    Duration::from_secs(u64::try_from(seconds).unwrap_or(0)).min(LONGEST_LEASE)
}

/// What differs between two states of it.
fn version_of(lease: &Lease) -> Version {
    let metadata = &lease.metadata;
    (metadata.uid.clone(), metadata.resource_version.clone())
}
