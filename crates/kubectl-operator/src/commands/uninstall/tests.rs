use std::time::Duration;

use clap::Parser as _;
use olm_testing::cluster::{FakeCluster, Fault, Refusal};
use serde_json::{Value, json};

use super::*;
use crate::args::{Args, Command};
use crate::operators::tests::{csv, plan, subscription};

mod operands;

const CRD: &str = "etcds.example.com";

fn crd() -> Value {
    let versions = json!([{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}}}]);
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": CRD},
        "spec": {"group": "example.com", "scope": "Namespaced", "versions": versions,
            "names": {"kind": "Etcd", "plural": "etcds", "singular": "etcd", "listKind": "EtcdList"}},
        "status": {"conditions": [{"type": "Established", "status": "True"}]}})
}

/// Returns an object of the kind in another namespace.
pub(in crate::commands) fn etcd_in(namespace: &str, name: &str) -> Value {
    let mut object = etcd(name, &[]);
    object["metadata"]["namespace"] = json!(namespace);
    object
}

/// Returns the OperatorGroup of the namespace, with the status that OLM set.
pub(in crate::commands) fn group(targets: &Value) -> Value {
    json!({"apiVersion": "operators.coreos.com/v1", "kind": "OperatorGroup", "metadata": {"namespace": "shop", "name": "og"},
        "spec": {}, "status": {"namespaces": targets, "lastUpdated": "2026-01-01T00:00:00Z"}})
}

fn etcd(name: &str, finalizers: &[&str]) -> Value {
    json!({"apiVersion": "example.com/v1", "kind": "Etcd", "metadata": {"namespace": "shop", "name": name, "finalizers": finalizers}})
}

/// Returns a ClusterServiceVersion that owns the kind Etcd.
fn owner(version: &str) -> Value {
    let mut csv = csv(version, "Succeeded", "");
    csv["spec"]["customresourcedefinitions"] =
        json!({"owned": [{"name": CRD, "version": "v1", "kind": "Etcd"}]});
    csv
}

pub(in crate::commands) fn cluster() -> FakeCluster {
    let cluster = FakeCluster::new();
    cluster.put(subscription(
        "db",
        &json!({"installedCSV": "etcd.v1.0.0", "currentCSV": "etcd.v1.0.0", "state": "AtLatestKnown"}),
    ));
    cluster.put(owner("1.0.0"));
    cluster.put(crd());
    for name in ["a", "b\u{1b}"] {
        cluster.put(etcd(name, &["example.com/end"]));
    }
    cluster
}

fn uninstall_args(name: &str, more: &[&str]) -> UninstallArgs {
    let words = ["kubectl-operator", "uninstall", name];
    match Args::try_parse_from(words.iter().chain(more)).unwrap().command {
        Command::Uninstall(args) => args,
        other => panic!("{other:?}"),
    }
}

/// Returns the removal if operands may stay.
async fn looked(cluster: &FakeCluster, crds: &[&str]) -> anyhow::Result<Removal> {
    let flags = ["--context", "a b", "--kubeconfig", "/k", "-s", "ignore"];
    let mut args = uninstall_args("db", &flags);
    args.delete_crd = crds.iter().map(|name| (*name).to_owned()).collect();
    let (client, _link) = cluster.connect();
    look(&Cluster::of(client, "shop"), &args).await
}

async fn removed(cluster: &FakeCluster, removal: &Removal) -> (bool, Vec<String>) {
    let (is_gone, told) = try_removed(cluster, removal).await;
    (is_gone.unwrap(), told)
}

async fn try_removed(cluster: &FakeCluster, removal: &Removal) -> (anyhow::Result<bool>, Vec<String>) {
    let (client, _link) = cluster.connect();
    let wait = WaitArgs {
        timeout: Some(Duration::from_secs(30)),
    };
    let mut told = Vec::new();
    let mut tell = |text: &str| told.push(text.to_owned());
    let mut screen = Screen::new(Vec::new(), None);
    let result = remove(&client, removal, &wait, &mut screen, &mut tell).await;
    (result, told)
}

#[test]
fn names_of_groups_without_the_flag_that_deletes_them_are_warned_of() {
    let names = ["--delete-operator-group-names", "og"];
    for (flag, is_warned) in [
        ("--yes", true),
        ("--delete-operator-groups", false),
        ("-X", false),
    ] {
        let args = uninstall_args("db", &[&names[..], &[flag]].concat());
        assert_eq!(without_effect(&args).is_some(), is_warned, "{flag}");
    }
    assert_eq!(without_effect(&uninstall_args("db", &[])), None);
}

#[tokio::test(start_paused = true)]
async fn what_is_left_is_shown_and_left() {
    let cluster = cluster();
    let removal = looked(&cluster, &[]).await.unwrap();
    insta::assert_snapshot!(removal.to_string(), @r"
    deletes  Subscription db in namespace shop
    deletes  ClusterServiceVersion etcd.v1.0.0 in namespace shop, with its Deployments, ServiceAccounts and permissions
    leaves   CustomResourceDefinition etcds.example.com with 2 objects, which are kept: shop/a, shop/b\u{1b}
    note: 2 of them have finalizers; without the operator they cannot be deleted properly
    note: no operator manages what is left; a later install adopts it again
    ");
    assert!(cluster.log().writes.is_empty(), "looking changes nothing");
    let (is_gone, told) = removed(&cluster, &removal).await;
    assert!(is_gone);
    assert_eq!(told.len(), 2, "{told:?}");
    assert!(cluster.get("Subscription", "shop", "db").is_none());
    assert!(
        cluster
            .get("ClusterServiceVersion", "shop", "etcd.v1.0.0")
            .is_none()
    );
    assert!(cluster.get("CustomResourceDefinition", "", CRD).is_some());
    assert!(cluster.get("Etcd", "shop", "a").is_some());
}

#[tokio::test(start_paused = true)]
async fn a_definition_goes_only_by_its_name_and_before_the_operator() {
    let cluster = cluster();
    let removal = looked(&cluster, &[CRD]).await.unwrap();
    insta::assert_snapshot!(removal.to_string(), @r"
    deletes  Subscription db in namespace shop
    deletes  ClusterServiceVersion etcd.v1.0.0 in namespace shop, with its Deployments, ServiceAccounts and permissions
    deletes  CustomResourceDefinition etcds.example.com with 2 objects, which are lost: shop/a, shop/b\u{1b}
    ");
    let (is_gone, told) = removed(&cluster, &removal).await;
    assert!(is_gone);
    insta::assert_snapshot!(told.join("\n"), @r"
    Subscription db in namespace shop deleted
    CustomResourceDefinition etcds.example.com deleted
    ClusterServiceVersion etcd.v1.0.0 in namespace shop deleted
    ");
    assert!(cluster.get("CustomResourceDefinition", "", CRD).is_none());

    let error = looked(&self::cluster(), &["others.example.com"])
        .await
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "cannot delete CustomResourceDefinition others.example.com: db does not own it; it owns etcds.example.com"
    );
}

/// Its objects need the operator until they are deleted.
#[tokio::test(start_paused = true)]
async fn the_operator_stays_while_its_objects_end() {
    let cluster = cluster();
    let mut held = crd();
    held["metadata"]["finalizers"] = json!(["customresourcecleanup.apiextensions.k8s.io"]);
    cluster.put(held);
    let removal = looked(&cluster, &[CRD]).await.unwrap();
    assert_eq!(
        removal.again(),
        "`kubectl operator uninstall etcd.v1.0.0 -n shop --context 'a b' --kubeconfig /k --delete-crd etcds.example.com`"
    );
    let (result, _) = try_removed(&cluster, &removal).await;
    let error = result.unwrap_err().to_string();
    assert!(error.contains("timed out after 30 s"), "{error}");
    assert!(cluster.get("Subscription", "shop", "db").is_none());
    assert!(
        cluster
            .get("ClusterServiceVersion", "shop", "etcd.v1.0.0")
            .is_some()
    );
}

#[tokio::test(start_paused = true)]
async fn a_definition_that_others_need_does_not_go() {
    for (field, text) in [
        ("owned", "also owned by other/etcd.v2.0.0"),
        ("required", "needed by other/etcd.v2.0.0"),
    ] {
        let cluster = cluster();
        let mut other = csv("2.0.0", "Succeeded", "");
        other["metadata"]["namespace"] = json!("other");
        other["spec"]["customresourcedefinitions"] =
            json!({field: [{"name": CRD, "version": "v1", "kind": "Etcd"}]});
        cluster.put(other);
        let told = looked(&cluster, &[]).await.unwrap().to_string();
        assert!(told.contains(text), "{told}");
        let error = looked(&cluster, &[CRD]).await.unwrap_err().to_string();
        assert_eq!(
            error,
            format!("cannot delete CustomResourceDefinition {CRD}: {text}; uninstall these first")
        );
    }
}

/// A single malformed object must not block every removal, but it may contain a relevant name.
#[tokio::test(start_paused = true)]
async fn unreadable_objects_block_only_the_objects_that_they_name() {
    let cluster = cluster();
    let mut broken = csv("2.0.0", "Succeeded", "");
    broken["metadata"]["namespace"] = json!("other");
    broken["spec"]["installModes"] = json!("none");
    cluster.put(broken.clone());
    assert!(looked(&cluster, &[CRD]).await.is_ok());
    let (client, _link) = cluster.connect();
    let gathered = gather::operators(&client, None).await.unwrap();
    assert_eq!(gathered.operators().len(), 1);
    let text = &gathered.unreadable[0].text;
    assert!(
        text.starts_with("cannot read ClusterServiceVersion other/etcd.v2.0.0: "),
        "{text}"
    );
    broken["spec"]["customresourcedefinitions"] = json!({"required": [{"name": CRD}]});
    cluster.put(broken);
    let error = looked(&cluster, &[CRD]).await.unwrap_err().to_string();
    assert!(
        error.contains("other/etcd.v2.0.0 cannot be read and may own or need it"),
        "{error}"
    );
}

#[tokio::test(start_paused = true)]
async fn without_access_to_all_namespaces_no_definition_is_deleted() {
    let cluster = cluster();
    cluster.on_request(|request| {
        let is_all = request.namespace.is_empty() && request.kind.kind != "CustomResourceDefinition";
        is_all.then(|| Fault::Refuse(Refusal::new(403, "Forbidden", "is forbidden")))
    });
    let told = looked(&cluster, &[]).await.unwrap().to_string();
    assert!(
        told.contains("with unknown objects (cannot list etcds.example.com"),
        "{told}"
    );
    assert!(
        told.contains("note: cannot check whether operators in other namespaces need these kinds"),
        "{told}"
    );
    let error = looked(&cluster, &[CRD]).await.unwrap_err().to_string();
    assert!(error.contains("cannot check who else needs it"), "{error}");
}

/// No OLM deletes anything because of it.
#[tokio::test(start_paused = true)]
async fn a_request_for_cleanup_loses_no_object() {
    let cluster = cluster();
    let mut cleans = owner("1.0.0");
    cleans["spec"]["cleanup"] = json!({"enabled": true});
    cluster.put(cleans);
    let told = looked(&cluster, &[]).await.unwrap().to_string();
    assert!(
        told.contains("which are kept") && !told.to_lowercase().contains("lost"),
        "{told}"
    );
}

/// Another user installs it again while the question waits for an answer.
#[tokio::test(start_paused = true)]
async fn recreated_objects_are_not_deleted() {
    let cluster = cluster();
    let removal = looked(&cluster, &[]).await.unwrap();
    cluster.delete("Subscription", "shop", "db");
    cluster.put(subscription("db", &json!({})));
    let (client, _link) = cluster.connect();
    let wait = WaitArgs {
        timeout: Some(Duration::from_secs(30)),
    };
    let result = remove(
        &client,
        &removal,
        &wait,
        &mut Screen::new(Vec::new(), None),
        &mut |_| {},
    )
    .await;
    assert!(result.unwrap_err().to_string().contains("was recreated"));
    assert!(
        cluster
            .get("ClusterServiceVersion", "shop", "etcd.v1.0.0")
            .is_some()
    );
}

#[tokio::test(start_paused = true)]
async fn a_missing_operator_is_reported_with_the_existing_ones() {
    let (client, _link) = cluster().connect();
    let args = uninstall_args("nope", &[]);
    let error = look(&Cluster::of(client, "shop"), &args).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "namespace shop has no operator nope: it has db"
    );
}

/// Returns a cluster with a running or waiting upgrade of db.
fn upgrading(approved: bool) -> FakeCluster {
    let cluster = cluster();
    let status = json!({"installedCSV": "etcd.v1.0.0", "currentCSV": "etcd.v2.0.0", "state": "UpgradePending",
        "installPlanRef": {"name": "install-1"}});
    cluster.put(subscription("db", &status));
    let phase = if approved {
        "Installing"
    } else {
        "RequiresApproval"
    };
    cluster.put(plan("install-1", phase, approved));
    cluster
}

/// Returns a version with the kind Etcd that replaces another.
fn successor(version: &str, phase: &str, replaces: &str) -> Value {
    let mut csv = owner(version);
    csv["spec"]["replaces"] = json!(replaces);
    csv["status"] = json!({"phase": phase, "message": "no such image"});
    csv
}

/// OLM reports a version as installed as soon as it is created, and keeps the older ones until it succeeds.
#[tokio::test(start_paused = true)]
async fn in_the_middle_of_an_upgrade_all_versions_go_the_newest_last() {
    for (phase, versions) in [("Installing", 2), ("Failed", 2), ("Pending", 2), ("Failed", 3)] {
        let cluster = cluster();
        let newest = format!("etcd.v{versions}.0.0");
        let status = json!({"installedCSV": newest, "currentCSV": newest, "state": "AtLatestKnown"});
        cluster.put(subscription("db", &status));
        let mut oldest = owner("1.0.0");
        oldest["status"]["phase"] = json!("Replacing");
        cluster.put(oldest);
        if versions == 3 {
            cluster.put(successor("2.0.0", "Replacing", "etcd.v1.0.0"));
        }
        let replaces = format!("etcd.v{}.0.0", versions - 1);
        cluster.put(successor(&format!("{versions}.0.0"), phase, &replaces));
        let (client, _link) = cluster.connect();
        let gathered = gather::operators(&client, None).await.unwrap();
        assert_eq!(
            gathered.operators().len(),
            1,
            "no version is an operator of its own"
        );
        let removal = looked(&cluster, &[]).await.unwrap();
        let names: Vec<String> = removal.csvs.iter().map(|csv| csv.name_any()).collect();
        let expected: Vec<String> = (1..=versions)
            .map(|number| format!("etcd.v{number}.0.0"))
            .collect();
        assert_eq!(names, expected, "{phase}");
        let text = removal.to_string();
        assert!(!text.contains("also owned by"), "{text}");
        let (is_gone, told) = removed(&cluster, &removal).await;
        assert!(is_gone, "{told:?}");
        assert_eq!(told[0], "Subscription db in namespace shop deleted");
        for name in expected {
            assert!(
                cluster.get("ClusterServiceVersion", "shop", &name).is_none(),
                "{name}"
            );
        }
    }
}

/// A user may name any version in `spec.replaces`.
#[tokio::test(start_paused = true)]
async fn a_version_of_another_subscription_stays() {
    let cluster = cluster();
    cluster.put(successor("2.0.0", "Succeeded", "etcd.v1.0.0"));
    cluster.put(successor("3.0.0", "Succeeded", "etcd.v3.0.0"));
    let status = json!({"installedCSV": "etcd.v2.0.0", "currentCSV": "etcd.v2.0.0"});
    cluster.put(subscription("other", &status));
    let removal = looked(&cluster, &[]).await.unwrap();
    let names: Vec<String> = removal.csvs.iter().map(|csv| csv.name_any()).collect();
    assert_eq!(names, ["etcd.v1.0.0"]);
}

/// Its approval would install the operator again.
#[tokio::test(start_paused = true)]
async fn a_plan_that_is_for_nobody_else_goes_with_the_operator() {
    for (approved, state) in [(false, "is waiting for approval"), (true, "is in progress")] {
        let cluster = upgrading(approved);
        let removal = looked(&cluster, &[]).await.unwrap();
        let told = removal.to_string();
        let line = format!(
            "deletes  InstallPlan install-1 in namespace shop, which {state} and installs etcd.v2.0.0\n"
        );
        assert!(told.contains(&line), "{told}");
        let (is_gone, told) = removed(&cluster, &removal).await;
        assert!(is_gone, "{told:?}");
        assert_eq!(told[1], "InstallPlan install-1 in namespace shop deleted");
        assert!(cluster.get("InstallPlan", "shop", "install-1").is_none());
    }
    // A completed plan has no effect.
    let cluster = upgrading(true);
    cluster.put(plan("install-1", "Complete", true));
    assert!(looked(&cluster, &[]).await.unwrap().plans.is_empty());
    // A plan that replaces the installed version counts even before a Subscription refers to it.
    let cluster = self::cluster();
    let mut next = plan("install-2", "RequiresApproval", false);
    let step = json!({"resolving": "etcd.v2.0.0", "status": "Unknown", "resource": {"sourceName": "", "sourceNamespace": "",
        "group": "", "version": "v1alpha1", "kind": "ClusterServiceVersion", "name": "etcd.v2.0.0",
        "manifest": "{\"spec\": {\"replaces\": \"etcd.v1.0.0\"}}"}});
    next["status"]["plan"] = json!([step]);
    cluster.put(next);
    assert_eq!(looked(&cluster, &[]).await.unwrap().plans.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_plan_on_its_way_for_others_is_to_be_waited_for() {
    let other = subscription(
        "other",
        &json!({"installPlanRef": {"name": "install-1"}, "state": "UpgradePending"}),
    );
    let cluster = upgrading(true);
    cluster.put(other.clone());
    let error = looked(&cluster, &[]).await.unwrap_err().to_string();
    for part in [
        "cannot uninstall db: InstallPlan install-1 is in progress, also for other",
        "`kubectl operator status db -n shop --context 'a b' --kubeconfig /k --watch`",
    ] {
        assert!(error.contains(part), "{error}");
    }
    // A waiting plan stays, and is reported.
    let cluster = upgrading(false);
    cluster.put(other);
    let removal = looked(&cluster, &[]).await.unwrap();
    let told = removal.to_string();
    assert!(
        told.contains("note: InstallPlan install-1 is kept because it is also for other"),
        "{told}"
    );
    let (is_gone, _) = removed(&cluster, &removal).await;
    assert!(is_gone);
    assert!(cluster.get("InstallPlan", "shop", "install-1").is_some());
}

/// OLM was already running the plan when it was deleted.
#[tokio::test(start_paused = true)]
async fn objects_created_meanwhile_are_not_reported_as_gone() {
    let replaces = json!({"spec": {"replaces": "etcd.v1.0.0"}});
    for (name, change) in [("etcd.v2.0.0", json!({})), ("etcd.v3.0.0", replaces)] {
        let cluster = upgrading(true);
        let removal = looked(&cluster, &[]).await.unwrap();
        let later = cluster.clone();
        let comes = async move {
            tokio::time::sleep(Duration::from_secs(1)).await;
            let mut new = csv("2.0.0", "Pending", "");
            new["metadata"]["name"] = json!(name);
            olm_testing::patch::merge(&mut new, &change);
            later.put(new);
        };
        let ((is_gone, _), ()) = tokio::join!(removed(&cluster, &removal), comes);
        assert!(!is_gone, "{name}");
        assert!(
            cluster.get("ClusterServiceVersion", "shop", name).is_some(),
            "it was not shown"
        );
    }
    // The same applies to a new plan.
    let cluster = cluster();
    let removal = looked(&cluster, &[]).await.unwrap();
    let mut new = plan("install-2", "Installing", true);
    new["spec"]["clusterServiceVersionNames"] = json!(["etcd.v1.0.0"]);
    cluster.put(new);
    assert!(!removed(&cluster, &removal).await.0);
}

/// Otherwise no operator would be left to remove its objects' finalizers.
#[tokio::test(start_paused = true)]
async fn a_definition_that_cannot_be_read_keeps_everything() {
    let refuse = |code| {
        move |request: &olm_testing::cluster::Request| {
            let is_read = request.kind.kind == "CustomResourceDefinition" && !request.verb.writes();
            is_read.then(|| Fault::Refuse(Refusal::new(code, "Nope", "etcdserver: no leader")))
        }
    };
    for code in [403, 500] {
        let cluster = cluster();
        cluster.on_request(refuse(code));
        let error = looked(&cluster, &[CRD]).await.unwrap_err().to_string();
        assert!(
            error.contains("cannot read CustomResourceDefinition etcds.example.com: etcdserver: no leader")
                && error.ends_with("nothing was uninstalled"),
            "{error}"
        );
        assert!(cluster.log().writes.is_empty());
        // A definition that stays may be unknown.
        let told = looked(&cluster, &[]).await.unwrap().to_string();
        assert!(told.contains("unknown objects"), "{told}");
    }
}

/// An account with permissions on Subscriptions only would leave an operator without one.
#[tokio::test(start_paused = true)]
async fn a_missing_permission_is_named_before_anything_is_deleted() {
    for (kind, expected) in [
        ("Subscription", "Subscription db in namespace shop"),
        ("InstallPlan", "InstallPlan install-1 in namespace shop"),
        (
            "ClusterServiceVersion",
            "ClusterServiceVersion etcd.v1.0.0 in namespace shop",
        ),
    ] {
        let cluster = upgrading(true);
        let removal = looked(&cluster, &[]).await.unwrap();
        let (client, _link) = cluster.connect();
        check_permissions(&client, &removal, "db").await.unwrap();
        cluster.on_request(move |request| {
            let is_refused = request.kind.kind == kind && request.verb.writes();
            is_refused.then(|| Fault::Refuse(Refusal::new(403, "Forbidden", "is forbidden")))
        });
        let refused = check_permissions(&client, &removal, "db").await.unwrap_err();
        let text = format!(
            "cannot uninstall db, so nothing was changed: you have no permission to delete {expected}; request it, or see \
             `kubectl auth can-i --list -n shop --context 'a b' --kubeconfig /k`"
        );
        assert_eq!(refused.to_string(), text);
        assert!(cluster.log().writes.is_empty());
    }
}

/// Upstream's plugin deletes no InstallPlan, and such a user can uninstall with it.
#[tokio::test(start_paused = true)]
async fn a_waiting_plan_that_may_not_be_deleted_is_kept() {
    let cluster = upgrading(false);
    cluster.on_request(|request| {
        let is_refused = request.kind.kind == "InstallPlan" && request.verb.writes();
        is_refused.then(|| Fault::Refuse(Refusal::new(403, "Forbidden", "is forbidden")))
    });
    let mut removal = looked(&cluster, &[]).await.unwrap();
    let (client, _link) = cluster.connect();
    keep_plans(&client, &mut removal, "db").await;
    check_permissions(&client, &removal, "db").await.unwrap();
    let note = "note: InstallPlan install-1 is not deleted because you have no permission to delete it; while it exists, approving it \
                installs db again\n";
    let shown = removal.to_string();
    assert!(
        shown.contains(note) && !shown.contains("deletes  InstallPlan"),
        "{shown}"
    );
    let (is_gone, told) = removed(&cluster, &removal).await;
    assert!(is_gone, "{told:?}");
    assert!(cluster.get("InstallPlan", "shop", "install-1").is_some());
}

#[tokio::test(start_paused = true)]
async fn a_refused_step_reports_the_way_out() {
    let expected = "kubectl operator uninstall etcd.v1.0.0 -n shop --context 'a b' --kubeconfig /k --delete-crd etcds.example.com";
    for kind in ["CustomResourceDefinition", "ClusterServiceVersion"] {
        let cluster = cluster();
        let removal = looked(&cluster, &[CRD]).await.unwrap();
        cluster.on_request(move |request| {
            let is_refused = request.kind.kind == kind && request.verb.writes();
            is_refused.then(|| Fault::Refuse(Refusal::new(403, "Forbidden", "is forbidden")))
        });
        let (result, _) = try_removed(&cluster, &removal).await;
        let error = result.unwrap_err().to_string();
        assert!(error.contains("is forbidden"), "{error}");
        assert!(
            error.ends_with(&format!("; to continue: `{expected}`")),
            "{error}"
        );
        // The suggested command works.
        cluster.clear_hooks();
        let (client, _link) = cluster.connect();
        let args = uninstall_args("etcd.v1.0.0", &[]);
        look(&Cluster::of(client, "shop"), &args).await.unwrap();
    }
    // No ClusterServiceVersion exists yet.
    let cluster = upgrading(true);
    cluster.delete("ClusterServiceVersion", "shop", "etcd.v1.0.0");
    let removal = looked(&cluster, &[]).await.unwrap();
    assert_eq!(
        removal.again(),
        "`kubectl delete installplan install-1 -n shop --context 'a b' --kubeconfig /k`"
    );
}

/// A definition that another operator owns is still managed.
#[tokio::test(start_paused = true)]
async fn objects_of_others_are_not_reported_as_left_behind() {
    let cluster = cluster();
    let mut other = owner("9.0.0");
    other["metadata"]["namespace"] = json!("other");
    cluster.put(other);
    let text = looked(&cluster, &[]).await.unwrap().to_string();
    assert!(text.contains("also owned by other/etcd.v9.0.0"), "{text}");
    assert!(!text.contains("no operator manages"), "{text}");
}
