use std::time::Duration;

use kube::Client;
use olm_testing::cluster::{FakeCluster, Fault, Refusal};
use serde_json::Value;

use super::*;
use crate::operators::flat;
use crate::operators::tests::{csv, deployment, gathered, gathered_of, plan, pod, subscription};

const READY: &str = r#"{"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}"#;

fn cluster(available: i64) -> FakeCluster {
    let cluster = FakeCluster::new();
    let status = json!({"installedCSV": "etcd.v1.0.0", "currentCSV": "etcd.v1.0.0", "state": "AtLatestKnown",
        "installPlanRef": {"name": "install-1"}});
    cluster.put(subscription("db", &status));
    cluster.put(plan("install-1", "Complete", true));
    cluster.put(csv("1.0.0", "Succeeded", ""));
    cluster.put(deployment(available));
    cluster.put(pod("etcd-1", &serde_json::from_str(READY).unwrap()));
    cluster
}

fn wait(seconds: u64) -> WaitArgs {
    WaitArgs {
        timeout: Some(Duration::from_secs(seconds)),
    }
}

async fn watched(client: &Client, seconds: u64) -> (anyhow::Result<Watched>, String) {
    let mut to = Vec::new();
    let mut screen = Screen::new(&mut to, None);
    let cluster = Cluster::of(client.clone(), "shop");
    let result = watch(
        &cluster,
        Some("shop"),
        Some("db"),
        None,
        &wait(seconds),
        &mut screen,
    )
    .await;
    drop(screen);
    (result, String::from_utf8(to).unwrap())
}

/// Asserts that a watch ends when something has lasted for a moment, or else goes on to its timeout.
async fn assert_watch(cluster: &FakeCluster, ends: bool, what: &str) {
    let (client, _link) = cluster.connect();
    let start = tokio::time::Instant::now();
    let (result, _) = watched(&client, 600).await;
    let expected = match ends {
        true => Outcome::Over,
        false => Outcome::Waits,
    };
    assert_eq!(result.unwrap().outcome, expected, "{what}");
    let seconds = start.elapsed().as_secs();
    assert_eq!((15..30).contains(&seconds), ends, "{what}: {seconds} s");
}

async fn read(cluster: &Cluster, namespace: Option<&str>, name: Option<&str>) -> anyhow::Result<Vec<Node>> {
    let gathered = super::gathered(&cluster.client, namespace, name).await?;
    trees(&gathered, namespace, name, &cluster.commands)
}

#[tokio::test(start_paused = true)]
async fn an_operator_is_shown_from_its_subscription_to_its_pods() {
    let cluster = cluster(2);
    let (client, _link) = cluster.connect();
    let nodes = read(&Cluster::of(client.clone(), "shop"), Some("shop"), Some("db"))
        .await
        .unwrap();
    insta::assert_snapshot!(lines(&nodes, Colours(false)).join("\n"), @r"
    Subscription shop/db: Ready (1.0.0 installed)
    ├─ InstallPlan install-1: Complete
    └─ ClusterServiceVersion etcd.v1.0.0: Succeeded
       └─ Deployment etcd: 2 of 2 available
          └─ Pod etcd-1: Ready
    ");
    assert!(nodes.iter().all(Node::is_fine));
    assert!(cluster.log().writes.is_empty());
}

#[tokio::test(start_paused = true)]
async fn watching_ends_when_all_is_ready_and_reports_each_change() {
    let cluster = cluster(1);
    let (client, _link) = cluster.connect();
    let later = cluster.clone();
    let change = async move {
        tokio::time::sleep(Duration::from_secs(10)).await;
        later.put(deployment(2));
    };
    let ((result, text), ()) = tokio::join!(watched(&client, 60), change);
    assert_eq!(result.unwrap().outcome, Outcome::Done);
    let changes: Vec<&str> = text.lines().filter(|line| line.contains("Deployment")).collect();
    assert_eq!(
        changes,
        [
            "shop/db: Deployment etcd: 1 of 2 available, waiting for its pods",
            "shop/db: Deployment etcd: 2 of 2 available"
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn what_does_not_get_ready_in_time_is_not_fine() {
    let cluster = cluster(1);
    let (client, _link) = cluster.connect();
    let (result, _) = watched(&client, 30).await;
    assert_eq!(result.unwrap().outcome, Outcome::Waits);

    cluster.on_request(|_| Some(Fault::Hang));
    let (result, _) = watched(&client, 30).await;
    assert_eq!(
        result.unwrap().shortfall(&wait(30)).as_deref(),
        Some("not ready after 30 s: no answer from the cluster")
    );
}

/// Watching must end if a plan waits for the user's own approval.
#[tokio::test(start_paused = true)]
async fn a_plan_that_needs_somebody_ends_the_watch() {
    let cluster = cluster(2);
    let status = json!({"status": {"state": "UpgradePending", "currentCSV": "etcd.v2.0.0"}});
    assert!(cluster.edit("Subscription", "shop", "db", &status));
    cluster.put(plan("install-1", "RequiresApproval", false));
    let (client, _link) = cluster.connect();
    let start = tokio::time::Instant::now();
    let (result, text) = watched(&client, 600).await;
    assert_eq!(result.unwrap().outcome, Outcome::Over);
    assert!(start.elapsed() < Duration::from_secs(2));
    assert!(
        text.contains("waiting for approval, see kubectl operator approve"),
        "{text}"
    );
    // An approved plan is still running.
    cluster.put(plan("install-1", "RequiresApproval", true));
    let start = tokio::time::Instant::now();
    let (result, _) = watched(&client, 600).await;
    assert_eq!(result.unwrap().outcome, Outcome::Waits);
    assert!(start.elapsed() > Duration::from_secs(500));
}

/// The next version may not need what this one lacks. One that is only being installed is waited for.
#[tokio::test(start_paused = true)]
async fn what_lacks_something_while_its_next_version_waits_ends_the_watch() {
    for (phase, hold, ends) in [
        ("Pending", "", true),
        ("Pending", "=1.0.0", false),
        ("Installing", "", false),
    ] {
        let cluster = cluster(2);
        let status = json!({"status": {"state": "UpgradePending", "currentCSV": "etcd.v2.0.0"}});
        assert!(cluster.edit("Subscription", "shop", "db", &status));
        if !hold.is_empty() {
            let hold = json!({"metadata": {"annotations": {olm_api::labels::UPGRADE_HOLD: hold}}});
            assert!(cluster.edit("Subscription", "shop", "db", &hold));
        }
        cluster.put(plan("install-1", "RequiresApproval", false));
        let mut lacks = csv("1.0.0", phase, "one or more requirements couldn't be found");
        lacks["status"]["requirementStatus"] = json!([{"group": "", "version": "v1", "kind": "CustomResourceDefinition",
            "name": "disks.example.com", "status": "NotPresent", "message": "CRD is not present"}]);
        cluster.put(lacks);
        assert_watch(&cluster, ends, &format!("{phase} {hold:?}")).await;
    }
}

/// It may pass while OLM works, but only for a moment. OLM retries what an error prevented.
#[tokio::test(start_paused = true)]
async fn what_failed_or_cannot_be_resolved_ends_the_watch() {
    for (reason, ends) in [
        ("", true),
        ("ConstraintsNotSatisfiable", true),
        ("ErrorPreventedResolution", false),
    ] {
        let cluster = cluster(2);
        if reason.is_empty() {
            cluster.put(csv("1.0.0", "Failed", "no quota"));
        } else {
            let failed = json!([{"type": "ResolutionFailed", "status": "True", "reason": reason}]);
            let status = json!({"status": {"conditions": failed}});
            assert!(cluster.edit("Subscription", "shop", "db", &status));
        }
        assert_watch(&cluster, ends, reason).await;
    }
}

/// Returns a condition of the Subscription about the bundle of its next version.
fn unpacking(message: &str) -> Value {
    json!({"status": {"conditions": [{"type": "BundleUnpacking", "status": "True", "message": message}]}})
}

/// Returns etcd.v1.0.0, which lacks a definition.
fn lacking(owned: &Value) -> Value {
    let mut lacks = csv("1.0.0", "Pending", "requirements not met");
    lacks["spec"]["customresourcedefinitions"] = json!({"owned": owned});
    lacks["status"]["requirementStatus"] = json!([{"group": "", "version": "v1", "kind": "CustomResourceDefinition",
        "name": "disks.example.com", "status": "NotPresent", "message": "CRD is not present"}]);
    lacks
}

/// OLM goes on when the registry is back.
const SILENT: &str = "bundle etcd.v1.1.0: cannot pull image `reg/etcd:v1`: connection refused; OLM retries until the registry answers; \
                      check the registry, the network and mirrors";
const QUOTA: &str = "installing: waiting for deployment etcd; pods \"etcd-1\" is forbidden: exceeded quota: q, requested: pods=1";

/// Only a user makes them pass, and they may not last: an image is being pushed, or a quota becomes free.
#[tokio::test(start_paused = true)]
async fn an_image_a_quota_and_a_deleted_definition_end_the_watch() {
    let own = json!([{"name": "disks.example.com", "version": "v1", "kind": "Disk"}]);
    let other = format!("{SILENT}; bundle disk.v1: unpack job not completed: Reason: ErrImagePull");
    for (what, csv_of, condition, ends) in [
        ("quota", csv("1.0.0", "Installing", QUOTA), None, true),
        ("own definition", lacking(&own), None, true),
        ("definition of another", lacking(&json!([])), None, false),
        (
            "image",
            csv("1.0.0", "Succeeded", ""),
            Some("unpack job not completed: Reason: ErrImagePull"),
            true,
        ),
        (
            "unpacking",
            csv("1.0.0", "Succeeded", ""),
            Some("unpack job not completed: ContainerCreating"),
            false,
        ),
        (
            "image that only nodes may pull",
            csv("1.0.0", "Succeeded", ""),
            Some(
                "bundle etcd.v1.1.0: unpack job not completed; this process: Unauthorized: cannot pull image `reg/etcd:v1`: \
                 https://reg: 401; add a pull secret for the registry; a node keeps trying to pull it",
            ),
            false,
        ),
        (
            "image that no node can pull either",
            csv("1.0.0", "Succeeded", ""),
            Some(
                "bundle etcd.v1.1.0: unpack job not completed: Reason: ErrImagePull; this process: Unauthorized: cannot pull image \
                 `reg/etcd:v1`: https://reg: 401; add a pull secret for the registry",
            ),
            true,
        ),
        (
            "silent registry",
            csv("1.0.0", "Succeeded", ""),
            Some(SILENT),
            false,
        ),
        (
            "silent registry, and an image of another bundle",
            csv("1.0.0", "Succeeded", ""),
            Some(other.as_str()),
            true,
        ),
    ] {
        let cluster = cluster(2);
        cluster.put(csv_of);
        if let Some(message) = condition {
            assert!(cluster.edit("Subscription", "shop", "db", &unpacking(message)));
        }
        assert_watch(&cluster, ends, what).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_ends_names_the_way_out_and_goes_on_if_it_was_taken() {
    let cluster = cluster(2);
    cluster.put(csv("1.0.0", "Installing", QUOTA));
    let (client, _link) = cluster.connect();
    let (result, _) = watched(&client, 600).await;
    let text = result.unwrap().shortfall(&wait(600)).unwrap();
    assert!(
        text.starts_with("stopped waiting: ClusterServiceVersion etcd.v1.0.0: Installing, installing: ")
            && text.contains("; to resolve: raise ResourceQuota q, "),
        "{text}"
    );
    // A timeout counts before that.
    let start = tokio::time::Instant::now();
    let (result, _) = watched(&client, 10).await;
    assert_eq!(result.unwrap().outcome, Outcome::Waits);
    assert!((10..12).contains(&start.elapsed().as_secs()));

    let later = cluster.clone();
    let change = async move {
        tokio::time::sleep(Duration::from_secs(10)).await;
        later.put(csv("1.0.0", "Succeeded", ""));
    };
    let ((result, _), ()) = tokio::join!(watched(&client, 600), change);
    assert_eq!(result.unwrap().outcome, Outcome::Done);
}

/// The started operation is done, and a warning would contradict exit code 0.
#[test]
fn who_started_something_is_not_warned_of_the_next_approval() {
    let status = json!({"installedCSV": "etcd.v1.0.0", "currentCSV": "etcd.v2.0.0", "installPlanRef": {"name": "install-1"}});
    for (phase, csv_phase, is_warned) in [
        ("RequiresApproval", "Succeeded", false),
        ("RequiresApproval", "Installing", true),
        ("Failed", "Succeeded", true),
    ] {
        let objects = [
            subscription("db", &status),
            plan("install-1", phase, false),
            csv("1.0.0", csv_phase, ""),
        ];
        let commands = CommandLine::default();
        let nodes = trees(&gathered_of(objects), Some("shop"), Some("db"), &commands).unwrap();
        let watched = Watched {
            outcome: outcome(&nodes),
            nodes,
        };
        let told = watched.shortfall(&wait(30));
        assert!(told.is_some(), "who asks for the state is told");
        let expected = told.filter(|_| is_warned);
        assert_eq!(
            shortfall_of_started(&watched, &wait(30)),
            expected,
            "{phase} {csv_phase}"
        );
    }
    let unseen = Watched {
        nodes: Vec::new(),
        outcome: Outcome::Waits,
    };
    assert!(shortfall_of_started(&unseen, &wait(30)).is_some());
}

#[tokio::test(start_paused = true)]
async fn unreadable_pods_delay_nothing_and_unreadable_operators_are_reported() {
    let cluster = cluster(2);
    cluster.on_request(|request| {
        (request.kind.kind == "Pod")
            .then(|| Fault::Refuse(Refusal::new(403, "Forbidden", "pods is forbidden")))
    });
    let (client, _link) = cluster.connect();
    let nodes = read(&Cluster::of(client.clone(), "shop"), Some("shop"), Some("db"))
        .await
        .unwrap();
    assert!(nodes.iter().all(Node::is_fine));
    let text = lines(&nodes, Colours(false)).join("\n");
    assert!(text.contains("pods is forbidden"), "{text}");

    // Failures for another reason do not count as ready.
    for kind in ["Pod", "Deployment"] {
        cluster.clear_hooks();
        cluster.on_request(move |request| {
            (request.kind.kind == kind)
                .then(|| Fault::Refuse(Refusal::new(500, "InternalError", "no leader")))
        });
        let error = read(&Cluster::of(client.clone(), "shop"), Some("shop"), Some("db"))
            .await
            .unwrap_err();
        assert!(error.to_string().contains("no leader"), "{error}");
    }
    cluster.clear_hooks();
    cluster.on_request(|_| Some(Fault::Refuse(Refusal::new(403, "Forbidden", "it is forbidden"))));
    let error = read(&Cluster::of(client.clone(), "shop"), Some("shop"), None)
        .await
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "cannot list subscriptions in namespace shop: it is forbidden; request this permission, or see `kubectl auth can-i --list`"
    );
}

#[test]
fn a_missing_operator_is_reported_with_the_existing_ones() {
    let commands = CommandLine::default();
    let error = trees(&gathered(), Some("shop"), Some("no\u{1b}"), &commands).unwrap_err();
    assert_eq!(
        error.to_string(),
        "namespace shop has no operator no\u{1b}: it has new, ready, waits, wrong, etcd.v9.0.0"
    );
    let error = trees(&Gathered::default(), Some("shop"), Some("db"), &commands).unwrap_err();
    assert!(error.to_string().contains("list -A"), "{error}");
}

/// A failed resolution has a tree as its reason.
#[test]
fn a_message_of_several_lines_is_shown_below_or_in_one_line_with_the_command_that_shows_it() {
    let conditions = serde_json::json!([{"type": "ResolutionFailed", "status": "True",
        "message": "not satisfiable: no etcd\n- subscription db\n  - channel beta\nto resolve: x"}]);
    let gathered = gathered_of([subscription("db", &serde_json::json!({"conditions": conditions}))]);
    let operators = gathered.operators();
    let node = gathered.tree(&operators[0], &crate::command_line::CommandLine::default());
    insta::assert_snapshot!(lines(std::slice::from_ref(&node), Colours(false)).join("\n"), @r"
    Subscription shop/db: Unresolved, not satisfiable: no etcd
       - subscription db
         - channel beta
       to resolve: x
    ");
    let expected = "Subscription shop/db: Unresolved, not satisfiable: no etcd …; see kubectl operator explain db -n shop";
    assert_eq!(flat(std::slice::from_ref(&node)), [expected]);
    assert_eq!(node.waits_for(), expected);
}
