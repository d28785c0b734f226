use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use olm_api::v1::OperatorGroup;
use olm_api::v1alpha1::{CatalogSource, ClusterServiceVersion, InstallPlan, Subscription};
use olm_fbc::entry::{BundleEntry, CatalogSnapshot, Deprecation, EntryProperty};
use olm_fbc::version::{Range, Version};
use olm_runtime::driver::Reconciler;
use olm_runtime::outcome::{Failure, FailureClass, Outcome, outcomes_for_tests};
use olm_runtime::plan::{Action, EventDraft, Plan, Requeue};
use olm_runtime::store::Store;
use olm_runtime::{NamespacedName, Timestamp};
use serde_json::{Value, json};
use tokio::time::sleep;
use tonic::transport::Channel;

use super::super::reconciler::{ResolutionReconciler, ResolutionStores};
use crate::bundle_unpack::error::{UnpackClass, UnpackError};
use crate::bundle_unpack::unpacker::BundleSource;
use crate::bundle_unpack::{UnpackedBundle, Unpacker, UnpackerConfig};
use crate::catalog_source::connection::testing::{self, Answering};
use crate::catalog_source::connection::{ConnectionState, Connections, Endpoint};
use crate::snapshots::{CatalogReader, Snapshots};

pub const NAMESPACE: &str = "ns";
pub const GLOBAL: &str = "olm";

/// A bundle as a catalog has it: `package.vN` in channel `stable`, image `reg/package:vN`.
pub struct BundleRow(BundleEntry);

pub fn bundle(name: &str) -> BundleRow {
    let (package, version) = name.split_once(".v").unwrap();
    let text = format!("{version}.0.0");
    BundleRow(BundleEntry {
        name: name.into(),
        package: package.into(),
        channel: "stable".into(),
        default_channel: true,
        version: Version::parse(&text).ok(),
        replaces: None,
        skips: Arc::new([]),
        skip_range: None,
        properties: Arc::new([EntryProperty::new(
            "olm.package",
            format!(r#"{{"packageName": "{package}", "version": "{text}"}}"#),
        )]),
        provided_apis: Arc::new([]),
        required_apis: Arc::new([]),
        bundle_path: Some(format!("reg/{package}:v{version}").into()),
        inline: None,
        deprecation: None,
    })
}

impl BundleRow {
    pub fn replaces(mut self, name: &str) -> Self {
        self.0.replaces = Some(name.into());
        self
    }

    pub fn skip_range(mut self, range: &str) -> Self {
        self.0.skip_range = Some(Arc::new(Range::parse(range).unwrap()));
        self
    }

    pub fn channel(mut self, channel: &str, default: bool) -> Self {
        (self.0.channel, self.0.default_channel) = (channel.into(), default);
        self
    }

    pub fn provides(self, kind: &str) -> Self {
        self.property("olm.gvk", kind)
    }

    pub fn requires(self, kind: &str) -> Self {
        self.property("olm.gvk.required", kind)
    }

    pub fn deprecated(mut self, text: &str) -> Self {
        self.0.deprecation = Some(Arc::new(Deprecation {
            bundle: Some(text.into()),
            ..Deprecation::default()
        }));
        self
    }

    fn property(mut self, type_: &str, kind: &str) -> Self {
        let value = format!(r#"{{"group":"example.com","version":"v1","kind":"{kind}"}}"#);
        self.0.properties = self
            .0
            .properties
            .iter()
            .cloned()
            .chain([EntryProperty::new(type_, value)])
            .collect();
        self
    }
}

type Contents = Arc<Mutex<BTreeMap<String, Vec<BundleEntry>>>>;

/// What a registry server has is looked up by the address in the channel's place: tests have one reader a catalog.
struct Reader {
    contents: Contents,
    current: Arc<Mutex<Vec<String>>>,
}

#[async_trait]
impl CatalogReader for Reader {
    async fn read(&self, _channel: Channel) -> Result<CatalogSnapshot, String> {
        // Catalogs are connected, and so read, one after the other.
        let name = self.current.lock().unwrap().first().cloned().unwrap_or_default();
        let entries = self
            .contents
            .lock()
            .unwrap()
            .get(&name)
            .cloned()
            .unwrap_or_default();
        Ok(CatalogSnapshot::new(BTreeMap::new(), entries))
    }
}

/// Bundle images: what is not in the map is unpacked into a ClusterServiceVersion of its name.
#[derive(Default)]
struct Images {
    broken: Mutex<BTreeMap<String, UnpackError>>,
    slow: Mutex<Option<Duration>>,
}

#[async_trait]
impl BundleSource for Images {
    async fn fetch(&self, image: &str, _catalog: &NamespacedName) -> Result<UnpackedBundle, UnpackError> {
        let slow = *self.slow.lock().unwrap();
        if let Some(slow) = slow {
            sleep(slow).await;
        }
        if let Some(error) = self.broken.lock().unwrap().get(image) {
            return Err(error.clone());
        }
        let name = image.rsplit('/').next().unwrap_or_default().replace(':', ".");
        Ok(UnpackedBundle {
            image: format!("{image}@sha256:00"),
            csv: json!({
                "apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion", "metadata": {"name": name},
                "spec": {"install": {"strategy": "deployment", "spec": {"deployments": []}}},
            }),
            objects: Vec::new(),
        })
    }
}

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
    reconciler: ResolutionReconciler,
    snapshots: Snapshots,
    unpacker: Unpacker,
    images: Arc<Images>,
    contents: Contents,
    current: Arc<Mutex<Vec<String>>>,
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
        let connections = Connections::new(|_: &NamespacedName| {});
        let reader = Reader {
            contents: Arc::clone(&contents),
            current: Arc::clone(&current),
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
            reconciler,
            snapshots,
            unpacker,
            images,
            contents,
            current,
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

    fn perform(&mut self, action: &Action) -> Outcome {
        match action {
            Action::Create { object, .. } => {
                if let Some(text) = self.refuse.clone() {
                    return refused(action, text);
                }
                let version = self.next_version();
                let mut object = object.clone();
                let name = format!("install-{version}");
                object["metadata"]["name"] = json!(name);
                object["metadata"]["uid"] = json!(format!("uid-{name}"));
                object["metadata"]["resourceVersion"] = json!(version);
                object.as_object_mut().unwrap().remove("status");
                self.writes.push(action.to_string());
                self.stores.plans.put(serde_json::from_value(object).unwrap());
            }
            Action::Patch {
                target,
                patch,
                subresource,
                guard,
                ..
            } => {
                assert_eq!(*subresource, Some("status"));
                if let Some(text) = self
                    .refuse_status
                    .clone()
                    .filter(|_| target.api.kind == "InstallPlan")
                {
                    return refused(action, text);
                }
                self.writes
                    .push(format!("patch status of {} {}", target.api.kind, target.name));
                let version = self.next_version();
                let uid = guard.uid.clone();
                match target.api.kind.as_str() {
                    "InstallPlan" => {
                        patch_in(&self.stores.plans, &target.name, uid.as_ref(), patch, &version);
                    }
                    "Subscription" => patch_in(
                        &self.stores.subscriptions,
                        &target.name,
                        uid.as_ref(),
                        patch,
                        &version,
                    ),
                    other => unreachable!("patch of {other}"),
                }
            }
            Action::Delete { target, .. } => {
                self.writes.push(action.to_string());
                self.stores
                    .plans
                    .remove_for_tests(&NamespacedName::new(NAMESPACE, &target.name));
            }
            other => unreachable!("{other}"),
        }
        Outcome::Done(Arc::new(Value::Null))
    }

    /// Plays the InstallPlan reconciler and olm-operator for every plan that may be carried out.
    pub fn carry_out_plans(&mut self) {
        for plan in self.stores.plans.list() {
            let phase = plan
                .status
                .as_ref()
                .map(|status| status.phase.to_string())
                .unwrap_or_default();
            if phase != "Installing" {
                continue;
            }
            for csv in &plan.spec.cluster_service_version_names {
                self.put_csv(csv);
            }
            for step in plan
                .status
                .iter()
                .flat_map(|status| &status.plan)
                .filter(|step| step.resource.kind == "Subscription")
            {
                let mut object: Value =
                    serde_json::from_str(step.resource.manifest.as_deref().unwrap()).unwrap();
                object["metadata"]["uid"] = json!(format!("uid-{}", step.resource.name));
                object["metadata"]["resourceVersion"] = json!(self.next_version());
                object["metadata"]["annotations"] = json!({"olm.generated-by": plan.metadata.name});
                self.stores
                    .subscriptions
                    .put(serde_json::from_value(object).unwrap());
            }
            self.set_phase(plan.metadata.name.as_deref().unwrap(), "Complete");
        }
    }

    pub fn put_csv(&mut self, name: &str) {
        let replaces = self.stores.plans.list().iter().find_map(|plan| {
            let lookups = plan.status.iter().flat_map(|status| &status.bundle_lookups);
            lookups
                .into_iter()
                .find(|lookup| lookup.identifier == *name)
                .map(|lookup| lookup.replaces.clone())
        });
        let version = self.next_version();
        let (package, number) = name.split_once(".v").unwrap();
        let properties = json!({"properties": [
            {"type": "olm.package", "value": {"packageName": package, "version": format!("{number}.0.0")}},
            {"type": "olm.gvk", "value": {"group": "example.com", "version": "v1", "kind": format!("Of{package}")}},
        ]});
        let csv: ClusterServiceVersion = serde_json::from_value(json!({
            "apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion",
            "metadata": {"name": name, "namespace": NAMESPACE, "uid": format!("uid-{name}"), "resourceVersion": version,
                "annotations": {"operatorframework.io/properties": properties.to_string()}},
            "spec": {"displayName": name, "version": format!("{number}.0.0"), "install": {"strategy": "deployment"}},
            "status": {"phase": "Succeeded"},
        }))
        .unwrap();
        self.stores.csvs.put(csv);
        // The successor has succeeded: what it replaces goes.
        if let Some(replaced) = replaces.filter(|replaced| !replaced.is_empty()) {
            self.stores
                .csvs
                .remove_for_tests(&NamespacedName::new(NAMESPACE, replaced));
        }
    }

    /// A ClusterServiceVersion that replaces another, which stays.
    pub fn put_csv_beside(&mut self, name: &str, replaced: &str) {
        let kept = self.stores.csvs.get(NAMESPACE, replaced).unwrap();
        self.put_csv(name);
        let mut csv = ClusterServiceVersion::clone(&self.stores.csvs.get(NAMESPACE, name).unwrap());
        csv.spec.replaces = Some(replaced.to_owned());
        csv.metadata.resource_version = Some(self.next_version());
        self.stores.csvs.put(csv);
        let mut kept = ClusterServiceVersion::clone(&kept);
        kept.metadata.resource_version = Some(self.next_version());
        self.stores.csvs.put(kept);
    }

    pub fn set_csv_phase(&mut self, name: &str, phase: &str) {
        let version = self.next_version();
        patch_in(
            &self.stores.csvs,
            name,
            None,
            &json!({"status": {"phase": phase}}),
            &version,
        );
    }

    pub fn terminate_namespace(&mut self) {
        let version = self.next_version();
        let meta = json!({"metadata": {"name": NAMESPACE, "resourceVersion": version, "deletionTimestamp": "2026-01-01T00:00:00Z"}});
        self.stores.namespaces.put(serde_json::from_value(meta).unwrap());
    }

    pub fn set_phase(&mut self, plan: &str, phase: &str) {
        let version = self.next_version();
        patch_in(
            &self.stores.plans,
            plan,
            None,
            &json!({"status": {"phase": phase}}),
            &version,
        );
    }

    pub fn plans(&self) -> Vec<Arc<InstallPlan>> {
        self.stores.plans.list()
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
        for plan in self.stores.plans.list() {
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

fn refused(action: &Action, message: String) -> Outcome {
    Outcome::Failed(Failure {
        class: FailureClass::Forbidden,
        code: 403,
        message,
        action: action.to_string(),
    })
}

fn patch_in<K>(store: &Store<K>, name: &str, uid: Option<&String>, patch: &Value, version: &str)
where
    K: olm_runtime::store::Stored + serde::Serialize,
{
    let known = store.get(NAMESPACE, name).unwrap();
    if uid.is_some() {
        assert_eq!(known.meta().uid.as_ref(), uid);
    }
    let mut object = serde_json::to_value(known.as_ref()).unwrap();
    merge(&mut object, patch);
    object["metadata"]["resourceVersion"] = json!(version);
    store.put(serde_json::from_value(object).unwrap());
}

fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = json!({});
    }
    for (key, value) in patch {
        if value.is_null() {
            target.as_object_mut().unwrap().remove(key);
        } else {
            merge(&mut target[key], value);
        }
    }
}
