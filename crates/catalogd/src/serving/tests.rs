//! Contents over real connections.

use std::path::Path;

use olm_oci::Digest;
use olm_runtime::metrics::Metrics;
use olm_runtime::tls::KeyPair;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio_rustls::TlsConnector;

use super::*;
use crate::store::ContentStore;

const REQUEST: &[u8] = b"GET /catalogs/a/api/v1/all HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
/// More than sockets buffer.
const LONG: usize = 8 << 20;

struct Server {
    address: std::net::SocketAddr,
    stop: oneshot::Sender<()>,
    running: JoinHandle<()>,
    _root: TempDir,
}

async fn server(tls: Option<watch::Receiver<Arc<ServerConfig>>>, text: &str) -> Server {
    let (root, source) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    std::fs::write(source.path().join("catalog.yaml"), text).unwrap();
    let store = ContentStore::open(root.path()).unwrap();
    let time = "2026-01-01T00:00:00Z".parse().unwrap();
    let staged = store.stage(&Digest::sha256(b"1"), source.path(), time).unwrap();
    store.install("a", staged).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (stop, stopped) = oneshot::channel();
    let api = Api::new(store, &Metrics::default());
    let running = tokio::spawn(serve(listener, tls, api, async move {
        let _ = stopped.await;
    }));
    Server {
        address,
        stop,
        running,
        _root: root,
    }
}

async fn ask(mut stream: impl AsyncRead + AsyncWrite + Unpin) -> String {
    stream.write_all(REQUEST).await.unwrap();
    let mut answer = Vec::new();
    // A server that closes a connection of TLS without saying so is an error to some clients.
    let _ = stream.read_to_end(&mut answer).await;
    String::from_utf8(answer).unwrap()
}

fn body(answer: &str) -> &str {
    answer.split_once("\r\n\r\n").unwrap().1
}

#[tokio::test]
async fn contents_are_served_over_plain_http() {
    let server = server(None, "schema: one\n").await;
    let stream = TcpStream::connect(server.address).await.unwrap();
    let answer = ask(stream).await;
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    assert_eq!(body(&answer), "{\"schema\":\"one\"}\n");
}

#[tokio::test]
async fn contents_are_served_over_tls() {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let pair = KeyPair {
        certificate: made.cert.pem().into_bytes(),
        key: made.signing_key.serialize_pem().into_bytes(),
        certificate_path: Path::new("cert").to_owned(),
        key_path: Path::new("key").to_owned(),
    };
    let config = pair.config(&[], &olm_runtime::tls::VERSIONS, &PROTOCOLS).unwrap();
    let (_sender, tls) = watch::channel(Arc::new(config));
    let server = server(Some(tls), "schema: one\n").await;
    let mut roots = RootCertStore::empty();
    roots
        .add(CertificateDer::from_pem_slice(&pair.certificate).unwrap())
        .unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let client = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let stream = TcpStream::connect(server.address).await.unwrap();
    let name = ServerName::try_from("localhost").unwrap();
    let stream = TlsConnector::from(Arc::new(client))
        .connect(name, stream)
        .await
        .unwrap();
    let answer = ask(stream).await;
    assert_eq!(body(&answer), "{\"schema\":\"one\"}\n");
    // Without TLS there is no answer.
    let stream = TcpStream::connect(server.address).await.unwrap();
    assert!(!ask(stream).await.contains("200 OK"));
}

#[tokio::test]
async fn an_open_request_is_finished_at_the_end() {
    let long = format!("schema: one\ntext: {}\n", "x".repeat(LONG));
    let server = server(None, &long).await;
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    stream.write_all(REQUEST).await.unwrap();
    let mut first = [0; 1];
    stream.read_exact(&mut first).await.unwrap();
    server.stop.send(()).unwrap();
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert!(
        TcpStream::connect(server.address).await.is_err(),
        "no new connections"
    );
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).await.unwrap();
    assert!(rest.len() > LONG, "{}", rest.len());
    server.running.await.unwrap();
}
