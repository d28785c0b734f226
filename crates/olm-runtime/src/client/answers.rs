//! Requests to the API server, with deadlines and size limits for their answers. They are counted by result, and recorded as spans of the
//! reconciles that send them.
//!
//! A machine that disappears, or a server behind the load balancer that hangs, closes no connection. A client would wait for its answer
//! forever, and a store that lists would look as if nothing happened on the cluster. The server is trusted with the size of its answers,
//! but it forwards requests: the discovery of an aggregated API is answered by its own server.

use std::task::{Context, Poll};

use bytes::Bytes;
use futures::FutureExt;
use futures::future::BoxFuture;
use http::{Request, Response, Uri};
use http_body_util::{Either, Limited};
use kube::client::Body;
use tokio::time::timeout;
use tower::layer::layer_fn;
use tower::{BoxError, Layer, Service};
use tower_http::timeout::TimeoutBody;
use tracing::{Instrument as _, Span};

use super::{REQUEST_DEADLINE, REQUESTS, is_watch};
use crate::metrics::Metrics;

/// Maximum bytes of the kinds of one API version; the largest of Kubernetes' own takes some 30 KiB.
const DISCOVERY_BYTES: usize = 1 << 20;
/// Maximum bytes of any other answer that ends: an object, or a page of a list.
const ANSWER_BYTES: usize = 256 << 20;

/// Status code of a request without an answer, as in client-go.
const NO_ANSWER: &str = "<error>";

/// Returns the client layer that counts requests in `metrics`, records their spans, and limits their answers. The head of an answer has
/// [`REQUEST_DEADLINE`], and so has each further part. A large page of a list may take longer in total, as long as data keeps coming.
/// Events of a watch have neither deadline nor limit; there the connection checks whether the other machine is alive.
pub(crate) fn limit_answers<S>(metrics: &Metrics) -> impl Layer<S, Service = LimitAnswers<S>> + use<S> {
    let metrics = metrics.clone();
    layer_fn(move |inner| LimitAnswers {
        inner,
        metrics: metrics.clone(),
    })
}

/// Service of [`limit_answers`].
#[derive(Debug, Clone)]
pub(crate) struct LimitAnswers<S> {
    inner: S,
    metrics: Metrics,
}

impl<S, B> Service<Request<Body>> for LimitAnswers<S>
where
    S: Service<Request<Body>, Response = Response<B>>,
    S::Error: Into<BoxError>,
    S::Future: Send + 'static,
    B: http_body::Body<Data = Bytes>,
    B::Error: Into<BoxError>,
{
    type Response = Response<Either<B, Limited<TimeoutBody<B>>>>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Self::Response, BoxError>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(context).map_err(Into::into)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let (method, uri) = (request.method().clone(), request.uri().clone());
        let metrics = self.metrics.clone();
        let span = span(&request);
        let answer = timeout(REQUEST_DEADLINE, span.in_scope(|| self.inner.call(request)));
        async move {
            let answer = answer
                .await
                .map_or_else(|_| Err(late(&uri)), |it| it.map_err(Into::into));
            let code = answer.as_ref().map(Response::status);
            let code = code.as_ref().map_or(NO_ANSWER, |code| code.as_str());
            metrics.requested(code, method.as_str());
            Span::current().record("http.response.status_code", code);
            let limit = limit(&uri);
            Ok(answer?.map(|body| match limit {
                None => Either::Left(body),
                Some(limit) => Either::Right(Limited::new(TimeoutBody::new(REQUEST_DEADLINE, body), limit)),
            }))
        }
        .instrument(span)
        .boxed()
    }
}

/// Returns the error for an answer that did not start in time.
fn late(uri: &Uri) -> BoxError {
    let seconds = REQUEST_DEADLINE.as_secs();
    format!("the API server sent no answer to {} for {seconds} s", uri.path()).into()
}

/// Returns the maximum bytes of the answer; `None` for a watch, which has no end.
fn limit(uri: &Uri) -> Option<usize> {
    if is_watch(uri) {
        return None;
    }
    let segments = uri.path().split('/').filter(|it| !it.is_empty());
    Some(match segments.collect::<Vec<_>>().as_slice() {
        // Paths of objects and lists are longer.
        ["apis", _, _] | ["apis" | "api", _] | [_] | [] => DISCOVERY_BYTES,
        _ => ANSWER_BYTES,
    })
}

/// Returns the span of a request, with OpenTelemetry attribute names. Requests outside of reconciles, such as watches, have none.
fn span(request: &Request<Body>) -> Span {
    if Span::current().is_none() {
        return Span::none();
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
    use std::pin::Pin;
    use std::time::Duration;

    use http_body::Frame;
    use http_body_util::{BodyExt as _, StreamBody};
    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::client::ClientBuilder;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::{TcpListener, TcpStream};
    use tokio::sync::mpsc;
    use tokio::task::JoinSet;
    use tokio::time::{Instant, Sleep, sleep};

    use super::*;
    use crate::client::connect;
    use crate::store::{StoreSet, Watch};

    /// Endless body with one chunk per `pace`; without a pace nothing comes.
    struct Pieces {
        pace: Option<Duration>,
        next: Pin<Box<Sleep>>,
    }

    impl http_body::Body for Pieces {
        type Data = Bytes;
        type Error = BoxError;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            context: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
            let Some(pace) = self.pace else {
                return Poll::Pending;
            };
            std::task::ready!(self.next.as_mut().poll(context));
            self.next.as_mut().reset(Instant::now() + pace);
            Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(b"a\n")))))
        }
    }

    /// Returns the seconds for which the answer of such a server was read, at most 1000, and how it ended.
    #[expect(clippy::disallowed_methods, reason = "what becomes of an answer is tested")]
    async fn ask_slow(path: &str, head_after: Option<u64>, pace: Option<u64>) -> (u64, String) {
        let server = tower::service_fn(move |_: Request<Body>| async move {
            match head_after {
                Some(seconds) => sleep(Duration::from_secs(seconds)).await,
                None => std::future::pending().await,
            }
            let pace = pace.map(Duration::from_secs);
            let next = Box::pin(sleep(pace.unwrap_or_default()));
            Ok::<_, BoxError>(Response::new(Pieces { pace, next }))
        });
        let client = ClientBuilder::new(server, "default")
            .with_layer(&limit_answers(&Metrics::default()))
            .build();
        let began = Instant::now();
        let read = async {
            let request = Request::get(path).body(Body::empty()).unwrap();
            let mut body = client.send(request).await.map_err(|error| error.to_string())?;
            while let Some(piece) = body.body_mut().frame().await {
                piece.map_err(|error| format!("{error:?}"))?;
            }
            Ok::<_, String>(())
        };
        let ended = timeout(Duration::from_secs(1000), read).await;
        let ended = ended.map_or("goes on".to_owned(), |ended| ended.err().unwrap_or_default());
        (began.elapsed().as_secs(), ended)
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_has_to_begin_in_time_and_that_of_a_list_to_go_on() {
        let (list, watch) = ("/api/v1/pods?limit=100", "/api/v1/pods?watch=true");
        for (path, head_after, pace, seconds, told) in [
            (list, None, None, 30, "no answer to /api/v1/pods"),
            (watch, None, None, 30, "no answer to /api/v1/pods"),
            (list, Some(20), None, 50, "TimeoutError"),
            (list, Some(20), Some(31), 50, "TimeoutError"),
            (list, Some(20), Some(29), 1000, "goes on"),
            (watch, Some(20), None, 1000, "goes on"),
            (watch, Some(20), Some(31), 1000, "goes on"),
        ] {
            let (took, ended) = ask_slow(path, head_after, pace).await;
            let row = format!("{path} {head_after:?} {pace:?}: {took} {ended}");
            assert!(took == seconds && ended.contains(told), "{row}");
        }
    }

    /// Reads a request and returns its first line; `None` if the connection is closed.
    async fn request_line(stream: &mut TcpStream) -> Option<String> {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            if stream.read_buf(&mut head).await.ok()? == 0 {
                return None;
            }
        }
        let text = String::from_utf8(head).ok()?;
        text.lines().next().map(str::to_owned)
    }

    /// API server that reads and reports each request. It answers the first requests with these texts, and the others never.
    async fn silent_after(
        answers: Vec<String>,
    ) -> (tempfile::NamedTempFile, mpsc::UnboundedReceiver<String>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let server = format!("http://{}", listener.local_addr().unwrap());
        let (tell, told) = mpsc::unbounded_channel();
        let answers = std::sync::Arc::new(std::sync::Mutex::new(answers.into_iter()));
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let (tell, answers) = (tell.clone(), std::sync::Arc::clone(&answers));
                tokio::spawn(async move {
                    while let Some(line) = request_line(&mut stream).await {
                        let answer = answers.lock().unwrap().next();
                        if let Some(answer) = answer {
                            stream.write_all(answer.as_bytes()).await.unwrap();
                        }
                        tell.send(line).unwrap();
                    }
                });
            }
        });
        let kubeconfig = tempfile::NamedTempFile::new().unwrap();
        let content = serde_json::json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "c",
            "clusters": [{"name": "c", "cluster": {"server": server}}],
            "users": [{"name": "c", "user": {}}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "c"}}],
        });
        std::fs::write(kubeconfig.path(), content.to_string()).unwrap();
        (kubeconfig, told)
    }

    /// End to end: a connection on which nothing arrives any more, and a store that waits for it.
    #[tokio::test]
    async fn a_watch_whose_server_is_silent_counts_as_interrupted_and_is_begun_again() {
        let list =
            r#"{"apiVersion":"v1","kind":"ConfigMapList","metadata":{"resourceVersion":"7"},"items":[]}"#;
        let whole = format!(
            "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{list}",
            list.len()
        );
        let part = "HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{".to_owned();
        for (answers, requests, silent_at) in [
            (vec![], 1, "limit=100"),
            (vec![part], 1, "limit=100"),
            (vec![whole], 2, "watch=true"),
        ] {
            let (kubeconfig, mut asked) = silent_after(answers).await;
            let metrics = Metrics::registered();
            let path = kubeconfig.path().to_str();
            let client = connect(path, &metrics).await.unwrap();
            let mut set = StoreSet::new();
            let _store = set.add(Watch::<ConfigMap>::new(&client));
            let mut tasks = JoinSet::new();
            let _stores = set.with_metrics(metrics.clone()).start(&mut tasks);
            let mut last = String::new();
            for _ in 0..requests {
                last = asked.recv().await.unwrap();
            }
            assert!(last.contains(silent_at), "{last}");
            assert_eq!(metrics.total("olm_watch_restarts_total"), 0.0);
            // The deadline restarts for data the client had not read the first time. Waiting longer would let the transport close the
            // connection.
            let mut again = None;
            for _ in 0..2 {
                tokio::time::pause();
                tokio::time::advance(REQUEST_DEADLINE).await;
                tokio::time::resume();
                again = timeout(Duration::from_secs(10), asked.recv()).await.ok();
                if again.is_some() {
                    break;
                }
            }
            let again = again.flatten().expect("nothing was asked again");
            assert!(again.starts_with("GET /api/v1/configmaps?"), "{again}");
            assert_eq!(metrics.total("olm_watch_restarts_total"), 1.0, "{silent_at}");
        }
    }

    const MIB: usize = 1 << 20;

    /// Requests `path` from a server that answers with these chunks. Returns the number of bytes read.
    #[expect(clippy::disallowed_methods, reason = "what becomes of an answer is tested")]
    async fn ask(path: &str, chunks: Vec<Bytes>) -> Result<usize, String> {
        let server = tower::service_fn(move |_: Request<Body>| {
            let chunks = chunks
                .clone()
                .into_iter()
                .map(|chunk| Ok::<_, BoxError>(Frame::data(chunk)));
            let body = StreamBody::new(futures::stream::iter(chunks));
            async move { Ok::<_, BoxError>(Response::new(body)) }
        });
        let client = ClientBuilder::new(server, "default")
            .with_layer(&limit_answers(&Metrics::default()))
            .build();
        let request = Request::get(path).body(Body::empty()).unwrap();
        let answer = client.send(request).await.map_err(|error| error.to_string())?;
        let mut body = answer.into_body();
        let mut bytes = 0;
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|error| format!("{error:?}"))?;
            bytes += frame.data_ref().map_or(0, Bytes::len);
        }
        Ok(bytes)
    }

    #[tokio::test]
    async fn an_answer_without_end_is_given_up_and_a_watch_is_not() {
        let endless = |count: usize| vec![Bytes::from(vec![b'a'; MIB]); count];
        for (path, most) in [
            ("/apis/example.com/v1", 1),
            ("/api/v1", 1),
            ("/api/v1/namespaces", 256),
            ("/apis/example.com/v1/namespaces/ns/demos/a", 256),
        ] {
            let most_bytes = most * MIB;
            assert_eq!(ask(path, endless(most)).await, Ok(most_bytes), "{path}");
            let error = ask(path, endless(most + 1)).await.unwrap_err();
            assert!(error.contains("LengthLimitError"), "{path}: {error}");
        }
        assert_eq!(ask("/api/v1/pods?watch=true", endless(300)).await, Ok(300 * MIB));
    }

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
        let metrics = Metrics::registered();
        let client = ClientBuilder::new(server, "default")
            .with_layer(&limit_answers(&metrics))
            .build();
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
