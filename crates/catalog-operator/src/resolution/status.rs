//! The statuses of a namespace's Subscriptions, as they follow from what became of the reconcile's writes. Pure, and called last.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use kube::ResourceExt;
use olm_api::condition::subscription as reasons;
use olm_runtime::driver::StatusUpdate;
use olm_runtime::outcome::{FailureClass, Outcome, Outcomes};
use olm_runtime::plan::{Requeue, status_of};

use super::decide::{Move, Verdict};
use super::memory::Memory;
use super::observed::Observed;
use super::outcome::{resolution_event, unpack_event};
use crate::subscription::install_plan::cause_delay;
use crate::subscription::{self, Assignment, Facts, ResolutionOutcome};
use crate::timing::elapsed;

/// Time for which creating a plan may fail for temporary reasons before Subscriptions report it.
const PATIENCE: Duration = Duration::from_secs(5);

/// The statuses, their events, the time of the next reconcile, and the state passed to it.
pub(crate) fn status(
    observed: &Observed,
    mut verdict: Verdict,
    outcomes: &Outcomes,
    now: Timestamp,
) -> StatusUpdate<Memory> {
    let mut update = StatusUpdate::default();
    let (mut assignments, mut failing_since) = (BTreeMap::new(), None);
    for moving in std::mem::take(&mut verdict.moving) {
        let made = moving.making.map(|index| outcomes.get(index));
        if moving.plan.is_none() && matches!(made, Some(Outcome::Done(_))) {
            update.requeue = Requeue::after(Duration::ZERO, "adoption of the new InstallPlan");
        }
        let since = verdict.last.failing_since;
        let refusal = refusal(made, since, now);
        if matches!(made, Some(Outcome::Failed(_))) {
            failing_since = Some(since.unwrap_or(now));
        }
        assignments.extend(assigned(moving, made, refusal.as_ref(), &mut verdict));
    }
    // They are written when their turn comes.
    verdict.untouched.append(&mut verdict.behind);
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
        };
        let next = subscription::compose(subscription, &state, &facts, now);
        if let Some(delay) = cause_delay(&next, &state, now) {
            let due = Requeue::after(delay, "report of what a ClusterServiceVersion waits for is due");
            update.requeue = update.requeue.sooner(due);
        }
        if !subscription::is_worth_writing(subscription.status.as_ref(), &next) {
            continue;
        }
        update.events.extend(unpack_event(subscription, facts.outcome));
        let old = subscription.status.clone().unwrap_or_default();
        update.patches.extend(status_of(&**subscription, &old, &next));
    }
    // While a status is refused, its Subscription does not report the failure, so the event would be sent again and again.
    let failure = resolution_event(observed, &verdict.outcomes_by_subscription);
    let mut reported = verdict.warnings;
    reported.extend(failure.iter().map(|event| event.message.clone()));
    let news = failure.filter(|event| !verdict.last.reported.contains(&event.message));
    update.events.extend(news);
    let memory = Memory {
        reported,
        failing_since,
    };
    update.memory = (memory != Memory::default()).then_some(memory);
    update
}

/// Returns the reason why the plan cannot be created, if it is to be reported. A temporary reason is reported only after a while;
/// `since` is the time of the first failed attempt.
fn refusal(made: Option<&Outcome>, since: Option<Timestamp>, now: Timestamp) -> Option<ResolutionOutcome> {
    let Some(Outcome::Failed(failure)) = made else {
        return None;
    };
    let passes = matches!(failure.class, FailureClass::Retry | FailureClass::Conflict);
    // Temporary reasons are reported too, after a while.
    let is_overdue = since.is_some_and(|since| elapsed(since, now) >= PATIENCE);
    (!passes || is_overdue).then(|| ResolutionOutcome::UnpackFailed {
        reason: reasons::ENSURE_INSTALL_PLAN_FAILED,
        message: format!("error ensuring InstallPlan: {}", failure.message),
    })
}

/// Returns the plan of each Subscription that moves, if the plan exists. Subscriptions of a refused plan report the reason; those
/// whose plan does not exist yet, or is not known to, stay as they are.
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
    use olm_api::v1alpha1::InstallPlan;
    use olm_resolver::SubscriptionUpdate;
    use olm_runtime::outcome::{Failure, outcomes_for_tests};
    use serde_json::{Value, json};

    use super::*;

    /// Number of statuses written, and the text of the first, after a reconcile whose plan was made with `outcome`, when the tries
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
                plan,
                updates: vec![update],
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
    fn a_refusal_is_reported_at_once_and_what_passes_is_not() {
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
            // A failure that should be temporary and is not, such as a quota.
            for (seconds, writes) in [(4, 0), (5, 1), (3600, 1)] {
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
