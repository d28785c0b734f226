//! A connection to a registry server, whose end is noticed.
//!
//! A [`Channel`] stands for one connection here and never makes another by itself: who reads a catalog through it reads one server.

use std::error::Error;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use hyper_util::rt::TokioIo;
use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio::time::timeout;
use tonic::Code;
use tonic::transport::{Channel, Endpoint, Uri};

use crate::client::{Client, Timeouts};
use crate::limits::CONNECT_TIME;

/// Bytes that a connection may be sent before they are read, on one stream and on all together.
const WINDOW: u32 = 1 << 20;
/// Time to connect to an address that need not be looked up. A packet that got lost while the cluster's proxies learned of a pod is
/// repeated sooner by another try than by the kernel.
const LITERAL_TIME: Duration = Duration::from_secs(1);

/// A connection.
#[derive(Debug)]
pub struct Dialled {
    /// For calls.
    pub channel: Channel,
    /// Ends with the connection.
    pub lost: oneshot::Receiver<()>,
}

/// Connects to `dial`, which is `host:port`, of a server that goes by `address`.
///
/// # Errors
/// Why that failed, with `address` in it.
pub async fn dial(dial: &str, address: &str) -> Result<Dialled, String> {
    let failed = |error: &dyn std::fmt::Display| format!("cannot connect to {address}: {error}");
    let stream = timeout(socket_deadline(dial), TcpStream::connect(dial))
        .await
        .unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
        .map_err(|error| failed(&error))?;
    keep_alive(&stream).map_err(|error| failed(&error))?;
    let (alive, lost) = oneshot::channel();
    let socket = Watched {
        socket: stream,
        _alive: alive,
    };
    let channel = timeout(CONNECT_TIME, over(socket, address))
        .await
        .map_err(|_| failed(&"no answer"))?
        .map_err(|error| failed(&innermost(&error)))?;
    Ok(Dialled { channel, lost })
}

/// Speaks over a stream that is there, with a server that goes by `address`.
///
/// # Errors
/// The address is none, or nobody speaks there.
pub async fn over<S>(stream: S, address: &str) -> Result<Channel, tonic::transport::Error>
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let stream = Arc::new(Mutex::new(Some(TokioIo::new(stream))));
    // Called once; a second call would be another connection, which is the caller's to make.
    let connector = tower::service_fn(move |_: Uri| {
        let stream = stream.lock().unwrap_or_else(PoisonError::into_inner).take();
        async move { stream.ok_or_else(|| io::Error::other("connection to the registry was lost")) }
    });
    let endpoint = Endpoint::from_shared(format!("http://{address}"))?
        .initial_connection_window_size(WINDOW)
        .initial_stream_window_size(WINDOW);
    endpoint.connect_with_connector(connector).await
}

/// Whether a gRPC server answers: a socket proves nothing, whatever listens there takes it. Registry servers have the health service;
/// one without it answers all the same.
///
/// # Errors
/// Why it does not, with `address` in it.
pub async fn greet(channel: &Channel, address: &str) -> Result<(), String> {
    let answer = Box::pin(Client::new(channel.clone(), Timeouts::default()).check()).await;
    let silent = [
        Code::Unavailable,
        Code::DeadlineExceeded,
        Code::Unknown,
        Code::Internal,
        Code::Cancelled,
    ];
    match answer {
        Err(status) if silent.contains(&status.code()) => {
            let cause = match status.source() {
                Some(cause) => innermost(cause),
                None => status.message().to_owned(),
            };
            Err(format!("cannot connect to {address}: {cause}"))
        }
        _ => Ok(()),
    }
}

/// A name takes as long as it takes to look up.
fn socket_deadline(dial: &str) -> Duration {
    match dial.parse::<SocketAddr>() {
        Ok(_) => LITERAL_TIME,
        Err(_) => CONNECT_TIME,
    }
}

/// The last cause of an error: the transport's own texts say nothing.
fn innermost(error: &dyn Error) -> String {
    let mut cause = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause.to_string()
}

/// Lets the kernel notice a server that vanished without a word. HTTP/2 pings would do too, but registry servers built
/// with gRPC for Go close connections that ping without calls.
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
