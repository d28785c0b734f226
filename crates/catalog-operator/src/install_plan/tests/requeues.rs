//! Time of a plan's next reconcile, by the result of this one: `decide` and `status` alone.

use std::sync::Arc;

use jiff::Timestamp;
use olm_runtime::driver::StatusUpdate;
use olm_runtime::outcome::{Failure, Outcome, outcomes_for_tests};
use olm_runtime::plan::{Action, Requeue};

use super::*;
use crate::install_plan::observe::{KnownStep, NoObject, Observed, StepState};
use crate::install_plan::unwritten::Unwritten;
use crate::install_plan::{decide, status};
use crate::step_kind::StepKind;

const LASTING: Requeue = retry(5);

const fn retry(seconds: u64) -> Requeue {
    Requeue::After {
        delay: Duration::from_secs(seconds),
        reason: "retry of a failed step",
    }
}

/// A plan with one step, its ClusterServiceVersion.
fn one_step() -> Value {
    let mut plan = test_env::plan(PLAN, &[small()]);
    plan["status"]["plan"].as_array_mut().unwrap().truncate(1);
    plan
}

fn observed(plan: &Value, steps: Vec<StepState>) -> Observed {
    let group = group(json!({}), json!({"namespaces": [NAMESPACE]}));
    Observed {
        install_plan: Arc::new(serde_json::from_value(plan.clone()).unwrap()),
        operator_groups: vec![Arc::new(serde_json::from_value(group).unwrap())],
        steps,
        retry_timeout: Duration::from_secs(60),
        ..Observed::default()
    }
}

fn csv(current: Option<Value>) -> StepState {
    StepState::Known(Box::new(KnownStep {
        object: small().csv,
        api: StepKind::ClusterServiceVersion.api_resource().unwrap(),
        namespaced: true,
        current,
    }))
}

/// A reconcile in which every write fails with this error.
fn round(observed: &Observed, failing: Option<FailureClass>, second: i64) -> StatusUpdate<Unwritten> {
    let (plan, verdict) = decide::decide(observed);
    let outcome = |action: &Action| match failing {
        Some(class) => Outcome::Failed(Failure {
            class,
            code: 0,
            message: "no".to_owned(),
            action: action.to_string(),
        }),
        None => Outcome::Kept,
    };
    let outcomes = outcomes_for_tests(plan.actions.iter().map(outcome).collect());
    let now = Timestamp::from_second(1_800_000_000 + second).unwrap();
    status::status(observed, verdict, &outcomes, now)
}

fn patched(plan: &Value, update: &StatusUpdate<Unwritten>) -> Value {
    let mut patched = plan.clone();
    if let [Action::Patch { patch, .. }] = &update.patches[..] {
        olm_testing::patch::merge(&mut patched, patch);
    }
    patched
}

#[test]
fn a_lasting_error_is_tried_again_after_a_pause_that_ends_with_the_window() {
    let mut plan = one_step();
    for (second, expected) in [
        (0, LASTING),
        (30, LASTING),
        (58, retry(2)),
        (60, Requeue::AwaitChange),
    ] {
        let update = round(
            &observed(&plan, vec![csv(None)]),
            Some(FailureClass::Invalid),
            second,
        );
        assert_eq!(update.requeue, expected, "after {second} s");
        plan = patched(&plan, &update);
    }
    assert_eq!(plan["status"]["phase"], "Failed");
}

#[test]
fn a_plan_that_waits_for_approval_awaits_a_change() {
    let mut plan = one_step();
    plan["status"]["phase"] = "RequiresApproval".into();
    plan["spec"]["approved"] = false.into();
    let update = round(&observed(&plan, Vec::new()), None, 0);
    assert_eq!((update.requeue, update.patches.len()), (Requeue::AwaitChange, 0));
}

#[test]
fn an_observation_that_is_out_of_date_is_left_to_the_drivers_backoff() {
    for class in [FailureClass::Conflict, FailureClass::AlreadyExists] {
        let update = round(&observed(&one_step(), vec![csv(None)]), Some(class), 0);
        assert_eq!(update.requeue, Requeue::AwaitChange, "{class:?}");
    }
}

#[test]
fn changes_that_watches_or_the_unpacker_report_need_no_timer() {
    let fetching = |debounce| {
        StepState::Missing(NoObject::Fetching {
            message: "fetching".to_owned(),
            debounce,
        })
    };
    let mut going = small().csv;
    going["metadata"]["deletionTimestamp"] = "2027-01-15T08:00:00Z".into();
    let tell = Requeue::After {
        delay: Duration::from_secs(2),
        reason: "report the image being fetched",
    };
    let look = Requeue::After {
        delay: Duration::from_secs(5),
        reason: "poll unwatched objects",
    };
    let rows = [
        (fetching(None), Requeue::AwaitChange, true),
        (fetching(Some(Duration::from_secs(2))), tell, false),
        (csv(Some(going)), look, true),
    ];
    for (state, expected, is_told) in rows {
        let update = round(&observed(&one_step(), vec![state.clone()]), None, 0);
        assert_eq!(
            (update.requeue, !update.patches.is_empty()),
            (expected, is_told),
            "{state:?}"
        );
    }
}

#[test]
fn a_plan_with_nothing_to_do_is_not_looked_at_again() {
    let mut unapproved = one_step();
    unapproved["status"]["phase"] = "RequiresApproval".into();
    unapproved["spec"]["approved"] = false.into();
    let mut complete = one_step();
    complete["status"]["phase"] = "Complete".into();
    let rows = [
        (test_env::plan(PLAN, &[]), Vec::new()),
        (unapproved, vec![csv(None)]),
        (complete, vec![StepState::Done]),
    ];
    for (plan, steps) in rows {
        let observed = observed(&plan, steps);
        assert!(decide::decide(&observed).0.is_empty());
        let update = round(&observed, None, 0);
        assert_eq!(update.requeue, Requeue::AwaitChange);
        assert!(update.patches.is_empty(), "{:?}", update.patches);
    }
}
