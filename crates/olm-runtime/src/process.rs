//! The life of a process of controllers: start, stores, rounds, and an orderly end.

use std::fmt::Display;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::Duration;

use kube::Client;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

use crate::apply::Executor;
use crate::driver::Runner;
use crate::event::Recorder;
use crate::gate::WriteGate;
use crate::metrics::Metrics;
use crate::plan::EventDraft;
use crate::store::{StoreSet, StoreSetHandle};
use crate::{admin, args, isolation, telemetry};

/// The commit this was built from, when the build says so.
const COMMIT: Option<&str> = option_env!("OLM_GIT_COMMIT");
/// How long rounds in hand may take after the signal to stop.
const LAST_ROUNDS: Duration = Duration::from_secs(20);

/// What the command line says about the process itself.
#[derive(Debug, Clone, Default)]
pub struct Start {
    /// Print the version and end.
    pub version: bool,
    /// Log what each round does.
    pub debug: bool,
    /// What is wrong with the flags; ends the process with exit code 2.
    pub usage_error: Option<String>,
    /// Flags that were given and have no effect, for a warning each.
    pub without_effect: Vec<&'static str>,
}

/// Runs `work` to its end on one thread and returns the exit code: 0, or 1 with a line of log when it fails.
pub fn main<E: Display>(start: Start, work: impl AsyncFnOnce() -> Result<(), E>) -> ExitCode {
    if start.version {
        let version = env!("CARGO_PKG_VERSION");
        print!("{}", args::version_text(version, COMMIT.unwrap_or("unknown")));
        return ExitCode::SUCCESS;
    }
    if let Some(error) = start.usage_error {
        eprintln!("error: {error}");
        return ExitCode::from(2);
    }
    // Tests of this crate are one process, in which a failed assertion has to stay what it is.
    if !cfg!(test) {
        isolation::end_process_on_panic();
    }
    if let Some(error) = telemetry::start(start.debug) {
        tracing::warn!("{error}");
    }
    for flag in start.without_effect {
        tracing::warn!(flag, "this flag has no effect in this build");
    }
    // The work is waiting for servers, and each further thread costs its own memory. What computes for long (resolution,
    // indexing a catalog) goes to the pool for blocking work.
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            tracing::error!("cannot start the runtime: {error}");
            return ExitCode::FAILURE;
        }
    };
    let ended = runtime.block_on(work());
    // What computes for long is in the pool for blocking work, and nothing waits for its answer any more.
    runtime.shutdown_background();
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!("{error:#}");
            ExitCode::FAILURE
        }
    }
}

/// What ends a process that nobody told to stop.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// Health cannot be served.
    #[error("cannot serve health on {address}")]
    Health {
        /// Where it was to be served.
        address: SocketAddr,
        /// The cause.
        #[source]
        source: std::io::Error,
    },
    /// A task is gone that has to live as long as the process.
    #[error("{what} ended by itself")]
    TaskEnded {
        /// Which kind of task.
        what: &'static str,
    },
}

/// Starts the watches of `set`, waits until all stores are ready, starts the controllers with `start`, and ends with
/// SIGTERM or SIGINT, when the rounds in hand are finished. Health and `metrics` are served all the while.
///
/// # Errors
/// When health cannot be served, and when a task that has to live as long as the process is gone.
pub async fn run(
    client: Client,
    set: StoreSet,
    health_addr: SocketAddr,
    metrics: Metrics,
    start: impl FnOnce(&Runner) -> JoinSet<()>,
) -> Result<(), RunError> {
    let mut watches = JoinSet::new();
    metrics.of_the_process();
    let stores = set.with_metrics(metrics).start(&mut watches);
    let health = admin::serve(health_addr, stores.clone());
    tokio::select! {
        ended = controllers(client, watches, stores, start, stop_signal()) => ended,
        ended = health => ended.map_err(|source| RunError::Health { address: health_addr, source }),
    }
}

/// The part of [`run`] that knows neither signals nor the network: waits until the stores that `watches` feed are ready,
/// starts the controllers with `start`, and ends with `stop`, when the rounds in hand are finished. Dropped before, it
/// leaves everything where it is, as a killed process does.
///
/// # Errors
/// When a watch, a worker or the sender of events is gone.
pub async fn controllers(
    client: Client,
    mut watches: JoinSet<()>,
    mut stores: StoreSetHandle,
    start: impl FnOnce(&Runner) -> JoinSet<()>,
    stop: impl Future<Output = ()>,
) -> Result<(), RunError> {
    let gate = WriteGate::default();
    let (recorder, sending) = Recorder::new(client.clone(), gate.clone(), stores.metrics().clone());
    watches.spawn(sending);
    watches.spawn(tell_of_objects(stores.take_events(), recorder.clone()));
    let ended = |what| Err(RunError::TaskEnded { what });
    let (stopping, shutdown) = watch::channel(false);
    let mut stop = std::pin::pin!(stop);
    tokio::select! {
        () = stores.wait() => {}
        () = &mut stop => return Ok(()),
        Some(_) = watches.join_next() => return ended("a watch"),
    }
    tracing::info!("all stores are ready");
    let runner = Runner::new(Executor::new(client, stores, gate), recorder, shutdown);
    let mut workers = start(&runner);
    tokio::select! {
        () = stop => {}
        Some(_) = watches.join_next() => return ended("a watch"),
        Some(_) = workers.join_next() => return ended("a worker"),
    }
    tracing::info!("stopping, rounds in hand are finished");
    let _ = stopping.send(true);
    let finished = async { while workers.join_next().await.is_some() {} };
    if tokio::time::timeout(LAST_ROUNDS, finished).await.is_err() {
        tracing::warn!("rounds in hand took too long, stopping anyway");
    }
    Ok(())
}

/// Tells users at which of their objects a store failed.
async fn tell_of_objects(mut events: mpsc::Receiver<EventDraft>, recorder: Recorder) {
    while let Some(event) = events.recv().await {
        recorder.publish(event);
    }
    // Without stores nothing will ever come, which is no reason to stop.
    std::future::pending::<()>().await;
}

/// Ends with SIGTERM or SIGINT.
pub async fn stop_signal() {
    use tokio::signal::unix::{SignalKind, signal};
    let (Ok(mut terminate), Ok(mut interrupt)) =
        (signal(SignalKind::terminate()), signal(SignalKind::interrupt()))
    else {
        tracing::warn!("signals cannot be caught; the process stops only when killed");
        return std::future::pending().await;
    };
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bad_flags_and_failed_work_have_exit_codes_of_their_own() {
        let complaining = Start {
            usage_error: Some("no".to_owned()),
            ..Start::default()
        };
        let never = async || -> Result<(), &str> { unreachable!("flags are wrong") };
        assert_eq!(main(complaining, never), ExitCode::from(2));
        assert_eq!(main(Start::default(), async || Err("broken")), ExitCode::FAILURE);
        assert_eq!(
            main(Start::default(), async || Ok::<(), &str>(())),
            ExitCode::SUCCESS
        );
    }

    /// A resolution may take long, and Kubernetes kills who does not end.
    #[test]
    fn nobody_waits_for_work_in_the_pool_at_the_end() {
        let (release, held) = std::sync::mpsc::channel::<()>();
        let work = async move || {
            tokio::task::spawn_blocking(move || held.recv());
            tokio::task::yield_now().await;
            Ok::<(), &str>(())
        };
        assert_eq!(main(Start::default(), work), ExitCode::SUCCESS);
        drop(release);
    }
}
