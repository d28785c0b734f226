//! Health and metrics over TLS. Health is told to everybody; who asks for metrics has to be somebody who may `get` the path `/metrics`:
//! by a bearer token, or else by a certificate that the authority for clients signed.
//!
//! # Guarantees
//! - What the API server did not say yes to is not told. When it does not answer, that is said (503), and nothing else: why stands in the log,
//!   once until somebody is let in.
//! - One request a connection, HTTP/1.1 alone. Handshake, question and answer have one deadline, [`PATIENCE`].
//! - Connections are taken at once; no more than 50 handshakes a second begin, in the order of their connections: they take time of the
//!   thread that does everything else. Of those that wait the ones of whoever has most are closed, so that a flood waits behind itself.
//! - Who asks often costs the API server no more than [`crate::review`] says.

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

/// What is spoken.
pub const PROTOCOLS: [&[u8]; 1] = [b"http/1.1"];
/// The same as of a plain request, with a token.
const REQUEST_LIMIT: usize = 20 << 10;
/// Headers of a request; one with more is refused.
const HEADERS: usize = 64;
/// Time from a connection to the end of its answer. There are two questions to the API server in it, of
/// [`REVIEW_TIME`](crate::review::limits::REVIEW_TIME) each.
pub const PATIENCE: Duration = Duration::from_secs(15);
/// What the log says when the API server gives no answer.
const UNANSWERED: &str = "metrics are served to nobody whom the API server does not answer for";
/// Time between two handshakes.
const HANDSHAKE_EVERY: Duration = Duration::from_millis(20);

/// The counter of those who were refused, for [`Guard::new`].
pub fn refusals(metrics: &Metrics) -> Counters<1> {
    metrics.counters(
        "olm_metrics_refused_total",
        "Requests for metrics that were refused, by status code",
        ["code"],
    )
}

/// Who may read metrics, and who was refused.
#[derive(Clone)]
pub struct Guard {
    reviews: Arc<Reviews>,
    refused: Counters<1>,
}

impl Guard {
    /// Lets in whom `reviews` allow, and counts the others.
    pub fn new(reviews: Reviews, refused: Counters<1>) -> Self {
        let reviews = Arc::new(reviews);
        Self { reviews, refused }
    }

    /// Nothing if whoever sent `head` may have the metrics, else what to answer.
    async fn admit(&self, head: &[u8], peer: Option<User>) -> Result<(), Answer> {
        let admitted = self.check(head, peer).await;
        if let Err(answer) = &admitted {
            let code = answer.code.split(' ').next().unwrap_or_default();
            self.refused.increment([code]);
            tracing::debug!(code, "metrics were refused");
        }
        admitted
    }

    async fn check(&self, head: &[u8], peer: Option<User>) -> Result<(), Answer> {
        let mut headers = [httparse::EMPTY_HEADER; HEADERS];
        let mut request = httparse::Request::new(&mut headers);
        let is_read = request.parse(head).is_ok_and(|status| status.is_complete());
        if !is_read {
            return Err(Answer::text(
                "400 Bad Request",
                "this is no request of HTTP/1.1\n",
            ));
        }
        let mut given = request.headers.iter();
        let authorization = given.find(|header| header.name.eq_ignore_ascii_case("authorization"));
        let authorization = authorization.and_then(|header| HeaderValue::from_bytes(header.value).ok());
        let token = bearer_token(authorization.as_ref());
        // A token says more than a certificate.
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

/// Serves `admin` on `listener` with the newest `config`, metrics to whom `guard` admits, for ever.
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
                // Not before the connection is taken: those that wait there are nobody's, and a flood would keep everybody out.
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

/// Turns at a handshake, first come, first served. Whoever is closed while it waits takes none.
#[derive(Clone, Default)]
struct Turns {
    /// From when on the next one may begin.
    next: Arc<Mutex<Option<Instant>>>,
}

impl Turns {
    /// Comes back when it is this one's turn.
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
/// When it cannot be had.
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

/// Whom a verified certificate names, as Kubernetes reads it; nobody without a name.
fn user(subject: Subject) -> Option<User> {
    (!subject.common_name.is_empty()).then(|| User {
        name: subject.common_name,
        groups: subject.organizations,
        ..User::default()
    })
}

#[cfg(test)]
mod tests;
