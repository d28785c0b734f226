use k8s_openapi::serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::*;
use crate::terminal::Colours;

mod chains;
mod lacks;
mod plans;

/// Returns an object in the namespace `shop`, with these fields besides its metadata.
pub(crate) fn object(kind: &str, name: &str, rest: &Value) -> Value {
    let group = match kind {
        "Deployment" => "apps/v1",
        "Pod" => "v1",
        _ => "operators.coreos.com/v1alpha1",
    };
    let mut object =
        json!({"apiVersion": group, "kind": kind, "metadata": {"namespace": "shop", "name": name}});
    for (field, value) in rest.as_object().unwrap() {
        match field.as_str() {
            "metadata" => olm_testing::patch::merge(&mut object["metadata"], value),
            _ => object[field] = value.clone(),
        }
    }
    object
}

fn typed<T: DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

/// Returns a Subscription `name` of the package etcd.
pub(crate) fn subscription(name: &str, status: &Value) -> Value {
    let spec = json!({"name": "etcd", "channel": "stable", "source": "cat", "sourceNamespace": "olm"});
    let mut status = status.clone();
    status["lastUpdated"] = Value::Null;
    object("Subscription", name, &json!({"spec": spec, "status": status}))
}

/// Returns a ClusterServiceVersion `etcd.vVERSION` with a Deployment `etcd`.
pub(crate) fn csv(version: &str, phase: &str, message: &str) -> Value {
    let deployments = json!([{"name": "etcd", "spec": {}}]);
    let spec = json!({"version": version, "install": {"strategy": "deployment", "spec": {"deployments": deployments}}});
    let status = json!({"phase": phase, "message": message});
    object(
        "ClusterServiceVersion",
        &format!("etcd.v{version}"),
        &json!({"spec": spec, "status": status}),
    )
}

/// Returns an InstallPlan `name` in a phase.
pub(crate) fn plan(name: &str, phase: &str, approved: bool) -> Value {
    let spec =
        json!({"clusterServiceVersionNames": ["etcd.v2.0.0"], "approval": "Manual", "approved": approved});
    object(
        "InstallPlan",
        name,
        &json!({"spec": spec, "status": {"phase": phase, "catalogSources": []}}),
    )
}

/// Returns the Deployment etcd with this number of available replicas out of two.
pub(crate) fn deployment(available: i64) -> Value {
    let spec = json!({"replicas": 2, "selector": {"matchLabels": {"app": "etcd"}}, "template": {}});
    let status = json!({"availableReplicas": available, "updatedReplicas": 2, "observedGeneration": 1});
    object(
        "Deployment",
        "etcd",
        &json!({"metadata": {"generation": 1}, "spec": spec, "status": status}),
    )
}

/// Returns a pod of that Deployment.
pub(crate) fn pod(name: &str, status: &Value) -> Value {
    object(
        "Pod",
        name,
        &json!({"metadata": {"labels": {"app": "etcd"}}, "status": status}),
    )
}

/// Returns objects as if they had been read.
pub(crate) fn gathered_of(objects: impl IntoIterator<Item = Value>) -> Gathered {
    let mut gathered = Gathered::default();
    for object in objects {
        let name = |field: &str| object["metadata"][field].as_str().unwrap_or_default().to_owned();
        let key = (name("namespace"), name("name"));
        let etcd = || (key.0.clone(), "etcd".to_owned());
        match object["kind"].as_str().unwrap() {
            "Subscription" => gathered.subscriptions.push(typed(object)),
            "InstallPlan" => drop(gathered.plans.insert(key, typed(object))),
            "ClusterServiceVersion" => drop(gathered.csvs.insert(key, typed(object))),
            "Deployment" => gathered.workloads.entry(key).or_default().deployment = Some(typed(object)),
            _ => gathered
                .workloads
                .entry(etcd())
                .or_default()
                .pods
                .push(typed(object)),
        }
    }
    gathered
}

/// Returns one operator in each state.
pub(crate) fn gathered() -> Gathered {
    let condition =
        |type_: &str, message: &str| json!([{"type": type_, "status": "True", "message": message}]);
    gathered_of([
        subscription(
            "ready",
            &json!({"installedCSV": "etcd.v1.0.0", "currentCSV": "etcd.v1.0.0", "state": "AtLatestKnown"}),
        ),
        csv("1.0.0", "Succeeded", "install strategy completed with no errors"),
        subscription(
            "waits",
            &json!({"installedCSV": "etcd.v1.0.0", "currentCSV": "etcd.v2.0.0", "state": "UpgradePending",
                "installPlanRef": {"name": "install-1"}}),
        ),
        plan("install-1", "RequiresApproval", false),
        subscription("new", &json!({})),
        subscription(
            "wrong",
            &json!({"conditions": condition("ResolutionFailed", "no \u{1b}[2Joperators found")}),
        ),
        csv("9.0.0", "Failed", "no group"),
    ])
}

fn one(objects: impl IntoIterator<Item = Value>) -> (Verdict, String) {
    let gathered = gathered_of(objects);
    let operators = gathered.operators();
    assert_eq!(operators.len(), 1, "{operators:?}");
    let tree = gathered.tree(&operators[0], &CommandLine::default());
    (operators[0].verdict(), lines(&[tree], Colours(false)).join("\n"))
}

#[test]
fn a_tree_shows_what_each_object_waits_for() {
    let pulling = json!({"phase": "Pending", "containerStatuses": [{"name": "etcd", "image": "", "imageID": "", "ready": false,
        "restartCount": 0, "state": {"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}}}]});
    let unscheduled = json!({"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False",
        "message": "0/1 nodes are available"}]});
    let (verdict, text) = one([
        subscription(
            "db",
            &json!({"installedCSV": "etcd.v1.0.0", "currentCSV": "etcd.v2.0.0", "state": "UpgradePending",
                "installPlanRef": {"name": "install-1"}}),
        ),
        plan("install-1", "Complete", true),
        csv("1.0.0", "Replacing", "being replaced by csv: etcd.v2.0.0"),
        csv(
            "2.0.0",
            "Installing",
            "waiting for deployment etcd to become ready",
        ),
        deployment(1),
        pod("etcd-1", &pulling),
        pod("etcd-2", &unscheduled),
        pod(
            "etcd-3",
            &json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}),
        ),
    ]);
    assert_eq!(verdict.state, State::Upgrading);
    insta::assert_snapshot!(text, @r"
    Subscription shop/db: Upgrading (1.0.0 installed), ClusterServiceVersion etcd.v2.0.0: waiting for deployment etcd to become ready
    ├─ InstallPlan install-1: Complete
    ├─ ClusterServiceVersion etcd.v1.0.0: Replacing, being replaced by csv: etcd.v2.0.0
    └─ ClusterServiceVersion etcd.v2.0.0: Installing, waiting for deployment etcd to become ready
       └─ Deployment etcd: 1 of 2 available, waiting for its pods
          ├─ Pod etcd-1: Pending, container etcd: ImagePullBackOff (no such image)
          ├─ Pod etcd-2: Pending, waiting for a node: 0/1 nodes are available
          └─ Pod etcd-3: Ready
    ");
}

#[test]
fn what_went_wrong_counts_before_what_is_on_its_way() {
    let failed = |type_: &str| json!([{"type": type_, "status": "True", "message": "because"}]);
    for (type_, state) in [
        ("ResolutionFailed", State::Unresolved),
        ("BundleUnpackFailed", State::Failed),
        ("InstallPlanFailed", State::Failed),
        ("BundleUnpacking", State::Pending),
        ("CatalogSourcesUnhealthy", State::Pending),
    ] {
        let (verdict, _) = one([subscription("db", &json!({"conditions": failed(type_)}))]);
        assert_eq!(
            (verdict.state, verdict.message.as_str()),
            (state, "because"),
            "{type_}"
        );
    }
    let status = json!({"conditions": failed("ResolutionFailed"), "installedCSV": "etcd.v1.0.0", "currentCSV": "etcd.v1.0.0"});
    let (verdict, _) = one([subscription("db", &status), csv("1.0.0", "Succeeded", "")]);
    assert_eq!(verdict.state, State::Unresolved);
    // A condition that is no longer true has no effect.
    let mut over = status;
    over["conditions"][0]["status"] = json!("False");
    let (verdict, _) = one([subscription("db", &over), csv("1.0.0", "Succeeded", "")]);
    assert_eq!(verdict.state, State::Ready);
}

/// `kubectl wait` and Flux read the condition, and must not see another cause.
#[test]
fn the_cause_in_condition_ready_is_reported() {
    let obstacles = olm_api::condition::subscription::OBSTACLES;
    for (at, first) in obstacles.into_iter().enumerate() {
        for second in obstacles.into_iter().skip(at + 1) {
            let conditions =
                [second, first].map(|type_| json!({"type": type_, "status": "True", "message": type_}));
            let (verdict, _) = one([subscription("db", &json!({"conditions": conditions}))]);
            assert_eq!(verdict.message, first, "beside {second}");
        }
    }
}

#[test]
fn only_what_is_ready_down_to_its_deployments_is_well() {
    let status = json!({"installedCSV": "etcd.v1.0.0", "currentCSV": "etcd.v1.0.0"});
    for (available, is_fine) in [(2, true), (1, false)] {
        let gathered = gathered_of([
            subscription("db", &status),
            csv("1.0.0", "Succeeded", ""),
            deployment(available),
        ]);
        let tree = gathered.tree(&gathered.operators()[0], &CommandLine::default());
        assert_eq!(tree.is_fine(), is_fine, "{available}");
        assert_eq!(tree.mark, crate::terminal::Mark::Fine);
    }
}

#[test]
fn requirements_that_are_missing_are_named_and_not_without_end() {
    let mut waits = csv("1.0.0", "Pending", "one or more requirements couldn't be found");
    let requirement = |number: usize| {
        json!({"group": "", "version": "v1", "kind": "CustomResourceDefinition", "name": format!("crd{number}"),
            "status": if number == 0 { "Present" } else { "NotPresent" }, "message": "CRD is not present"})
    };
    waits["status"]["requirementStatus"] = json!((0..9).map(requirement).collect::<Vec<_>>());
    let (_, text) = one([waits]);
    assert!(
        text.contains("crd1 (CRD is not present)") && text.ends_with("; and 3 more"),
        "{text}"
    );
    assert!(!text.contains("crd0"), "{text}");
}

#[test]
fn what_may_not_be_seen_holds_nothing_up() {
    let status = json!({"installedCSV": "etcd.v1.0.0", "currentCSV": "etcd.v1.0.0"});
    let mut gathered = gathered_of([subscription("db", &status), csv("1.0.0", "Succeeded", "")]);
    let workload = Workload {
        unread: Some("forbidden".to_owned()),
        ..Workload::default()
    };
    gathered
        .workloads
        .insert(("shop".to_owned(), "etcd".to_owned()), workload);
    let tree = gathered.tree(&gathered.operators()[0], &CommandLine::default());
    assert!(tree.is_fine());
    let text = lines(&[tree], Colours(false)).join("\n");
    assert!(text.ends_with("Deployment etcd: Unknown, forbidden"), "{text}");
}

#[test]
fn thousands_of_pods_are_counted() {
    let pods = (0..1000).map(|number| pod(&format!("etcd-{number}"), &json!({"phase": "Pending"})));
    let status = json!({"installedCSV": "etcd.v1.0.0", "currentCSV": "etcd.v1.0.0"});
    let objects = [
        subscription("db", &status),
        csv("1.0.0", "Succeeded", ""),
        deployment(0),
    ];
    let (_, text) = one(objects.into_iter().chain(pods));
    assert_eq!(text.lines().count(), 14, "{text}");
    assert!(text.ends_with("Pods others: 990 more"), "{text}");
}

#[test]
fn what_runs_while_its_next_version_waits_for_approval_is_fine_for_now() {
    let status = json!({"installedCSV": "etcd.v1.0.0", "currentCSV": "etcd.v2.0.0", "installPlanRef": {"name": "install-1"}});
    for (phase, csv_phase, expected) in [
        ("RequiresApproval", Some("Succeeded"), true),
        ("RequiresApproval", Some("Installing"), false),
        ("RequiresApproval", None, false),
        ("Failed", Some("Succeeded"), false),
    ] {
        let csv = csv_phase.map(|phase| csv("1.0.0", phase, ""));
        let objects = [subscription("db", &status), plan("install-1", phase, false)];
        let gathered = gathered_of(objects.into_iter().chain(csv));
        let tree = gathered.tree(&gathered.operators()[0], &CommandLine::default());
        assert!(!tree.is_fine());
        assert_eq!(tree.is_fine_for_now(), expected, "{phase} {csv_phase:?}");
    }
}

/// OLM reports a version as installed as soon as its ClusterServiceVersion is created.
#[test]
fn a_first_install_that_is_half_done_is_no_upgrade() {
    let status = json!({"installedCSV": "etcd.v2.0.0", "currentCSV": "etcd.v2.0.0", "installPlanRef": {"name": "install-1"}});
    let first = || {
        vec![
            subscription("db", &status),
            csv("2.0.0", "Pending", "requirements not met"),
        ]
    };
    let told = |objects: Vec<Value>| {
        let (verdict, text) = one(objects);
        (verdict.state, text.lines().next().unwrap().to_owned())
    };
    for phase in ["Installing", "Complete"] {
        let mut objects = first();
        objects.push(plan("install-1", phase, true));
        let (state, text) = told(objects);
        assert_eq!(state, State::Installing, "{phase}");
        assert!(text.starts_with("Subscription shop/db: Installing, "), "{text}");
    }
    // An upgrade in the same phase: the replaced version still exists.
    let mut objects = first();
    objects[1]["spec"]["replaces"] = json!("etcd.v1.0.0");
    objects.push(csv("1.0.0", "Replacing", ""));
    let (state, text) = told(objects);
    assert_eq!(state, State::Upgrading);
    assert!(
        text.starts_with("Subscription shop/db: Upgrading (1.0.0 installed), "),
        "{text}"
    );
    // A plan for a newer version than the installed one.
    let status = json!({"installedCSV": "etcd.v1.0.0", "currentCSV": "etcd.v1.0.0", "installPlanRef": {"name": "install-1"}});
    let objects = vec![
        subscription("db", &status),
        csv("1.0.0", "Succeeded", ""),
        plan("install-1", "Installing", true),
    ];
    assert_eq!(told(objects).0, State::Upgrading);
}

#[test]
fn a_plan_that_waits_shows_what_it_changes_and_no_other() {
    let status = json!({"installedCSV": "etcd.v1.0.0", "currentCSV": "etcd.v2.0.0", "installPlanRef": {"name": "install-1"}});
    let preview = json!({"version": 1, "objects": [{"verb": "create", "kind": "Role", "name": "r\n├─ Pod x", "namespace": "shop"}],
        "permissions": [{"subject": "ServiceAccount etcd", "lost": [{"resource": "pods", "verbs": ["get"]}]}]});
    let tree = |approved: bool| {
        let mut waits = plan("install-1", "RequiresApproval", approved);
        waits["metadata"]["annotations"] = json!({olm_api::labels::PLAN_PREVIEW: preview.to_string()});
        let objects = [subscription("db", &status), csv("1.0.0", "Succeeded", ""), waits];
        let gathered = gathered_of(objects);
        gathered.tree(&gathered.operators()[0], &CommandLine::default())
    };
    insta::assert_snapshot!(lines(&[tree(false)], Colours(false)).join("\n"), @r#"
    Subscription shop/db: RequiresApproval (1.0.0 installed), InstallPlan install-1: waiting for approval
    ├─ InstallPlan install-1: RequiresApproval, waiting for approval, see kubectl operator approve install-1 -n shop
    │     - ServiceAccount etcd in the whole cluster: get pods
    │     + Role shop/"r\n├─ Pod x"
    └─ ClusterServiceVersion etcd.v1.0.0: Succeeded
    "#);
    assert!(tree(true).objects[0].notes.is_empty());
}

#[test]
fn a_plan_waits_for_its_own_cause_or_for_that_of_the_subscription() {
    let policy = "waiting by policy: the maintenance window opens at 2026-01-03T02:00:00+00:00";
    let both = format!("no group; {policy}");
    let approve = "see kubectl operator approve install-1 -n shop";
    let held = "RequiresApproval";
    for (phase, own, annotation, pending, of_subscription, of_plan) in [
        (
            held,
            "",
            "",
            "",
            "InstallPlan install-1: waiting for approval".to_owned(),
            format!("RequiresApproval, waiting for approval, {approve}"),
        ),
        (
            held,
            "",
            "",
            "no group",
            "InstallPlan install-1: no group; waiting for approval".to_owned(),
            format!("RequiresApproval, no group; waiting for approval, {approve}"),
        ),
        (
            held,
            "",
            policy,
            policy,
            format!("InstallPlan install-1: {policy}"),
            format!("RequiresApproval, {policy}; to approve it now, {approve}"),
        ),
        (
            held,
            "no group",
            policy,
            both.as_str(),
            format!("InstallPlan install-1: {both}"),
            format!("RequiresApproval, {both}; to approve it now, {approve}"),
        ),
        (
            "Installing",
            "",
            "",
            "unpacking a.",
            "InstallPlan install-1: unpacking a.".to_owned(),
            "Installing, unpacking a.".to_owned(),
        ),
        (
            "Installing",
            "retrying",
            "",
            "former",
            "InstallPlan install-1: retrying".to_owned(),
            "Installing, retrying".to_owned(),
        ),
        (
            "Installing",
            "",
            "",
            "",
            "InstallPlan install-1: waiting for OLM to create its objects".to_owned(),
            "Installing, waiting for OLM to create its objects".to_owned(),
        ),
        (
            "Failed",
            "",
            "",
            "no rights",
            "InstallPlan install-1: no rights".to_owned(),
            "Failed, no rights".to_owned(),
        ),
        (
            "Failed",
            "",
            "",
            "",
            "InstallPlan install-1: its status names no cause".to_owned(),
            "Failed, its status names no cause".to_owned(),
        ),
    ] {
        let type_ = match phase {
            "Failed" => "InstallPlanFailed",
            _ => "InstallPlanPending",
        };
        let conditions = json!([{"type": type_, "status": "True", "message": pending}]);
        let status = json!({"installPlanRef": {"name": "install-1"}, "conditions": conditions});
        let mut waits = plan("install-1", phase, phase != held);
        waits["status"]["message"] = json!(own);
        if !annotation.is_empty() {
            waits["metadata"]["annotations"] = json!({olm_api::labels::UPGRADE_WAITS: annotation});
        }
        let (verdict, text) = one([subscription("db", &status), waits]);
        assert_eq!(verdict.message, of_subscription);
        assert!(
            text.ends_with(&format!("InstallPlan install-1: {of_plan}")),
            "{text}"
        );
    }
}

#[test]
fn list_and_status_agree_on_what_is_installed() {
    let status = json!({"installedCSV": "etcd.v2.0.0", "currentCSV": "etcd.v2.0.0"});
    for (phase, is_upgrade, installed) in [
        ("Installing", true, "1.0.0"),
        ("Failed", true, "1.0.0"),
        ("Succeeded", true, "2.0.0"),
        ("Installing", false, ""),
        ("Failed", false, ""),
        ("Succeeded", false, "2.0.0"),
    ] {
        let mut objects = vec![subscription("db", &status), csv("2.0.0", phase, "")];
        if is_upgrade {
            objects[1]["spec"]["replaces"] = json!("etcd.v1.0.0");
            objects.push(csv("1.0.0", "Replacing", ""));
        }
        let gathered = gathered_of(objects);
        let operators = gathered.operators();
        let row = operators[0].row();
        assert_eq!(row.installed_version, installed, "{phase} {is_upgrade}");
        assert_eq!(row.current_version, "2.0.0");
        let tree = gathered.tree(&operators[0], &CommandLine::default());
        let line = lines(&[tree], Colours(false)).swap_remove(0);
        let told = line
            .split_once(" (")
            .and_then(|(_, rest)| rest.split_once(" installed)"));
        assert_eq!(
            told.map_or("", |(version, _)| version),
            installed,
            "{phase} {is_upgrade}: {line}"
        );
    }
}

#[test]
fn a_long_cause_is_printed_once() {
    let quota =
        "pods \"etcd-1\" is forbidden: exceeded quota: q, requested: pods=1, used: pods=3, limited: pods=3";
    let status = json!({"installedCSV": "etcd.v2.0.0", "currentCSV": "etcd.v2.0.0"});
    let mut short = deployment(0);
    short["status"]["conditions"] = json!([{"type": "ReplicaFailure", "status": "True", "message": quota}]);
    let message = format!("install strategy failed: {quota}");
    let (_, text) = one([
        subscription("db", &status),
        csv("2.0.0", "Failed", &message),
        short,
    ]);
    assert_eq!(text.matches("exceeded quota").count(), 1, "{text}");
    for object in [
        "ClusterServiceVersion etcd.v2.0.0: Failed",
        "Deployment etcd: 0 of 2 available",
    ] {
        assert!(
            text.contains(&format!("{object}, for the reason above")),
            "{text}"
        );
    }
}

#[test]
fn a_version_that_never_succeeded_is_not_installed() {
    let unresolved = json!([{"type": "ResolutionFailed", "status": "True", "message": "no"}]);
    for (current, phase) in [("etcd.v2.0.0", "Pending"), ("etcd.v3.0.0", "Failed")] {
        let status = json!({"installedCSV": "etcd.v2.0.0", "currentCSV": current, "conditions": unresolved});
        let gathered = gathered_of([subscription("db", &status), csv("2.0.0", phase, "quota")]);
        let row = gathered.operators()[0].row();
        assert_eq!(row.installed_version, "", "{current} {phase}: {row:?}");
    }
}

#[test]
fn what_never_succeeded_is_not_installed_although_the_next_plan_waits() {
    let status = json!({"installedCSV": "etcd.v1.0.0", "currentCSV": "etcd.v2.0.0", "state": "UpgradePending",
        "installPlanRef": {"name": "install-1"}});
    for (phase, installed) in [
        ("Failed", ""),
        ("Installing", ""),
        ("Succeeded", "1.0.0"),
        ("Replacing", "1.0.0"),
    ] {
        let gathered = gathered_of([
            subscription("db", &status),
            csv("1.0.0", phase, ""),
            plan("install-1", "RequiresApproval", false),
        ]);
        let row = gathered.operators()[0].row();
        assert_eq!(
            (row.installed_version.as_str(), row.current_version.as_str()),
            (installed, "2.0.0"),
            "{phase}"
        );
    }
}

#[test]
fn a_version_that_fails_after_it_succeeded_is_installed() {
    let status = json!({"installedCSV": "etcd.v2.0.0", "currentCSV": "etcd.v2.0.0"});
    let mut failed = csv("2.0.0", "Failed", "");
    failed["status"]["conditions"] = json!([{"phase": "Succeeded"}, {"phase": "Failed"}]);
    let gathered = gathered_of([subscription("db", &status), failed]);
    assert_eq!(gathered.operators()[0].row().installed_version, "2.0.0");
}

#[test]
fn what_a_failed_version_did_not_create_does_not_hide_its_cause() {
    let status = json!({"installedCSV": "etcd.v1.0.0", "currentCSV": "etcd.v1.0.0"});
    let mut gathered = gathered_of([subscription("db", &status), csv("1.0.0", "Failed", "no group")]);
    gathered
        .workloads
        .insert(("shop".to_owned(), "etcd".to_owned()), Workload::default());
    let tree = gathered.tree(&gathered.operators()[0], &CommandLine::default());
    assert_eq!(
        tree.waits_for(),
        "ClusterServiceVersion etcd.v1.0.0: Failed, no group"
    );
    let text = lines(&[tree], Colours(false)).join("\n");
    assert!(
        text.ends_with("Deployment etcd: Missing, ClusterServiceVersion etcd.v1.0.0 failed"),
        "{text}"
    );
}
