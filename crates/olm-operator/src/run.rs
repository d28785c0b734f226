//! Builds the stores, waits until all are ready, starts the controllers. No decisions.

#[cfg(test)]
mod tests;
mod wiring;

use std::sync::Arc;

use olm_runtime::{
    client, discovery::Discovery, driver::Runner, metrics::Metrics, process, queue::Queue, store::StoreSet,
};
use tokio::task::JoinSet;

use crate::{
    args::Args,
    csv::{
        Csv,
        observe::{Reader, accounts::KnownAccounts},
    },
    metrics,
    mislabelled_csv::MislabelledCsvs,
    namespace::Namespaces,
    operator_condition::OperatorConditions,
    operator_group::OperatorGroups,
    stores::Stores,
};

/// Rounds of one controller at a time.
const WORKERS: usize = 4;
/// Rounds of one namespace at a time: whatever they wait for, there are workers left for the others.
const WORKERS_OF_A_NAMESPACE: usize = 2;

/// The queues of the controllers.
#[derive(Clone)]
pub(crate) struct Queues {
    pub(crate) csvs: Queue<olm_runtime::NamespacedName>,
    /// ClusterServiceVersions that pass for copies.
    pub(crate) mislabelled_csvs: Queue<olm_runtime::NamespacedName>,
    pub(crate) groups: Queue<olm_runtime::NamespacedName>,
    pub(crate) conditions: Queue<olm_runtime::NamespacedName>,
    pub(crate) namespaces: Queue<olm_runtime::NamespacedName>,
}

impl Default for Queues {
    /// Empty queues in which namespaces take turns.
    fn default() -> Self {
        let fair = || Queue::fair(of_namespace, WORKERS_OF_A_NAMESPACE);
        Self {
            csvs: fair(),
            mislabelled_csvs: fair(),
            groups: fair(),
            conditions: fair(),
            namespaces: Queue::new(),
        }
    }
}

fn of_namespace(key: &olm_runtime::NamespacedName) -> &str {
    &key.namespace
}

/// Runs until SIGTERM or SIGINT.
///
/// # Errors
/// When the API server cannot be configured or the health address cannot be bound.
pub async fn run(args: Args) -> anyhow::Result<()> {
    let metrics = Metrics::registered()?;
    let client = client::connect(args.kubeconfig.as_deref(), &metrics).await?;
    let (set, start) = controllers(&client, &metrics);
    process::run(client, set, args.health_addr, metrics, start).await?;
    Ok(())
}

/// The stores, wired to the queues and to `metrics`, and what starts the controllers once the stores are ready.
pub fn controllers(
    client: &kube::Client,
    metrics: &Metrics,
) -> (StoreSet, impl FnOnce(&Runner) -> JoinSet<()> + use<>) {
    let mut set = StoreSet::new();
    let stores = Stores::register(&mut set, client);
    metrics::register(metrics, &stores.csvs);
    let queues = Queues::default();
    wiring::connect(&stores, &queues);
    let accounts = KnownAccounts::follow(&stores.account_news);
    let client = client.clone();
    (set, move |runner: &Runner| {
        start(runner, &stores, &queues, client, accounts)
    })
}

fn start(
    runner: &Runner,
    stores: &Stores,
    queues: &Queues,
    client: kube::Client,
    accounts: KnownAccounts,
) -> JoinSet<()> {
    let mut workers = JoinSet::new();
    let reader = Reader {
        stores: stores.clone(),
        discovery: Discovery::new(client.clone()),
        accounts,
        client: client.clone(),
    };
    runner.spawn(&mut workers, &Arc::new(Csv { reader }), &queues.csvs, WORKERS);
    let mislabelled_csvs = MislabelledCsvs {
        stores: stores.clone(),
    };
    runner.spawn(
        &mut workers,
        &Arc::new(mislabelled_csvs),
        &queues.mislabelled_csvs,
        1,
    );
    let groups = OperatorGroups {
        stores: stores.clone(),
        client: client.clone(),
    };
    runner.spawn(&mut workers, &Arc::new(groups), &queues.groups, WORKERS);
    let conditions = OperatorConditions {
        stores: stores.clone(),
        client,
    };
    runner.spawn(&mut workers, &Arc::new(conditions), &queues.conditions, WORKERS);
    let namespaces = Namespaces {
        stores: stores.clone(),
    };
    runner.spawn(&mut workers, &Arc::new(namespaces), &queues.namespaces, WORKERS);
    workers
}
