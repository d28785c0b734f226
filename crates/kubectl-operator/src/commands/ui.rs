//! `kubectl operator ui`: operators in a browser, served on the loopback address to whoever has its link.
//!
//! ```text
//! browser ──▶ server (bounds) ──▶ gate (who may ask) ──▶ routes ──▶ reads (shared) ──▶ the API server, by the user's kubeconfig
//!                                                          └──▶ pages (pure: values in, HTML out)
//! ```
//!
//! # Guarantees
//! - Pages show the values that `list`, `status`, `approve`, `explain` and `describe` print: nothing is decided here.
//! - The one write is the approval of a plan as it was shown, by what `approve` does.
//! - However many tabs look, the cluster is asked once in [`reads::FRESH`] for each thing that is looked at, and not at all if none does.
//! - What follows from catalogs is worked out beside the one thread that answers ([`works`]), and no end waits for it.

mod gate;
mod graph;
mod pages;
mod reads;
mod request;
mod routes;
mod server;
#[cfg(test)]
mod tests;
mod works;

use std::future::Future;
use std::net::Ipv4Addr;
use std::rc::Rc;
use std::thread;
use std::time::Duration;

use anyhow::Context as _;
use tokio::net::TcpListener;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::oneshot;
use tokio::task::LocalSet;
use tokio::time::sleep;

use self::gate::Gate;
use self::routes::App;
use crate::args::ui::UiArgs;
use crate::cluster::Cluster;
use crate::{Verdict, printer};

/// How long nobody may have asked for anything: whoever started it is gone, or has forgotten it, and it has their rights.
const IDLE: Duration = Duration::from_secs(8 * 60 * 60);
/// How often is looked whether somebody did, and for what is too old to be kept.
const TICK: Duration = Duration::from_secs(60);
/// As a shell tells that SIGINT has ended a program.
const INTERRUPTED: i32 = 130;

/// Serves until somebody ends it.
///
/// # Errors
/// The cluster cannot be found, or the port not be had.
pub(crate) fn run(runtime: Runtime, args: &UiArgs) -> anyhow::Result<Verdict> {
    ending(runtime, serve(args))
}

/// Does it, and ends with it: work that goes on for nobody is not waited for.
fn ending<T>(runtime: Runtime, work: impl Future<Output = T>) -> T {
    let done = runtime.block_on(work);
    runtime.shutdown_background();
    done
}

async fn serve(args: &UiArgs) -> anyhow::Result<Verdict> {
    let cluster = Cluster::connect(&args.cluster.connection).await?;
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, args.port))
        .await
        .with_context(|| format!("cannot listen on port {} of 127.0.0.1", args.port))?;
    let port = listener.local_addr().context("cannot tell the port")?.port();
    let gate = Gate::new(
        port,
        gate::random()?,
        gate::random()?,
        gate::random()?,
        gate::random()?,
    );
    let ctrl_c = interrupts();
    printer::data(&format!("{}\n", gate.link()))?;
    let hours = IDLE.as_secs() / 3600;
    printer::progress(&format!(
        "Open this link in a browser of this machine; it can be used once, and whoever opens it has your rights. Ctrl-C ends, and so do \
         {hours} hours in which nobody looks."
    ));
    let app = Rc::new(App::new(cluster, args, gate));
    let stop = async {
        tokio::select! {
            () = ctrl_c => {}
            () = forgotten(&app) => printer::progress(&format!("Nobody has looked for {hours} hours.")),
        }
    };
    LocalSet::new()
        .run_until(server::serve(listener, Rc::clone(&app), stop))
        .await;
    Ok(Verdict::Fine)
}

/// Drops what is too old to be shown, until nobody has looked for long.
async fn forgotten(app: &App) {
    while app.idle() < IDLE {
        sleep(TICK).await;
        app.sweep();
    }
}

/// Comes with Ctrl-C. The second one ends the process, at whatever it is: a thread of its own waits for it, as the one that serves may be busy.
fn interrupts() -> impl Future<Output = ()> {
    let (tell, told) = oneshot::channel();
    thread::spawn(move || {
        let Ok(runtime) = Builder::new_current_thread().enable_all().build() else {
            return;
        };
        let next = async || tokio::signal::ctrl_c().await.is_ok();
        let end = || tell.send(()).unwrap_or_default();
        runtime.block_on(interrupted(next, end, || std::process::exit(INTERRUPTED)));
    });
    async move {
        // Without it whoever started this ends it some other way.
        if told.await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

/// The first time it ends what is served, the second time all.
async fn interrupted(mut next: impl AsyncFnMut() -> bool, end: impl FnOnce(), exit: impl FnOnce()) {
    if next().await {
        end();
        if next().await {
            exit();
        }
    }
}
