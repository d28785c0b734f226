//! One plan for one answer, whatever is interrupted, refused or removed.

use super::*;

/// Cases 5 and 30: stopped after every write in turn, and once more after the next, there is one plan in the end,
/// and everything is as without.
#[test]
fn a_crash_after_any_write_leads_to_the_same_end_with_one_plan() {
    fn run(crash_after: Option<usize>) -> (World, String) {
        let bundles = vec![bundle("demo.v1"), bundle("other.v1")];
        let mut world = World::with_catalog(bundles);
        world.subscribe("demo", &json!({}));
        world.subscribe("other", &json!({}));
        world.crash_after = crash_after;
        world.settle();
        world.restart();
        world.settle();
        world.carry_out_plans();
        world.settle();
        let end = world
            .describe()
            .replace("CatalogSourcesAdded", "AllCatalogSourcesHealthy");
        (world, end)
    }
    let (reference, end) = run(None);
    let writes = reference.writes.len();
    assert_eq!(reference.plans().len(), 1, "{end}");
    for crash in 0..=writes {
        let (world, same) = run(Some(crash));
        assert_eq!(same, end, "after {crash} writes: {:#?}", world.writes);
        assert!(
            world.writes.len() <= writes + 1,
            "after {crash} writes: {:#?}",
            world.writes
        );
    }
}

/// The API server made the plan, its answer was lost and its event is late: whatever else happens meanwhile, also that
/// something else is wanted, there is no second plan.
#[test]
fn a_lost_answer_and_a_late_event_make_no_second_plan() {
    for (changed, restarted) in [(false, false), (true, false), (false, true), (true, true)] {
        let mut world = World::with_catalog(vec![bundle("demo.v1"), bundle("other.v1")]);
        world.subscribe("demo", &json!({}));
        world.lose_answers = true;
        world.settle();
        if restarted {
            world.restart();
        }
        if changed {
            world.subscribe("other", &json!({}));
        }
        world.settle();
        // What is found in the place of the plan is read, so neither process needs the watch to go on.
        let creations = world.writes.iter().filter(|write| write.starts_with("create"));
        assert_eq!(creations.count(), 1 + usize::from(changed), "{:#?}", world.writes);
        world.deliver_late_event();
        world.advance(Duration::from_secs(60));
        let told = world.describe();
        // What was wanted first is taken up, what came later gets a plan of its own.
        assert_eq!(world.plans().len(), 1 + usize::from(changed), "{told}");
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

/// Somebody has an InstallPlan of the very name that the next one gets.
#[test]
fn a_name_that_is_taken_holds_nothing_up() {
    let mut world = World::with_catalog(vec![bundle("demo.v1")]);
    let name = crate::resolution::plan_object::plan_name(NAMESPACE, 1);
    let foreign = json!({"apiVersion": "operators.coreos.com/v1alpha1", "kind": "InstallPlan",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {"clusterServiceVersionNames": [], "approval": "Automatic", "approved": false}});
    world.put(foreign);
    world.subscribe("demo", &json!({}));
    world.settle();
    let told = world.describe();
    assert!(
        told.contains("plan gen=2 Automatic approved=true demo.v1: Installing"),
        "{told}"
    );
}

/// Whoever may write InstallPlans can claim any generation; the namespace's own plans are counted as if it had not.
#[test]
fn a_generation_that_somebody_made_up_stops_nothing() {
    for generation in [i64::MAX, i64::MAX - 1, 7] {
        let mut world = World::with_catalog(vec![bundle("demo.v1")]);
        let foreign = json!({"apiVersion": "operators.coreos.com/v1alpha1", "kind": "InstallPlan",
            "metadata": {"name": "made-up", "namespace": NAMESPACE},
            "spec": {"clusterServiceVersionNames": [], "approval": "Manual", "approved": false, "generation": generation}});
        world.put(foreign);
        world.subscribe("demo", &json!({}));
        world.settle();
        let told = world.describe();
        assert!(
            told.contains("plan gen=1 Automatic approved=true demo.v1: Installing"),
            "{told}"
        );
    }
}

/// The same with the very Subscription as its owner: numbers that counting does not lead to are not counted on from, and a
/// plan with one is none of the namespace's own, even if it is for what is wanted.
#[test]
fn a_generation_that_somebody_made_up_in_our_name_stops_nothing() {
    let rows = [
        ("demo.v1", i64::MAX, 1),
        ("demo.v1", i64::MAX - 1, 1),
        ("demo.v1", 1 << 53, 1),
        ("demo.v1", -1, 1),
        ("other.v1", i64::MAX, 1),
        ("other.v1", 7, 8),
    ];
    for (csv, generation, next) in rows {
        let mut world = World::with_catalog(vec![bundle("demo.v1")]);
        world.subscribe("demo", &json!({}));
        let owner = world.subscription("demo-sub").metadata;
        world.put(json!({"apiVersion": "operators.coreos.com/v1alpha1", "kind": "InstallPlan",
            "metadata": {"name": "made-up", "namespace": NAMESPACE, "ownerReferences": [
                {"apiVersion": "operators.coreos.com/v1alpha1", "kind": "Subscription", "name": owner.name, "uid": owner.uid}]},
            "spec": {"clusterServiceVersionNames": [csv], "approval": "Manual", "approved": false, "generation": generation},
            "status": {"phase": "Complete", "catalogSources": []}}));
        world.settle();
        let told = world.describe();
        let expected = format!("plan gen={next} Automatic approved=true demo.v1: Installing");
        assert!(told.contains(&expected), "{csv} {generation}: {told}");
    }
}

/// A plan that was created for an answer that changed before it was adopted does not stay.
#[test]
fn an_abandoned_plan_is_removed() {
    let mut world = World::with_catalog(vec![bundle("demo.v1")]);
    world.subscribe("demo", &json!({}));
    world.crash_after = Some(1);
    world.settle();
    assert!(world.plans()[0].status.is_none());
    world.restart();
    world.serve(NAMESPACE, "cat", demo());
    world.settle();
    let plans = world.plans();
    assert_eq!(plans.len(), 1, "{}", world.describe());
    assert_eq!(
        (
            plans[0].spec.generation,
            plans[0].spec.cluster_service_version_names.join(",")
        ),
        (Some(2), "demo.v3".to_owned())
    );
}

/// A plan that was created for less than is ready now is taken up for what it was made for; the rest gets the next one.
#[test]
fn a_bundle_that_comes_late_does_not_cost_the_plan_of_the_others() {
    let mut world = World::with_catalog(vec![bundle("demo.v1"), bundle("other.v1")]);
    world.break_image("reg/other:v1", UnpackClass::NotFound, "no such image");
    world.subscribe("demo", &json!({}));
    world.subscribe("other", &json!({}));
    world.crash_after = Some(1);
    world.settle();
    let last = world.writes.last().unwrap();
    assert!(last.starts_with("create InstallPlan ns/install-"), "{last}");
    world.mend_images();
    world.restart();
    world.settle();
    let told = world.describe();
    assert!(
        told.contains("plan gen=1 Automatic approved=true demo.v1: Installing"),
        "{told}"
    );
    assert!(
        told.contains("plan gen=2 Automatic approved=true other.v1: Installing"),
        "{told}"
    );
    assert_eq!(world.plans().len(), 2, "{told}");
}

/// Case 17: the plan is made anew under another name and still asks for approval.
#[test]
fn a_deleted_pending_plan_is_made_anew() {
    let mut world = World::with_catalog(demo());
    world.subscribe("demo", &json!({"installPlanApproval": "Manual"}));
    world.settle();
    let first = world.plans()[0].metadata.name.clone().unwrap();
    world.delete("InstallPlan", &first);
    world.settle();
    let plans = world.plans();
    assert_ne!(plans[0].metadata.name.as_ref(), Some(&first));
    assert_eq!(
        (plans.len(), plans[0].spec.generation, plans[0].spec.approved),
        (1, Some(2), false)
    );
    assert!(
        world
            .describe()
            .contains("state=UpgradePending installed=- current=demo.v3 gen=2"),
        "{}",
        world.describe()
    );
}

/// Case 7.
#[test]
fn a_refused_plan_is_told_to_those_it_was_for() {
    let mut world = World::with_catalog(vec![bundle("demo.v1"), bundle("other.v1")]);
    world.subscribe("demo", &json!({}));
    world.subscribe("other", &json!({"channel": "nope"}));
    world.refuse = Some("installplans.operators.coreos.com is forbidden".to_owned());
    world.advance(Duration::from_secs(60));
    let told = world.describe();
    assert!(told.contains("BundleUnpackFailed=True/EnsureInstallPlanFailed error ensuring InstallPlan: installplans.operators.coreos.com is forbidden"), "{told}");
    assert_eq!(told.matches("EnsureInstallPlanFailed").count(), 1, "{told}");
    assert_eq!(world.writes.len(), 2, "{:#?}", world.writes);
    world.refuse = None;
    world.advance(Duration::from_secs(600));
    assert!(
        !world.describe().contains("EnsureInstallPlanFailed"),
        "{}",
        world.describe()
    );
    assert_eq!(world.plans().len(), 1);
}

#[test]
fn a_plan_whose_status_is_refused_is_told_and_taken_up_later() {
    let mut world = World::with_catalog(vec![bundle("demo.v1")]);
    world.subscribe("demo", &json!({}));
    world.refuse_status = Some("Request entity too large".to_owned());
    world.advance(Duration::from_secs(60));
    let told = world.describe();
    assert!(
        told.contains("EnsureInstallPlanFailed error ensuring InstallPlan: Request entity too large"),
        "{told}"
    );
    assert_eq!(world.writes.len(), 2, "{:#?}", world.writes);
    world.refuse_status = None;
    world.advance(Duration::from_secs(600));
    let told = world.describe();
    assert!(
        told.contains("state=UpgradePending") && !told.contains("EnsureInstallPlanFailed"),
        "{told}"
    );
    assert_eq!(world.plans().len(), 1);
}

/// Case 32.
#[test]
fn one_manual_subscription_makes_every_plan_manual() {
    let mut world = World::with_catalog(vec![bundle("demo.v1"), bundle("other.v1")]);
    world.subscribe("demo", &json!({}));
    world.subscribe(
        "other",
        &json!({"installPlanApproval": "Manual", "channel": "nope"}),
    );
    world.settle();
    assert!(
        world
            .describe()
            .contains("plan gen=1 Manual approved=false demo.v1: RequiresApproval"),
        "{}",
        world.describe()
    );
}
