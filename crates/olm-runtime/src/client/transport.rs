//! HTTP client under kube's.
//!
//! It is built as kube would, except that dead connections are detected and connections use less memory. Each watch has its own
//! connection for the life of the process. hyper lets the buffer of each grow to 400 KiB with the largest answer, and keeps it. A write
//! that finds all connections in use opens another, and without a timer hyper closes none of them until the next request.

use std::time::Duration;

use http::{Request, Response};
use http_body_util::BodyExt;
use hyper_timeout::TimeoutConnector;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use kube::Config;
use kube::client::{Body, ClientBuilder, ConfigExt, DynBody};
use tower::util::BoxService;
use tower::{BoxError, ServiceBuilder, ServiceExt};

/// Maximum bytes that a connection reads at once, which also limits the head of an answer. A TLS record has at most 16 KiB.
const READ_BUFFER: usize = 32 << 10;

/// Time after which an idle connection is closed. A new one costs a handshake, a few milliseconds.
const IDLE: Duration = Duration::from_secs(30);

/// Time without data after which keepalive probes start.
const SILENCE: Duration = Duration::from_secs(30);
/// Interval between keepalive probes.
const ASK_EVERY: Duration = Duration::from_secs(5);
/// Number of unanswered probes that close the connection.
const QUESTIONS: u32 = 3;

type Transport = BoxService<Request<Body>, Response<Box<DynBody>>, BoxError>;

/// Builds the client of `config`, without retries.
///
/// # Errors
/// If TLS or authentication cannot be set up.
pub(super) fn build(config: Config) -> Result<ClientBuilder<Transport>, kube::Error> {
    // A proxy or a login program occurs only on the computers of administrators, and only kube knows how to refresh such logins.
    if config.proxy_url.is_some() || config.auth_info.exec.is_some() {
        return ClientBuilder::try_from(config);
    }
    let mut connector = TimeoutConnector::new(config.rustls_https_connector_with_connector(tcp())?);
    connector.set_connect_timeout(config.connect_timeout);
    connector.set_read_timeout(config.read_timeout);
    connector.set_write_timeout(config.write_timeout);
    connector.set_reset_reader_on_write(config.reset_reader_on_write);
    let client = Client::builder(TokioExecutor::new())
        .http1_max_buf_size(READ_BUFFER)
        .pool_timer(TokioTimer::new())
        .pool_idle_timeout(IDLE)
        .build(connector);
    let service = ServiceBuilder::new()
        .layer(config.base_uri_layer())
        .option_layer(config.auth_layer()?)
        .layer(config.extra_headers_layer()?)
        .map_err(BoxError::from)
        .service(client)
        .map_response(|answer: Response<_>| {
            answer.map(|body| Box::new(body.map_err(BoxError::from)) as Box<DynBody>)
        })
        .boxed();
    Ok(ClientBuilder::new(service, config.default_namespace))
}

/// Returns the connector that opens connections to the API server.
fn tcp() -> HttpConnector {
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    // A watch sends nothing, so only keepalive can find out that the other end is gone.
    tcp.set_keepalive(Some(SILENCE));
    tcp.set_keepalive_interval(Some(ASK_EVERY));
    tcp.set_keepalive_retries(Some(QUESTIONS));
    tcp
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;
    use tower::Service;

    use super::*;

    /// A machine that disappears closes no connection, so a watch would receive nothing until it expires.
    #[tokio::test]
    async fn silent_peers_are_probed_by_tcp_keepalive() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let uri: http::Uri = format!("https://{}", listener.local_addr().unwrap())
            .parse()
            .unwrap();
        let stream = tcp().call(uri).await.unwrap();
        let socket = socket2::SockRef::from(stream.inner());
        assert!(socket.keepalive().unwrap());
        let times = (
            socket.tcp_keepalive_time().unwrap(),
            socket.tcp_keepalive_interval().unwrap(),
            socket.tcp_keepalive_retries().unwrap(),
        );
        assert_eq!(times, (SILENCE, ASK_EVERY, QUESTIONS));
        assert!(SILENCE + QUESTIONS * ASK_EVERY <= Duration::from_secs(60));
    }
}
