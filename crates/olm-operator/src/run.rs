//! Builds the stores, waits until all are ready, and starts the controllers. No decisions.

#[cfg(test)]
mod tests;
mod wiring;

use std::{collections::BTreeSet, ffi::OsString, process::ExitCode, sync::Arc};

use olm_runtime::{
    client,
    cluster_operator::ClusterOperators,
    discovery::Discovery,
    driver::Runner,
    metrics::Metrics,
    process::{self, Start},
    queue::Queue,
    store::StoreSet,
};
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::{
    adoption::{Adoptions, kinds::OwnedKinds},
    api_role::{self, ApiRoles, ServedBy},
    args::Args,
    cluster_operator::{Reports, settings::ReportSettings},
    component,
    copied_csv::{CopiedCsvs, CopyKey, content::Contents},
    csv::Csv,
    group_role::GroupRoles,
    guarded_labels, metrics,
    namespace::Namespaces,
    olm_config::OlmConfigs,
    operator::{Operators, components::ComponentIndex},
    operator_condition::OperatorConditions,
    operator_group::OperatorGroups,
    orphaned_caller::OrphanedCallers,
    stores::Stores,
};

/// Concurrent reconciles of one controller.
const WORKERS: usize = 4;
/// Concurrent reconciles of one namespace, so that workers remain for other namespaces.
const WORKERS_OF_A_NAMESPACE: usize = 2;

/// Concurrent writes of copies; they mostly wait for the API server.
const WORKERS_OF_COPIES: usize = 16;
/// Concurrent writes of copies for the originals of one namespace.
const COPIES_OF_A_NAMESPACE: usize = 12;

/// The queues of the controllers.
#[derive(Clone)]
pub(crate) struct Queues {
    pub(crate) csvs: Queue<olm_runtime::NamespacedName>,
    pub(crate) copies: Queue<CopyKey>,
    /// ClusterServiceVersions with the label of copies.
    pub(crate) groups: Queue<olm_runtime::NamespacedName>,
    pub(crate) conditions: Queue<olm_runtime::NamespacedName>,
    pub(crate) namespaces: Queue<olm_runtime::NamespacedName>,
    /// Owners of APIServices and webhook configurations, which may have been deleted.
    pub(crate) orphaned_callers: Queue<olm_runtime::NamespacedName>,
    pub(crate) olm_configs: Queue<olm_runtime::NamespacedName>,
    /// OperatorGroups, for their ClusterRoles.
    pub(crate) group_roles: Queue<olm_runtime::NamespacedName>,
    /// Objects that serve APIs, for the ClusterRoles of these APIs.
    pub(crate) api_roles: Queue<ServedBy>,
    pub(crate) operators: Queue<olm_runtime::NamespacedName>,
    /// Namespaces whose operators may lack components.
    pub(crate) adoptions: Queue<olm_runtime::NamespacedName>,
    /// ClusterOperators with reports.
    pub(crate) cluster_operators: Queue<olm_runtime::NamespacedName>,
}

impl Default for Queues {
    /// Empty queues in which namespaces take turns.
    fn default() -> Self {
        let fair =
            || Queue::<olm_runtime::NamespacedName>::fair(|key| &key.namespace, WORKERS_OF_A_NAMESPACE);
        Self {
            csvs: fair(),
            // A namespace whose originals have ten thousand copies delays no other.
            copies: Queue::fair(|key| &key.from, COPIES_OF_A_NAMESPACE),
            groups: fair(),
            conditions: fair(),
            namespaces: Queue::new(),
            orphaned_callers: Queue::new(),
            olm_configs: Queue::new(),
            group_roles: fair(),
            api_roles: Queue::new(),
            // Tenants' labels trigger existing Operators; namespaces take turns.
            operators: Queue::fair(|key| component::namespace_of(&key.name), WORKERS_OF_A_NAMESPACE),
            adoptions: Queue::new(),
            cluster_operators: Queue::new(),
        }
    }
}

/// Runs the program with its arguments, of which the first is its name. It ends after a signal or an error.
pub fn main(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let start = |args: &Args| Start {
        program: env!("CARGO_PKG_NAME"),
        common: args.operator.common.clone(),
        usage_error: args.usage_error(),
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
    let (set, start) = controllers(&client, Settings::of(&args), &metrics);
    let candidacy = flags
        .leader_election
        .candidacy("olm-operator", client.default_namespace());
    tokio::spawn(guarded_labels::report(client.clone()));
    process::run(client, set, flags.serving.endpoints(), metrics, candidacy, start).await?;
    Ok(())
}

/// Settings of the controllers, from the command line.
#[derive(Debug, Clone, Default)]
pub struct Settings {
    /// Namespaces that keep copies of ClusterServiceVersions although copying is disabled.
    pub protected: BTreeSet<String>,
    /// ClusterOperators for reports on OLM.
    pub reports: ReportSettings,
}

impl Settings {
    fn of(args: &Args) -> Self {
        Self {
            protected: args.protected_namespaces(),
            reports: ReportSettings {
                olm: args.operator.write_status_name.clone(),
                package_server: args.write_package_server_status_name.clone(),
                namespace: args.namespace.clone(),
                release: args.operator.release.release_version.clone(),
            },
        }
    }
}

/// Returns the stores, connected to the queues and to `metrics`, and a function that starts the controllers
/// once the stores are ready.
pub fn controllers(
    client: &kube::Client,
    settings: Settings,
    metrics: &Metrics,
) -> (StoreSet, impl FnOnce(&Runner) -> JoinSet<()> + use<>) {
    let Settings { protected, reports } = settings;
    let mut set = StoreSet::new();
    let stores = Stores::register(&mut set, client);
    metrics::register(metrics, &stores.csvs);
    let queues = Queues::default();
    // Indexes are updated before the controllers that use them are triggered.
    let components = ComponentIndex::follow(&stores, &queues.operators);
    let owned = OwnedKinds::follow(&stores, &queues.adoptions);
    let api_roles = api_role::observe::by_owner(&stores);
    wiring::connect(&stores, &queues);
    let names = reports.names().map(str::to_owned);
    let cluster_operators = ClusterOperators::register(&set, client, names);
    wiring::connect_cluster_operators(&stores, &queues, &cluster_operators);
    let client = client.clone();
    (set, move |runner: &Runner| {
        let protected = Arc::new(protected);
        let mut tasks = JoinSet::new();
        let workers = &mut tasks;
        let csvs = Csv {
            stores: stores.clone(),
            discovery: Discovery::new(client.clone()),
            client: client.clone(),
        };
        runner.spawn(workers, &Arc::new(csvs), &queues.csvs, WORKERS);
        let groups = OperatorGroups {
            stores: stores.clone(),
            client: client.clone(),
        };
        runner.spawn(workers, &Arc::new(groups), &queues.groups, WORKERS);
        let orphans = OrphanedCallers {
            stores: stores.clone(),
            client: client.clone(),
        };
        runner.spawn(workers, &Arc::new(orphans), &queues.orphaned_callers, 1);
        let conditions = OperatorConditions(stores.clone());
        runner.spawn(workers, &Arc::new(conditions), &queues.conditions, WORKERS);
        let namespaces = Namespaces(stores.clone());
        runner.spawn(workers, &Arc::new(namespaces), &queues.namespaces, WORKERS);
        let operators = Operators {
            stores: stores.clone(),
            index: components,
        };
        runner.spawn(workers, &Arc::new(operators), &queues.operators, WORKERS);
        let adoptions = Adoptions {
            stores: stores.clone(),
            kinds: owned,
        };
        runner.spawn(workers, &Arc::new(adoptions), &queues.adoptions, WORKERS);
        let copies = CopiedCsvs {
            stores: stores.clone(),
            contents: Contents::new(client.clone()),
            protected: Arc::clone(&protected),
        };
        runner.spawn(workers, &Arc::new(copies), &queues.copies, WORKERS_OF_COPIES);
        let configs = OlmConfigs {
            stores: stores.clone(),
            protected,
        };
        runner.spawn(workers, &Arc::new(configs), &queues.olm_configs, 1);
        let groups = GroupRoles {
            stores: stores.clone(),
            client,
        };
        runner.spawn(workers, &Arc::new(groups), &queues.group_roles, WORKERS);
        let apis = ApiRoles {
            stores: stores.clone(),
            made: api_roles,
        };
        runner.spawn(workers, &Arc::new(apis), &queues.api_roles, WORKERS);
        wiring::connect_first_rounds(&runner.first_rounds, &queues, &cluster_operators);
        let reports = Reports {
            stores,
            cluster_operators,
            settings: reports,
            first_rounds: runner.first_rounds.clone(),
            since: Instant::now(),
        };
        runner.spawn(workers, &Arc::new(reports), &queues.cluster_operators, 1);
        tasks
    })
}
