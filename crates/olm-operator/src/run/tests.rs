//! Guarantees of the wiring and the queues, for any controller.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use clap::{CommandFactory as _, Parser as _};
use k8s_openapi::api::core::v1::Namespace;
use kube::core::PartialObjectMeta;
use olm_api::v1::OperatorGroup;
use olm_runtime::store::Change;
use olm_testing::turns::namespaces_take_turns;
use serde_json::{Value, json};

use super::*;
use crate::operator_group::triggers;
use crate::test_env::{TestEnv, csv, decode, deployment, group, namespace_object};

/// A namespace that floods a queue is not served before others, and workers remain for these.
#[tokio::test(start_paused = true)]
async fn namespaces_take_turns_in_the_queues_of_csvs_groups_and_conditions() {
    let queues = Queues::default();
    for queue in [queues.csvs, queues.groups, queues.conditions] {
        namespaces_take_turns(&queue, WORKERS_OF_A_NAMESPACE, WORKERS).await;
    }
}

/// The Operators of one namespace do not delay those of others, in any number.
#[tokio::test(start_paused = true)]
async fn namespaces_take_turns_in_the_queue_of_operators() {
    let queue = Queues::default().operators;
    for index in 0..1000 {
        queue.add(olm_runtime::NamespacedName::cluster(format!("x{index}.flood")));
    }
    queue.add(olm_runtime::NamespacedName::cluster("demo.calm"));
    let mut taken = vec![queue.next().await.name, queue.next().await.name];
    assert!(taken.contains(&"demo.calm".to_owned()), "{taken:?}");
    while let Ok(key) = tokio::time::timeout(Duration::from_secs(1), queue.next()).await {
        taken.push(key.name);
    }
    assert_eq!(taken.len(), 1 + WORKERS_OF_A_NAMESPACE);
}

/// A label of a missing Operator triggers nothing, so that a thousand of them delay nothing.
#[test]
fn only_operators_that_are_there_or_begin_hear_of_labels() {
    let with = |labels: Value| -> Arc<PartialObjectMeta<Namespace>> {
        Arc::new(decode(json!({"metadata": {"name": "ns", "labels": labels}})))
    };
    let labels = json!({"operators.coreos.com/there.ns": "", "operators.coreos.com/not.ns": ""});
    let change = Change::Applied {
        old: None,
        new: with(labels),
    };
    let is_there = |key: &olm_runtime::NamespacedName| key.name == "there.ns";
    let woken = |founded: fn(&PartialObjectMeta<Namespace>) -> Option<String>| {
        let keys = crate::operator::triggers::by_component(&change, founded, is_there);
        keys.into_iter().map(|key| key.name).collect::<Vec<_>>()
    };
    assert_eq!(woken(|_| None), ["there.ns"]);
    assert_eq!(woken(|_| Some("new.ns".to_owned())), ["new.ns", "there.ns"]);
}

/// An operator that is copied into thousands of namespaces does not delay copies of others.
#[tokio::test(start_paused = true)]
async fn originals_take_turns_in_the_queue_of_copies() {
    let queue = Queues::default().copies;
    let copy = |from: &str, to: String| CopyKey {
        from: from.into(),
        name: "a".into(),
        to: to.into(),
    };
    for index in 0..10_000 {
        queue.add(copy("flood", index.to_string()));
    }
    queue.add(copy("calm", "far".to_owned()));
    let mut taken = vec![queue.next().await.from, queue.next().await.from];
    assert!(taken.iter().any(|from| **from == *"calm"), "{taken:?}");
    while let Ok(key) = tokio::time::timeout(Duration::from_secs(1), queue.next()).await {
        taken.push(key.from);
    }
    let of_flood = taken.iter().filter(|from| ***from == *"flood").count();
    assert_eq!(of_flood, COPIES_OF_A_NAMESPACE);
    assert!(of_flood < WORKERS_OF_COPIES);
}

/// A ClusterServiceVersion with only a Deployment of the same name.
fn plain(namespace: &str, name: &str) -> Value {
    let mut csv = csv(name, "");
    csv["metadata"]["namespace"] = json!(namespace);
    csv["spec"]["customresourcedefinitions"] = json!({});
    let mut entry = deployment(name, "demo:1");
    entry["spec"]["template"]["spec"]["serviceAccountName"] = json!("default");
    csv["spec"]["install"]["spec"] = json!({"deployments": [entry]});
    csv
}

/// Runs until the ClusterServiceVersion of `calm` has succeeded. Returns the duration, the number of
/// reconciles of `flood`, and the number of its own that wrote a status. The `flapping` ones of `flood` have
/// lost their Deployments at the same time.
fn install_beside(flapping: usize) -> (Duration, usize, usize) {
    const STEP: Duration = Duration::from_millis(1);
    let mut env = TestEnv::new();
    env.by_hand = true;
    let names: Vec<String> = (0..flapping).map(|index| format!("flood-{index}")).collect();
    for namespace in ["flood", "calm"] {
        env.put(namespace_object(namespace));
        env.put(group(namespace, "og", &[namespace]));
    }
    env.stage.as_user(|cluster| {
        for name in &names {
            cluster.put(plain("flood", name));
        }
    });
    env.settle_for(60);
    let phases = |kind: &str| {
        let objects = env.objects.iter().filter(|(key, _)| key.0 == kind);
        objects
            .filter(|(_, object)| object["status"]["phase"] == "Succeeded")
            .count()
    };
    assert_eq!(phases("ClusterServiceVersion"), flapping);
    let rounds = Arc::<Mutex<Vec<String>>>::default();
    let seen = Arc::clone(&rounds);
    env.cluster.on_request(move |request| {
        if request.kind.kind == "ClusterServiceVersion" && request.subresource == "status" {
            seen.lock().unwrap().push(request.namespace.clone());
        }
        None
    });
    env.stage.as_user(|cluster| {
        for name in &names {
            assert!(cluster.delete("Deployment", "flood", name));
        }
        cluster.put(plain("calm", "calm"));
    });
    let mut took = Duration::ZERO;
    loop {
        let calm = env.cluster.get("ClusterServiceVersion", "calm", "calm").unwrap();
        if calm["status"]["phase"] == "Succeeded" {
            break;
        }
        env.stage.advance(STEP);
        took += STEP;
        assert!(took < Duration::from_secs(60), "{calm}");
    }
    let rounds = rounds.lock().unwrap();
    let of_flood = rounds.iter().filter(|namespace| *namespace == "flood").count();
    (took, of_flood, rounds.len() - of_flood)
}

/// Each of its reconciles waits for at most one of the other namespace, because two of the workers never
/// serve that namespace.
#[test]
fn a_namespace_full_of_flapping_operators_does_not_hold_up_another() {
    let (alone, _, own) = install_beside(0);
    let (beside, of_flood, same) = install_beside(200);
    assert_eq!(own, same, "rounds of its own");
    assert!(of_flood >= own, "the others do flap: {of_flood}");
    let most = own * 2 * WORKERS_OF_A_NAMESPACE;
    assert!(
        of_flood <= most,
        "{of_flood} rounds of the other namespace, {own} of its own"
    );
    assert!(beside <= 2 * alone, "{beside:?}, {alone:?} alone");
}

fn selecting(namespace: &str, name: &str, team: &str) -> Value {
    let mut group = group(namespace, name, &[]);
    group["spec"] = json!({"selector": {"matchLabels": {"team": team}}});
    group
}

#[test]
fn a_namespace_with_changed_labels_moves_between_the_groups_that_select_it() {
    let mut env = TestEnv::new();
    for name in ["red", "blue", "named", "one", "two"] {
        env.put(namespace_object(name));
    }
    env.put(selecting("red", "og", "red"));
    env.put(selecting("blue", "og", "blue"));
    env.put(group("named", "og", &["one"]));
    env.settle();
    let targets = |env: &TestEnv, namespace: &str| {
        env.get("OperatorGroup", namespace, "og").unwrap()["status"]["namespaces"].clone()
    };
    assert_eq!(
        (targets(&env, "red"), targets(&env, "blue")),
        (Value::Null, Value::Null)
    );
    let label = |env: &mut TestEnv, name: &str, team: Value| {
        env.edit(
            "Namespace",
            "",
            name,
            json!({"metadata": {"labels": {"team": team}}}),
        );
        env.settle();
    };
    label(&mut env, "one", json!("red"));
    assert_eq!(
        (targets(&env, "red"), targets(&env, "blue")),
        (json!(["one"]), Value::Null)
    );
    label(&mut env, "two", json!("red"));
    assert_eq!(targets(&env, "red"), json!(["one", "two"]));
    env.writes.clear();
    label(&mut env, "one", json!("blue"));
    assert_eq!(
        (targets(&env, "red"), targets(&env, "blue")),
        (json!(["two"]), json!(["one"]))
    );
    label(&mut env, "two", Value::Null);
    assert_eq!(targets(&env, "red"), Value::Null);
    let of_named = env.writes.iter().filter(|write| write.contains("named/"));
    assert_eq!(of_named.count(), 0, "{:#?}", env.writes);
    assert_eq!(targets(&env, "named"), json!(["one"]));
}

#[test]
fn only_new_labels_of_a_namespace_wake_groups_and_only_those_that_select() {
    let typed = |object: Value| Arc::new(decode::<OperatorGroup>(object));
    let all = [
        typed(selecting("red", "og", "red")),
        typed(group("named", "og", &["one"])),
        typed(group("all", "og", &[])),
    ];
    let namespace = |labels: Value| -> Arc<PartialObjectMeta<Namespace>> {
        Arc::new(decode(json!({"metadata": {"name": "one", "labels": labels}})))
    };
    let (plain, red) = (namespace(json!({})), namespace(json!({"team": "red"})));
    let changed = |old: Option<&Arc<_>>, new: &Arc<_>| Change::Applied {
        old: old.cloned(),
        new: Arc::clone(new),
    };
    let rows = [
        (changed(None, &plain), 1),
        (changed(Some(&plain), &red), 1),
        (changed(Some(&red), &plain), 1),
        (changed(Some(&red), &red), 0),
        (Change::Deleted { old: red.clone() }, 1),
    ];
    for (change, woken) in rows {
        let keys = triggers::by_namespace(&change, &all);
        assert_eq!(keys.len(), woken, "{change:?}");
        assert!(keys.iter().all(|key| key.namespace == "red"), "{keys:?}");
    }
}

#[test]
fn ocp_005_each_report_has_the_name_that_the_command_line_says() {
    let args = Args::parse_from([
        "olm",
        "--writeStatusName=of-olm",
        "--writePackageServerStatusName=of-packages",
        "--namespace=here",
        "--release-version=4.18.3",
    ]);
    let reports = Settings::of(&args).reports;
    assert_eq!(
        [
            reports.olm,
            reports.package_server,
            reports.namespace,
            reports.release
        ],
        ["of-olm", "of-packages", "here", "4.18.3"]
    );
    // The same variable as in OpenShift's release and in the chart.
    let command = Args::command();
    let mut arguments = command.get_arguments();
    let release = arguments.find(|argument| argument.get_long() == Some("release-version"));
    assert_eq!(
        release.and_then(clap::Arg::get_env),
        Some("RELEASE_VERSION".as_ref())
    );
}
