//! HTTP server on the loopback address, with limits.

use std::future::Future;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Incoming;
use hyper::header::{self, HeaderName, HeaderValue};
use hyper::http::request::Parts;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinSet, spawn_local};
use tokio::time::{sleep, timeout};

use super::gate::Asked;
use super::routes::{Answer, App};

/// Limits for the head of a request: bytes and time.
const HEAD_BYTES: usize = 16 << 10;
const HEAD_TIME: Duration = Duration::from_secs(10);
/// Limits for the body of a request: bytes and time.
pub(super) const BODY_BYTES: usize = 16 << 10;
const BODY_TIME: Duration = Duration::from_secs(10);
/// Timeout for a response. Reading a catalog may take up to 120 s.
const ANSWER_TIME: Duration = Duration::from_secs(150);
/// Timeout for a whole connection, which has one request.
const CONNECTION_TIME: Duration = Duration::from_secs(180);
/// Pause after a connection could not be taken, for example because no file descriptor is free.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Headers that forbid loading foreign content, embedding in other pages, and caching.
const HEADERS: [(HeaderName, &str); 6] = [
    (
        header::CONTENT_SECURITY_POLICY,
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    ),
    (header::X_FRAME_OPTIONS, "DENY"),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::REFERRER_POLICY, "no-referrer"),
    (header::CACHE_CONTROL, "no-store"),
    (
        HeaderName::from_static("cross-origin-resource-policy"),
        "same-origin",
    ),
];

/// Serves until `stop` completes.
pub(super) async fn serve(listener: TcpListener, app: Rc<App>, stop: impl Future<Output = ()>) {
    // Unfinished connections are dropped at the end; an approval was then either sent or not.
    let mut connections = JoinSet::new();
    let mut stop = std::pin::pin!(stop);
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = &mut stop => return,
        };
        while connections.try_join_next().is_some() {}
        let Ok((stream, _)) = accepted else {
            sleep(ACCEPT_PAUSE).await;
            continue;
        };
        connections.spawn_local(timeout(CONNECTION_TIME, connection(stream, Rc::clone(&app))));
    }
}

async fn connection(stream: TcpStream, app: Rc<App>) {
    let service = service_fn(move |request: Request<Incoming>| {
        let app = Rc::clone(&app);
        // If the browser disconnects, the work continues, and later requests share its result.
        spawn_local(async move {
            let (head, body) = request.into_parts();
            response(answer(&app, &head, body).await)
        })
    });
    // A browser that disconnects early is no error.
    let _ = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIME)
        .max_buf_size(HEAD_BYTES)
        .keep_alive(false)
        .serve_connection(TokioIo::new(stream), service)
        .await;
}

async fn answer(app: &Rc<App>, head: &Parts, body: Incoming) -> Answer {
    let text = |name: HeaderName| head.headers.get(name).and_then(|value| value.to_str().ok());
    let asked = Asked {
        method: head.method.clone(),
        path: head.uri.path(),
        host: text(header::HOST),
        origin: text(header::ORIGIN),
        fetch_site: text(HeaderName::from_static("sec-fetch-site")),
        purpose: text(HeaderName::from_static("sec-purpose")),
        cookie: text(header::COOKIE),
    };
    let page = match app.admit(&asked, head.uri.query().unwrap_or_default()) {
        Ok(page) => page,
        Err(answer) => return answer,
    };
    // A body is only read from an admitted request.
    let form = match head.method {
        Method::POST => match timeout(BODY_TIME, Limited::new(body, BODY_BYTES).collect()).await {
            Ok(Ok(form)) => Some(form.to_bytes()),
            _ => {
                return Answer::refused(
                    StatusCode::PAYLOAD_TOO_LARGE,
                    "The form is too large or incomplete.",
                );
            }
        },
        _ => None,
    };
    let answer = match &form {
        Some(form) => timeout(ANSWER_TIME, app.write(page, form)).await,
        None => timeout(ANSWER_TIME, app.show(page, head.uri.query().unwrap_or_default())).await,
    };
    answer.unwrap_or_else(|_| {
        Answer::refused(
            StatusCode::GATEWAY_TIMEOUT,
            "The cluster did not respond. Reload the page.",
        )
    })
}

fn response(answer: Answer) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(answer.body)));
    *response.status_mut() = answer.status;
    let headers = response.headers_mut();
    for (name, value) in HEADERS {
        headers.insert(name, HeaderValue::from_static(value));
    }
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(answer.media_type));
    let optional = [
        (header::SET_COOKIE, answer.cookie),
        (header::LOCATION, answer.location),
    ];
    for (name, value) in optional {
        if let Some(value) = value.and_then(|value| HeaderValue::try_from(value).ok()) {
            headers.insert(name, value);
        }
    }
    response
}
