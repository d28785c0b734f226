//! Rate limiter for keys whose reconciles keep writing.
//!
//! A controller may write again and again: a policy reverts what it applies, two objects each want another form of a third, or it has a
//! bug. Each such reconcile writes and is requeued by its own write. So a key has a stock of reconciles that write, larger than any
//! request of a user needs, and regains one per [`PAUSE`]. A key without any left makes a pause after each. Reconciles that write nothing
//! do not count, as every loop has them.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, Hash, RandomState};
use std::time::Duration;

use tokio::time::Instant;

/// Reconciles with writes that a key at rest may run at full speed.
pub(crate) const FREE_ROUNDS: u32 = 300;
/// Time in which a key regains one of them, and so the pause of a key that has none left.
pub const PAUSE: Duration = Duration::from_secs(10);
/// Interval of the removal of keys at rest.
const TIDYING: Duration = Duration::from_secs(60);

/// Pause that a key has to make.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pause {
    /// True once until the key is at rest again: the user has to be informed.
    pub must_report: bool,
}

/// Rate limiter of one queue. No I/O: the time is an argument.
///
/// A user who changes fifty thousand objects in a minute adds as many keys. So keys are remembered by hash, with a random seed that
/// nobody can predict. Two keys whose hashes collide share a stock, which is negligibly rare.
#[derive(Debug, Default)]
pub(crate) struct Brake {
    spent: BTreeMap<u64, Spent>,
    hashes: RandomState,
    tidy_at: Option<Instant>,
}

#[derive(Debug)]
struct Spent {
    /// Time at which the stock is full again.
    full_at: Instant,
    is_reported: bool,
}

impl Brake {
    /// Records a reconcile of `key` that wrote. Returns the pause that has to follow, if any.
    pub(crate) fn wrote(&mut self, key: &impl Hash, now: Instant) -> Option<Pause> {
        self.tidy(now);
        let full = Spent {
            full_at: now,
            is_reported: false,
        };
        let spent = self.spent.entry(self.hashes.hash_one(key)).or_insert(full);
        spent.full_at = spent.full_at.max(now) + PAUSE;
        if spent.full_at <= now + PAUSE * FREE_ROUNDS {
            return None;
        }
        let must_report = !spent.is_reported;
        spent.is_reported = true;
        Some(Pause { must_report })
    }

    /// Returns the end of the pause of `key`; `None` if it need not pause.
    pub(crate) fn paused_until(&self, key: &impl Hash, now: Instant) -> Option<Instant> {
        let full_at = self.spent.get(&self.hashes.hash_one(key))?.full_at;
        let pause = full_at.saturating_duration_since(now + PAUSE * FREE_ROUNDS);
        (!pause.is_zero()).then(|| now + pause)
    }

    /// Forgets keys at rest, if due.
    pub(crate) fn tidy(&mut self, now: Instant) {
        if self.tidy_at.is_none_or(|at| at <= now) {
            self.spent.retain(|_, spent| spent.full_at > now);
            self.tidy_at = Some(now + TIDYING);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs `count` reconciles that each write, each as soon as it is allowed. Returns the time that each had to wait.
    fn rounds(brake: &mut Brake, now: &mut Instant, count: u32) -> Vec<Duration> {
        let mut waits = Vec::new();
        for _ in 0..count {
            let until = brake.paused_until(&"key", *now).unwrap_or(*now);
            waits.push(until - *now);
            *now = until;
            brake.wrote(&"key", *now);
        }
        waits
    }

    #[test]
    fn continuous_writes_use_up_the_stock_and_then_continue_slowly() {
        let (mut brake, mut now) = (Brake::default(), Instant::now());
        let waits = rounds(&mut brake, &mut now, FREE_ROUNDS + 1);
        assert!(waits.iter().all(Duration::is_zero), "{waits:?}");
        assert_eq!(rounds(&mut brake, &mut now, 3), [PAUSE; 3]);
        // Another key has a stock of its own.
        assert_eq!(brake.wrote(&"other", now), None);
        assert_eq!(brake.paused_until(&"other", now), None);
        // Rest brings it back, one by one.
        now += PAUSE * 11;
        let waits = rounds(&mut brake, &mut now, 12);
        assert_eq!(
            waits.iter().filter(|wait| wait.is_zero()).count(),
            11,
            "{waits:?}"
        );
    }

    #[test]
    fn it_is_reported_once() {
        let (mut brake, now) = (Brake::default(), Instant::now());
        for _ in 0..FREE_ROUNDS {
            assert_eq!(brake.wrote(&"key", now), None);
        }
        let pause = |must_report| Some(Pause { must_report });
        assert_eq!(brake.wrote(&"key", now), pause(true));
        assert_eq!(brake.wrote(&"key", now), pause(false));
    }

    #[test]
    fn keys_at_rest_are_forgotten() {
        let (mut brake, mut now) = (Brake::default(), Instant::now());
        for key in 0..10_000 {
            now += PAUSE;
            brake.wrote(&key, now);
        }
        assert!(brake.spent.len() <= 7, "{}", brake.spent.len());
        brake.tidy(now + TIDYING);
        assert!(brake.spent.is_empty());
    }
}
