//! Progress of a plan, in one line of a terminal that is overwritten and finally removed.

use std::io::{self, IsTerminal as _, Stderr, Write};
use std::time::{Duration, Instant};

use olm_resolver::plan::Progress as At;

/// Time before the progress of a plan is shown.
const PATIENCE: Duration = Duration::from_millis(500);

/// Minimum time between two updates.
const PAUSE: Duration = Duration::from_millis(100);

pub(super) struct Progress<W> {
    out: W,
    /// Time of the next update; `None` without a terminal.
    next: Option<Instant>,
    is_told: bool,
}

impl Progress<Stderr> {
    /// Writes to stderr, if that is a terminal.
    pub(super) fn on_stderr() -> Self {
        let stderr = io::stderr();
        let next = stderr.is_terminal().then(|| Instant::now() + PATIENCE);
        Self::new(stderr, next)
    }
}

impl<W: Write> Progress<W> {
    fn new(out: W, next: Option<Instant>) -> Self {
        Self {
            out,
            next,
            is_told: false,
        }
    }

    pub(super) fn tell(&mut self, at: At, now: Instant) {
        if self.next.is_none_or(|next| now < next) {
            return;
        }
        let text = match at {
            At::Step { number, installed } => format!("step {number} planned, {installed} bundles so far"),
            At::Advice { failure, of } => format!("looking into failure {failure} of {of}"),
            At::HeldBack => "looking for what holds upgrades back".to_owned(),
        };
        self.write(&text);
        self.next = Some(now + PAUSE);
        self.is_told = true;
    }

    pub(super) fn clear(&mut self) {
        if self.is_told {
            self.write("");
        }
    }

    /// Writes the line and ignores errors: a plan must not fail because its progress cannot be shown.
    fn write(&mut self, text: &str) {
        let _ = write!(self.out, "\r\x1b[K{text}");
        let _ = self.out.flush();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(next: Option<Instant>, at: &[(u64, At)], start: Instant) -> String {
        let mut progress = Progress::new(Vec::new(), next);
        for &(milliseconds, at) in at {
            progress.tell(at, start + Duration::from_millis(milliseconds));
        }
        progress.clear();
        String::from_utf8(progress.out).unwrap()
    }

    #[test]
    fn who_waits_long_is_told_now_and_then_and_nothing_stays() {
        let start = Instant::now();
        let advice = |failure| At::Advice { failure, of: 3 };
        let step = At::Step {
            number: 1,
            installed: 7,
        };
        let all = [
            (10, step),
            (510, advice(1)),
            (550, advice(2)),
            (620, advice(3)),
            (900, At::HeldBack),
        ];
        assert_eq!(
            told(Some(start + PATIENCE), &all, start),
            "\r\x1b[Klooking into failure 1 of 3\r\x1b[Klooking into failure 3 of 3\r\x1b[Klooking for what holds upgrades \
             back\r\x1b[K"
        );
        assert_eq!(told(Some(start + PATIENCE), &all[..1], start), "", "a short plan");
        assert_eq!(told(None, &all, start), "", "no terminal");
    }
}
