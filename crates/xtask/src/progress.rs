//! Progress of a command on stderr: one line for each stage with its time. Stdout only has data.

use std::io::Write as _;
use std::time::{Duration, Instant};

/// Prints stages with their durations and the time since the start.
#[derive(Debug, Clone, Copy)]
pub struct Progress {
    started: Instant,
}

impl Progress {
    /// Starts the clock.
    pub fn start() -> Self {
        Self {
            started: Instant::now(),
        }
    }

    /// Returns the time since [`Progress::start`].
    pub fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    /// Prints a line that is no stage, for example about an installation.
    pub fn note(&self, text: &str) {
        line(&format!("{} {text}", clock(self.elapsed())));
    }

    /// Runs a stage and prints its line at the end. A failed stage prints nothing, because its error is reported.
    ///
    /// # Errors
    /// The errors of the stage.
    pub fn stage<T>(&self, name: &str, work: impl FnOnce() -> anyhow::Result<T>) -> anyhow::Result<T> {
        crate::interrupt::check()?;
        let began = Instant::now();
        let value = work()?;
        self.done(name, began.elapsed());
        Ok(value)
    }

    /// Prints the line of a stage that took `took`.
    pub fn done(&self, name: &str, took: Duration) {
        line(&format!("{} ✓ {name} ({})", clock(self.elapsed()), seconds(took)));
    }
}

/// Prints an error with its causes, outermost first, each on its own line.
pub fn print_error(error: &anyhow::Error) {
    line(&format!("error: {error}"));
    for cause in error.chain().skip(1) {
        line(&format!(
            "  cause: {}",
            cause.to_string().replace('\n', "\n         ")
        ));
    }
}

fn clock(elapsed: Duration) -> String {
    let whole = elapsed.as_secs();
    if whole < 60 {
        format!("[{:>5.1}s]", elapsed.as_secs_f64())
    } else {
        format!("[{:>2}m{:02}s]", whole / 60, whole % 60)
    }
}

/// Formats a duration, such as `0.3 s`, `42 s`, `3 min 20 s`.
pub fn seconds(duration: Duration) -> String {
    let whole = duration.as_secs();
    match whole {
        0..10 => format!("{:.1} s", duration.as_secs_f64()),
        10..60 => format!("{whole} s"),
        _ => format!("{} min {} s", whole / 60, whole % 60),
    }
}

fn line(text: &str) {
    // A closed stderr does not end the command.
    let _ = writeln!(std::io::stderr(), "{text}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_read_as_people_say_them() {
        let said = |ms| seconds(Duration::from_millis(ms));
        assert_eq!(said(340), "0.3 s");
        assert_eq!(said(42_900), "42 s");
        assert_eq!(said(200_000), "3 min 20 s");
    }

    #[test]
    fn the_clock_keeps_its_width() {
        assert_eq!(clock(Duration::from_millis(1500)), "[  1.5s]");
        assert_eq!(clock(Duration::from_secs(75)), "[ 1m15s]");
    }
}
