//! `kubectl operator ui`: web pages about operators, served on the loopback address to the user who has the link.
//!
//! ```text
//! browser ──▶ server (bounds) ──▶ gate (who may ask) ──▶ routes ──▶ reads (shared) ──▶ the API server, by the user's kubeconfig
//!                                                          └──▶ pages (pure: values in, HTML out)
//! ```
//!
//! # Guarantees
//! - Pages show the values that `list`, `status`, `approve`, `explain`, `describe` and `catalog list` print, and decide nothing.
//! - The only write is the approval of a plan as it was shown, by the code of `approve`.
//! - For any number of open tabs, each value is read from the cluster at most once per [`reads::FRESH`], and not at all without
//!   requests.
//! - Computations on catalogs run outside the one thread that responds, and shutdown does not wait for them.

mod gate;
mod health;
mod pages;
mod reads;
mod request;
mod routes;
mod server;
#[cfg(test)]
mod tests;

use std::future::Future;
use std::net::Ipv4Addr;
use std::rc::Rc;
use std::time::Duration;

use anyhow::Context as _;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::task::LocalSet;
use tokio::time::{sleep, timeout};

use self::gate::Gate;
use self::routes::App;
use crate::args::look::UiArgs;
use crate::cluster::Cluster;
use crate::reader::require_namespace;
use crate::{Verdict, printer};

/// Time without requests after which the server ends. The user may have forgotten it, and it has their permissions.
const IDLE: Duration = Duration::from_secs(8 * 60 * 60);
/// Maximum time to look for the namespace before the link is printed.
const PATIENCE: Duration = Duration::from_secs(5);
/// Interval of checks for inactivity and for values to drop.
const TICK: Duration = Duration::from_secs(60);

/// Serves pages until interrupted or idle.
///
/// # Errors
/// The cluster cannot be found, or the port cannot be opened.
pub(crate) fn run(runtime: Runtime, args: &UiArgs) -> anyhow::Result<Verdict> {
    ending(runtime, serve(args))
}

/// Runs the future, then shuts down the runtime without waiting for background work.
fn ending<T>(runtime: Runtime, work: impl Future<Output = T>) -> T {
    let done = runtime.block_on(work);
    runtime.shutdown_background();
    done
}

async fn serve(args: &UiArgs) -> anyhow::Result<Verdict> {
    let cluster = Cluster::connect(&args.cluster.connection).await?;
    if !args.all_namespaces {
        exists(&cluster).await?;
    }
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, args.port))
        .await
        .with_context(|| format!("cannot listen on port {} of 127.0.0.1", args.port))?;
    let port = listener.local_addr().context("cannot read the port")?.port();
    let gate = Gate::new(
        port,
        gate::random()?,
        gate::random()?,
        gate::random()?,
        gate::random()?,
    );
    printer::data(&format!("{}\n", gate.link()))?;
    let hours = IDLE.as_secs() / 3600;
    printer::progress(&format!(
        "Open this link in a browser on this machine. It works once and grants your permissions. Stop with Ctrl-C; the command also stops after {hours} hours without requests."
    ));
    let app = Rc::new(App::new(cluster, args, gate));
    let stop = async {
        tokio::select! {
            // If signals cannot be received, the server is ended by other means.
            Ok(()) = tokio::signal::ctrl_c() => {}
            () = forgotten(&app) => printer::progress(&format!("No requests for {hours} hours.")),
        }
    };
    LocalSet::new()
        .run_until(server::serve(listener, Rc::clone(&app), stop))
        .await;
    Ok(Verdict::Fine)
}

/// Checks that the namespace of the pages exists. While the cluster does not answer, the pages say so.
///
/// # Errors
/// The namespace does not exist.
async fn exists(cluster: &Cluster) -> anyhow::Result<()> {
    let found = require_namespace(&cluster.client, &cluster.namespace);
    timeout(PATIENCE, found).await.unwrap_or(Ok(()))
}

/// Drops expired values. Returns after a long time without requests.
async fn forgotten(app: &App) {
    while app.idle() < IDLE {
        sleep(TICK).await;
        app.sweep();
    }
}
