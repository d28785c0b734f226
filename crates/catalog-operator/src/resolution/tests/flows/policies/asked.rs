//! A waiting plan contains what its Subscriptions request, and their catalogs offer, when it begins.

use super::*;

/// Two days and three hours: within the window.
const WITHIN: Duration = Duration::from_secs(51 * 3600);

/// A plan for `demo.v2` waits for the window, in a namespace of its own or beside a Subscription that waits for nothing.
fn waiting(beside: bool) -> TestEnv {
    let idle = [("idle", json!({}))];
    let policies = [("demo", json!({labels::UPGRADE_WINDOW: SATURDAY}))].into_iter();
    let policies: Vec<_> = policies.chain(idle.into_iter().filter(|_| beside)).collect();
    let mut env = with_policies(&policies);
    serve(
        &mut env,
        &[bundle("demo.v1"), bundle("demo.v2").replaces("demo.v1")],
    );
    assert_open_plans(&env, &[("demo.v2", false)]);
    env
}

fn serve(env: &mut TestEnv, rows: &[super::super::super::test_env::BundleRow]) {
    let lts = [bundle("demo.v1").channel("lts", false), bundle("idle.v1")];
    let fast = [
        bundle("demo.v1").channel("fast", false),
        bundle("demo.v3").channel("fast", false).replaces("demo.v1"),
    ];
    let rows = rows.iter().cloned().chain(lts).chain(fast);
    env.serve(NAMESPACE, "cat", rows.collect::<Vec<_>>());
    env.settle();
}

#[track_caller]
fn assert_nothing_is_approved(env: &mut TestEnv) {
    env.advance(WITHIN);
    let approved = open_plans(env).into_iter().filter(|(_, approved)| *approved);
    assert_eq!(approved.collect::<Vec<_>>(), [], "{}", env.describe());
    assert_at_rest(env);
}

#[track_caller]
fn assert_at_rest(env: &mut TestEnv) {
    let written = env.writes.len();
    env.round();
    env.round();
    assert_eq!(env.writes.len(), written, "{:#?}", env.writes);
}

/// The plan itself is no evidence: it shows what was requested when it was created.
#[test]
fn what_a_subscription_asks_for_no_more_is_not_installed() {
    let to = |field: &str, value: &str| json!({"spec": {field: value}});
    let lifted =
        json!({"spec": {"channel": "lts"}, "metadata": {"annotations": {labels::UPGRADE_WINDOW: null}}});
    for edit in [
        to("channel", "lts"),
        to("channel", "nope"),
        to("name", "another"),
        to("source", "another"),
        lifted,
    ] {
        for beside in [false, true] {
            let mut env = waiting(beside);
            env.edit("Subscription", "demo-sub", &edit);
            assert_nothing_is_approved(&mut env);
        }
    }
}

/// As a release that turned out to be bad.
#[test]
fn a_version_that_is_recalled_while_it_waits_is_not_installed() {
    for beside in [false, true] {
        let mut env = waiting(beside);
        serve(&mut env, &[bundle("demo.v1")]);
        assert_nothing_is_approved(&mut env);
        assert_open_plans(&env, &[]);
        let told = env.describe();
        assert!(
            told.contains("demo-sub: state=AtLatestKnown installed=demo.v1 current=demo.v1"),
            "{told}"
        );
    }
}

#[test]
fn a_waiting_subscription_with_another_channel_gets_that_channels_version() {
    for beside in [false, true] {
        let mut env = waiting(beside);
        env.edit("Subscription", "demo-sub", &json!({"spec": {"channel": "fast"}}));
        env.settle();
        assert_open_plans(&env, &[("demo.v3", false)]);
        env.advance(WITHIN);
        assert_open_plans(&env, &[("demo.v3", true)]);
    }
}

/// With and without another Subscription in the namespace.
#[test]
fn a_plan_that_waits_follows_what_is_published() {
    let mut env = waiting(false);
    let demo = |name, replaced| bundle(name).replaces(replaced).skip_range("<9.0.0");
    let rows = [
        bundle("demo.v1"),
        demo("demo.v2", "demo.v1"),
        demo("demo.v4", "demo.v2"),
    ];
    serve(&mut env, &rows);
    assert_open_plans(&env, &[("demo.v4", false)]);
    assert_at_rest(&mut env);
    env.advance(WITHIN);
    assert_open_plans(&env, &[("demo.v4", true)]);
}

/// Nothing is installed from a catalog that is not READY, because the current content of its server is unknown. The plan stays.
#[test]
fn while_its_catalog_is_away_a_plan_waits() {
    for beside in [false, true] {
        let mut env = waiting(beside);
        let state = |state: &str| json!({"status": {"connectionState": {"lastObservedState": state}}});
        env.edit("CatalogSource", "cat", &state("TRANSIENT_FAILURE"));
        assert_nothing_is_approved(&mut env);
        assert_open_plans(&env, &[("demo.v2", false)]);
        let told = env.describe();
        assert!(
            told.contains("waiting by policy: Subscription demo-sub cannot be resolved"),
            "{told}"
        );
        env.edit("CatalogSource", "cat", &state("READY"));
        env.settle();
        assert_open_plans(&env, &[("demo.v2", true)]);
    }
}

/// The dependency has no Subscription that requests it: the waiting ones do.
#[test]
fn a_dependency_that_is_recalled_while_it_waits_is_not_installed() {
    let upper = || bundle("upper.v1").requires("A");
    let mut env = TestEnv::with_catalog([upper(), bundle("demo.v1").provides("A")]);
    env.subscribe("upper", &json!({}));
    annotate(&env, "upper", &json!({labels::UPGRADE_WINDOW: SATURDAY}));
    env.settle();
    assert_open_plans(&env, &[("demo.v1,upper.v1", false)]);
    env.serve(NAMESPACE, "cat", [upper(), bundle("other.v1").provides("A")]);
    env.settle();
    assert_open_plans(&env, &[("other.v1,upper.v1", false)]);
    assert_at_rest(&mut env);
    env.advance(WITHIN);
    assert_open_plans(&env, &[("other.v1,upper.v1", true)]);
}
