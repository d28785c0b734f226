//! What a round of a namespace's resolution writes. Pure.
//!
//! An InstallPlan is made in two rounds. The first creates it, without status, under the name of its generation. The second
//! finds it in the store and adopts it: its status and those of the Subscriptions that go with it are written. Until the
//! store has it, creating it again finds the name taken and changes nothing, so that an answer that was lost or an event
//! that is late makes no second plan.
//! A crash in between therefore leads to the same second round; a plan that was given its status but not yet referred to
//! is adopted likewise. What a later plan may take over is decided in [`find_adoptable`].

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use kube::ResourceExt;
use olm_api::condition::subscription as reasons;
use olm_api::v1alpha1::{InstallPlan, InstallPlanPhase, InstallPlanStatus, Subscription};
use olm_resolver::SubscriptionUpdate;
use olm_runtime::plan::{Action, EventDraft, Exists, Identity, Plan, Target, status_patch, to_value};

use super::memory::Memory;
use super::observed::{Bundles, ComponentProgress, Observed, Progress, ReadyBundles};
use super::outcome::{
    debounce_requeue, debounced_subscriptions, outcomes_by_subscription, resolution_event,
    subscription_warning, unpack_event,
};
use super::plan_object::{GENERATE_NAME, WantedPlan, counted, is_owned_by, plan_name};
use crate::install_plan::retention::find_surplus;
use crate::subscription::{self, Assignment, Facts, NamespaceState, ResolutionOutcome};

/// What the round did beside the writes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Verdict {
    /// Actions that make a plan: its creation, or its first status. When they are refused, Subscriptions are to hear of it.
    pub making: Vec<usize>,
    /// What was refused before: it stays so when the next try was not answered.
    pub refusal: Option<String>,
}

/// Decides what to write for one namespace.
pub fn decide(observed: &Observed, memory: Option<&Memory>, now: Timestamp) -> (Plan, Verdict) {
    let mut draft = Draft {
        observed,
        refusal: memory.and_then(|memory| memory.refusal.as_deref()),
        now,
        namespace_state: observed.namespace_state.clone(),
        outcomes_by_subscription: outcomes_by_subscription(observed),
        assignments: BTreeMap::new(),
        untouched: debounced_subscriptions(observed),
        plan: Plan::default(),
        verdict: Verdict {
            making: Vec::new(),
            refusal: memory.and_then(|memory| memory.refusal.clone()),
        },
    };
    draft.plan.requeue = debounce_requeue(observed);
    let is_told = |text| memory.is_some_and(|memory| memory.told.contains(text));
    let warnings = observed.warnings.iter();
    draft
        .plan
        .events
        .extend(warnings.filter(|event| !is_told(&event.message)).cloned());
    let last = draft.settle_plan();
    draft.write_subscriptions();
    let creating = matches!(last, Some(Action::Create { .. }));
    last.into_iter().for_each(|action| draft.make(action));
    draft.collect_garbage(creating);
    (draft.plan, draft.verdict)
}

/// A plan in the making.
struct Draft<'a> {
    observed: &'a Observed,
    /// What the API server said when a plan was last to be made, if it refused.
    refusal: Option<&'a str>,
    now: Timestamp,
    /// As observed, with the status of an adopted plan as it is about to be.
    namespace_state: NamespaceState,
    outcomes_by_subscription: BTreeMap<String, ResolutionOutcome>,
    assignments: BTreeMap<String, Assignment>,
    /// Subscriptions that the next round will write, so that this one leaves them alone.
    untouched: BTreeSet<String>,
    plan: Plan,
    verdict: Verdict,
}

impl Draft<'_> {
    /// Adopts the plan for the components that are ready, or returns the action that creates it.
    ///
    /// After a refusal the Subscriptions are told first, and what was refused is tried last: it would stop the round.
    fn settle_plan(&mut self) -> Option<Action> {
        let mut ready = ready_components(self.observed);
        for (component, _) in take_late_components(self.observed, &mut ready) {
            self.untouched
                .extend(component.updates.iter().map(|update| update.subscription.clone()));
        }
        let (wanted, updates) = wanted_plan(self.observed, &ready)?;
        let moved: Vec<&Arc<Subscription>> = updates
            .iter()
            .filter_map(|update| self.find(&update.subscription))
            .collect();
        let Some(found) = find_adoptable(self.observed, &wanted, &moved).cloned() else {
            match self.refusal {
                Some(refusal) => self.tell_refusal(&updates, refusal),
                None => {
                    let warned = moved.first().map(|first| obstacle_events(first, &ready));
                    self.plan.events.extend(warned.into_iter().flatten());
                    let moved = updates.into_iter().map(|update| update.subscription);
                    self.untouched.extend(moved);
                }
            }
            return Some(self.creation(&wanted));
        };
        match (self.refusal, self.first_status(&found, &wanted)) {
            (Some(refusal), Some(first_status)) => {
                self.tell_refusal(&updates, refusal);
                Some(first_status)
            }
            (_, first_status) => {
                first_status.into_iter().for_each(|write| self.make(write));
                self.adopt(&found, &wanted, updates);
                None
            }
        }
    }

    fn make(&mut self, write: Action) {
        self.verdict.making.push(self.plan.actions.len());
        self.plan.actions.push(write);
    }

    fn creation(&self, wanted: &WantedPlan) -> Action {
        let namespace = &self.observed.namespace;
        let generation = self.next_generation();
        let object = wanted.object(namespace, generation, &self.observed.subscriptions);
        Action::Create {
            target: Target::of::<InstallPlan>(namespace, &plan_name(namespace, generation)),
            object: to_value(&object),
            exists: Exists::Keep,
            identity: Identity::Operator,
        }
    }

    /// The status of a plan that has none.
    fn first_status(&self, found: &InstallPlan, wanted: &WantedPlan) -> Option<Action> {
        if found.phase() != InstallPlanPhase::None {
            return None;
        }
        let target = Target::of::<InstallPlan>(&self.observed.namespace, &found.name_any());
        let old = found
            .status
            .as_ref()
            .map_or_else(|| serde_json::Map::new().into(), to_value);
        status_patch(
            target,
            found.metadata.uid.as_deref(),
            &old,
            &wanted.status(found.spec.approved),
        )
    }

    /// Counts on the plan for the Subscriptions, with the status it has or is about to have.
    fn adopt(&mut self, found: &Arc<InstallPlan>, wanted: &WantedPlan, updates: Vec<SubscriptionUpdate>) {
        let mut plan = Arc::clone(found);
        if found.phase() == InstallPlanPhase::None {
            let status = InstallPlanStatus {
                plan: Vec::new().into(),
                ..wanted.status(found.spec.approved)
            };
            plan = Arc::new(InstallPlan {
                status: Some(status),
                ..InstallPlan::clone(found)
            });
            self.namespace_state
                .plans
                .insert(plan.name_any(), Arc::clone(&plan));
        }
        for update in updates {
            let assignment = Assignment {
                plan: Arc::clone(&plan),
                csv: update.current_csv,
            };
            self.assignments.insert(update.subscription, assignment);
        }
    }

    fn find(&self, name: &str) -> Option<&'_ Arc<Subscription>> {
        self.observed
            .subscriptions
            .iter()
            .find(|subscription| subscription.name_any() == name)
    }

    /// The generation after all that are known, whose name nobody has taken.
    fn next_generation(&self) -> i64 {
        let known = self.observed.subscriptions.iter().filter_map(|subscription| {
            subscription
                .status
                .as_ref()
                .and_then(|status| counted(status.install_plan_generation))
        });
        let last = known.max().unwrap_or(0).max(self.observed.last_generation);
        let mut next = last.saturating_add(1);
        while next < i64::MAX
            && self
                .observed
                .taken_names
                .contains(&plan_name(&self.observed.namespace, next))
        {
            next = next.saturating_add(1);
        }
        next
    }

    fn tell_refusal(&mut self, updates: &[SubscriptionUpdate], refusal: &str) {
        let outcome = ResolutionOutcome::UnpackFailed {
            reason: reasons::ENSURE_INSTALL_PLAN_FAILED,
            message: format!("error ensuring InstallPlan: {refusal}"),
        };
        for update in updates {
            self.outcomes_by_subscription
                .insert(update.subscription.clone(), outcome.clone());
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
                outcome: self
                    .outcomes_by_subscription
                    .get(&name)
                    .unwrap_or(&ResolutionOutcome::Unknown),
                deprecation: self.observed.deprecations.get(&name),
                assignment: self.assignments.get(&name),
            };
            let next = subscription::compose(subscription, &self.namespace_state, &facts, self.now);
            if !subscription::is_worth_writing(subscription.status.as_ref(), &next) {
                continue;
            }
            self.plan.events.extend(unpack_event(subscription, facts.outcome));
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
            .extend(resolution_event(self.observed, &self.outcomes_by_subscription));
    }

    /// Removes surplus plans, and plans that were created for an answer that is no longer wanted before they were adopted.
    fn collect_garbage(&mut self, creating: bool) {
        let assigned: BTreeSet<String> = self
            .assignments
            .values()
            .map(|assignment| assignment.plan.name_any())
            .collect();
        let plans: Vec<Arc<InstallPlan>> = self.namespace_state.plans.values().cloned().collect();
        let surplus = find_surplus(&plans, &self.observed.subscriptions, &self.namespace_state.csvs);
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

/// A component whose bundles are there.
type ReadyComponent<'a> = (&'a ComponentProgress, &'a ReadyBundles);

fn ready_components(observed: &Observed) -> Vec<ReadyComponent<'_>> {
    let Progress::Resolved { components, .. } = &observed.progress else {
        return Vec::new();
    };
    if observed.progress.gathering().is_some() {
        return Vec::new();
    }
    let mut ready = Vec::new();
    for component in components {
        if let Bundles::Ready(bundles) = &component.bundles {
            ready.push((component, bundles));
        }
    }
    ready
}

/// Takes out the components that a plan without status was not made for, if there is such a plan that was made for others:
/// more bundles were there in the next round than in the one that created it. Their turn comes once it is adopted.
fn take_late_components<'a>(
    observed: &'a Observed,
    ready: &mut Vec<ReadyComponent<'a>>,
) -> Vec<ReadyComponent<'a>> {
    for plan in observed.plans().filter(|plan| is_unadopted(plan, observed)) {
        let names = &plan.spec.cluster_service_version_names;
        let (planned, late): (Vec<ReadyComponent<'_>>, Vec<_>) = ready
            .iter()
            .partition(|(_, bundles)| bundles.csv_names.iter().all(|name| names.contains(name)));
        let covered = planned.iter().flat_map(|(_, bundles)| &bundles.csv_names);
        if !planned.is_empty() && covered.eq(names) {
            *ready = planned;
            return late;
        }
    }
    Vec::new()
}

/// The plan for these components, with the Subscriptions it moves on.
fn wanted_plan(
    observed: &Observed,
    components: &[ReadyComponent<'_>],
) -> Option<(WantedPlan, Vec<SubscriptionUpdate>)> {
    let mut wanted = WantedPlan {
        csv_names: Vec::new(),
        manual: observed
            .subscriptions
            .iter()
            .any(|subscription| subscription.spec.is_manual()),
        steps: Vec::new(),
        lookups: Vec::new(),
    };
    for (_, bundles) in components {
        wanted.csv_names.extend(bundles.csv_names.iter().cloned());
        wanted.steps.extend(bundles.subscription_steps.iter().cloned());
        wanted.lookups.extend(bundles.lookups.iter().cloned());
    }
    wanted
        .steps
        .extend(components.iter().flat_map(|(_, bundles)| &bundles.steps).cloned());
    let updates: Vec<_> = components
        .iter()
        .flat_map(|(component, _)| &component.updates)
        .cloned()
        .collect();
    (!updates.is_empty()).then_some((wanted, updates))
}

/// What the cluster will not take of the bundles, told with the creation of their plan and so once.
fn obstacle_events(subscription: &Subscription, components: &[ReadyComponent<'_>]) -> Vec<EventDraft> {
    let obstacles = components.iter().flat_map(|(_, bundles)| &bundles.obstacles);
    obstacles
        .map(|text| subscription_warning(subscription, reasons::CLUSTER_UNSUITABLE, text))
        .collect()
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
        let content = match plan.phase() {
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
    plan.phase() == InstallPlanPhase::None
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

fn is_newer(plan: &InstallPlan, subscription: &Subscription) -> bool {
    let had = subscription
        .status
        .as_ref()
        .and_then(|status| counted(status.install_plan_generation))
        .unwrap_or(0);
    counted(plan.spec.generation).is_some_and(|generation| generation > had)
}
