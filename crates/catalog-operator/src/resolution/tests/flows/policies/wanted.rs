//! Waiting plans whose Subscriptions move on or are deleted, or whose writes are refused.

use olm_api::condition::subscription::INSTALL_PLAN_PENDING;

use super::*;

/// Each package with these versions, each of which may follow any before it.
fn publish(env: &mut TestEnv, rows: &[(&str, u32)]) {
    let bundles = rows.iter().flat_map(|&(package, newest)| {
        (1..=newest).map(move |number| {
            let name = bundle(&format!("{package}.v{number}"));
            match number {
                1 => name,
                _ => name
                    .replaces(&format!("{package}.v{}", number - 1))
                    .skip_range(&format!("<{number}.0.0")),
            }
        })
    });
    env.serve(NAMESPACE, "cat", bundles.collect::<Vec<_>>());
    env.settle();
}

/// `upper` requires `demo`, and the next version of the one the next of the other; both have these annotations.
fn tied(annotations: &Value) -> TestEnv {
    let first = || [bundle("demo.v1").provides("A"), bundle("upper.v1").requires("A")];
    let mut env = TestEnv::with_catalog(first());
    env.subscribe("demo", &json!({}));
    env.subscribe("upper", &json!({}));
    env.settle();
    env.carry_out_plans();
    annotate(&env, "demo", annotations);
    annotate(&env, "upper", annotations);
    env.settle();
    let second = [
        bundle("demo.v2").replaces("demo.v1").provides("B"),
        bundle("upper.v2").replaces("upper.v1").requires("B"),
    ];
    env.serve(NAMESPACE, "cat", first().into_iter().chain(second));
    env.settle();
    assert_open_plans(&env, &[("demo.v2,upper.v2", false)]);
    env
}

/// Message of the Subscription's condition about its plan.
fn told(env: &TestEnv, package: &str) -> String {
    let status = env.subscription(&format!("{package}-sub")).status.unwrap();
    let mut conditions = status.conditions.into_iter();
    let found = conditions.find(|condition| condition.type_ == INSTALL_PLAN_PENDING);
    found.and_then(|condition| condition.message).unwrap_or_default()
}

fn plan_with(env: &TestEnv, csv: &str) -> String {
    let mut plans = env.plans().into_iter();
    let found = plans.find(|plan| {
        plan.spec
            .cluster_service_version_names
            .iter()
            .any(|name| name == csv)
    });
    found.unwrap().metadata.name.unwrap()
}

/// When the window opens each Subscription gets its current version; unwanted versions are gone by then.
#[test]
fn a_waiting_subscription_that_moves_on_gets_only_the_newer_version() {
    let window = json!({labels::UPGRADE_WINDOW: SATURDAY});
    let mut env = with_policies(&[("a", window.clone()), ("b", window), ("idle", json!({}))]);
    publish(&mut env, &[("a", 2), ("b", 2), ("idle", 1)]);
    assert_open_plans(&env, &[("a.v2", false), ("b.v2", false)]);
    publish(&mut env, &[("a", 3), ("b", 2), ("idle", 1)]);
    assert_open_plans(&env, &[("b.v2", false), ("a.v3", false)]);
    env.advance(HOUR * 51);
    assert_open_plans(&env, &[("b.v2", true), ("a.v3", true)]);
}

/// Both are in the newer plan, so both refer to it, and the older one goes.
#[test]
fn who_is_tied_to_one_that_moves_on_moves_with_it() {
    let mut env = tied(&json!({labels::UPGRADE_WINDOW: SATURDAY}));
    // With a Subscription beside them that does not wait, they are reconciled.
    let first = || [bundle("demo.v1").provides("A"), bundle("upper.v1").requires("A")];
    let rows = first().into_iter().chain([
        bundle("demo.v2").replaces("demo.v1").provides("B"),
        bundle("upper.v2").replaces("upper.v1").requires("B"),
        bundle("demo.v3")
            .replaces("demo.v2")
            .skip_range("<3.0.0")
            .provides("B"),
        bundle("idle.v1"),
    ]);
    env.subscribe("idle", &json!({}));
    env.serve(NAMESPACE, "cat", rows);
    env.settle();
    env.carry_out_plans();
    env.settle();
    assert_open_plans(&env, &[("demo.v3,upper.v2", false)]);
    let written = env.writes.len();
    env.round();
    env.round();
    assert_eq!(env.writes.len(), written, "{:#?}", env.writes);
    env.advance(HOUR * 51);
    assert_open_plans(&env, &[("demo.v3,upper.v2", true)]);
    env.begin_approved();
    env.carry_out_plans();
    env.settle();
    assert_eq!(told(&env, "upper"), "", "{}", env.describe());
    assert_open_plans(&env, &[]);
}

/// A waiting plan for each published version would be one more plan to approve by mistake.
#[test]
fn plans_that_no_subscription_uses_are_deleted() {
    let mut env = with_policies(&[
        ("demo", json!({labels::UPGRADE_APPROVE: "patch"})),
        ("idle", json!({})),
    ]);
    for newest in 2..6 {
        publish(&mut env, &[("demo", newest), ("idle", 1)]);
        assert_open_plans(&env, &[(&format!("demo.v{newest}"), false)]);
    }
    // A plan that waits for a user is left to the user.
    env.edit(
        "Subscription",
        "idle-sub",
        &json!({"spec": {"installPlanApproval": "Manual"}}),
    );
    env.settle();
    for newest in 6..8 {
        publish(&mut env, &[("demo", newest), ("idle", 1)]);
    }
    assert_open_plans(
        &env,
        &[("demo.v5", false), ("demo.v6", false), ("demo.v7", false)],
    );
}

/// More than are created in one reconcile, without the driver's loop detection: nothing is reported, and each has its plan.
#[test]
fn many_that_wait_have_their_plans_at_once() {
    let names: Vec<String> = (10..40).map(|number| format!("p{number}")).collect();
    let window = json!({labels::UPGRADE_WINDOW: SATURDAY});
    let policies: Vec<(&str, Value)> = names.iter().map(|name| (name.as_str(), window.clone())).collect();
    let mut env = with_policies(&policies);
    let before = env.writes.len();
    release(&mut env, &names.iter().map(String::as_str).collect::<Vec<_>>());
    let expected: Vec<String> = names.iter().map(|name| format!("{name}.v2")).collect();
    let rows = |approved| {
        let rows = expected.iter().map(|name| (name.as_str(), approved));
        rows.collect::<Vec<_>>()
    };
    assert_open_plans(&env, &rows(false));
    // For each the plan, its status, its preview, why it waits, and the status of its Subscription before and after that.
    assert_eq!(env.writes.len() - before, 6 * names.len(), "{:#?}", env.writes);
    env.advance(HOUR * 51);
    assert_open_plans(&env, &rows(true));
}

/// Whatever write the process ends after.
#[test]
fn a_crash_while_several_plans_are_made_leads_to_the_same_plans() {
    fn run(crash_after: Option<usize>) -> (Vec<(String, bool)>, usize) {
        let window = json!({labels::UPGRADE_WINDOW: SATURDAY});
        let mut env = with_policies(&[("a", window.clone()), ("b", window), ("c", json!({}))]);
        let before = env.writes.len();
        env.crash_after = crash_after.map(|writes| before + writes);
        release(&mut env, &["a", "b", "c"]);
        env.restart();
        env.advance(HOUR);
        let mut plans = open_plans(&env);
        plans.sort();
        (plans, env.writes.len() - before)
    }
    let (reference, writes) = run(None);
    assert_eq!(
        reference,
        plans(&[("a.v2", false), ("b.v2", false), ("c.v2", true)])
    );
    for crash in 1..=writes {
        assert_eq!(run(Some(crash)).0, reference, "after {crash} writes");
    }
}

/// A Subscription whose policy permits the upgrade does not wait for those of others.
#[test]
fn a_policy_that_is_lifted_frees_its_subscription_alone() {
    for (lifted, kept) in [
        (
            json!({labels::UPGRADE_APPROVE: "all"}),
            json!({labels::UPGRADE_APPROVE: "minor"}),
        ),
        (
            json!({labels::UPGRADE_WINDOW: "daily 00:00 24h"}),
            json!({labels::UPGRADE_WINDOW: SATURDAY}),
        ),
        (
            json!({labels::UPGRADE_WINDOW: "daily 00:00 24h"}),
            json!({labels::UPGRADE_WINDOW: "at night"}),
        ),
    ] {
        let mut env = with_policies(&[("a", kept.clone()), ("b", kept)]);
        release(&mut env, &["a", "b"]);
        assert_open_plans(&env, &[("a.v2", false), ("b.v2", false)]);
        annotate(&env, "a", &lifted);
        env.settle();
        assert_open_plans(&env, &[("a.v2", true), ("b.v2", false)]);
    }
}

/// Also if they differ only beyond the part that messages show.
#[test]
fn windows_that_begin_alike_are_two() {
    let days = vec!["Sat"; 25].join(",");
    let windows = [format!("{days} 02:00 1h"), format!("{days} 04:00 1h")];
    let [first, second] = windows.map(|window| json!({labels::UPGRADE_WINDOW: window}));
    let mut env = with_policies(&[("a", first), ("b", second)]);
    release(&mut env, &["a", "b"]);
    env.advance(HOUR * 50 + HOUR / 2);
    assert_open_plans(&env, &[("a.v2", true), ("b.v2", false)]);
    env.advance(HOUR * 2);
    assert_open_plans(&env, &[("a.v2", true), ("b.v2", true)]);
}

/// Deleting a Subscription is no request to upgrade it, and its policy no longer counts. The remaining one cannot be upgraded
/// without it.
#[test]
fn what_a_deleted_subscription_was_to_have_is_not_installed_for_others() {
    for (policy, later) in [
        (json!({labels::UPGRADE_WINDOW: SATURDAY}), json!({})),
        (
            json!({labels::UPGRADE_APPROVE: "patch"}),
            json!({labels::UPGRADE_APPROVE: "all"}),
        ),
    ] {
        let mut env = tied(&policy);
        env.delete("Subscription", "demo-sub");
        annotate(&env, "upper", &later);
        env.advance(HOUR * 51);
        assert_open_plans(&env, &[]);
        let described = env.describe();
        assert!(
            described.contains("upper-sub: state=AtLatestKnown installed=upper.v1"),
            "{described}"
        );
    }
}

/// It is asked for its policy like any other, and the plan has what it is to have once it is resolved: not while the
/// ClusterServiceVersion of the one before is in the way.
#[test]
fn a_recreated_subscription_is_resolved_again() {
    let anew: &[(&str, bool)] = &[("demo.v2,upper.v2", true)];
    for (csv_gone, later, expected) in [
        (true, json!({}), anew),
        (
            true,
            json!({labels::UPGRADE_HOLD: "<2.0.0"}),
            &[("demo.v1", true)],
        ),
        (false, json!({}), &[("demo.v2,upper.v2", false)]),
    ] {
        let mut env = tied(&json!({labels::UPGRADE_WINDOW: SATURDAY}));
        env.delete("Subscription", "demo-sub");
        if csv_gone {
            env.delete("ClusterServiceVersion", "demo.v1");
        }
        env.subscribe("demo", &json!({}));
        annotate(&env, "demo", &later);
        env.advance(HOUR * 51);
        assert_eq!(open_plans(&env), plans(expected), "{later} {}", env.describe());
        let written = env.writes.len();
        env.round();
        env.round();
        assert_eq!(env.writes.len(), written, "{later} {:#?}", env.writes);
    }
}

/// The old plan is not executed with the unwanted version, and the other Subscriptions get theirs.
#[test]
fn a_subscription_that_moves_alone_delays_no_others_window() {
    let mut env = tied(&json!({labels::UPGRADE_WINDOW: SATURDAY}));
    let rows = [
        bundle("demo.v1").provides("A"),
        bundle("upper.v1").requires("A"),
        bundle("demo.v2").replaces("demo.v1").provides("B"),
        bundle("upper.v2").replaces("upper.v1").requires("B"),
        bundle("upper.v3").replaces("upper.v2").skip_range("<3.0.0"),
    ];
    env.serve(NAMESPACE, "cat", rows);
    env.settle();
    assert_open_plans(&env, &[("demo.v2", false), ("upper.v3", false)]);
    let written = env.writes.len();
    env.round();
    assert_eq!(env.writes.len(), written, "{:#?}", env.writes);
    env.advance(HOUR * 51);
    assert_open_plans(&env, &[("demo.v2", true), ("upper.v3", true)]);
}

/// In the moment before the plan would be deleted, for any reason.
#[test]
fn an_approval_that_comes_before_the_deletion_of_its_plan_is_not_lost() {
    let mut env = with_policies(&[
        ("demo", json!({labels::UPGRADE_APPROVE: "patch"})),
        ("idle", json!({})),
    ]);
    publish(&mut env, &[("demo", 2), ("idle", 1)]);
    env.approve_before_deletion();
    publish(&mut env, &[("demo", 3), ("idle", 1)]);
    assert_open_plans(&env, &[("demo.v2", true), ("demo.v3", false)]);

    let mut env = tied(&json!({labels::UPGRADE_WINDOW: SATURDAY}));
    let rows = [
        bundle("demo.v1").provides("A"),
        bundle("upper.v1").requires("A"),
        bundle("demo.v2").replaces("demo.v1").provides("B"),
        bundle("upper.v2").replaces("upper.v1").requires("B"),
        bundle("upper.v3").replaces("upper.v2").skip_range("<3.0.0"),
    ];
    env.approve_before_deletion();
    env.serve(NAMESPACE, "cat", rows);
    env.settle();
    assert_open_plans(&env, &[("demo.v2,upper.v2", true), ("upper.v3", false)]);
    let written = env.writes.len();
    env.round();
    env.advance(Duration::from_secs(600));
    assert_eq!(env.writes.len(), written, "{:#?}", env.writes);
}

/// A user who has to approve the plan may delete it.
#[test]
fn a_plan_that_waits_for_a_user_after_a_failure_is_left_to_users() {
    let mut env =
        tied(&json!({labels::UPGRADE_STOP_AFTER_FAILURE: "true", labels::UPGRADE_WINDOW: SATURDAY}));
    let name = plan_with(&env, "demo.v2");
    let mark = json!({"metadata": {"annotations": {labels::UPGRADE_STOPPED: "upper-sub"}}});
    env.edit("InstallPlan", &name, &mark);
    env.delete("Subscription", "demo-sub");
    env.advance(HOUR * 51);
    assert_open_plans(&env, &[("demo.v2,upper.v2", false)]);
}

/// Unless a user has subscribed to it meanwhile: there would be two Subscriptions.
#[test]
fn a_dependency_is_installed_with_the_plan_that_brings_it() {
    let waiting = || {
        let bundles = [
            bundle("upper.v1").requires("Ofdemo"),
            bundle("demo.v1").provides("Ofdemo"),
        ];
        let mut env = TestEnv::with_catalog(bundles);
        env.subscribe("upper", &json!({}));
        annotate(&env, "upper", &json!({labels::UPGRADE_WINDOW: SATURDAY}));
        env.settle();
        assert_open_plans(&env, &[("demo.v1,upper.v1", false)]);
        env
    };
    let brings = |env: &TestEnv| env.describe().contains("Subscription/demo-stable-cat-ns");

    let mut env = waiting();
    env.advance(HOUR * 51);
    assert_open_plans(&env, &[("demo.v1,upper.v1", true)]);
    assert!(brings(&env), "{}", env.describe());

    // Both move on to a plan that brings none.
    let mut env = waiting();
    env.subscribe("demo", &json!({}));
    env.advance(HOUR * 51);
    assert_open_plans(&env, &[("demo.v1,upper.v1", true)]);
    assert!(!brings(&env), "{}", env.describe());

    // The one that waits cannot be resolved any more: the dependency is no reason to install it.
    let mut env = waiting();
    env.subscribe("demo", &json!({}));
    env.serve(NAMESPACE, "cat", [bundle("demo.v1").provides("Ofdemo")]);
    env.settle();
    env.carry_out_plans();
    env.advance(HOUR * 51);
    assert_open_plans(&env, &[]);
    assert!(
        env.describe().contains("ResolutionFailed=True"),
        "{}",
        env.describe()
    );
}

/// A quota, or a webhook that takes one of them for wrong.
#[test]
fn a_plan_that_is_refused_keeps_no_other_from_its_window() {
    let mut env = with_policies(&[
        ("demo", json!({labels::UPGRADE_WINDOW: SATURDAY})),
        ("other", json!({})),
    ]);
    publish(&mut env, &[("demo", 2), ("other", 1)]);
    env.refuse = Some("exceeded quota".to_owned());
    env.settle();
    publish(&mut env, &[("demo", 2), ("other", 2)]);
    env.advance(HOUR * 51);
    assert_open_plans(&env, &[("demo.v2", true)]);
    assert!(env.describe().contains("exceeded quota"), "{}", env.describe());
}

/// Whichever of them comes first.
#[test]
fn an_approval_that_is_refused_keeps_no_other_back() {
    for (refused, free) in [("a", "b"), ("b", "a")] {
        let window = json!({labels::UPGRADE_WINDOW: SATURDAY});
        let mut env = with_policies(&[("a", window.clone()), ("b", window)]);
        release(&mut env, &["a", "b"]);
        let name = plan_with(&env, &format!("{refused}.v2"));
        env.refuse_patches_of = Some(name.clone());
        env.advance(HOUR * 51);
        assert_open_plans(&env, &[("a.v2", free == "a"), ("b.v2", free == "b")]);
        assert_eq!(told(&env, free), "");
        env.refuse_patches_of = None;
        env.advance(Duration::from_secs(120));
        assert_open_plans(&env, &[("a.v2", true), ("b.v2", true)]);
        assert_eq!(told(&env, refused), "");
    }
}
