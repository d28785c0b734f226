//! The status itself: history, times, events.

use std::{sync::Arc, time::Duration};

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::Deployment;
use olm_api::{
    condition::csv as reason,
    v1alpha1::{ClusterServiceVersionCondition, ClusterServiceVersionPhase as Phase},
};
use olm_runtime::{
    outcome::{Failure, FailureClass, Outcome, Outcomes, outcomes_for_tests},
    plan::{Action, Requeue, Target},
};
use serde_json::Value;

use super::{installed, prepared};
use crate::{
    csv::{
        decide::transitions::{Stage, Transition, Verdict},
        observed::Observed,
        serving::component::Component,
        status::status,
    },
    test_env::{TestEnv, crd, csv, csv_key, group},
};

fn observed() -> (TestEnv, Observed) {
    let mut env = installed();
    let observed = env.observe(&csv_key("a")).unwrap();
    (env, observed)
}

/// The status after one transition.
fn after(observed: &Observed, transition: Transition, now: Timestamp) -> Value {
    let verdict = Verdict {
        transitions: vec![transition],
        ..Verdict::default()
    };
    let update = status(observed, verdict, &Outcomes::default(), now);
    let [Action::Patch { patch, .. }] = &update.patches[..] else {
        panic!("a patch")
    };
    patch["status"].clone()
}

fn with_history(observed: &mut Observed, entries: usize) {
    let mut csv = (*observed.csv).clone();
    let status = csv.status.as_mut().unwrap();
    let entry = |index: usize| ClusterServiceVersionCondition {
        phase: Phase::Pending,
        reason: Some(format!("R{index}")),
        ..ClusterServiceVersionCondition::default()
    };
    status.conditions = (0..entries).map(entry).collect();
    observed.csv = csv.into();
}

#[test]
fn the_history_keeps_the_newest_twenty() {
    let (env, mut observed) = observed();
    for entries in [20, 30] {
        with_history(&mut observed, entries);
        let transition = Transition::new(Phase::Failed, reason::COMPONENT_UNHEALTHY, "m");
        let status = after(&observed, transition, env.now);
        let history = status["conditions"].as_array().unwrap();
        assert_eq!(history.len(), 20);
        assert_eq!(history[0]["reason"], format!("R{}", entries - 19));
        assert_eq!(history[19]["reason"], "ComponentUnhealthy");
    }
}

#[test]
fn a_new_message_alone_adds_nothing_to_the_history_and_keeps_the_transition_time() {
    let (env, observed) = observed();
    let later = env.now + Duration::from_secs(60);
    let status = after(
        &observed,
        Transition::new(Phase::Succeeded, reason::INSTALL_SUCCEEDED, "new words"),
        later,
    );
    assert_eq!(status["message"], "new words");
    assert_eq!(status.get("conditions"), None);
    assert_eq!(status.get("lastTransitionTime"), None);
    assert!(status.get("lastUpdateTime").is_some());
}

#[test]
fn a_new_phase_moves_both_times() {
    let (env, observed) = observed();
    let later = env.now + Duration::from_secs(60);
    let status = after(
        &observed,
        Transition::new(Phase::Replacing, reason::BEING_REPLACED, "m"),
        later,
    );
    assert_eq!(status["lastTransitionTime"], status["lastUpdateTime"]);
    assert_eq!(status["lastTransitionTime"], later.to_string());
}

#[test]
fn events_report_unmet_and_then_met_requirements() {
    let mut env = TestEnv::new().with(group("ns", "og", &["ns"])).with(csv("a", ""));
    env.settle_for(4);
    env.put(crd("demos.example.com"));
    env.settle_for(4);
    let reasons: Vec<&str> = env
        .events
        .iter()
        .map(|event| event.split(':').next().unwrap())
        .collect();
    assert_eq!(
        reasons,
        [
            "RequirementsUnknown",
            "RequirementsNotMet",
            "AllRequirementsMet",
            "InstallSucceeded",
            "InstallSucceeded"
        ]
    );
}

#[test]
fn a_failure_is_a_warning() {
    let (env, observed) = observed();
    let verdict = Verdict {
        transitions: vec![Transition::new(Phase::Failed, reason::COMPONENT_UNHEALTHY, "m")],
        ..Verdict::default()
    };
    let update = status(&observed, verdict, &Outcomes::default(), env.now);
    assert!(update.events[0].warning);
    assert_eq!(
        update.events[0].regarding.kind.as_deref(),
        Some("ClusterServiceVersion")
    );
    assert_eq!(update.events[0].regarding.name.as_deref(), Some("a"));
}

#[test]
fn rows_that_appear_one_after_the_other_are_collected() {
    let mut env = prepared();
    env.put(csv("a", ""));
    env.settle();
    let writes = env.writes.len();
    let account = serde_json::json!({"apiVersion": "v1", "kind": "ServiceAccount",
        "metadata": {"namespace": "ns", "name": "demo", "labels": {"olm.managed": "true"}}});
    env.put(account);
    env.settle();
    assert_eq!(env.writes.len(), writes, "{:#?}", &env.writes[writes..]);
}

/// Returns the effect of one failed write of an install, this long after writes began to be refused.
fn refused(class: FailureClass, seconds: u64) -> Option<Value> {
    let (env, observed) = observed();
    let failure = Outcome::Failed(Failure {
        class,
        code: 0,
        message: "no".into(),
        action: "apply Deployment ns/demo".into(),
    });
    let verdict = Verdict {
        stage: Stage::Install,
        refused_since: Some(env.now),
        ..Verdict::default()
    };
    let now = env.now + Duration::from_secs(seconds);
    let update = status(&observed, verdict, &outcomes_for_tests(vec![failure]), now);
    assert_eq!(update.memory, Some(env.now), "since then");
    match update.patches.into_iter().next()? {
        Action::Patch { patch, .. } => Some(patch["status"].clone()),
        other => panic!("{other}"),
    }
}

#[test]
fn a_passing_refusal_is_repeated_for_four_seconds_before_it_is_reported() {
    assert_eq!(refused(FailureClass::Retry, 3), None);
    let told = refused(FailureClass::Retry, 4).unwrap();
    assert_eq!(told["phase"], "InstallReady");
    assert_eq!(told["message"], "installing: apply Deployment ns/demo: no");
    assert_eq!(refused(FailureClass::Invalid, 0).unwrap()["phase"], "Failed");
}

#[test]
fn a_new_message_settles_for_two_seconds_and_is_written_then() {
    let (_, observed) = observed();
    let written = observed.csv.status.as_ref().unwrap().last_update_time.clone();
    let update = |seconds: u64| {
        let verdict = Verdict {
            transitions: vec![Transition::new(
                Phase::Succeeded,
                reason::INSTALL_SUCCEEDED,
                "new",
            )],
            ..Verdict::default()
        };
        let now = written.clone().unwrap().0 + Duration::from_secs(seconds);
        status(&observed, verdict, &Outcomes::default(), now)
    };
    let early = update(1);
    assert!(early.patches.is_empty() && early.events.is_empty());
    let Requeue::After { delay, .. } = early.requeue else {
        panic!("it is looked at again")
    };
    assert_eq!(delay, Duration::from_secs(1));
    assert_eq!(update(2).patches.len(), 1);
}

#[test]
fn a_message_that_changed_and_changed_back_is_not_written() {
    let (env, observed) = observed();
    let back = observed.csv.status.as_ref().unwrap().message.clone().unwrap();
    let verdict = Verdict {
        transitions: ["other".to_owned(), back]
            .map(|message| Transition::new(Phase::Succeeded, reason::INSTALL_SUCCEEDED, message))
            .into(),
        ..Verdict::default()
    };
    let later = env.now + Duration::from_secs(60);
    let update = status(&observed, verdict, &Outcomes::default(), later);
    assert!(update.patches.is_empty());
}

#[test]
fn a_deployment_that_a_policy_changes_is_applied_again_after_a_minute() {
    let (env, observed) = observed();
    let mut stored = serde_json::to_value(&*observed.deployments["demo"]).unwrap();
    stored["kind"] = "Deployment".into();
    stored["metadata"]["labels"]["olm.deployment-spec-hash"] = "another".into();
    let component = Component {
        target: Target::of::<Deployment>("ns", "demo"),
        object: Value::Null,
    };
    let verdict = Verdict {
        stage: Stage::Install,
        applied: vec![(0, component)],
        ..Verdict::default()
    };
    let outcomes = outcomes_for_tests(vec![Outcome::Done(Arc::new(stored))]);
    let update = status(&observed, verdict, &outcomes, env.now);
    let Requeue::After { delay, .. } = update.requeue else {
        panic!("it is looked at again")
    };
    assert_eq!(delay, Duration::from_secs(60));
}
