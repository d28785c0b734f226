//! What a round of a namespace's resolution writes. Pure.
//!
//! An InstallPlan is made in two rounds. The first creates it, without status, under the name of its generation. The second
//! finds it in the store and adopts it: its status is written, and those of the Subscriptions that go with it (`status.rs`). Until the
//! store has it, creating it again finds the name taken and changes nothing, so that an answer that was lost or an event
//! that is late makes no second plan.
//! A crash in between therefore leads to the same second round; a plan that was given its status but not yet referred to
//! is adopted likewise. What a later plan may take over is decided in [`find_adoptable`].

mod adoption;
mod waiting;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use kube::ResourceExt;
use olm_api::condition::subscription as reasons;
use olm_api::v1alpha1::{BundleLookup, InstallPlan, InstallPlanPhase, Subscription};
use olm_resolver::SubscriptionUpdate;
use olm_runtime::plan::{Action, EventDraft, Plan, Requeue, Target, status_patch, to_value};

use self::adoption::{adopted, find_adoptable, find_ownerless, is_unadopted, rewriting};
pub(crate) use self::waiting::{Discard, Marking, PlanApproval};
use super::gate::{self, Gate, GateKey};
use super::memory::Memory;
use super::observed::{Bundles, ComponentProgress, Observed, Progress, ReadyBundles, Served};
use super::outcome::{
    debounce_requeue, debounced_subscriptions, outcomes_by_subscription, subscription_warning,
};
use super::plan_object::{Terms, WantedPlan, counted, deletion, plan_name, waits_by_policy};
use super::waiting::waiting_plans;
use crate::install_plan::retention::find_surplus;
use crate::step_kind::StepKind;
use crate::subscription::ResolutionOutcome;

/// Plans that wait and are made in one round, so that what begins to wait together has its plans before the driver takes so many rounds
/// for a circle. The others come in the next ones.
const MAX_PLANS: usize = 8;

/// What the Subscriptions are to be told, apart from what becomes of the writes.
#[derive(Debug, Clone, Default)]
pub(crate) struct Verdict {
    /// What each is told of the resolution.
    pub outcomes_by_subscription: BTreeMap<String, ResolutionOutcome>,
    /// Those that another round will write soon, so that this one leaves them alone.
    pub untouched: BTreeSet<String>,
    /// The plans that some of them move on to.
    pub moving: Vec<Move>,
    /// Who moves after that, in plans of the next rounds. Whether these can be made is not known.
    pub behind: BTreeSet<String>,
    /// Plans that waited by policy and do no more.
    pub approvals: Vec<PlanApproval>,
    /// Plans that waited by policy and are of no use to anybody.
    pub discards: Vec<Discard>,
    /// Plans that are marked.
    pub markings: Vec<Marking>,
    /// What is waited for by policy, by Subscription.
    pub waits: BTreeMap<String, String>,
    /// Every warning there was reason for, told in this round or before.
    pub warnings: Vec<String>,
    /// What the round before left.
    pub last: Memory,
}

/// Subscriptions on their way to a plan.
#[derive(Debug, Clone)]
pub(crate) struct Move {
    /// Which of the round's actions makes the plan: its creation, or its first status. None when it is made.
    pub making: Option<usize>,
    /// What its creation asks for.
    pub asked: Option<Terms>,
    /// The plan as it is once that is done; none when it is only created in this round, and adopted in the next.
    pub plan: Option<Arc<InstallPlan>>,
    /// Who moves, and to which ClusterServiceVersion.
    pub updates: Vec<SubscriptionUpdate>,
    /// What the plan waits for.
    pub gate: GateKey,
}

/// Decides what to write for one namespace.
pub(crate) fn decide(observed: &Observed, memory: Option<&Memory>, now: Timestamp) -> (Plan, Verdict) {
    let mut draft = Draft {
        observed,
        now,
        plan: Plan::default(),
        verdict: Verdict {
            outcomes_by_subscription: outcomes_by_subscription(observed),
            untouched: debounced_subscriptions(observed),
            moving: Vec::new(),
            behind: BTreeSet::new(),
            approvals: Vec::new(),
            discards: Vec::new(),
            markings: Vec::new(),
            waits: BTreeMap::new(),
            warnings: Vec::new(),
            last: memory.cloned().unwrap_or_default(),
        },
    };
    draft.plan.requeue = debounce_requeue(observed);
    draft.warn(observed.warnings.clone());
    let settled = draft.settle_plans();
    let waiting = waiting_plans(observed, now);
    draft.settle_waiting(waiting.plans);
    let moves: Vec<&Move> = settled.iter().map(|(moving, _)| moving).collect();
    draft.collect_garbage(waiting.forsaken, &moves);
    // Room is made before it is taken.
    for (moving, making) in settled {
        let making = making.map(|action| draft.push(action));
        draft.verdict.moving.push(Move { making, ..moving });
    }
    // Each stands for itself: a plan that is refused keeps no other from its window.
    draft.plan.independent = draft.plan.actions.len();
    let Draft {
        mut plan, verdict, ..
    } = draft;
    plan.events
        .retain(|event| !verdict.last.told.contains(&event.message));
    (plan, verdict)
}

/// Components of one gate.
type Group<'a> = (Gate, Vec<ReadyComponent<'a>>);

/// What is planned in this round, and what in later ones.
///
/// What may begin at once has its plan alone and before all others: a newer one that is referred to would let it begin before its
/// Subscriptions refer to it (`install_plan/adoption.rs`). But those that were refused less often come before those that were refused
/// more often: what is wrong with a plan, as a webhook sees it, keeps no others waiting.
fn next_groups<'a>(
    observed: &Observed,
    ready: Vec<ReadyComponent<'a>>,
    now: Timestamp,
    times_refused: impl Fn(&Gate) -> u32,
) -> (Vec<Group<'a>>, Vec<Group<'a>>) {
    let mut groups = gate::group(observed, ready, |ready| ready.0, now);
    groups.sort_by_cached_key(|(gate, _)| times_refused(gate));
    let is_open = |(gate, _): &Group<'a>| gate.is_open();
    let count = if groups.first().is_some_and(is_open) {
        1
    } else {
        let in_front = groups.iter().take(MAX_PLANS);
        in_front.take_while(|group| !is_open(group)).count()
    };
    let later = groups.split_off(count);
    (groups, later)
}

/// The Subscriptions that these move.
fn moved<'a>(observed: &'a Observed, updates: &[SubscriptionUpdate]) -> Vec<&'a Arc<Subscription>> {
    let moved = updates.iter();
    moved
        .filter_map(|update| observed.subscription(&update.subscription))
        .collect()
}

/// A plan in the making.
struct Draft<'a> {
    observed: &'a Observed,
    now: Timestamp,
    plan: Plan,
    verdict: Verdict,
}

impl Draft<'_> {
    /// Adopts the plans for the components that are ready, or creates them: who moves on to each, and the write that makes it.
    fn settle_plans(&mut self) -> Vec<(Move, Option<Action>)> {
        let mut ready = ready_components(self.observed);
        for (component, _) in take_late_components(self.observed, &mut ready) {
            let updates = component.updates.iter();
            self.verdict
                .untouched
                .extend(updates.map(|update| update.subscription.clone()));
        }
        let refused = &self.verdict.last.refused;
        let times_refused = |gate: &Gate| refused.get(&gate.key()).copied().unwrap_or(0);
        let (groups, later) = next_groups(self.observed, ready, self.now, times_refused);
        let current = groups.iter().chain(&later);
        self.forget_refusals(&current.map(|(gate, _)| gate.key()).collect());
        let later = later.into_iter().flat_map(|(_, ready)| ready);
        let updates = later.flat_map(|(component, _)| &component.updates);
        self.verdict.behind = updates.map(|update| update.subscription.clone()).collect();
        let unadopted = self
            .observed
            .plans()
            .filter(|plan| is_unadopted(plan, self.observed));
        let unadopted: BTreeSet<String> = unadopted.filter_map(|plan| plan.uid()).collect();
        self.verdict
            .last
            .rewritten
            .retain(|uid, _| unadopted.contains(uid));
        let mut generation = self.last_generation();
        let mut settled = Vec::new();
        for (gate, ready) in groups {
            settled.extend(self.settle_plan(&gate, &ready, &mut generation));
        }
        settled
    }

    /// Forgets refusals of what is not asked for any more. Bundles that are fetched anew between two tries make it no other plan.
    fn forget_refusals(&mut self, current: &BTreeSet<GateKey>) {
        let refused = &mut self.verdict.last.refused;
        if refused.is_empty() {
            return;
        }
        let subscriptions = self.observed.subscriptions.iter();
        let mut others: BTreeSet<String> = subscriptions
            .map(|subscription| subscription.name_any())
            .collect();
        for name in current.iter().flat_map(|(_, names)| names) {
            others.remove(name);
        }
        refused.retain(|key, _| current.contains(key) || key.1.is_subset(&others));
    }

    /// The same for one plan. `generation` is the last one that was given.
    fn settle_plan(
        &mut self,
        gate: &Gate,
        ready: &[ReadyComponent<'_>],
        generation: &mut i64,
    ) -> Option<(Move, Option<Action>)> {
        let (wanted, updates) = wanted_plan(self.observed, gate, ready)?;
        let moved = moved(self.observed, &updates);
        let rewritten = &self.verdict.last.rewritten;
        let Some(found) = find_adoptable(self.observed, &wanted, &moved, rewritten).cloned() else {
            if let Some(ownerless) = find_ownerless(self.observed, &wanted) {
                self.tell_ownerless(&ownerless.name_any(), &updates);
                return None;
            }
            if let Some(first) = moved.first() {
                let left_out = ready.iter().flat_map(|(_, bundles)| &bundles.left_out);
                self.warn(warnings(first, reasons::BUNDLE_FILES_SKIPPED, left_out));
                self.warn(warnings(first, reasons::CLUSTER_UNSUITABLE, &wanted.obstacles));
            }
            *generation = self.next_generation(*generation);
            let moving = Move {
                making: None,
                asked: Some(wanted.terms()),
                plan: None,
                updates,
                gate: gate.key(),
            };
            return Some((moving, Some(self.creation(&wanted, *generation))));
        };
        let rewriting = rewriting(&found, rewritten);
        let event = moved
            .first()
            .zip(rewriting)
            .map(|(first, text)| subscription_warning(first, reasons::INSTALL_PLAN_REWRITTEN, &text));
        self.warn(event.into_iter().collect());
        let plan_name = found.name_any();
        let names = updates.iter().map(|update| &update.subscription);
        self.wait(names, |name| gate.text(name, &plan_name), gate.requeue(self.now));
        let first_status = self.first_status(&found, &wanted);
        let moving = Move {
            making: None,
            asked: None,
            plan: Some(adopted(found, &wanted)),
            updates,
            gate: gate.key(),
        };
        Some((moving, first_status))
    }

    /// Tells Subscriptions that their plan was stored as one that is nobody's.
    fn tell_ownerless(&mut self, plan: &str, updates: &[SubscriptionUpdate]) {
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

    /// Tells Subscriptions what their plan waits for, and looks again when that may be over.
    fn wait<'n>(
        &mut self,
        subscriptions: impl Iterator<Item = &'n String>,
        text: impl Fn(&str) -> Option<String>,
        again: Requeue,
    ) {
        // Who has just moved waits for what the new plan waits for.
        for (name, text) in subscriptions.filter_map(|name| Some((name, text(name)?))) {
            self.verdict.waits.entry(name.clone()).or_insert(text);
        }
        self.plan.requeue = self.plan.requeue.sooner(again);
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
        let target = Target::of::<InstallPlan>(namespace, &plan_name(namespace, generation));
        Action::create_or_keep(target, to_value(&object))
    }

    /// The status of a plan that has none. Whoever carries plans out writes it, too, from then on: a plan that was read long
    /// ago must not begin anew.
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

    /// The last generation of all that are known.
    fn last_generation(&self) -> i64 {
        let known = self.observed.subscriptions.iter().filter_map(|subscription| {
            subscription
                .status
                .as_ref()
                .and_then(|status| counted(status.install_plan_generation))
        });
        known.max().unwrap_or(0).max(self.observed.last_generation)
    }

    /// The next generation whose name nobody has taken.
    fn next_generation(&self, last: i64) -> i64 {
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

    /// Removes surplus plans, those that waited for who moved on or went, and those that were created for an answer that is no
    /// longer wanted before they were adopted.
    fn collect_garbage(&mut self, forsaken: Vec<Arc<InstallPlan>>, moving: &[&Move]) {
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
            .chain(forsaken)
            .chain(abandoned)
            .filter(|plan| !assigned.contains_key(&plan.name_any()));
        for plan in gone {
            self.plan.actions.push(deletion(&plan));
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

/// Takes out the components that no plan without status was made for, if there are such plans that were made for others:
/// more bundles were there in the next round than in the one that created them. Their turn comes once these are adopted.
fn take_late_components<'a>(
    observed: &'a Observed,
    ready: &mut Vec<ReadyComponent<'a>>,
) -> Vec<ReadyComponent<'a>> {
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
    if made.is_empty() {
        return Vec::new();
    }
    let (planned, late) = std::mem::take(ready)
        .into_iter()
        .partition(|(_, bundles)| bundles.csv_names.iter().all(|name| made.contains(name)));
    *ready = planned;
    late
}

/// The plan for these components, which have one gate, with the Subscriptions it moves on.
fn wanted_plan(
    observed: &Observed,
    gate: &Gate,
    components: &[ReadyComponent<'_>],
) -> Option<(WantedPlan, Vec<SubscriptionUpdate>)> {
    let mut wanted = WantedPlan {
        csv_names: Vec::new(),
        manual: !gate.is_open(),
        waits_by_policy: gate.mark(),
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
    let mut updates: Vec<_> = updates.cloned().collect();
    if updates.is_empty() {
        return None;
    }
    for (component, _) in components {
        updates.extend(drawn_along(observed, component));
    }
    Some((wanted, updates))
}

/// Who waits by policy for an older plan, with a version that comes with this one, too: it would go on waiting for a plan that has
/// what others do not want any more.
fn drawn_along(observed: &Observed, component: &ComponentProgress) -> Vec<SubscriptionUpdate> {
    let moves = |name: &String| {
        component
            .updates
            .iter()
            .any(|update| update.subscription == *name)
    };
    let waits = |served: &&Served| {
        let found = observed.plan_of(&served.subscription);
        found.is_some_and(|(plan, status)| {
            status.current_csv.as_ref() == Some(&served.csv) && waits_by_policy(plan)
        })
    };
    let served = component.served.iter();
    let along = served.filter(|served| !moves(&served.subscription)).filter(waits);
    let updates = along.map(|served| SubscriptionUpdate {
        subscription: served.subscription.clone(),
        current_csv: served.csv.clone(),
    });
    updates.collect()
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
