//! Builds the stores, waits until all are ready, starts the controllers. No decisions.

mod wiring;

use std::sync::{Arc, OnceLock};

use kube::Client;
use olm_oci::RegistryConfig;
use olm_runtime::discovery::Discovery;
use olm_runtime::driver::Runner;
use olm_runtime::queue::Queue;
use olm_runtime::store::StoreSet;
use olm_runtime::{NamespacedName, client, process};
use tokio::task::JoinSet;

use crate::args::Args;
use crate::bundle_unpack::unpacker::BundleSource;
use crate::bundle_unpack::{RegistrySource, Unpacker, UnpackerConfig};
use crate::catalog_source::CatalogSourceReconciler;
use crate::catalog_source::connection::{Connections, Dial, Tcp};
use crate::catalog_source::pod::PodSettings;
use crate::install_plan::InstallPlanReconciler;
use crate::install_plan::cluster_reads::ClusterReads;
use crate::registry_reader::RegistryReader;
use crate::resolution::ResolutionReconciler;
use crate::snapshots::{CatalogReader, Snapshots};
use crate::stores::Stores;

/// Rounds of one controller at a time.
const WORKERS: usize = 4;
/// Rounds of one namespace at a time: whatever they wait for, there are workers left for the others.
const WORKERS_OF_A_NAMESPACE: usize = 2;
/// Namespaces resolved at a time: it is work for processors, and one namespace is never resolved twice at once.
const RESOLVERS: usize = 2;
/// Bundles fetched at a time.
const PARALLEL_UNPACKS: usize = 4;

/// The queues of the controllers.
#[derive(Clone)]
pub struct Queues {
    /// CatalogSources.
    pub sources: Queue<NamespacedName>,
    /// Namespaces to resolve.
    pub namespaces: Queue<String>,
    /// InstallPlans.
    pub plans: Queue<NamespacedName>,
}

impl Default for Queues {
    /// Empty queues in which namespaces take turns.
    fn default() -> Self {
        Self {
            sources: Queue::fair(of_namespace, WORKERS_OF_A_NAMESPACE),
            namespaces: Queue::new(),
            plans: Queue::fair(of_namespace, WORKERS_OF_A_NAMESPACE),
        }
    }
}

fn of_namespace(key: &NamespacedName) -> &str {
    &key.namespace
}

/// What lives beside the stores: connections, contents of catalogs, bundles.
#[derive(Clone)]
pub struct Services {
    /// Connections to registry servers.
    pub connections: Connections,
    /// Contents of catalogs.
    pub snapshots: Snapshots,
    /// Bundles.
    pub unpacker: Unpacker,
}

/// Runs until SIGTERM or SIGINT.
///
/// # Errors
/// When the API server cannot be configured or the health address cannot be bound.
pub async fn run(args: Args) -> anyhow::Result<()> {
    let client = client::connect(args.kubeconfig.as_deref()).await?;
    let health_addr = args.health_addr;
    let (set, start) = controllers(args, &client, Outside::default());
    process::run(client, set, health_addr, start).await?;
    Ok(())
}

/// What the controllers speak to besides the API server.
pub struct Outside {
    /// How connections to registry servers are made.
    pub dial: Arc<dyn Dial>,
    /// How the contents of catalogs are read over them.
    pub catalogs: Arc<dyn CatalogReader>,
    /// Where bundles come from; none for image registries.
    pub bundles: Option<Arc<dyn BundleSource>>,
}

impl Default for Outside {
    /// The network.
    fn default() -> Self {
        Self {
            dial: Arc::new(Tcp),
            catalogs: Arc::new(RegistryReader),
            bundles: None,
        }
    }
}

/// The stores, wired to the queues, and what starts the controllers once the stores are ready.
pub fn controllers(
    args: Args,
    client: &Client,
    outside: Outside,
) -> (StoreSet, impl FnOnce(&Runner) -> JoinSet<()> + use<>) {
    let mut set = StoreSet::new();
    let stores = Stores::register(&mut set, client);
    let queues = Queues::default();
    let services = build_services(&args, client, &stores, &queues, outside);
    wiring::connect(&stores, &queues, &services, args.global_namespace());
    let client = client.clone();
    (set, move |runner: &Runner| {
        start(runner, &args, &client, &stores, &queues, &services)
    })
}

fn build_services(
    args: &Args,
    client: &Client,
    stores: &Stores,
    queues: &Queues,
    outside: Outside,
) -> Services {
    // Connections wake those who read over them, who are built on connections.
    let readers: Arc<OnceLock<Snapshots>> = Arc::default();
    let (woken, known_readers) = (queues.clone(), Arc::clone(&readers));
    let connections = Connections::new(move |key: &NamespacedName| {
        woken.sources.add(key.clone());
        let users = known_readers
            .get()
            .map(|snapshots| snapshots.users(key))
            .unwrap_or_default();
        users
            .into_iter()
            .for_each(|namespace| woken.namespaces.add(namespace));
    })
    .with_dial(outside.dial);
    let of_namespaces = queues.namespaces.clone();
    let snapshots = Snapshots::new(connections.clone(), outside.catalogs, move |namespace: &str| {
        of_namespaces.add(namespace.to_owned());
    });
    // Set once, right here.
    let _ = readers.set(snapshots.clone());
    let registries = args
        .registry_config
        .clone()
        .map(RegistryConfig::from_dir)
        .unwrap_or_default();
    let bundles = outside.bundles.unwrap_or_else(|| {
        let cache = args.unpack_cache.clone();
        let source = RegistrySource::new(client.clone(), stores.sources.clone(), registries, cache);
        Arc::new(source.with_spool(args.unpack_spool.clone()))
    });
    let config = UnpackerConfig {
        parallel: PARALLEL_UNPACKS,
        deadline: args.bundle_unpack_timeout,
    };
    let woken = queues.clone();
    let unpacker = Unpacker::new(bundles, config, move |waiter| {
        wiring::wake(&woken, waiter);
    });
    Services {
        connections,
        snapshots,
        unpacker,
    }
}

fn start(
    runner: &Runner,
    args: &Args,
    client: &Client,
    stores: &Stores,
    queues: &Queues,
    services: &Services,
) -> JoinSet<()> {
    let mut workers = JoinSet::new();
    // One for all, as what it has learnt from the API server is worth the same to each.
    let discovery = Discovery::new(client.clone());
    let settings = PodSettings {
        opm_image: args.opm_image.clone(),
        util_image: args.util_image.clone(),
        user_id: args.workload_user_id(),
        namespace_restricted: false,
    };
    let sources = CatalogSourceReconciler::new(stores.of_catalogs(), services.connections.clone(), settings);
    runner.spawn(&mut workers, &Arc::new(sources), &queues.sources, WORKERS);
    let resolution = ResolutionReconciler::new(
        stores.of_resolution(),
        services.snapshots.clone(),
        services.unpacker.clone(),
        args.global_namespace(),
    )
    .with_discovery(discovery.clone());
    runner.spawn(&mut workers, &Arc::new(resolution), &queues.namespaces, RESOLVERS);
    let reads = ClusterReads {
        client: client.clone(),
        discovery,
        unpacker: services.unpacker.clone(),
        csvs: stores.csvs.clone(),
        global_namespace: args.global_namespace().to_owned(),
    };
    let plans = InstallPlanReconciler::new(stores.of_plans(), reads, args.install_plan_retry_timeout);
    runner.spawn(&mut workers, &Arc::new(plans), &queues.plans, WORKERS);
    workers
}
