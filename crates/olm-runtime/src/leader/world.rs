//! Property test of candidates under faults. Requests are slow, get lost, or are executed after the client gave up. Processes are
//! suspended, resumed, killed and restarted. Each process has its own times and an inaccurate clock.

use std::collections::VecDeque;
use std::ops::Range;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use proptest::prelude::*;
use tokio::time::Instant;

use super::candidate::{Candidate, LeaseTimes, Step};

/// Step of the simulated time, in milliseconds.
const TICK: u64 = 100;
/// Length of the phase with faults and of the calm phase after it, in milliseconds.
const TROUBLE: u64 = 150_000;
const CALM: u64 = 120_000;

/// Delays of a request and of its answer, in milliseconds. `lands` is the time until it is executed, `answers` the time from then to its
/// answer; `None` is never.
#[derive(Debug, Clone, Copy)]
struct Fate {
    lands: Option<u64>,
    answers: Option<u64>,
}

/// Fault of a process.
#[derive(Debug, Clone, Copy)]
enum Blow {
    /// Suspended for this time.
    Stop(u64),
    /// Killed; a new process starts after this time.
    Kill(u64),
    /// Graceful shutdown; if not settled, a write without an answer is in progress.
    Term { is_settled: bool },
}

#[derive(Debug, Clone)]
struct Story {
    /// Times and clock error, in thousandths, of each process.
    processes: Vec<(LeaseTimes, i64)>,
    fates: Vec<Fate>,
    /// Time, process and fault.
    blows: Vec<(u64, usize, Blow)>,
}

enum Asked {
    Read,
    Write(Box<Lease>),
}

/// Request in progress.
struct Flight {
    asked: Asked,
    sent: Instant,
    lands_at: Option<u64>,
    answers_after: Option<u64>,
    /// Arrival time of the answer, and the answer.
    answer: Option<(u64, Result<Option<Lease>, ()>)>,
    landed: bool,
    patience: Duration,
}

/// Period in which a process may write after one renewal.
#[derive(Debug, Clone)]
struct Span {
    by: String,
    /// Time at which the renewal was executed.
    landed: u64,
    open: Range<u64>,
    over_by: u64,
}

struct Process {
    times: LeaseTimes,
    clock_error: i64,
    candidate: Option<Candidate>,
    comes_at: u64,
    stopped_until: u64,
    flight: Option<Flight>,
    lives: usize,
}

struct World {
    base: Instant,
    now: u64,
    lease: Option<Lease>,
    version: u64,
    processes: Vec<Process>,
    /// Requests of processes that ended or gave up waiting.
    stray: Vec<Flight>,
    fates: VecDeque<Fate>,
    spans: Vec<Span>,
    /// Time of each change of the holder, with the new holder.
    taken: Vec<(u64, String)>,
}

impl Process {
    /// Returns the time that its clock shows.
    fn clock(&self, base: Instant, now: u64) -> Instant {
        let thousandths = u64::try_from(1000 + self.clock_error).unwrap();
        base + Duration::from_micros(now * thousandths)
    }

    /// Returns the simulated time at which its clock shows `time`, rounded up.
    fn when(&self, base: Instant, time: Instant) -> u64 {
        let thousandths = u128::try_from(1000 + self.clock_error).unwrap();
        let micros = time.duration_since(base).as_micros();
        u64::try_from(micros.div_ceil(thousandths)).unwrap()
    }
}

fn named() -> ObjectMeta {
    ObjectMeta {
        name: Some("lease".to_owned()),
        ..ObjectMeta::default()
    }
}

fn holder(lease: &Lease) -> &str {
    lease.spec.as_ref().unwrap().holder_identity.as_deref().unwrap()
}

impl World {
    fn of(story: &Story) -> Self {
        let process = |(times, clock_error): &(LeaseTimes, i64)| Process {
            times: *times,
            clock_error: *clock_error,
            candidate: None,
            comes_at: 0,
            stopped_until: 0,
            flight: None,
            lives: 0,
        };
        Self {
            base: Instant::now(),
            now: 0,
            lease: None,
            version: 0,
            processes: story.processes.iter().map(process).collect(),
            stray: Vec::new(),
            fates: story.fates.iter().copied().collect(),
            spans: Vec::new(),
            taken: Vec::new(),
        }
    }

    fn run(&mut self, story: &Story) {
        let mut blows = story.blows.clone();
        blows.sort_by_key(|(at, ..)| *at);
        let mut blows = VecDeque::from(blows);
        while self.now < TROUBLE + CALM {
            while let Some((_, index, blow)) = blows.pop_front_if(|(at, ..)| *at <= self.now) {
                self.strike(index % self.processes.len(), blow);
            }
            self.land();
            for index in 0..self.processes.len() {
                if self.processes[index].stopped_until <= self.now {
                    self.go_on(index);
                }
            }
            self.now += TICK;
        }
    }

    fn strike(&mut self, index: usize, blow: Blow) {
        match blow {
            Blow::Stop(time) => {
                let process = &mut self.processes[index];
                process.stopped_until = process.stopped_until.max(self.now + time);
            }
            Blow::Kill(time) => self.end(index, time),
            Blow::Term { is_settled } => {
                if self.processes[index].stopped_until <= self.now {
                    self.resign(index, is_settled);
                }
            }
        }
    }

    /// Releases the Lease as an elector does, with one attempt.
    fn resign(&mut self, index: usize, is_settled: bool) {
        let Some(candidate) = &self.processes[index].candidate else {
            return;
        };
        let (by, released) = (
            candidate.identity().to_owned(),
            candidate.released(Timestamp::UNIX_EPOCH),
        );
        // The gate is shut, and earlier writes are settled.
        for span in self.spans.iter_mut().filter(|span| span.by == by) {
            span.open.end = span.open.end.min(self.now);
            if is_settled {
                span.over_by = span.over_by.min(self.now);
            }
        }
        self.end(index, 3_000);
        if let Some(lease) = released.filter(|_| is_settled) {
            let flight = self.flight(index, Asked::Write(Box::new(lease)), Duration::ZERO);
            self.stray.push(flight);
        }
    }

    fn end(&mut self, index: usize, time: u64) {
        let process = &mut self.processes[index];
        process.candidate = None;
        process.stopped_until = 0;
        process.comes_at = self.now + time;
        self.stray.extend(process.flight.take());
    }

    fn flight(&mut self, index: usize, asked: Asked, patience: Duration) -> Flight {
        let quick = Fate {
            lands: Some(TICK),
            answers: Some(TICK),
        };
        let is_calm = self.now >= TROUBLE;
        let fate = self.fates.pop_front().filter(|_| !is_calm).unwrap_or(quick);
        Flight {
            asked,
            sent: self.processes[index].clock(self.base, self.now),
            lands_at: fate.lands.map(|time| self.now + time),
            answers_after: fate.answers,
            answer: None,
            landed: false,
            patience,
        }
    }

    /// Executes requests that have reached the server, even if no process waits for them.
    fn land(&mut self) {
        let mut all = std::mem::take(&mut self.stray);
        for flight in &mut all {
            self.carry_out(flight);
        }
        all.retain(|flight| !flight.landed && flight.lands_at.is_some());
        self.stray = all;
        for index in 0..self.processes.len() {
            if let Some(mut flight) = self.processes[index].flight.take() {
                self.carry_out(&mut flight);
                self.processes[index].flight = Some(flight);
            }
        }
    }

    fn carry_out(&mut self, flight: &mut Flight) {
        if flight.landed || flight.lands_at.is_none_or(|at| at > self.now) {
            return;
        }
        flight.landed = true;
        let answer = match &flight.asked {
            Asked::Read => Ok(self.lease.clone()),
            Asked::Write(lease) => {
                let version = |lease: &Lease| lease.metadata.resource_version.clone();
                if self.lease.as_ref().and_then(version) == version(lease) {
                    self.version += 1;
                    let mut lease = Lease::clone(lease);
                    lease.metadata.resource_version = Some(self.version.to_string());
                    let before = self.lease.as_ref().map_or("", holder);
                    if holder(&lease) != before && !holder(&lease).is_empty() {
                        self.taken.push((self.now, holder(&lease).to_owned()));
                    }
                    self.lease = Some(lease.clone());
                    Ok(Some(lease))
                } else {
                    Err(())
                }
            }
        };
        flight.answer = flight.answers_after.map(|time| (self.now + time, answer));
    }

    fn go_on(&mut self, index: usize) {
        let base = self.base;
        let process = &mut self.processes[index];
        if process.candidate.is_none() && process.comes_at <= self.now {
            process.lives += 1;
            let identity = format!("{index}-{}", process.lives);
            process.candidate = Some(Candidate::new(identity, process.times));
        }
        let clock = process.clock(base, self.now);
        let Some(mut candidate) = process.candidate.take() else {
            return;
        };
        let by = candidate.identity().to_owned();
        if let Some(mut flight) = process.flight.take() {
            if let Some((_, answer)) = flight.answer.take_if(|(at, _)| *at <= self.now) {
                let window = match (flight.asked, answer) {
                    (Asked::Read, Ok(lease)) => {
                        candidate.saw(lease, clock);
                        None
                    }
                    (Asked::Write(_), Ok(Some(lease))) => candidate.wrote(lease, flight.sent, clock),
                    _ => {
                        candidate.was_refused(clock);
                        None
                    }
                };
                if let Some(window) = window {
                    let end = process.when(base, window.send_before);
                    self.spans.push(Span {
                        by: by.clone(),
                        landed: flight.lands_at.unwrap(),
                        open: self.now..end,
                        // Delayed data arrives by then at the latest.
                        over_by: process.when(base, window.over_by + process.times.unacknowledged()),
                    });
                }
            } else if clock >= flight.sent + flight.patience {
                candidate.got_no_answer(flight.sent, clock);
                self.stray.push(flight);
            } else {
                process.flight = Some(flight);
            }
        }
        if self.processes[index].flight.is_none() {
            let asked = match candidate.decide(&named(), clock, Timestamp::UNIX_EPOCH) {
                Step::Wait(_) => None,
                Step::Read => Some(Asked::Read),
                Step::Write(lease) => {
                    candidate.claims();
                    Some(Asked::Write(lease))
                }
                Step::End(_) => {
                    self.end(index, 1_000);
                    return;
                }
            };
            if let Some(asked) = asked {
                let patience = candidate.patience();
                let flight = self.flight(index, asked, patience);
                self.processes[index].flight = Some(flight);
            }
        }
        self.processes[index].candidate = Some(candidate);
    }

    /// Checks that no write is in progress when another process gets the Lease, and that no two gates are open at once. In the end
    /// exactly one process must lead.
    fn check(&self) {
        let spans: Vec<&Span> = self.spans.iter().filter(|span| !span.open.is_empty()).collect();
        for span in &spans {
            for (at, who) in &self.taken {
                assert!(
                    *who == span.by || *at < span.landed || span.over_by <= *at,
                    "{who} has the Lease from {at} on, and a write may land of {span:?}"
                );
            }
            for other in spans.iter().filter(|other| other.by != span.by) {
                let both = span.open.start.max(other.open.start)..span.open.end.min(other.open.end);
                assert!(both.is_empty(), "two gates are open: {span:?} {other:?}");
            }
        }
        let now = self.now - TICK;
        let open = spans.iter().filter(|span| span.open.contains(&now));
        let mut leaders: Vec<&str> = open.map(|span| span.by.as_str()).collect();
        leaders.dedup();
        assert_eq!(leaders.len(), 1, "in the end one leads: {:?}", self.taken);
    }
}

fn times() -> impl Strategy<Value = LeaseTimes> {
    (5..=20_u64, 30..=80_u32, 10..=50_u32).prop_map(|(lease, deadline, period)| {
        let lease = Duration::from_secs(lease);
        let deadline = lease * deadline / 100;
        LeaseTimes::new(lease, deadline, deadline * period / 100).unwrap()
    })
}

fn fate() -> impl Strategy<Value = Fate> {
    let quick = || (0..4_u64).prop_map(|ticks| Some(ticks * TICK));
    let slow = || (0..40_000_u64).prop_map(Some);
    let part = move || prop_oneof![12 => quick(), 2 => slow(), 1 => Just(None)];
    (part(), part()).prop_map(|(lands, answers)| Fate { lands, answers })
}

fn blow() -> impl Strategy<Value = Blow> {
    prop_oneof![
        4 => (0..40_000_u64).prop_map(Blow::Stop),
        2 => (0..30_000_u64).prop_map(Blow::Kill),
        2 => any::<bool>().prop_map(|is_settled| Blow::Term { is_settled }),
    ]
}

fn story() -> impl Strategy<Value = Story> {
    // Two clocks differ by at most a twentieth.
    let processes = prop::collection::vec((times(), -24..=24_i64), 2..=3);
    let fates = prop::collection::vec(fate(), 0..400);
    let blows = prop::collection::vec((0..TROUBLE, 0..3_usize, blow()), 0..12);
    (processes, fates, blows).prop_map(|(processes, fates, blows)| Story {
        processes,
        fates,
        blows,
    })
}

proptest! {
    #![proptest_config(olm_testing::properties::config(200))]

    #[test]
    fn no_two_lead_at_once_and_no_write_outlives_its_lease(story in story()) {
        let mut world = World::of(&story);
        world.run(&story);
        world.check();
    }
}
