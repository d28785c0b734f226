//! The report to the ClusterOperator of catalogs, on the cluster in memory.

use olm_runtime::plan::Requeue;
use olm_testing::cluster::Kind;
use serde_json::{Value, json};

use super::*;
use crate::test_env::TestEnv;

const DEFINITION: &str = "clusteroperators.config.openshift.io";
const FLAGS: &[&str] = &[
    "--writeStatusName=operator-lifecycle-manager-catalog",
    "--release-version=4.18.0",
];

fn serve(env: &TestEnv) {
    env.cluster.serve(Kind::cluster_operator());
    env.put(
        json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": DEFINITION}, "spec": {"group": "config.openshift.io", "scope": "Cluster",
            "names": {"kind": "ClusterOperator", "plural": "clusteroperators"},
            "versions": [{"name": "v1", "served": true, "storage": true}]}}),
    );
}

fn catalog(image: &str) -> Value {
    json!({"apiVersion": "operators.coreos.com/v1alpha1", "kind": "CatalogSource",
        "metadata": {"namespace": "ns", "name": "custom"}, "spec": {"sourceType": "grpc", "image": image}})
}

#[test]
fn the_report_says_that_it_works_and_is_written_once() {
    let mut env = TestEnv::with_flags(FLAGS);
    env.settle_for(60);
    assert!(env.all("ClusterOperator").is_empty());
    serve(&env);
    env.put(catalog("example.com/catalog:v1"));
    env.settle_for(60);
    let mut status = env.only("ClusterOperator")["status"].take();
    for condition in status["conditions"].as_array_mut().unwrap() {
        assert!(condition["lastTransitionTime"].take().is_string());
    }
    let condition =
        |type_: &str, status: &str| json!({"type": type_, "status": status, "lastTransitionTime": null});
    let version = env!("CARGO_PKG_VERSION");
    let mut progressing = condition("Progressing", "False");
    progressing["message"] = json!(format!("Deployed {version}"));
    let of_olm = |resource: &str| json!({"group": "operators.coreos.com", "resource": resource, "namespace": "default", "name": ""});
    let wanted = json!({
        "conditions": [
            condition("Degraded", "False"), progressing, condition("Available", "True"),
            condition("Upgradeable", "True"),
        ],
        "versions": [
            {"name": "operator", "version": "4.18.0"},
            {"name": "operator-lifecycle-manager", "version": version},
        ],
        "relatedObjects": [
            of_olm("subscriptions"), of_olm("installplans"),
            {"group": "", "resource": "namespaces", "name": "default"},
        ],
    });
    assert_eq!(status, wanted);
    env.writes.clear();
    env.settle_for(600);
    env.stage.kill();
    env.settle_for(600);
    let reported = env
        .writes
        .iter()
        .filter(|write| write.contains("ClusterOperator"));
    assert_eq!(reported.count(), 0, "{:#?}", env.writes);
    assert!(
        env.stage.as_user(|cluster| {
            cluster.delete("ClusterOperator", "", "operator-lifecycle-manager-catalog")
        })
    );
    env.settle_for(10);
    let made_anew = env.only("ClusterOperator");
    assert_eq!(made_anew["status"]["versions"], wanted["versions"]);
}

#[test]
fn nothing_is_reported_before_a_reconcile_and_it_is_read_again() {
    let mut observed = Observed {
        name: "x".into(),
        stored: Stored::There {
            uid: None,
            status: ClusterOperatorStatus::default(),
        },
        is_working: false,
        namespace: "olm".into(),
        release: String::new(),
    };
    let round = |observed: &Observed| {
        let (plan, ()) = Report::decide(observed, None, Timestamp::UNIX_EPOCH);
        let update = Report::status(observed, (), &Outcomes::default(), Timestamp::UNIX_EPOCH);
        (update.patches.len(), plan.requeue == Requeue::AwaitChange)
    };
    assert_eq!(round(&observed), (0, false));
    observed.is_working = true;
    assert_eq!(round(&observed), (1, true));
}

/// A release of OpenShift brings other images for the catalogs that are its own, and none for those of users.
#[test]
fn cat_025_another_release_leaves_the_tag_of_a_custom_catalog_alone() {
    let newer: &[&str] = &["--writeStatusName=x", "--release-version=4.19.0"];
    for flags in [FLAGS, newer] {
        let mut env = TestEnv::with_flags(flags);
        serve(&env);
        env.cluster.set_server_version("v1.35.0");
        env.put(catalog("example.com/catalog:v4.18"));
        env.settle_for(600);
        assert!(!env.all("ClusterOperator").is_empty());
        let found = env.get("CatalogSource", "custom").unwrap();
        assert_eq!(found["spec"]["image"], "example.com/catalog:v4.18");
        let pods = env.all("Pod");
        assert!(!pods.is_empty(), "it is served");
        for pod in pods {
            assert!(pod.to_string().contains("example.com/catalog:v4.18"), "{pod}");
        }
    }
}
