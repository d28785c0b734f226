//! Upgrades by policy. The cluster begins on a Thursday, 2026-01-01T00:00:00Z.

use olm_api::condition::subscription::UPGRADE_POLICY_INVALID;
use olm_api::labels;
use serde_json::Value;

use super::*;

mod asked;
mod refused;
mod stopped;
mod wanted;

/// Two days and two hours after the beginning.
const SATURDAY: &str = "Sat 02:00 4h";
const HOUR: Duration = Duration::from_secs(3600);

/// Annotations that need `Manual`.
const POLICIES: [&str; 3] = [
    labels::UPGRADE_APPROVE,
    labels::UPGRADE_STOP_AFTER_FAILURE,
    labels::UPGRADE_WINDOW,
];

/// Each package installed at its first version, with these annotations on its Subscription, which is `Manual` if it has a policy.
fn with_policies(policies: &[(&str, Value)]) -> TestEnv {
    let mut env = TestEnv::with_catalog(
        policies
            .iter()
            .map(|(package, _)| bundle(&format!("{package}.v1"))),
    );
    for (package, _) in policies {
        env.subscribe(package, &json!({}));
    }
    env.settle();
    env.carry_out_plans();
    for (package, annotations) in policies {
        annotate(&env, package, annotations);
    }
    env.settle();
    env
}

fn annotate(env: &TestEnv, package: &str, annotations: &Value) {
    let mut patch = json!({"metadata": {"annotations": annotations}});
    if POLICIES.iter().any(|key| annotations[key].is_string()) {
        patch["spec"] = json!({"installPlanApproval": "Manual"});
    }
    env.edit("Subscription", &format!("{package}-sub"), &patch);
}

/// Each package has a second version.
fn release(env: &mut TestEnv, packages: &[&str]) {
    let rows = packages.iter().flat_map(|package| {
        let first = format!("{package}.v1");
        [bundle(&first), bundle(&format!("{package}.v2")).replaces(&first)]
    });
    env.serve(NAMESPACE, "cat", rows.collect::<Vec<_>>());
    env.settle();
}

/// Names and approval of the plans that are not over.
fn open_plans(env: &TestEnv) -> Vec<(String, bool)> {
    let plans = env.plans().into_iter().filter(|plan| !plan.is_over());
    plans
        .map(|plan| {
            (
                plan.spec.cluster_service_version_names.join(","),
                plan.spec.approved,
            )
        })
        .collect()
}

fn plans(rows: &[(&str, bool)]) -> Vec<(String, bool)> {
    rows.iter()
        .map(|(names, approved)| ((*names).to_owned(), *approved))
        .collect()
}

#[track_caller]
fn assert_open_plans(env: &TestEnv, rows: &[(&str, bool)]) {
    assert_eq!(open_plans(env), plans(rows), "{}", env.describe());
}

/// Without a user, and without a write while it waits.
#[test]
fn a_plan_outside_of_the_window_is_approved_at_its_start() {
    let mut env = with_policies(&[("demo", json!({labels::UPGRADE_WINDOW: SATURDAY}))]);
    release(&mut env, &["demo"]);
    insta::assert_snapshot!(env.describe(), @r#"
    demo-sub: state=UpgradePending installed=demo.v1 current=demo.v2 gen=2
      CatalogSourcesUnhealthy=False/AllCatalogSourcesHealthy all available catalogsources are healthy
      InstallPlanPending=True/RequiresApproval waiting by policy: the maintenance window opens at 2026-01-03T02:00:00+00:00: annotation operatorframework.io/upgrade-window: "Sat 02:00 4h" of Subscription demo-sub
    plan gen=1 Automatic approved=true demo.v1: Complete ClusterServiceVersion/demo.v1
    plan gen=2 Manual approved=false demo.v2: RequiresApproval ClusterServiceVersion/demo.v2
    "#);
    let written = env.writes.len();
    env.round();
    env.restart();
    env.advance(HOUR * 49);
    assert_open_plans(&env, &[("demo.v2", false)]);
    assert_eq!(env.writes.len(), written, "{:#?}", env.writes);
    env.advance(HOUR);
    assert_open_plans(&env, &[("demo.v2", true)]);
    // The approval, and that the Subscription waits for nothing any more.
    assert_eq!(env.writes.len(), written + 2, "{:#?}", env.writes);
    env.begin_approved();
    env.carry_out_plans();
    env.settle();
    assert!(env.describe().contains("installed=demo.v2"), "{}", env.describe());
}

#[test]
fn within_the_window_nothing_waits() {
    let mut env = with_policies(&[("demo", json!({labels::UPGRADE_WINDOW: "Thu 00:00 24h"}))]);
    release(&mut env, &["demo"]);
    assert_open_plans(&env, &[("demo.v2", true)]);
    let annotations = env.plans()[1].metadata.annotations.clone().unwrap_or_default();
    assert!(!annotations.contains_key(labels::UPGRADE_WAITS));
}

/// A first install, too, as the window is about when anything is changed.
#[test]
fn a_first_install_waits_for_the_window() {
    let mut env = TestEnv::with_catalog([bundle("demo.v1")]);
    env.subscribe("demo", &json!({}));
    annotate(
        &env,
        "demo",
        &json!({labels::UPGRADE_WINDOW: SATURDAY, labels::UPGRADE_APPROVE: "patch"}),
    );
    env.settle();
    assert_open_plans(&env, &[("demo.v1", false)]);
    env.advance(HOUR * 51);
    assert_open_plans(&env, &[("demo.v1", true)]);
}

#[test]
fn a_large_upgrade_waits_until_the_annotation_allows_it_or_a_user_does() {
    // Without the annotation a user has to approve.
    for (later, approved) in [
        (json!({labels::UPGRADE_APPROVE: "all"}), true),
        (json!({labels::UPGRADE_APPROVE: null}), false),
    ] {
        let mut env = with_policies(&[("demo", json!({labels::UPGRADE_APPROVE: "minor"}))]);
        release(&mut env, &["demo"]);
        let told = env.describe();
        let text = r#"waiting by policy: demo.v2 is not a minor or patch release after demo.v1: annotation operatorframework.io/upgrade-approve: "minor" of Subscription demo-sub"#;
        assert!(
            told.contains(&format!("InstallPlanPending=True/RequiresApproval {text}")),
            "{told}"
        );
        env.advance(HOUR * 26);
        assert_open_plans(&env, &[("demo.v2", false)]);
        annotate(&env, "demo", &later);
        env.settle();
        assert_eq!(open_plans(&env), plans(&[("demo.v2", approved)]), "{later}");
        let told = env.describe();
        assert!(!told.contains("waiting by policy"), "{told}");
    }
}

/// The window of one Subscription opens for no other.
#[test]
fn a_waiting_subscription_delays_no_other() {
    let mut env = with_policies(&[
        ("alone", json!({})),
        ("demo", json!({labels::UPGRADE_WINDOW: SATURDAY})),
        ("fourth", json!({labels::UPGRADE_WINDOW: "Fri 02:00 4h"})),
        ("other", json!({labels::UPGRADE_WINDOW: SATURDAY})),
    ]);
    release(&mut env, &["alone", "demo", "fourth", "other"]);
    assert_open_plans(
        &env,
        &[
            ("alone.v2", true),
            ("demo.v2", false),
            ("fourth.v2", false),
            ("other.v2", false),
        ],
    );
    env.advance(HOUR * 27);
    assert_open_plans(
        &env,
        &[
            ("alone.v2", true),
            ("demo.v2", false),
            ("fourth.v2", true),
            ("other.v2", false),
        ],
    );
    let told = env.describe();
    assert_eq!(told.matches("state=UpgradePending").count(), 4, "{told}");
}

/// The window counts for both, and the other Subscription reports it.
#[test]
fn a_dependency_ties_policies_together() {
    let first = || [bundle("demo.v1").provides("A"), bundle("upper.v1").requires("A")];
    let mut env = TestEnv::with_catalog(first());
    env.subscribe("demo", &json!({}));
    env.subscribe("upper", &json!({}));
    env.settle();
    env.carry_out_plans();
    annotate(&env, "demo", &json!({labels::UPGRADE_WINDOW: SATURDAY}));
    env.settle();
    let second = [
        bundle("demo.v2").replaces("demo.v1").provides("B"),
        bundle("upper.v2").replaces("upper.v1").requires("B"),
    ];
    env.serve(NAMESPACE, "cat", first().into_iter().chain(second));
    env.settle();
    let told = env.describe();
    assert_eq!(open_plans(&env), plans(&[("demo.v2,upper.v2", false)]), "{told}");
    assert_eq!(told.matches("the maintenance window opens").count(), 2, "{told}");
}

/// Policies count again when no Subscription is Manual without one.
#[test]
fn manual_makes_all_plans_wait_for_a_user() {
    let mut env = with_policies(&[
        ("demo", json!({labels::UPGRADE_WINDOW: SATURDAY})),
        ("other", json!({})),
    ]);
    env.edit(
        "Subscription",
        "other-sub",
        &json!({"spec": {"installPlanApproval": "Manual"}}),
    );
    release(&mut env, &["demo", "other"]);
    env.advance(HOUR * 51);
    assert_open_plans(&env, &[("demo.v2,other.v2", false)]);
    assert!(
        !env.describe().contains("waiting by policy"),
        "{}",
        env.describe()
    );
    env.edit(
        "Subscription",
        "other-sub",
        &json!({"spec": {"installPlanApproval": "Automatic"}}),
    );
    env.settle();
    assert_open_plans(&env, &[("demo.v2,other.v2", true)]);
}

/// A plan that waits by policy waits for a user as soon as one Subscription is Manual without a policy.
#[test]
fn manual_counts_for_plans_that_wait_by_policy() {
    let mut env = with_policies(&[
        ("demo", json!({labels::UPGRADE_WINDOW: SATURDAY})),
        ("other", json!({})),
    ]);
    release(&mut env, &["demo"]);
    env.edit(
        "Subscription",
        "other-sub",
        &json!({"spec": {"installPlanApproval": "Manual"}}),
    );
    env.advance(HOUR * 51);
    assert_open_plans(&env, &[("demo.v2", false)]);
}

#[test]
fn with_separate_approval_manual_is_about_ones_own_plans() {
    let mut env = with_policies(&[("demo", json!({})), ("other", json!({})), ("third", json!({}))]);
    env.edit(
        "OperatorGroup",
        "og",
        &json!({"metadata": {"annotations": {labels::SEPARATE_APPROVAL: "true"}}}),
    );
    env.edit(
        "Subscription",
        "other-sub",
        &json!({"spec": {"installPlanApproval": "Manual"}}),
    );
    release(&mut env, &["demo", "other", "third"]);
    assert_open_plans(&env, &[("demo.v2,third.v2", true), ("other.v2", false)]);
}

/// Until the annotation is changed. It makes no difference if the failed version works meanwhile.
#[test]
fn after_a_failure_nothing_is_approved_by_itself() {
    for failed in [true, false] {
        let mut env = with_policies(&[("demo", json!({labels::UPGRADE_STOP_AFTER_FAILURE: "true"}))]);
        env.set_csv_phase("demo.v1", if failed { "Failed" } else { "Succeeded" });
        release(&mut env, &["demo"]);
        assert_open_plans(&env, &[("demo.v2", !failed)]);
        if !failed {
            continue;
        }
        assert!(
            env.describe()
                .contains("waiting by policy: the last upgrade failed"),
            "{}",
            env.describe()
        );
        env.set_csv_phase("demo.v1", "Succeeded");
        env.settle();
        assert_open_plans(&env, &[("demo.v2", false)]);
        annotate(
            &env,
            "demo",
            &json!({labels::UPGRADE_STOP_AFTER_FAILURE: "false"}),
        );
        env.settle();
        assert_open_plans(&env, &[("demo.v2", true)]);
    }
}

/// An installation in progress, also a repeated one, may still fail. After it has succeeded, no user is needed.
#[test]
fn an_upgrade_waits_for_the_outcome_of_the_one_before() {
    for phase in ["", "Pending", "InstallReady", "Installing", "Unknown"] {
        let mut env = with_policies(&[("demo", json!({labels::UPGRADE_STOP_AFTER_FAILURE: "true"}))]);
        env.set_csv_phase("demo.v1", phase);
        release(&mut env, &["demo"]);
        assert_open_plans(&env, &[("demo.v2", false)]);
        let told = env.describe();
        assert!(
            told.contains("waiting by policy: demo.v1 has not succeeded yet"),
            "{told}"
        );
        env.set_csv_phase("demo.v1", "Succeeded");
        env.settle();
        assert_open_plans(&env, &[("demo.v2", true)]);
    }
}

#[test]
fn a_failed_plan_stops_the_next_one() {
    let mut env = with_policies(&[
        ("demo", json!({labels::UPGRADE_STOP_AFTER_FAILURE: "true"})),
        ("other", json!({})),
    ]);
    env.edit(
        "OperatorGroup",
        "og",
        &json!({"spec": {"upgradeStrategy": "TechPreviewUnsafeFailForward"}}),
    );
    release(&mut env, &["demo", "other"]);
    assert_open_plans(&env, &[("other.v2", true), ("demo.v2", true)]);
    let name = env.plans()[2].metadata.name.clone().unwrap();
    env.carry_out_plans();
    env.set_phase(&name, "Failed");
    let rows = [
        bundle("demo.v1"),
        bundle("demo.v3").replaces("demo.v1").skip_range("<3.0.0"),
        bundle("other.v2"),
        bundle("other.v3").replaces("other.v2"),
    ];
    env.serve(NAMESPACE, "cat", rows);
    env.settle();
    assert_open_plans(&env, &[("other.v3", true), ("demo.v3", false)]);
}

#[test]
fn a_hold_keeps_versions_out_of_plans() {
    let mut env = with_policies(&[
        ("demo", json!({labels::UPGRADE_HOLD: "<2.0.0"})),
        ("other", json!({})),
    ]);
    release(&mut env, &["demo", "other"]);
    assert_open_plans(&env, &[("other.v2", true)]);
    assert!(
        env.describe()
            .contains("demo-sub: state=AtLatestKnown installed=demo.v1"),
        "{}",
        env.describe()
    );
    annotate(&env, "demo", &json!({labels::UPGRADE_HOLD: "<3.0.0"}));
    env.settle();
    assert_open_plans(&env, &[("other.v2", true), ("demo.v2", true)]);
}

/// The plan is older than the hold; it is deleted, because its version is not wanted any more.
#[test]
fn a_hold_counts_for_plans_that_wait_by_policy() {
    let mut env = with_policies(&[("demo", json!({labels::UPGRADE_WINDOW: SATURDAY}))]);
    release(&mut env, &["demo"]);
    annotate(&env, "demo", &json!({labels::UPGRADE_HOLD: "<2.0.0"}));
    env.advance(HOUR * 51);
    assert_open_plans(&env, &[]);
    annotate(&env, "demo", &json!({labels::UPGRADE_HOLD: null}));
    env.settle();
    assert_open_plans(&env, &[("demo.v2", true)]);
}

/// Such a plan may be older than the hold.
#[test]
fn a_hold_counts_for_plans_that_waited_for_a_user() {
    let mut env = with_policies(&[("demo", json!({}))]);
    env.edit("Subscription", "demo-sub", &by_hand());
    release(&mut env, &["demo"]);
    assert_open_plans(&env, &[("demo.v2", false)]);
    let policy = json!({labels::UPGRADE_HOLD: "<2.0.0", labels::UPGRADE_STOP_AFTER_FAILURE: "true"});
    annotate(&env, "demo", &policy);
    env.advance(HOUR);
    assert_open_plans(&env, &[]);
}

/// The version of a deleted Subscription is not installed, and blocks no plan.
#[test]
fn a_plan_with_the_version_of_a_deleted_subscription_is_replaced() {
    let mut env = with_policies(&[
        ("demo", json!({labels::UPGRADE_APPROVE: "all"})),
        ("upper", json!({})),
    ]);
    env.edit("Subscription", "upper-sub", &by_hand());
    release(&mut env, &["demo", "upper"]);
    assert_open_plans(&env, &[("demo.v2,upper.v2", false)]);
    env.delete("Subscription", "upper-sub");
    env.advance(HOUR);
    assert_open_plans(&env, &[("demo.v2", true)]);
}

fn by_hand() -> Value {
    json!({"spec": {"installPlanApproval": "Manual"}})
}

/// An invalid annotation makes the plan wait, and is reported once.
#[test]
fn a_policy_that_cannot_be_read_is_reported_and_waits() {
    for key in [
        labels::UPGRADE_APPROVE,
        labels::UPGRADE_WINDOW,
        labels::UPGRADE_STOP_AFTER_FAILURE,
    ] {
        let mut env = with_policies(&[("demo", json!({key: "soon"}))]);
        release(&mut env, &["demo"]);
        env.advance(HOUR * 26);
        assert_eq!(open_plans(&env), plans(&[("demo.v2", false)]), "{key}");
        let told = env.describe();
        assert!(
            told.contains("waiting by policy: the annotation is invalid"),
            "{told}"
        );
        let events = env
            .events
            .iter()
            .filter(|event| event["reason"] == UPGRADE_POLICY_INVALID);
        let events: Vec<&Value> = events.collect();
        assert_eq!(events.len(), 1, "{events:#?}");
        assert!(
            events[0]["note"]
                .as_str()
                .or(events[0]["message"].as_str())
                .unwrap()
                .contains(key)
        );
    }
}

/// An Automatic Subscription needs no approval, and an event says that its policy has no effect.
#[test]
fn a_policy_of_an_automatic_subscription_has_no_effect() {
    let mut env = with_policies(&[("demo", json!({}))]);
    let window = json!({"metadata": {"annotations": {labels::UPGRADE_WINDOW: SATURDAY}}});
    env.edit("Subscription", "demo-sub", &window);
    release(&mut env, &["demo"]);
    assert_open_plans(&env, &[("demo.v2", true)]);
    let events = env
        .events
        .iter()
        .filter(|event| event["reason"] == UPGRADE_POLICY_INVALID);
    let texts: Vec<&str> = events.map(|event| event["note"].as_str().unwrap()).collect();
    let text = "Subscription demo-sub: annotation operatorframework.io/upgrade-window has no effect: upgrade policies need installPlanApproval: Manual";
    assert_eq!(texts, [text]);
}

/// After a crash at any write each policy has one plan, and only permitted plans are approved.
#[test]
fn a_crash_after_any_write_leads_to_the_same_plans() {
    fn run(crash_after: Option<usize>) -> (Vec<(String, bool)>, usize) {
        let mut env = with_policies(&[
            ("demo", json!({labels::UPGRADE_WINDOW: SATURDAY})),
            ("other", json!({})),
        ]);
        let before = env.writes.len();
        env.crash_after = crash_after.map(|writes| before + writes);
        release(&mut env, &["demo", "other"]);
        env.restart();
        env.advance(HOUR);
        (open_plans(&env), env.writes.len() - before)
    }
    let (reference, writes) = run(None);
    assert_eq!(reference, plans(&[("other.v2", true), ("demo.v2", false)]));
    for crash in 1..=writes {
        assert_eq!(run(Some(crash)).0, reference, "after {crash} writes");
    }
}

/// Each when its turn comes, and all have their plans in the end.
#[test]
fn refused_plans_are_reported_on_their_subscriptions() {
    let mut env = with_policies(&[
        ("demo", json!({labels::UPGRADE_WINDOW: SATURDAY})),
        ("other", json!({})),
    ]);
    env.refuse = Some("installplans.operators.coreos.com is forbidden".to_owned());
    env.settle();
    release(&mut env, &["demo", "other"]);
    env.advance(Duration::from_secs(60));
    let told = env.describe();
    assert_eq!(told.matches("EnsureInstallPlanFailed").count(), 2, "{told}");
    env.refuse = None;
    env.advance(Duration::from_secs(600));
    let told = env.describe();
    assert!(!told.contains("EnsureInstallPlanFailed"), "{told}");
    let mut made = open_plans(&env);
    made.sort();
    assert_eq!(made, plans(&[("demo.v2", false), ("other.v2", true)]), "{told}");
}

/// With two groups the namespace's settings are unknown. The reason why the plan waits is another one.
#[test]
fn what_is_wrong_with_the_namespace_approves_nothing() {
    let mut env = with_policies(&[("demo", json!({labels::UPGRADE_APPROVE: "patch"}))]);
    release(&mut env, &["demo"]);
    env.add_group("another", &json!({}), &json!({}));
    env.advance(HOUR);
    let told = env.describe();
    assert!(told.contains("ResolutionFailed=True"), "{told}");
    assert_eq!(open_plans(&env), plans(&[("demo.v2", false)]), "{told}");
    assert!(told.contains("waiting by policy"), "{told}");
}

/// As after a machine has been suspended. Nothing else triggers a reconcile.
#[test]
fn a_clock_that_is_put_forward_is_noticed() {
    let mut env = with_policies(&[("demo", json!({labels::UPGRADE_WINDOW: SATURDAY}))]);
    release(&mut env, &["demo"]);
    env.put_clock(51);
    env.settle();
    assert_open_plans(&env, &[("demo.v2", false)]);
    env.advance(Duration::from_secs(600));
    assert_open_plans(&env, &[("demo.v2", true)]);
}

/// It waits for the window as the clock shows it then.
#[test]
fn a_clock_that_is_put_back_opens_no_window() {
    let mut env = with_policies(&[("demo", json!({labels::UPGRADE_WINDOW: SATURDAY}))]);
    release(&mut env, &["demo"]);
    env.put_clock(-24);
    env.advance(HOUR * 51);
    assert_open_plans(&env, &[("demo.v2", false)]);
    env.advance(HOUR * 24);
    assert_open_plans(&env, &[("demo.v2", true)]);
}

/// Deleting the plan creates another one, and does not bypass the stop while the failed version exists.
#[test]
fn the_plan_after_a_deleted_one_waits_for_the_failure_too() {
    let mut env = with_policies(&[("demo", json!({labels::UPGRADE_STOP_AFTER_FAILURE: "true"}))]);
    env.set_csv_phase("demo.v1", "Failed");
    release(&mut env, &["demo"]);
    let name = env.plans()[1].metadata.name.clone().unwrap();
    env.delete("InstallPlan", &name);
    env.settle();
    assert_open_plans(&env, &[("demo.v2", false)]);
}

/// Only the beginning of a long annotation is kept.
#[test]
fn an_annotation_that_is_too_long_is_reported_and_waits() {
    let long = format!("Sat 02:00 4h {}", "x".repeat(200_000));
    let mut env = with_policies(&[("demo", json!({labels::UPGRADE_WINDOW: long}))]);
    release(&mut env, &["demo"]);
    let told = env.describe();
    assert_eq!(open_plans(&env), plans(&[("demo.v2", false)]), "{told}");
    assert!(told.contains("longer than 256 bytes"), "{told}");
    assert!(told.len() < 4000, "{told}");
}
