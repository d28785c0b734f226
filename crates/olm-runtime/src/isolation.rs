//! Isolation of panics: a panic in a reconcile affects only its key; any other panic ends the process.
//!
//! A panic is a bug. Input that triggers one in a decision must not affect other keys. So the driver runs reconciles [`isolated`], and
//! stores call their listeners the same way. Any other panic ends a task that others still wait for. In that case the process aborts at
//! once, as [`end_process_on_panic`] arranges, and is restarted. See `docs/decisions/0018-panics.md`.

use std::any::Any;
use std::backtrace::{Backtrace, BacktraceStatus};
use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::io::Write as _;
use std::panic::{AssertUnwindSafe, Location, catch_unwind};
use std::task::Poll;

use crate::telemetry::escaped;

// Isolation does not work with `panic = "abort"`.
const _: () = assert!(cfg!(panic = "unwind"), "olm-runtime needs panics that unwind");

thread_local! {
    static IS_ISOLATED: Cell<bool> = const { Cell::new(false) };
}

/// Message of a panic.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("panicked: {message}")]
pub struct Panicked {
    /// Text of the panic; empty if its payload is not text.
    pub message: String,
}

impl Panicked {
    fn new(payload: &(dyn Any + Send)) -> Self {
        let message = payload
            .downcast_ref::<&str>()
            .map(|text| (*text).to_owned())
            .or_else(|| payload.downcast_ref::<String>().cloned());
        Self {
            message: message.unwrap_or_default(),
        }
    }
}

/// Runs `work` and returns a panic in it as an error.
///
/// A panic must not leave state that `work` shares with others half changed. Poisoned locks are recovered here, so code that changes
/// state under a lock must not panic in between.
///
/// # Errors
/// If `work` panics.
pub fn catch<R>(work: impl FnOnce() -> R) -> Result<R, Panicked> {
    let outer = IS_ISOLATED.replace(true);
    let result = catch_unwind(AssertUnwindSafe(work));
    IS_ISOLATED.set(outer);
    result.map_err(|payload| Panicked::new(payload.as_ref()))
}

/// Awaits `future` and returns a panic in it as an error, see [`catch`].
///
/// # Errors
/// If `future` panics.
pub async fn isolated<F: Future>(future: F) -> Result<F::Output, Panicked> {
    let mut future = Box::pin(future);
    poll_fn(move |context| match catch(|| future.as_mut().poll(context)) {
        Ok(Poll::Pending) => Poll::Pending,
        Ok(Poll::Ready(value)) => Poll::Ready(Ok(value)),
        Err(panicked) => Poll::Ready(Err(panicked)),
    })
    .await
}

/// Runs long work on a blocking thread and returns a panic in it as an error, see [`catch`].
///
/// # Errors
/// If `work` panics, or if the process is ending.
pub async fn blocking<R: Send + 'static>(work: impl FnOnce() -> R + Send + 'static) -> Result<R, Panicked> {
    let ended = |error: tokio::task::JoinError| Panicked {
        message: error.to_string(),
    };
    let result = tokio::task::spawn_blocking(move || catch(work)).await;
    result.map_err(ended)?
}

/// Runs long work of a reconcile on a blocking thread. A panic in it becomes a panic of the reconcile, so that it is reported on its
/// object.
pub async fn blocking_in_round<R: Send + 'static>(work: impl FnOnce() -> R + Send + 'static) -> R {
    match blocking(work).await {
        Ok(result) => result,
        Err(panicked) => std::panic::resume_unwind(Box::new(panicked.message)),
    }
}

/// Makes the process abort on any panic on this thread that is not isolated, after printing its message. The runtime and its tasks must
/// run on this thread. Panics on other threads (`spawn_blocking`) are returned as errors.
///
/// Each panic is printed to stderr on one line, escaped like log lines, because it may contain text of a registry or a user. With
/// `RUST_BACKTRACE` a backtrace follows.
pub fn end_process_on_panic() {
    let tasks = std::thread::current().id();
    std::panic::set_hook(Box::new(move |panic| {
        // The log is not used, since the panic may have happened in it.
        let mut text = panic_text(panic.payload(), panic.location());
        let backtrace = Backtrace::capture();
        if backtrace.status() == BacktraceStatus::Captured {
            text += &format!("\n{backtrace}");
        }
        // A closed stderr is ignored; the process still ends.
        let _ = writeln!(std::io::stderr(), "{text}");
        if std::thread::current().id() == tasks && !IS_ISOLATED.get() {
            std::process::abort();
        }
    }));
}

/// Returns the message of a panic as one line.
fn panic_text(payload: &(dyn Any + Send), location: Option<&Location<'_>>) -> String {
    let place = location.map_or("somewhere".to_owned(), ToString::to_string);
    let Panicked { message } = Panicked::new(payload);
    format!("panicked at {place}: {}", escaped(&message))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Environment variable that selects the scene of a child process.
    const SCENE: &str = "OLM_TEST_PANIC";

    /// Text that a registry may have sent.
    const FORGED: &str = "no\n2026-01-01T00:00:00Z ERROR forged\u{1b}[2J\u{202e}";

    /// Runs a single test of this binary in a child process.
    fn play(scene: &str) -> std::process::Output {
        let this = std::env::current_exe().unwrap();
        let mut child = std::process::Command::new(this);
        child.args([
            "--exact",
            "isolation::tests::scenes_of_child_processes",
            "--nocapture",
        ]);
        // One thread, so that the test runs on the guarded thread.
        child.args(["--test-threads", "1"]).env(SCENE, scene);
        child.output().unwrap()
    }

    #[test]
    fn scenes_of_child_processes() {
        let Ok(scene) = std::env::var(SCENE) else {
            return;
        };
        end_process_on_panic();
        match scene.as_str() {
            "task" => {
                let _ = catch_unwind(|| panic!("a task is gone"));
            }
            "isolated" => {
                let _ = catch(|| panic!("stays with its key"));
            }
            "forging" => {
                let _ = catch(|| panic!("{}", FORGED));
            }
            _ => {
                let elsewhere = std::thread::spawn(|| panic!("another thread"));
                assert!(elsewhere.join().is_err());
            }
        }
        println!("the process lives");
    }

    #[test]
    fn a_panic_of_a_task_ends_the_process_and_no_other_does() {
        use std::os::unix::process::ExitStatusExt;
        const SIGABRT: i32 = 6;
        for (scene, text) in [
            ("task", "a task is gone"),
            ("isolated", "stays with its key"),
            ("thread", "another thread"),
        ] {
            let ended = play(scene);
            let said = String::from_utf8_lossy(&ended.stderr);
            assert!(said.contains(text), "the panic is told: {said}");
            let aborts = scene == "task";
            assert_eq!(
                ended.status.signal() == Some(SIGABRT),
                aborts,
                "{scene}: {ended:?}"
            );
            let lives = String::from_utf8_lossy(&ended.stdout).contains("the process lives");
            assert_eq!(lives, !aborts, "{scene}");
        }
    }

    #[test]
    fn what_a_panic_says_ends_no_line_and_moves_no_cursor() {
        let said = play("forging").stderr;
        let said = String::from_utf8(said).unwrap();
        let told = said
            .lines()
            .find(|line| line.starts_with("panicked at "))
            .unwrap();
        assert!(told.contains("isolation.rs:"), "where: {told}");
        let shown = r"no\n2026-01-01T00:00:00Z ERROR forged\u{1b}[2J\u{202e}";
        assert!(told.ends_with(shown), "{told}");
        let is_raw = |letter| matches!(letter, '\u{1b}' | '\u{202e}');
        assert!(!said.contains(is_raw), "{said:?}");
        assert!(!said.lines().any(|line| line.starts_with("2026")), "{said}");
    }

    #[tokio::test]
    async fn a_panic_is_an_error_with_its_text() {
        let text = |text: &str| Panicked {
            message: text.to_owned(),
        };
        assert_eq!(catch(|| panic!("no {}", 1)), Err::<(), _>(text("no 1")));
        let late = isolated(async {
            tokio::task::yield_now().await;
            panic!("late")
        });
        assert_eq!(late.await, Err::<(), _>(text("late")));
        assert_eq!(blocking(|| panic!("far")).await, Err::<(), _>(text("far")));
        assert_eq!(isolated(async { 7 }).await, Ok(7));
        assert!(!IS_ISOLATED.get());
    }
}
