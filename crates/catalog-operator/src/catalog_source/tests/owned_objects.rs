//! The objects of a catalog: created, corrected, replaced.

use super::pod_state::End;
use super::*;

/// Returns the pod after its containers have terminated, this many seconds after the end of its grace period.
fn ended_by_deletion(pod: &Pod, late: u64) -> Pod {
    let mut pod = with_status(pod.clone(), json!({"phase": "Succeeded"}));
    pod.metadata.deletion_timestamp = Some(Time(now() - std::time::Duration::from_secs(late)));
    pod.metadata.deletion_grace_period_seconds = Some(1);
    pod
}

/// The eviction API marks a pod as evicted and deletes it a moment later: until then it serves.
#[test]
fn a_pod_that_still_runs_is_not_deleted_by_force() {
    let pod = ended_by_deletion(&Pod::default(), 0);
    let grace = |pod: &Pod| match pod_state::end_of(pod, now()) {
        End::Deleted { grace_seconds } => Some(grace_seconds),
        End::ByItself { .. } => None,
    };
    assert_eq!(grace(&pod), None);
    assert_eq!(grace(&ended_by_deletion(&pod, 29)), None);
    assert_eq!(grace(&ended_by_deletion(&pod, 30)), Some(0));
    let mut ended = pod;
    ended.metadata.deletion_timestamp = None;
    assert_eq!(grace(&ended), Some(0));
    let evicted = json!({"phase": "Running", "conditions": [{"type": "DisruptionTarget", "status": "True"}]});
    assert_eq!(grace(&with_status(ended, evicted)), Some(1));
}

#[test]
fn cat_001_cat_007_cat_023_a_new_image_source_gets_its_five_objects_in_order() {
    let observed = fresh(image_source());
    insta::assert_snapshot!(plan_text(&observed), @r"
    create NetworkPolicy ns/cat.a-grpc-server
    create NetworkPolicy ns/cat.a-unpack-bundles
    create ServiceAccount ns/cat.a (keep)
    create Service ns/cat-a
    create Pod ns/cat.a-
    ");
    insta::assert_json_snapshot!(status_of(&observed), @r#"
    {
      "registryService": {
        "protocol": "grpc",
        "serviceName": "cat-a",
        "serviceNamespace": "ns",
        "port": "50051",
        "createdAt": "2026-11-20T21:28:52Z"
      },
      "connectionState": {
        "address": "cat-a.ns.svc:50051",
        "lastObservedState": "CONNECTING",
        "lastConnect": "2026-11-20T21:28:52Z"
      }
    }
    "#);
}

#[test]
fn converged_means_an_empty_plan() {
    let specs = [
        json!({"sourceType": "grpc", "image": IMAGE}),
        json!({"sourceType": "grpc", "image": IMAGE, "address": "elsewhere:1"}),
        json!({"sourceType": "grpc", "image": IMAGE, "secrets": ["a", ""]}),
        json!({"sourceType": "grpc", "image": IMAGE, "grpcPodConfig": {"extractContent": {"catalogDir": "/c"}, "memoryTarget": "5Mi"}}),
    ];
    for spec in specs {
        assert_eq!(plan_text(&converged(source(spec.clone()))), "", "{spec}");
    }
    assert_eq!(
        plan_text(&fresh(source(json!({"sourceType": "grpc", "address": "a:1"})))),
        ""
    );
}

/// A restart after any number of writes leads to the same objects.
#[test]
fn every_prefix_of_the_plan_converges() {
    let all = decide::decide(&fresh(image_source()), now()).0.actions.len();
    let made = converged(image_source());
    for done in 0..=all {
        let mut observed = fresh(image_source());
        let upto = |index: usize| done > index;
        observed.server_policy = made.server_policy.clone().filter(|_| upto(0));
        observed.unpack_policy = made.unpack_policy.clone().filter(|_| upto(1));
        observed.service_account = made.service_account.clone().filter(|_| upto(2));
        observed.service = made.service.clone().filter(|_| upto(3));
        observed.pods = if upto(4) { made.pods.clone() } else { Vec::new() };
        let plan = decide::decide(&observed, now()).0;
        assert_eq!(plan.actions.len(), all - done, "after {done} writes:\n{plan}");
    }
}

#[test]
fn the_objects_are_upstreams() {
    let source = source(json!({"sourceType": "grpc", "image": IMAGE, "secrets": ["test-secret", ""]}));
    let account = objects::build_service_account(&source);
    let owner = &account.metadata.owner_references.as_ref().unwrap()[0];
    assert_eq!(
        (owner.controller, owner.block_owner_deletion),
        (Some(true), Some(true))
    );
    assert_eq!(
        account
            .image_pull_secrets
            .unwrap()
            .iter()
            .map(|secret| secret.name.as_str())
            .collect::<Vec<_>>(),
        ["test-secret"]
    );
    let service = objects::build_service(&source);
    assert_eq!(service.metadata.name.as_deref(), Some("cat-a"));
    assert_eq!(
        service.metadata.owner_references.unwrap()[0].controller,
        Some(false)
    );
}

/// Upstream's label on the Service of its golden catalog.
#[test]
fn the_service_hash_is_upstreams() {
    let mut golden = image_source();
    golden.metadata.name = Some("cat".to_owned());
    let service = objects::build_service(&golden);
    assert_eq!(
        service.metadata.labels.unwrap()[labels::SERVICE_SPEC_HASH],
        "6eq0PqHqOP4OCC98EjWI1EyhhK0m880EIA3lob"
    );
}

#[test]
fn differences_are_corrected() {
    type Row = (&'static str, fn(&mut Observed), &'static str);
    let rows: Vec<Row> = vec![
        (
            "policy deleted",
            |o| o.server_policy = None,
            "create NetworkPolicy ns/cat.a-grpc-server\n",
        ),
        (
            "egress rule added by someone else",
            |o| {
                let mut policy = NetworkPolicy::clone(o.server_policy.as_ref().unwrap());
                policy.spec.as_mut().unwrap().egress = Some(vec![Default::default()]);
                o.server_policy = Some(Arc::new(policy));
            },
            "apply NetworkPolicy ns/cat.a-grpc-server\n",
        ),
        (
            "policy without its label",
            |o| {
                let mut policy = NetworkPolicy::clone(o.unpack_policy.as_ref().unwrap());
                policy
                    .metadata
                    .labels
                    .as_mut()
                    .unwrap()
                    .remove(labels::CATALOG_SOURCE);
                o.unpack_policy = Some(Arc::new(policy));
            },
            "apply NetworkPolicy ns/cat.a-unpack-bundles\n",
        ),
        (
            "Service with a wrong hash",
            |o| {
                let mut service = Service::clone(o.service.as_ref().unwrap());
                service
                    .metadata
                    .labels
                    .as_mut()
                    .unwrap()
                    .insert(labels::SERVICE_SPEC_HASH.to_owned(), "x".to_owned());
                o.service = Some(Arc::new(service));
            },
            "apply Service ns/cat-a\n",
        ),
        (
            "Service with another selector under the right hash",
            |o| {
                let mut service = Service::clone(o.service.as_ref().unwrap());
                service.spec.as_mut().unwrap().selector = None;
                o.service = Some(Arc::new(service));
            },
            "apply Service ns/cat-a\n",
        ),
        ("pod deleted", |o| o.pods.clear(), "create Pod ns/cat.a-\n"),
        (
            // Its node has vanished: nothing ends it, so it is not waited for.
            "pod whose deletion hangs",
            |o| {
                let mut going = Pod::clone(&o.pods[0]);
                going.metadata.deletion_timestamp = Some(Time(now()));
                o.pods = vec![Arc::new(going)];
            },
            "create Pod ns/cat.a-\n",
        ),
        (
            "pod with another image",
            |o| {
                let mut edited = Pod::clone(&o.pods[0]);
                edited.spec.as_mut().unwrap().containers[0].image = Some("other".to_owned());
                o.pods = vec![Arc::new(edited)];
            },
            "create Pod ns/cat.a-\n",
        ),
        (
            "pod that lost its label",
            |o| o.update_pods = std::mem::take(&mut o.pods),
            "create Pod ns/cat.a-\ndelete Pod ns/cat-1\n",
        ),
        (
            "pod evicted",
            |o| {
                let pod = with_status(
                    Pod::clone(&o.pods[0]),
                    json!({"conditions": [{"type": "DisruptionTarget", "status": "True"}]}),
                );
                o.pods = vec![Arc::new(pod)];
            },
            "delete Pod ns/cat-1\ncreate Pod ns/cat.a-\n",
        ),
        (
            "pod ended",
            |o| {
                let mut pod = with_status(Pod::clone(&o.pods[0]), json!({"phase": "Failed"}));
                pod.metadata.creation_timestamp = Some(Time(earlier(60)));
                o.pods = vec![Arc::new(pod)];
            },
            "delete Pod ns/cat-1\ncreate Pod ns/cat.a-\n",
        ),
        (
            // It is already being deleted.
            "pod ended because it was deleted",
            |o| o.pods = vec![Arc::new(ended_by_deletion(&o.pods[0], 0))],
            "create Pod ns/cat.a-\nagain in 30s: a pod is terminating\n",
        ),
        (
            "pod ended because it was deleted, and does not go",
            |o| o.pods = vec![Arc::new(ended_by_deletion(&o.pods[0], 30))],
            "delete Pod ns/cat-1\ncreate Pod ns/cat.a-\n",
        ),
        (
            "two pods",
            |o| {
                o.pods
                    .push(Arc::new(starting(named(Pod::clone(&o.pods[0]), "cat-0"))));
            },
            "delete Pod ns/cat-0\n",
        ),
    ];
    for (what, spoil, expected) in rows {
        let mut observed = converged(image_source());
        spoil(&mut observed);
        assert_eq!(plan_text(&observed), expected, "{what}");
    }
}

#[test]
fn cat_024_a_changed_image_is_served_before_the_old_pod_goes() {
    let old = converged(image_source()).pods;
    let next = || source(json!({"sourceType": "grpc", "image": "quay.io/x/cat:v2"}));
    let mut observed = converged(next());
    let new_pod = Pod::clone(&observed.pods[0]);
    observed.pods = old.clone();
    assert_eq!(
        plan_text(&observed),
        "create Pod ns/cat.a-\n",
        "the old pod serves on"
    );
    observed.pods = vec![
        Arc::clone(&old[0]),
        Arc::new(starting(named(new_pod.clone(), "cat-2"))),
    ];
    assert_eq!(
        decide::decide(&observed, now()).0.actions,
        [],
        "the new pod is waited for"
    );
    observed.pods = vec![Arc::clone(&old[0]), Arc::new(named(new_pod.clone(), "cat-2"))];
    assert_eq!(plan_text(&observed), "delete Pod ns/cat-1\n");
    // A pod that never served is not kept.
    observed.pods = vec![Arc::new(waiting(Pod::clone(&old[0]), "ErrImagePull", "no"))];
    assert_eq!(
        plan_text(&observed),
        "delete Pod ns/cat-1\ncreate Pod ns/cat.a-\n"
    );
}

/// A moment without readiness does not remove the served content while the successor crashes.
#[test]
fn a_predecessor_that_is_not_ready_stays_until_its_successor_is() {
    let next = || source(json!({"sourceType": "grpc", "image": "quay.io/x/cat:v2"}));
    let mut observed = converged(next());
    let new = named(Pod::clone(&observed.pods[0]), "cat-2");
    let crashing = Arc::new(waiting(new.clone(), "CrashLoopBackOff", "back-off 40s"));
    let old = Pod::clone(&converged(image_source()).pods[0]);
    let blinking = |name: &str, age: i64, started: bool| {
        let mut pod = with_status(
            named(old.clone(), name),
            json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "False"}], "containerStatuses": [{
                "name": "registry-server", "image": IMAGE, "imageID": "", "ready": false, "started": started,
                "restartCount": 0, "state": {"running": {}}}]}),
        );
        pod.metadata.creation_timestamp = Some(Time(earlier(age)));
        Arc::new(pod)
    };
    let deleted = |observed: &Observed| -> Vec<String> {
        let (plan, _) = decide::decide(observed, now());
        plan.actions.iter().map(ToString::to_string).collect()
    };
    observed.pods = vec![blinking("cat-1", 600, true), Arc::clone(&crashing)];
    assert_eq!(deleted(&observed), Vec::<String>::new());
    // One is enough: the one that serves, else the newest one that has started.
    observed.pods = vec![
        blinking("cat-0", 700, true),
        blinking("cat-1", 600, true),
        blinking("cat-3", 500, false),
        Arc::clone(&crashing),
    ];
    assert_eq!(deleted(&observed), ["delete Pod ns/cat-3", "delete Pod ns/cat-0"]);
    let mut serving = ready(named(old.clone(), "cat-0"));
    serving.metadata.creation_timestamp = Some(Time(earlier(700)));
    observed.pods[0] = Arc::new(serving);
    assert_eq!(deleted(&observed), ["delete Pod ns/cat-3", "delete Pod ns/cat-1"]);
    // The successor serves, or is about to be created.
    observed.pods = vec![blinking("cat-1", 600, true), Arc::new(ready(new))];
    assert_eq!(deleted(&observed), ["delete Pod ns/cat-1"]);
    observed.pods = vec![blinking("cat-1", 600, true)];
    assert_eq!(deleted(&observed), ["create Pod ns/cat.a-"]);
}

#[test]
fn objects_of_an_earlier_namesake_are_replaced_and_strangers_are_left_alone() {
    let mut earlier = image_source();
    earlier.metadata.uid = Some("u0".to_owned());
    let mut observed = converged(image_source());
    observed.service_account = Some(Arc::new(objects::build_service_account(&earlier)));
    observed.service = Some(Arc::new(objects::build_service(&earlier)));
    assert_eq!(
        plan_text(&observed),
        "delete ServiceAccount ns/cat.a\ncreate ServiceAccount ns/cat.a (keep)\ndelete Service ns/cat-a\ncreate Service ns/cat-a\n"
    );
    let strange = |meta: &mut k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta| {
        let owner = &mut meta.owner_references.as_mut().unwrap()[0];
        (owner.kind, owner.name, owner.uid) = (
            "ClusterServiceVersion".to_owned(),
            "op.v1".to_owned(),
            "c1".to_owned(),
        );
    };
    let mut account = objects::build_service_account(&earlier);
    strange(&mut account.metadata);
    let mut service = objects::build_service(&earlier);
    strange(&mut service.metadata);
    observed.service_account = Some(Arc::new(account));
    observed.service = Some(Arc::new(service));
    // The refusal of this creation names the conflicting Service.
    assert_eq!(plan_text(&observed), "create Service ns/cat-a\n");
}

/// A webhook may remove the owners of all that is created. Without OLM's labels an object is a user's.
#[test]
fn objects_without_owners_belong_to_the_catalog_that_their_labels_name() {
    let mut observed = converged(image_source());
    let strip = |meta: &mut k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta| {
        meta.owner_references = None;
    };
    strip(&mut Arc::make_mut(observed.service.as_mut().unwrap()).metadata);
    strip(&mut Arc::make_mut(observed.server_policy.as_mut().unwrap()).metadata);
    strip(&mut Arc::make_mut(observed.service_account.as_mut().unwrap()).metadata);
    assert_eq!(plan_text(&observed), "");
    let mut pod = Pod::clone(&observed.pods[0]);
    assert!(decide::is_pod_of(&pod, &observed.source));
    strip(&mut pod.metadata);
    assert!(decide::is_pod_of(&pod, &observed.source));
    let applied = |pod: &Pod| {
        let new = Arc::new(pod.clone());
        triggers::owners(&olm_runtime::store::Change::Applied { old: None, new }).len()
    };
    assert_eq!(applied(&pod), 1);
    for label in [labels::MANAGED, labels::CATALOG_SOURCE] {
        let mut other = pod.clone();
        other.metadata.labels.as_mut().unwrap().remove(label);
        assert!(!decide::is_pod_of(&other, &observed.source), "{label}");
        assert_eq!(applied(&other), 0, "{label}");
    }
    let labels = observed.service.as_mut().map(Arc::make_mut).unwrap();
    labels.metadata.labels = None;
    assert_eq!(plan_text(&observed), "create Service ns/cat-a\n");
}

#[test]
fn purposes_and_actions_go_together() {
    let (plan, verdict) = decide::decide(&fresh(image_source()), now());
    assert_eq!(plan.actions.len(), verdict.purposes.len());
    assert_eq!(verdict.purposes.last(), Some(&Purpose::NewPod));
    assert!(
        plan.actions
            .iter()
            .all(|action| matches!(action, Action::Create { object, .. } if object["kind"].is_string()))
    );
}

#[test]
fn owned_objects_wake_their_source_also_when_they_lose_the_reference() {
    let pod = Arc::new(Pod::clone(&converged(image_source()).pods[0]));
    let mut orphan = Pod::clone(&pod);
    orphan.metadata.owner_references = None;
    let change = olm_runtime::store::Change::Applied {
        old: Some(pod),
        new: Arc::new(orphan),
    };
    assert_eq!(
        triggers::owners(&change).into_iter().collect::<Vec<_>>(),
        [NamespacedName::new("ns", "cat.a")]
    );
}
