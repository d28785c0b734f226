//! A gRPC server without methods, for tests that only need a connection.

use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tonic::service::Routes;
use tonic::transport::Server;

/// A running server; it stops and closes its connections when this is dropped.
pub struct Answering {
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

impl Answering {
    /// Stops the server and waits until its port and connections are closed.
    pub async fn end(self) {
        drop(self.stop);
        tokio::time::timeout(std::time::Duration::from_secs(10), self.task)
            .await
            .unwrap()
            .unwrap();
    }
}

/// Serves on `listener`.
pub fn answer(listener: TcpListener) -> Answering {
    let incoming = futures::stream::unfold(listener, |listener| async move {
        let accepted = listener.accept().await.map(|(socket, _)| socket);
        Some((accepted, listener))
    });
    let (stop, stopped) = oneshot::channel::<()>();
    let serving = Server::builder()
        .add_routes(Routes::default())
        .serve_with_incoming_shutdown(incoming, async {
            let _ = stopped.await;
        });
    let task = tokio::spawn(async move {
        serving.await.unwrap();
    });
    Answering { stop, task }
}

/// Serves on a free port of the loopback interface.
pub async fn answer_anywhere() -> (Answering, u16) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    (answer(listener), port)
}
