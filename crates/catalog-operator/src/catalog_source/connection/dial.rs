//! One attempt to connect: a socket whose end is noticed, and a server that answers.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use async_trait::async_trait;
use hyper_util::rt::TokioIo;
use olm_registry::client::{Client, Timeouts};
use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio::time::timeout;
use tonic::transport::{Channel, Uri};
use tonic::{Code, Status};

use super::{ATTEMPT_DEADLINE, Endpoint, lock};

/// A channel, and a receiver that ends when its connection does.
pub type Dialled = (Channel, oneshot::Receiver<()>);

/// How connections are made.
#[async_trait]
pub trait Dial: Send + Sync + 'static {
    /// One attempt, or why it failed.
    async fn connect(&self, endpoint: &Endpoint) -> Result<Dialled, String>;
}

/// Over the network.
#[derive(Debug)]
pub(crate) struct Tcp;

#[async_trait]
impl Dial for Tcp {
    async fn connect(&self, endpoint: &Endpoint) -> Result<Dialled, String> {
        connect(endpoint).await
    }
}

async fn connect(endpoint: &Endpoint) -> Result<Dialled, String> {
    let failed = |error: &dyn std::fmt::Display| format!("cannot connect to {}: {error}", endpoint.address);
    let stream = timeout(
        socket_deadline(&endpoint.dial),
        TcpStream::connect(&endpoint.dial),
    )
    .await
    .unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
    .map_err(|error| failed(&error))?;
    keep_alive(&stream).map_err(|error| failed(&error))?;
    let (alive, lost) = oneshot::channel();
    let socket = Arc::new(Mutex::new(Some(TokioIo::new(Watched {
        socket: stream,
        _alive: alive,
    }))));
    // Called once for this connection; a second call would be a reconnection, which is the keeper's to make.
    let connector = tower::service_fn(move |_: Uri| {
        let socket = lock(&socket).take();
        async move { socket.ok_or_else(|| io::Error::other("connection to the registry was lost")) }
    });
    let channel = tonic::transport::Endpoint::from_shared(format!("http://{}", endpoint.address))
        .map_err(|error| failed(&error))?
        .connect_with_connector(connector)
        .await
        .map_err(|error| failed(&innermost(&error)))?;
    // A socket proves nothing: whatever listens there takes it.
    greet(&channel)
        .await
        .map_err(|status| match std::error::Error::source(&status) {
            Some(cause) => failed(&innermost(cause)),
            None => failed(&status.message()),
        })?;
    Ok((channel, lost))
}

/// A packet that got lost while the cluster's proxies learned of a pod is repeated sooner by another try than by the
/// kernel. A name takes as long as it takes to look up.
fn socket_deadline(dial: &str) -> Duration {
    let is_literal = dial.parse::<std::net::SocketAddr>().is_ok();
    if is_literal {
        Duration::from_secs(1)
    } else {
        ATTEMPT_DEADLINE
    }
}

/// Whether a gRPC server answers. Registry servers have the health service; one without it answers all the same.
async fn greet(channel: &Channel) -> Result<(), Status> {
    let answer = Box::pin(Client::new(channel.clone(), Timeouts::default()).check()).await;
    let silent = [
        Code::Unavailable,
        Code::DeadlineExceeded,
        Code::Unknown,
        Code::Internal,
        Code::Cancelled,
    ];
    answer.or_else(|status| {
        if silent.contains(&status.code()) {
            Err(status)
        } else {
            Ok(())
        }
    })
}

/// The last cause of an error: the transport's own texts say nothing.
fn innermost(error: &dyn std::error::Error) -> String {
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

/// A socket whose end is known to whoever holds the other half of `alive`.
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
