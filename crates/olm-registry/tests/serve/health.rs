//! Health checks.

use std::time::Duration;

use olm_registry::cache;
use olm_registry::client::HEALTH_NAME;
use tokio::net::TcpListener;
use tonic::transport::Endpoint;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;

use crate::server::{CATALOG, Server};

#[tokio::test]
async fn health_is_reported_for_any_name() {
    use tonic_health::pb::{
        HealthCheckRequest, health_check_response::ServingStatus, health_client::HealthClient,
    };
    let server = Server::small().await;
    let channel = tonic::transport::Endpoint::from_shared(format!("http://{}", server.address))
        .expect("address")
        .connect_lazy();
    let mut health = HealthClient::new(channel);
    for name in ["", "Registry", "anything"] {
        let answer = health
            .check(HealthCheckRequest { service: name.into() })
            .await
            .expect("answer");
        assert_eq!(answer.into_inner().status(), ServingStatus::Serving);
    }
    server.client().check().await.expect("serving");
}

#[tokio::test]
async fn a_watcher_is_notified_and_does_not_delay_the_stop() {
    let mut server = Server::small().await;
    let channel = Endpoint::from_shared(format!("http://{}", server.address))
        .expect("address")
        .connect()
        .await
        .expect("connection");
    let request = HealthCheckRequest {
        service: HEALTH_NAME.to_owned(),
    };
    let mut changes = HealthClient::new(channel)
        .watch(request)
        .await
        .expect("watch")
        .into_inner();
    let first = changes.message().await.expect("stream").expect("status");
    assert_eq!(first.status(), ServingStatus::Serving);
    server.stop().await;
    let end = async {
        while let Ok(Some(change)) = changes.message().await {
            assert_ne!(change.status(), ServingStatus::Serving);
        }
    };
    tokio::time::timeout(Duration::from_secs(20), end)
        .await
        .expect("the stream ends");
    let listener = TcpListener::bind(&server.address).await.expect("the same port");
    let dir = tempfile::tempdir().expect("folder");
    std::fs::write(dir.path().join("catalog.yaml"), CATALOG).expect("catalog");
    let server = Server::start_on(cache::open_temporary(dir.path(), None).expect("index"), listener);
    let packages = server.client().list_packages().await.expect("packages");
    assert_eq!(packages.len(), 2);
}
