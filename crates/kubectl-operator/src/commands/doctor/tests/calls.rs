//! Tests of calls by the API server, and of objects that outlived their owner.

use olm_api::labels;
use olm_testing::cluster::FakeCluster;
use serde_json::json;

use super::{Row, cluster, diagnosed, diagnosed_in, found, was, webhook};
use crate::terminal::Colours;

#[tokio::test(start_paused = true)]
async fn what_was_left_behind_is_reported() {
    let rows: [Row; 3] = [
        (
            |cluster| cluster.put(webhook("old", "etcd.v0.1.0")),
            "error: ValidatingWebhookConfiguration old: it is orphaned: its ClusterServiceVersion shop/etcd.v0.1.0 no longer exists",
        ),
        (
            |cluster| {
                was(cluster.edit(
                    "APIService",
                    "",
                    "v1.api.example.com",
                    &json!({"metadata": {"labels": {labels::OWNER: "etcd.v0.1.0"}}}),
                ));
            },
            "error: APIService v1.api.example.com: it is orphaned: its ClusterServiceVersion shop/etcd.v0.1.0 no longer exists",
        ),
        (
            |cluster| {
                was(cluster.edit(
                    "ClusterRole",
                    "",
                    "etcd.v1.0.0:x",
                    &json!({"metadata": {"labels": {labels::OWNER: "etcd.v0.1.0"}}}),
                ));
            },
            "error: ClusterRole etcd.v1.0.0:x: it is orphaned: its ClusterServiceVersion shop/etcd.v0.1.0 no longer exists",
        ),
    ];
    for (change, expected) in rows {
        assert_eq!(found(change).await, [expected]);
    }
}

/// OLM deletes its own.
#[tokio::test(start_paused = true)]
async fn an_empty_operator_of_upstream_is_a_note_that_changes_no_exit_code() {
    let reference = json!({"kind": "CustomResourceDefinition", "name": "etcds.example.com"});
    for (labels, refs, is_told) in [
        (json!({}), json!([]), true),
        (json!({}), json!([reference]), false),
        (json!({labels::MANAGED: labels::TRUE}), json!([]), false),
    ] {
        let cluster = cluster();
        cluster.put(
            json!({"apiVersion": "operators.coreos.com/v1", "kind": "Operator",
            "metadata": {"name": "etcd.gone", "labels": labels},
            "status": {"components": {"labelSelector": {}, "refs": refs}}}),
        );
        let diagnosis = diagnosed(&cluster).await;
        assert!(diagnosis.healthy, "{diagnosis:?}");
        assert_eq!(diagnosis.findings.len(), usize::from(is_told), "{diagnosis:?}");
        // It belongs to no namespace.
        assert_eq!(diagnosed_in(&cluster, Some("shop")).await.findings, []);
        if is_told {
            insta::assert_snapshot!(diagnosis.text(false, Colours(false)), @r"
            note         Operator etcd.gone: it is left over: it lists no objects, and OLM deletes only Operators that it created
                         → kubectl delete operator etcd.gone
            errors: 0, warnings: 0, not checked: 0, fine: 15
            ");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn webhooks_without_endpoints_are_reported() {
    let none_ready = |cluster: &FakeCluster| {
        was(cluster.edit(
            "EndpointSlice",
            "shop",
            "etcd-1",
            &json!({"endpoints": [{"addresses": ["10.0.0.1"], "conditions": {"ready": false}}]}),
        ));
    };
    let service = "its service shop/etcd-service has no ready endpoint";
    assert_eq!(
        found(none_ready).await,
        [
            format!("error: ValidatingWebhookConfiguration hook: {service}, so requests to it are rejected"),
            format!("error: APIService v1.api.example.com: {service}, so its API is not served"),
            format!(
                "error: CustomResourceDefinition etcds.example.com: {service}, so its objects cannot be converted"
            ),
        ]
    );
    let ignored = |cluster: &FakeCluster| {
        none_ready(cluster);
        let mut hook = webhook("hook", "etcd.v1.0.0");
        hook["webhooks"][0]["failurePolicy"] = json!("Ignore");
        cluster.put(hook);
    };
    let told = found(ignored).await;
    let expected = format!(
        "warning: ValidatingWebhookConfiguration hook: {service}, so the webhook is skipped: requests pass without it, as its failurePolicy is Ignore"
    );
    assert!(told.contains(&expected), "{told:?}");
    let gone = |cluster: &FakeCluster| was(cluster.delete("Service", "shop", "etcd-service"));
    assert!(
        found(gone)
            .await
            .iter()
            .all(|finding| finding.contains("its service shop/etcd-service does not exist"))
    );
    let unavailable =
        |cluster: &FakeCluster| {
            was(cluster.edit("APIService", "", "v1.api.example.com",
        &json!({"status": {"conditions": [{"type": "Available", "status": "False", "message": "no"}]}})));
        };
    assert_eq!(
        found(unavailable).await,
        ["error: APIService v1.api.example.com: the API server reports it as unavailable: no"]
    );
}
