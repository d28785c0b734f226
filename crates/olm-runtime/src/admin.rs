//! Health and metrics endpoints over HTTP/1.1, in plain text and with TLS ([`secure`]). With a TLS endpoint, only that one serves
//! metrics.
//!
//! `/healthz` answers 200 as long as the process schedules work. Upstream's `/healthz` answers 200 even when nothing ever started.
//! `/readyz` answers 503 and names the stores that wait for their initial list. A standby that waits to be elected is ready and names the
//! leader. `/metrics` serves the metrics of the process, at most a second old; see [`crate::metrics`].

pub mod secure;

use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::request::Parts;
use http::{HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tower::BoxError;

use crate::connections::accept_until;
use crate::leader::Leadership;
use crate::listener;
use crate::metrics::Metrics;
use crate::store::StoreSetHandle;
use crate::tls::TlsFiles;

/// Maximum size in bytes of the head of a request. It leaves space for a token.
const HEAD_BYTES: usize = 24 << 10;
/// Deadline of a connection over plain HTTP: its request and the answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// Media type of all answers except metrics.
const TEXT: &str = "text/plain; charset=utf-8";

/// Addresses on which a process serves health and metrics.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoints {
    /// Health over plain HTTP, and metrics if there is no secure endpoint.
    pub health: SocketAddr,
    /// Health, and metrics for authorized clients, over TLS.
    pub secure: Option<SecureEndpoint>,
}

/// Address and TLS files of the secure endpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SecureEndpoint {
    /// Address to listen on.
    pub address: SocketAddr,
    /// Certificate, key and client authority.
    pub files: TlsFiles,
}

/// Health and metrics of a process. Clones share the same state.
#[derive(Clone)]
pub struct Admin {
    stores: StoreSetHandle,
    leadership: Leadership,
    /// True if only [`secure`] serves metrics.
    is_secured: bool,
}

impl Admin {
    /// Reports on `stores`, their metrics and the state of the leader election. With `is_secured`, metrics are served over TLS only.
    pub fn new(stores: StoreSetHandle, leadership: Leadership, is_secured: bool) -> Self {
        Self {
            stores,
            leadership,
            is_secured,
        }
    }

    /// Serves health and metrics on `address` until the task is dropped.
    ///
    /// # Errors
    /// If the address cannot be bound.
    pub async fn serve(self, address: SocketAddr) -> io::Result<()> {
        let listener = listener::bind(address).await?;
        answer_each(listener, PATIENCE, |stream| self.clone().answer(stream)).await;
        Ok(())
    }

    /// Answers a request over plain HTTP on `stream`.
    async fn answer(self, stream: impl AsyncRead + AsyncWrite + Unpin) -> Result<(), BoxError> {
        answer_one(stream, |head| std::future::ready(self.plain(&head))).await
    }

    /// Returns the answer to a request over plain HTTP.
    fn plain(&self, head: &Parts) -> Answer {
        if self.is_secured && head.uri.path() == METRICS {
            return text(
                StatusCode::NOT_FOUND,
                "metrics are only served over TLS, on the port for metrics\n",
            );
        }
        self.content(&head.method, head.uri.path())
    }

    fn content(&self, method: &Method, path: &str) -> Answer {
        let readiness = readiness(&self.stores.missing(), self.leadership.readiness());
        content(method, path, readiness, self.stores.metrics())
    }
}

/// Answers every connection to `listener`, each for at most `patience`, forever.
async fn answer_each<A>(listener: TcpListener, patience: Duration, answer: impl Fn(TcpStream) -> A)
where
    A: Future<Output = Result<(), BoxError>> + Send + 'static,
{
    accept_until(listener, std::future::pending(), |connections, stream, _, _| {
        let answered = tokio::time::timeout(patience, answer(stream));
        connections.spawn(async move {
            let answered = answered.await;
            tracing::trace!(?answered, "request for health or metrics");
        });
    })
    .await;
}

/// Answers one request on `stream` and closes it. The body of the request is not read.
async fn answer_one<S, F>(stream: S, answer: impl Fn(Parts) -> F) -> Result<(), BoxError>
where
    S: AsyncRead + AsyncWrite + Unpin,
    F: Future<Output = Answer>,
{
    let service = service_fn(|request: Request<Incoming>| {
        let answered = answer(request.into_parts().0);
        async move { Ok::<_, Infallible>(answered.await) }
    });
    let connection = http1::Builder::new()
        .keep_alive(false)
        .max_buf_size(HEAD_BYTES)
        .serve_connection(TokioIo::new(stream), service);
    Ok(connection.await?)
}

/// Path of the metrics.
const METRICS: &str = "/metrics";

/// Path of the profiles in Go programs.
const PROFILES: &str = "/debug/pprof";
/// Body of the answer to requests for profiles.
pub const NO_PROFILES: &str = "this program is not written in Go and has no profiles; /metrics has process_resident_memory_bytes, process_cpu_seconds_total, process_threads and olm_store_objects; traces show where time is spent (OTEL_EXPORTER_OTLP_ENDPOINT)\n";

/// Body of the `/readyz` answer if the process is ready, else the reason why it is not. Reasons are `missing` stores or the
/// election.
fn readiness(missing: &[&str], election: Result<Option<String>, String>) -> Result<String, String> {
    if !missing.is_empty() {
        return Err(format!("waiting for the first list of: {}\n", missing.join(", ")));
    }
    match election {
        Ok(None) => Ok("ok\n".to_owned()),
        Ok(Some(text)) => Ok(format!("ok, {text}\n")),
        Err(text) => Err(format!("{text}\n")),
    }
}

/// Answer to a request.
type Answer = Response<Full<Bytes>>;

fn text(code: StatusCode, body: impl Into<Bytes>) -> Answer {
    answer(code, TEXT, body.into())
}

fn answer(code: StatusCode, media_type: &'static str, body: Bytes) -> Answer {
    let mut answer = Response::new(Full::new(body));
    *answer.status_mut() = code;
    let media_type = HeaderValue::from_static(media_type);
    answer.headers_mut().insert(CONTENT_TYPE, media_type);
    answer
}

/// Returns the answer to a request. The server leaves out the body if the method is HEAD.
fn content(method: &Method, path: &str, readiness: Result<String, String>, metrics: &Metrics) -> Answer {
    if !matches!(*method, Method::GET | Method::HEAD) {
        return text(StatusCode::METHOD_NOT_ALLOWED, "only GET\n");
    }
    match path {
        "/healthz" | "/livez" => text(StatusCode::OK, "ok\n"),
        "/readyz" => match readiness {
            Ok(body) => text(StatusCode::OK, body),
            Err(body) => text(StatusCode::SERVICE_UNAVAILABLE, body),
        },
        METRICS => match metrics.page() {
            Ok(body) => answer(StatusCode::OK, Metrics::MEDIA_TYPE, body),
            Err(error) => text(StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")),
        },
        path if path == PROFILES || path.starts_with("/debug/pprof/") => {
            text(StatusCode::NOT_FOUND, NO_PROFILES)
        }
        _ => text(StatusCode::NOT_FOUND, "try /healthz, /readyz or /metrics\n"),
    }
}

#[cfg(test)]
mod tests;
