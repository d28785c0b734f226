//! Writes that pass the write gate.

use std::error::Error;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::uri::PathAndQuery;
use http::{Request, Response, Uri};
use http_body::{Frame, SizeHint};
use kube::Client;
use kube::client::Body;
use tower::BoxError;

use super::REQUEST_DEADLINE;
use crate::gate::WriteGate;

/// Error for a write that was not sent.
#[derive(Debug, thiserror::Error)]
#[error("writes are suspended")]
struct HeldBack;

/// Error for a write that timed out.
#[derive(Debug, thiserror::Error)]
#[error("no answer within the deadline")]
struct NoAnswer;

/// Wraps `client` so that each request that may change something passes `gate`, which tracks it until it is settled. With a write window,
/// the server gets the remaining time as `timeout`, as with `kubectl --request-timeout`. Must be called inside a runtime.
pub(crate) fn gated(client: Client, gate: &WriteGate) -> Client {
    let namespace = client.default_namespace().to_owned();
    let gate = gate.clone();
    let service = tower::service_fn(move |request| send(client.clone(), gate.clone(), request));
    Client::new(service, namespace)
}

#[expect(clippy::disallowed_methods, reason = "sends what the gate lets through")]
async fn send(
    client: Client,
    gate: WriteGate,
    mut request: Request<Body>,
) -> Result<Response<Body>, BoxError> {
    if request.method().is_safe() {
        return Ok(client.send(request).await?);
    }
    let permit = gate.pass(REQUEST_DEADLINE).ok_or(HeldBack)?;
    if let Some(time) = permit.time_of_server() {
        *request.uri_mut() = with_timeout(request.uri(), time)?;
    }
    request.extensions_mut().insert(gate);
    let answer = tokio::time::timeout_at(permit.over_by(), client.send(request)).await;
    // The server behind a broken connection may have executed the write, or may still do so.
    let answer = answer.map_err(|_| NoAnswer)??;
    // So may a server that answers with its own error: an API server that waited too long for its storage, or a proxy.
    if !answer.status().is_server_error() {
        permit.answered();
    }
    Ok(answer)
}

/// Adds the time that the server may take to `uri`.
fn with_timeout(uri: &Uri, time: Duration) -> Result<Uri, BoxError> {
    let separator = if uri.query().is_some() { '&' } else { '?' };
    let path = uri.path_and_query().map_or("/", PathAndQuery::as_str);
    let path = format!("{path}{separator}timeout={}ms", time.as_millis());
    let mut parts = uri.clone().into_parts();
    parts.path_and_query = Some(path.parse()?);
    Ok(Uri::from_parts(parts)?)
}

/// Request body that checks the gate again just before it is sent. A handshake, or a suspended process, may delay it after the gate
/// admitted the request. While the gate is shut, the body of a write is an error, and the server gets no complete request.
#[derive(Debug)]
pub(super) struct LastLook {
    body: Body,
    gate: Option<WriteGate>,
}

impl LastLook {
    /// Wraps `request` so that its body checks the gate that [`gated`] stored in its extensions.
    pub fn at(mut request: Request<Body>) -> Request<Self> {
        let gate = request.extensions_mut().remove();
        request.map(|body| Self { body, gate })
    }
}

impl http_body::Body for LastLook {
    type Data = Bytes;
    type Error = Box<dyn Error + Send + Sync>;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        if self.gate.as_ref().is_some_and(|gate| !gate.is_open()) {
            return Poll::Ready(Some(Err(HeldBack.into())));
        }
        Pin::new(&mut self.body).poll_frame(context).map_err(Into::into)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use http::Method;
    use http::StatusCode;
    use http_body_util::BodyExt;
    use tokio::time::Instant;

    use super::*;
    use crate::gate::WriteWindow;

    type Sent = Arc<Mutex<Vec<(Method, Uri)>>>;

    /// Client of a test server, and the requests sent to it. The path names the behaviour: `silent`, `broken`, or a status code.
    fn client() -> (Client, Sent) {
        let sent = Sent::default();
        let seen = Arc::clone(&sent);
        let server = tower::service_fn(move |request: Request<Body>| {
            let uri = request.uri().clone();
            seen.lock().unwrap().push((request.method().clone(), uri.clone()));
            async move {
                match uri.path() {
                    "/silent" => std::future::pending().await,
                    "/broken" => Err(BoxError::from("no connection")),
                    path => {
                        let mut answer = Response::new(Body::empty());
                        let code = path.trim_start_matches('/').parse();
                        *answer.status_mut() = code.unwrap_or(StatusCode::OK);
                        Ok(answer)
                    }
                }
            }
        });
        (Client::new(server, "default"), sent)
    }

    #[expect(clippy::disallowed_methods, reason = "what is sent is tested")]
    async fn ask(client: &Client, method: Method, uri: &str) -> Result<(), String> {
        let request = Request::builder().method(method).uri(uri);
        let answer = client
            .send(request.body(Body::from(b"{}".to_vec())).unwrap())
            .await;
        answer.map(|_| ()).map_err(|error| error.to_string())
    }

    #[tokio::test(start_paused = true)]
    async fn a_shut_gate_lets_reads_through_and_no_write() {
        let (client, sent) = client();
        let gate = WriteGate::default();
        let gated = gated(client, &gate);
        gate.shut();
        for method in [Method::POST, Method::PUT, Method::PATCH, Method::DELETE] {
            let refused = ask(&gated, method, "/a").await.unwrap_err();
            assert!(refused.contains("held back"), "{refused}");
        }
        assert_eq!(ask(&gated, Method::GET, "/a").await, Ok(()));
        assert_eq!(sent.lock().unwrap().len(), 1);
        assert_eq!(gate.held_back(), 4);
        gate.open();
        assert_eq!(ask(&gated, Method::POST, "/a").await, Ok(()));
        assert!(gate.is_settled());
    }

    /// Without leader election the requests are unchanged.
    #[tokio::test(start_paused = true)]
    async fn where_writes_have_a_window_the_server_is_told_how_long_it_may_take() {
        let (client, sent) = client();
        let gate = WriteGate::default();
        let gated = gated(client, &gate);
        ask(&gated, Method::POST, "http://server/a?b=c").await.unwrap();
        gate.open_for(WriteWindow::of_seconds(10, 12));
        ask(&gated, Method::POST, "http://server/a?b=c").await.unwrap();
        ask(&gated, Method::PUT, "/a").await.unwrap();
        ask(&gated, Method::GET, "/a").await.unwrap();
        let sent = sent.lock().unwrap();
        let uris: Vec<String> = sent.iter().map(|(_, uri)| uri.to_string()).collect();
        assert_eq!(
            uris,
            [
                "http://server/a?b=c",
                "http://server/a?b=c&timeout=12000ms",
                "/a?timeout=12000ms",
                "/a"
            ]
        );
    }

    #[tokio::test(start_paused = true)]
    async fn an_unanswered_write_is_given_up_at_the_end_of_the_window() {
        let (client, _) = client();
        let gate = WriteGate::default();
        let gated = gated(client, &gate);
        gate.open_for(WriteWindow::of_seconds(10, 12));
        let began = Instant::now();
        let error = ask(&gated, Method::POST, "/silent").await.unwrap_err();
        assert!(error.contains("no answer"), "{error}");
        assert_eq!(began.elapsed().as_secs(), 12);
        assert!(gate.is_settled());
    }

    #[tokio::test(start_paused = true)]
    async fn after_a_broken_connection_a_write_is_unsettled() {
        let (client, _) = client();
        let gate = WriteGate::default();
        let gated = gated(client, &gate);
        assert!(ask(&gated, Method::POST, "/broken").await.is_err());
        assert!(!gate.is_settled());
        tokio::time::advance(REQUEST_DEADLINE).await;
        assert!(gate.is_settled());
    }

    /// "Timeout: request did not complete within the allotted timeout" does not mean that the storage did nothing.
    #[tokio::test(start_paused = true)]
    async fn after_an_error_of_the_server_a_write_is_unsettled_and_after_a_refusal_it_is_over() {
        let (client, _) = client();
        for (status, is_settled) in [
            ("200", true),
            ("403", true),
            ("409", true),
            ("429", true),
            ("500", false),
            ("502", false),
            ("503", false),
            ("504", false),
        ] {
            let gate = WriteGate::default();
            let gated = gated(client.clone(), &gate);
            let uri = format!("/{status}");
            assert_eq!(ask(&gated, Method::PATCH, &uri).await, Ok(()));
            assert_eq!(gate.is_settled(), is_settled, "{status}");
            tokio::time::advance(REQUEST_DEADLINE).await;
            assert!(gate.is_settled(), "{status}");
        }
    }

    /// A process may be suspended after the gate admits a write and before the connection sends it.
    #[tokio::test(start_paused = true)]
    async fn the_body_of_a_write_does_not_reach_the_connection_after_the_window() {
        let gate = WriteGate::default();
        gate.open_for(WriteWindow::of_seconds(10, 12));
        let request = |gate: Option<&WriteGate>| {
            let mut request = Request::post("/a").body(Body::from(b"{}".to_vec())).unwrap();
            if let Some(gate) = gate {
                request.extensions_mut().insert(gate.clone());
            }
            LastLook::at(request).into_body()
        };
        let in_time = request(Some(&gate));
        assert_eq!(http_body::Body::size_hint(&in_time).exact(), Some(2));
        assert_eq!(in_time.collect().await.unwrap().to_bytes(), "{}");
        let late = request(Some(&gate));
        tokio::time::advance(Duration::from_secs(10)).await;
        assert!(late.collect().await.is_err());
        assert!(request(None).collect().await.is_ok(), "nobody asked for it");
    }
}
