//! Upgrades that change a Deployment's selector: the Deployment is replaced, and its pods run until the new
//! ones do.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use serde_json::{Value, json};

use super::{prepared, succeeded};
use crate::{
    csv::{changeover, decide::decide, status::status, strategy},
    test_env::{TestEnv, csv, csv_key, decode, deployment},
};
use olm_runtime::outcome::Outcomes;

/// The demo, running.
fn running() -> TestEnv {
    let mut env = prepared();
    env.make_replica_sets();
    env.put(csv("a", ""));
    env.settle_for(5);
    succeeded(&env, "a");
    env
}

/// The demo's next version, whose pods have another label.
fn reselected(name: &str, replaces: &str, label: &str) -> Value {
    let mut newer = csv(name, replaces);
    let mut entry = deployment("demo", "demo:2");
    entry["spec"]["selector"] = json!({"matchLabels": {"app": label}});
    entry["spec"]["template"]["metadata"]["labels"] = json!({"app": label});
    newer["spec"]["install"]["spec"]["deployments"] = json!([entry]);
    newer
}

fn selector(env: &TestEnv) -> String {
    let Some(live) = env.get("Deployment", "ns", "demo") else {
        return "none".to_owned();
    };
    live["spec"]["selector"]["matchLabels"]["app"]
        .as_str()
        .unwrap_or_default()
        .to_owned()
}

/// True when a ReplicaSet runs the pods with a label.
fn runs(env: &TestEnv, label: &str) -> bool {
    let name = format!("demo-app{label}");
    env.get("ReplicaSet", "ns", &name).is_some()
}

#[test]
fn an_upgrade_that_changes_a_selector_replaces_the_deployment_and_leaves_no_old_pods() {
    let mut env = running();
    assert!(runs(&env, "demo"));
    env.log.clear();
    env.put(reselected("b", "a", "new"));
    env.settle_for(8);
    succeeded(&env, "b");
    assert_eq!((env.status("a"), selector(&env)), ("gone".into(), "new".into()));
    assert_eq!((runs(&env, "demo"), runs(&env, "new")), (false, true));
    let told = "b: InstallReady (InstallWaiting) installing: replacing deployment demo because its selector changes from app=demo to app=new and selectors are immutable; the old pods run until the new ones are available";
    assert!(env.log.iter().any(|line| line == told), "{:#?}", env.log);
    let writes = env.writes.len();
    env.settle_for(10);
    assert_eq!(env.writes.len(), writes, "at rest");
}

#[test]
fn the_old_pods_run_until_the_new_ones_are_available() {
    let mut env = running();
    let pulling = json!([{"type": "Available", "status": "False", "message": "no pods"}]);
    env.put(reselected("b", "a", "new"));
    env.sick.insert("demo".into(), pulling);
    env.settle_for(20);
    assert_eq!(selector(&env), "new");
    assert!(runs(&env, "demo"), "the new pods are not there yet");
    assert!(
        env.status("b")
            .ends_with("the pods of the replaced deployment run until then"),
        "{}",
        env.status("b")
    );
    env.sick.clear();
    env.settle_for(10);
    succeeded(&env, "b");
    assert!(!runs(&env, "demo"));
}

#[test]
fn the_rest_of_a_replaced_deployment_is_deleted_with_an_abandoned_successor() {
    let mut env = running();
    let pulling = json!([{"type": "Available", "status": "False", "message": "no pods"}]);
    env.sick.insert("demo".into(), pulling);
    env.put(reselected("b", "a", "new"));
    env.settle_for(20);
    env.sick.clear();
    env.delete("ClusterServiceVersion", "ns", "b");
    env.settle_for(20);
    succeeded(&env, "a");
    assert_eq!(selector(&env), "demo");
    assert!(!runs(&env, "new"));
}

#[test]
fn a_strategy_of_recreate_stops_the_old_pods_first() {
    let mut env = running();
    let mut newer = reselected("b", "a", "new");
    newer["spec"]["install"]["spec"]["deployments"][0]["spec"]["strategy"] = json!({"type": "Recreate"});
    env.log.clear();
    env.put(newer);
    env.settle_for(8);
    succeeded(&env, "b");
    assert!(!runs(&env, "demo") && runs(&env, "new"));
    assert!(
        env.log
            .iter()
            .any(|line| line.ends_with("the old pods stop first because its strategy is Recreate")),
        "{:#?}",
        env.log
    );
    assert!(
        !env.writes
            .iter()
            .any(|write| write.contains("its dependents stay"))
    );
}

#[test]
fn a_selector_that_is_edited_in_place_is_followed_too() {
    let mut env = running();
    let edited = reselected("a", "", "new");
    env.edit(
        "ClusterServiceVersion",
        "ns",
        "a",
        json!({"spec": edited["spec"]}),
    );
    env.settle_for(8);
    succeeded(&env, "a");
    assert_eq!(selector(&env), "new");
    assert!(!runs(&env, "demo") && runs(&env, "new"));
}

#[test]
fn an_install_that_was_refused_for_its_selector_gets_over_it() {
    let mut env = running();
    env.edit(
        "ClusterServiceVersion",
        "ns",
        "a",
        json!({"spec": reselected("a", "", "new")["spec"], "status": {"phase": "Failed", "reason": "InstallComponentFailed",
            "message": "install strategy failed: apply Deployment ns/demo: spec.selector: field is immutable"}}),
    );
    env.settle_for(8);
    succeeded(&env, "a");
    assert_eq!(selector(&env), "new");
}

#[test]
fn nobody_elses_deployment_is_replaced() {
    let foreign = |owner: &str, uid: &str| {
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"namespace": "ns", "name": "demo", "labels": {
            "olm.managed": "true", "olm.owner": owner, "olm.owner.namespace": "ns", "olm.owner.kind": "ClusterServiceVersion"},
            "ownerReferences": [{"apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion",
                "name": owner, "uid": uid}]},
            "spec": {"selector": {"matchLabels": {"app": "theirs"}}, "template": {"metadata": {"labels": {"app": "theirs"}}}}})
    };
    // Made for an unrelated owner, or labelled as made for a replaced one but owned by another.
    for (owner, uid) in [("stranger", "another"), ("a", "another")] {
        let mut env = prepared();
        env.put(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": "ns", "name": "x", "uid": uid}}));
        let mut older = csv("a", "");
        older["status"] = json!({"phase": "Replacing", "reason": "BeingReplaced"});
        env.put(older);
        env.put(foreign(owner, uid));
        env.put(csv("b", "a"));
        for _ in 0..12 {
            env.settle_namespace_and_group();
            env.round_of_csv(&csv_key("b"));
            env.advance(1);
        }
        assert_eq!(selector(&env), "theirs", "{owner}");
        assert!(
            env.status("b").contains("field is immutable"),
            "{owner}: {}",
            env.status("b")
        );
    }
}

/// Upgrade edges of the corpus from its bundles: package, old version, new version, as
/// ClusterServiceVersions.
fn edges() -> Vec<(String, Value, Value)> {
    let Some(corpus) = olm_testing::shared::corpus_dir() else {
        return Vec::new();
    };
    let mut edges = Vec::new();
    for package in folders(&corpus.join("bundles")) {
        let package_name = package.file_name().unwrap().to_string_lossy().into_owned();
        let csvs: Vec<Value> = folders(&package)
            .iter()
            .filter_map(|bundle| read_csv(bundle))
            .collect();
        for newer in &csvs {
            let replaced = &newer["spec"]["replaces"];
            let older = csvs.iter().find(|older| older["metadata"]["name"] == *replaced);
            edges.extend(older.map(|older| (package_name.clone(), older.clone(), newer.clone())));
        }
    }
    edges
}

fn folders(folder: &std::path::Path) -> Vec<std::path::PathBuf> {
    let mut found: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.is_dir())
        .collect();
    found.sort();
    found
}

fn read_csv(bundle: &std::path::Path) -> Option<Value> {
    for entry in std::fs::read_dir(bundle.join("manifests")).ok()? {
        let bytes = std::fs::read(entry.unwrap().path()).ok()?;
        for value in olm_fbc::yaml::parse_all(&bytes).unwrap_or_default() {
            if value["kind"] == "ClusterServiceVersion" {
                return Some(value);
            }
        }
    }
    None
}

/// Returns the selectors by Deployment.
fn selectors(csv: &Value) -> Vec<(&str, &Value)> {
    let deployments = csv["spec"]["install"]["spec"]["deployments"].as_array();
    deployments
        .into_iter()
        .flatten()
        .filter_map(|entry| Some((entry["name"].as_str()?, &entry["spec"]["selector"])))
        .collect()
}

#[test]
fn the_published_upgrades_that_change_a_selector_are_replacements_and_never_applied_in_place() {
    let edges = edges();
    if edges.is_empty() {
        return;
    }
    let (mut written, mut changing) = (0, Vec::new());
    for (package, older, newer) in &edges {
        let new: std::collections::BTreeMap<&str, &Value> = selectors(newer).into_iter().collect();
        let differs = |as_read: &dyn Fn(&Value) -> Value| -> Vec<&str> {
            let both = selectors(older);
            both.into_iter()
                .filter(|(name, old)| new.get(name).is_some_and(|new| as_read(new) != as_read(old)))
                .map(|(name, _)| name)
                .collect()
        };
        written += usize::from(!differs(&Value::clone).is_empty());
        // One of them differs only by a field that the API server does not know and prunes.
        let changes = differs(&|selector| {
            serde_json::to_value(decode::<LabelSelector>(selector.clone())).unwrap_or_default()
        });
        if !changes.is_empty() {
            changing.push(package.as_str());
            check_edge(older, newer, &changes);
        }
    }
    let packages: std::collections::BTreeSet<&str> = changing.iter().copied().collect();
    assert_eq!(
        (written, changing.len(), packages.len()),
        (14, 13, 8),
        "of {} edges: {packages:?}",
        edges.len()
    );
}

/// Asserts that the new version, ready to install while the old Deployments exist, deletes those and applies
/// none over them.
#[track_caller]
fn check_edge(older: &Value, newer: &Value, changes: &[&str]) {
    let mut env = prepared();
    for (csv, phase) in [(older, "Replacing"), (newer, "InstallReady")] {
        let mut csv = csv.clone();
        csv["apiVersion"] = json!("operators.coreos.com/v1alpha1");
        csv["metadata"]["namespace"] = json!("ns");
        csv["spec"]["installModes"] = json!([{"type": "OwnNamespace", "supported": true}]);
        csv["status"] = json!({"phase": phase, "reason": "X"});
        env.put(csv);
    }
    let name = |csv: &Value| csv["metadata"]["name"].as_str().unwrap().to_owned();
    let uid = env.get("ClusterServiceVersion", "ns", &name(older)).unwrap()["metadata"]["uid"].clone();
    for (deployment, selector) in selectors(older) {
        env.put(json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"namespace": "ns", "name": deployment,
            "labels": {"olm.managed": "true", "olm.owner": name(older), "olm.owner.namespace": "ns",
                "olm.owner.kind": "ClusterServiceVersion"},
            "ownerReferences": [{"apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion",
                "name": name(older), "uid": uid}]},
            "spec": {"selector": selector, "template": {}}}));
    }
    let observed = env.observe(&csv_key(&name(newer))).unwrap();
    let webhooks = strategy::read(&observed.csv).is_err();
    let pending = changeover::pending(&observed);
    if webhooks {
        assert!(pending.is_empty(), "{}: not installed by this build", name(newer));
        return;
    }
    let planned: Vec<String> = pending
        .iter()
        .map(|one| one.old.metadata.name.clone().unwrap())
        .collect();
    let mut expected: Vec<&str> = selectors(newer).into_iter().map(|(name, _)| name).collect();
    expected.retain(|name| changes.contains(name));
    assert_eq!(planned, expected, "{}", name(newer));
    let step = crate::csv::decide::install_ready::step(&observed).actions;
    for changed in changes {
        let writes: Vec<String> = step.iter().map(ToString::to_string).collect();
        let about = |verb: &str| {
            writes
                .iter()
                .any(|write| write.starts_with(&format!("{verb} Deployment ns/{changed}")))
        };
        assert!(about("delete") && !about("apply"), "{}: {writes:#?}", name(newer));
    }
}

#[test]
fn replacing_is_decided_again_at_every_stop_on_the_way() {
    // The old Deployment is being deleted: nothing to write, and no new message.
    let mut env = running();
    env.put(reselected("b", "a", "new"));
    env.edit(
        "Deployment",
        "ns",
        "demo",
        json!({"metadata": {"finalizers": ["example.com/x"]}}),
    );
    env.settle_for(5);
    assert_eq!(selector(&env), "demo", "still on its way out");
    let observed = env.observe(&csv_key("b")).unwrap();
    let (plan, verdict) = decide(&observed, env.now);
    assert!(plan.is_empty(), "{plan}");
    assert!(
        status(&observed, verdict, &Outcomes::default(), env.now)
            .patches
            .is_empty()
    );
    env.edit(
        "Deployment",
        "ns",
        "demo",
        json!({"metadata": {"finalizers": null}}),
    );
    env.settle_for(8);
    succeeded(&env, "b");
}
