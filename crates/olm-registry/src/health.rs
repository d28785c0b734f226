//! `grpc.health.v1.Health`: reports serving, for any service name, until the server is asked to stop.
//!
//! Readers ask for `Registry`, kubelets for the empty name; upstream answers any name. Unlike upstream's,
//! `Watch` works, and notifies watchers when the server stops.

use std::pin::Pin;

use tokio::sync::watch;
use tokio_stream::wrappers::WatchStream;
use tokio_stream::{Stream, StreamExt as _};
use tonic::{Request, Response, Status};
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_server::{Health, HealthServer};
use tonic_health::pb::{HealthCheckRequest, HealthCheckResponse};

/// Answers health checks from a flag.
#[derive(Clone)]
pub struct HealthService {
    serving: watch::Receiver<bool>,
}

impl HealthService {
    /// Returns the service, and the sender that announces the server's stop.
    pub fn new() -> (HealthServer<Self>, watch::Sender<bool>) {
        let (sender, serving) = watch::channel(true);
        (HealthServer::new(Self { serving }), sender)
    }
}

fn answer(serving: bool) -> HealthCheckResponse {
    let status = if serving {
        ServingStatus::Serving
    } else {
        ServingStatus::NotServing
    };
    HealthCheckResponse {
        status: status.into(),
    }
}

#[tonic::async_trait]
impl Health for HealthService {
    async fn check(
        &self,
        _request: Request<HealthCheckRequest>,
    ) -> Result<Response<HealthCheckResponse>, Status> {
        Ok(Response::new(answer(*self.serving.borrow())))
    }

    type WatchStream = Pin<Box<dyn Stream<Item = Result<HealthCheckResponse, Status>> + Send>>;

    async fn watch(
        &self,
        _request: Request<HealthCheckRequest>,
    ) -> Result<Response<Self::WatchStream>, Status> {
        let changes = WatchStream::new(self.serving.clone()).map(|serving| Ok(answer(serving)));
        Ok(Response::new(Box::pin(changes)))
    }
}
