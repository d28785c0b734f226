//! Model of a namespace in which only descriptions count. Reconciles read it, and their patches of OLM's own
//! kinds are applied. All other writes succeed without an effect.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use jiff::Timestamp;
use olm_operator::{
    rounds,
    stores::{self, Stores},
};
use olm_runtime::{
    NamespacedName,
    driver::StatusUpdate,
    outcome::{Outcome, Outcomes, outcomes_for_tests},
    plan::{Action, Plan},
};
use olm_testing::patch::merge;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::schema::Schemas;

/// Number of reconciles in which every ClusterServiceVersion must have got a status.
const ROUNDS: usize = 8;

/// Kind, namespace, name.
type Key = (String, String, String);

/// The model of one namespace.
pub struct Model {
    stores: Stores,
    objects: BTreeMap<Key, Value>,
    now: Timestamp,
    version: u64,
}

impl Default for Model {
    fn default() -> Self {
        Self {
            stores: Stores::default(),
            objects: BTreeMap::new(),
            now: "2026-01-01T00:00:00Z".parse().expect("time"),
            version: 1,
        }
    }
}

fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object
        .pointer(pointer)
        .and_then(Value::as_str)
        .unwrap_or_default()
}

fn is_name(name: &str) -> bool {
    let lower = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-.".contains(&byte);
    (1..=253).contains(&name.len()) && name.bytes().all(lower)
}

fn texts(map: &Value) -> Value {
    let all = map.as_object().into_iter().flatten();
    all.filter(|(_, value)| value.is_string())
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect::<serde_json::Map<_, _>>()
        .into()
}

impl Model {
    /// Stores an object if the API server would accept it.
    pub fn put(&mut self, schemas: &Schemas, mut object: Value) {
        let (namespace, name) = (
            text(&object, "/metadata/namespace").to_owned(),
            text(&object, "/metadata/name").to_owned(),
        );
        if !object.is_object()
            || !is_name(&namespace)
            || !is_name(&name)
            || schemas.admit(&mut object).is_err()
        {
            return;
        }
        let given = object["metadata"].clone();
        object["metadata"] = json!({"namespace": namespace, "name": name, "uid": "u", "resourceVersion": "1", "generation": 1,
            "creationTimestamp": "2026-01-01T00:00:00Z", "labels": texts(&given["labels"]), "annotations": texts(&given["annotations"])});
        if object["kind"] == "Deployment" {
            object["metadata"]["ownerReferences"] = given["ownerReferences"].clone();
        }
        let key = (text(&object, "/kind").to_owned(), namespace, name);
        if self.feed(&key, &object) {
            self.objects.insert(key, object);
        }
    }

    /// Feeds the stores. Every object of OLM's kinds that the API server admits must decode.
    fn feed(&self, (kind, ..): &Key, object: &Value) -> bool {
        let all = &self.stores;
        match kind.as_str() {
            "ClusterServiceVersion" => all.csvs.put(pruned(object, stores::prune_csv)),
            "OperatorGroup" => all.groups.put(pruned(object, stores::prune_group)),
            "Subscription" => all.subscriptions.put(pruned(object, stores::prune_subscription)),
            "OperatorCondition" => all.conditions.put(pruned(object, |_| {})),
            "Deployment" => match serde_json::from_value(object.clone()) {
                Ok(deployment) => all.deployments.put(deployment),
                Err(_) => return false,
            },
            _ => return false,
        }
        true
    }

    /// True when a ClusterServiceVersion exists.
    pub fn has_csv(&self) -> bool {
        self.objects.keys().any(|key| key.0 == "ClusterServiceVersion")
    }

    fn keys(&self, kind: &str) -> Vec<NamespacedName> {
        let keys = self.objects.keys().filter(|key| key.0 == kind);
        keys.map(|key| NamespacedName::new(key.1.as_str(), key.2.as_str()))
            .collect()
    }

    /// Runs all controllers; every ClusterServiceVersion must get a status.
    pub fn run(&mut self, schemas: &Schemas) {
        for _ in 0..ROUNDS {
            for key in self.keys("OperatorGroup") {
                self.round_of_group(schemas, &key);
            }
            for key in self.keys("ClusterServiceVersion") {
                self.round_of_csv(schemas, &key);
                self.round_of_condition(&key);
            }
            self.now += Duration::from_secs(10);
        }
        for key in self.keys("ClusterServiceVersion") {
            let object = &self.objects[&(
                "ClusterServiceVersion".to_owned(),
                key.namespace.clone(),
                key.name.clone(),
            )];
            let is_copy = object["metadata"]["labels"]["olm.copiedFrom"].is_string()
                || object["status"]["reason"] == "Copied";
            let own = object["metadata"]["annotations"]["olm.operatorNamespace"].as_str();
            let is_copy = is_copy || own.is_some_and(|own| own != key.namespace);
            assert!(
                is_copy || !text(object, "/status/phase").is_empty(),
                "{key} got no status: {object}"
            );
        }
    }

    fn round_of_csv(&mut self, schemas: &Schemas, key: &NamespacedName) {
        let (stores, now) = (self.stores.clone(), self.now);
        let update = rounds::of_csv(&stores, key, now, |plan| self.act(schemas, plan));
        self.write_status(schemas, update);
    }

    fn round_of_group(&mut self, schemas: &Schemas, key: &NamespacedName) {
        let (stores, now) = (self.stores.clone(), self.now);
        let update = rounds::of_group(&stores, key, now, |plan| self.act(schemas, plan));
        self.write_status(schemas, update);
    }

    fn write_status<M>(&mut self, schemas: &Schemas, update: Option<StatusUpdate<M>>) {
        let Some(update) = update else { return };
        for event in &update.events {
            assert!(!event.reason.is_empty());
        }
        let plan = Plan {
            actions: update.patches,
            ..Plan::default()
        };
        self.act(schemas, &plan);
    }

    fn round_of_condition(&mut self, key: &NamespacedName) {
        let _ = rounds::of_condition(&self.stores, key, |plan| {
            let _ = plan.to_string();
            outcomes_for_tests(plan.actions.iter().map(|_| Outcome::Kept).collect())
        });
        let _ = rounds::of_namespace(&self.stores, &key.namespace);
    }

    fn act(&mut self, schemas: &Schemas, plan: &Plan) -> Outcomes {
        let _ = plan.to_string();
        outcomes_for_tests(
            plan.actions
                .iter()
                .map(|action| self.perform(schemas, action))
                .collect(),
        )
    }

    fn perform(&mut self, schemas: &Schemas, action: &Action) -> Outcome {
        let Action::Patch { target, patch, .. } = action else {
            return Outcome::Kept;
        };
        let key = (
            target.api.kind.clone(),
            target.namespace.clone().unwrap_or_default(),
            target.name.clone(),
        );
        let Some(mut object) = self.objects.get(&key).cloned() else {
            return Outcome::Gone;
        };
        merge(&mut object, patch);
        let before = object.clone();
        if let Err(why) = schemas.admit(&mut object) {
            panic!("{action}: the API server refuses that: {why}");
        }
        let sorted = |object: &Value| object["status"].to_string();
        assert_eq!(
            sorted(&object),
            sorted(&before),
            "the API server cuts off some of it"
        );
        self.version += 1;
        object["metadata"]["resourceVersion"] = json!(self.version.to_string());
        self.feed(&key, &object);
        self.objects.insert(key, object.clone());
        Outcome::Done(Arc::new(object))
    }
}

fn pruned<K: DeserializeOwned>(object: &Value, prune: impl Fn(&mut K)) -> K {
    let decoded = serde_json::from_value(object.clone());
    let mut decoded: K = decoded
        .unwrap_or_else(|error| panic!("what the API server admits is not understood: {error}: {object}"));
    prune(&mut decoded);
    decoded
}
