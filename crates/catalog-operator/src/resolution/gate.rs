//! What keeps plans from being approved by themselves: the word Manual, or policies of Subscriptions
//! (`docs/guides/upgrade-policies.md`). Pure.
//!
//! A component that waits by policy has a plan of its own, so that what one Subscription waits for holds up no other that is not tied
//! to it, and nobody has to part plans when a policy changes or somebody moves on. What becomes of such a plan: `waiting.rs`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use go_compat::semver::Version;
use jiff::Timestamp;
use olm_api::labels;
use olm_api::v1alpha1::Subscription;
use olm_resolver::explain::{EVENT_LIMIT, cut};
use olm_runtime::plan::Requeue;

use super::observed::{ComponentProgress, Observed, PolicyFacts};
use super::plan_object::{mark, stopped, waits_by_policy};
use crate::upgrade_policy::{Upgrade, Wait};

/// Longest time without a look at the clock while a window is waited for: timers do not notice that it was put, nor that the
/// machine slept.
const CLOCK_CHECK: Duration = Duration::from_secs(600);

/// Bytes of a condition that what is waited for takes, so that there is room for how much is not told: a name has 253 of them.
const TOLD: usize = EVENT_LIMIT - 320;

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

/// What tells gates apart: those of one are in one plan. By policy that is who waits, and components have no Subscription in
/// common.
pub(crate) type GateKey = (bool, BTreeSet<String>);

impl Gate {
    /// Without policies.
    pub(crate) fn manual(manual: bool) -> Self {
        Self {
            manual,
            ..Self::default()
        }
    }

    /// Whether nothing keeps a plan from being approved.
    pub(crate) fn is_open(&self) -> bool {
        !self.manual && self.waits.is_empty()
    }

    /// What tells it from others.
    pub(crate) fn key(&self) -> GateKey {
        let waits = self.waits.iter();
        (self.manual, waits.map(|wait| wait.subscription.clone()).collect())
    }

    /// What a plan that waits by policy is marked with.
    pub(crate) fn mark(&self) -> Option<String> {
        (!self.manual && !self.waits.is_empty()).then(|| mark(&self.stopped))
    }

    /// Subscriptions that wait because their last upgrade failed.
    pub(crate) fn stopped(&self) -> &BTreeSet<String> {
        &self.stopped
    }

    /// What a Subscription's plan waits for, for people, what it asks for itself first; none where that is a user alone.
    pub(crate) fn text(&self, subscription: &str, plan: &str) -> Option<String> {
        let (own, others): (Vec<&Wait>, Vec<&Wait>) = self
            .waits
            .iter()
            .partition(|wait| wait.subscription == subscription);
        let mut waits = own.into_iter().chain(others).map(|wait| &wait.text).peekable();
        let mut told = format!("waiting by policy: {}", waits.next()?);
        while let Some(text) = waits.next_if(|text| told.len() + text.len() <= TOLD) {
            told.push_str("; ");
            told.push_str(text);
        }
        let told = cut(&told, TOLD);
        Some(match waits.count() {
            0 => told,
            more => format!("{told}; and {more} more of InstallPlan {plan}"),
        })
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

    /// Adds what the policy of a Subscription waits for before it gets this version.
    pub(crate) fn add(
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
            is_unsettled: facts.is_unsettled,
        };
        for wait in facts.policy.waits(&upgrade, now) {
            if wait.annotation == labels::UPGRADE_STOP_AFTER_FAILURE && upgrade.after_failure {
                self.stopped.insert(facts.subscription.clone());
            }
            self.waits.insert(wait);
        }
    }
}

/// Whether one of these Subscriptions has its plans approved by a user; any of the namespace counts where the OperatorGroup does
/// not ask for separation.
pub(crate) fn is_manual<'a>(
    observed: &'a Observed,
    mut concerned: impl Iterator<Item = &'a Arc<Subscription>>,
) -> bool {
    if observed.separate_approval {
        concerned.any(|subscription| subscription.spec.is_manual())
    } else {
        observed
            .subscriptions
            .iter()
            .any(|subscription| subscription.spec.is_manual())
    }
}

/// Whether the plan that a Subscription waits for says that its last upgrade failed: the next one waits for a user as well.
fn was_stopped(observed: &Observed, name: &str) -> bool {
    let plan = observed.plan_of(name).map(|(plan, _)| plan);
    plan.is_some_and(|plan| waits_by_policy(plan) && stopped(plan).contains(name))
}

/// The gate of a component's plan.
pub(crate) fn of_component(observed: &Observed, component: &ComponentProgress, now: Timestamp) -> Gate {
    let names = component.subscriptions.iter();
    let concerned = names.filter_map(|name| observed.subscription(name));
    let mut gate = Gate::manual(is_manual(observed, concerned));
    if gate.manual {
        return gate;
    }
    // Also of those that do not move now: their versions are in the plan all the same.
    for served in &component.served {
        if let Some(facts) = observed.policies.get(&served.subscription) {
            let was_stopped = was_stopped(observed, &served.subscription);
            gate.add(facts, &served.csv, served.version.as_ref(), was_stopped, now);
        }
    }
    gate
}

/// Parts what is to be planned by its gates, the open one first: what waits for nothing is in one plan, what waits for a user in
/// another, and each component that waits by policy in its own.
pub(crate) fn group<'a, C>(
    observed: &Observed,
    components: Vec<C>,
    progress: impl Fn(&C) -> &'a ComponentProgress,
    now: Timestamp,
) -> Vec<(Gate, Vec<C>)> {
    let mut groups: BTreeMap<GateKey, (Gate, Vec<C>)> = BTreeMap::new();
    for component in components {
        let gate = of_component(observed, progress(&component), now);
        let (_, members) = groups.entry(gate.key()).or_insert_with(|| (gate, Vec::new()));
        members.push(component);
    }
    groups.into_values().collect()
}
