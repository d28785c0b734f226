//! The HTTP client under kube's.
//!
//! As kube would make it, but that a connection whose other end is gone is found out, and for the memory of connections. Each watch has one of its own for as long as the process lives, and
//! hyper lets the buffer of each grow to 400 KiB with the largest answer, and keeps it. Each write that finds all others in use
//! opens one more, and without a timer hyper closes none of them until the next request.

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

use super::gated::LastLook;

/// What a connection reads at once at most, in bytes, and so what the head of an answer may have. A TLS record is no longer than 16 KiB.
const READ_BUFFER: usize = 32 << 10;

/// How long a connection waits for its next request. A new one costs a handshake, a few milliseconds.
const IDLE: Duration = Duration::from_secs(30);

/// So long nothing has to have come on a connection until the machine at the other end is asked whether it is there.
const SILENCE: Duration = Duration::from_secs(30);
/// How often it is asked then.
const ASK_EVERY: Duration = Duration::from_secs(5);
/// So many questions without an answer are the end of the connection. Where what was sent has to be acknowledged in time, one is:
/// the system takes that time for both.
const QUESTIONS: u32 = 3;

type Transport = BoxService<Request<Body>, Response<Box<DynBody>>, BoxError>;

/// The client of `config`, without the repetition of requests. What is sent and not acknowledged for so long as `unacknowledged` says is
/// given up by the system, whether anybody waits for it or not; without it the system tries for a quarter of an hour.
///
/// # Errors
/// When TLS or authentication cannot be set up.
pub(super) fn build(
    config: Config,
    unacknowledged: Option<Duration>,
) -> Result<ClientBuilder<Transport>, kube::Error> {
    // What administrators have on their desks, with a lifetime that only kube knows to follow. No pod has either.
    if config.proxy_url.is_some() || config.auth_info.exec.is_some() {
        return ClientBuilder::try_from(config);
    }
    let tcp = tcp(unacknowledged);
    let mut connector = TimeoutConnector::new(config.rustls_https_connector_with_connector(tcp)?);
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
        .map_request(LastLook::at)
        .service(client)
        .map_response(|answer: Response<_>| {
            answer.map(|body| Box::new(body.map_err(BoxError::from)) as Box<DynBody>)
        })
        .boxed();
    Ok(ClientBuilder::new(service, config.default_namespace))
}

/// What opens connections to the API server.
fn tcp(unacknowledged: Option<Duration>) -> HttpConnector {
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    tcp.set_tcp_user_timeout(unacknowledged);
    // On a watch nothing is sent, so that nothing else would ever find out.
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

    /// A process that gave a write up closes the connection, and the system goes on sending what was not acknowledged.
    #[tokio::test]
    async fn what_is_not_acknowledged_in_time_is_sent_no_more() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let uri: http::Uri = format!("https://{}", listener.local_addr().unwrap())
            .parse()
            .unwrap();
        for wanted in [Some(Duration::from_millis(1250)), None] {
            let stream = tcp(wanted).call(uri.clone()).await.unwrap();
            let found = socket2::SockRef::from(stream.inner()).tcp_user_timeout().unwrap();
            assert_eq!(found, wanted);
        }
    }

    /// A machine that is gone closes no connection, and a watch would hear nothing until its time is over.
    #[tokio::test]
    async fn who_is_silent_is_asked_whether_it_is_there_with_an_election_and_without() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let uri: http::Uri = format!("https://{}", listener.local_addr().unwrap())
            .parse()
            .unwrap();
        for unacknowledged in [Some(Duration::from_millis(1250)), None] {
            let stream = tcp(unacknowledged).call(uri.clone()).await.unwrap();
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
}
