//! Builds the stores, waits until all are ready, starts the controllers. No decisions.

mod wiring;

use std::{sync::Arc, time::Duration};

use anyhow::Context;
use olm_runtime::{
    admin, apply::Executor, client, discovery::Discovery, driver::Runner, event::Recorder, queue::Queue,
    store::StoreSet,
};
use tokio::{sync::watch, task::JoinSet};

use crate::{
    args::Args,
    csv::{Csv, observe::reading::Reader},
    namespace::Namespaces,
    operator_condition::OperatorConditions,
    operator_group::OperatorGroups,
    stores::Stores,
};

/// Rounds of one controller at a time.
const WORKERS: usize = 2;
/// How long rounds in hand may take after the signal to stop.
const LAST_ROUNDS: Duration = Duration::from_secs(20);

/// The queues of the controllers.
#[derive(Clone, Default)]
pub struct Queues {
    /// ClusterServiceVersions.
    pub csvs: Queue<olm_runtime::NamespacedName>,
    /// OperatorGroups.
    pub groups: Queue<olm_runtime::NamespacedName>,
    /// OperatorConditions.
    pub conditions: Queue<olm_runtime::NamespacedName>,
    /// Namespaces.
    pub namespaces: Queue<olm_runtime::NamespacedName>,
}

/// Runs until SIGTERM or SIGINT.
///
/// # Errors
/// When the API server cannot be configured or the health address cannot be bound.
pub async fn run(args: Args) -> anyhow::Result<()> {
    let client = client::connect(args.kubeconfig.as_deref()).await?;
    let mut set = StoreSet::new();
    let stores = Stores::register(&mut set, &client);
    let queues = Queues::default();
    wiring::connect(&stores, &queues);

    let mut watches = JoinSet::new();
    let mut readiness = set.start(&mut watches);
    let mut health = std::pin::pin!(admin::serve(args.health_addr, readiness.clone()));
    let unhealthy = || format!("cannot serve health on {}", args.health_addr);
    let (recorder, sending) = Recorder::new(client.clone());
    watches.spawn(sending);

    let (stop, shutdown) = watch::channel(false);
    let mut signals = std::pin::pin!(stop_signal());
    tokio::select! {
        () = readiness.wait() => {}
        () = &mut signals => return Ok(()),
        ended = &mut health => return ended.with_context(unhealthy),
    }
    tracing::info!("all stores are ready");
    let runner = Runner {
        executor: Executor::new(client.clone(), readiness),
        recorder,
        shutdown,
    };
    let mut workers = start(&runner, &stores, &queues, client);
    tokio::select! {
        () = signals => {}
        ended = &mut health => return ended.with_context(unhealthy),
    }
    tracing::info!("stopping, rounds in hand are finished");
    let _ = stop.send(true);
    let finished = async { while workers.join_next().await.is_some() {} };
    if tokio::time::timeout(LAST_ROUNDS, finished).await.is_err() {
        tracing::warn!("rounds in hand took too long, stopping anyway");
    }
    Ok(())
}

fn start(runner: &Runner, stores: &Stores, queues: &Queues, client: kube::Client) -> JoinSet<()> {
    let mut workers = JoinSet::new();
    let reader = Reader {
        stores: stores.clone(),
        discovery: Discovery::new(client.clone()),
        client,
    };
    runner.spawn(&mut workers, &Arc::new(Csv { reader }), &queues.csvs, WORKERS);
    let groups = OperatorGroups {
        stores: stores.clone(),
    };
    runner.spawn(&mut workers, &Arc::new(groups), &queues.groups, WORKERS);
    let conditions = OperatorConditions {
        stores: stores.clone(),
    };
    runner.spawn(&mut workers, &Arc::new(conditions), &queues.conditions, WORKERS);
    let namespaces = Namespaces {
        stores: stores.clone(),
    };
    runner.spawn(&mut workers, &Arc::new(namespaces), &queues.namespaces, WORKERS);
    workers
}

/// Ends with SIGTERM or SIGINT.
async fn stop_signal() {
    use tokio::signal::unix::{SignalKind, signal};
    let (Ok(mut terminate), Ok(mut interrupt)) =
        (signal(SignalKind::terminate()), signal(SignalKind::interrupt()))
    else {
        tracing::warn!("signals cannot be caught; the process stops only when killed");
        return std::future::pending().await;
    };
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
}
