//! Tests that the first plan of an installation is approved and awaited.

use std::time::Duration;

use super::*;
use crate::operators::tests::plan;

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
    let cluster = served();
    cluster.put(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}}));
    cluster.put(manifest("etcd", "cat"));
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
async fn what_only_somebody_can_mend_ends_the_wait() {
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
