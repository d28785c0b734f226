//! Deadlines for answers of the API server.
//!
//! A machine that disappears, or a server behind the load balancer that hangs, closes no connection. A client would wait for its answer
//! forever, and a store that lists would look as if nothing happened on the cluster.

use std::future::Future as _;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures::FutureExt;
use futures::future::BoxFuture;
use http::{Request, Response};
use http_body::{Frame, SizeHint};
use kube::client::Body;
use tokio::time::{Instant, Sleep, sleep, timeout};
use tower::{BoxError, Layer, Service};

use super::{REQUEST_DEADLINE, is_watch};

/// Times out answers: the head has [`REQUEST_DEADLINE`], and so has each further chunk. A large page of a list may take longer in total,
/// as long as data keeps coming. Events of a watch have no deadline; there the connection checks whether the other machine is alive.
#[derive(Debug, Clone, Copy)]
pub(super) struct AnswerInTime;

impl<S> Layer<S> for AnswerInTime {
    type Service = InTime<S>;

    fn layer(&self, inner: S) -> InTime<S> {
        InTime { inner }
    }
}

#[derive(Debug, Clone)]
pub(super) struct InTime<S> {
    inner: S,
}

/// Error for an answer that did not start or did not continue in time.
#[derive(Debug, thiserror::Error)]
#[error("the API server sent {what} to {path} for {} s", REQUEST_DEADLINE.as_secs())]
struct TooLate {
    what: &'static str,
    path: String,
}

impl<S, B> Service<Request<Body>> for InTime<S>
where
    S: Service<Request<Body>, Response = Response<B>>,
    S::Error: Into<BoxError>,
    S::Future: Send + 'static,
{
    type Response = Response<Timely<B>>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Self::Response, BoxError>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(context).map_err(Into::into)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let is_watch = is_watch(request.uri());
        let path = request.uri().path().to_owned();
        let answer = timeout(REQUEST_DEADLINE, self.inner.call(request));
        async move {
            let Ok(answer) = answer.await else {
                let what = "no answer";
                return Err(TooLate { what, path }.into());
            };
            let answer = answer.map_err(Into::into)?;
            Ok(answer.map(|inner| Timely {
                inner,
                late: (!is_watch).then(|| Box::pin(sleep(REQUEST_DEADLINE))),
                path,
            }))
        }
        .boxed()
    }
}

/// Body that ends with an error if the next chunk is too late.
#[derive(Debug)]
pub(super) struct Timely<B> {
    inner: B,
    /// Deadline of the next chunk; `None` for a watch.
    late: Option<Pin<Box<Sleep>>>,
    path: String,
}

impl<B> http_body::Body for Timely<B>
where
    B: http_body::Body<Data = Bytes> + Unpin,
    B::Error: Into<BoxError>,
{
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        if let Poll::Ready(frame) = Pin::new(&mut self.inner).poll_frame(context) {
            if let Some(late) = &mut self.late {
                late.as_mut().reset(Instant::now() + REQUEST_DEADLINE);
            }
            return Poll::Ready(frame.map(|frame| frame.map_err(Into::into)));
        }
        let is_late = match &mut self.late {
            Some(late) => late.as_mut().poll(context).is_ready(),
            None => false,
        };
        if !is_late {
            return Poll::Pending;
        }
        let (what, path) = ("no further part of its answer", self.path.clone());
        Poll::Ready(Some(Err(TooLate { what, path }.into())))
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use http_body_util::BodyExt as _;
    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::client::ClientBuilder;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::{TcpListener, TcpStream};
    use tokio::sync::mpsc;
    use tokio::task::JoinSet;

    use super::*;
    use crate::client::connect;
    use crate::metrics::Metrics;
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
    async fn ask(path: &str, head_after: Option<u64>, pace: Option<u64>) -> (u64, String) {
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
            .with_layer(&AnswerInTime)
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
            (list, Some(20), None, 50, "no further part of its answer"),
            (list, Some(20), Some(31), 50, "no further part of its answer"),
            (list, Some(20), Some(29), 1000, "goes on"),
            (watch, Some(20), None, 1000, "goes on"),
            (watch, Some(20), Some(31), 1000, "goes on"),
        ] {
            let (took, ended) = ask(path, head_after, pace).await;
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
            let metrics = Metrics::registered().unwrap();
            let path = kubeconfig.path().to_str();
            let client = connect(path, None, &metrics).await.unwrap();
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
}
