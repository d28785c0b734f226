//! Counts requests to the API server by result, and records them as spans of the reconciles that send them.

use std::task::{Context, Poll};

use futures::FutureExt;
use futures::future::BoxFuture;
use http::{Request, Response};
use kube::client::Body;
use tower::{Layer, Service};
use tracing::Instrument as _;

use crate::client::REQUESTS;
use crate::metrics::Metrics;

/// Status code of a request without an answer, as in client-go.
const NO_ANSWER: &str = "<error>";

/// Counts all requests in its metrics.
#[derive(Debug, Clone)]
pub(crate) struct CountRequests(pub(crate) Metrics);

impl<S> Layer<S> for CountRequests {
    type Service = Counting<S>;

    fn layer(&self, inner: S) -> Counting<S> {
        Counting {
            inner,
            metrics: self.0.clone(),
        }
    }
}

#[derive(Debug, Clone)]
pub(crate) struct Counting<S> {
    inner: S,
    metrics: Metrics,
}

impl<S, B> Service<Request<Body>> for Counting<S>
where
    S: Service<Request<Body>, Response = Response<B>>,
    S::Future: Send + 'static,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = BoxFuture<'static, Result<S::Response, S::Error>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let method = request.method().clone();
        let metrics = self.metrics.clone();
        let span = span(&request);
        let answer = span.in_scope(|| self.inner.call(request));
        answer
            .inspect(move |answer| {
                let code = answer.as_ref().map(Response::status);
                let code = code.as_ref().map_or(NO_ANSWER, |code| code.as_str());
                metrics.requested(code, method.as_str());
                tracing::Span::current().record("http.response.status_code", code);
            })
            .instrument(span)
            .boxed()
    }
}

/// Returns the span of a request, with OpenTelemetry attribute names. Requests outside of reconciles, such as watches, have none.
fn span(request: &Request<Body>) -> tracing::Span {
    if tracing::Span::current().is_none() {
        return tracing::Span::none();
    }
    tracing::debug_span!(
        target: REQUESTS,
        "request",
        otel.kind = "client",
        http.request.method = %request.method(),
        url.path = request.uri().path(),
        http.response.status_code = tracing::field::Empty,
    )
}

#[cfg(test)]
mod tests {
    use kube::client::ClientBuilder;
    use tower::BoxError;

    use super::*;

    #[tokio::test]
    #[expect(clippy::disallowed_methods, reason = "what is sent is counted")]
    async fn each_request_is_counted_once_with_or_without_an_answer() {
        let server = tower::service_fn(|request: Request<Body>| async move {
            match request.uri().path() {
                "/gone" => Ok(Response::builder().status(404).body(Body::empty()).unwrap()),
                "/broken" => Err(BoxError::from("no connection")),
                _ => Ok(Response::new(Body::empty())),
            }
        });
        let metrics = Metrics::registered().unwrap();
        let layer = CountRequests(metrics.clone());
        let client = ClientBuilder::new(server, "default").with_layer(&layer).build();
        for (method, path) in [("GET", "/a"), ("GET", "/gone"), ("PATCH", "/broken")] {
            let request = Request::builder().method(method).uri(path);
            let _ = client.send(request.body(Body::empty()).unwrap()).await;
        }
        let text = metrics.text().unwrap();
        for (code, method) in [("200", "GET"), ("404", "GET"), ("<error>", "PATCH")] {
            let line = format!(r#"rest_client_requests_total{{code="{code}",method="{method}"}} 1"#);
            assert!(text.contains(&line), "{line}\n{text}");
        }
        assert_eq!(metrics.total("rest_client_requests_total"), 3.0);
    }
}
