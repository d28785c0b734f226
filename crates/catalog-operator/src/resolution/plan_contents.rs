//! What is in the plans that wait by policy, as far as it decides whether they may begin.
//!
//! Steps may hold whole manifests, a namespace may have hundreds of such plans, and it is looked at several times a second: each plan
//! is read once, beside the rounds, and what little is needed of it is kept for as long as it waits.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use go_compat::semver::Version;
use kube::ResourceExt;
use olm_api::v1alpha1::InstallPlan;
use olm_fbc::property::PackageProperty;
use olm_runtime::isolation;

use super::plan_object::waits_by_policy;
use crate::component;
use crate::manifest::Manifest;
use crate::step_kind::StepKind;
use crate::subscription::NamespaceState;

/// What a plan installs.
#[derive(Debug, Default)]
pub(crate) struct PlanContents {
    /// Package and version by ClusterServiceVersion, as far as they are known.
    pub packages: BTreeMap<String, PackageProperty>,
    /// Subscriptions of dependencies that it brings, by ClusterServiceVersion.
    pub brought: BTreeMap<String, BroughtSubscription>,
}

/// A Subscription that a plan brings for a dependency.
#[derive(Debug)]
pub(crate) struct BroughtSubscription {
    /// Its name.
    pub name: String,
    /// Its package, if that can be read.
    pub package: Option<String>,
}

impl PlanContents {
    fn of(plan: &InstallPlan) -> Self {
        let Some(status) = &plan.status else {
            return Self::default();
        };
        let subscriptions = status
            .plan
            .iter()
            .filter(|step| StepKind::of(&step.resource.kind) == Some(StepKind::Subscription));
        let brought = subscriptions.map(|step| {
            let manifest = step.resource.manifest.as_deref();
            let manifest = manifest.and_then(|text| Manifest::parse(text).ok());
            let brought = BroughtSubscription {
                name: step.resource.name.clone(),
                package: manifest.and_then(|manifest| subscribed(&manifest)),
            };
            (step.resolving.clone(), brought)
        });
        Self {
            packages: component::packages(&status.plan, &status.bundle_lookups),
            brought: brought.collect(),
        }
    }

    /// The version of a ClusterServiceVersion in it, if known.
    pub(crate) fn version(&self, csv: &str) -> Option<Version> {
        Version::parse_tolerant(&self.packages.get(csv)?.version).ok()
    }
}

/// Of which plan, at which of its versions: what is in it is another matter as soon as somebody writes it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct PlanVersion {
    uid: Option<String>,
    resource_version: Option<String>,
}

impl PlanVersion {
    fn of(plan: &InstallPlan) -> Self {
        Self {
            uid: plan.uid(),
            resource_version: plan.resource_version(),
        }
    }
}

/// Plans of a namespace, by name.
type Known = BTreeMap<String, (PlanVersion, Arc<PlanContents>)>;

/// What is in the plans of all namespaces that wait by policy.
#[derive(Debug, Default)]
pub(crate) struct ContentsCache {
    known: Mutex<BTreeMap<String, Known>>,
}

impl ContentsCache {
    /// What is in those of a namespace, by name. Others are forgotten.
    pub(crate) async fn read(
        &self,
        namespace: &str,
        state: &NamespaceState,
    ) -> BTreeMap<String, Arc<PlanContents>> {
        let mut last = self.lock().remove(namespace).unwrap_or_default();
        let (mut known, mut unread) = (Known::new(), Vec::new());
        for (name, plan) in state.plans.iter().filter(|(_, plan)| waits_by_policy(plan)) {
            let version = PlanVersion::of(plan);
            match last.remove(name).filter(|(read, _)| *read == version) {
                Some(entry) => {
                    known.insert(name.clone(), entry);
                }
                None => unread.push((name.clone(), version, Arc::clone(plan))),
            }
        }
        if !unread.is_empty() {
            let read = move || {
                let read = unread.into_iter().map(|(name, version, plan)| {
                    let contents = Arc::new(PlanContents::of(&plan));
                    (name, (version, contents))
                });
                read.collect::<Known>()
            };
            known.extend(isolation::blocking_in_round(read).await);
        }
        let contents = known.iter();
        let contents = contents.map(|(name, (_, contents))| (name.clone(), Arc::clone(contents)));
        let contents = contents.collect();
        if !known.is_empty() {
            self.lock().insert(namespace.to_owned(), known);
        }
        contents
    }

    /// Forgets those of a namespace.
    pub(crate) fn remove(&self, namespace: &str) {
        self.lock().remove(namespace);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, Known>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The package of a step that is a Subscription.
fn subscribed(manifest: &Manifest) -> Option<String> {
    match manifest {
        Manifest::Inline(object) => Some(object.pointer("/spec/name")?.as_str()?.to_owned()),
        Manifest::ConfigMap(_) | Manifest::BundleImage(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use olm_api::labels;
    use serde_json::json;

    use super::*;

    /// A plan that waits by policy, with a ClusterServiceVersion that the catalog carries itself.
    fn plan(resource_version: &str, number: u32) -> Arc<InstallPlan> {
        let properties = json!({"properties": [
            {"type": "olm.package", "value": {"packageName": "demo", "version": format!("{number}.0.0")}}]});
        let csv = json!({"kind": "ClusterServiceVersion",
            "metadata": {"name": "demo", "annotations": {labels::PROPERTIES: properties.to_string()}}});
        let plan = json!({"apiVersion": "operators.coreos.com/v1alpha1", "kind": "InstallPlan",
            "metadata": {"name": "install-a", "namespace": "ns", "uid": "u", "resourceVersion": resource_version,
                "annotations": {labels::UPGRADE_WAITS: ""}},
            "spec": {"clusterServiceVersionNames": ["demo"], "approval": "Manual", "approved": false},
            "status": {"phase": "RequiresApproval", "catalogSources": [], "plan": [
                {"resolving": "demo", "status": "Unknown", "resource": {"sourceName": "", "sourceNamespace": "", "group": "",
                    "version": "v1alpha1", "kind": "ClusterServiceVersion", "name": "demo", "manifest": csv.to_string()}}]}});
        Arc::new(serde_json::from_value(plan).unwrap())
    }

    fn state(plans: &[Arc<InstallPlan>]) -> NamespaceState {
        let plans = plans.iter().map(|plan| (plan.name_any(), Arc::clone(plan)));
        NamespaceState {
            plans: plans.collect(),
            ..NamespaceState::default()
        }
    }

    /// Read by the first round alone, until somebody writes it; kept no longer than it waits.
    #[tokio::test]
    async fn a_plan_that_waits_is_read_once() {
        let cache = ContentsCache::default();
        let first = state(&[plan("1", 2)]);
        let mut read = Vec::new();
        for _ in 0..2 {
            read.push(cache.read("ns", &first).await.remove("install-a").unwrap());
        }
        assert!(Arc::ptr_eq(&read[0], &read[1]));
        assert_eq!(read[0].version("demo"), Version::parse("2.0.0").ok());
        let written = cache.read("ns", &state(&[plan("2", 3)])).await;
        assert_eq!(written["install-a"].version("demo"), Version::parse("3.0.0").ok());
        let mut approved = (*plan("3", 3)).clone();
        approved.spec.approved = true;
        assert!(cache.read("ns", &state(&[approved.into()])).await.is_empty());
        assert!(cache.lock().is_empty());
        cache.read("ns", &first).await;
        cache.remove("ns");
        assert!(cache.lock().is_empty());
    }
}
