//! The server: HTTPS with HTTP/2, within bounds.
//!
//! # Guarantees
//! - Of too many connections, the oldest of the address with the most is closed: a client that opens many
//!   closes its own.
//! - Handshakes, heads of requests and responses have deadlines. A socket without progress for thirty seconds
//!   is closed, and a request of HTTP/2 ends after [`REQUEST_TIME`], however much of its response was read.
//!   The deadline is needed because a stream without a window writes nothing, so its socket does not stall.
//! - When the certificate or the API server's authorities change, older connections finish their requests and
//!   end.
//! - On shutdown, open requests are finished.

use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use http::Request;
use hyper::body::Incoming;
use hyper::rt::Executor;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use olm_runtime::connections::{LAST_REQUESTS, OpenConnections, accept_until, handshake};
use olm_runtime::tls::Subject;
use rustls::ServerConfig;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::time::timeout;
use tokio_rustls::server::TlsStream;

use crate::api::{Api, Peer};
use crate::limits::{
    CONNECTIONS, HEAD_BYTES, HEAD_TIME, PROXY_HEAD_BYTES, PROXY_STREAMS, REQUEST_TIME, SEND_BYTES, STREAMS,
};

/// Interval of liveness checks on HTTP/2 connections.
const PING_EVERY: Duration = Duration::from_secs(30);

/// Serves `api` on `listener` until `stop`, then finishes the open requests.
pub async fn serve(
    listener: TcpListener,
    config: watch::Receiver<Arc<ServerConfig>>,
    api: Arc<Api>,
    stop: impl Future<Output = ()>,
) {
    let mut open = OpenConnections::new(CONNECTIONS);
    accept_until(listener, stop, |connections, stream, peer, stopped| {
        let connection = Connection {
            api: Arc::clone(&api),
            config: config.clone(),
            stopped,
        };
        let task = connections.spawn(connection.run(stream));
        open.add(peer, task);
    })
    .await;
}

/// Runs the requests of HTTP/2 connections, each no longer than [`REQUEST_TIME`]. A late request is dropped
/// with all it holds. Its stream is reset once the rest in the buffer ([`SEND_BYTES`]) is read.
#[derive(Clone, Copy)]
struct DeadlineExecutor;

impl<F: Future + Send + 'static> Executor<F> for DeadlineExecutor {
    fn execute(&self, request: F) {
        tokio::spawn(async move {
            if timeout(REQUEST_TIME, request).await.is_err() {
                tracing::debug!("connection closed: client too slow");
            }
        });
    }
}

struct Connection {
    api: Arc<Api>,
    config: watch::Receiver<Arc<ServerConfig>>,
    stopped: watch::Receiver<bool>,
}

impl Connection {
    async fn run(mut self, stream: TcpStream) {
        let config = Arc::clone(&self.config.borrow_and_update());
        let Some(tls) = handshake(config, stream).await else {
            return;
        };
        let peer = peer(&tls);
        if let Err(error) = self.answer(tls, peer).await {
            tracing::debug!(%error, "connection ended early");
        }
    }

    async fn answer(self, tls: TlsStream<TcpStream>, peer: Peer) -> hyper::Result<()> {
        let is_http2 = tls.get_ref().1.alpn_protocol() == Some(b"h2".as_slice());
        // Heads are in memory before their sender is known, except for the API server.
        let (head_bytes, streams) = if self.api.is_front_proxy(&peer) {
            (PROXY_HEAD_BYTES, PROXY_STREAMS)
        } else {
            (HEAD_BYTES, STREAMS)
        };
        let (api, peer) = (self.api, Arc::new(peer));
        let service = service_fn(move |request: Request<Incoming>| {
            let (api, peer) = (Arc::clone(&api), Arc::clone(&peer));
            // No served path takes a body: it is not read.
            let (head, _) = request.into_parts();
            async move { Ok::<_, Infallible>(api.answer(&peer, &head.method, &head.uri, &head.headers).await) }
        });
        let io = TokioIo::new(tls);
        let ends = ends(self.config, self.stopped);
        let mut ends = std::pin::pin!(ends);
        // A connection that shall end gets no new requests. Its open ones have the same time as on shutdown.
        if is_http2 {
            let connection = http2::Builder::new(DeadlineExecutor)
                .timer(TokioTimer::new())
                .keep_alive_interval(PING_EVERY)
                .max_concurrent_streams(streams)
                .max_send_buf_size(SEND_BYTES)
                .max_header_list_size(head_bytes)
                .serve_connection(io, service);
            let mut connection = std::pin::pin!(connection);
            tokio::select! {
                ended = connection.as_mut() => return ended,
                () = ends.as_mut() => connection.as_mut().graceful_shutdown(),
            }
            timeout(LAST_REQUESTS, connection).await.unwrap_or(Ok(()))
        } else {
            let connection = http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(HEAD_TIME)
                .max_buf_size(head_bytes as usize)
                .serve_connection(io, service);
            let mut connection = std::pin::pin!(connection);
            tokio::select! {
                ended = connection.as_mut() => return ended,
                () = ends.as_mut() => connection.as_mut().graceful_shutdown(),
            }
            timeout(LAST_REQUESTS, connection).await.unwrap_or(Ok(()))
        }
    }
}

/// Waits until a connection shall accept no more requests.
async fn ends(mut config: watch::Receiver<Arc<ServerConfig>>, mut stopped: watch::Receiver<bool>) {
    tokio::select! {
        // An error means that nothing changes any more, which happens only on shutdown.
        _ = config.changed() => {}
        _ = stopped.wait_for(|stopped| *stopped) => {}
    }
}

fn peer(tls: &TlsStream<TcpStream>) -> Peer {
    let certificates = tls.get_ref().1.peer_certificates().unwrap_or_default();
    Peer {
        common_name: certificates
            .first()
            .map(|certificate| Subject::of(certificate).common_name),
    }
}

/// Listens on `address`, by default on all addresses of both families.
///
/// # Errors
/// The port is not available.
pub async fn listen(address: Option<std::net::IpAddr>, port: u16) -> io::Result<TcpListener> {
    let address = address.unwrap_or(std::net::Ipv4Addr::UNSPECIFIED.into());
    olm_runtime::listener::bind((address, port).into()).await
}

#[cfg(test)]
mod tests;
