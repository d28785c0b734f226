//! What keeps plans from being approved by themselves: the word Manual, or policies of Subscriptions
//! (`docs/guides/upgrade-policies.md`). Pure.
//!
//! A plan has components of one gate only, so that what one Subscription waits for holds up no other that is not tied to it. One
//! that waits by policy says so, and is approved here when nothing keeps it any more; one that waits for a user never is.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use go_compat::semver::Version;
use jiff::Timestamp;
use kube::ResourceExt;
use olm_api::labels;
use olm_api::v1alpha1::{InstallPlan, InstallPlanPhase, Subscription, SubscriptionStatus};
use olm_fbc::property::{PackageProperty, Property, Typed};
use olm_resolver::explain::{EVENT_LIMIT, cut};
use olm_runtime::plan::{Action, Guard, Requeue, Target};
use serde::Deserialize;
use serde_json::json;

use super::observed::{ComponentProgress, Observed, PolicyFacts};
use crate::manifest::Manifest;
use crate::step_kind::StepKind;
use crate::subscription::{plan_of, settle};
use crate::upgrade_policy::{Upgrade, Wait};

/// Longest time without a look at the clock while a window is waited for: timers do not notice that it was put, nor that the
/// machine slept.
const CLOCK_CHECK: Duration = Duration::from_secs(600);

/// What a plan waits for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Gate {
    /// A user has to approve, whatever the policies say.
    manual: bool,
    /// What policies wait for; nothing beside `manual`.
    waits: BTreeSet<Wait>,
    /// Subscriptions that wait because their last upgrade failed.
    stopped: BTreeSet<String>,
}

/// What tells gates apart: those of one are in one plan.
pub(crate) type GateKey = (bool, BTreeSet<(&'static str, String)>);

impl Gate {
    /// Whether nothing keeps a plan from being approved.
    pub(crate) fn is_open(&self) -> bool {
        !self.manual && self.waits.is_empty()
    }

    fn key(&self) -> GateKey {
        let waits = self.waits.iter();
        let keys = waits.map(|wait| (wait.annotation, wait.value.clone()));
        (self.manual, keys.collect())
    }

    /// What a plan that waits by policy is marked with.
    pub(crate) fn mark(&self) -> Option<String> {
        let names: Vec<&str> = self.stopped.iter().map(String::as_str).collect();
        (!self.manual && !self.waits.is_empty()).then(|| names.join(","))
    }

    /// What is waited for, for people; none where that is a user alone.
    pub(crate) fn text(&self) -> Option<String> {
        let texts: Vec<&str> = self.waits.iter().map(|wait| wait.text.as_str()).collect();
        (!texts.is_empty()).then(|| cut(&format!("waits by policy: {}", texts.join("; ")), EVENT_LIMIT))
    }

    /// When to look again.
    pub(crate) fn requeue(&self, now: Timestamp) -> Requeue {
        let next = self.waits.iter().filter_map(|wait| wait.until).min();
        next.map_or(Requeue::AwaitChange, |next| Requeue::After {
            delay: Duration::try_from(next.duration_since(now))
                .unwrap_or_default()
                .min(CLOCK_CHECK),
            reason: "the start of a maintenance window",
        })
    }

    fn add(
        &mut self,
        facts: &PolicyFacts,
        csv: &str,
        to: Option<&Version>,
        was_stopped: bool,
        now: Timestamp,
    ) {
        let upgrade = Upgrade {
            csv,
            to,
            from: facts.installed.as_ref(),
            after_failure: facts.failed || was_stopped,
        };
        for wait in facts.policy.waits(&upgrade, now) {
            if wait.annotation == labels::UPGRADE_STOP_AFTER_FAILURE {
                self.stopped.insert(facts.subscription.clone());
            }
            self.waits.insert(wait);
        }
    }
}

/// Whether one of these Subscriptions has its plans approved by a user; any of the namespace counts where the OperatorGroup does
/// not ask for separation.
fn is_manual<'a>(observed: &'a Observed, mut concerned: impl Iterator<Item = &'a Arc<Subscription>>) -> bool {
    if observed.separate_approval {
        concerned.any(|subscription| subscription.spec.is_manual())
    } else {
        observed
            .subscriptions
            .iter()
            .any(|subscription| subscription.spec.is_manual())
    }
}

/// The gate of a component's plan.
pub(crate) fn of_component(observed: &Observed, component: &ComponentProgress, now: Timestamp) -> Gate {
    let concerned = observed
        .subscriptions
        .iter()
        .filter(|subscription| component.subscriptions.contains(&subscription.name_any()));
    let mut gate = Gate {
        manual: is_manual(observed, concerned),
        ..Gate::default()
    };
    if gate.manual {
        return gate;
    }
    // Also of those that do not move now: their versions are in the plan all the same.
    for served in &component.served {
        if let Some(facts) = observed.policies.get(&served.subscription) {
            gate.add(facts, &served.csv, served.version.as_ref(), false, now);
        }
    }
    gate
}

/// Parts what is to be planned by its gates, the open one first.
pub(crate) fn group<'a, C>(
    observed: &Observed,
    components: Vec<C>,
    progress: impl Fn(&C) -> &'a ComponentProgress,
    now: Timestamp,
) -> Vec<(Gate, Vec<C>)> {
    let mut groups: BTreeMap<GateKey, (Gate, Vec<C>)> = BTreeMap::new();
    for component in components {
        let gate = of_component(observed, progress(&component), now);
        let (known, members) = groups
            .entry(gate.key())
            .or_insert_with(|| (Gate::default(), Vec::new()));
        known.manual |= gate.manual;
        known.waits.extend(gate.waits);
        known.stopped.extend(gate.stopped);
        members.push(component);
    }
    groups.into_values().collect()
}

/// A plan that waits by policy, and what it waits for now.
#[derive(Debug, Clone)]
pub(crate) struct WaitingPlan {
    /// The plan.
    pub plan: Arc<InstallPlan>,
    /// What it waits for.
    pub gate: Gate,
    /// Subscriptions that refer to it.
    pub subscriptions: Vec<String>,
}

impl WaitingPlan {
    /// The approval. It is bound to what was looked at.
    pub(crate) fn approval(&self) -> Action {
        let plan = &self.plan;
        let target = Target::of::<InstallPlan>(&plan.namespace().unwrap_or_default(), &plan.name_any());
        let guard = Guard {
            uid: plan.uid(),
            resource_version: plan.resource_version(),
        };
        Action::patch(target, json!({"spec": {"approved": true}}), guard)
    }
}

/// Plans that wait by policy, with those of their Subscriptions that are still there.
pub(crate) fn waiting_plans(observed: &Observed, now: Timestamp) -> Vec<WaitingPlan> {
    let plans = observed.plans().filter(|plan| waits_by_policy(plan));
    let plans: Vec<&Arc<InstallPlan>> = plans.collect();
    if plans.is_empty() {
        return Vec::new();
    }
    let settled: Vec<(&Arc<Subscription>, SubscriptionStatus)> = observed
        .subscriptions
        .iter()
        .map(|subscription| (subscription, settle(subscription, &observed.namespace_state)))
        .collect();
    let waiting = plans.into_iter().map(|plan| {
        let contents = PlanContents::of(plan);
        let concerned: Vec<(&Arc<Subscription>, &str)> = settled
            .iter()
            .filter_map(|(subscription, status)| {
                Some((*subscription, contents.csv_for(subscription, status)?))
            })
            .collect();
        let subscriptions = concerned.iter().map(|(subscription, _)| *subscription);
        let mut gate = Gate {
            manual: is_manual(observed, subscriptions),
            ..Gate::default()
        };
        let mark = plan.annotations().get(labels::UPGRADE_WAITS);
        let stopped: BTreeSet<&str> = mark.into_iter().flat_map(|mark| mark.split(',')).collect();
        for (subscription, csv) in concerned.into_iter().filter(|_| !gate.manual).collect::<Vec<_>>() {
            let name = subscription.name_any();
            if let Some(facts) = observed.policies.get(&name) {
                let version = contents.version(csv);
                gate.add(facts, csv, version.as_ref(), stopped.contains(name.as_str()), now);
            }
        }
        let refers = |status: &SubscriptionStatus| {
            plan_of(status, &observed.namespace_state).is_some_and(|found| found.uid() == plan.uid())
        };
        let referring = settled.iter().filter(|(_, status)| refers(status));
        WaitingPlan {
            plan: Arc::clone(plan),
            gate,
            subscriptions: referring
                .map(|(subscription, _)| subscription.name_any())
                .collect(),
        }
    });
    // Of a plan that nobody refers to any more nobody knows whether it is still wanted.
    waiting
        .filter(|waiting| !waiting.subscriptions.is_empty())
        .collect()
}

fn waits_by_policy(plan: &InstallPlan) -> bool {
    plan.phase() == InstallPlanPhase::RequiresApproval
        && !plan.spec.approved
        && plan.annotations().contains_key(labels::UPGRADE_WAITS)
}

/// What a plan installs.
struct PlanContents<'a> {
    plan: &'a InstallPlan,
    /// Package and version by ClusterServiceVersion, as far as they are known.
    packages: BTreeMap<&'a str, PackageProperty>,
}

impl<'a> PlanContents<'a> {
    fn of(plan: &'a InstallPlan) -> Self {
        let status = plan.status.iter();
        let lookups = status.clone().flat_map(|status| &status.bundle_lookups);
        let lookups = lookups.filter_map(|lookup| {
            let package = package_of(lookup.properties.as_deref()?)?;
            Some((lookup.identifier.as_str(), package))
        });
        let steps = status.flat_map(|status| &status.plan).map(|step| &step.resource);
        let steps = steps.filter_map(|resource| {
            let is_csv = StepKind::of(&resource.kind) == Some(StepKind::ClusterServiceVersion);
            let manifest = Manifest::parse(resource.manifest.as_deref().filter(|_| is_csv)?).ok()?;
            Some((resource.name.as_str(), package_in(&manifest)?))
        });
        Self {
            plan,
            packages: steps.chain(lookups).collect(),
        }
    }

    /// What it has for a Subscription: what that is to have, or, where the Subscription knows of no plan, as one that was
    /// made anew, what is of its package.
    fn csv_for<'s>(&'s self, subscription: &Subscription, status: &'s SubscriptionStatus) -> Option<&'s str> {
        let names = &self.plan.spec.cluster_service_version_names;
        let current = status.current_csv.as_ref().filter(|csv| names.contains(csv));
        current.map(String::as_str).or_else(|| {
            let mut packages = self.packages.iter();
            let (csv, _) = packages.find(|(_, package)| package.package_name == subscription.spec.name)?;
            Some(*csv)
        })
    }

    fn version(&self, csv: &str) -> Option<Version> {
        Version::parse_tolerant(&self.packages.get(csv)?.version).ok()
    }
}

/// The package among a bundle's properties.
fn package_of(properties: &str) -> Option<PackageProperty> {
    #[derive(Deserialize)]
    struct Properties {
        properties: Vec<Property>,
    }
    let found: Properties = serde_json::from_str(properties).ok()?;
    let mut typed = found
        .properties
        .iter()
        .filter_map(|property| property.parse().ok());
    typed.find_map(|property| match property {
        Typed::Package(package) => Some(package),
        _ => None,
    })
}

/// The package of a ClusterServiceVersion, where the step tells it; of a bundle image its lookup does.
fn package_in(manifest: &Manifest) -> Option<PackageProperty> {
    match manifest {
        Manifest::Inline(object) => {
            let annotations = object.pointer("/metadata/annotations")?;
            package_of(annotations.get(labels::PROPERTIES)?.as_str()?)
        }
        Manifest::ConfigMap(reference) => package_of(&reference.properties),
        Manifest::BundleImage(_) => None,
    }
}
