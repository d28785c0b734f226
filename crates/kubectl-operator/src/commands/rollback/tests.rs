use std::time::Duration;

use clap::Parser as _;
use go_compat::semver::Version;
use olm_api::labels::{GENERATED_BY, UPGRADE_APPROVE, UPGRADE_HOLD};
use olm_api::v1alpha1::ClusterServiceVersion;
use olm_fbc::entry::BundleEntry;
use olm_resolver::entry::Entry;
use olm_testing::cluster::FakeCluster;
use serde_json::{Value, json};

use super::*;
use crate::args::{Args, Command};
use crate::catalogs::Bundle;
use crate::commands::uninstall::tests::cluster;
use crate::operators::tests::{csv, plan};

const CRD: &str = "etcds.example.com";

fn rollback_args(more: &[&str]) -> RollbackArgs {
    let words = ["kubectl-operator", "rollback", "db"];
    match Args::try_parse_from(words.iter().chain(more)).unwrap().command {
        Command::Rollback(args) => args,
        other => panic!("{other:?}"),
    }
}

fn bundle_entry(version: &str) -> BundleEntry {
    BundleEntry {
        name: format!("etcd.v{version}").into(),
        package: "etcd".into(),
        channel: "stable".into(),
        version: Version::parse(version).ok(),
        ..BundleEntry::default()
    }
}

/// Returns the bundle of a version whose definition has these versions; without any, the catalog has only its image.
fn bundle(versions: &[&str]) -> Bundle {
    let versions: Vec<Value> = versions.iter().map(|name| json!({"name": name})).collect();
    let crd = json!({"kind": "CustomResourceDefinition", "metadata": {"name": CRD}, "spec": {"versions": versions}});
    Bundle {
        csv: None,
        objects: if versions.is_empty() {
            Vec::new()
        } else {
            vec![crd]
        },
    }
}

/// Returns a cluster in which the upgrade of db from 1.0.0 to 2.0.0 failed.
fn failed() -> FakeCluster {
    let cluster = cluster();
    let change = json!({
        "metadata": {"labels": {"team": "a"}, "annotations": {"note": "b", GENERATED_BY: "install-0"}},
        "spec": {"config": {"nodeSelector": {"disk": "fast"}}},
        "status": {"installedCSV": "etcd.v2.0.0", "currentCSV": "etcd.v2.0.0"},
    });
    cluster.edit("Subscription", "shop", "db", &change);
    let replacing = json!({"status": {"phase": "Replacing"}});
    cluster.edit("ClusterServiceVersion", "shop", "etcd.v1.0.0", &replacing);
    let mut newest = csv("2.0.0", "Failed", "no such image");
    newest["spec"]["replaces"] = json!("etcd.v1.0.0");
    cluster.put(newest);
    let stored = json!({"status": {"storedVersions": ["v1"]}});
    cluster.edit("CustomResourceDefinition", "", CRD, &stored);
    cluster
}

async fn removal(cluster: &FakeCluster) -> Removal {
    let (client, _link) = cluster.connect();
    let here = Cluster::of(client, "shop");
    uninstall::look(&here, &removal_args(&rollback_args(&[])))
        .await
        .unwrap()
}

async fn refusal(cluster: &FakeCluster, bundle: &Bundle) -> String {
    let removal = removal(cluster).await;
    let error = decide(&removal, &Entry::new(bundle_entry("1.0.0")), bundle).unwrap_err();
    assert!(cluster.log().writes.is_empty());
    error.to_string()
}

#[tokio::test(start_paused = true)]
async fn the_way_back_is_shown_and_keeps_what_the_user_set() {
    let cluster = failed();
    let removal = removal(&cluster).await;
    assert_eq!(decide::wanted(&removal, "db", None).unwrap(), "etcd.v1.0.0");
    let rollback = decide(&removal, &Entry::new(bundle_entry("1.0.0")), &bundle(&["v1"])).unwrap();
    insta::assert_snapshot!(rollback.text(&removal), @r"
    deletes  Subscription db in namespace shop
    deletes  ClusterServiceVersion etcd.v1.0.0 in namespace shop (Replacing), and installs it again
    deletes  ClusterServiceVersion etcd.v2.0.0 in namespace shop (Failed)
    keeps    CustomResourceDefinition etcds.example.com and its objects
    creates  Subscription db in namespace shop, as below
    approves the InstallPlan for etcd.v1.0.0
    note: the operator does not run until etcd.v1.0.0 is installed; it must understand the custom resources that etcd.v2.0.0 wrote
    ");
    let made = serde_json::to_value(&rollback.subscription).unwrap();
    assert_eq!(
        made["metadata"],
        json!({"name": "db", "namespace": "shop", "labels": {"team": "a"}, "annotations": {"note": "b"}})
    );
    assert_eq!(
        made["spec"],
        json!({"name": "etcd", "channel": "stable", "source": "cat", "sourceNamespace": "olm", "startingCSV": "etcd.v1.0.0",
            "installPlanApproval": "Manual", "config": {"nodeSelector": {"disk": "fast"}}})
    );
}

/// OLM would approve the failed version again.
#[tokio::test(start_paused = true)]
async fn a_policy_that_approves_without_a_user_does_not_upgrade_again() {
    for (annotations, expected) in [
        (json!({UPGRADE_APPROVE: "all"}), Some("=1.0.0")),
        (json!({UPGRADE_HOLD: ">=2.0.0"}), Some("=1.0.0")),
        (json!({UPGRADE_HOLD: "<3.0.0"}), Some("<3.0.0")),
        (json!({}), None),
    ] {
        let cluster = failed();
        let change = json!({"metadata": {"annotations": annotations}});
        cluster.edit("Subscription", "shop", "db", &change);
        let removal = removal(&cluster).await;
        let rollback = decide(&removal, &Entry::new(bundle_entry("1.0.0")), &bundle(&["v1"])).unwrap();
        let held = rollback
            .subscription
            .annotations()
            .get(UPGRADE_HOLD)
            .map(String::as_str);
        assert_eq!(held, expected, "{annotations}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_would_lose_data_is_refused() {
    let cluster = failed();
    let stored = json!({"status": {"storedVersions": ["v1", "v2"]}});
    cluster.edit("CustomResourceDefinition", "", CRD, &stored);
    assert_eq!(
        refusal(&cluster, &bundle(&["v1"])).await,
        "cannot roll back to etcd.v1.0.0: objects of CustomResourceDefinition etcds.example.com are stored in v2, which etcd.v1.0.0 \
         does not have; migrate them first, see status.storedVersions"
    );
    // A catalog with images alone does not tell, and OLM checks again.
    let removed = removal(&cluster).await;
    let rollback = decide(&removed, &Entry::new(bundle_entry("1.0.0")), &bundle(&[])).unwrap();
    assert!(
        rollback
            .notes
            .iter()
            .any(|note| note.contains("lacks version v2")),
        "{:?}",
        rollback.notes
    );
    // The ClusterServiceVersion describes all that is stored.
    let rollback = decide(
        &removal(&failed()).await,
        &Entry::new(bundle_entry("1.0.0")),
        &bundle(&[]),
    )
    .unwrap();
    assert!(
        !rollback.notes.iter().any(|note| note.contains("lacks version")),
        "{:?}",
        rollback.notes
    );
    let cluster = failed();
    let cleans = json!({"spec": {"cleanup": {"enabled": true}}});
    cluster.edit("ClusterServiceVersion", "shop", "etcd.v2.0.0", &cleans);
    let text = refusal(&cluster, &bundle(&["v1"])).await;
    assert!(text.contains("deletes its custom resources"), "{text}");
}

#[tokio::test(start_paused = true)]
async fn where_there_is_nothing_to_go_back_to_that_is_said() {
    let cluster = failed();
    let before = removal(&cluster).await;
    assert_eq!(decide::wanted(&before, "db", Some("0.9.0")).unwrap(), "0.9.0");
    let of = |csvs: &[ClusterServiceVersion]| Removal {
        csvs: csvs.to_vec(),
        ..before.clone()
    };
    let [oldest, newest] = before.csvs.as_slice() else {
        panic!("{:?}", before.csvs);
    };
    // OLM deleted the older version, as the newer one had succeeded before it failed.
    let alone = of(std::slice::from_ref(newest));
    assert_eq!(decide::wanted(&alone, "db", None).unwrap(), "etcd.v1.0.0");
    let mut succeeded: Value = serde_json::to_value(oldest).unwrap();
    succeeded["status"]["phase"] = json!("Succeeded");
    for (removal, expected) in [
        (of(&[]), "none of its versions is installed"),
        (
            of(std::slice::from_ref(oldest)),
            "etcd.v1.0.0 replaces no version",
        ),
        (
            of(&[serde_json::from_value(succeeded).unwrap()]),
            "etcd.v1.0.0 has succeeded",
        ),
        (
            Removal {
                subscription: None,
                ..before.clone()
            },
            "it has no Subscription",
        ),
    ] {
        let error = decide::wanted(&removal, "db", None).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
    let error = decide(&alone, &Entry::new(bundle_entry("2.0.0")), &bundle(&["v1"])).unwrap_err();
    assert!(
        error.to_string().contains("is the version that is installed"),
        "{error}"
    );
}

/// Acts as OLM: makes a plan for these versions, and after its approval the operator.
async fn olm(cluster: FakeCluster, versions: Value) {
    tokio::time::sleep(Duration::from_secs(5)).await;
    let mut made = plan("install-2", "RequiresApproval", false);
    made["spec"]["clusterServiceVersionNames"] = versions;
    cluster.put(made);
    let refers = json!({"status": {"state": "UpgradePending", "currentCSV": "etcd.v1.0.0", "installPlanRef": {"name": "install-2"}}});
    cluster.edit("Subscription", "shop", "db", &refers);
    for _ in 0..10 {
        tokio::time::sleep(Duration::from_secs(3)).await;
        let plan = cluster.get("InstallPlan", "shop", "install-2").unwrap();
        if plan["spec"]["approved"] == json!(true) {
            cluster.put(csv("1.0.0", "Succeeded", ""));
            let done = json!({"status": {"phase": "Complete"}});
            cluster.edit("InstallPlan", "shop", "install-2", &done);
            return;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn only_the_plan_for_that_version_is_approved() {
    for (versions, is_installed) in [(json!(["etcd.v1.0.0"]), true), (json!(["etcd.v2.0.0"]), false)] {
        let cluster = failed();
        cluster.put(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}}));
        let removal = removal(&cluster).await;
        let rollback = decide(&removal, &Entry::new(bundle_entry("1.0.0")), &bundle(&["v1"])).unwrap();
        let (client, _link) = cluster.connect();
        let here = Cluster::of(client, "shop");
        let wait = WaitArgs {
            timeout: Some(Duration::from_secs(60)),
        };
        replace(&here, &removal, &rollback, &wait).await.unwrap();
        let made = cluster.get("Subscription", "shop", "db").unwrap();
        assert_eq!(made["spec"]["installPlanApproval"], json!("Manual"));
        for name in ["etcd.v1.0.0", "etcd.v2.0.0"] {
            assert!(
                cluster.get("ClusterServiceVersion", "shop", name).is_none(),
                "{name}"
            );
        }
        assert!(cluster.get("CustomResourceDefinition", "", CRD).is_some());
        assert!(cluster.get("Etcd", "shop", "a").is_some());
        let (result, ()) = tokio::join!(
            install(&here, &rollback, &wait),
            olm(cluster.clone(), versions.clone())
        );
        assert_eq!(result.unwrap(), is_installed, "{versions}");
        let plan = cluster.get("InstallPlan", "shop", "install-2").unwrap();
        assert_eq!(plan["spec"]["approved"], json!(is_installed));
    }
}
