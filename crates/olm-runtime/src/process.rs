//! Life cycle of a controller process: start, stores, reconciles, and graceful shutdown.

use std::collections::BTreeSet;
use std::error::Error;
use std::ffi::OsString;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::Parser;
use kube::Client;
use rustls::ServerConfig;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

use crate::admin::secure::{self, Guard};
use crate::admin::{Admin, Endpoints, SecureEndpoint};
use crate::apply::Executor;
use crate::args::{self, Common};
use crate::driver::Runner;
use crate::error::with_causes;
use crate::event::Recorder;
use crate::key::NamespacedName;
use crate::leader::{Candidacy, Elector, Loss};
use crate::metrics::Metrics;
use crate::plan::EventDraft;
use crate::review::{KubeReviewer, Reviews};
use crate::store::{StoreSet, StoreSetHandle};
use crate::tls::{LOOK_EVERY, TlsFiles};
use crate::{isolation, listener, telemetry};

/// Shutdown grace period for reconciles in progress.
const LAST_ROUNDS: Duration = Duration::from_secs(20);

/// Settings of the process from the command line.
#[derive(Debug, Clone, Default)]
pub struct Start {
    /// Name of the program.
    pub program: &'static str,
    /// Flags of every program.
    pub common: Common,
    /// Error in the flags; ends the process with exit code 2.
    pub usage_error: Option<String>,
    /// Flags that were given and have no effect; each is logged as a warning.
    pub without_effect: Vec<&'static str>,
}

/// Parses the arguments of a program, of which the first is its name, and runs `work` with its flags until it ends. `start` takes the settings
/// of the process from the flags. Flags of upstream's logging library and `obsolete` ones, each with whether its value may be a separate
/// argument, have no effect. Returns the exit code of the process.
pub fn run_program<A: Parser, E: AsRef<dyn Error>>(
    arguments: impl IntoIterator<Item = OsString>,
    obsolete: &[(&'static str, bool)],
    start: impl FnOnce(&A) -> Start,
    work: impl AsyncFnOnce(A) -> Result<(), E>,
) -> ExitCode {
    let (given, of_log) = args::without_log_flags(arguments);
    let (given, obsolete) = args::without_obsolete_flags(given, obsolete);
    let flags = A::parse_from(given);
    let mut start = start(&flags);
    start.without_effect.extend([of_log, obsolete].concat());
    // Boxed, because it is large.
    main(start, async || Box::pin(work(flags)).await)
}

/// Runs `work` on one thread and returns the exit code. It is 0, 1 after logging an error of `work`, or 2 for an error in the flags.
fn main<E: AsRef<dyn Error>>(start: Start, work: impl AsyncFnOnce() -> Result<(), E>) -> ExitCode {
    if start.common.version {
        let version = env!("CARGO_PKG_VERSION");
        print!("{}", args::version_text(version, args::COMMIT));
        return ExitCode::SUCCESS;
    }
    if let Some(error) = start.usage_error {
        eprintln!("error: {error}");
        return ExitCode::from(2);
    }
    // Tests of this crate run in one process, where a failed assertion must not abort.
    if !cfg!(test) {
        isolation::end_process_on_panic();
    }
    // The work mostly waits for servers, and each further thread costs memory. Long computations (resolution, indexing a catalog) run in
    // the pool for blocking work.
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("error: cannot start the runtime: {error}");
            return ExitCode::FAILURE;
        }
    };
    let (export, errors) = telemetry::start(start.common.debug, start.program, runtime.handle());
    for error in errors {
        tracing::warn!("{error}");
    }
    for flag in BTreeSet::from_iter(start.without_effect) {
        tracing::warn!(flag, "flag has no effect; remove it");
    }
    let ended = runtime.block_on(work());
    if let Err(error) = &ended {
        tracing::error!("{}", with_causes(error.as_ref()));
    }
    if let Some(export) = export {
        runtime.block_on(export.end());
    }
    // Long computations run in the pool for blocking work, and nothing waits for their results any more.
    runtime.shutdown_background();
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

/// Errors that end the process without a stop signal.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// Health or metrics cannot be served.
    #[error("cannot serve {what} on {address}")]
    Serve {
        /// What is to be served.
        what: &'static str,
        /// Address to serve on.
        address: SocketAddr,
        /// Cause of the failure.
        #[source]
        source: std::io::Error,
    },
    /// Leadership was lost, so another process may write now.
    #[error(
        "lost leader election on lease {lease}: {loss}; exiting so that the new leader starts from fresh state"
    )]
    LeadershipLost {
        /// Name of the Lease.
        lease: NamespacedName,
        /// Reason of the loss.
        loss: Loss,
    },
    /// A task ended that has to live as long as the process.
    #[error("{what} ended unexpectedly")]
    TaskEnded {
        /// Kind of the task.
        what: &'static str,
    },
}

/// Runs a process of controllers until SIGTERM or SIGINT.
///
/// It starts the watches of `set` and waits until all stores are ready. With a `candidacy` it also waits until this process leads. Then
/// it starts the controllers with `start`. At a signal, reconciles in progress are finished first. Health and `metrics` are served at
/// `endpoints` all the time.
///
/// # Errors
/// If health or metrics cannot be served, if a permanent task ends, or if leadership is lost.
pub async fn run(
    client: Client,
    set: StoreSet,
    endpoints: Endpoints,
    metrics: Metrics,
    candidacy: Option<Candidacy>,
    start: impl FnOnce(&Runner) -> JoinSet<()>,
) -> Result<(), RunError> {
    let mut watches = JoinSet::new();
    metrics.of_the_process();
    let elector = candidacy.map(|it| Elector::new(client.clone(), it));
    let leadership = elector.as_ref().map(Elector::leadership);
    let leadership = leadership.unwrap_or_default();
    leadership.count_in(&metrics);
    let refused = secure::refusals(&metrics);
    let stores = set.with_metrics(metrics).start(&mut watches);
    let Endpoints { health, secure } = endpoints;
    let admin = Admin::new(stores.clone(), leadership, secure.is_some());
    let guard = Guard::new(Reviews::new(Arc::new(KubeReviewer::new(&client))), refused);
    // Boxed, because it is large and lives as long as the process.
    let secured = Box::pin(serve_secured(secure, admin.clone(), guard));
    tokio::select! {
        ended = controllers(client, watches, stores, elector, start, stop_signal()) => ended,
        ended = admin.serve(health) => ended.map_err(|source| RunError::Serve { what: "health", address: health, source }),
        Err(error) = secured => Err(error),
    }
}

/// Serves health and metrics over TLS forever, if configured.
async fn serve_secured(endpoint: Option<SecureEndpoint>, admin: Admin, guard: Guard) -> Result<(), RunError> {
    let Some(SecureEndpoint { address, files }) = endpoint else {
        tracing::info!(
            "metrics are served without authentication; set --tls-cert and --tls-key to require it"
        );
        return std::future::pending().await;
    };
    let (config, keeping) = usable(files).await;
    let listener = listener::bind(address).await;
    let listener = listener.map_err(|source| RunError::Serve {
        what: "metrics",
        address,
        source,
    })?;
    tokio::select! {
        () = secure::serve(listener, config, admin, guard) => Ok(()),
        () = keeping => Ok(()),
    }
}

/// Waits for a usable TLS configuration. Until then only metrics are missing: a bad certificate must not stop installs.
async fn usable(
    files: TlsFiles,
) -> (
    watch::Receiver<Arc<ServerConfig>>,
    impl Future<Output = ()> + Send + use<>,
) {
    let mut told = String::new();
    loop {
        match files.clone().serve(&secure::PROTOCOLS) {
            Ok(serving) => return serving,
            Err(error) => {
                let error = with_causes(&error);
                if error != told {
                    tracing::error!(error, "metrics are not served: no usable certificate");
                    told = error;
                }
            }
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// Runs the controllers: the part of [`run`] without signals and network.
///
/// It waits until the stores that `watches` feed are ready and, with an `elector`, until this process leads. Then it starts the controllers
/// with `start`. At `stop` it finishes the reconciles in progress and releases the Lease. If the future is dropped, everything stays as it
/// is, as in a killed process.
///
/// # Errors
/// If a watch, a worker or the event sender ends, or if leadership is lost.
pub async fn controllers(
    client: Client,
    mut watches: JoinSet<()>,
    mut stores: StoreSetHandle,
    mut elector: Option<Elector>,
    start: impl FnOnce(&Runner) -> JoinSet<()>,
    stop: impl Future<Output = ()>,
) -> Result<(), RunError> {
    let gate = elector.as_ref().map(|elector| elector.gate().clone());
    let gate = gate.unwrap_or_default();
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
    tracing::info!("initial lists complete");
    if let Some(elector) = &mut elector {
        let acquired = tokio::select! {
            acquired = elector.acquire() => acquired,
            () = &mut stop => {
                elector.release().await;
                return Ok(());
            }
            Some(_) = watches.join_next() => return ended("a watch"),
        };
        acquired.map_err(|loss| lost(elector, loss))?;
        elector.announce(&recorder);
    }
    let runner = Runner::new(Executor::new(client, stores, gate), recorder, shutdown);
    let mut workers = start(&runner);
    {
        let mut losing = std::pin::pin!(losing(elector.as_mut()));
        tokio::select! {
            () = stop => {}
            error = &mut losing => return Err(error),
            Some(_) = watches.join_next() => return ended("a watch"),
            Some(_) = workers.join_next() => return ended("a worker"),
        }
        tracing::info!("stopping, waiting for reconciles in progress");
        let _ = stopping.send(true);
        let finished = async { while workers.join_next().await.is_some() {} };
        let finished = tokio::time::timeout(LAST_ROUNDS, finished);
        tokio::select! {
            in_time = finished => if in_time.is_err() {
                tracing::warn!("shutdown grace period exceeded; stopping with reconciles in progress");
            },
            error = &mut losing => return Err(error),
        }
    }
    // Unfinished reconciles are cancelled before another process may start.
    workers.shutdown().await;
    if let Some(elector) = &mut elector {
        elector.release().await;
    }
    Ok(())
}

/// Returns when leadership is lost; never without leader election.
async fn losing(elector: Option<&mut Elector>) -> RunError {
    match elector {
        Some(elector) => {
            let loss = elector.renew().await;
            lost(elector, loss)
        }
        None => std::future::pending().await,
    }
}

fn lost(elector: &Elector, loss: Loss) -> RunError {
    RunError::LeadershipLost {
        lease: elector.lease().clone(),
        loss,
    }
}

/// Publishes events about objects at which a store failed.
async fn tell_of_objects(mut events: mpsc::Receiver<EventDraft>, recorder: Recorder) {
    while let Some(event) = events.recv().await {
        recorder.publish(event);
    }
    // Without stores there are no events, which is no reason to end the task.
    std::future::pending::<()>().await;
}

/// Waits for SIGTERM or SIGINT; forever if signals cannot be caught.
pub async fn stop_signal() {
    use tokio::signal::unix::{SignalKind, signal};
    let (Ok(mut terminate), Ok(mut interrupt)) =
        (signal(SignalKind::terminate()), signal(SignalKind::interrupt()))
    else {
        tracing::warn!("cannot install signal handlers; the process only stops when killed");
        return std::future::pending().await;
    };
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
}

#[cfg(test)]
mod tests;
