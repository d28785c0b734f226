//! The connection task with real sockets on the loopback interface.

use std::sync::mpsc;

use async_trait::async_trait;
use tokio::net::TcpListener;

use super::testing;
use super::*;

fn endpoint(port: u16, epoch: &str) -> Endpoint {
    Endpoint {
        address: format!("cat.ns.svc:{port}"),
        dial: format!("127.0.0.1:{port}"),
        epoch: epoch.to_owned(),
        may_change: false,
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
        let state = connections.set_endpoint(&key(), Some(endpoint.clone()));
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

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_tried_without_an_endpoint() {
    let (connections, woken) = connections();
    let state = connections.set_endpoint(&key(), None);
    assert!(matches!(state, ConnectionState::Waiting), "{state:?}");
    sleep(Duration::from_millis(100)).await;
    assert!(woken.try_recv().is_err());
    assert!(connections.link(&key()).is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn cat_021_an_unreachable_address_fails_and_connects_when_it_appears() {
    let (gone, port) = testing::answer_anywhere().await;
    gone.end().await;
    let (connections, woken) = connections();
    let endpoint = endpoint(port, "1");
    let failing = wait_for(&connections, &endpoint, |state| {
        matches!(state, ConnectionState::Failing { .. })
    })
    .await;
    let ConnectionState::Failing { error, .. } = failing else {
        unreachable!()
    };
    assert!(
        error.starts_with(&format!("cannot connect to cat.ns.svc:{port}: ")),
        "{error}"
    );
    assert!(woken.try_recv().is_ok());
    assert!(woken.try_recv().is_err(), "the same failure again is no news");

    let _back = testing::answer(TcpListener::bind(("127.0.0.1", port)).await.unwrap());
    wait_for(&connections, &endpoint, is_ready).await;
    assert!(woken.recv_timeout(Duration::from_secs(5)).is_ok());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broken_connection_is_noticed_and_opened_again() {
    let (server, port) = testing::answer_anywhere().await;
    let (connections, _woken) = connections();
    let endpoint = endpoint(port, "1");
    let ConnectionState::Ready(first) = wait_for(&connections, &endpoint, is_ready).await else {
        unreachable!()
    };
    server.end().await;
    wait_for(&connections, &endpoint, |state| !is_ready(state)).await;
    assert!(connections.link(&key()).is_none());
    let _back = testing::answer(TcpListener::bind(("127.0.0.1", port)).await.unwrap());
    let ConnectionState::Ready(next) = wait_for(&connections, &endpoint, is_ready).await else {
        unreachable!()
    };
    assert_ne!(next.generation, first.generation);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replaced_pod_behind_the_same_address_gives_a_new_generation() {
    let (_server, port) = testing::answer_anywhere().await;
    let (connections, _woken) = connections();
    wait_for(&connections, &endpoint(port, "pod-1"), is_ready).await;
    let first = connections.link(&key()).unwrap().generation;
    let moved = connections.set_endpoint(&key(), Some(endpoint(port, "pod-2")));
    assert!(
        matches!(moved, ConnectionState::Connecting),
        "the old pod's state is not told of the new: {moved:?}"
    );
    wait_for(&connections, &endpoint(port, "pod-2"), is_ready).await;
    assert_ne!(connections.link(&key()).unwrap().generation, first);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_forgotten_source_has_no_connection() {
    let (server, port) = testing::answer_anywhere().await;
    let (connections, _woken) = connections();
    wait_for(&connections, &endpoint(port, "1"), is_ready).await;
    connections.forget(&key());
    assert!(connections.link(&key()).is_none());
    // It would wait for an open connection.
    server.end().await;
}

/// A server that accepts and then sends nothing, or something else, is no registry.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_of_another_kind_is_not_ready() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        let mut kept = Vec::new();
        while let Ok((mut socket, _)) = listener.accept().await {
            let _ =
                tokio::io::AsyncWriteExt::write_all(&mut socket, b"HTTP/1.1 400 Bad Request\r\n\r\n").await;
            kept.push(socket);
        }
    });
    let (connections, _woken) = connections();
    let endpoint = endpoint(port, "1");
    let state = wait_for(&connections, &endpoint, |state| {
        assert!(!is_ready(state));
        matches!(state, ConnectionState::Failing { .. })
    })
    .await;
    let ConnectionState::Failing { error, .. } = state else {
        unreachable!()
    };
    assert!(
        error.starts_with(&format!("cannot connect to cat.ns.svc:{port}: ")),
        "{error}"
    );
}

/// Panics as a library may on an unexpected response.
struct Panics;

#[async_trait]
impl Dial for Panics {
    async fn connect(&self, _dial: &str, _address: &str) -> Result<Dialled, String> {
        panic!("a header that cannot be");
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_cannot_be_read_is_a_failed_attempt() {
    let (connections, _woken) = connections();
    let connections = connections.with_dial(Arc::new(Panics));
    let wanted = |state: &ConnectionState| matches!(state, ConnectionState::Failing { .. });
    let state = wait_for(&connections, &endpoint(1, "pod-1"), wanted).await;
    let ConnectionState::Failing { error, .. } = state else {
        unreachable!()
    };
    assert_eq!(error, "cannot connect to cat.ns.svc:1: invalid response");
}
