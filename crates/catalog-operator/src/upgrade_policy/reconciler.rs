//! The controller that approves waiting plans by the policies of their Subscriptions.
//!
//! While a policy blocks a plan, an annotation of the plan says why, and `InstallPlanPending` of its Subscriptions repeats it. The
//! controller writes when that text changes, and when it approves the plan. It never approves a plan for which no Subscription has a
//! policy, or for which a user has to approve.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use go_compat::semver::Version;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::ObjectReference;
use kube::ResourceExt;
use olm_api::condition::{TRUE, subscription as reasons};
use olm_api::labels;
use olm_api::v1alpha1::{
    ClusterServiceVersion, ClusterServiceVersionPhase, InstallPlan, InstallPlanPhase, Subscription,
};
use olm_resolver::explain::{EVENT_LIMIT, cut};
use olm_runtime::NamespacedName;
use olm_runtime::driver::Reconciler;
use olm_runtime::error::ObserveError;
use olm_runtime::event::regarding;
use olm_runtime::plan::{Action, Guard, Plan, Requeue, Target};
use olm_runtime::queue::Queue;
use olm_runtime::store::Change;
use serde_json::{Map, Value, json};

use super::{InstalledVersion, Upgrade, UpgradePolicy, needs_user, stopped};
use crate::component;
use crate::install_plan::observe::steps;
use crate::resolution::group_settings;
use crate::resolution::triggers::{csv_namespace, own_namespace};
use crate::step_kind::StepKind;
use crate::stores::Stores;
use crate::timing::elapsed;

/// Longest time until the clock is read again while a plan waits for a window: timers notice neither that the clock was set nor
/// that the machine slept. Also the time after which an approval that a webhook removed is repeated.
const CLOCK_CHECK: Duration = Duration::from_secs(600);

/// Reconciles InstallPlans that wait for approval.
pub(crate) struct PolicyReconciler {
    pub stores: Stores,
}

/// A plan that waits for approval, and what the policies of its Subscriptions depend on.
pub(crate) struct Observed {
    install_plan: Arc<InstallPlan>,
    /// True if each version in the plan is the current one of a Subscription, or comes with a Subscription.
    is_current: bool,
    /// A Subscription of the plan that cannot be resolved.
    unresolved: Option<String>,
    /// What the plan brings to Subscriptions with a policy; empty if a user has to approve.
    upgrades: Vec<(UpgradePolicy, Upgrade)>,
}

/// Connects the stores to the queue. Call before the watches start.
pub(crate) fn attach(stores: &Stores, queue: &Queue<NamespacedName>) {
    stores.plans.feed(queue, |change| match change {
        Change::Applied { new, .. } if new.waits_for_approval() => {
            Some(NamespacedName::from_object(new.as_ref()))
        }
        _ => None,
    });
    let plans = stores.plans.clone();
    let waiting = move |namespace: Option<String>| -> Vec<NamespacedName> {
        let plans = namespace.map(|namespace| plans.list_in(&namespace));
        let plans = plans.iter().flatten();
        NamespacedName::of_all(plans.filter(|plan| plan.waits_for_approval()))
    };
    let (of_csv, of_group) = (waiting.clone(), waiting.clone());
    stores
        .subscriptions
        .feed(queue, move |change| waiting(own_namespace(change)));
    stores
        .csvs
        .feed(queue, move |change| of_csv(csv_namespace(change)));
    stores
        .groups
        .feed(queue, move |change| of_group(own_namespace(change)));
}

impl PolicyReconciler {
    /// Returns the policies of these Subscriptions, each with the version that the plan brings to it.
    fn upgrades(&self, plan: &InstallPlan, receiving: &[Receiving<'_>]) -> Vec<(UpgradePolicy, Upgrade)> {
        let Some(status) = &plan.status else {
            return Vec::new();
        };
        let stopped = stopped(plan);
        // Manifests may be large, so only those of Subscriptions with a policy are read.
        let version = |csv: &str| {
            let package = component::package_of(csv, &status.plan, &status.bundle_lookups)?;
            Version::parse_tolerant(&package.version).ok()
        };
        let upgrades = receiving.iter().filter_map(|(subscription, csv)| {
            let policy = UpgradePolicy::read(subscription)?;
            let status = subscription.status.as_ref();
            let installed = status.and_then(|status| status.installed_csv.clone());
            let installed = installed.filter(|name| !name.is_empty());
            let found = installed.as_ref().and_then(|name| {
                let namespace = subscription.namespace().unwrap_or_default();
                self.stores.csvs.get(&namespace, name)
            });
            let upgrade = Upgrade {
                csv: (*csv).to_owned(),
                to: version(csv),
                from: installed.map(|csv| InstalledVersion {
                    csv,
                    version: found.as_ref().and_then(|csv| version_of(csv)),
                }),
                after_failure: stopped.contains(policy.subscription())
                    || found
                        .as_ref()
                        .is_some_and(|csv| *csv.phase() == ClusterServiceVersionPhase::Failed)
                    || self.failed_before(plan, subscription),
                is_unsettled: found.as_ref().is_some_and(|csv| is_unsettled(csv)),
            };
            Some((policy, upgrade))
        });
        upgrades.collect()
    }

    /// Returns true if the last plan before this one with the package of the Subscription failed, or still waits because of a failure.
    fn failed_before(&self, plan: &InstallPlan, subscription: &Subscription) -> bool {
        let namespace = plan.namespace().unwrap_or_default();
        let Some(label) = labels::component_label(&subscription.spec.name, &namespace) else {
            return false;
        };
        let plans = self.stores.plans.list_in(&namespace).into_iter();
        let before = plans.filter(|other| {
            other.spec.generation < plan.spec.generation && other.labels().contains_key(&label)
        });
        let last = before.max_by_key(|other| other.spec.generation);
        last.is_some_and(|last| {
            last.phase() == InstallPlanPhase::Failed
                || (last.waits_for_approval() && stopped(&last).contains(&subscription.name_any()))
        })
    }
}

/// A Subscription, and the version that a plan brings to it.
type Receiving<'a> = (&'a Arc<Subscription>, &'a str);

#[async_trait]
impl Reconciler for PolicyReconciler {
    type Key = NamespacedName;
    type Observed = Observed;
    type Verdict = ();
    type Memory = ();

    const NAME: &'static str = "upgrade-policy";

    fn regarding(&self, key: &NamespacedName) -> Option<ObjectReference> {
        regarding(&self.stores.plans, key)
    }

    async fn observe(&self, key: &NamespacedName) -> Result<Option<Observed>, ObserveError> {
        let found = self.stores.plans.get_key(key);
        let Some(install_plan) = found.filter(|plan| plan.waits_for_approval()) else {
            return Ok(None);
        };
        let mut subscriptions = self.stores.subscriptions.list_in(&key.namespace);
        subscriptions.retain(|subscription| subscription.metadata.deletion_timestamp.is_none());
        let names = &install_plan.spec.cluster_service_version_names;
        let receiving = subscriptions.iter().filter_map(|subscription| {
            let current = subscription.status.as_ref()?.current_csv.as_deref()?;
            let is_here = names.iter().any(|name| name == current);
            is_here.then_some((subscription, current))
        });
        let receiving: Vec<Receiving<'_>> = receiving.collect();
        let settings = group_settings::read(&key.namespace, &self.stores.groups.list_in(&key.namespace));
        let needs_user = if settings.is_ok_and(|settings| settings.separate_approval) {
            receiving.iter().any(|(subscription, _)| needs_user(subscription))
        } else {
            subscriptions.iter().any(|subscription| needs_user(subscription))
        };
        let upgrades = if needs_user {
            Vec::new()
        } else {
            self.upgrades(&install_plan, &receiving)
        };
        let brought = steps(&install_plan).iter();
        let brought =
            brought.filter(|step| StepKind::of(&step.resource.kind) == Some(StepKind::Subscription));
        let brought = brought.map(|step| step.resolving.as_str());
        let wanted: BTreeSet<&str> = receiving.iter().map(|(_, csv)| *csv).chain(brought).collect();
        let is_current = names.iter().all(|name| wanted.contains(name.as_str()));
        let mut receiving = receiving.iter();
        let unresolved = receiving.find(|(subscription, _)| is_failing(subscription));
        let unresolved = unresolved.map(|(subscription, _)| subscription.name_any());
        Ok(Some(Observed {
            install_plan,
            is_current,
            unresolved,
            upgrades,
        }))
    }

    fn decide(observed: &Observed, _: Option<&()>, now: Timestamp) -> (Plan, ()) {
        (decide(observed, now), ())
    }
}

fn decide(observed: &Observed, now: Timestamp) -> Plan {
    let plan = &observed.install_plan;
    let (mut waits, mut stopped) = (BTreeSet::new(), stopped(plan));
    for (policy, upgrade) in &observed.upgrades {
        waits.extend(policy.waits(upgrade, now));
        if upgrade.after_failure && policy.stops_after_failure() {
            stopped.insert(policy.subscription().to_owned());
        }
    }
    let mut texts: Vec<String> = waits.iter().map(|wait| wait.text.clone()).collect();
    if !observed.upgrades.is_empty() && !observed.is_current {
        // Resolution deletes a plan with this annotation, unless its Subscriptions are about to refer to it.
        texts.push("it contains a version that is not the current one of any Subscription".to_owned());
    } else if texts.is_empty() && !observed.upgrades.is_empty() {
        let unresolved = observed.unresolved.iter();
        texts.extend(unresolved.map(|name| format!("Subscription {name} cannot be resolved")));
    }
    let text =
        (!texts.is_empty()).then(|| cut(&format!("waiting by policy: {}", texts.join("; ")), EVENT_LIMIT));
    let is_approved = !observed.upgrades.is_empty() && text.is_none();
    let stopped: Vec<String> = stopped.into_iter().collect();
    let stopped = (!stopped.is_empty()).then(|| stopped.join(","));
    let annotations = [(labels::UPGRADE_WAITS, text), (labels::UPGRADE_STOPPED, stopped)];
    let changed = annotations
        .into_iter()
        .filter(|(key, value)| plan.annotations().get(*key) != value.as_ref());
    let changed: Map<String, Value> = changed
        .map(|(key, value)| (key.to_owned(), json!(value)))
        .collect();
    let mut patch = Map::new();
    if !changed.is_empty() {
        patch.insert("metadata".to_owned(), json!({"annotations": changed}));
    }
    if is_approved {
        patch.insert("spec".to_owned(), json!({"approved": true}));
    }
    let target = Target::of::<InstallPlan>(&plan.namespace().unwrap_or_default(), &plan.name_any());
    let guard = Guard {
        uid: plan.uid(),
        // An approval is for the plan as it was read.
        resource_version: plan.resource_version().filter(|_| is_approved),
    };
    let is_empty = patch.is_empty();
    let write = Action::patch(target, patch.into(), guard);
    Plan {
        actions: if is_empty { Vec::new() } else { vec![write] },
        requeue: requeue(waits.iter().filter_map(|wait| wait.until).min(), is_approved, now),
        ..Plan::default()
    }
}

/// Returns the time of the next look at the clock; `opens` is the start of the next window.
fn requeue(opens: Option<Timestamp>, is_approved: bool, now: Timestamp) -> Requeue {
    if is_approved {
        return Requeue::after(CLOCK_CHECK, "check of the approval");
    }
    opens.map_or(Requeue::AwaitChange, |opens| {
        // From now until then.
        let delay = elapsed(now, opens).min(CLOCK_CHECK);
        Requeue::after(delay, "the start of a maintenance window")
    })
}

/// Returns true while the Subscription is not resolved: resolution failed, or its catalog does not answer.
fn is_failing(subscription: &Subscription) -> bool {
    let mut conditions = subscription.status.iter().flat_map(|status| &status.conditions);
    conditions.any(|condition| {
        let is_cause = [reasons::RESOLUTION_FAILED, reasons::CATALOG_SOURCES_UNHEALTHY];
        is_cause.contains(&condition.type_.as_str()) && condition.status == TRUE
    })
}

fn version_of(csv: &ClusterServiceVersion) -> Option<Version> {
    Version::parse_tolerant(csv.spec.version.as_deref()?).ok()
}

/// Returns true while the ClusterServiceVersion is being installed, for the first time or again.
fn is_unsettled(csv: &ClusterServiceVersion) -> bool {
    use ClusterServiceVersionPhase::{Deleting, Failed, Replacing, Succeeded};
    !matches!(csv.phase(), Succeeded | Failed | Replacing | Deleting)
}
