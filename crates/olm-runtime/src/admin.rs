//! Health and metrics, over HTTP/1.1: plain, and with a certificate over TLS ([`secure`]), which then alone serves the metrics.
//!
//! `/healthz` answers 200 as long as the process schedules work; `/readyz` answers 503 and names the
//! stores whose initial list is missing until all are there (upstream's `/healthz` answers 200 even
//! when nothing ever started). A standby that waits to be elected is ready, and says who leads; who leads and has not listed all
//! stores anew yet is not. `/metrics` tells what the process counted, see [`crate::metrics`]; the text is at most a second old.

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

/// The request line and headers of a probe or a scrape fit in this.
const REQUEST_LIMIT: usize = 4096;
/// How long a client may take to send its request and to take the answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// Connections at a time; beyond it the oldest of whoever has most is closed, since a probe is over in milliseconds and whoever holds
/// connections is none.
const CONNECTIONS: usize = 64;
/// Pause after a connection could not be taken, for example because no file descriptor is free.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// Media type of all that is said but metrics.
const TEXT: &str = "text/plain; charset=utf-8";

/// Where a process serves what it tells of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoints {
    /// Health and, where there is no other endpoint, metrics, over plain HTTP.
    pub health: SocketAddr,
    /// Health, and metrics to whoever may read them, over TLS.
    pub secure: Option<SecureEndpoint>,
}

/// An endpoint that has a certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SecureEndpoint {
    /// Where.
    pub address: SocketAddr,
    /// What it is served with.
    pub files: TlsFiles,
}

/// What is told of a process; a clone tells of the same.
#[derive(Clone)]
pub struct Admin {
    stores: StoreSetHandle,
    leadership: Leadership,
    page: Arc<Page>,
    /// Whether metrics are served by [`secure`] alone.
    is_secured: bool,
}

impl Admin {
    /// Tells of `stores`, of what they count in, and where an election stands. With `is_secured` metrics are served over TLS alone.
    pub fn new(stores: StoreSetHandle, leadership: Leadership, is_secured: bool) -> Self {
        Self {
            stores,
            leadership,
            page: Arc::default(),
            is_secured,
        }
    }

    /// Serves it on `address` until the task is dropped.
    ///
    /// # Errors
    /// When the address cannot be bound.
    pub async fn serve(self, address: SocketAddr) -> io::Result<()> {
        let listener = listener::bind(address).await?;
        self.answer_all(|| async { listener.accept().await }).await;
        Ok(())
    }

    /// Answers every connection that `accept` gives, for ever.
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
                "metrics are served over TLS alone: ask the port of --metrics-addr\n",
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

/// Has every connection that `accept` gives answered, for ever. A connection that could not be taken is the client's loss, or
/// passes with the load that caused it: it is no reason to end.
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
                tracing::warn!(%error, "a connection for health or metrics could not be taken");
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

/// The request line and the headers; `None` when they do not come, or are longer than `limit`.
async fn read_head(stream: &mut (impl AsyncRead + Unpin), limit: usize) -> io::Result<Option<Vec<u8>>> {
    let mut request = Vec::with_capacity(512);
    let mut seen = 0_usize;
    // The end may lie across two pieces.
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

/// Where programs in Go have profiles.
const PROFILES: &str = "/debug/pprof";
/// What who looks for them is told.
pub const NO_PROFILES: &str = "this program is not written in Go and has no profiles; /metrics has process_resident_memory_bytes, process_cpu_seconds_total, \
     process_threads and olm_store_objects, and traces tell where time goes (OTEL_EXPORTER_OTLP_ENDPOINT)\n";

/// The path in a request line.
fn path(request_line: &str) -> &str {
    let path = request_line.split(' ').nth(1).unwrap_or_default();
    path.split('?').next().unwrap_or_default()
}

/// What is to be said of a process that is ready, or why it is not: these stores are `missing`, or are `unlisted` since it leads, or the
/// Lease of an election.
fn readiness(
    missing: &[&str],
    unlisted: &[&str],
    election: Result<Option<String>, String>,
) -> Result<String, String> {
    if !missing.is_empty() {
        return Err(format!("waiting for the first list of: {}\n", missing.join(", ")));
    }
    if !unlisted.is_empty() {
        return Err(format!("leads, waiting for a list of: {}\n", unlisted.join(", ")));
    }
    match election {
        Ok(None) => Ok("ok\n".to_owned()),
        Ok(Some(text)) => Ok(format!("ok, {text}\n")),
        Err(text) => Err(format!("{text}\n")),
    }
}

/// An answer to a request.
#[derive(Debug, PartialEq, Eq)]
struct Answer {
    /// Status code and its name.
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

    /// Writes it as one to `request_line`, and ends the connection.
    async fn write(&self, request_line: &str, stream: &mut (impl AsyncWrite + Unpin)) -> io::Result<()> {
        let (head, body) = self.parts(request_line);
        stream.write_all(head.as_bytes()).await?;
        stream.write_all(body.as_bytes()).await?;
        stream.shutdown().await
    }

    /// Its head, and what is behind that.
    fn parts(&self, request_line: &str) -> (String, Arc<str>) {
        let Self {
            code,
            media_type,
            body,
        } = self;
        let length = body.len();
        // Whoever has to say who they are is told how.
        let how = if code.starts_with("401") {
            "WWW-Authenticate: Bearer\r\n"
        } else {
            ""
        };
        let head = format!(
            "HTTP/1.1 {code}\r\nContent-Type: {media_type}\r\nContent-Length: {length}\r\n{how}Connection: close\r\n\r\n"
        );
        // Whoever asks for the head gets it as it would be, and nothing behind it.
        let is_head = request_line.starts_with("HEAD ");
        (head, if is_head { "".into() } else { Arc::clone(body) })
    }
}

/// The answer to a request line.
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
