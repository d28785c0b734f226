//! Opens the store, serves it from the start, and runs the controller. No decisions.

use std::ffi::OsString;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Context as _;
use kube::{Client, ResourceExt as _};
use olm_api::extension_v1::ClusterCatalog;
use olm_oci::Limits;
use olm_runtime::driver::Runner;
use olm_runtime::metrics::Metrics;
use olm_runtime::process::{self, Start};
use olm_runtime::queue::Queue;
use olm_runtime::store::{Change, Store, StoreSet, Watch};
use olm_runtime::{NamespacedName, client, listener};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::api::Api;
use crate::args::{Args, METRICS, OBSOLETE};
use crate::cluster_catalog::ClusterCatalogs;
use crate::serving;
use crate::store::ContentStore;
use crate::unpacking::{CatalogImages, Request, Unpacking};

/// Name of the Lease, as upstream's.
const LEASE: &str = "catalogd-operator-lock";
/// Folder of contents within the folder for contents: upstream's program has others there.
const CONTENTS: &str = "contents";
/// Reconciles at a time. They wait for nothing but the API server.
const WORKERS: usize = 2;
/// Time that readiness waits for the contents that other processes serve already.
const FIRST_CONTENTS: Duration = Duration::from_secs(60);
/// Interval of checking whether the catalogs are known, and whether their contents are there.
const LOOK_EVERY: Duration = Duration::from_millis(50);

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
/// The API server's client cannot be configured, the folder for contents cannot be used, there is no certificate to serve with, or an
/// address is not available.
pub async fn run(args: Args) -> anyhow::Result<()> {
    let metrics = Metrics::registered();
    let client = client::connect(args.common.kubeconfig.as_deref(), &metrics).await?;
    let folder = args.cache_dir.join(CONTENTS);
    let contents = ContentStore::open(&folder).with_context(|| format!("cannot use {}", folder.display()))?;
    let address = args.catalogs_server_addr;
    let socket = listener::bind(address).await;
    let socket = socket.with_context(|| format!("cannot serve catalogs on {address}"))?;
    let mut keeping = JoinSet::new();
    let tls = match args.serving.tls() {
        Some(files) => {
            let (config, keep) = files.serve(&serving::PROTOCOLS)?;
            keeping.spawn(keep);
            Some(config)
        }
        None => {
            tracing::warn!("catalogs are served over plain HTTP; --tls-cert and --tls-key are not given");
            None
        }
    };
    let images = args.registries.registry(&client, folder, Limits::CATALOG);
    let api = Api::new(contents.clone(), &metrics);
    let (set, start) = controllers(&args.base_url(), &client, contents, Arc::new(images));
    let candidacy = args.leader_election.candidacy(LEASE, client.default_namespace());
    let (stopping, mut stopped) = watch::channel(false);
    let stop = async move {
        // An error means that the sender is gone: the process is stopping.
        let _ = stopped.wait_for(|stopped| *stopped).await;
    };
    let running = async {
        let ended = process::run(
            client,
            set,
            args.serving.endpoints(METRICS),
            metrics,
            candidacy,
            start,
        )
        .await;
        stopping.send_replace(true);
        ended
    };
    let (ended, ()) = tokio::join!(running, serving::serve(socket, tls, api, stop));
    Ok(ended?)
}

/// Returns the stores, connected to the queue, and the function that starts the controller when this process leads. `base_url` is the URL
/// of all catalogs. Until then, contents are those that the leader reports. Must be called within a runtime.
pub fn controllers(
    base_url: &str,
    client: &Client,
    contents: ContentStore,
    images: Arc<dyn CatalogImages>,
) -> (StoreSet, impl FnOnce(&Runner) -> JoinSet<()> + use<>) {
    let mut set = StoreSet::new();
    let catalogs: Store<ClusterCatalog> = set.add(Watch::new(client));
    let queue: Queue<NamespacedName> = Queue::new();
    let woken = queue.clone();
    let unpacking = Unpacking::new(contents, images, move |catalog: &str| {
        woken.add(NamespacedName::cluster(catalog));
    });
    let leads = Arc::<AtomicBool>::default();
    let (added, following, is_leader) = (queue.clone(), unpacking.clone(), Arc::clone(&leads));
    catalogs.on_change(move |change| {
        added.add(NamespacedName::from_object(&**change.object()));
        if !is_leader.load(Ordering::SeqCst) {
            follow(&following, change);
        }
    });
    let (ready, is_ready) = watch::channel(false);
    set.ready_with("contents of catalogs", is_ready);
    tokio::spawn(begin(catalogs.clone(), unpacking.clone(), ready));
    let reconciler = ClusterCatalogs {
        catalogs,
        unpacking,
        base_url: base_url.into(),
    };
    let start = move |runner: &Runner| {
        leads.store(true, Ordering::SeqCst);
        let mut workers = JoinSet::new();
        runner.spawn(&mut workers, &Arc::new(reconciler), &queue, WORKERS);
        workers
    };
    (set, start)
}

/// Keeps the content that the leader has resolved, after a change of a catalog.
fn follow(unpacking: &Unpacking, change: &Change<ClusterCatalog>) {
    let catalog = change.object();
    let name = catalog.name_any();
    if matches!(change, Change::Deleted { .. })
        || catalog.metadata.deletion_timestamp.is_some()
        || catalog.spec.is_switched_off()
    {
        unpacking.remove(&name);
        return;
    }
    let status = catalog.status.as_ref();
    if let Some(resolved) = status.and_then(|status| status.resolved_source.as_ref()) {
        let request = Request {
            image: resolved.image.reference.clone(),
            poll: None,
        };
        unpacking.remove_other(&name, &request);
        drop(unpacking.want(&name, &request));
    }
}

/// Removes the contents of catalogs that were deleted while this process did not run. Then it sets `ready` as soon as every content that
/// a status reports is stored here: before that, clients would get 404 here and the content from other processes.
async fn begin(catalogs: Store<ClusterCatalog>, unpacking: Unpacking, ready: watch::Sender<bool>) {
    while !catalogs.is_ready() {
        sleep(LOOK_EVERY).await;
    }
    unpacking.retain(|name| catalogs.get_key(&NamespacedName::cluster(name)).is_some());
    let is_missing = |catalog: &ClusterCatalog| {
        let status = catalog.status.as_ref();
        catalog.metadata.deletion_timestamp.is_none()
            && !catalog.spec.is_switched_off()
            && status.is_some_and(|status| status.resolved_source.is_some())
            && !unpacking.has_content(&catalog.name_any())
    };
    let all = async {
        while catalogs.list().iter().any(|catalog| is_missing(catalog)) {
            sleep(LOOK_EVERY).await;
        }
    };
    if timeout(FIRST_CONTENTS, all).await.is_err() {
        tracing::warn!("some catalogs were not unpacked in time; serving the others");
    }
    ready.send_replace(true);
}
