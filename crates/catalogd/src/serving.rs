//! The server: HTTP/1.1, over TLS if there is a certificate, within bounds.
//!
//! # Guarantees
//! - A client that opens many connections closes its own.
//! - Handshakes and heads of requests have deadlines, and a socket that takes nothing for thirty seconds is closed. A connection without
//!   requests is closed after [`HEAD_TIME`], so a new certificate is soon used by all.
//! - On shutdown, open requests have ten seconds to finish.

#[cfg(test)]
mod tests;

use std::convert::Infallible;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use http::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use olm_runtime::connections::{OpenConnections, accept_until, handshake};
use rustls::ServerConfig;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use crate::api::Api;

/// Application protocols (ALPN) that are offered.
pub(crate) const PROTOCOLS: [&[u8]; 1] = [b"http/1.1"];
/// Open connections. Each has buffers of some hundred KiB while it is answered.
const CONNECTIONS: usize = 128;
/// Time for the head of a request, and until the next request of a connection.
const HEAD_TIME: Duration = Duration::from_secs(10);
/// Bytes of the head of a request.
const HEAD_BYTES: usize = 16 << 10;

/// Serves `api` on `listener` until `stop`, then finishes the open requests. `tls` is the newest configuration; `None` for plain HTTP.
pub(crate) async fn serve(
    listener: TcpListener,
    tls: Option<watch::Receiver<Arc<ServerConfig>>>,
    api: Api,
    stop: impl Future<Output = ()>,
) {
    let mut open = OpenConnections::new(CONNECTIONS);
    accept_until(listener, stop, |connections, stream, peer, stopped| {
        let config = tls.as_ref().map(|tls| Arc::clone(&tls.borrow()));
        let task = connections.spawn(accepted_one(stream, config, api.clone(), stopped));
        open.add(peer, task);
    })
    .await;
}

async fn accepted_one(
    stream: TcpStream,
    config: Option<Arc<ServerConfig>>,
    api: Api,
    stopped: watch::Receiver<bool>,
) {
    let ended = match config {
        None => answer(stream, api, stopped).await,
        Some(config) => match handshake(config, stream).await {
            Some(tls) => answer(tls, api, stopped).await,
            None => return,
        },
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection ended early");
    }
}

async fn answer(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    api: Api,
    mut stopped: watch::Receiver<bool>,
) -> hyper::Result<()> {
    let service = service_fn(move |request: Request<Incoming>| {
        // No served path takes a body: it is not read.
        let (head, _) = request.into_parts();
        let response = api.answer(&head.method, &head.uri, &head.headers);
        async move { Ok::<_, Infallible>(response) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIME)
        .max_buf_size(HEAD_BYTES)
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = std::pin::pin!(connection);
    tokio::select! {
        ended = connection.as_mut() => return ended,
        _ = stopped.wait_for(|stopped| *stopped) => connection.as_mut().graceful_shutdown(),
    }
    connection.await
}
