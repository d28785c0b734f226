//! Size limits for answers of the API server.
//!
//! The server is trusted, but it forwards requests: the discovery of an aggregated API is answered by its own server.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::{FutureExt, TryFutureExt};
use http::{Request, Response};
use http_body::{Frame, SizeHint};
use kube::client::Body;
use tower::{BoxError, Layer, Service};

use super::is_watch;

/// Maximum bytes of the kinds of one API version; the largest of Kubernetes' own takes some 30 KiB.
pub const DISCOVERY_BYTES: u64 = 1 << 20;
/// Maximum bytes of one watch event, that is an object. Kubernetes stores none of more than a tenth of it.
pub const EVENT_BYTES: u64 = 16 << 20;
/// Maximum bytes of any other answer: an object, or a page of a list.
pub const ANSWER_BYTES: u64 = 256 << 20;

/// Size limit of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Bound {
    Whole(u64),
    /// Limit per line, since watches never end.
    Line(u64),
}

impl Bound {
    fn of<B>(request: &Request<B>) -> Self {
        if is_watch(request.uri()) {
            return Self::Line(EVENT_BYTES);
        }
        let segments = request.uri().path().split('/').filter(|it| !it.is_empty());
        match segments.collect::<Vec<_>>().as_slice() {
            // Paths of objects and lists are longer.
            ["apis", _, _] | ["apis" | "api", _] | [_] | [] => Self::Whole(DISCOVERY_BYTES),
            _ => Self::Whole(ANSWER_BYTES),
        }
    }
}

/// Limits the size of all answers.
#[derive(Debug, Clone, Copy)]
pub(super) struct BoundAnswers;

impl<S> Layer<S> for BoundAnswers {
    type Service = Bounding<S>;

    fn layer(&self, inner: S) -> Bounding<S> {
        Bounding { inner }
    }
}

#[derive(Debug, Clone)]
pub(super) struct Bounding<S> {
    inner: S,
}

impl<S, B> Service<Request<Body>> for Bounding<S>
where
    S: Service<Request<Body>, Response = Response<B>>,
    S::Future: Send + 'static,
{
    type Response = Response<Bounded<B>>;
    type Error = S::Error;
    type Future = BoxFuture<'static, Result<Self::Response, S::Error>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let bound = Bound::of(&request);
        let path = request.uri().path().to_owned();
        let answer = self.inner.call(request);
        answer
            .map_ok(move |answer| {
                answer.map(|body| Bounded {
                    inner: body,
                    bound,
                    seen: 0,
                    path,
                })
            })
            .boxed()
    }
}

/// Body that ends with an error once it exceeds its limit.
#[derive(Debug)]
pub(super) struct Bounded<B> {
    inner: B,
    bound: Bound,
    /// Bytes read so far, of the whole body or of the current line.
    seen: u64,
    path: String,
}

/// Error for an answer that is too large.
#[derive(Debug, thiserror::Error)]
#[error("the answer to {path} is larger than {bytes} bytes")]
struct TooLarge {
    path: String,
    bytes: u64,
}

impl<B> Bounded<B> {
    fn count(&mut self, data: &[u8]) -> Result<(), TooLarge> {
        let length = |data: &[u8]| u64::try_from(data.len()).unwrap_or(u64::MAX);
        let (limit, is_over) = match self.bound {
            Bound::Whole(limit) => {
                self.seen = self.seen.saturating_add(length(data));
                (limit, self.seen > limit)
            }
            Bound::Line(limit) => {
                let mut lines = data.split(|byte| *byte == b'\n');
                let first = lines.next().map_or(0, length);
                let first = self.seen.saturating_add(first);
                // A chunk is far smaller than the limit of a line, so only the last line carries over.
                self.seen = lines.next_back().map_or(first, length);
                (limit, first.max(self.seen) > limit)
            }
        };
        if is_over {
            return Err(TooLarge {
                path: self.path.clone(),
                bytes: limit,
            });
        }
        Ok(())
    }
}

impl<B> http_body::Body for Bounded<B>
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
        let frame = match ready!(Pin::new(&mut self.inner).poll_frame(context)) {
            None => return Poll::Ready(None),
            Some(Err(error)) => return Poll::Ready(Some(Err(error.into()))),
            Some(Ok(frame)) => frame,
        };
        let counted = frame.data_ref().map_or(Ok(()), |data| self.count(data));
        Poll::Ready(Some(counted.map(|()| frame).map_err(Into::into)))
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
    use http_body::Body as _;
    use kube::client::ClientBuilder;

    use super::*;

    const MIB: usize = 1 << 20;

    /// Requests `path` from a server that answers with these chunks. Returns the number of bytes read.
    #[expect(clippy::disallowed_methods, reason = "what becomes of an answer is tested")]
    async fn ask(path: &str, chunks: Vec<Bytes>) -> Result<usize, String> {
        let server = tower::service_fn(move |_: Request<Body>| {
            let body = Chunks(chunks.clone().into());
            async move { Ok::<_, BoxError>(Response::new(body)) }
        });
        let client = ClientBuilder::new(server, "default")
            .with_layer(&BoundAnswers)
            .build();
        let request = Request::get(path).body(Body::empty()).unwrap();
        let answer = client.send(request).await.map_err(|error| error.to_string())?;
        let mut body = answer.into_body();
        let mut bytes = 0;
        while let Some(frame) = std::future::poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await
        {
            bytes += frame
                .map_err(|error| format!("{error:?}"))?
                .data_ref()
                .map_or(0, Bytes::len);
        }
        Ok(bytes)
    }

    /// Body made of these chunks, in order.
    struct Chunks(std::collections::VecDeque<Bytes>);

    impl http_body::Body for Chunks {
        type Data = Bytes;
        type Error = BoxError;
        fn poll_frame(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
            Poll::Ready(self.0.pop_front().map(|chunk| Ok(Frame::data(chunk))))
        }
    }

    #[tokio::test]
    async fn an_answer_without_end_is_given_up_and_a_watch_is_not() {
        let endless = |byte: u8, count: usize| vec![Bytes::from(vec![byte; MIB]); count];
        for (path, most) in [
            ("/apis/example.com/v1", 1),
            ("/api/v1", 1),
            ("/api/v1/namespaces", 256),
            ("/apis/example.com/v1/namespaces/ns/demos/a", 256),
            ("/api/v1/pods?watch=true", 16),
        ] {
            let most_bytes = most * MIB;
            assert_eq!(ask(path, endless(b'a', most)).await, Ok(most_bytes), "{path}");
            let error = ask(path, endless(b'a', most + 1)).await.unwrap_err();
            assert!(error.contains("TooLarge"), "{path}: {error}");
        }
        let mut line = vec![b'a'; MIB];
        line[MIB / 2] = b'\n';
        let lines = vec![Bytes::from(line); 40];
        assert_eq!(ask("/api/v1/pods?watch=true", lines).await, Ok(40 * MIB));
    }
}
