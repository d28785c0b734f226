//! The program itself, between an API server and registries of the test, from start to end. Includes its
//! memory for real operators.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test program")]

use std::convert::Infallible;
use std::fs;
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures::stream;
use http::{Method, Request, Response};
use http_body::Frame;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Empty, Full, StreamBody};
use hyper::body::Incoming;
use hyper::client::conn::http1 as client;
use hyper::server::conn::http1 as server;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use olm_registry::cache;
use olm_testing::shared::corpus_dir;
use rcgen::{BasicConstraints, CertificateParams, DistinguishedName, DnType, IsCa, Issuer, KeyPair};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsConnector;

const LIST: &str = "/apis/packages.operators.coreos.com/v1/packagemanifests";
/// Longest wait before a test fails.
const PATIENCE: Duration = Duration::from_secs(60);
/// Memory limit of the program with the packages of 125 real operators.
const MOST_KIB: u64 = 20 << 10;

/// Objects of the API server, by the path of their list.
type Objects = Arc<Mutex<Vec<(&'static str, Value)>>>;

/// Starts an API server that lists the given objects, sends no changes, and allows `ada` everything.
async fn api_server(objects: Objects) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let objects = Arc::clone(&objects);
            let service = service_fn(move |request: Request<Incoming>| {
                let objects = Arc::clone(&objects);
                async move { Ok::<_, Infallible>(answer(request, &objects).await) }
            });
            tokio::spawn(server::Builder::new().serve_connection(TokioIo::new(stream), service));
        }
    });
    address
}

async fn answer(request: Request<Incoming>, objects: &Objects) -> Response<UnsyncBoxBody<Bytes, Infallible>> {
    let (head, body) = request.into_parts();
    let told = |value: Value| Response::new(Full::new(Bytes::from(value.to_string())).boxed_unsync());
    if head.method == Method::POST {
        let mut review: Value = serde_json::from_slice(&body.collect().await.unwrap().to_bytes()).unwrap();
        review["status"] = json!({"allowed": review["spec"]["user"] == "ada"});
        return told(review);
    }
    if head.uri.query().is_some_and(|query| query.contains("watch=true")) {
        let silence = stream::pending::<Result<Frame<Bytes>, Infallible>>();
        return Response::new(StreamBody::new(silence).boxed_unsync());
    }
    let objects = objects.lock().unwrap();
    let items: Vec<&Value> = objects
        .iter()
        .filter(|(path, _)| *path == head.uri.path())
        .map(|(_, object)| object)
        .collect();
    told(json!({"kind": "List", "apiVersion": "v1", "metadata": {"resourceVersion": "1"}, "items": items}))
}

/// A certificate authority.
struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pem: String,
}

fn named(name: &str) -> CertificateParams {
    let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    params
}

impl Authority {
    fn new() -> Self {
        let mut params = named("authority");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let pem = params.self_signed(&key).unwrap().pem();
        Self {
            issuer: Issuer::new(params, key),
            pem,
        }
    }

    /// Returns a certificate and its key.
    fn sign(&self, name: &str) -> (String, String) {
        let key = KeyPair::generate().unwrap();
        let certificate = named(name).signed_by(&key, &self.issuer).unwrap();
        (certificate.pem(), key.serialize_pem())
    }
}

/// The program, ended with the test.
struct Program {
    child: Child,
    address: SocketAddr,
    authority: Authority,
    _folder: TempDir,
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Program {
    fn start(api_server: SocketAddr, authority: Authority) -> Self {
        let folder = TempDir::new().unwrap();
        let (certificate, key) = authority.sign("localhost");
        fs::write(folder.path().join("apiserver.crt"), certificate).unwrap();
        fs::write(folder.path().join("apiserver.key"), key).unwrap();
        let kubeconfig = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "x",
            "clusters": [{"name": "x", "cluster": {"server": format!("http://{api_server}")}}],
            "contexts": [{"name": "x", "context": {"cluster": "x", "user": "x"}}],
            "users": [{"name": "x", "user": {}}],
        });
        let path = folder.path().join("kubeconfig");
        fs::write(&path, kubeconfig.to_string()).unwrap();
        // The port was free a moment ago. If another process takes it, the program ends with an error.
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = free.local_addr().unwrap();
        drop(free);
        let child = Command::new(env!("CARGO_BIN_EXE_package-server"))
            .args([
                "--global-namespace=olm",
                "--bind-address=127.0.0.1",
                "--shutdown-delay-duration=0s",
            ])
            .arg(format!("--secure-port={}", address.port()))
            .arg(format!("--kubeconfig={}", path.display()))
            .arg(format!("--cert-dir={}", folder.path().display()))
            .stdin(Stdio::null())
            .spawn()
            .unwrap();
        Self {
            child,
            address,
            authority,
            _folder: folder,
        }
    }

    /// Returns status code and body of the response to `ada`, as the API server names her.
    async fn get(&self, path: &str) -> std::io::Result<(u16, Bytes)> {
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(
            CertificateDer::pem_slice_iter(self.authority.pem.as_bytes()).flatten(),
        );
        let (certificate, key) = self.authority.sign("front-proxy");
        let chain = CertificateDer::pem_slice_iter(certificate.as_bytes())
            .flatten()
            .collect();
        let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap();
        let config = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_client_auth_cert(chain, key)
            .unwrap();
        let stream = TcpStream::connect(self.address).await?;
        let name = ServerName::try_from("localhost").unwrap();
        let tls = TlsConnector::from(Arc::new(config)).connect(name, stream).await?;
        let (mut sender, connection) = client::handshake(TokioIo::new(tls))
            .await
            .map_err(std::io::Error::other)?;
        tokio::spawn(connection);
        let request = Request::get(path)
            .header("host", "localhost")
            .header("x-remote-user", "ada")
            .body(Empty::<Bytes>::new())
            .unwrap();
        let answer = sender
            .send_request(request)
            .await
            .map_err(std::io::Error::other)?;
        let code = answer.status().as_u16();
        let body = answer
            .into_body()
            .collect()
            .await
            .map_err(std::io::Error::other)?;
        Ok((code, body.to_bytes()))
    }

    /// Waits for a response with that code, which arrives within a moment or never.
    async fn wait_for(&self, path: &str, code: u16) -> Bytes {
        let found = async {
            loop {
                if let Ok((found, body)) = self.get(path).await
                    && found == code
                {
                    return body;
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        let found = tokio::time::timeout(PATIENCE, found).await;
        found.unwrap_or_else(|_| panic!("{path} never answered {code}"))
    }

    /// Returns KiB of a kind of memory.
    fn memory(&self, field: &str) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find(|line| line.starts_with(field)).unwrap();
        line.split_whitespace().nth(1).unwrap().parse().unwrap()
    }
}

/// Returns the settings for recognising the API server.
fn front_proxy(authority: &Authority) -> (&'static str, Value) {
    let config_map = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "extension-apiserver-authentication", "namespace": "kube-system",
            "uid": "1", "resourceVersion": "1"},
        "data": {
            "requestheader-client-ca-file": authority.pem,
            "requestheader-allowed-names": r#"["front-proxy"]"#,
            "requestheader-username-headers": r#"["X-Remote-User"]"#,
            "requestheader-group-headers": r#"["X-Remote-Group"]"#,
            "requestheader-extra-headers-prefix": r#"["X-Remote-Extra-"]"#,
        },
    });
    ("/api/v1/namespaces/kube-system/configmaps", config_map)
}

fn source(name: &str, address: &str) -> (&'static str, Value) {
    let source = json!({
        "apiVersion": "operators.coreos.com/v1alpha1", "kind": "CatalogSource",
        "metadata": {"name": name, "namespace": "olm", "uid": name, "resourceVersion": "1",
            "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {"sourceType": "grpc", "address": address},
    });
    ("/apis/operators.coreos.com/v1alpha1/catalogsources", source)
}

#[tokio::test]
async fn it_serves_without_responses_and_stops_on_request() {
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut program = Program::start(silent.local_addr().unwrap(), Authority::new());
    program.wait_for("/healthz", 200).await;
    assert_eq!(program.get("/readyz").await.unwrap().0, 503);
    assert_eq!(program.get(LIST).await.unwrap().0, 401);
    let id = program.child.id().to_string();
    assert!(
        Command::new("kill")
            .args(["-TERM", &id])
            .status()
            .unwrap()
            .success()
    );
    let ended = tokio::task::spawn_blocking(move || program.child.wait());
    let ended = tokio::time::timeout(PATIENCE, ended)
        .await
        .unwrap()
        .unwrap()
        .unwrap();
    assert!(ended.success(), "{ended}");
}

#[tokio::test]
async fn pkg_001_real_operators_are_served_in_little_memory() {
    let Some(corpus) = corpus_dir() else { return };
    let index = Arc::new(cache::open_temporary(&corpus.join("fbc"), None).unwrap());
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let registry = listener.local_addr().unwrap().to_string();
    tokio::spawn(olm_registry::server::serve(
        index,
        listener,
        std::future::pending(),
    ));
    let authority = Authority::new();
    let objects = vec![
        front_proxy(&authority),
        source("community", &registry),
        source("away", "127.0.0.1:1"),
    ];
    let api_server = api_server(Arc::new(Mutex::new(objects))).await;
    let began = Instant::now();
    let program = Program::start(api_server, authority);
    program.wait_for("/healthz", 200).await;
    let serving = began.elapsed();
    program.wait_for("/readyz", 200).await;
    // Requests did not wait for the reading.
    let read = async {
        loop {
            let (code, body) = program.get(LIST).await.unwrap();
            assert_eq!(code, 200);
            let list: Value = serde_json::from_slice(&body).unwrap();
            if list["items"].as_array().is_some_and(|items| items.len() == 125) {
                return body.len();
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    let length = tokio::time::timeout(PATIENCE, read).await.unwrap();
    let all = began.elapsed();
    // Many lists at once take no more memory than one.
    let lists = (0..20).map(|_| program.get(LIST));
    for list in futures::future::join_all(lists).await {
        assert_eq!(list.unwrap().1.len(), length);
    }
    let (anonymous, resident) = (program.memory("RssAnon"), program.memory("VmRSS"));
    println!(
        "serving after {} ms, all packages after {} ms; lists of {length} bytes; RssAnon {anonymous} KiB, VmRSS {resident} KiB",
        serving.as_millis(),
        all.as_millis()
    );
    assert!(anonymous < MOST_KIB, "{anonymous} KiB");
}
