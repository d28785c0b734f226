//! A connection to a registry whose end is noticed.
//!
//! The catalog operator has the same in `catalog_source/connection/dial.rs`, with more around it.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use async_trait::async_trait;
use hyper_util::rt::TokioIo;
use olm_registry::limits::CONNECT_TIME;
use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio::time::timeout;
use tonic::transport::{Channel, Endpoint, Uri};

/// Bytes that a connection may be sent before they are read: one window for all streams, as one at a time is read.
const WINDOW: u32 = 1 << 20;

/// A connection.
pub struct Dialled {
    /// For calls. It stands for one connection and never makes another.
    pub channel: Channel,
    /// Ends with the connection.
    pub lost: oneshot::Receiver<()>,
}

/// How connections are made.
#[async_trait]
pub trait Dial: Send + Sync + 'static {
    /// One attempt to reach `host:port`, or why it failed.
    async fn connect(&self, address: &str) -> Result<Dialled, String>;
}

/// Over the network.
#[derive(Debug)]
pub struct Tcp;

#[async_trait]
impl Dial for Tcp {
    async fn connect(&self, address: &str) -> Result<Dialled, String> {
        let failed = |error: &dyn std::fmt::Display| format!("cannot connect to {address}: {error}");
        let stream = timeout(CONNECT_TIME, TcpStream::connect(address))
            .await
            .unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
            .map_err(|error| failed(&error))?;
        keep_alive(&stream).map_err(|error| failed(&error))?;
        let (alive, lost) = oneshot::channel();
        let socket = Arc::new(Mutex::new(Some(TokioIo::new(Watched {
            socket: stream,
            _alive: alive,
        }))));
        // Called once; a second call would be another connection.
        let connector = tower::service_fn(move |_: Uri| {
            let socket = socket.lock().unwrap_or_else(PoisonError::into_inner).take();
            async move { socket.ok_or_else(|| io::Error::other("connection to the registry was lost")) }
        });
        let endpoint = Endpoint::from_shared(format!("http://{address}"))
            .map_err(|error| failed(&error))?
            .initial_connection_window_size(WINDOW)
            .initial_stream_window_size(WINDOW);
        let channel = timeout(CONNECT_TIME, endpoint.connect_with_connector(connector))
            .await
            .map_err(|_| failed(&"no answer"))?
            .map_err(|error| failed(&error))?;
        Ok(Dialled { channel, lost })
    }
}

/// Lets the kernel notice a server that vanished without a word.
fn keep_alive(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let keep_alive = TcpKeepalive::new()
        .with_time(Duration::from_secs(20))
        .with_interval(Duration::from_secs(5));
    SockRef::from(stream).set_tcp_keepalive(&keep_alive)
}

/// A socket whose end is known to whoever holds the other half of `_alive`.
struct Watched {
    socket: TcpStream,
    _alive: oneshot::Sender<()>,
}

impl AsyncRead for Watched {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_read(context, buffer)
    }
}

impl AsyncWrite for Watched {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.socket).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_shutdown(context)
    }
}
