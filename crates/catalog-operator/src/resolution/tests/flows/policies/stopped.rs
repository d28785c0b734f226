//! After a failure a user has to approve, whenever the failure happened.

use super::*;

fn mark(env: &TestEnv) -> String {
    let plan = env.plans().pop().unwrap();
    let annotations = plan.metadata.annotations.unwrap_or_default();
    annotations
        .get(labels::UPGRADE_STOPPED)
        .cloned()
        .unwrap_or_default()
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

/// Whatever it waited for before: it counts as a failure from before the plan, also for the next process.
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
        annotate(
            &env,
            "demo",
            &json!({labels::UPGRADE_STOP_AFTER_FAILURE: "false"}),
        );
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
    // The plan that waits for a user is a user's to delete.
    assert_open_plans(&env, &[("demo.v2", false), ("demo.v3", false)]);
    assert_eq!(mark(&env), "demo-sub");
}
