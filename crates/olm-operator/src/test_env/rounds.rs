//! Single reconciles for tests, with real stores, executor and reads, but without a queue.

use std::sync::Arc;

use olm_runtime::{
    NamespacedName, apply::Executor, clock, discovery::Discovery, driver::Reconciler, gate::WriteGate,
    outcome::Outcomes, plan::Plan, store::StoreSet,
};
use tokio::task::JoinSet;

use super::TestEnv;
use crate::{
    copied_csv::{self, CopiedCsvs, CopyKey, content::Contents},
    csv::{Csv, observed::Observed},
    namespace::Namespaces,
    operator_group::OperatorGroups,
    stores::Stores,
};

impl TestEnv {
    /// Runs one reconcile of the ClusterServiceVersion controller. A running operator is killed first.
    pub(crate) fn round_of_csv(&mut self, key: &NamespacedName) {
        let key = key.clone();
        self.with_stores(async move |stores, client, executor| {
            round(&csvs(stores, client), &key, &executor).await;
        });
    }

    /// Runs reconciles of the controllers that the ClusterServiceVersion controller waits for, but not of
    /// that one.
    pub(crate) fn settle_namespace_and_group(&mut self) {
        for _ in 0..2 {
            self.with_stores(async |stores, client, executor| {
                let groups = OperatorGroups {
                    stores: stores.clone(),
                    client,
                };
                for group in stores.groups.list() {
                    round(&groups, &NamespacedName::from_object(group.as_ref()), &executor).await;
                }
                let namespaces = Namespaces(stores.clone());
                for namespace in stores.namespaces.list() {
                    round(
                        &namespaces,
                        &NamespacedName::from_object(namespace.as_ref()),
                        &executor,
                    )
                    .await;
                }
            });
        }
    }

    /// Returns the observation of a reconcile of the ClusterServiceVersion controller now.
    pub(crate) fn observe(&mut self, key: &NamespacedName) -> Option<Observed> {
        let key = key.clone();
        self.with_stores(async move |stores, client, _| csvs(stores, client).observe(&key).await.unwrap())
    }

    /// Returns the plan of a reconcile of a copy now.
    pub(crate) fn plan_of_copy(&mut self, from: &str, name: &str, to: &str) -> String {
        let key = CopyKey {
            from: from.into(),
            name: name.into(),
            to: to.into(),
        };
        self.with_stores(async move |stores, client, _| {
            let copies = CopiedCsvs {
                stores,
                contents: Contents::new(client),
                protected: Arc::default(),
            };
            let observed = copies.observe(&key).await.unwrap();
            observed.map_or_else(String::new, |observed| {
                copied_csv::decide::decide(&observed).to_string()
            })
        })
    }

    /// Executes a plan. A running operator is killed first.
    pub(crate) fn act(&mut self, plan: Plan) -> Outcomes {
        self.with_stores(async move |_, _, executor| executor.act(&plan).await)
    }

    fn with_stores<T>(&mut self, work: impl AsyncFnOnce(Stores, kube::Client, Executor) -> T) -> T {
        self.kill();
        let cluster = self.cluster.clone();
        self.run(async move {
            let (client, link) = cluster.connect();
            let mut set = StoreSet::new();
            let stores = Stores::register(&mut set, &client);
            let mut watches = JoinSet::new();
            let mut readiness = set.start(&mut watches);
            readiness.wait().await;
            let executor = Executor::new(client.clone(), readiness, WriteGate::default());
            let result = work(stores, client, executor).await;
            link.kill();
            result
        })
    }
}

fn csvs(stores: Stores, client: kube::Client) -> Csv {
    let discovery = Discovery::new(client.clone());
    Csv {
        stores,
        discovery,
        client,
    }
}

async fn round<R: Reconciler>(reconciler: &R, key: &R::Key, executor: &Executor) {
    let Some(observed) = reconciler.observe(key).await.unwrap() else {
        return;
    };
    let now = clock::now();
    let (plan, verdict) = R::decide(&observed, None, now);
    let outcomes = executor.act(&plan).await;
    for patch in R::status(&observed, verdict, &outcomes, now).patches {
        executor.perform(&patch).await;
    }
}
