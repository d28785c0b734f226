//! One plan for one solution, after any interruption, refusal or removal.

use std::collections::BTreeSet;

use super::*;
use crate::resolution::plan_object::plan_name;

/// Scripts and people remember a plan by its name.
#[test]
fn an_operator_that_is_installed_again_gets_a_plan_of_another_name() {
    let mut env = TestEnv::with_catalog(vec![bundle("demo.v1")]);
    let mut names = BTreeSet::new();
    for _ in 0..2 {
        env.subscribe("demo", &json!({"installPlanApproval": "Manual"}));
        env.settle();
        let plan = env.plans().remove(0);
        assert_eq!(plan.spec.generation, Some(1));
        let name = plan.metadata.name.unwrap();
        env.delete("InstallPlan", &name);
        env.delete("Subscription", "demo-sub");
        env.settle();
        names.insert(name);
    }
    assert_eq!(names.len(), 2, "{names:?}");
}

/// Stopped after every write in turn, and once more after the next one, there is one plan in the end, and the result is the same as
/// without interruptions.
#[test]
fn a_crash_after_any_write_leads_to_the_same_end_with_one_plan() {
    fn run(crash_after: Option<usize>) -> (TestEnv, String) {
        let bundles = vec![bundle("demo.v1"), bundle("other.v1")];
        let mut env = TestEnv::with_catalog(bundles);
        env.subscribe("demo", &json!({}));
        env.subscribe("other", &json!({}));
        env.crash_after = crash_after;
        env.settle();
        env.restart();
        env.settle();
        env.carry_out_plans();
        env.settle();
        let end = env.describe();
        (env, end)
    }
    let (reference, end) = run(None);
    let writes = reference.writes.len();
    assert_eq!(reference.plans().len(), 1, "{end}");
    for crash in 0..=writes {
        let (env, same) = run(Some(crash));
        assert_eq!(same, end, "after {crash} writes: {:#?}", env.writes);
        assert!(
            env.writes.len() <= writes + 1,
            "after {crash} writes: {:#?}",
            env.writes
        );
    }
}

/// The API server created the plan, its response was lost and its event is late. There is no second plan, even if another solution
/// is wanted meanwhile.
#[test]
fn a_lost_answer_and_a_late_event_make_no_second_plan() {
    for (changed, restarted) in [(false, false), (true, false), (false, true), (true, true)] {
        let mut env = TestEnv::with_catalog(vec![bundle("demo.v1"), bundle("other.v1")]);
        env.subscribe("demo", &json!({}));
        env.lose_answers = true;
        env.settle();
        if restarted {
            env.restart();
        }
        if changed {
            env.subscribe("other", &json!({}));
        }
        env.settle();
        // The existing plan is read, so neither process needs the watch to continue.
        let creations = env.writes.iter().filter(|write| write.starts_with("create"));
        assert_eq!(creations.count(), 1 + usize::from(changed), "{:#?}", env.writes);
        env.deliver_late_event();
        env.advance(Duration::from_secs(60));
        let told = env.describe();
        // The plan of the first solution is adopted, and the later one gets its own plan.
        assert_eq!(env.plans().len(), 1 + usize::from(changed), "{told}");
        assert!(
            told.contains("plan gen=1 Automatic approved=true demo.v1: Installing"),
            "{told}"
        );
        assert_eq!(
            told.matches("state=UpgradePending").count(),
            1 + usize::from(changed),
            "{told}"
        );
    }
}

/// A user has an InstallPlan of the very name that the next one gets.
#[test]
fn a_name_that_is_taken_is_reported() {
    let mut env = TestEnv::with_catalog(vec![bundle("demo.v1")]);
    env.subscribe("demo", &json!({}));
    let uid = env.subscription("demo-sub").metadata.uid.unwrap();
    let name = plan_name(NAMESPACE, 1, &uid);
    let foreign = json!({"apiVersion": "operators.coreos.com/v1alpha1", "kind": "InstallPlan",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {"clusterServiceVersionNames": [], "approval": "Automatic", "approved": false}});
    env.put(foreign);
    env.settle();
    let told = env.describe();
    assert!(
        told.contains(&format!("{name} cannot be executed without owner references")),
        "{told}"
    );
    env.delete("InstallPlan", &name);
    env.settle();
    let told = env.describe();
    assert!(
        told.contains("plan gen=1 Automatic approved=true demo.v1: Installing"),
        "{told}"
    );
}

/// A backup brings plans back without owners, status and the start of their generated name.
#[test]
fn a_plan_that_was_restored_from_a_backup_holds_nothing_up() {
    for approval in ["Automatic", "Manual"] {
        let mut env = TestEnv::with_catalog(vec![bundle("demo.v1")]);
        let restored = |generation: i64| {
            json!({"apiVersion": "operators.coreos.com/v1alpha1", "kind": "InstallPlan",
            "metadata": {"name": plan_name(NAMESPACE, generation, "uid before"), "namespace": NAMESPACE},
            "spec": {"clusterServiceVersionNames": ["demo.v1"], "approval": approval, "approved": approval == "Automatic",
                "generation": generation}})
        };
        env.put(restored(1));
        env.put(restored(2));
        env.subscribe("demo", &json!({"installPlanApproval": approval}));
        env.settle();
        let told = env.describe();
        let expected = match approval {
            "Automatic" => "plan gen=1 Automatic approved=true demo.v1: Installing",
            _ => "plan gen=1 Manual approved=false demo.v1: RequiresApproval",
        };
        assert!(
            told.contains(expected) && !told.contains("without owner references"),
            "{told}"
        );
        let written = env.writes.len();
        env.advance(Duration::from_secs(3600));
        assert_eq!(env.writes.len(), written, "{:#?}", env.writes);
    }
}

/// Users who can write InstallPlans can claim any generation; the namespace's own plans are counted regardless of that.
#[test]
fn an_invented_generation_stops_nothing() {
    for generation in [i64::MAX, i64::MAX - 1, 7] {
        let mut env = TestEnv::with_catalog(vec![bundle("demo.v1")]);
        let foreign = json!({"apiVersion": "operators.coreos.com/v1alpha1", "kind": "InstallPlan",
            "metadata": {"name": "made-up", "namespace": NAMESPACE},
            "spec": {"clusterServiceVersionNames": [], "approval": "Manual", "approved": false, "generation": generation}});
        env.put(foreign);
        env.subscribe("demo", &json!({}));
        env.settle();
        let told = env.describe();
        assert!(
            told.contains("plan gen=1 Automatic approved=true demo.v1: Installing"),
            "{told}"
        );
    }
}

/// A plan that was created for an answer that changed before it was adopted does not stay.
#[test]
fn an_abandoned_plan_is_removed() {
    let mut env = TestEnv::with_catalog(vec![bundle("demo.v1")]);
    env.subscribe("demo", &json!({}));
    env.crash_after = Some(1);
    env.settle();
    assert!(env.plans()[0].status.is_none());
    env.restart();
    env.serve(NAMESPACE, "cat", demo());
    env.settle();
    let plans = env.plans();
    assert_eq!(plans.len(), 1, "{}", env.describe());
    assert_eq!(
        (
            plans[0].spec.generation,
            plans[0].spec.cluster_service_version_names.join(",")
        ),
        (Some(2), "demo.v3".to_owned())
    );
}

/// A plan created for fewer components than are ready now is adopted for its own; the rest gets the next plan.
#[test]
fn a_bundle_that_comes_late_does_not_cost_the_plan_of_the_others() {
    let mut env = TestEnv::with_catalog(vec![bundle("demo.v1"), bundle("other.v1")]);
    env.break_image("reg/other:v1", UnpackClass::NotFound, "no such image");
    env.subscribe("demo", &json!({}));
    env.subscribe("other", &json!({}));
    env.crash_after = Some(1);
    env.settle();
    let last = env.writes.last().unwrap();
    assert!(last.starts_with("create InstallPlan ns/install-"), "{last}");
    env.mend_images();
    env.restart();
    env.settle();
    let told = env.describe();
    assert!(
        told.contains("plan gen=1 Automatic approved=true demo.v1: Installing"),
        "{told}"
    );
    assert!(
        told.contains("plan gen=2 Automatic approved=true other.v1: Installing"),
        "{told}"
    );
    assert_eq!(env.plans().len(), 2, "{told}");
}

/// The plan is created again under another name and still requires approval.
#[test]
fn a_deleted_pending_plan_is_created_again() {
    let mut env = TestEnv::with_catalog(demo());
    env.subscribe("demo", &json!({"installPlanApproval": "Manual"}));
    env.settle();
    let first = env.plans()[0].metadata.name.clone().unwrap();
    env.delete("InstallPlan", &first);
    env.settle();
    let plans = env.plans();
    assert_ne!(plans[0].metadata.name.as_ref(), Some(&first));
    assert_eq!(
        (plans.len(), plans[0].spec.generation, plans[0].spec.approved),
        (1, Some(2), false)
    );
    assert!(
        env.describe()
            .contains("state=UpgradePending installed=- current=demo.v3 gen=2"),
        "{}",
        env.describe()
    );
}

#[test]
fn a_refused_plan_is_reported_on_its_subscriptions() {
    let mut env = TestEnv::with_catalog(vec![bundle("demo.v1"), bundle("other.v1")]);
    env.subscribe("demo", &json!({}));
    env.subscribe("other", &json!({"channel": "nope"}));
    env.refuse = Some("installplans.operators.coreos.com is forbidden".to_owned());
    env.advance(Duration::from_secs(60));
    let told = env.describe();
    assert!(told.contains("BundleUnpackFailed=True/EnsureInstallPlanFailed error ensuring InstallPlan: installplans.operators.coreos.com is forbidden"), "{told}");
    assert_eq!(told.matches("EnsureInstallPlanFailed").count(), 1, "{told}");
    assert_eq!(env.writes.len(), 2, "{:#?}", env.writes);
    env.refuse = None;
    env.advance(Duration::from_secs(600));
    assert!(
        !env.describe().contains("EnsureInstallPlanFailed"),
        "{}",
        env.describe()
    );
    assert_eq!(env.plans().len(), 1);
}

#[test]
fn a_plan_whose_status_is_refused_is_reported_and_taken_up_later() {
    let mut env = TestEnv::with_catalog(vec![bundle("demo.v1")]);
    env.subscribe("demo", &json!({}));
    env.refuse_status = Some(("InstallPlan", "Request entity too large"));
    env.advance(Duration::from_secs(60));
    let told = env.describe();
    assert!(
        told.contains("EnsureInstallPlanFailed error ensuring InstallPlan: Request entity too large"),
        "{told}"
    );
    assert_eq!(env.writes.len(), 2, "{:#?}", env.writes);
    env.refuse_status = None;
    env.advance(Duration::from_secs(600));
    let told = env.describe();
    assert!(
        told.contains("state=UpgradePending") && !told.contains("EnsureInstallPlanFailed"),
        "{told}"
    );
    assert_eq!(env.plans().len(), 1);
}

#[test]
fn ip_002_ip_005_a_plan_has_a_generated_name_a_generation_and_the_names_of_its_csvs() {
    let mut env = TestEnv::with_catalog(vec![bundle("demo.v1")]);
    env.subscribe("demo", &json!({}));
    env.settle();
    let plans = env.plans();
    let plan = &plans[0];
    assert_eq!(plan.metadata.generate_name.as_deref(), Some("install-"));
    let name = plan.metadata.name.as_deref().unwrap();
    let generated = name.strip_prefix("install-").unwrap();
    assert!(
        generated.len() >= 5 && generated.chars().all(|c| c.is_ascii_alphanumeric()),
        "{name}"
    );
    assert_eq!(plan.spec.generation, Some(1));
    assert_eq!(plan.spec.cluster_service_version_names[..], ["demo.v1"]);
}

#[test]
fn ip_003_one_manual_subscription_makes_every_plan_manual() {
    let mut env = TestEnv::with_catalog(vec![bundle("demo.v1"), bundle("other.v1")]);
    env.subscribe("demo", &json!({}));
    env.subscribe(
        "other",
        &json!({"installPlanApproval": "Manual", "channel": "nope"}),
    );
    env.settle();
    assert!(
        env.describe()
            .contains("plan gen=1 Manual approved=false demo.v1: RequiresApproval"),
        "{}",
        env.describe()
    );
}
