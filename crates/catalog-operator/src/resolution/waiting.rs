//! Plans that wait by policy, looked at again in every round: whether they may begin, and whether what they have is still wanted.
//! Pure.
//!
//! Such a plan says what it is, and is approved here when nothing keeps it any more; one that waits for a user never is. While it
//! waits its Subscriptions may move on, or go: what is in it for them must not come with what is in it for others.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use kube::ResourceExt;
use olm_api::labels;
use olm_api::v1alpha1::{InstallPlan, Subscription, SubscriptionStatus};
use olm_resolver::explain::{EVENT_LIMIT, cut};
use olm_runtime::plan::{Action, Guard, Requeue, Target};
use serde_json::{Value, json};

use super::choices::{Choice, Choices};
use super::gate::{Gate, is_manual};
use super::observed::{Observed, SettledSubscription};
use super::plan_contents::{BroughtSubscription, PlanContents};
use super::plan_object::{self, is_made_here, waits_by_policy};
use crate::subscription::plan_of;

/// The plans of a namespace that wait by policy.
#[derive(Debug, Clone, Default)]
pub(crate) struct WaitingPlans {
    /// Those that a Subscription refers to.
    pub plans: Vec<WaitingPlan>,
    /// Those made here that no Subscription refers to any more.
    pub forsaken: Vec<Arc<InstallPlan>>,
}

/// A plan that waits by policy, and what it waits for now.
#[derive(Debug, Clone)]
pub(crate) struct WaitingPlan {
    plan: Arc<InstallPlan>,
    gate: Gate,
    /// What is in it that it is not to install any more, for people.
    unwanted: Vec<String>,
    /// Why it is not known whether all of it is wanted still, for people.
    unresolved: Option<String>,
    /// What it is to be marked with, where an upgrade failed since it was made.
    pub new_mark: Option<String>,
    /// Subscriptions that refer to it.
    pub subscriptions: Vec<String>,
}

impl WaitingPlan {
    /// Its name.
    pub(crate) fn name(&self) -> String {
        self.plan.name_any()
    }

    /// Whether it may begin.
    pub(crate) fn is_open(&self) -> bool {
        self.gate.is_open() && self.is_wanted() && self.unresolved.is_none()
    }

    /// Whether all that is in it is wanted still.
    pub(crate) fn is_wanted(&self) -> bool {
        self.unwanted.is_empty()
    }

    /// Whether it will never be approved by itself, so that all who refer to it are better off with another one. One that was made by
    /// somebody else, and one that waits for a user because of a failure, is theirs to delete.
    pub(crate) fn is_useless(&self) -> bool {
        !self.is_wanted() && is_made_here(&self.plan) && plan_object::stopped(&self.plan).is_empty()
    }

    /// Its ClusterServiceVersions.
    pub(crate) fn csv_names(&self) -> &[String] {
        &self.plan.spec.cluster_service_version_names
    }

    /// Its deletion, bound like its approval.
    pub(crate) fn deletion(&self) -> Action {
        plan_object::deletion(&self.plan)
    }

    /// The approval. It is bound to what was looked at.
    pub(crate) fn approval(&self) -> Action {
        self.patch(json!({"spec": {"approved": true}}))
    }

    /// The same for the mark.
    pub(crate) fn marking(&self, mark: &str) -> Action {
        self.patch(json!({"metadata": {"annotations": {labels::UPGRADE_WAITS: mark}}}))
    }

    fn patch(&self, patch: Value) -> Action {
        let plan = &self.plan;
        let target = Target::of::<InstallPlan>(&plan.namespace().unwrap_or_default(), &plan.name_any());
        let guard = Guard {
            uid: plan.uid(),
            resource_version: plan.resource_version(),
        };
        Action::patch(target, patch, guard)
    }

    /// What a Subscription that refers to it waits for, for people: first what no time and no annotation ends.
    pub(crate) fn text(&self, subscription: &str) -> Option<String> {
        let name = self.plan.name_any();
        let waits = self.gate.text(subscription, &name);
        let Some((first, others)) = self.unwanted.split_first() else {
            // Which comes and goes: told when it is all that is waited for.
            let unresolved = self.unresolved.as_ref().filter(|_| self.gate.is_open());
            let unresolved = unresolved.map(|why| format!("InstallPlan {name} is not approved: {why}"));
            return waits.or(unresolved);
        };
        let more = match others.len() {
            0 => String::new(),
            more => format!(" (and {more} more)"),
        };
        let told = format!(
            "InstallPlan {name} contains {first}{more}; delete InstallPlan {name} and OLM creates a new one"
        );
        let texts: Vec<String> = [told].into_iter().chain(waits).collect();
        Some(cut(&texts.join("; "), EVENT_LIMIT))
    }

    /// When to look again.
    pub(crate) fn requeue(&self, now: Timestamp) -> Requeue {
        self.gate.requeue(now)
    }
}

/// The plans that wait by policy, with those of their Subscriptions that are still there.
pub(crate) fn waiting_plans(observed: &Observed, now: Timestamp) -> WaitingPlans {
    let mut waiting = WaitingPlans::default();
    let mut plans = observed.plans().filter(|plan| waits_by_policy(plan)).peekable();
    if plans.peek().is_none() {
        return waiting;
    }
    let state = &observed.namespace_state;
    let mut referring: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (object, status) in observed.settled().iter() {
        if let Some(plan) = plan_of(status, state) {
            referring
                .entry(plan.name_any())
                .or_default()
                .push(object.name_any());
        }
    }
    let settled = SettledIndex::of(observed.settled());
    for plan in plans {
        if let Some(subscriptions) = referring.remove(&plan.name_any()) {
            // Read in the same round, of the same plans.
            let Some(contents) = observed.contents.get(&plan.name_any()) else {
                continue;
            };
            let found = Waiting {
                plan,
                contents,
                subscriptions,
            };
            waiting.plans.push(look_at(found, &settled, observed, now));
        } else if is_made_here(plan) {
            waiting.forsaken.push(Arc::clone(plan));
        }
    }
    waiting
}

/// The Subscriptions of a namespace, by what plans ask for: there may be thousands of either.
struct SettledIndex<'a> {
    /// By the ClusterServiceVersion that each is to have.
    by_csv: BTreeMap<&'a str, Vec<&'a SettledSubscription>>,
    by_package: BTreeMap<&'a str, Vec<&'a SettledSubscription>>,
}

impl<'a> SettledIndex<'a> {
    fn of(all: &'a [SettledSubscription]) -> Self {
        let (mut by_csv, mut by_package) = (BTreeMap::new(), BTreeMap::new());
        for settled in all {
            let (object, status) = settled;
            let csv = status.current_csv.as_deref().filter(|csv| !csv.is_empty());
            if let Some(csv) = csv {
                by_csv.entry(csv).or_insert_with(Vec::new).push(settled);
            }
            let package = object.spec.name.as_str();
            by_package.entry(package).or_insert_with(Vec::new).push(settled);
        }
        Self { by_csv, by_package }
    }

    fn of_csv(&self, csv: &str) -> impl Iterator<Item = &'a SettledSubscription> {
        self.by_csv.get(csv).into_iter().flatten().copied()
    }

    fn of_package(&self, package: &str) -> impl Iterator<Item = &'a SettledSubscription> {
        self.by_package.get(package).into_iter().flatten().copied()
    }
}

fn look_at(
    found: Waiting<'_>,
    settled: &SettledIndex<'_>,
    observed: &Observed,
    now: Timestamp,
) -> WaitingPlan {
    let concerned = found.concerned(settled);
    let asked = concerned.iter().map(|(subscription, _)| *subscription);
    let is_manual = is_manual(observed, asked);
    let mut gate = Gate::default();
    let mut stopped = plan_object::stopped(found.plan);
    for (subscription, csv) in concerned {
        let name = subscription.name_any();
        if let Some(facts) = observed.policies.get(&name) {
            let version = found.contents.version(csv);
            gate.add(facts, csv, version.as_ref(), stopped.contains(&name), now);
        }
    }
    // Also while somebody says Manual, who may say something else when it is over.
    let failed_meanwhile = !gate.stopped().is_subset(&stopped);
    stopped.extend(gate.stopped().iter().cloned());
    if is_manual {
        gate = Gate::manual(true);
    }
    let (mut unwanted, mut unresolved) = (Vec::new(), None);
    for csv in &found.plan.spec.cluster_service_version_names {
        match found.finding(csv, settled, observed) {
            Finding::Wanted => {}
            Finding::Unresolved(why) => unresolved = unresolved.or(Some(why)),
            Finding::Unwanted(what) => unwanted.push(what),
        }
    }
    WaitingPlan {
        plan: Arc::clone(found.plan),
        gate,
        unwanted,
        unresolved,
        new_mark: failed_meanwhile.then(|| plan_object::mark(&stopped)),
        subscriptions: found.subscriptions,
    }
}

/// A plan with what is in it, and who refers to it.
struct Waiting<'a> {
    plan: &'a Arc<InstallPlan>,
    contents: &'a PlanContents,
    subscriptions: Vec<String>,
}

impl Waiting<'_> {
    /// Whom it is for, and what it has for each: what the Subscription is to have, or, where it is to have none of it, what is of
    /// its package.
    fn concerned<'s>(&'s self, settled: &SettledIndex<'s>) -> Vec<(&'s Arc<Subscription>, &'s str)> {
        let names = &self.plan.spec.cluster_service_version_names;
        let to_have = names.iter().flat_map(|csv| {
            let settled = settled.of_csv(csv);
            settled.map(|(object, _)| (object, csv.as_str()))
        });
        let is_to_have =
            |status: &SubscriptionStatus| status.current_csv.as_ref().is_some_and(|csv| names.contains(csv));
        let of_package = self.contents.packages.iter().flat_map(|(csv, package)| {
            let settled = settled.of_package(&package.package_name);
            let others = settled.filter(|(_, status)| !is_to_have(status));
            others.map(|(object, _)| (object, csv.as_str()))
        });
        to_have.chain(of_package).collect()
    }

    /// How it stands with a ClusterServiceVersion in it.
    fn finding(&self, csv: &str, settled: &SettledIndex<'_>, observed: &Observed) -> Finding {
        let is_there = observed.namespace_state.csvs.contains_key(csv);
        match self.contents.brought.get(csv) {
            Some(brought) => self.of_dependency(csv, brought, is_there, settled, &observed.choices),
            None => of_taken(csv, is_there, settled, &observed.choices),
        }
    }

    /// A dependency with a Subscription of its own is not wanted where there is one meanwhile that has another version, or is another
    /// one, and where those who wait require another.
    fn of_dependency(
        &self,
        csv: &str,
        brought: &BroughtSubscription,
        is_there: bool,
        settled: &SettledIndex<'_>,
        choices: &Choices,
    ) -> Finding {
        let packages = brought.package.iter();
        let mut others = packages.flat_map(|package| settled.of_package(package));
        let other = others.find(|(object, status)| {
            let current = status.current_csv.as_deref().filter(|csv| !csv.is_empty());
            current.is_some_and(|current| current != csv || object.name_any() != brought.name)
        });
        if let Some((other, _)) = other {
            let other = other.name_any();
            let text = format!("{csv} as a dependency, which Subscription {other} provides now");
            return Finding::Unwanted(text);
        }
        let mut waiting = self.subscriptions.iter();
        if is_there || choices.has(csv) {
            Finding::Wanted
        } else if let Some(name) = waiting.find(|name| choices.choice(name, csv) == Choice::Unknown) {
            Finding::Unresolved(format!("Subscription {name} cannot be resolved at present"))
        } else {
            Finding::Unwanted(format!("{csv} as a dependency, which no Subscription needs now"))
        }
    }
}

/// How it stands with a ClusterServiceVersion of a plan that waits.
enum Finding {
    /// A Subscription is to have it.
    Wanted,
    /// Whether one is, is not known, or it is about to move on: for people.
    Unresolved(String),
    /// None is, for people.
    Unwanted(String),
}

/// A version for Subscriptions is wanted where one that waits for it asks for it still, and the catalog offers it.
fn of_taken(csv: &str, is_there: bool, settled: &SettledIndex<'_>, choices: &Choices) -> Finding {
    let takers: Vec<String> = settled.of_csv(csv).map(|(object, _)| object.name_any()).collect();
    let Some(first) = takers.first() else {
        return Finding::Unwanted(format!("{csv}, which no Subscription requests now"));
    };
    let has = |wanted: Choice| takers.iter().find(|name| choices.choice(name, csv) == wanted);
    if is_there || has(Choice::Same).is_some() {
        Finding::Wanted
    } else if let Some(name) = has(Choice::Unknown) {
        Finding::Unresolved(format!("Subscription {name} cannot be resolved at present"))
    } else if let Some(name) = has(Choice::Other) {
        Finding::Unresolved(format!(
            "Subscription {name} now resolves to another version than {csv}"
        ))
    } else {
        Finding::Unwanted(format!(
            "{csv}, which the catalog no longer offers to Subscription {first}"
        ))
    }
}
