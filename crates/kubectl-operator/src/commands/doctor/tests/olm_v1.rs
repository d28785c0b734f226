//! Tests of the checks of OLM v1.

use olm_testing::cluster::{FakeCluster, Fault, Kind, Refusal};
use serde_json::{Value, json};

use super::{Severity, cluster, diagnosed, diagnosed_in, kind};

fn serve(cluster: &FakeCluster) {
    for (name, plural) in [
        ("ClusterCatalog", "clustercatalogs"),
        ("ClusterExtension", "clusterextensions"),
    ] {
        cluster.serve(Kind {
            namespaced: false,
            status: true,
            ..kind("olm.operatorframework.io", name, plural)
        });
    }
}

fn object(kind: &str, name: &str, conditions: &Value) -> Value {
    let spec = match kind {
        "ClusterCatalog" => json!({"source": {"type": "Image", "image": {"ref": "quay.io/a/b:v1"}}}),
        _ => {
            json!({"namespace": "shop", "source": {"sourceType": "Catalog", "catalog": {"packageName": "etcd"}}})
        }
    };
    json!({"apiVersion": "olm.operatorframework.io/v1", "kind": kind, "metadata": {"name": name}, "spec": spec,
        "status": {"conditions": conditions}})
}

fn condition(type_: &str, status: &str, reason: &str, message: &str) -> Value {
    json!({"type": type_, "status": status, "reason": reason, "message": message, "lastTransitionTime": "2026-01-01T00:00:00Z"})
}

#[tokio::test(start_paused = true)]
async fn unserved_catalogs_and_extensions_without_progress_are_reported() {
    let cluster = cluster();
    serve(&cluster);
    let done = condition("Progressing", "True", "Succeeded", "");
    for (kind, name, conditions) in [
        (
            "ClusterCatalog",
            "well",
            json!([condition("Serving", "True", "Available", ""), done.clone()]),
        ),
        (
            "ClusterCatalog",
            "gone",
            json!([condition(
                "Progressing",
                "True",
                "Retrying",
                "cannot pull quay.io/a/b:v1"
            )]),
        ),
        (
            "ClusterExtension",
            "well",
            json!([condition("Installed", "True", "Succeeded", "ok"), done]),
        ),
        (
            "ClusterExtension",
            "stuck",
            json!([
                condition("Installed", "False", "Failed", "No bundle installed"),
                condition("Progressing", "False", "Blocked", "no package etcd")
            ]),
        ),
    ] {
        cluster.put(object(kind, name, &conditions));
    }
    let found: Vec<String> = diagnosed(&cluster)
        .await
        .findings
        .iter()
        .map(|found| {
            format!(
                "{}: {}: {} → {}",
                found.severity.as_str(),
                found.object,
                found.cause,
                found.remedy
            )
        })
        .collect();
    assert_eq!(
        found,
        [
            "error: ClusterExtension stuck: Blocked: no package etcd → correct what the message names: kubectl edit clusterextension stuck; its revisions: kubectl operator olmv1 status stuck",
            "warning: ClusterCatalog gone: Retrying: cannot pull quay.io/a/b:v1 → correct what the message names: kubectl edit clustercatalog gone",
        ]
    );
    // They belong to no namespace.
    assert!(diagnosed_in(&cluster, Some("shop")).await.healthy);
}

#[tokio::test(start_paused = true)]
async fn olm_v1_that_may_not_be_read_is_not_fine_and_a_missing_one_is() {
    let cluster = cluster();
    assert!(diagnosed(&cluster).await.healthy);
    serve(&cluster);
    assert!(diagnosed(&cluster).await.healthy, "there is nothing to check");
    cluster.on_request(|request| {
        let is_v1 = request.kind.kind == "ClusterCatalog";
        is_v1.then(|| Fault::Refuse(Refusal::forbidden("it is forbidden")))
    });
    let findings = diagnosed(&cluster).await.findings;
    let severities: Vec<Severity> = findings.iter().map(|found| found.severity).collect();
    assert_eq!(severities, [Severity::NotChecked], "{findings:?}");
}
