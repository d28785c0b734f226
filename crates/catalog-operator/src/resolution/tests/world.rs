mod contents;
mod writes;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use olm_api::v1::OperatorGroup;
use olm_api::v1alpha1::{CatalogSource, ClusterServiceVersion, InstallPlan, Subscription};
use olm_fbc::entry::{BundleEntry, CatalogSnapshot, Deprecation, EntryProperty};
use olm_fbc::version::{Range, Version};
use olm_runtime::driver::Reconciler;
use olm_runtime::outcome::{Failure, FailureClass, Outcome, outcomes_for_tests};
use olm_runtime::plan::{Action, EventDraft, Exists, Plan, Requeue};
use olm_runtime::store::Store;
use olm_runtime::{NamespacedName, Timestamp};
use serde_json::{Value, json};
use tokio::time::sleep;
use tonic::transport::Channel;

pub use self::contents::{BundleRow, bundle};
use self::contents::{Contents, Images, Reader};
use super::super::reconciler::{ResolutionReconciler, ResolutionStores};
use crate::bundle_unpack::error::{UnpackClass, UnpackError};
use crate::bundle_unpack::unpacker::BundleSource;
use crate::bundle_unpack::{UnpackedBundle, Unpacker, UnpackerConfig};
use crate::catalog_source::connection::testing::{self, Answering};
use crate::catalog_source::connection::{ConnectionState, Connections, Endpoint};
use crate::snapshots::{CatalogReader, Snapshots};

pub const NAMESPACE: &str = "ns";
pub const GLOBAL: &str = "olm";

pub struct World {
    pub stores: ResolutionStores,
    pub connections: Connections,
    pub events: Vec<EventDraft>,
    pub requeue: Requeue,
    /// Actions carried out, as text.
    pub writes: Vec<String>,
    /// Stops the process after this many writes.
    pub crash_after: Option<usize>,
    /// Refuses creations with this text.
    pub refuse: Option<String>,
    /// Refuses statuses of InstallPlans with this text.
    pub refuse_status: Option<String>,
    /// Creations are carried out, but neither answered nor told by the watch.
    pub lose_answers: bool,
    late: Option<Value>,
    reconciler: ResolutionReconciler,
    pub snapshots: Snapshots,
    unpacker: Unpacker,
    images: Arc<Images>,
    contents: Contents,
    current: Arc<Mutex<Vec<String>>>,
    /// Whether catalogs cannot be read.
    pub failing: Arc<AtomicBool>,
    version: u64,
    port: u16,
    _server: Answering,
}

impl World {
    pub async fn new() -> Self {
        let (server, port) = testing::answer_anywhere().await;
        let stores = ResolutionStores {
            subscriptions: Store::new(),
            plans: Store::new(),
            csvs: Store::new(),
            groups: Store::new(),
            sources: Store::new(),
            namespaces: Store::new(),
        };
        let (contents, current) = (Contents::default(), Arc::<Mutex<Vec<String>>>::default());
        let failing = Arc::<AtomicBool>::default();
        let connections = Connections::new(|_: &NamespacedName| {});
        let reader = Reader {
            contents: Arc::clone(&contents),
            current: Arc::clone(&current),
            failing: Arc::clone(&failing),
        };
        let snapshots = Snapshots::new(connections.clone(), Arc::new(reader), |_: &str| {});
        let images = Arc::new(Images::default());
        let source: Arc<dyn BundleSource> = Arc::<Images>::clone(&images);
        let unpacker = Unpacker::new(source, UnpackerConfig::default(), |_| {});
        let reconciler =
            ResolutionReconciler::new(stores.clone(), snapshots.clone(), unpacker.clone(), GLOBAL);
        Self {
            stores,
            connections,
            events: Vec::new(),
            requeue: Requeue::AwaitChange,
            writes: Vec::new(),
            crash_after: None,
            refuse: None,
            refuse_status: None,
            lose_answers: false,
            late: None,
            reconciler,
            snapshots,
            unpacker,
            images,
            contents,
            current,
            failing,
            version: 100,
            port,
            _server: server,
        }
    }

    /// A world with an OperatorGroup and a catalog `cat` of these bundles that is served.
    pub async fn with_catalog(bundles: impl IntoIterator<Item = BundleRow>) -> Self {
        let mut world = Self::new().await;
        world.add_group("og", &json!({}), &json!({}));
        world.serve(NAMESPACE, "cat", bundles).await;
        world
    }

    fn next_version(&mut self) -> String {
        self.version += 1;
        self.version.to_string()
    }

    pub fn add_group(&mut self, name: &str, annotations: &Value, spec: &Value) {
        let version = self.next_version();
        let group: OperatorGroup = serde_json::from_value(json!({
            "apiVersion": "operators.coreos.com/v1", "kind": "OperatorGroup",
            "metadata": {"name": name, "namespace": NAMESPACE, "annotations": annotations, "uid": name, "resourceVersion": version},
            "spec": spec,
        }))
        .unwrap();
        self.stores.groups.put(group);
    }

    /// Makes a catalog serve these bundles, with its status and contents read.
    pub async fn serve(&mut self, namespace: &str, name: &str, bundles: impl IntoIterator<Item = BundleRow>) {
        let status = json!({
            "registryService": {"protocol": "grpc"},
            "connectionState": {"address": "a", "lastObservedState": "READY"},
        });
        self.put_source(
            namespace,
            name,
            &json!({"sourceType": "grpc", "image": "i"}),
            &status,
        );
        let entries = bundles.into_iter().map(|row| row.0).collect();
        self.contents.lock().unwrap().insert(name.to_owned(), entries);
        self.current.lock().unwrap().insert(0, name.to_owned());
        let key = NamespacedName::new(namespace, name);
        self.version += 1;
        let endpoint = Endpoint {
            address: "cat.ns.svc:1".to_owned(),
            dial: format!("127.0.0.1:{}", self.port),
            epoch: self.version.to_string(),
            may_change: false,
        };
        while !matches!(
            self.connections.aim(&key, Some(endpoint.clone())),
            ConnectionState::Ready(_)
        ) {
            sleep(Duration::from_millis(2)).await;
        }
        let before = self.snapshots.read_generation(&key);
        while self.snapshots.read_generation(&key) == before {
            self.snapshots.get(&key, "the test");
            sleep(Duration::from_millis(2)).await;
        }
    }

    pub fn put_source(&mut self, namespace: &str, name: &str, spec: &Value, status: &Value) {
        let version = self.next_version();
        let source: CatalogSource = serde_json::from_value(json!({
            "apiVersion": "operators.coreos.com/v1alpha1", "kind": "CatalogSource",
            "metadata": {"name": name, "namespace": namespace, "uid": format!("uid-{name}"), "resourceVersion": version},
            "spec": spec, "status": status,
        }))
        .unwrap();
        self.stores.sources.put(source);
    }

    /// A Subscription to `package` in `cat`; `spec` adds to or replaces the rest.
    pub fn subscribe(&mut self, package: &str, spec: &Value) {
        let version = self.next_version();
        let mut full =
            json!({"channel": "stable", "name": package, "source": "cat", "sourceNamespace": NAMESPACE});
        full.as_object_mut()
            .unwrap()
            .extend(spec.as_object().unwrap().clone());
        let subscription: Subscription = serde_json::from_value(json!({
            "apiVersion": "operators.coreos.com/v1alpha1", "kind": "Subscription",
            "metadata": {"name": format!("{package}-sub"), "namespace": NAMESPACE, "uid": format!("uid-{package}-sub"), "resourceVersion": version},
            "spec": full,
        }))
        .unwrap();
        self.stores.subscriptions.put(subscription);
    }

    pub fn break_image(&self, image: &str, class: UnpackClass, cause: &str) {
        self.images
            .broken
            .lock()
            .unwrap()
            .insert(image.to_owned(), UnpackError::new(class, cause));
    }

    pub fn mend_images(&self) {
        self.images.broken.lock().unwrap().clear();
        self.unpacker
            .forget_failures(&NamespacedName::new(NAMESPACE, "cat"));
    }

    pub fn slow_images(&self, slow: Duration) {
        *self.images.slow.lock().unwrap() = Some(slow);
    }

    pub fn restart(&mut self) {
        self.crash_after = None;
        self.reconciler = ResolutionReconciler::new(
            self.stores.clone(),
            self.snapshots.clone(),
            self.unpacker.clone(),
            GLOBAL,
        );
    }

    /// Rounds until nothing is written any more and no bundle is on its way.
    pub async fn settle(&mut self) {
        let mut idle = 0;
        for _ in 0..200 {
            let before = self.writes.len();
            if self.round().await {
                return;
            }
            let bundles_pending = matches!(
                self.requeue,
                Requeue::After {
                    reason: "bundle or catalog being fetched",
                    ..
                }
            );
            idle = if self.writes.len() == before && !bundles_pending {
                idle + 1
            } else {
                0
            };
            if idle == 2 {
                return;
            }
            sleep(Duration::from_millis(2)).await;
        }
        unreachable!("no rest after 200 rounds: {:#?}", self.writes);
    }

    /// One round. Returns whether the process has ended in it.
    pub async fn round(&mut self) -> bool {
        let key = NAMESPACE.to_owned();
        let Some(observed) = self.reconciler.observe(&key).await.unwrap() else {
            return false;
        };
        let now = Timestamp::from_second(1_800_000_000).unwrap();
        let (plan, verdict) = self.reconciler.decide(&observed, now);
        let Plan {
            actions,
            events,
            requeue,
            ..
        } = plan;
        self.requeue = requeue;
        let mut results = Vec::new();
        let mut failed = false;
        for action in &actions {
            if failed {
                results.push(Outcome::NotAttempted);
                continue;
            }
            if self.crash_after == Some(self.writes.len()) {
                return true;
            }
            let outcome = self.perform(action);
            failed = matches!(outcome, Outcome::Failed(_));
            results.push(outcome);
        }
        self.reconciler
            .status(&observed, verdict, &outcomes_for_tests(results), now);
        if !failed {
            self.events.extend(events);
        }
        self.crash_after == Some(self.writes.len())
    }

    pub fn plans(&self) -> Vec<Arc<InstallPlan>> {
        let mut plans = self.stores.plans.list();
        plans.sort_by_key(|plan| plan.spec.generation);
        plans
    }

    pub fn subscription(&self, name: &str) -> Arc<Subscription> {
        self.stores.subscriptions.get(NAMESPACE, name).unwrap()
    }

    /// State, versions, plan and conditions of every Subscription.
    pub fn describe(&self) -> String {
        let mut lines = Vec::new();
        for subscription in self.stores.subscriptions.list() {
            let status = subscription.status.clone().unwrap_or_default();
            let text = |part: &Option<String>| part.clone().unwrap_or_else(|| "-".to_owned());
            lines.push(format!(
                "{}: state={} installed={} current={} gen={}",
                text(&subscription.metadata.name),
                status.state,
                text(&status.installed_csv),
                text(&status.current_csv),
                status.install_plan_generation.unwrap_or(0),
            ));
            for condition in &status.conditions {
                let reason = text(&condition.reason);
                lines.push(format!(
                    "  {}={}/{reason} {}",
                    condition.type_,
                    condition.status,
                    condition.message.clone().unwrap_or_default()
                ));
            }
        }
        for plan in self.plans() {
            let status = plan.status.clone().unwrap_or_default();
            let steps: Vec<String> = status
                .plan
                .iter()
                .map(|step| format!("{}/{}", step.resource.kind, step.resource.name))
                .collect();
            lines.push(format!(
                "plan gen={} {} approved={} {}: {:?} {}",
                plan.spec.generation.unwrap_or(0),
                plan.spec.approval,
                plan.spec.approved,
                plan.spec.cluster_service_version_names.join(","),
                status.phase,
                steps.join(" "),
            ));
        }
        lines
            .iter()
            .map(|line| line.trim_end())
            .collect::<Vec<_>>()
            .join("\n")
    }
}
