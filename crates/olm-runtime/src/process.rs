//! The life of a process of controllers: start, stores, rounds, and an orderly end.

use std::collections::BTreeSet;
use std::error::Error;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use kube::Client;
use rustls::ServerConfig;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

use crate::admin::secure::{self, Guard};
use crate::admin::{Admin, Endpoints, SecureEndpoint};
use crate::apply::Executor;
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
use crate::{args, isolation, telemetry};

/// The commit this was built from, when the build says so.
const COMMIT: Option<&str> = option_env!("OLM_GIT_COMMIT");
/// How long rounds in hand may take after the signal to stop.
const LAST_ROUNDS: Duration = Duration::from_secs(20);
/// Keys that the queues of a standby may hold beside those it began with. They hold each once, until the day it leads; but keys of objects that
/// are gone, or that labels named which have changed, are other keys each time. With so many it begins anew, which costs nobody anything.
const MOST_ADDED: usize = 100_000;
/// For how long the lists of who leads may come no further. Until they are there it writes nothing, and neither does anybody else; but
/// whoever gave up a list that goes on would leave the same one to the next.
const LISTING: Duration = Duration::from_secs(120);
/// How often a standby counts them.
const COUNTING: Duration = Duration::from_secs(60);

/// What the command line says about the process itself.
#[derive(Debug, Clone, Default)]
pub struct Start {
    /// What the program is called.
    pub program: &'static str,
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
pub fn main<E>(start: Start, work: impl AsyncFnOnce() -> Result<(), E>) -> ExitCode
where
    E: AsRef<dyn Error>,
{
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
    // The work is waiting for servers, and each further thread costs its own memory. What computes for long (resolution,
    // indexing a catalog) goes to the pool for blocking work.
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("error: cannot start the runtime: {error}");
            return ExitCode::FAILURE;
        }
    };
    let (telemetry, errors) = telemetry::start(start.debug, start.program, runtime.handle());
    for error in errors {
        tracing::warn!("{error}");
    }
    for flag in BTreeSet::from_iter(start.without_effect) {
        tracing::warn!(flag, "this flag does nothing; leave it out");
    }
    let ended = runtime.block_on(work());
    if let Err(error) = &ended {
        tracing::error!("{}", with_causes(error.as_ref()));
    }
    runtime.block_on(telemetry.end());
    // What computes for long is in the pool for blocking work, and nothing waits for its answer any more.
    runtime.shutdown_background();
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
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
    /// Metrics cannot be served.
    #[error("cannot serve metrics on {address}")]
    Metrics {
        /// Where they were to be served.
        address: SocketAddr,
        /// The cause.
        #[source]
        source: std::io::Error,
    },
    /// Another may write now.
    #[error(
        "leads no more by the Lease {lease}: {loss}. The process ends, so that the next one knows nothing that is not so"
    )]
    LeadershipLost {
        /// The Lease.
        lease: NamespacedName,
        /// How.
        loss: Loss,
    },
    /// Who leads cannot begin.
    #[error(
        "leads by the Lease {lease}, and had no new list of {stores}, nor any more of it within {} s: the log says what the API server answers. The process gives the Lease back and ends, so that another may try",
        LISTING.as_secs()
    )]
    NotListed {
        /// The Lease.
        lease: NamespacedName,
        /// What cannot be listed: plurals and groups.
        stores: String,
    },
    /// A task is gone that has to live as long as the process.
    #[error("{what} ended by itself")]
    TaskEnded {
        /// Which kind of task.
        what: &'static str,
    },
}

/// Starts the watches of `set`, waits until all stores are ready and, where there is a `candidacy`, until this process leads, starts the
/// controllers with `start`, and ends with SIGTERM or SIGINT, when the rounds in hand are finished. Health and `metrics` are served at
/// `endpoints` all the while.
///
/// # Errors
/// When these cannot be served, when a task that has to live as long as the process is gone, and when another leads.
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
    let mut elector = candidacy.map(|it| Elector::new(client.clone(), it));
    let mut stop = std::pin::pin!(stop_signal());
    if let Some(elector) = &mut elector {
        // Before anything is listed: of a Lease that is free now and then, nobody wrote in between. It is not waited for long, as nobody
        // answers probes meanwhile.
        tokio::select! {
            () = elector.look() => {}
            () = &mut stop => return Ok(()),
        }
    }
    let leadership = elector.as_ref().map(|elector| elector.leadership().clone());
    let leadership = leadership.unwrap_or_default();
    leadership.count_in(&metrics);
    let refused = secure::refusals(&metrics);
    let stores = set.with_metrics(metrics).start(&mut watches);
    let Endpoints { health, secure } = endpoints;
    let admin = Admin::new(stores.clone(), leadership, secure.is_some());
    let guard = Guard::new(Reviews::new(Arc::new(KubeReviewer::new(&client))), refused);
    // On the heap: it is large, and lives as long as the process.
    let secured = Box::pin(serve_secured(secure, admin.clone(), guard));
    tokio::select! {
        ended = controllers(client, watches, stores, elector, start, stop) => ended,
        ended = admin.serve(health) => ended.map_err(|source| RunError::Health { address: health, source }),
        Err(error) = secured => Err(error),
    }
}

/// Serves health and metrics over TLS for ever, where that is asked for.
async fn serve_secured(endpoint: Option<SecureEndpoint>, admin: Admin, guard: Guard) -> Result<(), RunError> {
    let Some(SecureEndpoint { address, files }) = endpoint else {
        tracing::info!(
            "metrics are served to whoever asks; --tls-cert and --tls-key have it asked who that is"
        );
        return std::future::pending().await;
    };
    let (config, keeping) = usable(files).await;
    let listener = secure::listen(address).await;
    let listener = listener.map_err(|source| RunError::Metrics { address, source })?;
    tokio::select! {
        never = secure::serve(listener, config, admin, guard) => match never {},
        () = keeping => Ok(()),
    }
}

/// What to serve with, once there is something. Until then only metrics are missing: installs do not end because of a certificate.
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
                    tracing::error!(error, "metrics are not served: there is no usable certificate");
                    told = error;
                }
            }
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// The part of [`run`] that knows neither signals nor the network: waits until the stores that `watches` feed are ready
/// and until `elector`, if there is one, says that this process leads, has them listed anew where another led meanwhile, as its last writes
/// may not be in them, as long as that goes on, starts the controllers with `start`, and ends with `stop`, when the rounds in hand are finished and the Lease is given back. Dropped before, it leaves everything where it is, as a killed
/// process does.
///
/// # Errors
/// When a watch, a worker or the sender of events is gone, when this process leads no more, and when it leads and cannot list.
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
    tracing::info!("all stores are ready");
    if let Some(elector) = &mut elector {
        let acquired = tokio::select! {
            acquired = elector.acquire() => acquired,
            () = &mut stop => {
                elector.release().await;
                return Ok(());
            }
            () = much_added(&stores) => {
                tracing::info!("much waits that this standby heard of: it ends and begins anew");
                elector.release().await;
                return Ok(());
            }
            Some(_) = watches.join_next() => return ended("a watch"),
        };
        let follows = acquired.map_err(|loss| lost(elector, loss))?;
        elector.announce(&recorder);
        if follows {
            tokio::select! {
                is_listed = stores.list_again(LISTING) => {
                    if !is_listed {
                        let stores = stores.unlisted().join(", ");
                        elector.release().await;
                        let lease = elector.lease().clone();
                        return Err(RunError::NotListed { lease, stores });
                    }
                    tracing::info!("all stores have what the one before wrote");
                }
                loss = elector.renew() => return Err(lost(elector, loss)),
                () = &mut stop => {
                    elector.release().await;
                    return Ok(());
                }
                Some(_) = watches.join_next() => return ended("a watch"),
            }
        }
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
        tracing::info!("stopping, rounds in hand are finished");
        let _ = stopping.send(true);
        let finished = async { while workers.join_next().await.is_some() {} };
        let finished = tokio::time::timeout(LAST_ROUNDS, finished);
        tokio::select! {
            in_time = finished => if in_time.is_err() {
                tracing::warn!("rounds in hand took too long, stopping anyway");
            },
            error = &mut losing => return Err(error),
        }
    }
    // What did not come to its end is given up before another may begin.
    workers.shutdown().await;
    if let Some(elector) = &mut elector {
        elector.release().await;
    }
    Ok(())
}

/// Comes back when this process leads no more; never where nobody is elected.
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

/// Comes back when [`MOST_ADDED`] keys more wait than now.
async fn much_added(stores: &StoreSetHandle) {
    let first = stores.waiting();
    while stores.waiting().saturating_sub(first) < MOST_ADDED {
        tokio::time::sleep(COUNTING).await;
    }
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
mod tests;
