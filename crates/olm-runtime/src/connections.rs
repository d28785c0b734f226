//! Connections of a server: accepting them until it stops, and a limit of those that are open, so that no client can block the others.

use std::collections::{HashMap, VecDeque};
use std::future::Future;
use std::net::IpAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use rustls::ServerConfig;
#[cfg(target_os = "linux")]
use socket2::SockRef;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

/// Pause after a connection could not be accepted, for example without a free file descriptor.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// Time for a TLS handshake.
pub const HANDSHAKE_TIME: Duration = Duration::from_secs(5);
/// Time for open requests on shutdown.
pub const LAST_REQUESTS: Duration = Duration::from_secs(10);
/// Time without progress of a write after which a connection is closed. Reads may take any time: connections may be idle.
pub const STALL_TIME: Duration = Duration::from_secs(30);

/// Accepts connections until `stop`, then waits up to [`LAST_REQUESTS`] for the open ones. Those that stall are closed ([`STALL_TIME`]).
/// `answer` spawns the task of a connection from an address. The receiver that it gets becomes true when the server stops; the task then
/// finishes its requests.
pub async fn accept_until(
    listener: TcpListener,
    stop: impl Future<Output = ()>,
    mut answer: impl FnMut(&mut JoinSet<()>, TcpStream, IpAddr, watch::Receiver<bool>),
) {
    let (stopping, stopped) = watch::channel(false);
    let mut connections = JoinSet::new();
    let mut stop = pin!(stop);
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            // Ended connections are removed.
            Some(_) = connections.join_next() => continue,
            () = &mut stop => break,
        };
        match accepted {
            Ok((stream, peer)) => {
                set_up(&stream);
                answer(&mut connections, stream, peer.ip(), stopped.clone());
            }
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection");
                sleep(ACCEPT_PAUSE).await;
            }
        }
    }
    drop(listener);
    stopping.send_replace(true);
    let finished = async { while connections.join_next().await.is_some() {} };
    if timeout(LAST_REQUESTS, finished).await.is_err() {
        tracing::warn!("shutdown grace period exceeded; stopping with requests in progress");
    }
}

/// Returns the connection after its TLS handshake; `None` if it fails or takes longer than [`HANDSHAKE_TIME`].
pub async fn handshake(config: Arc<ServerConfig>, stream: TcpStream) -> Option<TlsStream<TcpStream>> {
    let handshake = TlsAcceptor::from(config).accept(stream);
    let tls = timeout(HANDSHAKE_TIME, handshake).await.ok()?;
    tls.inspect_err(|error| tracing::debug!(%error, "TLS handshake failed"))
        .ok()
}

/// Sets the options of a connection. A failure is harmless.
fn set_up(stream: &TcpStream) {
    // Small responses would wait for the other side's delayed acknowledgement otherwise.
    let _ = stream.set_nodelay(true);
    #[cfg(target_os = "linux")]
    let _ = SockRef::from(stream).set_tcp_user_timeout(Some(STALL_TIME));
}

/// Open connections, oldest first. Beyond the limit, the oldest connection of the address with the most is closed, so a flood closes its
/// own.
#[derive(Debug)]
pub struct OpenConnections {
    most: usize,
    open: VecDeque<Open>,
}

#[derive(Debug)]
struct Open {
    peer: IpAddr,
    task: AbortHandle,
}

impl OpenConnections {
    /// Creates an empty list with at most `most` open connections.
    pub const fn new(most: usize) -> Self {
        Self {
            most,
            open: VecDeque::new(),
        }
    }

    /// Adds a connection of `peer` that `task` answers, and closes another one if there are too many. Finished connections do not count.
    pub fn add(&mut self, peer: IpAddr, task: AbortHandle) {
        self.open.retain(|open| !open.task.is_finished());
        let peer = peer.to_canonical();
        self.open.push_back(Open { peer, task });
        while self.open.len() > self.most {
            self.close_one();
        }
    }

    fn close_one(&mut self) {
        let mut counts: HashMap<IpAddr, usize> = HashMap::new();
        for open in &self.open {
            *counts.entry(open.peer).or_default() += 1;
        }
        let most = counts.values().max().copied();
        // If several addresses have equally many, the oldest connection of all of them is closed.
        let victim = self
            .open
            .iter()
            .position(|open| counts.get(&open.peer).copied() == most);
        if let Some(closed) = victim.and_then(|at| self.open.remove(at)) {
            closed.task.abort();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn a_connection_may_not_stall() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (asked, seen) = tokio::sync::oneshot::channel();
        let mut asked = Some(asked);
        let stop = std::future::pending();
        let serving = accept_until(listener, stop, move |_, stream, _, _| {
            let limit = SockRef::from(&stream).tcp_user_timeout().unwrap();
            let _ = asked.take().unwrap().send((limit, stream.nodelay().unwrap()));
        });
        let client = async {
            let _stream = TcpStream::connect(address).await.unwrap();
            seen.await.unwrap()
        };
        tokio::select! {
            () = serving => panic!("it serves on"),
            seen = client => assert_eq!(seen, (Some(STALL_TIME), true)),
        }
    }

    fn peer(last: u8) -> IpAddr {
        [10, 0, 0, last].into()
    }

    async fn open(of: &[u8], most: usize) -> Vec<usize> {
        let mut connections = OpenConnections::new(most);
        let mut tasks = Vec::new();
        for last in of {
            let task = tokio::spawn(std::future::pending::<()>());
            connections.add(peer(*last), task.abort_handle());
            tasks.push(task);
        }
        tokio::task::yield_now().await;
        let left = tasks.iter().enumerate().filter(|(_, task)| !task.is_finished());
        left.map(|(at, _)| at).collect()
    }

    #[tokio::test]
    async fn a_flooding_client_closes_its_own_connections() {
        // The probe connected first and has no answer yet.
        assert_eq!(open(&[1, 2, 2, 2, 2, 2], 3).await, [0, 4, 5]);
        assert_eq!(open(&[2, 2, 2, 1], 3).await, [1, 2, 3]);
    }

    #[tokio::test]
    async fn the_oldest_of_equals_is_closed() {
        assert_eq!(open(&[1, 2, 3, 4], 3).await, [1, 2, 3]);
        assert_eq!(open(&[1, 2, 3], 3).await, [0, 1, 2]);
    }

    #[tokio::test]
    async fn addresses_of_both_families_are_one_peer() {
        let mapped: IpAddr = "::ffff:10.0.0.1".parse().unwrap();
        let mut connections = OpenConnections::new(2);
        let mut tasks = Vec::new();
        for from in [peer(2), peer(1), mapped] {
            let task = tokio::spawn(std::future::pending::<()>());
            connections.add(from, task.abort_handle());
            tasks.push(task);
        }
        tokio::task::yield_now().await;
        let over: Vec<bool> = tasks.iter().map(|task| task.is_finished()).collect();
        assert_eq!(over, [false, true, false]);
    }

    #[tokio::test]
    async fn what_is_over_takes_no_place() {
        let mut connections = OpenConnections::new(2);
        let goes_on = [0, 1].map(|_| tokio::spawn(std::future::pending::<()>()));
        connections.add(peer(1), goes_on[0].abort_handle());
        let mut over = tokio::spawn(async {});
        connections.add(peer(2), over.abort_handle());
        (&mut over).await.unwrap();
        // If the finished one counted, there would be three, and this address would have the most.
        connections.add(peer(1), goes_on[1].abort_handle());
        tokio::task::yield_now().await;
        assert!(goes_on.iter().all(|task| !task.is_finished()));
    }
}
