//! Health and metrics over TLS. Health is open to everyone. Metrics require a user who may `get` the path `/metrics`. The user is
//! identified by a bearer token, or else by a certificate signed by the client authority.
//!
//! Metrics are served only if the API server allows it. If the API server does not answer, the client gets 503 without details. The cause
//! is logged once until the next client is admitted. Each connection has one request; handshake, request and answer share one deadline,
//! [`PATIENCE`].

use std::sync::Arc;
use std::time::Duration;

use http::header::{AUTHORIZATION, WWW_AUTHENTICATE};
use http::request::Parts;
use http::{HeaderValue, StatusCode};
use rustls::ServerConfig;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;

use super::{Admin, Answer, METRICS, answer_each, answer_one, text};
use crate::metrics::{Counters, Metrics};
use crate::review::{Attributes, Caller, Refusal, Reviews, User, bearer_token};
use crate::tls::Subject;

/// Application protocols (ALPN) that are offered.
pub const PROTOCOLS: [&[u8]; 1] = [b"http/1.1"];
/// Deadline from accepting a connection to the end of its answer. It includes two requests to the API server, each of up to
/// [`REVIEW_TIME`](crate::review::limits::REVIEW_TIME).
pub const PATIENCE: Duration = Duration::from_secs(15);
/// Log message if the API server does not answer.
const UNANSWERED: &str = "cannot authorize requests for metrics: the API server does not answer";

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

    /// Returns the answer to a client that may not read metrics, `None` to one that may. `peer` is the user of its certificate.
    async fn refuse(&self, head: &Parts, peer: Option<User>) -> Option<Answer> {
        let token = bearer_token(head.headers.get(AUTHORIZATION));
        // A token takes precedence over a certificate.
        let caller = token.map(Caller::Token).or(peer.map(Caller::Known));
        let attributes = Attributes::Path {
            verb: head.method.as_str().to_ascii_lowercase(),
            path: METRICS.to_owned(),
        };
        let needs = |_: &User| Some(&attributes);
        let refusal = self.reviews.admit(caller, needs, UNANSWERED).await.err()?;
        let answer = refused(refusal);
        let code = answer.status();
        self.refused.increment([code.as_str()]);
        tracing::debug!(%code, "request for metrics rejected");
        Some(answer)
    }
}

fn refused(refusal: Refusal) -> Answer {
    match refusal {
        Refusal::Unauthenticated => {
            let mut answer = text(StatusCode::UNAUTHORIZED, "Unauthorized\n");
            let scheme = HeaderValue::from_static("Bearer");
            answer.headers_mut().insert(WWW_AUTHENTICATE, scheme);
            answer
        }
        Refusal::Forbidden { user, .. } => text(
            StatusCode::FORBIDDEN,
            format!("Authorization denied for user {user}\n"),
        ),
        Refusal::Unanswered(_) => text(
            StatusCode::SERVICE_UNAVAILABLE,
            "the API server does not answer\n",
        ),
    }
}

/// Serves `admin` on `listener` with the newest `config`, forever. Metrics require that `guard` admits the client.
pub async fn serve(
    listener: TcpListener,
    config: watch::Receiver<Arc<ServerConfig>>,
    admin: Admin,
    guard: Guard,
) {
    let answer = |stream: TcpStream| {
        let config = Arc::clone(&config.borrow());
        let (admin, guard) = (admin.clone(), guard.clone());
        async move {
            let tls = TlsAcceptor::from(config).accept(stream).await?;
            let certificates = tls.get_ref().1.peer_certificates().unwrap_or_default();
            let peer = certificates
                .first()
                .and_then(|certificate| user(Subject::of(certificate)));
            let respond = |head| respond(&admin, &guard, head, peer.clone());
            answer_one(tls, respond).await
        }
    };
    answer_each(listener, PATIENCE, answer).await;
}

async fn respond(admin: &Admin, guard: &Guard, head: Parts, peer: Option<User>) -> Answer {
    let refusal = match head.uri.path() {
        METRICS => guard.refuse(&head, peer).await,
        _ => None,
    };
    refusal.unwrap_or_else(|| admin.content(&head.method, head.uri.path()))
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
