//! A cluster in memory, for the laws: it holds objects, performs plans, and stands in for the controllers of Kubernetes
//! that matter here (garbage collection, Deployments). Rounds run the real observe, decide and status functions.

mod objects;
mod writes;

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use jiff::Timestamp;
use kube::core::PartialObjectMeta;
use olm_runtime::{
    NamespacedName,
    outcome::{FailureClass, Outcome},
    plan::{Plan, Target},
};
use olm_testing::patch::merge;
use serde_json::{Value, json};

pub use objects::*;

use crate::{
    csv::{
        self,
        observe::{
            Grants, Kind, Leftover, Observed,
            reading::{self, grants},
        },
    },
    namespace, operator_condition, operator_group, owner,
    stores::{self, Stores},
};

/// Kind, namespace and name.
pub type Key = (String, String, String);

/// More rounds without rest mean that something goes round in circles.
const MOST_ROUNDS: usize = 200;

/// Kinds of which only what carries OLM's mark is watched.
const MANAGED_KINDS: [&str; 6] = [
    "Deployment",
    "ServiceAccount",
    "Role",
    "RoleBinding",
    "ClusterRole",
    "ClusterRoleBinding",
];

/// The model of a cluster.
pub struct World {
    stores: Stores,
    pub objects: BTreeMap<Key, Value>,
    /// What each field manager applied last, as the API server remembers it.
    applied: BTreeMap<(Key, &'static str), Value>,
    version: u64,
    pub now: Timestamp,
    pub server_version: String,
    pub served: BTreeSet<Kind>,
    /// Deployments that never become available, and how they say so.
    pub sick: BTreeMap<String, Value>,
    /// Kinds whose writes are refused.
    pub refused: BTreeMap<String, FailureClass>,
    /// Every write, in order.
    pub writes: Vec<String>,
    /// Every phase a ClusterServiceVersion was seen in.
    pub log: Vec<String>,
    /// Every event.
    pub events: Vec<String>,
    /// Stop acting after this many more writes, as a killed process does.
    pub killed_after: Option<usize>,
}

impl World {
    /// A cluster with namespace `ns` and the demo's CustomResourceDefinition.
    pub fn new() -> Self {
        let mut world = Self {
            stores: Stores::empty(),
            objects: BTreeMap::new(),
            applied: BTreeMap::new(),
            version: 0,
            now: "2026-01-01T00:00:00Z".parse().unwrap(),
            server_version: "v1.34.4".into(),
            served: BTreeSet::new(),
            sick: BTreeMap::new(),
            refused: BTreeMap::new(),
            writes: Vec::new(),
            log: Vec::new(),
            events: Vec::new(),
            killed_after: None,
        };
        world.put(namespace_object("ns"));
        world
    }

    /// The same with one more object.
    pub fn with(mut self, object: Value) -> Self {
        self.put(object);
        self
    }

    pub fn advance(&mut self, seconds: i64) {
        self.now += Duration::from_secs(seconds.unsigned_abs());
    }

    pub fn get(&self, kind: &str, namespace: &str, name: &str) -> Option<&Value> {
        self.objects.get(&(kind.into(), namespace.into(), name.into()))
    }

    #[track_caller]
    pub fn edit(&mut self, kind: &str, namespace: &str, name: &str, patch: Value) {
        let key = (kind.to_owned(), namespace.to_owned(), name.to_owned());
        let mut object = self
            .objects
            .get(&key)
            .cloned()
            .expect("the object to edit exists");
        merge(&mut object, &patch);
        self.store(key, object);
    }

    /// `phase reason: message` of a ClusterServiceVersion of `ns`.
    pub fn status(&self, name: &str) -> String {
        let Some(csv) = self.get("ClusterServiceVersion", "ns", name) else {
            return "gone".into();
        };
        let text = |field: &str| csv["status"][field].as_str().unwrap_or("-").to_owned();
        format!("{} {}: {}", text("phase"), text("reason"), text("message"))
    }

    pub fn names(&self, kind: &str) -> Vec<String> {
        self.objects
            .keys()
            .filter(|key| key.0 == kind)
            .map(|key| format!("{}/{}", key.1, key.2))
            .collect()
    }

    /// Everything that outlives a run, without versions and times: what two runs are compared by.
    pub fn normalised(&self) -> BTreeMap<Key, Value> {
        let strip = |object: &Value| {
            let mut object = object.clone();
            for field in ["uid", "resourceVersion", "creationTimestamp", "generation"] {
                object["metadata"].as_object_mut().unwrap().remove(field);
            }
            for owner in object["metadata"]["ownerReferences"]
                .as_array_mut()
                .into_iter()
                .flatten()
            {
                owner["uid"] = Value::Null;
            }
            let status = object["status"].as_object_mut();
            if let Some(status) = status {
                for field in [
                    "lastUpdateTime",
                    "lastTransitionTime",
                    "lastUpdated",
                    "conditions",
                    "observedGeneration",
                ] {
                    status.remove(field);
                }
                for row in status
                    .get_mut("requirementStatus")
                    .and_then(Value::as_array_mut)
                    .into_iter()
                    .flatten()
                {
                    row["uuid"] = Value::Null;
                }
            }
            object
        };
        self.objects
            .iter()
            .map(|(key, object)| (key.clone(), strip(object)))
            .collect()
    }

    // === Rounds ===

    /// Runs all controllers, and those of Kubernetes, until nobody writes any more.
    #[track_caller]
    pub fn settle(&mut self) {
        for _ in 0..MOST_ROUNDS {
            let before = self.writes.len();
            self.rounds();
            self.kubernetes();
            if self.writes.len() == before || self.is_killed() {
                return;
            }
        }
        let last = self.writes.iter().rev().take(8).collect::<Vec<_>>();
        panic!("no rest after {MOST_ROUNDS} rounds; the last writes: {last:#?}");
    }

    /// Settles now and whenever a wait of ours is over.
    #[track_caller]
    pub fn settle_long(&mut self) {
        for seconds in [3, 3, 15] {
            self.settle();
            self.advance(seconds);
        }
        self.settle();
    }

    /// Settles, second by second, for a while.
    #[track_caller]
    pub fn settle_for(&mut self, seconds: i64) {
        for _ in 0..seconds {
            self.settle();
            self.advance(1);
        }
        self.settle();
    }

    /// Rounds of the controllers that a ClusterServiceVersion's own waits for, but none of its own.
    pub fn settle_namespace_and_group(&mut self) {
        for _ in 0..3 {
            for key in self.keys("Namespace") {
                self.round_of_namespace(&key);
            }
            for key in self.keys("OperatorGroup") {
                self.round_of_group(&key);
            }
        }
    }

    fn rounds(&mut self) {
        for key in self.keys("Namespace") {
            self.round_of_namespace(&key);
        }
        for key in self.keys("OperatorGroup") {
            self.round_of_group(&key);
        }
        for key in self.keys("ClusterServiceVersion") {
            self.round_of_csv(&key);
            self.round_of_condition(&key);
        }
    }

    fn keys(&self, kind: &str) -> Vec<NamespacedName> {
        self.objects
            .keys()
            .filter(|key| key.0 == kind)
            .map(|key| NamespacedName::new(key.1.as_str(), key.2.as_str()))
            .collect()
    }

    /// One round of the ClusterServiceVersion controller.
    pub fn round_of_csv(&mut self, key: &NamespacedName) {
        let Some(observed) = self.observe(key) else { return };
        let (plan, verdict) = csv::decide::decide(&observed, self.now);
        let outcomes = self.act(&plan);
        let update = csv::status::status(&observed, verdict, &outcomes, self.now);
        self.finish(update);
    }

    fn round_of_group(&mut self, key: &NamespacedName) {
        let Some(observed) = operator_group::observe::observe(&self.stores, key) else {
            return;
        };
        let (plan, verdict) = operator_group::decide::decide(&observed);
        self.act(&plan);
        let update = operator_group::status::status(&observed, verdict, self.now);
        self.finish(update);
    }

    fn round_of_condition(&mut self, key: &NamespacedName) {
        let observed = operator_condition::observe(&self.stores, key);
        let Some(observed) = observed else { return };
        self.act(&operator_condition::decide::decide(&observed));
        let update = operator_condition::status::status(&observed);
        self.finish(update);
    }

    fn round_of_namespace(&mut self, key: &NamespacedName) {
        let Some(observed) = namespace::observe(&self.stores, key) else {
            return;
        };
        self.act(&namespace::decide(&observed));
    }

    fn finish(&mut self, update: olm_runtime::driver::StatusUpdate) {
        let Some(patch) = update.patch else { return };
        let plan = Plan {
            actions: vec![patch],
            ..Plan::default()
        };
        if self.act(&plan).all_done() {
            self.events.extend(
                update
                    .events
                    .into_iter()
                    .map(|event| format!("{}: {}", event.reason, event.message)),
            );
        }
    }

    fn is_killed(&self) -> bool {
        self.killed_after == Some(0)
    }

    /// What a round of the ClusterServiceVersion controller would see now.
    pub fn observe(&self, key: &NamespacedName) -> Option<Observed> {
        let mut observed = reading::from_stores(&self.stores, key)?;
        observed.cluster.server_version = self.server_version.clone();
        observed.cluster.served = self.served.clone();
        if observed.csv.metadata.deletion_timestamp.is_some() {
            observed.leftovers = self.leftovers(key);
            return Some(observed);
        }
        if let Ok(strategy) = observed.strategy.clone() {
            let permissions = strategy.permissions.iter().chain(&strategy.cluster_permissions);
            for name in permissions.map(|permission| &permission.service_account) {
                if let Some(found) = self.get("ServiceAccount", &key.namespace, name)
                    && (!reading::is_young(&observed, self.now) || name == "default")
                {
                    let found: PartialObjectMeta<_> = decode(json!({"metadata": found["metadata"]}));
                    observed
                        .accounts
                        .entry(name.clone())
                        .or_insert_with(|| reading::read_account(&found));
                }
            }
            if reading::needs_grants(&observed, &strategy, self.now) {
                observed.rbac.granted_by_others = Some(self.grants(key));
            }
        }
        Some(observed)
    }

    fn grants(&self, csv: &NamespacedName) -> Grants {
        let mut grants = Grants::default();
        let (mut local, mut global) = (Vec::new(), Vec::new());
        for ((kind, namespace, name), object) in &self.objects {
            let scope = (!namespace.is_empty()).then(|| namespace.clone());
            match kind.as_str() {
                "RoleBinding" if *namespace == csv.namespace => local.push(decode(object.clone())),
                "ClusterRoleBinding" => global.push(decode(object.clone())),
                "Role" | "ClusterRole" if !owner::is_of_another(&metadata(object), csv) => {
                    grants
                        .roles
                        .insert((scope, name.clone()), decode(object["rules"].clone()));
                }
                _ => {}
            }
        }
        grants.bindings = grants::bindings(csv, local, global);
        grants
    }

    fn leftovers(&self, csv: &NamespacedName) -> Vec<Leftover> {
        let labelled = self
            .objects
            .iter()
            .filter(|((kind, ..), object)| match kind.as_str() {
                "ClusterRole" | "ClusterRoleBinding" => {
                    owner::is_labelled(&metadata(object), &csv.namespace, &csv.name)
                }
                "Role" | "RoleBinding" => reading::stored::is_spread(&metadata(object), csv),
                _ => false,
            });
        labelled
            .map(|(key, object)| Leftover {
                target: Target::dynamic(
                    rbac_kind(&key.0),
                    Some(key.1.as_str()).filter(|namespace| !namespace.is_empty()),
                    &key.2,
                ),
                uid: object["metadata"]["uid"].as_str().map(str::to_owned),
            })
            .collect()
    }

    /// Feeds the stores as the watches would.
    fn feed(&self, (kind, namespace, name): &Key) {
        let all = &self.stores;
        let object = &self.objects[&(kind.clone(), namespace.clone(), name.clone())];
        if MANAGED_KINDS.contains(&kind.as_str()) && object["metadata"]["labels"]["olm.managed"] != "true" {
            return self.unfeed(kind, &NamespacedName::new(namespace.as_str(), name.as_str()));
        }
        match kind.as_str() {
            "ClusterServiceVersion" => all.csvs.put(pruned(object, stores::prune_csv)),
            "OperatorGroup" => all.groups.put(pruned(object, stores::prune_group)),
            "OperatorCondition" => all.conditions.put(decode(object.clone())),
            "Subscription" => all.subscriptions.put(pruned(object, stores::prune_subscription)),
            "CustomResourceDefinition" => {
                all.crds
                    .put(pruned(object, stores::CustomResourceDefinition::prune));
            }
            "APIService" => all.api_services.put(pruned(object, stores::prune_api_service)),
            "Namespace" => all
                .namespaces
                .put(decode(json!({"metadata": object["metadata"]}))),
            "Deployment" => all.deployments.put(pruned(object, stores::prune_deployment)),
            "ServiceAccount" => all.accounts.put(decode(json!({"metadata": object["metadata"]}))),
            "Role" => all.roles.put(decode(object.clone())),
            "RoleBinding" => all.role_bindings.put(decode(object.clone())),
            "ClusterRole" => all.cluster_roles.put(decode(object.clone())),
            "ClusterRoleBinding" => all.cluster_role_bindings.put(decode(object.clone())),
            other => panic!("nobody watches {other}"),
        }
    }

    fn unfeed(&self, kind: &str, key: &NamespacedName) {
        let all = &self.stores;
        match kind {
            "ClusterServiceVersion" => all.csvs.remove_for_tests(key),
            "OperatorGroup" => all.groups.remove_for_tests(key),
            "OperatorCondition" => all.conditions.remove_for_tests(key),
            "Subscription" => all.subscriptions.remove_for_tests(key),
            "CustomResourceDefinition" => all.crds.remove_for_tests(key),
            "APIService" => all.api_services.remove_for_tests(key),
            "Namespace" => all.namespaces.remove_for_tests(key),
            "Deployment" => all.deployments.remove_for_tests(key),
            "ServiceAccount" => all.accounts.remove_for_tests(key),
            "Role" => all.roles.remove_for_tests(key),
            "RoleBinding" => all.role_bindings.remove_for_tests(key),
            "ClusterRole" => all.cluster_roles.remove_for_tests(key),
            "ClusterRoleBinding" => all.cluster_role_bindings.remove_for_tests(key),
            other => panic!("nobody watches {other}"),
        }
    }

    /// The Deployment controller, with the patience of a model: everything not sick is available at once.
    pub fn kubernetes(&mut self) {
        let deployments: Vec<Key> = self
            .objects
            .keys()
            .filter(|key| key.0 == "Deployment")
            .cloned()
            .collect();
        for key in deployments {
            let mut object = self.objects[&key].clone();
            let generation = object["metadata"]["generation"].clone();
            let fine = json!([{"type": "Available", "status": "True"}]);
            let conditions = self.sick.get(&key.2).cloned().unwrap_or(fine);
            let status = json!({"observedGeneration": generation, "replicas": 1, "updatedReplicas": 1, "conditions": conditions});
            if object["status"] != status {
                object["status"] = status;
                self.writes
                    .push(format!("kubernetes: status of Deployment {}", key.2));
                self.store(key, object);
            }
        }
    }

    fn act(&mut self, plan: &Plan) -> olm_runtime::outcome::Outcomes {
        let mut results = Vec::new();
        for action in &plan.actions {
            if self.is_killed() || !plan.goes_on_after(&results) {
                results.push(Outcome::NotAttempted);
                continue;
            }
            let outcome = self.perform(action);
            if let (Some(left), Outcome::Done(_)) = (&mut self.killed_after, &outcome) {
                *left -= 1;
            }
            results.push(outcome);
        }
        olm_runtime::outcome::outcomes_for_tests(results)
    }
}

fn pruned<K: serde::de::DeserializeOwned>(object: &Value, prune: impl Fn(&mut K)) -> K {
    let mut object: K = decode(object.clone());
    prune(&mut object);
    object
}

#[track_caller]
pub fn decode<K: serde::de::DeserializeOwned>(value: Value) -> K {
    serde_json::from_value(value).unwrap()
}

fn metadata(object: &Value) -> k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta {
    decode(object["metadata"].clone())
}

fn rbac_kind(kind: &str) -> kube::core::ApiResource {
    use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding};
    match kind {
        "ClusterRole" => kube::core::ApiResource::erase::<ClusterRole>(&()),
        "ClusterRoleBinding" => kube::core::ApiResource::erase::<ClusterRoleBinding>(&()),
        "Role" => kube::core::ApiResource::erase::<Role>(&()),
        _ => kube::core::ApiResource::erase::<RoleBinding>(&()),
    }
}

/// Key of a ClusterServiceVersion of `ns`.
pub fn csv_key(name: &str) -> NamespacedName {
    NamespacedName::new("ns", name)
}
