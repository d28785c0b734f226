//! Decides the writes of a reconcile of a namespace's resolution. No I/O.
//!
//! An InstallPlan is made in two reconciles. The first creates it, without status, under a name that follows from its generation.
//! The second finds it in the store and adopts it ([`adoption`]): its first status is written, and the Subscriptions
//! that it moves refer to it (`status.rs`). Until the store has it, creating it again finds the name taken and changes
//! nothing, so a lost response, a late event or a crash makes no second plan. A plan of that name that no Subscription owns,
//! because a webhook removed the owners, is reported, and no other one is created.
//!
//! While a bundle or catalog has only just begun to load, nothing is planned, so that components that become ready
//! together share a plan. A component that becomes ready after a plan was created waits until that plan is adopted
//! ([`split_late_components`]).
//!
//! Plans that nothing needs any more are deleted ([`Draft::delete_unneeded`]): surplus ones, those that wait by policy
//! with a version that is no longer chosen, and those that another one replaces before they were adopted.
//!
//! Components with one approver share a plan. All Subscriptions of the namespace own every plan, and one that refers to
//! a newer plan lets every older one begin (`install_plan/adoption.rs`). So the plan that nobody has to approve is made
//! first and alone, unless making a plan has just failed.
//!
//! The conditions of Subscriptions and their texts are in `outcome.rs`.

mod adoption;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kube::ResourceExt;
use olm_api::condition::subscription as reasons;
use olm_api::v1alpha1::{BundleLookup, InstallPlan, InstallPlanPhase, Subscription};
use olm_resolver::SubscriptionUpdate;
use olm_runtime::plan::{Action, EventDraft, Plan, Target, status_patch, to_value};

use self::adoption::{adopted, find_adoptable, is_unadopted};
use super::approver::Approver;
use super::memory::Memory;
use super::observed::{Bundles, ComponentProgress, Observed, ReadyBundles};
use super::outcome::{
    debounce_requeue, debounced_subscriptions, outcomes_by_subscription, subscription_warning,
};
use super::plan_object::{WantedPlan, deletion, is_made_here, oldest_uid, plan_name};
use crate::install_plan::adoption::generation;
use crate::install_plan::retention::find_surplus;
use crate::step_kind::StepKind;
use crate::subscription::ResolutionOutcome;
use crate::upgrade_policy::{stopped, waits_by_policy};

/// What `status` needs of the decision, besides the outcomes of the writes.
#[derive(Debug, Clone, Default)]
pub(crate) struct Verdict {
    /// Result of the resolution for each Subscription.
    pub outcomes_by_subscription: BTreeMap<String, ResolutionOutcome>,
    /// Subscriptions that a later reconcile will write soon, so this one does not.
    pub untouched: BTreeSet<String>,
    /// The plans that some of them move on to.
    pub moving: Vec<Move>,
    /// Subscriptions that move on in plans of later reconciles.
    pub behind: BTreeSet<String>,
    /// All current warnings, whether reported in this reconcile or before.
    pub warnings: Vec<String>,
    /// State passed on by the previous reconcile.
    pub last: Memory,
}

/// Subscriptions on their way to a plan.
#[derive(Debug, Clone)]
pub(crate) struct Move {
    /// Index of the action that creates the plan or its first status; `None` if the plan already exists.
    pub making: Option<usize>,
    /// The plan with the status it has or is about to get; `None` if it is only created in this reconcile.
    pub plan: Option<Arc<InstallPlan>>,
    /// The Subscriptions, with the ClusterServiceVersion that each moves to.
    pub updates: Vec<SubscriptionUpdate>,
}

/// Decides what to write for one namespace.
pub(crate) fn decide(observed: &Observed, memory: Option<&Memory>) -> (Plan, Verdict) {
    let mut draft = Draft {
        observed,
        plan: Plan::default(),
        verdict: Verdict {
            outcomes_by_subscription: outcomes_by_subscription(observed),
            untouched: debounced_subscriptions(observed),
            moving: Vec::new(),
            behind: BTreeSet::new(),
            warnings: Vec::new(),
            last: memory.cloned().unwrap_or_default(),
        },
    };
    draft.plan.requeue = debounce_requeue(observed);
    draft.warn(observed.warnings.clone());
    let settled = draft.settle_plans();
    let moves: Vec<&Move> = settled.iter().map(|(moving, _)| moving).collect();
    // Deleted before others are created, because a quota may limit their number.
    draft.delete_unneeded(&moves);
    for (moving, making) in settled {
        let making = making.map(|action| draft.push(action));
        draft.verdict.moving.push(Move { making, ..moving });
    }
    // Each is independent: a plan that is refused delays no other.
    draft.plan.independent = draft.plan.actions.len();
    let Draft {
        mut plan, verdict, ..
    } = draft;
    plan.events
        .retain(|event| !verdict.last.reported.contains(&event.message));
    (plan, verdict)
}

/// A component whose bundles are available.
type ReadyComponent<'a> = (&'a ComponentProgress, &'a ReadyBundles);

/// Components with one approver, which share a plan.
type Group<'a> = (Approver, Vec<ReadyComponent<'a>>);

/// Returns the groups that are planned in this reconcile, and those of later ones. A group that nobody has to approve is
/// planned alone, unless making a plan has just failed: what is wrong with one plan must not delay the others.
fn next_groups<'a>(
    observed: &Observed,
    ready: Vec<ReadyComponent<'a>>,
    is_failing: bool,
) -> (Vec<Group<'a>>, Vec<Group<'a>>) {
    let mut groups: BTreeMap<Approver, Vec<ReadyComponent<'a>>> = BTreeMap::new();
    for component in ready {
        let approver = Approver::of(observed, component.0);
        groups.entry(approver).or_default().push(component);
    }
    let mut groups: Vec<Group<'a>> = groups.into_iter().collect();
    let is_alone = !is_failing
        && groups
            .first()
            .is_some_and(|(approver, _)| *approver == Approver::Nobody);
    let later = if is_alone { groups.split_off(1) } else { Vec::new() };
    (groups, later)
}

/// Returns the Subscriptions that these updates move.
fn moved<'a>(observed: &'a Observed, updates: &[SubscriptionUpdate]) -> Vec<&'a Arc<Subscription>> {
    let moved = updates.iter();
    moved
        .filter_map(|update| observed.subscription(&update.subscription))
        .collect()
}

/// A decision in progress.
struct Draft<'a> {
    observed: &'a Observed,
    plan: Plan,
    verdict: Verdict,
}

impl Draft<'_> {
    /// Adopts or creates the plans for the components that are ready. Returns the Subscriptions that move to each, and the
    /// write that makes it.
    fn settle_plans(&mut self) -> Vec<(Move, Option<Action>)> {
        let (ready, late) = split_late_components(self.observed, ready_components(self.observed));
        self.verdict.untouched.extend(names_of_moved(&late));
        let is_failing = self.verdict.last.failing_since.is_some();
        let (groups, later) = next_groups(self.observed, ready, is_failing);
        let later: Vec<_> = later.into_iter().flat_map(|(_, ready)| ready).collect();
        self.verdict.behind = names_of_moved(&later).collect();
        let mut generation = self.last_generation();
        let mut settled = Vec::new();
        for (approver, ready) in groups {
            settled.extend(self.settle_plan(&approver, &ready, &mut generation));
        }
        settled
    }

    /// The same for one plan. `generation` is the last one that was used.
    fn settle_plan(
        &mut self,
        approver: &Approver,
        ready: &[ReadyComponent<'_>],
        generation: &mut i64,
    ) -> Option<(Move, Option<Action>)> {
        let (wanted, updates) = wanted_plan(approver, ready)?;
        let moved = moved(self.observed, &updates);
        if let Some(found) = find_adoptable(self.observed, &wanted, &moved).cloned() {
            let first_status = self.first_status(&found, &wanted);
            let moving = Move {
                making: None,
                plan: Some(adopted(found, &wanted)),
                updates,
            };
            return Some((moving, first_status));
        }
        let next = generation.saturating_add(1);
        let name = plan_name(
            &self.observed.namespace,
            next,
            oldest_uid(&self.observed.subscriptions),
        );
        // One that these Subscriptions own would have counted in the generation.
        if self.observed.taken_names.contains(&name) {
            self.report_ownerless(&name, &updates);
            return None;
        }
        if let Some(first) = moved.first() {
            let left_out = ready.iter().flat_map(|(_, bundles)| &bundles.left_out);
            self.warn(warnings(first, reasons::BUNDLE_FILES_SKIPPED, left_out));
            self.warn(warnings(first, reasons::CLUSTER_UNSUITABLE, &wanted.obstacles));
        }
        *generation = next;
        let moving = Move {
            making: None,
            plan: None,
            updates,
        };
        Some((moving, Some(self.creation(&wanted, *generation))))
    }

    /// Reports to Subscriptions that their plan has no owners, so that it cannot be executed.
    fn report_ownerless(&mut self, plan: &str, updates: &[SubscriptionUpdate]) {
        let outcome = ResolutionOutcome::UnpackFailed {
            reason: reasons::ENSURE_INSTALL_PLAN_FAILED,
            message: format!(
                "error ensuring InstallPlan: {plan} cannot be executed without owner references, which a webhook or a restored backup has removed; exempt InstallPlans from such a webhook, then delete this one"
            ),
        };
        let outcomes = &mut self.verdict.outcomes_by_subscription;
        outcomes.extend(
            updates
                .iter()
                .map(|update| (update.subscription.clone(), outcome.clone())),
        );
    }

    fn warn(&mut self, events: Vec<EventDraft>) {
        let texts = events.iter().map(|event| event.message.clone());
        self.verdict.warnings.extend(texts);
        self.plan.events.extend(events);
    }

    fn push(&mut self, action: Action) -> usize {
        self.plan.actions.push(action);
        self.plan.actions.len() - 1
    }

    fn creation(&self, wanted: &WantedPlan, generation: i64) -> Action {
        let namespace = &self.observed.namespace;
        let object = wanted.object(namespace, generation, &self.observed.subscriptions);
        let target = Target::of::<InstallPlan>(namespace, &object.name_any());
        Action::create_or_keep(target, to_value(&object))
    }

    /// Returns the write of the status of a plan that has none. The InstallPlan reconciler writes it from then on, so the
    /// write is bound to the version that was read.
    fn first_status(&self, found: &InstallPlan, wanted: &WantedPlan) -> Option<Action> {
        if found.phase() != InstallPlanPhase::None {
            return None;
        }
        let target = Target::of::<InstallPlan>(&self.observed.namespace, &found.name_any());
        let old = found
            .status
            .as_ref()
            .map_or_else(|| serde_json::Map::new().into(), to_value);
        let new = wanted.status(found.spec.approved);
        let write = status_patch(target, found.metadata.uid.as_deref(), &old, &new)?;
        Some(write.only_at(found.resource_version()))
    }

    /// Returns the highest known generation.
    fn last_generation(&self) -> i64 {
        let known = self.observed.subscriptions.iter().map(|found| generation(found));
        known.max().unwrap_or(0).max(self.observed.last_generation)
    }

    /// Deletes surplus plans, those that wait by policy with a version that is not chosen any more, and those that another one
    /// replaces before they were adopted.
    fn delete_unneeded(&mut self, moving: &[&Move]) {
        let assigned = moving.iter().filter_map(|moving| moving.plan.as_ref());
        let assigned: BTreeMap<String, &Arc<InstallPlan>> =
            assigned.map(|plan| (plan.name_any(), plan)).collect();
        let creating = moving.iter().any(|moving| moving.plan.is_none());
        let state = &self.observed.namespace_state;
        let known = state.plans.iter();
        let known = known.map(|(name, plan)| assigned.get(name).copied().unwrap_or(plan));
        let plans: Vec<Arc<InstallPlan>> = known.cloned().collect();
        let csvs = state.csvs.keys().cloned().collect();
        let surplus = find_surplus(&plans, &self.observed.subscriptions, &csvs);
        let abandoned = plans
            .into_iter()
            .filter(|plan| creating && is_unadopted(plan, self.observed));
        let gone = surplus
            .into_iter()
            .chain(obsolete_plans(self.observed))
            .chain(abandoned)
            .filter(|plan| !assigned.contains_key(&plan.name_any()));
        for plan in gone {
            self.plan.actions.push(deletion(&plan));
        }
    }
}

fn ready_components(observed: &Observed) -> Vec<ReadyComponent<'_>> {
    if observed.progress.gathering().is_some() {
        return Vec::new();
    }
    let ready = observed
        .progress
        .components
        .iter()
        .filter_map(|component| match &component.bundles {
            Bundles::Ready(bundles) => Some((component, bundles)),
            Bundles::Unpacking { .. } | Bundles::Failed { .. } => None,
        });
    ready.collect()
}

fn names_of_moved(components: &[ReadyComponent<'_>]) -> impl Iterator<Item = String> {
    let updates = components.iter().flat_map(|(component, _)| &component.updates);
    updates.map(|update| update.subscription.clone())
}

/// Splits off the components that have become ready after the unadopted plans were created: their plan follows once these
/// are adopted.
fn split_late_components<'a>(
    observed: &Observed,
    ready: Vec<ReadyComponent<'a>>,
) -> (Vec<ReadyComponent<'a>>, Vec<ReadyComponent<'a>>) {
    let mut made: BTreeSet<&String> = BTreeSet::new();
    for plan in observed.plans().filter(|plan| is_unadopted(plan, observed)) {
        let names = &plan.spec.cluster_service_version_names;
        let within =
            |(_, bundles): &&ReadyComponent<'_>| bundles.csv_names.iter().all(|name| names.contains(name));
        let planned = ready.iter().filter(within);
        if planned.flat_map(|(_, bundles)| &bundles.csv_names).eq(names) {
            made.extend(names);
        }
    }
    ready
        .into_iter()
        .partition(|(_, bundles)| made.is_empty() || bundles.csv_names.iter().all(|name| made.contains(name)))
}

/// Returns the plan for these components, which have one approver, with the Subscriptions that it moves.
fn wanted_plan(
    approver: &Approver,
    components: &[ReadyComponent<'_>],
) -> Option<(WantedPlan, Vec<SubscriptionUpdate>)> {
    let mut wanted = WantedPlan {
        csv_names: Vec::new(),
        manual: *approver != Approver::Nobody,
        steps: Vec::new(),
        lookups: Vec::new(),
        obstacles: Vec::new(),
    };
    let mut subscriptions = Vec::new();
    let (mut inline, mut unpacked) = (Vec::new(), Vec::new());
    for (_, bundles) in components {
        wanted.csv_names.extend(bundles.csv_names.iter().cloned());
        subscriptions.extend(bundles.subscription_steps.iter().cloned());
        wanted.lookups.extend(bundles.lookups.iter().cloned());
        wanted.obstacles.extend(bundles.obstacles.iter().cloned());
        for step in &bundles.steps {
            let of_image = |lookup: &BundleLookup| lookup.identifier == step.resolving;
            let of_image = bundles.lookups.iter().any(of_image);
            let steps = if of_image { &mut unpacked } else { &mut inline };
            steps.push(step.clone());
        }
    }
    // As upstream orders what catalogs carry themselves: a Subscription that the API server refuses, for example for the capitals in
    // the package's name, comes after them.
    inline.sort_by_key(|step| match StepKind::of(&step.resource.kind) {
        Some(StepKind::ClusterServiceVersion) => 0,
        Some(StepKind::CustomResourceDefinition) => 1,
        _ => 2,
    });
    wanted.steps = [inline, subscriptions, unpacked].concat();
    let updates = components.iter().flat_map(|(component, _)| &component.updates);
    let updates: Vec<_> = updates.cloned().collect();
    (!updates.is_empty()).then_some((wanted, updates))
}

/// Returns the plans that wait by policy with a version that the resolver does not choose any more, or that a Subscription gets from a
/// newer plan. While one of its Subscriptions cannot be resolved a plan stays, and so does one that waits for a user after a failure.
fn obsolete_plans(observed: &Observed) -> Vec<Arc<InstallPlan>> {
    let plans = observed.plans();
    let mut plans = plans
        .filter(|plan| waits_by_policy(plan) && is_made_here(plan) && stopped(plan).is_empty())
        .peekable();
    if plans.peek().is_none() {
        return Vec::new();
    }
    let (choices, csvs) = (&observed.choices, &observed.namespace_state.csvs);
    let mut unresolved = BTreeSet::new();
    let mut generations: BTreeMap<&str, i64> = BTreeMap::new();
    for (subscription, status) in observed.settled().iter() {
        let Some(csv) = status.current_csv.as_deref() else {
            continue;
        };
        if !choices.is_resolved(&subscription.name_any()) {
            unresolved.insert(csv);
        }
        let generation = generations.entry(csv).or_default();
        *generation = (*generation).max(status.install_plan_generation.unwrap_or(0));
    }
    let is_obsolete = |plan: &&Arc<InstallPlan>| {
        let names = &plan.spec.cluster_service_version_names;
        let of_plan = plan.spec.generation.unwrap_or(0);
        let is_in_newer = |name: &String| {
            generations
                .get(name.as_str())
                .is_some_and(|newest| *newest > of_plan)
        };
        let is_unwanted = |name: &String| !csvs.contains_key(name) && !choices.has(name);
        let is_unresolved = |name: &String| unresolved.contains(name.as_str());
        names.iter().any(is_in_newer) || (names.iter().any(is_unwanted) && !names.iter().any(is_unresolved))
    };
    plans.filter(is_obsolete).cloned().collect()
}

/// Returns warning events about bundles, sent when their plan is created.
fn warnings<'a>(
    subscription: &Subscription,
    reason: &str,
    texts: impl IntoIterator<Item = &'a String>,
) -> Vec<EventDraft> {
    let texts = texts.into_iter();
    texts
        .map(|text| subscription_warning(subscription, reason, text))
        .collect()
}
