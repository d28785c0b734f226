//! Connects both controllers to the cluster, and runs them. No decisions.

use std::ffi::OsString;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context as _;
use kube::Client;
use olm_api::extension_v1::ClusterObjectSet;
use olm_oci::Limits;
use olm_runtime::client;
use olm_runtime::discovery::Discovery;
use olm_runtime::driver::Runner;
use olm_runtime::metrics::Metrics;
use olm_runtime::process::{self, Start};
use olm_runtime::review::KubeReviewer;
use olm_runtime::store::{Store, StoreSet, Watch};
use tokio::task::JoinSet;

use crate::apply::object_set::triggers as object_set;
use crate::args::{Args, METRICS, OBSOLETE};
use crate::catalog_content::ServedContents;
use crate::cluster_extension::{Sources, triggers as cluster_extension};

/// Name of the Lease, as upstream's.
const LEASE: &str = "9c4404e7.operatorframework.io";

/// Runs the program with its arguments, of which the first is its name. It ends after a signal or an error.
pub fn main(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let start = |args: &Args| Start {
        program: env!("CARGO_PKG_NAME"),
        common: args.common.clone(),
        usage_error: args.usage_error(),
        without_effect: args.serving.without_effect(),
    };
    process::run_program(arguments, &OBSOLETE, start, run)
}

/// Runs until SIGTERM or SIGINT.
///
/// # Errors
/// The API server's client cannot be configured, the folder for layers cannot be used, or an address is not available.
pub async fn run(args: Args) -> anyhow::Result<()> {
    let metrics = Metrics::registered();
    let client = client::connect(args.common.kubeconfig.as_deref(), &metrics).await?;
    let folder = &args.cache_path;
    std::fs::create_dir_all(folder).with_context(|| format!("cannot use {}", folder.display()))?;
    let sources = Sources {
        contents: Arc::new(ServedContents {
            authorities: args.catalogd_cas_dir(),
        }),
        images: Arc::new(args.registries.registry(&client, folder.clone(), Limits::BUNDLE)),
        openshift: args.openshift(),
        reviewer: Arc::new(KubeReviewer::new(&client)),
        ignores_accounts: args.ignore_service_account,
    };
    let own = client.default_namespace().to_owned();
    let (set, start) = controllers(&client, args.system_namespace(&own), sources);
    let candidacy = args.leader_election.candidacy(LEASE, &own);
    let endpoints = args.serving.endpoints(METRICS);
    Ok(process::run(client, set, endpoints, metrics, candidacy, start).await?)
}

/// Returns the stores, connected to the controllers, and the function that starts the controllers when this process leads. Secrets of
/// revisions are in `system_namespace`. Must be called within a runtime.
pub fn controllers(
    client: &Client,
    system_namespace: &str,
    sources: Sources,
) -> (StoreSet, impl FnOnce(&Runner) -> JoinSet<()> + use<>) {
    let mut set = StoreSet::new();
    let revisions: Store<ClusterObjectSet> = set.add(Watch::new(client));
    let discovery = Discovery::new(client.clone());
    let start_revisions = object_set::register(&set, client, &discovery, &revisions, system_namespace);
    let start_extensions =
        cluster_extension::register(&mut set, client, discovery, &revisions, system_namespace, sources);
    let start = move |runner: &Runner| {
        let mut workers = JoinSet::new();
        start_revisions(runner, &mut workers);
        start_extensions(runner, &mut workers);
        workers
    };
    (set, start)
}
