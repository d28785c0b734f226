//! The keeper against real sockets on this machine's loopback.

use std::sync::mpsc;

use tokio::net::TcpListener;

use super::*;

fn endpoint(port: u16, epoch: &str) -> Endpoint {
    Endpoint {
        address: format!("cat.ns.svc:{port}"),
        dial: format!("127.0.0.1:{port}"),
        epoch: epoch.to_owned(),
    }
}

fn key() -> NamespacedName {
    NamespacedName::new("ns", "cat")
}

fn connections() -> (Connections, mpsc::Receiver<()>) {
    let (sender, woken) = mpsc::channel();
    let connections = Connections::new(move |_: &NamespacedName| {
        let _ = sender.send(());
    });
    (connections, woken)
}

async fn wait_for(
    connections: &Connections,
    endpoint: &Endpoint,
    wanted: impl Fn(&ConnectionState) -> bool,
) -> ConnectionState {
    let deadline = Instant::now() + Duration::from_secs(10);
    loop {
        let state = connections.aim(&key(), Some(endpoint.clone()));
        if wanted(&state) {
            return state;
        }
        assert!(Instant::now() < deadline, "still {state:?}");
        sleep(Duration::from_millis(10)).await;
    }
}

fn is_ready(state: &ConnectionState) -> bool {
    matches!(state, ConnectionState::Ready(_))
}

async fn listener() -> (TcpListener, u16) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    (listener, port)
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_tried_without_an_endpoint() {
    let (connections, woken) = connections();
    let state = connections.aim(&key(), None);
    assert!(matches!(state, ConnectionState::Waiting), "{state:?}");
    sleep(Duration::from_millis(100)).await;
    assert!(woken.try_recv().is_err());
    assert!(connections.link(&key()).is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unreachable_address_fails_and_connects_when_it_appears() {
    let (gone, port) = listener().await;
    drop(gone);
    let (connections, woken) = connections();
    let endpoint = endpoint(port, "1");
    let failing = wait_for(&connections, &endpoint, |state| {
        matches!(state, ConnectionState::Failing { .. })
    })
    .await;
    let ConnectionState::Failing { error, .. } = failing else { unreachable!() };
    assert!(error.starts_with(&format!("cannot connect to cat.ns.svc:{port}: ")), "{error}");
    assert!(woken.try_recv().is_ok());
    assert!(woken.try_recv().is_err(), "the same failure again is no news");

    let _back = TcpListener::bind(("127.0.0.1", port)).await.unwrap();
    wait_for(&connections, &endpoint, is_ready).await;
    assert!(woken.try_recv().is_ok());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broken_connection_is_noticed_and_made_anew() {
    let (listener, port) = listener().await;
    let (connections, _woken) = connections();
    let endpoint = endpoint(port, "1");
    connections.aim(&key(), Some(endpoint.clone()));
    let (server, _) = listener.accept().await.unwrap();
    let ConnectionState::Ready(first) = wait_for(&connections, &endpoint, is_ready).await else {
        unreachable!()
    };
    drop(server);
    let (_server, _) = listener.accept().await.unwrap();
    let next = wait_for(&connections, &endpoint, |state| {
        matches!(state, ConnectionState::Ready(link) if link.generation != first.generation)
    })
    .await;
    assert!(is_ready(&next));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replaced_pod_behind_the_same_address_gives_a_new_generation() {
    let (listener, port) = listener().await;
    tokio::spawn(async move {
        let mut kept = Vec::new();
        while let Ok((socket, _)) = listener.accept().await {
            kept.push(socket);
        }
    });
    let (connections, _woken) = connections();
    wait_for(&connections, &endpoint(port, "pod-1"), is_ready).await;
    let first = connections.link(&key()).unwrap().generation;
    let moved = connections.aim(&key(), Some(endpoint(port, "pod-2")));
    assert!(matches!(moved, ConnectionState::Connecting), "the old pod's state is not told of the new: {moved:?}");
    wait_for(&connections, &endpoint(port, "pod-2"), is_ready).await;
    assert_ne!(connections.link(&key()).unwrap().generation, first);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_forgotten_source_has_no_connection() {
    let (listener, port) = listener().await;
    let (connections, _woken) = connections();
    wait_for(&connections, &endpoint(port, "1"), is_ready).await;
    connections.forget(&key());
    assert!(connections.link(&key()).is_none());
    let (mut server, _) = listener.accept().await.unwrap();
    let mut all = Vec::new();
    tokio::io::AsyncReadExt::read_to_end(&mut server, &mut all).await.unwrap();
}
