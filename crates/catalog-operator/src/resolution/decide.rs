//! What a round of a namespace's resolution writes. Pure.
//!
//! An InstallPlan is made in two rounds. The first creates it, without status, under a name the API server chooses. The
//! second finds it in the store and adopts it: its status and those of the Subscriptions that go with it are written.
//! A crash in between therefore leads to the same second round; a plan that was given its status but not yet referred to
//! is adopted likewise. What a later plan may take over is decided in [`find_adoptable`].

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use kube::ResourceExt;
use olm_api::condition::subscription as words;
use olm_api::v1alpha1::{InstallPlan, InstallPlanPhase, InstallPlanStatus, Subscription};
use olm_resolver::SubscriptionUpdate;
use olm_runtime::plan::{Action, Exists, Identity, Plan, Requeue, Target, status_patch, to_value};

use super::observe::{Bundles, Observed, Progress};
use super::plan_object::{GENERATE_NAME, WantedPlan};
use super::standing::{quiet_subscriptions, quiet_time, resolution_event, standings, unpack_event};
use crate::install_plan::retention::find_surplus;
use crate::subscription::install_plan::phase;
use crate::subscription::{self, Assignment, Facts, Standing, Surroundings};

/// What the round did beside the writes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Verdict {
    /// Index of the action that creates a plan.
    pub creation: Option<usize>,
}

/// Decides what to write for one namespace.
pub fn decide(observed: &Observed, now: Timestamp) -> (Plan, Verdict) {
    let mut round = Round {
        observed,
        now,
        around: observed.around.clone(),
        standings: standings(observed),
        assignments: BTreeMap::new(),
        untouched: quiet_subscriptions(observed),
        plan: Plan::default(),
    };
    round.plan.requeue = quiet_time(observed);
    let creation = round.settle_plan();
    round.write_subscriptions();
    let creation = creation.map(|create| {
        round.plan.actions.push(create);
        round.plan.requeue = Requeue::After {
            delay: Duration::ZERO,
            reason: "adoption of the new InstallPlan",
        };
        round.plan.actions.len() - 1
    });
    round.collect_garbage(creation.is_some());
    (round.plan, Verdict { creation })
}

struct Round<'a> {
    observed: &'a Observed,
    now: Timestamp,
    /// As observed, with the status of an adopted plan as it is about to be.
    around: Surroundings,
    standings: BTreeMap<String, Standing>,
    assignments: BTreeMap<String, Assignment>,
    /// Subscriptions that the next round will write, so that this one leaves them alone.
    untouched: BTreeSet<String>,
    plan: Plan,
}

impl Round<'_> {
    /// Adopts the plan for the parts that are ready, or returns the action that creates it.
    fn settle_plan(&mut self) -> Option<Action> {
        let (wanted, updates) = wanted_plan(self.observed)?;
        let moved: Vec<&Arc<Subscription>> = updates
            .iter()
            .filter_map(|update| self.find(&update.subscription))
            .collect();
        match find_adoptable(self.observed, &wanted, &moved) {
            Some(found) => {
                let adopted = self.give_status(found, &wanted);
                for update in updates {
                    let assignment = Assignment {
                        plan: Arc::clone(&adopted),
                        csv: update.current_csv,
                    };
                    self.assignments.insert(update.subscription, assignment);
                }
                None
            }
            None => {
                match &self.observed.refusal {
                    Some(refusal) => self.tell_refusal(&updates, refusal),
                    None => self
                        .untouched
                        .extend(updates.into_iter().map(|update| update.subscription)),
                }
                let object = wanted.object(
                    &self.observed.namespace,
                    self.next_generation(),
                    &self.observed.subscriptions,
                );
                Some(Action::Create {
                    target: Target::of::<InstallPlan>(&self.observed.namespace, ""),
                    object: to_value(&object),
                    exists: Exists::Fail,
                    identity: Identity::Operator,
                })
            }
        }
    }

    fn find(&self, name: &str) -> Option<&'_ Arc<Subscription>> {
        self.observed
            .subscriptions
            .iter()
            .find(|subscription| subscription.name_any() == name)
    }

    fn next_generation(&self) -> i64 {
        let plans = self.observed.plans().filter_map(|plan| plan.spec.generation);
        let known = self.observed.subscriptions.iter().filter_map(|subscription| {
            subscription
                .status
                .as_ref()
                .and_then(|status| status.install_plan_generation)
        });
        plans.chain(known).max().unwrap_or(0) + 1
    }

    /// Writes the status of a plan that has none, and counts on it for the Subscriptions.
    fn give_status(&mut self, found: &Arc<InstallPlan>, wanted: &WantedPlan) -> Arc<InstallPlan> {
        if phase(found) != InstallPlanPhase::None {
            return Arc::clone(found);
        }
        let target = Target::of::<InstallPlan>(&self.observed.namespace, &found.name_any());
        let status = wanted.status(found.spec.approved);
        let empty = serde_json::Map::new();
        let old = found
            .status
            .as_ref()
            .map_or_else(|| empty.clone().into(), to_value);
        self.plan
            .actions
            .extend(status_patch(target, found.metadata.uid.as_deref(), &old, &status));
        let mut adopted = InstallPlan::clone(found);
        adopted.status = Some(InstallPlanStatus {
            plan: Vec::new().into(),
            ..status
        });
        let adopted = Arc::new(adopted);
        self.around.plans.insert(adopted.name_any(), Arc::clone(&adopted));
        adopted
    }

    fn tell_refusal(&mut self, updates: &[SubscriptionUpdate], refusal: &str) {
        let standing = Standing::UnpackFailed {
            reason: words::ENSURE_INSTALL_PLAN_FAILED,
            message: format!("error ensuring InstallPlan: {refusal}"),
        };
        for update in updates {
            self.standings
                .insert(update.subscription.clone(), standing.clone());
        }
    }

    fn write_subscriptions(&mut self) {
        for subscription in &self.observed.subscriptions {
            let name = subscription.name_any();
            if self.untouched.contains(&name) {
                continue;
            }
            let facts = Facts {
                catalogs: &self.observed.catalogs,
                standing: self.standings.get(&name).unwrap_or(&Standing::Unknown),
                deprecation: self.observed.deprecations.get(&name),
                assignment: self.assignments.get(&name),
            };
            let next = subscription::compose(subscription, &self.around, &facts, self.now);
            if !subscription::is_worth_writing(subscription.status.as_ref(), &next) {
                continue;
            }
            self.plan
                .events
                .extend(unpack_event(subscription, facts.standing));
            let old = subscription.status.clone().unwrap_or_default();
            let target = Target::of::<Subscription>(&self.observed.namespace, &name);
            self.plan.actions.extend(status_patch(
                target,
                subscription.metadata.uid.as_deref(),
                &old,
                &next,
            ));
        }
        self.plan
            .events
            .extend(resolution_event(self.observed, &self.standings));
    }

    /// Removes surplus plans, and plans that were created for an answer that is no longer wanted before they were adopted.
    fn collect_garbage(&mut self, creating: bool) {
        let assigned: BTreeSet<String> = self
            .assignments
            .values()
            .map(|assignment| assignment.plan.name_any())
            .collect();
        let plans: Vec<Arc<InstallPlan>> = self.around.plans.values().cloned().collect();
        let surplus = find_surplus(&plans, &self.observed.subscriptions);
        let abandoned = plans
            .into_iter()
            .filter(|plan| creating && is_unadopted(plan, self.observed));
        for plan in surplus
            .into_iter()
            .chain(abandoned)
            .filter(|plan| !assigned.contains(&plan.name_any()))
        {
            let target = Target::of::<InstallPlan>(&self.observed.namespace, &plan.name_any());
            self.plan.actions.push(Action::delete(target, plan.uid()));
        }
    }
}

/// The plan for all parts that are ready, with the Subscriptions it moves on.
fn wanted_plan(observed: &Observed) -> Option<(WantedPlan, Vec<SubscriptionUpdate>)> {
    let Progress::Resolved { parts, .. } = &observed.progress else {
        return None;
    };
    let mut wanted = WantedPlan {
        csv_names: Vec::new(),
        manual: observed
            .subscriptions
            .iter()
            .any(|subscription| subscription.spec.is_manual()),
        steps: Vec::new(),
        lookups: Vec::new(),
    };
    let (mut updates, mut bundle_steps) = (Vec::new(), Vec::new());
    for part in parts {
        let Bundles::Ready {
            csv_names,
            subscription_steps,
            steps,
            lookups,
        } = &part.bundles
        else {
            continue;
        };
        wanted.csv_names.extend(csv_names.iter().cloned());
        wanted.steps.extend(subscription_steps.iter().cloned());
        bundle_steps.extend(steps.iter().cloned());
        wanted.lookups.extend(lookups.iter().cloned());
        updates.extend(part.updates.iter().cloned());
    }
    wanted.steps.append(&mut bundle_steps);
    (!updates.is_empty()).then_some((wanted, updates))
}

/// A plan made for this very answer that the Subscriptions do not refer to yet, because the process ended in between.
///
/// It must be owned by every Subscription that moves on, be newer than what each of them had, hold what is wanted, and not
/// have failed. One without status must hold nothing else: its status is yet to be written from what is wanted now.
fn find_adoptable<'a>(
    observed: &'a Observed,
    wanted: &WantedPlan,
    moved: &[&Arc<Subscription>],
) -> Option<&'a Arc<InstallPlan>> {
    let fits = |plan: &&Arc<InstallPlan>| {
        let names = &plan.spec.cluster_service_version_names;
        let content = match phase(plan) {
            InstallPlanPhase::None => *names == wanted.csv_names && is_unadopted(plan, observed),
            InstallPlanPhase::Failed => false,
            _ => wanted.csv_names.iter().all(|name| names.contains(name)),
        };
        content
            && moved
                .iter()
                .all(|subscription| is_owned_by(plan, subscription) && is_newer(plan, subscription))
    };
    observed
        .plans()
        .filter(fits)
        .max_by_key(|plan| plan.spec.generation)
}

/// Made here, by its name and its owners, and without a status.
fn is_unadopted(plan: &InstallPlan, observed: &Observed) -> bool {
    phase(plan) == InstallPlanPhase::None
        && plan
            .status
            .as_ref()
            .is_none_or(|status| status.plan.is_empty() && status.bundle_lookups.is_empty())
        && plan.metadata.generate_name.as_deref() == Some(GENERATE_NAME)
        && observed
            .subscriptions
            .iter()
            .any(|subscription| is_owned_by(plan, subscription))
}

fn is_owned_by(plan: &InstallPlan, subscription: &Subscription) -> bool {
    let uid = subscription.metadata.uid.as_deref();
    plan.metadata
        .owner_references
        .iter()
        .flatten()
        .any(|owner| Some(owner.uid.as_str()) == uid)
}

fn is_newer(plan: &InstallPlan, subscription: &Subscription) -> bool {
    let had = subscription
        .status
        .as_ref()
        .and_then(|status| status.install_plan_generation)
        .unwrap_or(0);
    plan.spec.generation.unwrap_or(0) > had
}
