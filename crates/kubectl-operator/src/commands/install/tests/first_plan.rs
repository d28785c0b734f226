//! Tests that the first plan of an installation is approved and awaited.

use std::time::Duration;

use super::*;
use crate::operators::tests::{csv, deployment, plan};

/// Returns a cluster with the package etcd and the namespace shop.
fn prepared() -> FakeCluster {
    let cluster = served();
    cluster.put(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}}));
    cluster.put(manifest("etcd", "cat"));
    cluster
}

/// Acts as OLM for a Subscription: creates a plan, and after its approval the operator.
async fn olm(cluster: FakeCluster, phases: &[&str]) {
    let reference = json!({"status": {"state": "UpgradePending", "currentCSV": "etcd.v1.1.0",
        "installPlanRef": {"name": "install-1", "namespace": "shop"}}});
    tokio::time::sleep(Duration::from_secs(5)).await;
    let status = match phases[0] {
        "adopted" => {
            json!({"state": "AtLatestKnown", "currentCSV": "etcd.v1.1.0", "installedCSV": "etcd.v1.1.0"})
        }
        type_ if type_.ends_with("Failed") => {
            let reason = phases.get(1).unwrap_or(&"");
            json!({"conditions": [{"type": type_, "status": "True", "reason": reason, "message": "no such image"}]})
        }
        _ => Value::Null,
    };
    if !status.is_null() {
        cluster.edit("Subscription", "shop", "etcd", &json!({"status": status}));
        return;
    }
    let made = plan("install-1", phases[0], phases[0] != "RequiresApproval");
    let mut made = made;
    made["spec"]["clusterServiceVersionNames"] = json!(["etcd.v1.1.0"]);
    cluster.put(made);
    cluster.edit("Subscription", "shop", "etcd", &reference);
    for phase in &phases[1..] {
        loop {
            tokio::time::sleep(Duration::from_secs(3)).await;
            let plan = cluster.get("InstallPlan", "shop", "install-1").unwrap();
            if plan["spec"]["approved"] == json!(true) {
                break;
            }
        }
        let done = json!({"status": {"phase": phase, "message": "no room"}});
        cluster.edit("InstallPlan", "shop", "install-1", &done);
    }
}

async fn rolled_out(
    phases: &[&str],
    answer: bool,
) -> (FakeCluster, anyhow::Result<Option<rollout::CarriedOut>>, usize) {
    let cluster = prepared();
    let (client, _link) = cluster.connect();
    let args = install_args(&["-C", "--timeout", "60s"]);
    let here = Cluster::of(client.clone(), "shop");
    let wanted = wanted(&here, &args).await.unwrap();
    write(&client, "shop", false, &wanted, &mut |_| {}).await.unwrap();
    let mut asked = 0;
    let mut ask = |_: &Shown| {
        asked += 1;
        Ok(answer)
    };
    let mut screen = Screen::new(Vec::new(), None);
    let (result, ()) = tokio::join!(
        rollout::first_plan(&here, &wanted.subscription, &args.wait, &mut screen, &mut ask),
        olm(cluster.clone(), phases)
    );
    (cluster, result, asked)
}

/// As in upstream's plugin, the command approves the first plan of a Manual Subscription and waits for it.
#[tokio::test(start_paused = true)]
async fn the_first_plan_is_approved_and_waited_for() {
    let (cluster, result, asked) = rolled_out(&["RequiresApproval", "Complete"], true).await;
    let done = result.unwrap().unwrap();
    assert_eq!((done.csv.as_str(), asked), ("etcd.v1.1.0", 1));
    // The plan is complete, and its ClusterServiceVersion does not exist yet.
    assert_eq!(
        done.text("etcd", "installed"),
        "operator \"etcd\" is being installed; installed csv is \"etcd.v1.1.0\"\n"
    );
    let (client, _link) = cluster.connect();
    assert_eq!(
        done.warning(&Cluster::of(client, "shop"), "etcd").as_deref(),
        Some(
            "etcd is not ready yet: Subscription shop/etcd: Installing, waiting for OLM to create ClusterServiceVersion etcd.v1.1.0; \
             see `kubectl operator status etcd --watch -n shop`"
        )
    );
    let plan = cluster.get("InstallPlan", "shop", "install-1").unwrap();
    assert_eq!(plan["spec"]["approved"], json!(true));
    // A plan that needs no approval is only awaited.
    let (_, result, asked) = rolled_out(&["Installing", "Complete"], true).await;
    assert_eq!((result.unwrap().unwrap().csv.as_str(), asked), ("etcd.v1.1.0", 0));
    // A failed plan ends the wait.
    let (_, result, _) = rolled_out(&["RequiresApproval", "Failed"], true).await;
    assert_eq!(
        result.unwrap_err().to_string(),
        "InstallPlan install-1 failed: no room"
    );
    // The wait has a time limit: the user's, although a part of it passed before the plan existed.
    let (_, result, _) = rolled_out(&["Installing"], true).await;
    let error = result.unwrap_err().to_string();
    assert!(
        error.starts_with("InstallPlan install-1 did not complete within 60 s: "),
        "{error}"
    );
    // Without the user's approval the plan keeps waiting.
    let (cluster, result, _) = rolled_out(&["RequiresApproval"], false).await;
    assert_eq!(result.unwrap(), None);
    let plan = cluster.get("InstallPlan", "shop", "install-1").unwrap();
    assert_eq!(plan["spec"]["approved"], json!(false));
}

/// Only a resolution that an error prevented may still succeed by itself.
#[tokio::test(start_paused = true)]
async fn a_problem_that_only_a_user_can_fix_ends_the_wait() {
    for (condition, text, ends_early) in [
        (
            &["BundleUnpackFailed"][..],
            "stopped waiting: OLM reports BundleUnpackFailed: no such image",
            true,
        ),
        (
            &["ResolutionFailed", "ConstraintsNotSatisfiable"],
            "stopped waiting: Subscription shop/etcd: Unresolved, no such image",
            true,
        ),
        (
            &["ResolutionFailed", "ErrorPreventedResolution"],
            "no InstallPlan within 60 s: Subscription shop/etcd: Unresolved, no such image",
            false,
        ),
    ] {
        let start = tokio::time::Instant::now();
        let (_, result, _) = rolled_out(condition, true).await;
        let error = result.unwrap_err();
        let told = error.to_string();
        assert!(
            told.starts_with(text) && told.ends_with("see `kubectl operator explain etcd -n shop`"),
            "{told}"
        );
        assert!(error.is::<crate::Unsettled>(), "{told}");
        assert_eq!(start.elapsed() < Duration::from_secs(30), ends_early, "{told}");
    }
}

/// OLM gives it the version that runs, without a plan.
#[tokio::test(start_paused = true)]
async fn a_subscription_that_adopts_a_version_needs_no_plan() {
    let (_, result, asked) = rolled_out(&["adopted"], true).await;
    let done = result.unwrap().unwrap();
    assert_eq!((done.csv.as_str(), asked), ("etcd.v1.1.0", 0));
}

/// Returns a cluster in which etcd.v1.0.0 runs without a Subscription.
fn orphaned() -> FakeCluster {
    let cluster = prepared();
    let package = json!({"type": "olm.package", "value": {"packageName": "etcd", "version": "1.0.0"}});
    let properties = json!({"properties": [package]}).to_string();
    let mut running = csv("1.0.0", "Succeeded", "");
    running["metadata"]["annotations"] = json!({olm_api::labels::PROPERTIES: properties});
    cluster.put(running);
    cluster.put(deployment(2));
    cluster
}

/// Waits for the Subscription, and gives it a plan for this version that requires approval.
async fn plan_for(cluster: &FakeCluster, version: &str, status: &Value) {
    while cluster.get("Subscription", "shop", "etcd").is_none() {
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    let mut made = plan("install-1", "RequiresApproval", false);
    made["spec"]["clusterServiceVersionNames"] = json!([version]);
    cluster.put(made);
    let mut status = status.clone();
    status["state"] = json!("UpgradePending");
    status["currentCSV"] = json!(version);
    status["installPlanRef"] = json!({"name": "install-1", "namespace": "shop"});
    cluster.edit("Subscription", "shop", "etcd", &json!({"status": status}));
}

/// Does the same, and waits for the approval of the plan.
async fn approved_plan_for(cluster: &FakeCluster, version: &str) {
    plan_for(cluster, version, &json!({})).await;
    while !is_approved(cluster) {
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

fn is_approved(cluster: &FakeCluster) -> bool {
    let plan = cluster.get("InstallPlan", "shop", "install-1").unwrap();
    plan["spec"]["approved"] == json!(true)
}

/// The user asked for the version that runs, and OLM at once makes a plan for the next one of the channel.
#[tokio::test(start_paused = true)]
async fn the_plan_for_a_newer_version_than_the_adopted_one_is_left_to_the_user() {
    let adopted = json!({"installedCSV": "etcd.v1.0.0"});
    for more in [
        &["-C", "-v", "1.0.0", "--yes"][..],
        &["-C", "-v", "1.0.0", "--yes", "--wait"],
    ] {
        let cluster = orphaned();
        let (client, _link) = cluster.connect();
        let (here, args) = (Cluster::of(client, "shop"), install_args(more));
        let (result, ()) = tokio::join!(
            Box::pin(install(&here, &args)),
            plan_for(&cluster, "etcd.v1.1.0", &adopted)
        );
        assert_eq!(result.unwrap(), Verdict::Fine, "{more:?}");
        assert!(!is_approved(&cluster), "{more:?}");
    }
    // On a terminal nothing is asked either.
    let cluster = orphaned();
    let (client, _link) = cluster.connect();
    let (here, args) = (
        Cluster::of(client.clone(), "shop"),
        install_args(&["-C", "-v", "1.0.0"]),
    );
    let wanted = wanted(&here, &args).await.unwrap();
    write(&client, "shop", false, &wanted, &mut |_| {}).await.unwrap();
    let mut asked = 0;
    let mut ask = |_: &Shown| {
        asked += 1;
        Ok(true)
    };
    let mut screen = Screen::new(Vec::new(), None);
    let (done, ()) = tokio::join!(
        rollout::first_plan(&here, &wanted.subscription, &args.wait, &mut screen, &mut ask),
        plan_for(&cluster, "etcd.v1.1.0", &adopted)
    );
    let done = done.unwrap().unwrap();
    assert_eq!((asked, is_approved(&cluster)), (0, false));
    assert_eq!(
        done.text("etcd", "installed"),
        "operator \"etcd\" installed; installed csv is \"etcd.v1.0.0\"\n"
    );
    assert_eq!(
        done.note(&here, "etcd").as_deref(),
        Some(
            "note: InstallPlan install-1 for etcd.v1.1.0 waits for approval; see `kubectl operator status etcd -n shop`"
        )
    );
}

/// The bundle of the next version cannot be pulled, which does not matter to a user who requested this one.
#[tokio::test(start_paused = true)]
async fn the_requested_version_is_enough_for_a_wait() {
    let cluster = prepared();
    let (client, _link) = cluster.connect();
    let here = Cluster::of(client, "shop");
    let args = install_args(&["-C", "-v", "1.0.0", "--yes", "--wait"]);
    let olm = async {
        approved_plan_for(&cluster, "etcd.v1.0.0").await;
        cluster.put(csv("1.0.0", "Succeeded", ""));
        cluster.put(deployment(2));
        let unpacking = json!([{"type": "BundleUnpacking", "status": "True", "reason": "JobIncomplete",
            "message": "bundle etcd.v1.1.0: unpack job not completed: cannot pull image"}]);
        let status = json!({"installedCSV": "etcd.v1.0.0", "conditions": unpacking});
        cluster.edit("Subscription", "shop", "etcd", &json!({"status": status}));
        let complete = json!({"status": {"phase": "Complete"}});
        cluster.edit("InstallPlan", "shop", "install-1", &complete);
    };
    let start = tokio::time::Instant::now();
    let (result, ()) = tokio::join!(Box::pin(install(&here, &args)), olm);
    assert_eq!(result.unwrap(), Verdict::Fine);
    assert!(start.elapsed() < Duration::from_secs(60), "{:?}", start.elapsed());
}

/// OLM makes the plan for the next version as soon as the requested one exists.
#[tokio::test(start_paused = true)]
async fn the_next_plan_is_not_what_the_requested_version_waits_for() {
    let cluster = prepared();
    let (client, _link) = cluster.connect();
    let here = Cluster::of(client.clone(), "shop");
    let args = install_args(&["-C", "-v", "1.0.0"]);
    let wanted = wanted(&here, &args).await.unwrap();
    write(&client, "shop", false, &wanted, &mut |_| {}).await.unwrap();
    let olm = async {
        approved_plan_for(&cluster, "etcd.v1.0.0").await;
        cluster.put(csv("1.0.0", "Installing", "waiting for deployment etcd"));
        cluster.put(plan("install-2", "RequiresApproval", false));
        let status = json!({"installedCSV": "etcd.v1.0.0", "currentCSV": "etcd.v2.0.0",
            "installPlanRef": {"name": "install-2", "namespace": "shop"}});
        cluster.edit("Subscription", "shop", "etcd", &json!({"status": status}));
        let complete = json!({"status": {"phase": "Complete"}});
        cluster.edit("InstallPlan", "shop", "install-1", &complete);
    };
    let mut ask = |_: &Shown| Ok(true);
    let mut screen = Screen::new(Vec::new(), None);
    let (done, ()) = tokio::join!(
        rollout::first_plan(&here, &wanted.subscription, &args.wait, &mut screen, &mut ask),
        olm
    );
    let done = done.unwrap().unwrap();
    assert_eq!(done.csv, "etcd.v1.0.0");
    assert_eq!(
        done.warning(&here, "etcd").as_deref(),
        Some(
            "etcd is not ready yet: ClusterServiceVersion etcd.v1.0.0: Installing, waiting for deployment etcd; see `kubectl operator \
             status etcd --watch -n shop`"
        )
    );
}

#[tokio::test(start_paused = true)]
async fn a_plan_without_the_requested_version_is_not_approved() {
    let cluster = prepared();
    let (client, _link) = cluster.connect();
    let here = Cluster::of(client, "shop");
    let args = install_args(&["-C", "-v", "1.0.0", "--yes"]);
    let wanted = wanted(&here, &args).await.unwrap();
    let shown = |csv: &str| Shown {
        plan: "install-1".to_owned(),
        operators: vec![csv.to_owned()],
        ..Shown::default()
    };
    assert!(answer(&here, &args, &wanted.subscription, &shown("etcd.v1.0.0")).unwrap());
    let error = answer(&here, &args, &wanted.subscription, &shown("etcd.v1.1.0")).unwrap_err();
    assert_eq!(
        error.to_string(),
        "InstallPlan install-1 does not install etcd.v1.0.0, so it was not approved; review it with `kubectl operator approve etcd -n shop`"
    );
}

/// OLM found that when it created the plan; package-server serves the install modes of the channel head only.
#[tokio::test(start_paused = true)]
async fn a_plan_whose_version_will_fail_is_left_to_the_user() {
    for more in [
        &["-C", "-v", "1.0.0", "--yes"][..],
        &["-C", "-v", "1.0.0", "--yes", "--wait"],
    ] {
        let cluster = prepared();
        let (client, _link) = cluster.connect();
        let (here, args) = (Cluster::of(client, "shop"), install_args(more));
        let text = "when this plan was created: bundle etcd.v1.0.0 does not support what OperatorGroup og selects: its \
                    ClusterServiceVersion will fail with UnsupportedOperatorGroup; change spec.targetNamespaces";
        let olm = async {
            plan_for(&cluster, "etcd.v1.0.0", &json!({})).await;
            let message = json!({"status": {"message": text}});
            cluster.edit("InstallPlan", "shop", "install-1", &message);
        };
        let (result, ()) = tokio::join!(Box::pin(install(&here, &args)), olm);
        let error = result.unwrap_err();
        assert_eq!(
            error.to_string(),
            format!(
                "InstallPlan install-1 was not approved and waits: {text}; then approve it with `kubectl operator approve etcd -n shop`"
            ),
            "{more:?}"
        );
        assert!(!error.is::<crate::Unsettled>(), "{more:?}");
        let plan = cluster.get("InstallPlan", "shop", "install-1").unwrap();
        assert_eq!(plan["spec"]["approved"], json!(false), "{more:?}");
    }
}

#[test]
fn other_subscriptions_of_a_plan_are_named() {
    let of = |subscriptions: &[&str]| Shown {
        subscriptions: subscriptions.iter().map(|name| (*name).to_owned()).collect(),
        operators: vec!["db.v2.0.0".to_owned(), "etcd.v1.1.0".to_owned()],
        ..Shown::default()
    };
    assert_eq!(shared(&of(&["etcd"]), "etcd"), None);
    assert_eq!(
        shared(&of(&["db", "etcd"]), "etcd").as_deref(),
        Some("its plan is also for other Subscriptions (db), and installs db.v2.0.0, etcd.v1.1.0")
    );
}
