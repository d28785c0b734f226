//! Health and metrics endpoints over HTTP/1.1, in plain text and with TLS ([`secure`]). With a TLS endpoint, only that one serves
//! metrics.
//!
//! `/healthz` answers 200 as long as the process schedules work. Upstream's `/healthz` answers 200 even when nothing ever started.
//! `/readyz` answers 503 and names the stores that wait for their initial list. A standby that waits to be elected is ready and names the
//! leader. A new leader is not ready until it has listed all stores again. `/metrics` serves the metrics of the process, at most a second
//! old; see [`crate::metrics`].

pub mod secure;

use std::{convert::Infallible, future::Future, io, net::SocketAddr, sync::Arc, time::Duration};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use crate::{
    connections::OpenConnections,
    leader::Leadership,
    listener,
    metrics::{Metrics, Page},
    store::StoreSetHandle,
    tls::TlsFiles,
};

/// Maximum size in bytes of the request line and headers of a probe or a scrape.
const REQUEST_LIMIT: usize = 4096;
/// Time a client has to send its request and to read the answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// Maximum number of open connections. Beyond it, the oldest connection of the client with the most connections is closed. A probe takes
/// milliseconds, so long-lived connections are no probes.
const CONNECTIONS: usize = 64;
/// Pause after `accept` failed, for example because no file descriptor is free.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
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
    page: Arc<Page>,
    /// True if only [`secure`] serves metrics.
    is_secured: bool,
}

impl Admin {
    /// Reports on `stores`, their metrics and the state of the leader election. With `is_secured`, metrics are served over TLS only.
    pub fn new(stores: StoreSetHandle, leadership: Leadership, is_secured: bool) -> Self {
        Self {
            stores,
            leadership,
            page: Arc::default(),
            is_secured,
        }
    }

    /// Serves health and metrics on `address` until the task is dropped.
    ///
    /// # Errors
    /// If the address cannot be bound.
    pub async fn serve(self, address: SocketAddr) -> io::Result<()> {
        let listener = listener::bind(address).await?;
        self.answer_all(|| async { listener.accept().await }).await;
        Ok(())
    }

    /// Answers every connection that `accept` returns, forever.
    async fn answer_all<S, F>(&self, accept: impl Fn() -> F)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
        F: Future<Output = io::Result<(S, SocketAddr)>>,
    {
        let answer = |stream| {
            let admin = self.clone();
            async move { tokio::time::timeout(PATIENCE, admin.answer(stream)).await? }
        };
        take_all(accept, answer).await;
    }

    async fn answer(&self, mut stream: impl AsyncRead + AsyncWrite + Unpin) -> io::Result<()> {
        let Some(head) = read_head(&mut stream, REQUEST_LIMIT).await? else {
            return Ok(());
        };
        let line = request_line(&head);
        let answer = if self.is_secured && path(&line) == METRICS {
            Answer::text(
                "404 Not Found",
                "metrics are only served over TLS, on the port of --metrics-addr\n",
            )
        } else {
            self.content(&line)
        };
        answer.write(&line, &mut stream).await
    }

    fn content(&self, request_line: &str) -> Answer {
        let (missing, unlisted) = (self.stores.missing(), self.stores.unlisted());
        let readiness = readiness(&missing, &unlisted, self.leadership.readiness());
        content(request_line, readiness, self.stores.metrics(), &self.page)
    }
}

/// Answers every connection that `accept` returns, forever. A failed `accept` does not end the loop: either the client lost its
/// connection, or the cause passes with the load.
async fn take_all<S, F, A>(accept: impl Fn() -> F, answer: impl Fn(S) -> A) -> Infallible
where
    F: Future<Output = io::Result<(S, SocketAddr)>>,
    A: Future<Output = io::Result<()>> + Send + 'static,
{
    let mut open = OpenConnections::new(CONNECTIONS);
    loop {
        let (stream, peer) = match accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection for health or metrics");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let answered = answer(stream);
        let task = tokio::spawn(async move {
            let answered = answered.await;
            tracing::trace!(?answered, "request for health or metrics");
        });
        open.add(0, peer.ip(), task.abort_handle());
    }
}

/// Reads the request line and the headers. `None` if the client closes the connection first or they exceed `limit` bytes.
async fn read_head(stream: &mut (impl AsyncRead + Unpin), limit: usize) -> io::Result<Option<Vec<u8>>> {
    let mut request = Vec::with_capacity(512);
    let mut seen = 0_usize;
    // The end of the headers may be split across two chunks.
    while !request[seen.saturating_sub(3)..]
        .windows(4)
        .any(|window| window == b"\r\n\r\n")
    {
        seen = request.len();
        let mut chunk = [0; 512];
        let count = stream.read(&mut chunk).await?;
        if count == 0 || request.len() + count > limit {
            return Ok(None);
        }
        request.extend_from_slice(&chunk[..count]);
    }
    Ok(Some(request))
}

fn request_line(head: &[u8]) -> String {
    let line = head.split(|byte| *byte == b'\r').next().unwrap_or_default();
    String::from_utf8_lossy(line).into_owned()
}

/// Path of the metrics.
const METRICS: &str = "/metrics";

/// Path of the profiles in Go programs.
const PROFILES: &str = "/debug/pprof";
/// Body of the answer to requests for profiles.
pub const NO_PROFILES: &str = "this program is not written in Go and has no profiles; /metrics has process_resident_memory_bytes, process_cpu_seconds_total, process_threads and olm_store_objects; traces show where time is spent (OTEL_EXPORTER_OTLP_ENDPOINT)\n";

/// Returns the path of a request line, without the query.
fn path(request_line: &str) -> &str {
    let path = request_line.split(' ').nth(1).unwrap_or_default();
    path.split('?').next().unwrap_or_default()
}

/// Body of the `/readyz` answer if the process is ready, else the reason why it is not. Reasons are `missing` stores, stores that are
/// `unlisted` since the process leads, or the election.
fn readiness(
    missing: &[&str],
    unlisted: &[&str],
    election: Result<Option<String>, String>,
) -> Result<String, String> {
    if !missing.is_empty() {
        return Err(format!("waiting for the first list of: {}\n", missing.join(", ")));
    }
    if !unlisted.is_empty() {
        return Err(format!(
            "leader, waiting for a new list of: {}\n",
            unlisted.join(", ")
        ));
    }
    match election {
        Ok(None) => Ok("ok\n".to_owned()),
        Ok(Some(text)) => Ok(format!("ok, {text}\n")),
        Err(text) => Err(format!("{text}\n")),
    }
}

/// HTTP answer to a request.
#[derive(Debug, PartialEq, Eq)]
struct Answer {
    /// Status code with its phrase.
    code: &'static str,
    media_type: &'static str,
    body: Arc<str>,
}

impl Answer {
    fn text(code: &'static str, body: &str) -> Self {
        Self {
            code,
            media_type: TEXT,
            body: body.into(),
        }
    }

    /// Writes the answer to `request_line` and closes the connection.
    async fn write(&self, request_line: &str, stream: &mut (impl AsyncWrite + Unpin)) -> io::Result<()> {
        let (head, body) = self.parts(request_line);
        stream.write_all(head.as_bytes()).await?;
        stream.write_all(body.as_bytes()).await?;
        stream.shutdown().await
    }

    /// Returns the head and the body.
    fn parts(&self, request_line: &str) -> (String, Arc<str>) {
        let Self {
            code,
            media_type,
            body,
        } = self;
        let length = body.len();
        // A 401 must name the authentication scheme.
        let how = if code.starts_with("401") {
            "WWW-Authenticate: Bearer\r\n"
        } else {
            ""
        };
        let head = format!(
            "HTTP/1.1 {code}\r\nContent-Type: {media_type}\r\nContent-Length: {length}\r\n{how}Connection: close\r\n\r\n"
        );
        // HEAD gets the same headers as GET, without the body.
        let is_head = request_line.starts_with("HEAD ");
        (head, if is_head { "".into() } else { Arc::clone(body) })
    }
}

/// Returns the answer to a request line.
fn content(request_line: &str, readiness: Result<String, String>, metrics: &Metrics, page: &Page) -> Answer {
    let method = request_line.split(' ').next().unwrap_or_default();
    match (method, path(request_line)) {
        ("GET" | "HEAD", "/healthz" | "/livez") => Answer::text("200 OK", "ok\n"),
        ("GET" | "HEAD", "/readyz") => match readiness {
            Ok(text) => Answer::text("200 OK", &text),
            Err(text) => Answer::text("503 Service Unavailable", &text),
        },
        ("GET" | "HEAD", METRICS) => match page.text(metrics) {
            Ok(body) => Answer {
                code: "200 OK",
                media_type: Metrics::MEDIA_TYPE,
                body,
            },
            Err(error) => Answer::text("500 Internal Server Error", &format!("{error}\n")),
        },
        ("GET" | "HEAD", path) if path == PROFILES || path.starts_with("/debug/pprof/") => {
            Answer::text("404 Not Found", NO_PROFILES)
        }
        ("GET" | "HEAD", _) => Answer::text("404 Not Found", "try /healthz, /readyz or /metrics\n"),
        _ => Answer::text("405 Method Not Allowed", "only GET\n"),
    }
}

#[cfg(test)]
mod tests;
