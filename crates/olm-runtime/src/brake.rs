//! Rate limiter that slows down a key whose reconciles keep writing without a request.
//!
//! A controller may write again and again: a policy reverts what it applies, two objects each want another form of a third, or it has a
//! bug. Each such reconcile writes and is requeued by its own write. So reconciles that wrote are counted per key. Some are free, since
//! normal progress writes several times. After that each pause is 1.5 times as long as the one before, up to [`CEILING`]. Reconciles that
//! wrote only a status have a free number of their own. Reconciles that write nothing and requeues by statuses do not count, as every
//! loop has them. The count falls by one per [`CEILING`] of time. It is reset when a user wants something new: an object was created,
//! deleted or got another spec. Changes by the key itself do not reset it.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, Hash, RandomState};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::wake::ObjectId;

/// Consecutive writing reconciles that run at full speed.
const FREE_ROUNDS: u32 = 10;
/// Additional free reconciles that wrote only the status of the key's object. A rollout of many Deployments is reported step by step.
const FREE_STATUSES: u32 = 30;
/// Pause after the first reconcile beyond the free ones.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
/// Longest pause.
pub const CEILING: Duration = Duration::from_secs(60);
/// Number of reconciles after which the pause is the longest.
const FULL_ROUNDS: u32 = 27;
/// Pauses of at least this length are reported to the user. Below, the key may still make normal progress.
const TOLD_FROM: Duration = Duration::from_secs(10);
/// Maximum number of written objects remembered per key; the oldest are dropped first.
const REMEMBERED_OBJECTS: usize = 256;
/// Interval of the removal of idle keys, as long as any are remembered: tens of thousands may have been written once.
const TIDYING: Duration = Duration::from_secs(2 * CEILING.as_secs());

/// Extent of the writes of one reconcile.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Extent {
    /// No write.
    #[default]
    Nothing,
    /// The status of the key's own object, and nothing else.
    Status,
    /// Anything else.
    More,
}

/// Writes of one reconcile.
#[derive(Debug, Default, Clone)]
pub struct Written {
    /// Amount that was written.
    pub extent: Extent,
    /// Written objects that have names. Objects whose status alone was written are left out: a status requests nothing, so a request by
    /// such an object comes from another client.
    pub objects: Vec<ObjectId>,
}

/// Pause that a key has to make.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pause {
    /// Length of the pause.
    pub length: Duration,
    /// True once per series of writes, when the user has to be informed.
    pub is_to_be_told: bool,
}

#[derive(Debug)]
struct Series {
    /// Writing reconciles, less one for each `CEILING` since.
    rounds: u32,
    /// Used part of [`FREE_STATUSES`]; it falls only after `rounds` is zero.
    statuses: u32,
    /// Time at which the counts were computed.
    counted_at: Instant,
    paused_until: Option<Instant>,
    is_told: bool,
    /// Hashes of objects that the key created, deleted or gave their spec.
    made: Vec<u64>,
}

/// Rate limiter of one queue. No I/O: the time is an argument.
///
/// A user who changes fifty thousand objects in a minute adds as many keys. So keys and the objects they wrote are remembered by hash,
/// with a random seed that nobody can predict. Two keys whose hashes collide share a count, which is negligibly rare.
#[derive(Debug, Default)]
pub(crate) struct Brake {
    series: BTreeMap<u64, Series>,
    hashes: RandomState,
    /// Next time to remove idle keys; `None` if no key is remembered.
    tidy_at: Option<Instant>,
}

impl Brake {
    /// Records the end of a reconcile of `key`. `requests` are the objects whose changes requeued the key meanwhile, including its own
    /// writes.
    pub(crate) fn round_ended(
        &mut self,
        key: &impl Hash,
        written: &Written,
        requests: &[Arc<ObjectId>],
        now: Instant,
    ) -> Option<Pause> {
        let (own, foreign): (Vec<_>, Vec<_>) = requests
            .iter()
            .partition(|object| written.objects.contains(object.as_ref()));
        for object in foreign {
            self.requested(key, object);
        }
        if written.extent == Extent::Nothing {
            return None;
        }
        self.tidy(now);
        self.tidy_at = self.tidy_at.or(now.checked_add(TIDYING));
        let made: Vec<u64> = own.into_iter().map(|object| self.hash_of(object)).collect();
        let series = self.series.entry(self.hash_of(key)).or_insert_with(|| Series {
            rounds: 0,
            statuses: 0,
            counted_at: now,
            paused_until: None,
            is_told: false,
            made: Vec::new(),
        });
        series.fall(now);
        for object in made {
            series.remember(object);
        }
        if written.extent == Extent::Status && series.statuses < FREE_STATUSES {
            series.statuses += 1;
            return None;
        }
        series.rounds += 1;
        let length = pause_after(series.rounds)?;
        // A higher count would only delay recovery. One extra makes up for the decrease during the longest pause.
        series.rounds = series.rounds.min(FULL_ROUNDS + 1);
        series.paused_until = Some(now + length);
        let is_to_be_told = length >= TOLD_FROM && !series.is_told;
        series.is_told |= is_to_be_told;
        Some(Pause {
            length,
            is_to_be_told,
        })
    }

    /// Records that a change of `object` requeued `key`, which is not being reconciled.
    pub(crate) fn requested(&mut self, key: &impl Hash, object: &ObjectId) {
        if self.series.is_empty() {
            return;
        }
        let (key, object) = (self.hash_of(key), self.hash_of(object));
        if let Some(series) = self.series.get(&key)
            && !series.made.contains(&object)
        {
            self.series.remove(&key);
        }
    }

    fn hash_of(&self, value: &impl Hash) -> u64 {
        self.hashes.hash_one(value)
    }

    /// Returns the end of the pause of `key`; `None` if it need not pause.
    pub(crate) fn paused_until(&self, key: &impl Hash, now: Instant) -> Option<Instant> {
        let until = self.series.get(&self.hash_of(key))?.paused_until?;
        (until > now).then_some(until)
    }

    /// Next time to call [`Brake::tidy`]; `None` if no key is remembered.
    pub(crate) fn tidy_at(&self) -> Option<Instant> {
        self.tidy_at
    }

    /// Removes idle keys, if due.
    pub(crate) fn tidy(&mut self, now: Instant) {
        if self.tidy_at.is_none_or(|at| now < at) {
            return;
        }
        self.series.retain(|_, series| {
            series.fall(now);
            series.rounds > 0 || series.statuses > 0
        });
        let is_empty = self.series.is_empty();
        self.tidy_at = now.checked_add(TIDYING).filter(|_| !is_empty);
    }
}

impl Series {
    fn fall(&mut self, now: Instant) {
        let since = now.saturating_duration_since(self.counted_at);
        let steps = u32::try_from(since.as_secs() / CEILING.as_secs()).unwrap_or(u32::MAX);
        let beyond = steps.saturating_sub(self.rounds);
        self.rounds = self.rounds.saturating_sub(steps);
        self.statuses = self.statuses.saturating_sub(beyond);
        // The remainder of the last step is carried over.
        let rest = Duration::from_secs(since.as_secs() % CEILING.as_secs());
        self.counted_at = now.checked_sub(rest).unwrap_or(now);
        if self.rounds == 0 {
            self.is_told = false;
            self.made.clear();
        }
    }

    fn remember(&mut self, object: u64) {
        if self.made.contains(&object) {
            return;
        }
        if self.made.len() == REMEMBERED_OBJECTS {
            self.made.remove(0);
        }
        // Most keys write one object.
        if self.made.is_empty() {
            self.made.reserve_exact(1);
        }
        self.made.push(object);
    }
}

/// Pause after the `rounds`th writing reconcile; `None` if it is free.
fn pause_after(rounds: u32) -> Option<Duration> {
    let beyond = rounds.checked_sub(FREE_ROUNDS + 1)?;
    let pause = (0..beyond.min(32)).fold(FIRST_PAUSE, |pause, _| pause * 3 / 2);
    Some(pause.min(CEILING))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(name: &str) -> Arc<ObjectId> {
        Arc::new(ObjectId {
            group: String::new(),
            kind: "ConfigMap".to_owned(),
            key: crate::NamespacedName::new("ns", name),
        })
    }

    fn wrote(names: &[&str]) -> Written {
        Written {
            extent: Extent::More,
            objects: names.iter().map(|name| object(name).as_ref().clone()).collect(),
        }
    }

    /// Runs `count` reconciles that each write "own", each as soon as it is allowed. Returns the pauses.
    fn rounds(brake: &mut Brake, now: &mut Instant, count: usize) -> Vec<Duration> {
        let mut pauses = Vec::new();
        for _ in 0..count {
            let pause = brake.round_ended(&"key", &wrote(&["own"]), &[object("own")], *now);
            pauses.push(pause.map_or(Duration::ZERO, |pause| pause.length));
            *now = brake.paused_until(&"key", *now).unwrap_or(*now);
        }
        pauses
    }

    #[test]
    fn writing_on_and_on_slows_down_to_the_ceiling_and_stays_there() {
        let (mut brake, mut now) = (Brake::default(), Instant::now());
        let pauses = rounds(&mut brake, &mut now, 60);
        assert!(pauses[..10].iter().all(Duration::is_zero));
        assert_eq!(pauses[10..13], [100, 150, 225].map(Duration::from_millis));
        assert!(pauses.windows(2).all(|pair| pair[0] <= pair[1]), "{pauses:?}");
        let at_ceiling = pauses.iter().filter(|pause| **pause == CEILING).count();
        assert!(at_ceiling > 25, "{pauses:?}");
    }

    #[test]
    fn it_is_told_once() {
        let (mut brake, mut now) = (Brake::default(), Instant::now());
        let mut told = 0;
        for _ in 0..100 {
            let pause = brake.round_ended(&"key", &wrote(&[]), &[], now);
            if let Some(pause) = pause.filter(|pause| pause.is_to_be_told) {
                assert!(pause.length >= TOLD_FROM, "{pause:?} is nothing to talk about");
                told += 1;
            }
            now = brake.paused_until(&"key", now).unwrap_or(now);
        }
        assert_eq!(told, 1);
    }

    /// Reconciles can come faster than the pauses allow, when other objects requeue the key. Recovery takes no longer for that.
    #[test]
    fn after_many_rounds_the_way_back_is_no_longer() {
        let (mut brake, now) = (Brake::default(), Instant::now());
        for _ in 0..1000 {
            brake.round_ended(&"key", &wrote(&["own"]), &[object("own")], now);
        }
        let later = now + CEILING * (FULL_ROUNDS + 2);
        assert_eq!(brake.round_ended(&"key", &wrote(&["own"]), &[], later), None);
    }

    #[test]
    fn only_what_others_want_lets_go() {
        // Columns: changed object, whether the reconcile was running, whether the key is released.
        let table = [
            ("foreign", true, true),
            ("foreign", false, true),
            ("own", true, false),
            ("own", false, false),
        ];
        for (changed, while_running, is_free) in table {
            let (mut brake, mut now) = (Brake::default(), Instant::now());
            rounds(&mut brake, &mut now, 20);
            if while_running {
                brake.round_ended(&"key", &wrote(&["own"]), &[object(changed)], now);
            } else {
                brake.requested(&"key", &object(changed));
            }
            let next = rounds(&mut brake, &mut now, 1)[0];
            assert_eq!(next.is_zero(), is_free, "{changed}, {while_running}: {next:?}");
        }
    }

    #[test]
    fn the_pause_grows_as_long_as_the_count_does() {
        assert_eq!(pause_after(FREE_ROUNDS), None);
        assert!(pause_after(FULL_ROUNDS - 1) < Some(CEILING));
        assert_eq!(pause_after(FULL_ROUNDS), Some(CEILING));
        assert_eq!(pause_after(u32::MAX), Some(CEILING));
    }

    #[test]
    fn statuses_alone_are_free_for_longer_but_not_for_ever() {
        let (mut brake, mut now) = (Brake::default(), Instant::now());
        let status = Written {
            extent: Extent::Status,
            objects: Vec::new(),
        };
        let mut pauses = Vec::new();
        for _ in 0..100 {
            let pause = brake.round_ended(&"key", &status, &[], now);
            pauses.push(pause.map_or(Duration::ZERO, |pause| pause.length));
            now = brake.paused_until(&"key", now).unwrap_or(now);
        }
        let free = (FREE_STATUSES + FREE_ROUNDS) as usize;
        assert!(pauses[..free].iter().all(Duration::is_zero), "{pauses:?}");
        assert_eq!(pauses[free..free + 2], [100, 150].map(Duration::from_millis));
        let at_ceiling = pauses.iter().filter(|pause| **pause == CEILING).count();
        assert!(at_ceiling > 25, "{pauses:?}");
        // They do not add to the free writes of other objects.
        let (mut brake, mut now) = (Brake::default(), Instant::now());
        brake.round_ended(&"key", &status, &[], now);
        let pauses = rounds(&mut brake, &mut now, 12);
        assert_eq!(pauses.iter().position(|pause| !pause.is_zero()), Some(10));
    }

    /// Objects that a key wrote long ago no longer count as its own.
    #[test]
    fn what_was_made_before_a_rest_is_foreign_after_it() {
        let (mut brake, mut now) = (Brake::default(), Instant::now());
        rounds(&mut brake, &mut now, 20);
        now += CEILING * 60;
        for _ in 0..20 {
            brake.round_ended(&"key", &wrote(&["other"]), &[], now);
            now = brake.paused_until(&"key", now).unwrap_or(now);
        }
        brake.requested(&"key", &object("own"));
        assert_eq!(rounds(&mut brake, &mut now, 1), [Duration::ZERO]);
    }

    #[test]
    fn rest_is_rewarded_and_forgotten() {
        let (mut brake, mut now) = (Brake::default(), Instant::now());
        rounds(&mut brake, &mut now, 40);
        now += CEILING * 20;
        assert_eq!(rounds(&mut brake, &mut now, 1), [Duration::ZERO]);
        let mut many = Brake::default();
        for key in 0..10_000 {
            now += CEILING * 2;
            many.round_ended(&key, &wrote(&[]), &[], now);
        }
        assert!(many.series.len() <= 2, "{}", many.series.len());
    }
}
