//! A cluster in memory: enough of an API server for the laws of InstallPlans.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use kube::core::ApiResource;
use olm_api::v1::OperatorGroup;
use olm_api::v1alpha1::{BundleLookup, ClusterServiceVersion, InstallPlan};
use olm_runtime::discovery::ServedKind;
use olm_runtime::driver::StatusUpdate;
use olm_runtime::error::ObserveError;
use olm_runtime::outcome::{Failure, FailureClass, Outcome, outcomes_for_tests};
use olm_runtime::plan::{Action, Exists, Requeue, Target, merge_patch};
use serde_json::{Value, json};

use super::super::kind::StepKind;
use super::super::manifest::BundleImageReference;
use super::super::observe::{BundleContent, Observed, Reads, observe};
use super::super::restoration::{self, Inventory};
use super::super::{decide, object, prune, status, steps};
use crate::bundle_unpack::UnpackedBundle;

pub const NAMESPACE: &str = "ns";

pub struct Cluster {
    pub objects: BTreeMap<String, Value>,
    pub groups: Vec<Value>,
    pub bundles: BTreeMap<String, BundleContent>,
    /// Actions whose text begins so are refused.
    pub refused: BTreeMap<String, FailureClass>,
    pub served: Vec<(&'static str, bool)>,
    /// Every write, in order.
    pub writes: Vec<String>,
    /// Writes left before the operator is killed.
    pub budget: Option<usize>,
    pub now: Timestamp,
    /// Whether new CustomResourceDefinitions become established between two rounds.
    pub establishes: bool,
    /// ClusterServiceVersions as a store that lags behind shows them.
    pub stale_csvs: Option<Vec<Arc<ClusterServiceVersion>>>,
    counter: u64,
}

impl Inventory for Cluster {
    fn content(&self, kind: StepKind, namespace: &str, name: &str) -> Option<String> {
        let kind_name = kind.api_resource()?.kind;
        let object = self
            .objects
            .values()
            .find(|object| {
                object::kind(object) == kind_name
                    && object::name(object) == name
                    && object::metadata_text(object, "namespace").unwrap_or_default() == namespace
            })
            .filter(|object| object["metadata"]["labels"]["olm.managed"] == "true")?;
        Some(match kind {
            StepKind::Role | StepKind::ClusterRole => {
                restoration::content_hash(&serde_json::from_value(object["rules"].clone()).unwrap())
            }
            StepKind::RoleBinding | StepKind::ClusterRoleBinding => restoration::binding_hash(
                &serde_json::from_value(object["roleRef"].clone()).unwrap(),
                &serde_json::from_value(object["subjects"].clone()).unwrap(),
            ),
            _ => String::new(),
        })
    }
}

#[async_trait]
impl Reads for Cluster {
    async fn get(&self, target: &Target) -> Result<Option<Value>, ObserveError> {
        Ok(self.objects.get(&target.to_string()).cloned())
    }

    async fn find_kind(
        &self,
        group: &str,
        version: &str,
        kind: &str,
    ) -> Result<Option<ServedKind>, ObserveError> {
        let found = self.served.iter().find(|(served, _)| *served == kind);
        Ok(found.map(|(kind, namespaced)| {
            let api_version = format!("{group}/{version}");
            let api = ApiResource {
                group: group.into(),
                version: version.into(),
                api_version,
                kind: (*kind).into(),
                plural: format!("{}s", kind.to_lowercase()),
            };
            ServedKind {
                api,
                namespaced: *namespaced,
            }
        }))
    }

    fn bundle(&self, reference: &BundleImageReference, _: &InstallPlan) -> BundleContent {
        self.bundles[&reference.image].clone()
    }

    fn csv_exists(&self, csv: &str) -> bool {
        self.objects.contains_key(&format!("ClusterServiceVersion {csv}"))
    }

    fn converters(&self, crd: &str, namespace: &str) -> Vec<String> {
        let in_namespace = self
            .objects
            .values()
            .filter(|object| object["metadata"]["namespace"] == *namespace);
        let serving = in_namespace.filter(|object| {
            let webhooks = object
                .pointer("/spec/webhookdefinitions")
                .and_then(Value::as_array);
            let mut crds = webhooks
                .into_iter()
                .flatten()
                .flat_map(|webhook| webhook["conversionCRDs"].as_array().into_iter().flatten());
            crds.any(|name| *name == *crd)
        });
        let name = |object: &Value| object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        serving.map(name).collect()
    }

    fn global_namespace(&self) -> &str {
        "olm"
    }
}

impl Cluster {
    pub fn new() -> Self {
        Self {
            objects: BTreeMap::new(),
            groups: vec![group(json!({}), json!({"namespaces": [NAMESPACE]}))],
            bundles: BTreeMap::new(),
            refused: BTreeMap::new(),
            served: vec![("PodDisruptionBudget", true), ("PriorityClass", false)],
            writes: Vec::new(),
            budget: None,
            now: Timestamp::from_second(1_800_000_000).unwrap(),
            establishes: true,
            stale_csvs: None,
            counter: 0,
        }
    }

    /// A cluster with an approved plan for these bundles, one after the other.
    pub fn with_plan(bundles: &[UnpackedBundle]) -> Self {
        let mut cluster = Self::new();
        cluster.add_plan("install-1", bundles);
        cluster
    }

    pub fn add_plan(&mut self, name: &str, bundles: &[UnpackedBundle]) {
        let mut plan = json!({
            "apiVersion": "operators.coreos.com/v1alpha1", "kind": "InstallPlan",
            "metadata": {"name": name, "namespace": NAMESPACE},
            "spec": {"clusterServiceVersionNames": [], "approval": "Automatic", "approved": true, "generation": 1},
            "status": {"phase": "Installing", "catalogSources": ["cat"], "plan": [], "bundleLookups": []},
        });
        for bundle in bundles {
            let lookup = lookup(bundle);
            let steps = steps::plan_steps(bundle, &lookup, NAMESPACE).unwrap();
            plan["status"]["plan"]
                .as_array_mut()
                .unwrap()
                .extend(steps.iter().map(|step| serde_json::to_value(step).unwrap()));
            plan["status"]["bundleLookups"]
                .as_array_mut()
                .unwrap()
                .push(serde_json::to_value(&lookup).unwrap());
            plan["spec"]["clusterServiceVersionNames"]
                .as_array_mut()
                .unwrap()
                .push(object::name(&bundle.csv).into());
            self.bundles.insert(
                bundle.image.clone(),
                BundleContent::Ready(Arc::new(bundle.clone())),
            );
        }
        self.put(plan);
    }

    pub fn put(&mut self, mut object: Value) {
        self.counter += 1;
        let created = (object::kind(&object) == "ClusterServiceVersion").then(|| self.now.to_string());
        let metadata = object::map_mut(&mut object, "metadata");
        if let Some(created) = created {
            metadata.entry("creationTimestamp").or_insert(created.into());
        }
        metadata
            .entry("uid")
            .or_insert(format!("uid-{}", self.counter).into());
        metadata.insert("resourceVersion".into(), self.counter.to_string().into());
        self.objects.insert(key(&object), object);
    }

    pub fn plan(&self, name: &str) -> &Value {
        &self.objects[&format!("InstallPlan {NAMESPACE}/{name}")]
    }

    pub fn plan_mut(&mut self, name: &str) -> &mut Value {
        self.objects
            .get_mut(&format!("InstallPlan {NAMESPACE}/{name}"))
            .unwrap()
    }

    /// Phase, message and condition of a plan, and what its steps have come to.
    pub fn summary(&self, name: &str) -> String {
        let status = &self.plan(name)["status"];
        let mut text = format!(
            "{} {}",
            status["phase"].as_str().unwrap(),
            status["message"].as_str().unwrap_or("-")
        );
        for condition in status["conditions"].as_array().into_iter().flatten() {
            let word = |field: &str| condition[field].as_str().unwrap_or("-").to_owned();
            text += &format!(
                "\n{}={} {} {}",
                word("type"),
                word("status"),
                word("reason"),
                word("message")
            );
        }
        for step in status["plan"].as_array().unwrap() {
            text += &format!(
                "\n{} {}",
                short(
                    step["resource"]["kind"].as_str().unwrap(),
                    step["resource"]["name"].as_str().unwrap()
                ),
                step["status"].as_str().unwrap()
            );
        }
        text
    }

    pub fn observed(&self, name: &str) -> Observed {
        let plan: InstallPlan = serde_json::from_value(self.plan(name).clone()).unwrap();
        let groups = self
            .groups
            .iter()
            .map(|group| Arc::new(serde_json::from_value::<OperatorGroup>(group.clone()).unwrap()))
            .collect();
        let csvs = self
            .objects
            .values()
            .filter(|object| object::kind(object) == "ClusterServiceVersion")
            .map(|object| Arc::new(serde_json::from_value::<ClusterServiceVersion>(object.clone()).unwrap()))
            .collect();
        futures::executor::block_on(observe(
            self,
            Arc::new(plan),
            groups,
            csvs,
            Duration::from_secs(60),
        ))
        .unwrap()
    }

    /// One round. Says whether anything was written, and when the operator wants to look again.
    pub fn round(&mut self, name: &str) -> (bool, Requeue) {
        let before = self.writes.len();
        let observed = self.observed(name);
        let (plan, verdict) = decide::decide(&observed);
        let mut results = Vec::new();
        for action in &plan.actions {
            let failed = results
                .iter()
                .any(|outcome| matches!(outcome, Outcome::Failed(_)));
            let outcome = if failed {
                Outcome::NotAttempted
            } else {
                self.perform(action)
            };
            results.push(outcome);
        }
        let update = status::status(&observed, verdict, &outcomes_for_tests(results), self.now);
        if let Some(patch) = &update.patch {
            self.perform(patch);
        }
        if self.establishes {
            self.establish();
        }
        (self.writes.len() > before, update.requeue)
    }

    /// One round of a plan that is over, seen as the stores would show it. Says whether anything was written.
    pub fn restore(&mut self, name: &str) -> (bool, StatusUpdate) {
        let before = self.writes.len();
        let plans: Vec<Arc<InstallPlan>> = self
            .objects
            .values()
            .filter(|object| object::kind(object) == "InstallPlan")
            .map(|object| {
                let mut plan: InstallPlan = serde_json::from_value(object.clone()).unwrap();
                prune(&mut plan);
                Arc::new(plan)
            })
            .collect();
        let own = plans
            .iter()
            .find(|plan| plan.metadata.name.as_deref() == Some(name))
            .unwrap();
        let mut observed = self.observed(name);
        observed.install_plan = Arc::clone(own);
        if let Some(csvs) = &self.stale_csvs {
            observed.csvs = csvs.clone();
        }
        let found = restoration::observe(self, self, observed, &plans);
        let Some(observed) = futures::executor::block_on(found).unwrap() else {
            return (false, StatusUpdate::default());
        };
        let (plan, verdict) = decide::decide(&observed);
        let results = plan.actions.iter().map(|action| self.perform(action)).collect();
        let update = status::status(&observed, verdict, &outcomes_for_tests(results), self.now);
        assert!(update.patch.is_none(), "a plan that is over keeps its status");
        (self.writes.len() > before, update)
    }

    /// Rounds until nothing is written any more.
    pub fn converge(&mut self, name: &str) {
        for _ in 0..20 {
            if !self.round(name).0 {
                return;
            }
        }
        panic!("no rest: {:#?}", self.writes);
    }

    pub fn establish(&mut self) {
        for object in self
            .objects
            .values_mut()
            .filter(|object| object::kind(object) == "CustomResourceDefinition")
        {
            if object["status"].is_null() {
                let versions: Vec<_> = object["spec"]["versions"]
                    .as_array()
                    .into_iter()
                    .flatten()
                    .map(|version| version["name"].clone())
                    .collect();
                object["status"] = json!({"storedVersions": versions,
                    "conditions": [{"type": "Established", "status": "True"}, {"type": "NamesAccepted", "status": "True"}]});
            }
        }
    }

    /// Everything in the cluster without what differs from run to run.
    pub fn state(&self) -> BTreeMap<String, Value> {
        let mut objects = self.objects.clone();
        for object in objects.values_mut() {
            let metadata = object::map_mut(object, "metadata");
            for field in ["uid", "resourceVersion"] {
                metadata.remove(field);
            }
            for owner in metadata
                .get_mut("ownerReferences")
                .and_then(Value::as_array_mut)
                .into_iter()
                .flatten()
            {
                owner["uid"] = "".into();
            }
            for step in object
                .pointer_mut("/status/plan")
                .and_then(Value::as_array_mut)
                .into_iter()
                .flatten()
            {
                if step["status"] == "Created" {
                    step["status"] = "Present".into();
                }
            }
        }
        objects
    }

    fn perform(&mut self, action: &Action) -> Outcome {
        if let Some(budget) = &mut self.budget {
            if *budget == 0 {
                return failure(action, FailureClass::Retry);
            }
            *budget -= 1;
        }
        let text = action.to_string();
        if let Some((_, class)) = self
            .refused
            .iter()
            .find(|(prefix, _)| text.starts_with(prefix.as_str()))
        {
            return failure(action, *class);
        }
        let subject = text
            .split_once(" {")
            .map_or(text.as_str(), |(subject, _)| subject);
        self.writes
            .push(subject.split(' ').map(short_word).collect::<Vec<_>>().join(" "));
        match action {
            Action::Create {
                target,
                object,
                exists,
                ..
            } => {
                if self.objects.contains_key(&target.to_string()) {
                    self.writes.pop();
                    return if *exists == Exists::Keep {
                        Outcome::Kept
                    } else {
                        failure(action, FailureClass::AlreadyExists)
                    };
                }
                assert_eq!(key(object), target.to_string());
                self.put(object.clone());
                Outcome::Done(Arc::new(self.objects[&target.to_string()].clone()))
            }
            Action::Apply { target, object, .. } => {
                let merged = match self.objects.get(&target.to_string()) {
                    Some(current) => merged(current, object),
                    None => object.clone(),
                };
                assert_eq!(key(object), target.to_string());
                self.put(merged);
                Outcome::Done(Arc::new(self.objects[&target.to_string()].clone()))
            }
            Action::Patch {
                target, patch, guard, ..
            } => {
                let Some(current) = self.objects.get(&target.to_string()).cloned() else {
                    return failure(action, FailureClass::NotFound);
                };
                if guard
                    .resource_version
                    .as_deref()
                    .is_some_and(|version| current["metadata"]["resourceVersion"] != *version)
                {
                    return failure(action, FailureClass::Conflict);
                }
                let patched = merged(&current, patch);
                assert!(
                    merge_patch(&current, &patched).is_some(),
                    "a patch that changes nothing: {text}"
                );
                self.put(patched);
                Outcome::Done(Arc::new(self.objects[&target.to_string()].clone()))
            }
            Action::Delete { .. } | Action::DeleteSelected { .. } => panic!("plans delete nothing"),
        }
    }
}

fn failure(action: &Action, class: FailureClass) -> Outcome {
    Outcome::Failed(Failure {
        class,
        code: 0,
        message: format!("server says {class:?}"),
        action: action.to_string(),
    })
}

/// RFC 7386.
fn merged(current: &Value, patch: &Value) -> Value {
    let Value::Object(patch) = patch else {
        return patch.clone();
    };
    let mut result = current.as_object().cloned().unwrap_or_default();
    for (key, value) in patch {
        if value.is_null() {
            result.remove(key);
        } else {
            let before = result.get(key).cloned().unwrap_or(Value::Null);
            result.insert(key.clone(), merged(&before, value));
        }
    }
    Value::Object(result)
}

fn key(object: &Value) -> String {
    match object::metadata_text(object, "namespace") {
        Some(namespace) => format!("{} {namespace}/{}", object::kind(object), object::name(object)),
        None => format!("{} {}", object::kind(object), object::name(object)),
    }
}

fn short_word(word: &str) -> String {
    match word.rsplit_once('/') {
        Some((namespace, name)) => format!("{namespace}/{}", short("", name)),
        None => short("", word),
    }
}

/// Names without the hashes of RBAC objects.
fn short(kind: &str, name: &str) -> String {
    let name = match name.rsplit_once('-') {
        Some((base, hash)) if hash.len() > 30 => format!("{base}-HASH"),
        _ => name.to_owned(),
    };
    if kind.is_empty() {
        name
    } else {
        format!("{kind}/{name}")
    }
}

#[allow(clippy::needless_pass_by_value)] // Written out in place by every caller.
pub fn group(spec: Value, status: Value) -> Value {
    json!({"apiVersion": "operators.coreos.com/v1", "kind": "OperatorGroup", "metadata": {"name": "og", "namespace": NAMESPACE}, "spec": spec, "status": status})
}

fn lookup(bundle: &UnpackedBundle) -> BundleLookup {
    serde_json::from_value(json!({
        "path": bundle.image, "identifier": object::name(&bundle.csv), "replaces": "demo.v0", "catalogSourceRef": {"name": "cat", "namespace": NAMESPACE},
        "properties": r#"{"properties":[{"type":"olm.package","value":{"packageName":"demo","version":"1.0.0"}}]}"#,
    }))
    .unwrap()
}
