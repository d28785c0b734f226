//! Builds everything, serves from the start, and stops in order. No decisions.

use std::ffi::OsString;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use go_compat::duration;
use olm_api::v1alpha1::CatalogSource;
use olm_runtime::client;
use olm_runtime::metrics::Metrics;
use olm_runtime::process::{self, Start, stop_signal};
use olm_runtime::review::{KubeReviewer, Reviews};
use olm_runtime::store::{Store, StoreSet};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::api::Api;
use crate::args::{Args, OBSOLETE};
use crate::catalogs::{Catalogs, Tcp};
use crate::limits::FIRST_READS;
use crate::readiness::Readiness;
use crate::{certificates, metrics, serving, stores};

/// Interval of checking whether the catalogs have been read.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Runs the program with its arguments, of which the first is its name. It ends after a signal or an error.
pub fn main(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let start = |args: &Args| Start {
        program: env!("CARGO_PKG_NAME"),
        common: args.common.clone(),
        usage_error: args.usage_error(),
        without_effect: args.without_effect(),
    };
    process::run_program(arguments, &OBSOLETE, start, run)
}

/// Runs until SIGTERM or SIGINT.
///
/// # Errors
/// The API server's client cannot be configured, there is no certificate to serve with, or the port is not
/// available.
pub async fn run(args: Args) -> anyhow::Result<()> {
    let figures = Metrics::registered();
    let client = client::connect(args.common.kubeconfig.as_deref(), &figures).await?;
    let listener = serving::listen(args.bind_address, args.secure_port)
        .await
        .with_context(|| format!("cannot listen on port {}", args.secure_port))?;
    let readiness = Readiness::default();
    let (known, front_proxy) = watch::channel(None);
    let (config, keeping) =
        certificates::serve(args.certificate(), args.tls_versions(), front_proxy.clone())?;

    let catalogs = Catalogs::new(&args.global_namespace, args.interval, Arc::new(Tcp));
    metrics::register(&figures, &catalogs);
    let mut set = StoreSet::new();
    let sources = stores::catalog_sources(&mut set, &client);
    catalogs.follow(&sources);
    let (followed, default) = (catalogs.clone(), args.interval);
    stores::olm_config(&mut set, &client, move |interval| {
        followed.set_interval(interval_of(interval, default));
    });
    let _front_proxy = stores::front_proxy(&set, &client, known, readiness.clone());

    let mut tasks = JoinSet::new();
    // Events about objects are left to their owners; this process has no permission to write any.
    let _stores = set.with_metrics(figures.clone()).start(&mut tasks);
    tasks.spawn(keeping);
    let first_reads = tokio::spawn(first_reads(sources, catalogs.clone(), readiness.clone()));
    let reviews = Reviews::new(Arc::new(KubeReviewer::new(&client)));
    let api = Api::new(
        catalogs.index(),
        front_proxy,
        reviews,
        readiness.clone(),
        &figures,
    );
    tracing::info!(port = args.secure_port, "serving");
    let stop = async {
        stop_signal().await;
        tracing::info!("stopping, still accepting requests during --shutdown-delay");
        readiness.stops();
        sleep(args.shutdown_delay).await;
    };
    let ended = tokio::select! {
        () = serving::serve(listener, config, Arc::new(api), stop) => Ok(()),
        Some(_) = tasks.join_next() => Err(anyhow::anyhow!("a watch ended unexpectedly")),
    };
    first_reads.abort();
    ended
}

/// Waits until each catalog with a known registry was read, or [`FIRST_READS`] have passed. An unreachable
/// catalog must not delay the others.
async fn first_reads(sources: Store<CatalogSource>, catalogs: Catalogs, readiness: Readiness) {
    while !sources.is_ready() {
        sleep(LOOK_EVERY).await;
    }
    let all = async {
        while !catalogs.were_all_tried() {
            sleep(LOOK_EVERY).await;
        }
    };
    if timeout(FIRST_READS, all).await.is_err() {
        tracing::warn!("some catalogs were not read in time, serving the others");
    }
    readiness.has_read_catalogs();
}

/// Returns the interval of reading catalogs again: from the OLMConfig, if it is valid.
fn interval_of(text: Option<&str>, default: Duration) -> Duration {
    match text.map(duration::parse) {
        Some(Ok(interval)) if !interval.is_zero() => interval,
        Some(Err(error)) => {
            tracing::warn!(%error, "ignoring invalid packageServerSyncInterval of the OLMConfig");
            default
        }
        _ => default,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_config_of_the_cluster_says_how_often_catalogs_are_read() {
        let default = Duration::from_secs(43_200);
        let rows = [
            (None, default),
            (Some("30m"), Duration::from_secs(1800)),
            (Some("1.5h"), Duration::from_secs(5400)),
            (Some("0s"), default),
            (Some("soon"), default),
        ];
        for (text, expected) in rows {
            assert_eq!(interval_of(text, default), expected, "{text:?}");
        }
    }
}
