//! `opm serve`: serves a catalog over gRPC until SIGTERM or SIGINT.

use std::ffi::OsString;
use std::future::Future;
use std::io::{ErrorKind, IsTerminal as _};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, bail};
use go_compat::error_chain;
use olm_registry::cache::{self, CacheError, upstream};
use olm_registry::index::Index;
use tokio::net::TcpListener;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tracing::Level;

use crate::args::{DEFAULT_TERMINATION_LOG, ServeArgs};
use crate::nearest;
use crate::printer;
use crate::source::hinted;

/// Time for open requests after the stop signal. Shorter than a pod's grace period of 30 s.
const GRACE: Duration = Duration::from_secs(5);

/// Serves the catalog. A fatal error is also written to the termination log, which Kubernetes shows in the pod's status.
pub(crate) fn run(args: &ServeArgs, debug: bool) -> anyhow::Result<()> {
    with_log(&args.termination_log, debug, || serve(args))
}

/// Logs to stderr while `serve` runs, and writes its error to the termination log.
pub(super) fn with_log(
    termination_log: &Path,
    debug: bool,
    serve: impl FnOnce() -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let level = if debug { Level::DEBUG } else { Level::INFO };
    tracing_subscriber::fmt()
        .with_max_level(level)
        .with_writer(std::io::stderr)
        .with_target(false)
        .with_ansi(is_coloured(
            std::io::stderr().is_terminal(),
            std::env::var_os("NO_COLOR"),
        ))
        .init();
    let result = serve();
    if let Err(error) = &result {
        write_termination_log(termination_log, &format!("{}\n", error_chain(error.as_ref())));
    }
    result
}

/// Returns true for a terminal whose user did not disable colours (<https://no-color.org>).
fn is_coloured(is_terminal: bool, no_color: Option<OsString>) -> bool {
    is_terminal && no_color.is_none_or(|value| value.is_empty())
}

/// Writes the termination log. A file named by the flag is created if needed. Kubernetes' default file exists in containers;
/// elsewhere creating a file in /dev would be wrong.
fn write_termination_log(path: &Path, text: &str) {
    let log = std::fs::OpenOptions::new()
        .write(true)
        .truncate(true)
        .create(path != Path::new(DEFAULT_TERMINATION_LOG))
        .open(path);
    let _ = log.and_then(|mut log| std::io::Write::write_all(&mut log, text.as_bytes()));
}

fn serve(args: &ServeArgs) -> anyhow::Result<()> {
    let index = prepare(args)?;
    if args.cache_only {
        return Ok(());
    }
    listen_and_serve(index, args.port, &args.source_path)
}

/// Serves `index`, built from `catalog`, until the process gets a stop signal.
pub(super) fn listen_and_serve(index: Index, port: u16, catalog: &Path) -> anyhow::Result<()> {
    super::runtime()?.block_on(async {
        let stop = stop_signal()?;
        let listener = listen(port).await?;
        tracing::info!(port, catalog = %catalog.display(), "serving registry");
        let (stopping, stopped) = tokio::sync::oneshot::channel();
        let served = olm_registry::server::serve(Arc::new(index), listener, async move {
            stop.await;
            tracing::info!("stopping");
            let _ = stopping.send(());
        });
        let overdue = async {
            // An error means that serving ended without a signal, which also ends this wait.
            if stopped.await.is_ok() {
                tokio::time::sleep(GRACE).await;
            } else {
                std::future::pending::<()>().await;
            }
        };
        tokio::select! {
            result = served => Ok(result?),
            () = overdue => {
                tracing::warn!("stopping with requests in progress");
                Ok(())
            }
        }
    })
}

fn not_loaded(error: CacheError) -> anyhow::Error {
    hinted(error.hint(), error).context("failed to load or rebuild cache")
}

/// Returns the index to serve, from the cache or built for this run.
fn prepare(args: &ServeArgs) -> anyhow::Result<Index> {
    let catalog = &args.source_path;
    if std::fs::metadata(catalog).is_err_and(|error| error.kind() == ErrorKind::NotFound) {
        let meant = nearest::path(catalog);
        bail!("stat {}: no such file or directory{meant}", catalog.display());
    }
    let enforce = args.cache_enforce_integrity;
    let Some(cache_dir) = &args.cache_dir else {
        if enforce == Some(true) {
            bail!("--cache-dir must be specified with --cache-enforce-integrity");
        }
        return cache::open_temporary(catalog, None).map_err(not_loaded);
    };
    match enforce {
        Some(true) => return open_enforced(catalog, cache_dir),
        None if !args.cache_only => return open_optional(catalog, cache_dir),
        _ => {}
    }
    match cache::open_or_build(catalog, cache_dir) {
        Err(error) if error.is_of_cache_directory() && !args.cache_only => {
            let why = "the cache cannot be written; building one for this run";
            build_near(catalog, cache_dir, &error.to_string(), why)
        }
        opened => {
            let index = opened.map_err(not_loaded)?;
            if args.cache_only && args.cache_upstream {
                write_for_upstream(&index, catalog, cache_dir)?;
            }
            Ok(index)
        }
    }
}

/// Builds an index for this run, near a cache that is not used, and logs `why` with the cache's error.
fn build_near(catalog: &Path, cache_dir: &Path, error: &str, why: &str) -> anyhow::Result<Index> {
    tracing::warn!(cache = %cache_dir.display(), %error, "{why}");
    cache::open_temporary(catalog, Some(cache_dir)).map_err(not_loaded)
}

/// Writes the cache in upstream's layout. A catalog with names that do not fit it is served from the index alone.
pub(crate) fn write_for_upstream(index: &Index, catalog: &Path, cache_dir: &Path) -> anyhow::Result<()> {
    match upstream::write(index, catalog, cache_dir) {
        Err(error) if error.is_of_names() => {
            printer::warning(&format!("cannot write a cache for upstream's opm: {error}"));
            Ok(())
        }
        written => written.context("failed to write the cache for upstream's opm"),
    }
}

/// Opens the cache, or builds an index for this run if it cannot be used. A cache only saves time, and mirrored catalogs may
/// contain none, or one of other content.
fn open_optional(catalog: &Path, cache_dir: &Path) -> anyhow::Result<Index> {
    match cache::open_checked(catalog, cache_dir) {
        // No cache helps if the catalog itself cannot be read.
        Err(error @ CacheError::Digest(_)) => Err(not_loaded(error)),
        Err(error) => {
            let why = "the cache cannot be used; building an index for this run";
            build_near(catalog, cache_dir, &error_chain(&error), why)
        }
        Ok(index) => Ok(index),
    }
}

/// Opens the cache, which must be valid. A cache of upstream's `opm` is not: it has no index. Neither the Dockerfile that upstream's
/// `opm` generates nor OLM sets this flag.
fn open_enforced(catalog: &Path, cache_dir: &Path) -> anyhow::Result<Index> {
    match cache::open_checked(catalog, cache_dir) {
        // No cache helps if the catalog itself cannot be read.
        Err(error @ CacheError::Digest(_)) => Err(hinted(error.hint(), error).context("integrity check failed")),
        opened => opened.map_err(|error| {
            let error = error_chain(anyhow::Error::from(error).context("integrity check failed").as_ref());
            let (catalog, cache_dir) = (catalog.display(), cache_dir.display());
            anyhow::anyhow!(
                "{error}: rebuild the cache with \"opm serve {catalog} --cache-dir={cache_dir} --cache-only\", or start \
                 without --cache-enforce-integrity to serve without it"
            )
        }),
    }
}

/// Listens on all addresses, IPv6 and IPv4 if the machine has both.
async fn listen(port: u16) -> anyhow::Result<TcpListener> {
    match TcpListener::bind(("::", port)).await {
        Ok(listener) => Ok(listener),
        Err(_) => {
            let listener = TcpListener::bind(("0.0.0.0", port)).await;
            listener.with_context(|| format!("failed to listen on port {port}"))
        }
    }
}

/// Resolves when the process gets a stop signal. Registered at once, so that no early signal is lost.
fn stop_signal() -> anyhow::Result<impl Future<Output = ()> + Send + 'static> {
    let register = |kind| signal(kind).context("cannot wait for signals");
    let (mut terminate, mut interrupt): (Signal, Signal) = (
        register(SignalKind::terminate())?,
        register(SignalKind::interrupt())?,
    );
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    })
}
