//! After a failure a user has the word, whenever it came.

use super::*;

fn mark(env: &TestEnv) -> String {
    let plan = env.plans().pop().unwrap();
    plan.metadata.annotations.unwrap()[labels::UPGRADE_WAITS].clone()
}

/// The plan for `demo.v2` waits, and meanwhile `demo.v1` fails, and works again.
fn failed_meanwhile(first: &str, annotations: &Value) -> TestEnv {
    let mut env = with_policies(&[("demo", annotations.clone())]);
    env.set_csv_phase("demo.v1", first);
    release(&mut env, &["demo"]);
    assert_open_plans(&env, &[("demo.v2", false)]);
    assert_eq!(mark(&env), "");
    env.set_csv_phase("demo.v1", "Failed");
    env.settle();
    assert_eq!(mark(&env), "demo-sub", "{}", env.describe());
    let written = env.writes.len();
    env.round();
    assert_eq!(env.writes.len(), written, "{:#?}", env.writes);
    env.set_csv_phase("demo.v1", "Succeeded");
    env.settle();
    env
}

/// Whatever it waited for before: it counts as one that was there when the plan was made, also for the process that comes after.
#[test]
fn a_failure_that_comes_while_a_plan_waits_is_remembered() {
    let stop = || json!({labels::UPGRADE_STOP_AFTER_FAILURE: "true"});
    let window = json!({labels::UPGRADE_STOP_AFTER_FAILURE: "true", labels::UPGRADE_WINDOW: SATURDAY});
    for (first, annotations) in [("Installing", stop()), ("Succeeded", window)] {
        let mut env = failed_meanwhile(first, &annotations);
        env.restart();
        env.advance(HOUR * 51);
        assert_open_plans(&env, &[("demo.v2", false)]);
        let told = env.describe();
        assert!(
            told.contains("waiting by policy: the last upgrade failed"),
            "{told}"
        );
        annotate(&env, "demo", &json!({labels::UPGRADE_STOP_AFTER_FAILURE: null}));
        env.settle();
        assert_open_plans(&env, &[("demo.v2", true)]);
    }
}

/// It is about the Subscription, not about one plan.
#[test]
fn a_failure_counts_for_the_plan_that_comes_after_the_one_that_waits() {
    let mut env = failed_meanwhile("Installing", &json!({labels::UPGRADE_STOP_AFTER_FAILURE: "true"}));
    let rows = [
        bundle("demo.v1"),
        bundle("demo.v3").replaces("demo.v1").skip_range("<3.0.0"),
    ];
    env.serve(NAMESPACE, "cat", rows);
    env.settle();
    assert_open_plans(&env, &[("demo.v3", false)]);
    assert_eq!(mark(&env), "demo-sub");
}

/// Who says Manual meanwhile has not seen to it.
#[test]
fn a_failure_that_comes_while_somebody_says_manual_is_remembered() {
    let mut env = with_policies(&[(
        "demo",
        json!({labels::UPGRADE_STOP_AFTER_FAILURE: "true", labels::UPGRADE_WINDOW: SATURDAY}),
    )]);
    release(&mut env, &["demo"]);
    let say = |env: &TestEnv, approval: &str| {
        let patch = json!({"spec": {"installPlanApproval": approval}});
        env.edit("Subscription", "demo-sub", &patch);
    };
    say(&env, "Manual");
    env.set_csv_phase("demo.v1", "Failed");
    env.settle();
    env.set_csv_phase("demo.v1", "Succeeded");
    say(&env, "Automatic");
    env.advance(HOUR * 51);
    assert_open_plans(&env, &[("demo.v2", false)]);
}

/// As something may that changes annotations on their way in.
#[test]
fn a_mark_that_is_taken_off_is_not_written_again_and_again() {
    let mut env = with_policies(&[("demo", json!({labels::UPGRADE_STOP_AFTER_FAILURE: "true"}))]);
    env.set_csv_phase("demo.v1", "Installing");
    release(&mut env, &["demo"]);
    env.set_csv_phase("demo.v1", "Failed");
    env.settle();
    let name = env.plans().pop().unwrap().metadata.name.unwrap();
    let written = env.writes.len();
    let taken_off = json!({"metadata": {"annotations": {labels::UPGRADE_WAITS: ""}}});
    for _ in 0..3 {
        env.edit("InstallPlan", &name, &taken_off);
        env.settle();
    }
    assert_eq!(env.writes.len(), written, "{:#?}", env.writes);
    assert_open_plans(&env, &[("demo.v2", false)]);
}
