//! Health and metrics over TLS. Health is open to everyone. Metrics require a user who may `get` the path `/metrics`. The user is
//! identified by a bearer token, or else by a certificate signed by the client authority.
//!
//! # Guarantees
//! - Metrics are served only if the API server allows it. If the API server does not answer, the client gets 503 without details. The
//!   cause is logged once until the next client is admitted.
//! - One request per connection, HTTP/1.1 only. Handshake, request and answer share one deadline, [`PATIENCE`].
//! - Connections are accepted at once, but at most 50 handshakes start per second, in the order of their connections. Handshakes use the
//!   thread that does everything else. Beyond the limit of open connections, those of the client with the most connections are closed. A
//!   flood therefore delays only itself.
//! - Frequent requests cost the API server no more than [`crate::review`] states.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http::HeaderValue;
use rustls::ServerConfig;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::sync::{Mutex, watch};
use tokio::time::Instant;
use tokio_rustls::TlsAcceptor;

use super::{Admin, Answer, METRICS, path, read_head, request_line, take_all};
use crate::metrics::{Counters, Metrics};
use crate::review::{Attributes, Caller, Refusal, Reviews, User, bearer_token};
use crate::tls::Subject;

/// Application protocols (ALPN) that are offered.
pub const PROTOCOLS: [&[u8]; 1] = [b"http/1.1"];
/// Maximum size in bytes of the request line and headers. It leaves room for a token.
const REQUEST_LIMIT: usize = 20 << 10;
/// Maximum number of headers in a request; a request with more is refused.
const HEADERS: usize = 64;
/// Deadline from accepting a connection to the end of its answer. It includes two requests to the API server, each of up to
/// [`REVIEW_TIME`](crate::review::limits::REVIEW_TIME).
pub const PATIENCE: Duration = Duration::from_secs(15);
/// Log message if the API server does not answer.
const UNANSWERED: &str = "cannot authorize requests for metrics: the API server does not answer";
/// Minimum time between the starts of two handshakes.
const HANDSHAKE_EVERY: Duration = Duration::from_millis(20);

/// Counter of refused requests, for [`Guard::new`].
pub fn refusals(metrics: &Metrics) -> Counters<1> {
    metrics.counters(
        "olm_metrics_refused_total",
        "Rejected requests for metrics, by status code",
        ["code"],
    )
}

/// Decides who may read metrics and counts refusals.
#[derive(Clone)]
pub struct Guard {
    reviews: Arc<Reviews>,
    refused: Counters<1>,
}

impl Guard {
    /// Admits the users that `reviews` allow, and counts refusals.
    pub fn new(reviews: Reviews, refused: Counters<1>) -> Self {
        let reviews = Arc::new(reviews);
        Self { reviews, refused }
    }

    /// Returns `Ok` if the sender of `head` may read metrics, else the answer to send.
    async fn admit(&self, head: &[u8], peer: Option<User>) -> Result<(), Answer> {
        let admitted = self.check(head, peer).await;
        if let Err(answer) = &admitted {
            let code = answer.code.split(' ').next().unwrap_or_default();
            self.refused.increment([code]);
            tracing::debug!(code, "request for metrics rejected");
        }
        admitted
    }

    async fn check(&self, head: &[u8], peer: Option<User>) -> Result<(), Answer> {
        let mut headers = [httparse::EMPTY_HEADER; HEADERS];
        let mut request = httparse::Request::new(&mut headers);
        let is_read = request.parse(head).is_ok_and(|status| status.is_complete());
        if !is_read {
            return Err(Answer::text("400 Bad Request", "not an HTTP/1.1 request\n"));
        }
        let mut given = request.headers.iter();
        let authorization = given.find(|header| header.name.eq_ignore_ascii_case("authorization"));
        let authorization = authorization.and_then(|header| HeaderValue::from_bytes(header.value).ok());
        let token = bearer_token(authorization.as_ref());
        // A token takes precedence over a certificate.
        let caller = token.map(Caller::Token).or(peer.map(Caller::Known));
        let attributes = Attributes::Path {
            verb: request.method.unwrap_or_default().to_ascii_lowercase(),
            path: METRICS.to_owned(),
        };
        let admitted = self
            .reviews
            .admit(caller, |_| Some(&attributes), UNANSWERED)
            .await;
        admitted.map_err(|refusal| match refusal {
            Refusal::Unauthenticated => Answer::text("401 Unauthorized", "Unauthorized\n"),
            Refusal::Forbidden { user, .. } => {
                let text = format!("Authorization denied for user {user}\n");
                Answer::text("403 Forbidden", &text)
            }
            Refusal::Unanswered(_) => {
                Answer::text("503 Service Unavailable", "the API server does not answer\n")
            }
        })
    }
}

/// Serves `admin` on `listener` with the newest `config`, forever. Metrics require that `guard` admits the client.
pub async fn serve(
    listener: TcpListener,
    config: watch::Receiver<Arc<ServerConfig>>,
    admin: Admin,
    guard: Guard,
) -> Infallible {
    let accept = || async { listener.accept().await };
    let turns = Turns::default();
    let answer = |stream| {
        let config = Arc::clone(&config.borrow());
        let (admin, guard, turns) = (admin.clone(), guard.clone(), turns.clone());
        async move {
            let answered = async {
                // The handshake waits only after the connection is accepted. Connections in the listener's backlog have no owner and no
                // limit, so a flood would keep everyone out.
                turns.next().await;
                let tls = TlsAcceptor::from(config).accept(stream).await?;
                let certificates = tls.get_ref().1.peer_certificates().unwrap_or_default();
                let peer = certificates
                    .first()
                    .and_then(|certificate| user(Subject::of(certificate)));
                answer(tls, &admin, &guard, peer).await
            };
            tokio::time::timeout(PATIENCE, answered).await?
        }
    };
    take_all(accept, answer).await
}

/// Rate limiter for handshakes, first come, first served. A connection that is closed while it waits uses no turn.
#[derive(Clone, Default)]
struct Turns {
    /// Time from which the next handshake may start.
    next: Arc<Mutex<Option<Instant>>>,
}

impl Turns {
    /// Waits until the next handshake may start.
    async fn next(&self) {
        let mut next = self.next.lock().await;
        if let Some(next) = *next {
            tokio::time::sleep_until(next).await;
        }
        *next = Some(Instant::now() + HANDSHAKE_EVERY);
    }
}

/// Listens on `address`.
///
/// # Errors
/// If the address cannot be bound.
pub async fn listen(address: SocketAddr) -> std::io::Result<TcpListener> {
    crate::listener::bind(address).await
}

async fn answer(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    admin: &Admin,
    guard: &Guard,
    peer: Option<User>,
) -> std::io::Result<()> {
    let Some(head) = read_head(&mut stream, REQUEST_LIMIT).await? else {
        return Ok(());
    };
    let line = request_line(&head);
    let refusal = match path(&line) {
        METRICS => guard.admit(&head, peer).await.err(),
        _ => None,
    };
    let answer = refusal.unwrap_or_else(|| admin.content(&line));
    answer.write(&line, &mut stream).await
}

/// Returns the user that a verified certificate names, as Kubernetes reads it. `None` if the common name is empty.
fn user(subject: Subject) -> Option<User> {
    (!subject.common_name.is_empty()).then(|| User {
        name: subject.common_name,
        groups: subject.organizations,
        ..User::default()
    })
}

#[cfg(test)]
mod tests;
