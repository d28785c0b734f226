//! Listening sockets for probes, Prometheus and the API server.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

use socket2::SockRef;
use tokio::net::{TcpListener, TcpSocket};

/// Maximum number of connections that wait to be accepted.
const BACKLOG: u32 = 1024;

/// Listens on `address`. An unspecified address, `0.0.0.0` or `::`, means all addresses of both families, or of the only family of the
/// machine. On an IPv6-only cluster, probes use an IPv6 address whatever the flags say.
///
/// # Errors
/// If the address cannot be bound.
pub async fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    if !address.ip().is_unspecified() {
        return TcpListener::bind(address).await;
    }
    match bind_both((Ipv6Addr::UNSPECIFIED, address.port()).into()) {
        Ok(listener) => Ok(listener),
        // The machine has no IPv6. A port in use fails here as well.
        Err(_) => TcpListener::bind((Ipv4Addr::UNSPECIFIED, address.port())).await,
    }
}

/// Listens on IPv4 as well, regardless of `net.ipv6.bindv6only`.
fn bind_both(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = TcpSocket::new_v6()?;
    SockRef::from(&socket).set_only_v6(false)?;
    // As in `TcpListener::bind`: a restarted process need not wait for connections of the previous one.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use tokio::net::TcpStream;

    use super::*;

    const V4: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
    const V6: IpAddr = IpAddr::V6(Ipv6Addr::LOCALHOST);

    /// Returns true if the machine has IPv6, and prints a note otherwise.
    async fn has_ipv6() -> bool {
        let has = TcpListener::bind((V6, 0)).await.is_ok();
        if !has {
            eprintln!("LEFT OUT: this machine has no IPv6");
        }
        has
    }

    async fn is_answered(listener: &TcpListener, at: IpAddr) -> bool {
        let port = listener.local_addr().unwrap().port();
        TcpStream::connect((at, port)).await.is_ok()
    }

    #[tokio::test]
    async fn an_unspecified_address_means_both_families() {
        for address in ["0.0.0.0:0", "[::]:0"] {
            let listener = bind(address.parse().unwrap()).await.unwrap();
            assert!(is_answered(&listener, V4).await, "{address}");
            if has_ipv6().await {
                assert!(is_answered(&listener, V6).await, "{address}");
            }
        }
    }

    #[tokio::test]
    async fn another_address_means_itself_alone() {
        let listener = bind((V4, 0).into()).await.unwrap();
        assert!(is_answered(&listener, V4).await);
        assert!(!is_answered(&listener, V6).await);
    }

    #[tokio::test]
    async fn a_port_that_is_taken_is_an_error() {
        let taken = bind("0.0.0.0:0".parse().unwrap()).await.unwrap();
        let port = taken.local_addr().unwrap().port();
        for address in [IpAddr::V4(Ipv4Addr::UNSPECIFIED), V4] {
            let refused = bind((address, port).into()).await.unwrap_err();
            assert_eq!(refused.kind(), io::ErrorKind::AddrInUse, "{address}");
        }
    }
}
