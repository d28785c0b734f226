//! A connection to a registry server that reports when it is lost.
//!
//! A [`Channel`] is exactly one connection here and never reconnects by itself. A catalog read through it
//! therefore comes from one server.

use std::error::Error;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hyper_util::rt::TokioIo;
use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio::time::timeout;
use tokio_util::io::InspectReader;
use tonic::transport::{Channel, Endpoint, Uri};
use tonic::{Code, async_trait};

use crate::client::Client;
use crate::limits::CONNECT_TIME;
use crate::snapshot::message;

/// Bytes that a server may send before they are read, on one stream and on all together.
const WINDOW: u32 = 1 << 20;
/// Time to connect to an IP address. While the cluster's proxies learn of a pod a packet may get lost. A new
/// attempt repeats it sooner than the kernel does.
const LITERAL_TIME: Duration = Duration::from_secs(1);

/// A connection.
#[derive(Debug)]
pub struct Dialled {
    /// Channel for calls.
    pub channel: Channel,
    /// Closes when the connection is lost.
    pub lost: oneshot::Receiver<()>,
}

/// Makes connections; tests replace it.
#[async_trait]
pub trait Dial: Send + Sync + 'static {
    /// Connects once to `dial` (`host:port`), or returns the cause of the failure, which shows the server as
    /// `address`.
    async fn connect(&self, dial: &str, address: &str) -> Result<Dialled, String>;
}

/// Connects over the network, to servers that answer.
#[derive(Debug)]
pub struct Tcp;

#[async_trait]
impl Dial for Tcp {
    async fn connect(&self, dial: &str, address: &str) -> Result<Dialled, String> {
        let failed = |error: &dyn std::fmt::Display| format!("cannot connect to {address}: {error}");
        let stream = timeout(socket_deadline(dial), TcpStream::connect(dial))
            .await
            .unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
            .map_err(|error| failed(&error))?;
        keep_alive(&stream).map_err(|error| failed(&error))?;
        let (alive, lost) = oneshot::channel();
        // What inspects the socket's data ends with the socket.
        let socket = InspectReader::new(stream, move |_: &[u8]| {
            let _ = &alive;
        });
        let channel = timeout(CONNECT_TIME, over(socket, address))
            .await
            .map_err(|_| failed(&"no answer"))?
            .map_err(|error| failed(&innermost(&error)))?;
        greet(&channel, address).await?;
        Ok(Dialled { channel, lost })
    }
}

/// Opens a channel over an existing stream to the server `address`.
///
/// # Errors
/// The address is invalid, or no HTTP/2 server answers.
pub async fn over<S>(stream: S, address: &str) -> Result<Channel, tonic::transport::Error>
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let stream = Arc::new(Mutex::new(Some(TokioIo::new(stream))));
    // Called once. A second call would be another connection, which is left to the caller.
    let connector = tower::service_fn(move |_: Uri| {
        let stream = stream.lock().unwrap_or_else(PoisonError::into_inner).take();
        async move { stream.ok_or_else(|| io::Error::other("connection to the registry lost")) }
    });
    let endpoint = Endpoint::from_shared(format!("http://{address}"))?
        .initial_connection_window_size(WINDOW)
        .initial_stream_window_size(WINDOW);
    endpoint.connect_with_connector(connector).await
}

/// Checks that a gRPC server answers: any listener accepts a socket, so a connection proves nothing. Registry
/// servers have the health service; a server without it answers with an error, which counts too.
///
/// # Errors
/// The cause of the failure, with `address` in it.
async fn greet(channel: &Channel, address: &str) -> Result<(), String> {
    let answer = Box::pin(Client::new(channel.clone()).check()).await;
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
                None => message(&status),
            };
            Err(format!("cannot connect to {address}: {cause}"))
        }
        _ => Ok(()),
    }
}

/// Returns the time to connect. A host name needs time for its lookup.
fn socket_deadline(dial: &str) -> Duration {
    match dial.parse::<SocketAddr>() {
        Ok(_) => LITERAL_TIME,
        Err(_) => CONNECT_TIME,
    }
}

/// Returns the last cause of an error: the transport's own texts have no information.
fn innermost(error: &dyn Error) -> String {
    let mut cause = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause.to_string()
}

/// Lets the kernel notice a server that vanished. HTTP/2 pings would do too, but registry servers built with
/// gRPC for Go close connections that ping without calls.
fn keep_alive(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let keep_alive = TcpKeepalive::new()
        .with_time(Duration::from_secs(20))
        .with_interval(Duration::from_secs(5));
    SockRef::from(stream).set_tcp_keepalive(&keep_alive)
}
