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

mod gate;
mod graph;
mod pages;
mod reads;
mod request;
mod routes;
mod server;
#[cfg(test)]
mod tests;

use std::net::Ipv4Addr;
use std::rc::Rc;

use anyhow::Context as _;
use tokio::net::TcpListener;
use tokio::task::LocalSet;

use self::gate::Gate;
use self::routes::App;
use crate::args::ui::UiArgs;
use crate::cluster::Cluster;
use crate::{Verdict, printer};

/// Serves until somebody ends it.
///
/// # Errors
/// The cluster cannot be found, or the port not be had.
pub(crate) async fn run(args: &UiArgs) -> anyhow::Result<Verdict> {
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
    printer::data(&format!("{}\n", gate.link()))?;
    printer::progress(
        "Open this link in a browser of this machine; it can be used once, and whoever opens it has your rights. Ctrl-C ends.",
    );
    let app = Rc::new(App::new(cluster, args, gate));
    let stop = async {
        // Without it whoever started this ends it some other way.
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
    };
    LocalSet::new()
        .run_until(server::serve(listener, app, stop))
        .await;
    Ok(Verdict::Fine)
}
