//! Coalesces small writes into large ones.
//!
//! HTTP/2 passes each frame of at most 16 KiB to the socket on its own, with a flush after it. A bundle of
//! 100 KiB would cost nine system calls and wake its reader nine times. Here all writes of one poll of a
//! connection become one. A flush that follows a write is postponed to the connection's next poll, which is
//! requested at once.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf as _, BytesMut};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tonic::transport::server::Connected;

/// Maximum bytes held back per connection.
const MAX_HELD: usize = 128 << 10;
/// Longer writes gain nothing from being coalesced, in bytes.
const LARGE: usize = 32 << 10;

/// A stream whose writes are coalesced until no more follow at once.
///
/// Nothing stays behind: writers must flush, and a flush either sends or asks to be polled again.
#[derive(Debug)]
pub(crate) struct WriteCoalescer<S> {
    stream: S,
    held: BytesMut,
    /// True if there was a write since the last flush.
    is_fresh: bool,
}

impl<S: AsyncWrite + Unpin> WriteCoalescer<S> {
    pub(crate) fn new(stream: S) -> Self {
        Self {
            stream,
            held: BytesMut::new(),
            is_fresh: false,
        }
    }

    fn poll_send(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.held.is_empty() {
            let sent = ready!(Pin::new(&mut self.stream).poll_write(cx, &self.held))?;
            if sent == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.held.advance(sent);
        }
        // An idle connection holds no memory.
        self.held = BytesMut::new();
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for WriteCoalescer<S> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(cx, &[IoSlice::new(bytes)])
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let length: usize = pieces.iter().map(|piece| piece.len()).sum();
        if this.held.len() + length > MAX_HELD {
            ready!(this.poll_send(cx))?;
        }
        if this.held.is_empty() && length >= LARGE {
            return Pin::new(&mut this.stream).poll_write_vectored(cx, pieces);
        }
        for piece in pieces {
            this.held.extend_from_slice(piece);
        }
        this.is_fresh = true;
        Poll::Ready(Ok(length))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if this.is_fresh {
            this.is_fresh = false;
            cx.waker().wake_by_ref();
            return Poll::Ready(Ok(()));
        }
        ready!(this.poll_send(cx))?;
        Pin::new(&mut this.stream).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        ready!(this.poll_send(cx))?;
        Pin::new(&mut this.stream).poll_shutdown(cx)
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for WriteCoalescer<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_read(cx, buffer)
    }
}

impl<S: Connected> Connected for WriteCoalescer<S> {
    type ConnectInfo = S::ConnectInfo;

    fn connect_info(&self) -> Self::ConnectInfo {
        self.stream.connect_info()
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use olm_testing::properties;
    use proptest::prelude::*;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, duplex};

    use super::*;

    fn pair(capacity: usize) -> (WriteCoalescer<DuplexStream>, DuplexStream) {
        let (near, far) = duplex(capacity);
        (WriteCoalescer::new(near), far)
    }

    /// Writes all bytes, in as many polls as a connection needs.
    async fn write(writer: &mut WriteCoalescer<DuplexStream>, bytes: &[u8]) {
        let mut rest = bytes;
        while !rest.is_empty() {
            let written = poll_fn(|cx| Pin::new(&mut *writer).poll_write_vectored(cx, &[IoSlice::new(rest)]));
            rest = &rest[written.await.expect("write")..];
        }
    }

    async fn flush(writer: &mut WriteCoalescer<DuplexStream>) {
        poll_fn(|cx| Pin::new(&mut *writer).poll_flush(cx))
            .await
            .expect("flush");
    }

    /// Returns the number of bytes that have arrived, without waiting for more.
    async fn arrived(far: &mut DuplexStream) -> usize {
        let mut buffer = vec![0; 1 << 20];
        tokio::select! {
            biased;
            read = far.read(&mut buffer) => read.expect("read"),
            () = std::future::ready(()) => 0,
        }
    }

    #[tokio::test]
    async fn frames_of_one_turn_go_out_together() {
        let (mut writer, mut far) = pair(1 << 20);
        for _ in 0..5 {
            write(&mut writer, &[7; 16 << 10]).await;
            flush(&mut writer).await;
        }
        assert_eq!(arrived(&mut far).await, 0, "the turn is not over");
        flush(&mut writer).await;
        assert_eq!(arrived(&mut far).await, 5 * (16 << 10));
        assert_eq!(writer.held.capacity(), 0, "an idle connection holds memory");
    }

    #[tokio::test]
    async fn a_flush_that_sends_nothing_asks_for_the_next() {
        let (mut writer, _far) = pair(1 << 20);
        write(&mut writer, b"headers").await;
        let woken = std::sync::Arc::new(Woken::default());
        let waker = std::task::Waker::from(woken.clone());
        let mut cx = Context::from_waker(&waker);
        assert!(Pin::new(&mut writer).poll_flush(&mut cx).is_ready());
        assert!(woken.0.load(std::sync::atomic::Ordering::SeqCst));
    }

    #[derive(Default)]
    struct Woken(std::sync::atomic::AtomicBool);

    impl std::task::Wake for Woken {
        fn wake(self: std::sync::Arc<Self>) {
            self.0.store(true, std::sync::atomic::Ordering::SeqCst);
        }
    }

    #[tokio::test]
    async fn no_more_than_the_limit_is_held() {
        let (mut writer, mut far) = pair(1 << 20);
        for _ in 0..20 {
            write(&mut writer, &[1; 16 << 10]).await;
            flush(&mut writer).await;
            assert!(writer.held.len() <= MAX_HELD);
        }
        assert!(arrived(&mut far).await >= 10 * (16 << 10));
    }

    #[tokio::test]
    async fn the_end_sends_what_is_held() {
        let (mut writer, mut far) = pair(1 << 20);
        write(&mut writer, b"last words").await;
        writer.shutdown().await.expect("shutdown");
        drop(writer);
        let mut text = String::new();
        far.read_to_string(&mut text).await.expect("read");
        assert_eq!(text, "last words");
    }

    proptest! {
        #![proptest_config(properties::config(64))]
        /// The same bytes arrive in the same order, for any writes, flushes and reading speed.
        #[test]
        fn bytes_arrive_in_order(
            writes in prop::collection::vec((1_usize..70_000, any::<bool>()), 1..12),
            capacity in 1_usize..100_000,
        ) {
            let runtime = tokio::runtime::Builder::new_current_thread().build().expect("runtime");
            let (sent, received) = runtime.block_on(async {
                let (mut writer, mut far) = pair(capacity);
                let reader = tokio::spawn(async move {
                    let mut bytes = Vec::new();
                    far.read_to_end(&mut bytes).await.expect("read");
                    bytes
                });
                let mut sent = Vec::new();
                for (number, (length, flushes)) in writes.into_iter().enumerate() {
                    let bytes: Vec<u8> = (0..length).map(|at| (at + number * 31) as u8).collect();
                    write(&mut writer, &bytes).await;
                    sent.extend(bytes);
                    if flushes {
                        flush(&mut writer).await;
                    }
                }
                writer.shutdown().await.expect("shutdown");
                drop(writer);
                (sent, reader.await.expect("reader"))
            });
            prop_assert!(sent == received);
        }
    }
}
