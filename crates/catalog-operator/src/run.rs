//! Builds the stores, waits until all are ready, starts the controllers. No decisions.

mod wiring;

use std::ffi::OsString;
use std::process::ExitCode;
use std::sync::Arc;

use kube::Client;
use olm_oci::RegistryConfig;
use olm_registry::connection::{Dial, Tcp};
use olm_runtime::cluster_operator::ClusterOperators;
use olm_runtime::discovery::Discovery;
use olm_runtime::driver::Runner;
use olm_runtime::metrics::Metrics;
use olm_runtime::process::{self, Start};
use olm_runtime::queue::Queue;
use olm_runtime::store::StoreSet;
use olm_runtime::sync::Mutex;
use olm_runtime::{NamespacedName, client, clock};
use tokio::task::JoinSet;

use crate::args::{Args, UnpackMode};
use crate::bundle_unpack::job::{UnpackJobReconciler, UnpackJobs};
use crate::bundle_unpack::{BundleSource, BundleStore, ImageBundleSource, Unpacker, UnpackerConfig};
use crate::catalog_manifests::BundleSources;
use crate::catalog_source::CatalogSourceReconciler;
use crate::catalog_source::connection::Connections;
use crate::catalog_source::pod::PodSettings;
use crate::cluster_operator::Report;
use crate::grpc_catalog_reader::GrpcCatalogReader;
use crate::install_plan::InstallPlanReconciler;
use crate::install_plan::cluster_reads::ClusterReads;
use crate::install_plan::preview::reconciler::PreviewReconciler;
use crate::metrics::{self, Figures};
use crate::registry_tags::{ImageTags, RegistryTags};
use crate::resolution::{ResolutionReconciler, runtime_constraints};
use crate::snapshots::{CatalogReader, Snapshots};
use crate::stores::Stores;
use crate::upgrade_policy::reconciler::PolicyReconciler;

/// Reconciles of one controller at a time.
const WORKERS: usize = 4;
/// Reconciles of one namespace at a time: whatever they wait for, there are workers left for the others.
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
    /// InstallPlans that wait for approval and have no preview yet.
    pub previews: Queue<NamespacedName>,
    /// InstallPlans that wait for approval.
    pub policies: Queue<NamespacedName>,
    /// ConfigMaps of unpack Jobs.
    pub unpacks: Queue<NamespacedName>,
    /// The ClusterOperator that is reported to.
    pub cluster_operators: Queue<NamespacedName>,
}

impl Default for Queues {
    /// Empty queues in which namespaces take turns.
    fn default() -> Self {
        let fair = || Queue::<NamespacedName>::fair(|key| &key.namespace, WORKERS_OF_A_NAMESPACE);
        Self {
            sources: fair(),
            namespaces: Queue::new(),
            plans: fair(),
            previews: fair(),
            policies: fair(),
            unpacks: fair(),
            cluster_operators: Queue::new(),
        }
    }
}

/// What lives beside the stores: connections, contents of catalogs, bundles.
#[derive(Clone)]
pub struct Services {
    /// Connections to registry servers.
    pub connections: Connections,
    /// Digests behind the tags of catalogs.
    pub tags: Arc<dyn ImageTags>,
    /// Contents of catalogs.
    pub snapshots: Snapshots,
    /// Bundles.
    pub unpacker: Unpacker,
    /// Those that Jobs unpack; none if everything is to be pulled in this process.
    pub(crate) unpack_jobs: Option<UnpackJobs>,
}

/// Runs the program with its arguments, of which the first is its name. It ends after a signal or an error.
pub fn main(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let start = |args: &Args| Start {
        program: env!("CARGO_PKG_NAME"),
        common: args.operator.common.clone(),
        usage_error: args.operator.usage_error(),
        without_effect: args.without_effect(),
    };
    process::run_program(arguments, &[], start, run)
}

/// Runs until SIGTERM or SIGINT.
///
/// # Errors
/// When the API server cannot be configured or the health address cannot be bound.
pub async fn run(args: Args) -> anyhow::Result<()> {
    let metrics = Metrics::registered();
    let flags = &args.operator;
    let client = client::connect(flags.common.kubeconfig.as_deref(), &metrics).await?;
    let endpoints = flags.serving.endpoints();
    let election = &flags.leader_election;
    let candidacy = election.candidacy("catalog-operator", client.default_namespace());
    let (set, start) = controllers(args, &client, Outside::default(), &metrics);
    process::run(client, set, endpoints, metrics, candidacy, start).await?;
    Ok(())
}

/// Services that the controllers call besides the API server.
pub struct Outside {
    /// How connections to registry servers are made.
    pub dial: Arc<dyn Dial>,
    /// How the contents of catalogs are read over them.
    pub catalogs: Arc<dyn CatalogReader>,
    /// Where bundles come from; none for image registries.
    pub bundles: Option<Arc<dyn BundleSource>>,
    /// Resolves the tags of catalogs; `None` for image registries.
    pub tags: Option<Arc<dyn ImageTags>>,
}

impl Default for Outside {
    /// The network.
    fn default() -> Self {
        Self {
            dial: Arc::new(Tcp),
            catalogs: Arc::new(GrpcCatalogReader),
            bundles: None,
            tags: None,
        }
    }
}

/// The stores, wired to the queues and to `metrics`, and what starts the controllers once the stores are ready.
pub fn controllers(
    args: Args,
    client: &Client,
    outside: Outside,
    metrics: &Metrics,
) -> (StoreSet, impl FnOnce(&Runner) -> JoinSet<()> + use<>) {
    let (set, parts) = build(args, client, outside, Figures::register(metrics));
    metrics::register(metrics, &parts.stores, &parts.services.snapshots);
    (set, move |runner: &Runner| parts.start(runner))
}

/// What the controllers are made of.
pub(crate) struct Parts {
    args: Args,
    client: Client,
    stores: Stores,
    cluster_operators: ClusterOperators,
    pub(crate) queues: Queues,
    pub(crate) services: Services,
    figures: Figures,
    /// One for all, as what it has learnt from the API server is worth the same to each.
    discovery: Discovery,
}

/// Makes the parts and connects them.
pub(crate) fn build(args: Args, client: &Client, outside: Outside, figures: Figures) -> (StoreSet, Parts) {
    let mut set = StoreSet::new();
    let stores = Stores::register(&mut set, client, args.unpack != UnpackMode::InProcess);
    let queues = Queues::default();
    let services = build_services(&args, client, &stores, &queues, outside, &figures);
    wiring::connect(&stores, &queues, &services, args.global_namespace());
    let name = Some(args.operator.write_status_name.clone()).filter(|name| !name.is_empty());
    let cluster_operators = ClusterOperators::register(&set, client, name);
    wiring::connect_cluster_operators(&stores, &queues, &cluster_operators);
    let parts = Parts {
        args,
        client: client.clone(),
        stores,
        cluster_operators,
        queues,
        services,
        figures,
        discovery: Discovery::new(client.clone()),
    };
    (set, parts)
}

fn build_services(
    args: &Args,
    client: &Client,
    stores: &Stores,
    queues: &Queues,
    outside: Outside,
    figures: &Figures,
) -> Services {
    let connections = Connections::new(wiring::connection_changed(
        stores,
        queues,
        args.global_namespace(),
    ))
    .with_dial(outside.dial);
    let of_namespaces = queues.namespaces.clone();
    let (catalogs, global) = (outside.catalogs, args.global_namespace());
    let snapshots = Snapshots::new(connections.clone(), catalogs, global, move |namespace: &str| {
        of_namespaces.add(namespace.to_owned());
    });
    let registries = registries(args);
    let tags = outside.tags.unwrap_or_else(|| {
        let (catalogs, registries) = (stores.sources.clone(), registries.clone());
        Arc::new(RegistryTags::new(client.clone(), catalogs, registries))
    });
    let store = Arc::new(BundleStore::new(args.unpack_cache.clone()));
    let bundles = outside.bundles.unwrap_or_else(|| {
        let spool = args.unpack_spool.clone().or_else(|| args.unpack_cache.clone());
        let (catalogs, store) = (stores.sources.clone(), Arc::clone(&store));
        let source = ImageBundleSource::new(client.clone(), catalogs, registries, spool, store);
        Arc::new(source)
    });
    let config = UnpackerConfig {
        parallel: PARALLEL_UNPACKS,
        deadline: args.bundle_unpack_timeout,
        global_namespace: args.global_namespace().to_owned(),
    };
    let woken = queues.clone();
    let bundles = Arc::new(BundleSources {
        images: bundles,
        catalogs: snapshots.clone(),
    });
    let unpack_jobs = build_unpack_jobs(args, client, stores, queues);
    let (jobs, figures) = (unpack_jobs.clone(), figures.clone());
    let unpacker = Unpacker::new(bundles, store, jobs, config, figures, move |subscriber| {
        wiring::wake(&woken, subscriber);
    });
    Services {
        connections,
        tags,
        snapshots,
        unpacker,
        unpack_jobs,
    }
}

/// How registries are reached, and which authorities may sign their certificates.
fn registries(args: &Args) -> RegistryConfig {
    let config = args
        .registry_config
        .clone()
        .map(RegistryConfig::from_dir)
        .unwrap_or_default();
    match args.registry_ca.clone() {
        Some(file) => config.with_root_ca(file),
        None => config,
    }
}

fn build_unpack_jobs(args: &Args, client: &Client, stores: &Stores, queues: &Queues) -> Option<UnpackJobs> {
    let stores = (stores.sources.clone(), stores.unpacks.clone()?);
    let settings = pod_settings(args);
    let is_only_way = args.unpack == UnpackMode::Job;
    let wake = wiring::waker(&queues.unpacks);
    Some(UnpackJobs::new(
        client.clone(),
        stores,
        settings,
        is_only_way,
        wake,
    ))
}

/// `namespace_restricted` is read for each catalog.
fn pod_settings(args: &Args) -> PodSettings {
    PodSettings {
        opm_image: args.opm_image.clone(),
        util_image: args.util_image.clone(),
        user_id: args.workload_user_id(),
        namespace_restricted: false,
    }
}

impl Parts {
    fn start(&self, runner: &Runner) -> JoinSet<()> {
        let mut workers = JoinSet::new();
        self.start_sources(runner, &mut workers);
        self.start_resolution(runner, &mut workers);
        self.start_plans(runner, &mut workers);
        self.start_previews(runner, &mut workers);
        self.start_policies(runner, &mut workers);
        self.start_unpacks(runner, &mut workers);
        self.start_report(runner, &mut workers);
        workers
    }

    fn start_sources(&self, runner: &Runner, workers: &mut JoinSet<()>) {
        let sources = CatalogSourceReconciler {
            stores: self.stores.clone(),
            connections: self.services.connections.clone(),
            tags: Arc::clone(&self.services.tags),
            started: clock::now(),
            discovery: self.discovery.clone(),
            settings: pod_settings(&self.args),
        };
        runner.spawn(workers, &Arc::new(sources), &self.queues.sources, WORKERS);
    }

    pub(crate) fn start_resolution(&self, runner: &Runner, workers: &mut JoinSet<()>) {
        let resolution = ResolutionReconciler {
            stores: self.stores.clone(),
            snapshots: self.services.snapshots.clone(),
            unpacker: self.services.unpacker.clone(),
            global_namespace: self.args.global_namespace().to_owned(),
            runtime_constraints: runtime_constraints::from_environment(),
            discovery: self.discovery.clone(),
            cache: Mutex::default(),
            durations: self.figures.resolution_seconds.clone(),
        };
        runner.spawn(workers, &Arc::new(resolution), &self.queues.namespaces, RESOLVERS);
    }

    pub(crate) fn start_plans(&self, runner: &Runner, workers: &mut JoinSet<()>) {
        let plans = InstallPlanReconciler {
            stores: self.stores.clone(),
            reads: self.reads(),
            retry_timeout: self.args.install_plan_retry_timeout,
        };
        runner.spawn(workers, &Arc::new(plans), &self.queues.plans, WORKERS);
    }

    pub(crate) fn start_previews(&self, runner: &Runner, workers: &mut JoinSet<()>) {
        let (stores, reads) = (self.stores.clone(), self.reads());
        let previews = PreviewReconciler { stores, reads };
        runner.spawn(workers, &Arc::new(previews), &self.queues.previews, WORKERS);
    }

    pub(crate) fn start_policies(&self, runner: &Runner, workers: &mut JoinSet<()>) {
        let stores = self.stores.clone();
        let policies = PolicyReconciler { stores };
        runner.spawn(workers, &Arc::new(policies), &self.queues.policies, WORKERS);
    }

    fn start_unpacks(&self, runner: &Runner, workers: &mut JoinSet<()>) {
        let Some(jobs) = self.services.unpack_jobs.clone() else {
            return;
        };
        let unpacks = UnpackJobReconciler {
            client: self.client.clone(),
            jobs,
            accounts: self.stores.accounts.clone(),
            roles: self.stores.roles.clone(),
            role_bindings: self.stores.role_bindings.clone(),
        };
        runner.spawn(workers, &Arc::new(unpacks), &self.queues.unpacks, WORKERS);
    }

    fn start_report(&self, runner: &Runner, workers: &mut JoinSet<()>) {
        // Reported as working once it has done something.
        let (watched, queue) = (
            self.cluster_operators.clone(),
            self.queues.cluster_operators.clone(),
        );
        runner
            .first_rounds
            .on_first_of::<CatalogSourceReconciler>(move || watched.keys().for_each(|key| queue.add(key)));
        let report = Report {
            stores: self.stores.clone(),
            cluster_operators: self.cluster_operators.clone(),
            first_rounds: runner.first_rounds.clone(),
            namespace: self.client.default_namespace().to_owned(),
            release: self.args.operator.release.release_version.clone(),
        };
        runner.spawn(workers, &Arc::new(report), &self.queues.cluster_operators, 1);
    }

    /// What a plan reads of the cluster.
    fn reads(&self) -> ClusterReads {
        ClusterReads {
            client: self.client.clone(),
            discovery: self.discovery.clone(),
            unpacker: self.services.unpacker.clone(),
            csvs: self.stores.csvs.clone(),
            global_namespace: self.args.global_namespace().to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;
    use olm_testing::turns::namespaces_take_turns;

    use super::*;

    #[test]
    fn authorities_for_registries_are_those_that_the_flag_names() {
        let of = |flags: &[&str]| {
            let words = ["catalog-operator"].iter().chain(flags);
            let config = registries(&Args::try_parse_from(words).unwrap());
            let hosts = config.hosts(&"reg.example.com/a".parse().unwrap()).unwrap();
            hosts.into_iter().next().unwrap().ca
        };
        let named = [
            "--registry-config=/nowhere",
            "--registry-ca=/etc/olm/registries/ca.crt",
        ];
        assert_eq!(
            of(&named),
            [std::path::PathBuf::from("/etc/olm/registries/ca.crt")]
        );
        assert_eq!(
            of(&["--registry-config=/nowhere"]),
            [""; 0].map(std::path::PathBuf::from)
        );
    }

    /// A namespace that floods a queue is not served before others, and leaves them workers.
    #[tokio::test(start_paused = true)]
    async fn namespaces_take_turns_in_the_queues_of_catalogs_and_of_plans() {
        let queues = Queues::default();
        for queue in [queues.sources, queues.plans, queues.unpacks] {
            namespaces_take_turns(&queue, WORKERS_OF_A_NAMESPACE, WORKERS).await;
        }
    }
}
