//! The statuses of a namespace's Subscriptions, as they follow from what became of the round's writes. Pure, and called last.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use kube::ResourceExt;
use olm_api::condition::subscription as reasons;
use olm_api::v1alpha1::{InstallPlan, Subscription};
use olm_resolver::explain::{EVENT_LIMIT, cut};
use olm_runtime::driver::StatusUpdate;
use olm_runtime::outcome::{FailureClass, Outcome, Outcomes};
use olm_runtime::plan::{Requeue, Target, status_patch};
use serde::Deserialize as _;
use serde_json::Value;

use super::decide::{Discard, Marking, Move, PlanApproval, Verdict};
use super::memory::Memory;
use super::observed::Observed;
use super::outcome::{resolution_event, unpack_event};
use super::plan_object::Terms;
use crate::subscription::{self, Assignment, Facts, ResolutionOutcome};

/// How long the making of a plan may fail for reasons that pass by themselves before Subscriptions are told.
const PATIENCE: Duration = Duration::from_secs(5);

/// When a plan is approved again whose approval was taken back as it was written.
const APPROVAL_UNDONE: Requeue = Requeue::After {
    delay: Duration::from_secs(600),
    reason: "approval was removed",
};

/// Plans of a namespace of which it is remembered that they were discarded.
const MAX_DISCARDED: usize = 32;

/// The statuses, their events, when to look again, and what the next round has to know.
pub(crate) fn status(
    observed: &Observed,
    mut verdict: Verdict,
    outcomes: &Outcomes,
    now: Timestamp,
) -> StatusUpdate<Memory> {
    let mut update = StatusUpdate::default();
    let (mut assignments, mut failing_since) = (BTreeMap::new(), None);
    let mut refused = std::mem::take(&mut verdict.last.refused);
    let mut rewritten = std::mem::take(&mut verdict.last.rewritten);
    for moving in std::mem::take(&mut verdict.moving) {
        let made = moving.making.map(|index| outcomes.get(index));
        if moving.plan.is_none()
            && let Some(Outcome::Done(stored)) = made
        {
            update.requeue = Requeue::After {
                delay: Duration::ZERO,
                reason: "adoption of the new InstallPlan",
            };
            rewritten.extend(find_rewritten(&moving, stored));
        }
        let since = verdict.last.failing_since;
        let refusal = refusal(made, since, now);
        match made {
            Some(Outcome::Failed(_)) => {
                failing_since = Some(since.unwrap_or(now));
                let times = refused.entry(moving.gate.clone()).or_default();
                *times = times.saturating_add(1);
            }
            Some(Outcome::NotAttempted) => {}
            _ => {
                refused.remove(&moving.gate);
            }
        }
        assignments.extend(assigned(moving, made, refusal.as_ref(), &mut verdict));
    }
    // Their turn comes, and what they are told with it.
    verdict.untouched.append(&mut verdict.behind);
    let approvals_failing = tell_approvals(&mut verdict, outcomes, now, &mut update.requeue);
    let mut marks = std::mem::take(&mut verdict.last.marks);
    for Marking { action, plan, mark } in std::mem::take(&mut verdict.markings) {
        if matches!(outcomes.get(action), Outcome::Done(_)) {
            marks.insert(plan, mark);
        }
    }
    let discarded = tell_discards(&mut verdict, outcomes, &assignments);
    let mut state = observed.namespace_state.clone();
    for Assignment { plan, .. } in assignments.values() {
        state.plans.insert(plan.name_any(), Arc::clone(plan));
    }
    for subscription in &observed.subscriptions {
        let name = subscription.name_any();
        if verdict.untouched.contains(&name) {
            continue;
        }
        let outcome = verdict.outcomes_by_subscription.get(&name);
        let facts = Facts {
            catalogs: &observed.catalogs,
            outcome: outcome.unwrap_or(&ResolutionOutcome::Unknown),
            deprecation: observed.deprecations.get(&name),
            assignment: assignments.get(&name),
            waits: verdict.waits.get(&name).map(String::as_str),
        };
        let next = subscription::compose(subscription, &state, &facts, now);
        if !subscription::is_worth_writing(subscription.status.as_ref(), &next) {
            continue;
        }
        update.events.extend(unpack_event(subscription, facts.outcome));
        let old = subscription.status.clone().unwrap_or_default();
        let target = Target::of::<Subscription>(&observed.namespace, &name);
        let uid = subscription.metadata.uid.as_deref();
        update.patches.extend(status_patch(target, uid, &old, &next));
    }
    // While a status is refused its Subscription goes on not telling, and there is reason for the event again and again.
    let failure = resolution_event(observed, &verdict.outcomes_by_subscription);
    let mut told = verdict.warnings;
    told.extend(failure.iter().map(|event| event.message.clone()));
    let news = failure.filter(|event| !verdict.last.told.contains(&event.message));
    update.events.extend(news);
    let memory = Memory {
        told,
        failing_since,
        refused,
        approvals_failing,
        discarded,
        marks,
        rewritten,
    };
    update.memory = (memory != Memory::default()).then_some(memory);
    update
}

/// The uid of a plan that was stored with other terms than it was asked for with, and those.
fn find_rewritten(moving: &Move, stored: &Value) -> Option<(String, Terms)> {
    let asked = moving.asked.clone()?;
    let stored = InstallPlan::deserialize(stored).ok()?;
    let uid = stored.uid()?;
    (Terms::of(&stored) != asked).then_some((uid, asked))
}

/// Why the plan cannot be made, if that is to be told. What passes by itself is, once it has not passed for a while; `since` is
/// when the tries before this one began to fail.
fn refusal(made: Option<&Outcome>, since: Option<Timestamp>, now: Timestamp) -> Option<ResolutionOutcome> {
    let Some(Outcome::Failed(failure)) = made else {
        return None;
    };
    let passes = matches!(failure.class, FailureClass::Retry | FailureClass::Conflict);
    (!passes || is_overdue(since, now)).then(|| ResolutionOutcome::UnpackFailed {
        reason: reasons::ENSURE_INSTALL_PLAN_FAILED,
        message: format!("error ensuring InstallPlan: {}", failure.message),
    })
}

/// Whether tries that began to fail then are to be told, although what is in the way passes by itself.
fn is_overdue(since: Option<Timestamp>, now: Timestamp) -> bool {
    let waited = since.map_or(Duration::ZERO, |since| {
        // A clock that was put back is no reason to wait.
        Duration::try_from(now.duration_since(since)).unwrap_or(PATIENCE)
    });
    waited >= PATIENCE
}

/// Since when which plans that wait for nothing could not be approved. Who waits for one that is approved moves on with it in a
/// moment; of one that is not, it is told why.
fn tell_approvals(
    verdict: &mut Verdict,
    outcomes: &Outcomes,
    now: Timestamp,
    requeue: &mut Requeue,
) -> BTreeMap<String, Timestamp> {
    let mut failing = BTreeMap::new();
    for approval in std::mem::take(&mut verdict.approvals) {
        let PlanApproval {
            action,
            plan,
            subscriptions,
        } = approval;
        let mut told = None;
        if let Outcome::Failed(failure) = outcomes.get(action) {
            let since = verdict.last.approvals_failing.get(&plan).copied();
            // One that is gone is not there in the next round.
            let passes = matches!(
                failure.class,
                FailureClass::Retry | FailureClass::Conflict | FailureClass::NotFound
            );
            told = (!passes || is_overdue(since, now)).then(|| {
                let text = format!("cannot approve InstallPlan {plan}: {}", failure.message);
                cut(&text, EVENT_LIMIT)
            });
            failing.insert(plan, since.unwrap_or(now));
        } else if let Outcome::Done(stored) = outcomes.get(action)
            && stored.pointer("/spec/approved") == Some(&Value::Bool(false))
        {
            // Nothing tells when that is over.
            *requeue = requeue.sooner(APPROVAL_UNDONE);
            told = Some(format!(
                "cannot approve InstallPlan {plan}: the approval was removed, probably by a webhook"
            ));
        }
        match told {
            Some(text) => {
                let texts = subscriptions.into_iter().map(|name| (name, text.clone()));
                verdict.waits.extend(texts);
            }
            None => verdict.untouched.extend(subscriptions),
        }
    }
    failing
}

/// What was discarded so far. Who waited for it has another plan made in the next round; of one that stays it is told why it does
/// not begin.
fn tell_discards(
    verdict: &mut Verdict,
    outcomes: &Outcomes,
    assignments: &BTreeMap<String, Assignment>,
) -> Vec<Vec<String>> {
    let mut discarded = std::mem::take(&mut verdict.last.discarded);
    for Discard {
        action,
        csv_names,
        texts,
    } in std::mem::take(&mut verdict.discards)
    {
        let outcome = outcomes.get(action);
        let is_gone = matches!(outcome, Outcome::Done(_) | Outcome::Gone);
        // Somebody was quicker, who may have approved it: it is looked at again in a moment.
        let is_changed =
            matches!(outcome, Outcome::Failed(failure) if failure.class == FailureClass::Conflict);
        if is_gone {
            discarded.push(csv_names);
        }
        if is_gone || is_changed {
            let waiting = texts.into_keys().filter(|name| !assignments.contains_key(name));
            verdict.untouched.extend(waiting);
        } else {
            verdict.waits.extend(texts);
        }
    }
    let surplus = discarded.len().saturating_sub(MAX_DISCARDED);
    discarded.drain(..surplus);
    discarded
}

/// The plan for each Subscription that moves, if it is made. Those of a plan that was refused are told why; those whose plan is
/// not there yet, or not known to be, stay as they are.
fn assigned(
    moving: Move,
    made: Option<&Outcome>,
    refusal: Option<&ResolutionOutcome>,
    verdict: &mut Verdict,
) -> BTreeMap<String, Assignment> {
    let is_made = matches!(made, None | Some(Outcome::Done(_) | Outcome::Kept));
    let plan = moving.plan.filter(|_| is_made);
    let mut assignments = BTreeMap::new();
    for update in moving.updates {
        let name = update.subscription;
        if let Some(refusal) = refusal {
            verdict.outcomes_by_subscription.insert(name, refusal.clone());
        } else if let Some(plan) = &plan {
            let assignment = Assignment {
                plan: Arc::clone(plan),
                csv: update.current_csv,
            };
            assignments.insert(name, assignment);
        } else {
            verdict.untouched.insert(name);
        }
    }
    assignments
}

#[cfg(test)]
mod tests {
    use kube::core::ObjectMeta;
    use olm_resolver::SubscriptionUpdate;
    use olm_runtime::outcome::{Failure, outcomes_for_tests};
    use serde_json::json;

    use super::super::gate::GateKey;
    use super::*;

    /// Number of statuses written, and the text of the first, after a round whose plan was made with `outcome`, when the tries
    /// before it had failed for so many seconds.
    fn after_failing(
        seconds: Option<i64>,
        outcome: Outcome,
        plan: Option<Arc<InstallPlan>>,
    ) -> (usize, String) {
        let object = json!({"apiVersion": "operators.coreos.com/v1alpha1", "kind": "Subscription",
            "metadata": {"name": "demo", "namespace": "ns", "uid": "u"},
            "spec": {"name": "demo", "source": "cat", "sourceNamespace": "ns"}});
        let observed = Observed {
            namespace: "ns".to_owned(),
            subscriptions: vec![Arc::new(serde_json::from_value(object).unwrap())],
            ..Observed::default()
        };
        let update = SubscriptionUpdate {
            subscription: "demo".to_owned(),
            current_csv: "demo.v1".to_owned(),
        };
        let verdict = Verdict {
            moving: vec![Move {
                making: Some(0),
                asked: None,
                plan,
                updates: vec![update],
                gate: GateKey::default(),
            }],
            last: Memory {
                failing_since: seconds.map(|seconds| Timestamp::from_second(1000 - seconds).unwrap()),
                ..Memory::default()
            },
            ..Verdict::default()
        };
        let is_failure = matches!(outcome, Outcome::Failed(_));
        let outcomes = outcomes_for_tests(vec![outcome]);
        let update = status(
            &observed,
            verdict,
            &outcomes,
            Timestamp::from_second(1000).unwrap(),
        );
        let since = update.memory.and_then(|memory| memory.failing_since);
        let expected = is_failure.then(|| 1000 - seconds.unwrap_or(0));
        assert_eq!(since.map(Timestamp::as_second), expected);
        let texts: Vec<String> = update.patches.iter().map(|patch| format!("{patch:?}")).collect();
        (texts.len(), texts.into_iter().next().unwrap_or_default())
    }

    fn after(outcome: Outcome, plan: Option<Arc<InstallPlan>>) -> (usize, String) {
        after_failing(None, outcome, plan)
    }

    fn failed(class: FailureClass) -> Outcome {
        Outcome::Failed(Failure {
            class,
            code: 0,
            message: "no".to_owned(),
            action: String::new(),
        })
    }

    #[test]
    fn a_refusal_is_told_at_once_and_what_passes_is_not() {
        let plan = || {
            Some(Arc::new(InstallPlan {
                metadata: ObjectMeta {
                    name: Some("install-1".to_owned()),
                    ..ObjectMeta::default()
                },
                ..InstallPlan::default()
            }))
        };
        for plan in [None, plan()] {
            for class in [
                FailureClass::Forbidden,
                FailureClass::Invalid,
                FailureClass::NotFound,
            ] {
                let (writes, text) = after(failed(class), plan.clone());
                assert_eq!(writes, 1, "{class:?}");
                assert!(text.contains("error ensuring InstallPlan: no"), "{text}");
            }
            for outcome in [
                failed(FailureClass::Retry),
                failed(FailureClass::Conflict),
                Outcome::NotAttempted,
            ] {
                assert_eq!(after(outcome.clone(), plan.clone()).0, 0, "{outcome:?}");
            }
            // What should pass and does not, as a quota; also after a clock was put back.
            for (seconds, writes) in [(4, 0), (5, 1), (3600, 1), (-10, 1)] {
                let (found, text) = after_failing(Some(seconds), failed(FailureClass::Retry), plan.clone());
                assert_eq!(found, writes, "{seconds}");
                assert_eq!(text.contains("error ensuring InstallPlan: no"), writes > 0);
            }
        }
        let done = || Outcome::Done(Arc::new(Value::Null));
        assert_eq!(after(done(), None).0, 0, "it is adopted in the next round");
        let (writes, text) = after(done(), plan());
        assert_eq!(writes, 1);
        assert!(text.contains("install-1"), "{text}");
    }
}
