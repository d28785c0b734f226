//! A server on a loopback port, and the decoding of its answers.

use std::sync::Arc;
use std::time::Duration;

use olm_registry::client::{Client, Messages};
use olm_registry::index::Index;
use olm_registry::{cache, proto, server};
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio_stream::StreamExt as _;
use tonic::{Code, Status};

use crate::contract::Registry;

pub(crate) const CATALOG: &str = include_str!("../catalog.yaml");

pub(crate) struct Server {
    pub(crate) address: String,
    stop: Option<oneshot::Sender<()>>,
    task: JoinHandle<()>,
}

impl Server {
    pub(crate) async fn start(index: Index) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("port");
        Self::start_on(index, listener)
    }

    pub(crate) fn start_on(index: Index, listener: TcpListener) -> Self {
        let address = listener.local_addr().expect("address").to_string();
        let (stop, stopped) = oneshot::channel::<()>();
        let task = tokio::spawn(async move {
            let stop = async {
                let _ = stopped.await;
            };
            server::serve(Arc::new(index), listener, stop)
                .await
                .expect("serve");
        });
        Self {
            address,
            stop: Some(stop),
            task,
        }
    }

    pub(crate) async fn small() -> Self {
        let dir = tempfile::tempdir().expect("folder");
        std::fs::write(dir.path().join("catalog.yaml"), CATALOG).expect("catalog");
        Self::start(cache::open_temporary(dir.path(), None).expect("index")).await
    }

    pub(crate) fn client(&self) -> Client {
        let endpoint = tonic::transport::Endpoint::from_shared(format!("http://{}", self.address));
        Client::new(endpoint.expect("address").connect_lazy())
    }

    pub(crate) fn registry(&self) -> Registry {
        Registry(self.client())
    }

    /// Stops the server as a signal would, and waits for it.
    pub(crate) async fn stop(&mut self) {
        self.stop.take().expect("running").send(()).expect("running");
        tokio::time::timeout(Duration::from_secs(10), &mut self.task)
            .await
            .expect("stops in time")
            .expect("no panic");
    }
}

pub(crate) fn unknown<T>(result: Result<T, Status>, message: &str) {
    let status = result.err().expect(message);
    assert_eq!((status.code(), status.message()), (Code::Unknown, message));
}

pub(crate) async fn entries(stream: Result<Messages<proto::ChannelEntry>, Status>) -> Vec<String> {
    stream
        .expect("entries")
        .map(|entry| entry.expect("entry"))
        .map(|entry| {
            format!(
                "{}/{}/{}<{}",
                entry.package_name, entry.channel_name, entry.bundle_name, entry.replaces
            )
        })
        .collect()
        .await
}
