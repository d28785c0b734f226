//! The previews of plans that wait, where something is in their way.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use olm_testing::cluster::{Fault, Refusal};

use super::*;

fn preview(plan: &Value) -> Option<PlanPreview> {
    PlanPreview::from_annotation(plan["metadata"]["annotations"][labels::PLAN_PREVIEW].as_str()?)
}

/// Counts the previews that are written, each of which comes to `fault`.
fn count_previews(env: &TestEnv, fault: fn() -> Option<Fault>) -> Arc<AtomicUsize> {
    let count = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&count);
    env.cluster.on_request(move |request| {
        let is_preview = request.verb.writes() && request.text().contains("install-plan-preview");
        counted.fetch_add(usize::from(is_preview), Ordering::Relaxed);
        is_preview.then(fault).flatten()
    });
    count
}

fn wait(env: &mut TestEnv) {
    tell(
        env,
        &[Serve(first()), Put(catalog()), Put(subscription("Manual"))],
    );
    assert_eq!(env.only("InstallPlan")["status"]["phase"], "RequiresApproval");
}

/// A cluster that does not respond delays the preview alone, and for no longer than its time limit.
#[test]
fn no_plan_waits_for_its_preview() {
    let mut env = TestEnv::new();
    env.cluster.on_request(|request| {
        let is_look = request.subject().starts_with("ServiceAccount ns/demo");
        is_look.then_some(Fault::Hang)
    });
    wait(&mut env);
    env.settle_for(10);
    let told = preview(&env.only("InstallPlan")).unwrap();
    assert_eq!(told.unknown, ["reading the cluster timed out after 5 s"]);
    assert_eq!(told.operators[0].name, "demo.v1");
}

/// The plan waits, and is approved, as without.
#[test]
fn a_preview_that_is_refused_stops_nothing() {
    let mut env = TestEnv::new();
    let previews = count_previews(&env, || Some(Fault::Refuse(Refusal::forbidden("no"))));
    wait(&mut env);
    env.settle_for(3600);
    assert_eq!(preview(&env.only("InstallPlan")), None);
    let tried = previews.load(Ordering::Relaxed);
    assert!(
        (1..=80).contains(&tried),
        "once a minute in the long run: {tried}"
    );
    tell(&mut env, &[Approve]);
    assert_eq!(env.only("InstallPlan")["status"]["phase"], "Complete");
}

/// A webhook knows better which annotations plans have.
#[test]
fn a_preview_that_is_taken_away_is_not_written_again_and_again() {
    let mut env = TestEnv::new();
    env.cluster.set_webhook(|object| {
        if let Some(annotations) = object.pointer_mut("/metadata/annotations")
            && let Some(annotations) = annotations.as_object_mut()
        {
            annotations.remove(labels::PLAN_PREVIEW);
        }
    });
    let previews = count_previews(&env, || None);
    wait(&mut env);
    env.settle_for(3600);
    assert_eq!(preview(&env.only("InstallPlan")), None);
    let tried = previews.load(Ordering::Relaxed);
    assert!((1..=3).contains(&tried), "{tried}");
}

/// The next process fetches the bundle first.
#[test]
fn a_plan_that_another_process_made_has_its_preview_from_this_one() {
    let mut env = TestEnv::new();
    let previews = count_previews(&env, || Some(Fault::Refuse(Refusal::forbidden("no"))));
    wait(&mut env);
    assert!(previews.load(Ordering::Relaxed) > 0);
    env.stage.kill();
    env.cluster.clear_hooks();
    env.settle_for(60);
    let told = preview(&env.only("InstallPlan")).unwrap();
    assert_eq!(told.unknown, Vec::<String>::new());
    assert!(!told.objects.is_empty() && !told.made_at.is_empty(), "{told:?}");
}
