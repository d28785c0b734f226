//! Both operators on one fake cluster, as separate processes: from a Subscription to a running operator, through upgrades, to its
//! removal.
//!
//! The tests are here because neither operator's crate knows the other. They simulate only users and the registry; the cluster has its
//! own controllers.

#![allow(clippy::unwrap_used)] // For tests only.

mod availability;
mod outside;
mod test_env;

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use olm_testing::cluster::Verb;
use olm_testing::stage::story::{Interruption, Story, StoryEnv as _, assert_rests, every_interruption, tell};
use serde_json::{Value, json};

use self::outside::versions;
use self::test_env::Step::{Approve, Delete, Edit, LosePods, Put, Serve};
use self::test_env::{Step, TestEnv};

fn group(targets: &[&str]) -> Value {
    let spec = match targets {
        [] => json!({}),
        targets => json!({"targetNamespaces": targets}),
    };
    json!({"apiVersion": "operators.coreos.com/v1", "kind": "OperatorGroup", "metadata": {"namespace": "ns", "name": "og"},
        "spec": spec})
}

fn catalog() -> Value {
    json!({"apiVersion": "operators.coreos.com/v1alpha1", "kind": "CatalogSource", "metadata": {"namespace": "ns", "name": "cat"},
        "spec": {"sourceType": "grpc", "image": "reg/cat:1"}})
}

fn subscription(approval: &str, starting: Option<&str>) -> Value {
    json!({"apiVersion": "operators.coreos.com/v1alpha1", "kind": "Subscription", "metadata": {"namespace": "ns", "name": "demo"},
        "spec": {"source": "cat", "sourceNamespace": "ns", "name": "demo", "channel": "stable", "startingCSV": starting,
            "installPlanApproval": approval}})
}

/// Returns the steps that install a first version.
fn install(targets: &[&str], approval: &str) -> Vec<Step> {
    vec![
        Serve(versions(1)),
        Put(group(targets)),
        Put(catalog()),
        Put(subscription(approval, None)),
    ]
}

const REMOVAL: [Step; 2] = [
    Delete("Subscription", "demo"),
    Delete("ClusterServiceVersion", "demo.v2"),
];

fn whole_life() -> Vec<Step> {
    let mut story = install(&["ns"], "Automatic");
    story.push(Serve(versions(2)));
    story.extend(REMOVAL);
    story
}

fn stories() -> Vec<Story<Step>> {
    let mut approved = install(&[], "Manual");
    approved.extend([Approve, Serve(versions(2)), Approve]);
    let mut repaired = install(&["ns"], "Automatic");
    repaired.extend([
        Delete("Deployment", "demo"),
        Delete("ServiceAccount", "demo"),
        LosePods,
        Edit(
            "OperatorGroup",
            "og",
            json!({"spec": {"targetNamespaces": ["ns", "other"]}}),
        ),
    ]);
    vec![
        ("whole life", whole_life()),
        ("all namespaces, approved", approved),
        ("repaired", repaired),
    ]
}

fn after(story: &[Step]) -> TestEnv {
    let mut env = TestEnv::new();
    tell(&mut env, story);
    env
}

#[test]
fn a_subscription_becomes_a_running_operator_and_is_upgraded_and_removed() {
    let mut env = after(&install(&["ns"], "Automatic"));
    assert_eq!(env.phases(), ["demo.v1 Succeeded"]);
    assert_eq!(env.only("InstallPlan")["status"]["phase"], "Complete");
    assert_eq!(env.only("Subscription")["status"]["state"], "AtLatestKnown");
    assert_eq!(env.only("OperatorGroup")["status"]["namespaces"], json!(["ns"]));
    assert_eq!(env.image(), "demo:1");
    assert_eq!(env.all("ClusterRoleBinding").len(), 1);

    tell(&mut env, &[Serve(versions(2))]);
    assert_eq!(env.phases(), ["demo.v2 Succeeded"]);
    assert_eq!(env.only("Subscription")["status"]["installedCSV"], "demo.v2");
    assert_eq!(env.image(), "demo:2");
    let role = env.only("ClusterRole");
    assert_eq!(
        role["metadata"]["labels"]["olm.owner"], "demo.v2",
        "that of demo.v1 is gone"
    );

    tell(&mut env, &REMOVAL);
    for kind in [
        "ClusterServiceVersion",
        "Deployment",
        "ServiceAccount",
        "Role",
        "RoleBinding",
        "ClusterRole",
        "ClusterRoleBinding",
        "OperatorCondition",
    ] {
        let left = env.all(kind);
        let of_demo = left.iter().filter(|object| test_env::is_of_demo(object));
        assert_eq!(of_demo.count(), 0, "{kind}: {left:#?}");
    }
    assert_eq!(
        env.all("CustomResourceDefinition").len(),
        1,
        "what users made is not lost"
    );
}

/// The kinds and their order are those of upstream's Operator for such an install. OLM creates its objects with the label; only the
/// Subscription is the user's and has to be patched.
#[test]
fn an_operator_lists_all_of_an_install_for_three_writes() {
    let env = after(&install(&["ns"], "Automatic"));
    let operator = env.only("Operator");
    assert_eq!(operator["metadata"]["name"], "demo.ns");
    let refs = operator["status"]["components"]["refs"].as_array().unwrap();
    let kinds: Vec<&str> = refs.iter().map(|found| found["kind"].as_str().unwrap()).collect();
    assert_eq!(
        kinds,
        [
            "ClusterRole",
            "ClusterRoleBinding",
            "ClusterServiceVersion",
            "CustomResourceDefinition",
            "Deployment",
            "InstallPlan",
            "OperatorCondition",
            "Role",
            "RoleBinding",
            "ServiceAccount",
            "Subscription",
        ]
    );
    let label = "operators.coreos.com/demo.ns";
    let labelling = env
        .writes
        .iter()
        .filter(|write| write.contains(label) || write.contains(" Operator "));
    let mut of_components: Vec<&str> = labelling.map(|write| write.split(" {").next().unwrap()).collect();
    of_components.sort_unstable();
    assert_eq!(
        of_components,
        [
            "create Operator demo.ns",
            "patch Operator demo.ns status",
            "patch Subscription ns/demo"
        ],
        "of {} writes: {:#?}",
        env.writes.len(),
        env.writes
    );
}

/// Goal P4: the writes of both operators from the CatalogSource to a running and listed operator, without waits between the steps. The
/// goal is 42.
#[test]
fn an_install_takes_these_writes_and_no_other() {
    let mut env = TestEnv::new();
    for step in install(&["ns"], "Automatic") {
        env.take(&step);
    }
    env.rest();
    assert_eq!(env.phases(), ["demo.v1 Succeeded"]);
    let mut writes: Vec<String> = env.writes.iter().map(|write| named(write)).collect();
    assert!(writes.len() <= 42);
    writes.sort_unstable();
    assert_eq!(writes, WRITES_OF_AN_INSTALL, "{:#?}", env.writes);
}

const WRITES_OF_AN_INSTALL: [&str; 39] = [
    "apply Deployment ns/demo",
    "apply OperatorCondition ns/demo.v1",
    // For the operator and for users (4 per API, 3 per OperatorGroup), and the operator's binding.
    "create ClusterRole demo.v1-#",
    "create ClusterRole demos.example.com-v1-admin",
    "create ClusterRole demos.example.com-v1-crdview",
    "create ClusterRole demos.example.com-v1-edit",
    "create ClusterRole demos.example.com-v1-view",
    "create ClusterRole olm.og.og.admin-#",
    "create ClusterRole olm.og.og.edit-#",
    "create ClusterRole olm.og.og.view-#",
    "create ClusterRoleBinding demo.v1-#",
    "create ClusterServiceVersion ns/demo.v1",
    "create CustomResourceDefinition demos.example.com",
    "create InstallPlan ns/install-#",
    "create NetworkPolicy ns/cat-grpc-server",
    "create NetworkPolicy ns/cat-unpack-bundles",
    "create Operator demo.ns",
    "create Pod ns/cat-",
    // For the OperatorCondition, and for the operator.
    "create Role ns/demo.v1",
    "create Role ns/demo.v1-demo-#",
    "create RoleBinding ns/demo.v1",
    "create RoleBinding ns/demo.v1-demo-#",
    "create Service ns/cat",
    "create ServiceAccount ns/cat",
    "create ServiceAccount ns/demo",
    // Pod and connection.
    "patch CatalogSource ns/cat status",
    "patch CatalogSource ns/cat status",
    // Pending, Installing, Succeeded.
    "patch ClusterServiceVersion ns/demo.v1 status",
    "patch ClusterServiceVersion ns/demo.v1 status",
    "patch ClusterServiceVersion ns/demo.v1 status",
    // The steps and their results.
    "patch InstallPlan ns/install-# status",
    "patch InstallPlan ns/install-# status",
    "patch Namespace ns",
    "patch Operator demo.ns status",
    // The list of provided APIs, and the targets.
    "patch OperatorGroup ns/og",
    "patch OperatorGroup ns/og status",
    // The label of components; the plan, and the installed version.
    "patch Subscription ns/demo",
    "patch Subscription ns/demo status",
    "patch Subscription ns/demo status",
];

/// Returns a write without its content, and without hashes in names.
fn named(write: &str) -> String {
    let write = write.split(" {").next().unwrap_or(write);
    let hashless = |word: &str| match word.rsplit_once('-') {
        Some((name, hash)) if hash.len() > 12 && hash.bytes().all(|byte| byte.is_ascii_alphanumeric()) => {
            format!("{name}-#")
        }
        _ => word.to_owned(),
    };
    write.split(' ').map(hashless).collect::<Vec<_>>().join(" ")
}

/// Neither operator triggers the other once both are finished.
#[test]
fn at_rest_neither_writes_not_even_when_both_are_new() {
    for (name, story) in stories() {
        let mut env = after(&story);
        // An Operator without components is deleted ten minutes later.
        env.settle_for(11 * 60);
        // A new process reconnects to the catalog and reports the time.
        assert_rests(&mut env, name, 600, Some("patch CatalogSource ns/cat status"));
    }
}

/// OLM has no reason to read all Secrets, and a cluster has many objects of the other kinds.
#[test]
fn no_store_holds_all_secrets_pods_roles_or_role_bindings() {
    let mut env = TestEnv::new();
    let whole = Arc::<Mutex<BTreeSet<String>>>::default();
    let seen = Arc::clone(&whole);
    env.stage.cluster.on_request(move |request| {
        let is_whole = request.namespace.is_empty() && request.param("labelSelector").is_empty();
        if is_whole && request.verb == Verb::Watch {
            seen.lock().unwrap().insert(request.kind.kind.clone());
        }
        None
    });
    tell(&mut env, &whole_life());
    let whole = whole.lock().unwrap();
    assert!(whole.contains("Subscription"), "{whole:?}");
    for kind in ["Secret", "Pod", "Role", "RoleBinding"] {
        assert!(!whole.contains(kind), "{whole:?}");
    }
}

/// Decision 0017: normal progress is not slowed down, however long it takes.
#[test]
fn an_upgrade_in_fifteen_steps_is_not_slowed_down() {
    const STEPS: u32 = 15;
    // The only waits are for answers, and for changes that are batched.
    const MAX_SECONDS: u32 = 2 * (STEPS + 1);
    let mut env = after(&[Serve(versions(STEPS + 1)), Put(group(&["ns"])), Put(catalog())]);
    env.put(subscription("Automatic", Some("demo.v1")));
    let last = format!("demo.v{} Succeeded", STEPS + 1);
    let mut seconds = 0;
    while env.phases() != [last.as_str()] {
        env.run_for(1);
        seconds += 1;
        assert!(seconds <= MAX_SECONDS, "{:?}", env.phases());
    }
    assert_eq!(env.all("InstallPlan").len(), 5, "the others are collected");
    assert_eq!(env.paused(), 0, "{:#?}", env.events);
    let told: Vec<&String> = env
        .events
        .iter()
        .filter(|event| event.starts_with("ReconcileSlowedDown"))
        .collect();
    assert!(told.is_empty(), "{told:#?}");
}

#[test]
fn one_operator_killed_after_any_write_changes_nothing_in_the_end() {
    every_interruption::<TestEnv>("interruptions of both operators", stories(), Interruption::Kill);
}

#[test]
fn an_answer_lost_to_one_of_them_changes_nothing_in_the_end() {
    let what = "interruptions of both operators";
    every_interruption::<TestEnv>(what, stories(), Interruption::LoseAnswer);
}
