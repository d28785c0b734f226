//! What becomes of a preview while its plan waits, on a cluster in memory.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use olm_api::preview_outdated::{ObjectFate, PreviewOutdated};
use olm_testing::cluster::{Fault, Refusal};

use super::*;

/// A plan that waits, which is to make the ServiceAccount `demo`.
fn waiting() -> TestEnv {
    after(&[Serve(first()), Put(catalog()), Put(subscription("Manual"))])
}

fn account() -> Value {
    json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"namespace": "ns", "name": "demo"}})
}

fn mark(plan: &Value) -> Option<PreviewOutdated> {
    let text = plan["metadata"]["annotations"][labels::PLAN_PREVIEW_OUTDATED].as_str()?;
    Some(PreviewOutdated::from_annotation(text).unwrap())
}

/// Reads of single objects by their names, and their watches, from now on.
fn count_named_watches(env: &TestEnv) -> Arc<AtomicUsize> {
    let count = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&count);
    env.cluster.on_request(move |request| {
        let is_named = request.param("fieldSelector").contains("metadata.name=");
        counted.fetch_add(usize::from(is_named), Ordering::Relaxed);
        None
    });
    count
}

#[test]
fn a_plan_is_marked_once_when_what_it_creates_comes() {
    let mut env = waiting();
    assert_eq!(mark(&env.only("InstallPlan")), None);
    env.put(account());
    env.settle_for(5);
    let plan = env.only("InstallPlan");
    let found = mark(&plan).unwrap();
    assert_eq!((found.objects.len(), found.omitted), (1, 0), "{found:?}");
    assert_eq!(
        (found.objects[0].change, found.objects[0].kind.as_str()),
        (ObjectFate::Came, "ServiceAccount")
    );
    assert!(
        plan["metadata"]["annotations"][labels::PLAN_PREVIEW].is_string(),
        "what it said stays"
    );
    // Whoever goes on changes nothing any more.
    let writes = env.own_writes();
    for _ in 0..5 {
        env.delete("ServiceAccount", "demo");
        env.settle_for(5);
        env.put(account());
        env.settle_for(5);
    }
    env.settle_for(3600);
    assert_eq!(env.own_writes(), writes, "{:?}", env.writes);
    // It is approved as any other.
    tell(&mut env, &[Approve]);
    let plan = env.only("InstallPlan");
    assert_eq!(plan["status"]["phase"], "Complete");
    assert_eq!(mark(&plan), Some(found));
}

#[test]
fn a_plan_is_marked_whatever_becomes_of_watches_and_processes() {
    type Trouble = fn(&mut TestEnv);
    let troubles: [(&str, Trouble); 4] = [
        ("history is lost, and all is listed again", |env| {
            env.cluster.hold("ServiceAccount");
            env.put(account());
            env.settle();
            env.cluster.forget_history();
            env.cluster.release("ServiceAccount");
        }),
        ("the watch ends", |env| {
            env.cluster.end_watches("ServiceAccount");
            env.put(account());
        }),
        ("it comes while nobody looks", |env| {
            env.stage.kill();
            env.put(account());
        }),
        ("another process looks", |env| {
            env.stage.kill();
            env.settle_for(30);
            env.put(account());
        }),
    ];
    for (what, trouble) in troubles {
        let mut env = waiting();
        trouble(&mut env);
        env.settle_for(60);
        let found = mark(&env.only("InstallPlan"));
        assert_eq!(found.map(|found| found.objects.len()), Some(1), "{what}");
        let writes = env.own_writes();
        env.stage.kill();
        env.settle_for(600);
        // A new process writes the status of each CatalogSource once.
        let plans = env.writes[env.writes.len() - (env.own_writes() - writes)..].iter();
        assert!(
            !plans.clone().any(|write| write.contains("InstallPlan")),
            "{what}: {plans:?}"
        );
    }
}

/// What stands in an upgraded operator's way is told by its fields.
#[test]
fn a_plan_is_marked_when_what_it_changes_goes_or_is_another() {
    let upgrade = || {
        let mut env = waiting();
        tell(&mut env, &[Approve, Serve(second())]);
        let plans = env.all("InstallPlan");
        let waits = plans
            .iter()
            .filter(|plan| plan["status"]["phase"] == "RequiresApproval");
        assert_eq!(waits.clone().count(), 1);
        assert_eq!(waits.filter_map(mark).count(), 0, "nothing has changed");
        env
    };
    let marked = |env: &TestEnv| -> Vec<String> {
        let marks = env.all("InstallPlan").iter().filter_map(mark).collect::<Vec<_>>();
        let objects = marks.iter().flat_map(|mark| &mark.objects);
        objects.map(|object| object.to_string()).collect()
    };
    let mut env = upgrade();
    let plans: Vec<Value> = env.all("InstallPlan");
    let waiting = plans
        .iter()
        .find(|plan| plan["status"]["phase"] == "RequiresApproval");
    let preview = waiting.unwrap()["metadata"]["annotations"][labels::PLAN_PREVIEW].as_str();
    let preview = PlanPreview::from_annotation(preview.unwrap()).unwrap();
    let changed = preview.objects.iter().find(|object| object.verb == Verb::Change);
    assert!(
        changed.is_some_and(|object| object.kind == "ServiceAccount"),
        "{preview:?}"
    );
    let patch = json!({"automountServiceAccountToken": false});
    env.edit("ServiceAccount", "demo", &patch);
    env.settle_for(5);
    let text = "ServiceAccount ns/demo, which it changes, is another by now (automountServiceAccountToken)";
    assert_eq!(marked(&env), [text]);
}

/// What each plan of a namespace costs: those that need no approval nothing, those that wait a watch for each object.
#[test]
fn only_plans_that_wait_are_followed_and_no_longer_than_they_do() {
    let mut env = TestEnv::new();
    let count = count_named_watches(&env);
    tell(
        &mut env,
        &[
            Serve(first()),
            Put(catalog()),
            Put(subscription("Automatic")),
            Serve(second()),
        ],
    );
    assert_eq!(env.only("ClusterServiceVersion")["metadata"]["name"], "demo.v2");
    assert_eq!(count.load(Ordering::Relaxed), 0, "nobody waits");

    let end: [fn(&mut TestEnv); 3] = [
        |env| tell(env, &[Approve]),
        |env| {
            env.put(account());
            env.settle_for(5);
        },
        |env| {
            // Another would be made of it.
            env.delete("Subscription", "demo");
            let name = env.only("InstallPlan")["metadata"]["name"]
                .as_str()
                .unwrap()
                .to_owned();
            if env.get("InstallPlan", &name).is_some() {
                env.delete("InstallPlan", &name);
            }
        },
    ];
    for end in end {
        let mut env = waiting();
        let count = count_named_watches(&env);
        env.cluster.end_watches("ServiceAccount");
        env.settle_for(60);
        assert!(count.load(Ordering::Relaxed) > 0, "it is watched");
        end(&mut env);
        env.settle_for(120);
        count.store(0, Ordering::Relaxed);
        for kind in [
            "ServiceAccount",
            "Role",
            "RoleBinding",
            "ClusterRole",
            "ConfigMap",
        ] {
            env.cluster.end_watches(kind);
        }
        env.settle_for(120);
        assert_eq!(count.load(Ordering::Relaxed), 0, "nothing of it is left");
    }
}

/// Counts the marks that are asked for from now on, and has each come to `fault`.
fn count_marks(env: &TestEnv, fault: fn() -> Option<Fault>) -> Arc<AtomicUsize> {
    let count = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&count);
    env.cluster.on_request(move |request| {
        let is_mark = request.verb.writes() && request.text().contains("install-plan-preview-outdated");
        counted.fetch_add(usize::from(is_mark), Ordering::Relaxed);
        is_mark.then(fault).flatten()
    });
    count
}

/// The plan waits as before, and is not marked again and again.
#[test]
fn a_mark_that_is_refused_stops_nothing() {
    let mut env = waiting();
    let marks = count_marks(&env, || Some(Fault::Refuse(Refusal::forbidden("no"))));
    env.put(account());
    env.settle_for(300);
    assert_eq!(mark(&env.only("InstallPlan")), None);
    env.settle_for(3600);
    env.delete("ServiceAccount", "demo");
    env.settle_for(60);
    env.put(account());
    env.settle_for(60);
    assert_eq!(marks.load(Ordering::Relaxed), 1);
    tell(&mut env, &[Approve]);
    assert_eq!(env.only("InstallPlan")["status"]["phase"], "Complete");
}

/// A webhook knows better which annotations plans have.
#[test]
fn a_mark_that_is_taken_away_is_not_written_again() {
    let mut env = waiting();
    env.cluster.set_webhook(|object| {
        if let Some(annotations) = object.pointer_mut("/metadata/annotations")
            && let Some(annotations) = annotations.as_object_mut()
        {
            annotations.remove(labels::PLAN_PREVIEW_OUTDATED);
        }
    });
    let marks = count_marks(&env, || None);
    for _ in 0..5 {
        env.put(account());
        env.settle_for(60);
        env.delete("ServiceAccount", "demo");
        env.settle_for(60);
    }
    assert_eq!(mark(&env.only("InstallPlan")), None);
    assert_eq!(marks.load(Ordering::Relaxed), 1);
}
