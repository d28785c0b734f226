//! Tests of calls by the API server, and of objects that outlived their owner.

use olm_api::labels;
use olm_testing::cluster::FakeCluster;
use serde_json::json;

use super::{Row, found, was, webhook};

#[tokio::test(start_paused = true)]
async fn what_was_left_behind_is_told() {
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

#[tokio::test(start_paused = true)]
async fn calls_that_reach_nobody_are_told() {
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
