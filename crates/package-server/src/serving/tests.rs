use std::fs;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;

use bytes::Bytes;
use http::Response;
use http_body_util::{BodyExt as _, Empty};
use hyper::client::conn;
use hyper_util::rt::TokioExecutor;
use olm_runtime::NamespacedName;
use olm_runtime::metrics::Metrics;
use olm_runtime::review::Reviews;
use rustls::ClientConfig;
use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio_rustls::TlsConnector;

use super::*;
use crate::args::Args;
use crate::certificates::{self, Source};
use crate::front_proxy::{FrontProxy, FrontProxyConfig};
use crate::index::{Catalog, CatalogFacts, Index, Packages};
use crate::package_manifest::Package;
use crate::readiness::Readiness;
use crate::test_env::{Authority, ByName, front_proxy, wait_for};

const BASE: &str = "/apis/packages.operators.coreos.com/v1";

/// A server on a port of this machine.
struct Server {
    address: SocketAddr,
    _folder: TempDir,
    authority: Authority,
    proxies: Authority,
    known: watch::Sender<FrontProxyConfig>,
    readiness: Readiness,
    stop: Option<oneshot::Sender<()>>,
    task: JoinHandle<()>,
}

impl Server {
    async fn start() -> Self {
        Self::with(watch::channel(Arc::default()).1).await
    }

    /// Starts a server of this index.
    async fn with(index: watch::Receiver<Arc<Index>>) -> Self {
        let (authority, proxies) = (Authority::new("serving"), Authority::new("proxies"));
        let folder = TempDir::new().unwrap();
        write_pair(folder.path(), &authority.sign("localhost"));
        let known = Some(Arc::new(front_proxy(&proxies.pem)));
        let (known, receiver) = watch::channel(known);
        let versions = clap::Parser::parse_from(["package-server"]);
        let versions = Args::tls_versions(&versions);
        let (config, keeping) =
            certificates::serve(source(folder.path()), versions, receiver.clone()).unwrap();
        let readiness = Readiness::default();
        let api = Api::new(
            index,
            receiver,
            Reviews::new(ByName::new()),
            readiness.clone(),
            &Metrics::default(),
        );
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, stopped) = oneshot::channel::<()>();
        let task = tokio::spawn(async move {
            let stopped = async {
                let _ = stopped.await;
            };
            tokio::select! {
                () = serve(listener, config, Arc::new(api), stopped) => {}
                () = keeping => {}
            }
        });
        Self {
            address,
            _folder: folder,
            authority,
            proxies,
            known,
            readiness,
            stop: Some(stop),
            task,
        }
    }

    /// Connects with a certificate of this common name, if any.
    async fn tls(
        &self,
        identity: Option<(&Authority, &str)>,
        protocol: &[u8],
    ) -> io::Result<tokio_rustls::client::TlsStream<TcpStream>> {
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(
            CertificateDer::pem_slice_iter(self.authority.pem.as_bytes()).flatten(),
        );
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots);
        let mut config = match identity {
            None => builder.with_no_client_auth(),
            Some((authority, name)) => {
                let (certificate, key) = authority.sign(name);
                let chain = CertificateDer::pem_slice_iter(certificate.as_bytes())
                    .flatten()
                    .collect();
                let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap();
                builder.with_client_auth_cert(chain, key).unwrap()
            }
        };
        config.alpn_protocols = vec![protocol.to_vec()];
        let stream = TcpStream::connect(self.address).await?;
        let name = ServerName::try_from("localhost").unwrap();
        TlsConnector::from(Arc::new(config)).connect(name, stream).await
    }

    async fn connect(&self, identity: Option<(&Authority, &str)>, protocol: &[u8]) -> io::Result<Client> {
        let io = TokioIo::new(self.tls(identity, protocol).await?);
        if protocol == b"h2" {
            let (sender, connection) = conn::http2::handshake(TokioExecutor::new(), io)
                .await
                .map_err(io::Error::other)?;
            let ended = tokio::spawn(async move {
                let _ = connection.await;
            });
            Ok(Client {
                sender: Sender::Http2(sender),
                ended,
            })
        } else {
            let (sender, connection) = conn::http1::handshake(io).await.map_err(io::Error::other)?;
            let ended = tokio::spawn(async move {
                let _ = connection.await;
            });
            Ok(Client {
                sender: Sender::Http1(sender),
                ended,
            })
        }
    }

    async fn proxy(&self) -> Client {
        self.connect(Some((&self.proxies, "front-proxy")), b"h2")
            .await
            .unwrap()
    }
}

fn source(folder: &Path) -> Source {
    Source {
        certificate: folder.join("apiserver.crt"),
        key: folder.join("apiserver.key"),
        or_self_signed: false,
    }
}

fn write_pair(folder: &Path, (certificate, key): &(String, String)) {
    fs::write(folder.join("apiserver.key"), key).unwrap();
    fs::write(folder.join("apiserver.crt"), certificate).unwrap();
}

enum Sender {
    Http1(conn::http1::SendRequest<Empty<Bytes>>),
    Http2(conn::http2::SendRequest<Empty<Bytes>>),
}

impl Sender {
    async fn send(&mut self, request: Request<Empty<Bytes>>) -> hyper::Result<Response<Incoming>> {
        match self {
            Self::Http1(sender) => sender.send_request(request).await,
            Self::Http2(sender) => sender.send_request(request).await,
        }
    }
}

struct Client {
    sender: Sender,
    ended: JoinHandle<()>,
}

impl Client {
    /// Returns the response to a request as `ada`, without reading its body.
    async fn ask(&mut self, path: &str) -> hyper::Result<Response<Incoming>> {
        let request = Request::get(format!("https://localhost{path}"))
            .header("x-remote-user", "ada")
            .body(Empty::new())
            .unwrap();
        self.sender.send(request).await
    }

    /// Returns status code and body of the response to a request as `ada`.
    async fn get(&mut self, path: &str) -> hyper::Result<(u16, Bytes)> {
        let answer = self.ask(path).await?;
        let code = answer.status().as_u16();
        Ok((code, answer.into_body().collect().await?.to_bytes()))
    }

    async fn code(&mut self, path: &str) -> u16 {
        self.get(path).await.unwrap().0
    }
}

#[tokio::test]
async fn the_api_server_is_known_by_its_certificate_over_either_protocol() {
    let server = Server::start().await;
    for protocol in [b"h2".as_slice(), b"http/1.1"] {
        let proxy = Some((&server.proxies, "front-proxy"));
        let mut client = server.connect(proxy, protocol).await.unwrap();
        assert_eq!(client.code(BASE).await, 200);
        assert_eq!(client.code(&format!("{BASE}/packagemanifests")).await, 200);
        let mut probe = server.connect(None, protocol).await.unwrap();
        assert_eq!((probe.code("/healthz").await, probe.code(BASE).await), (200, 401));
        let other_name = Some((&server.proxies, "eve"));
        let mut eve = server.connect(other_name, protocol).await.unwrap();
        assert_eq!(eve.code(BASE).await, 401);
    }
    let forged = Authority::new("proxies");
    let refused = async {
        let mut client = server.connect(Some((&forged, "front-proxy")), b"h2").await?;
        client.get(BASE).await.map_err(io::Error::other)
    };
    assert!(refused.await.is_err());
}

#[tokio::test]
async fn an_api_server_with_new_authorities_is_known_and_one_with_the_old_no_longer() {
    let server = Server::start().await;
    let mut old = server.proxy().await;
    assert_eq!(old.code(BASE).await, 200);
    let renewed = Authority::new("renewed");
    server
        .known
        .send_replace(Some(Arc::new(front_proxy(&renewed.pem))));
    // Its connection accepts no more requests.
    timeout(Duration::from_secs(10), &mut old.ended)
        .await
        .unwrap()
        .unwrap();
    let mut new = server
        .connect(Some((&renewed, "front-proxy")), b"h2")
        .await
        .unwrap();
    assert_eq!(new.code(BASE).await, 200);
    let refused = async {
        let mut client = server
            .connect(Some((&server.proxies, "front-proxy")), b"h2")
            .await?;
        client.get(BASE).await.map_err(io::Error::other)
    };
    assert!(refused.await.is_err());
}

#[tokio::test(start_paused = true)]
async fn a_replaced_certificate_is_served_and_a_broken_one_is_not() {
    let folder = TempDir::new().unwrap();
    let authority = Authority::new("serving");
    write_pair(folder.path(), &authority.sign("first"));
    let (known, receiver) = watch::channel(None);
    let versions = clap::Parser::parse_from(["package-server"]);
    let versions = Args::tls_versions(&versions);
    let (mut config, keeping) = certificates::serve(source(folder.path()), versions, receiver).unwrap();
    let keeping = tokio::spawn(keeping);
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert!(!config.has_changed().unwrap(), "nothing was replaced");
    write_pair(folder.path(), &authority.sign("second"));
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert!(config.has_changed().unwrap());
    config.mark_unchanged();
    fs::write(folder.path().join("apiserver.crt"), "broken").unwrap();
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert!(!config.has_changed().unwrap(), "what is broken was served");
    known.send_replace(Some(Arc::new(front_proxy(&authority.pem))));
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert!(
        config.has_changed().unwrap(),
        "a broken certificate keeps other authorities out"
    );
    keeping.abort();
    let absent = source(&folder.path().join("absent"));
    assert!(certificates::serve(absent, versions, watch::channel(None).1).is_err());
}

#[tokio::test]
async fn without_files_localhost_is_served() {
    let folder = TempDir::new().unwrap();
    let versions = clap::Parser::parse_from(["package-server"]);
    let source = Source {
        or_self_signed: true,
        ..source(folder.path())
    };
    let known: FrontProxyConfig = Some(Arc::new(FrontProxy::default()));
    assert!(certificates::serve(source, Args::tls_versions(&versions), watch::channel(known).1).is_ok());
}

/// Returns the number of parallel requests that a server announces in the first frame of HTTP/2. The frame
/// has nine bytes, then pairs of a number and a value.
async fn streams(mut tls: tokio_rustls::client::TlsStream<TcpStream>) -> u32 {
    tls.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0")
        .await
        .unwrap();
    let mut head = [0; 9];
    tls.read_exact(&mut head).await.unwrap();
    assert_eq!(head[3], 4, "the settings come first");
    let mut settings = vec![0; usize::from(head[2])];
    tls.read_exact(&mut settings).await.unwrap();
    let most = settings.chunks(6).find(|setting| setting[..2] == [0, 3]).unwrap();
    u32::from_be_bytes(most[2..].try_into().unwrap())
}

/// The API server sends all groups of a user; a directory may have a thousand.
#[tokio::test]
async fn a_user_of_many_groups_is_answered_and_a_stranger_with_such_a_head_is_not() {
    let server = Server::start().await;
    let many = |path: &str| {
        let mut request = Request::get(format!("https://localhost{path}")).header("x-remote-user", "ada");
        for number in 0..1000 {
            let group = format!("ldap:{number}:{}", "g".repeat(60));
            request = request.header("x-remote-group", group);
        }
        request.body(Empty::new()).unwrap()
    };
    let mut proxy = server.proxy().await;
    let answer = proxy.sender.send(many(BASE)).await.unwrap();
    assert_eq!(answer.status(), 200);
    let mut stranger = server.connect(None, b"h2").await.unwrap();
    let answer = stranger.sender.send(many("/healthz")).await;
    assert!(answer.is_err() || answer.is_ok_and(|answer| answer.status() == 431));
}

/// Each unread head and response waits in memory.
#[tokio::test]
async fn clients_other_than_the_api_server_have_few_concurrent_requests() {
    let server = Server::start().await;
    let other = server.tls(None, b"h2").await.unwrap();
    assert_eq!(streams(other).await, STREAMS);
    let proxy = server
        .tls(Some((&server.proxies, "front-proxy")), b"h2")
        .await
        .unwrap();
    assert_eq!(streams(proxy).await, PROXY_STREAMS);
}

/// Returns a package that is larger than the window of any client.
fn large() -> Packages {
    let package = Package {
        name: "large".into(),
        labels: [].into(),
        icon: None,
        content: vec![Bytes::from(vec![b' '; 32 << 20])],
    };
    Packages::from([("large".into(), Arc::new(package))])
}

/// A stream without a window writes nothing, so its socket does not stall.
#[tokio::test]
async fn an_answer_without_a_reader_ends_and_releases_its_memory() {
    for path in ["packagemanifests", "namespaces/ns/packagemanifests/large"] {
        let packages = large();
        // One reference of each piece is the test's.
        let pieces = packages["large"].content.clone();
        let key = NamespacedName::new("ns", "cat");
        let facts = CatalogFacts {
            key: key.clone(),
            ..CatalogFacts::default()
        };
        let catalog = Catalog {
            facts,
            packages: Arc::new(packages),
        };
        let index = Index {
            global_namespace: "olm".into(),
            catalogs: [(key, Arc::new(catalog))].into(),
        };
        let (served, receiver) = watch::channel(Arc::new(index));
        let server = Server::with(receiver).await;
        let mut client = server.proxy().await;
        let answer = client.ask(&format!("{BASE}/{path}")).await.unwrap();
        assert_eq!(answer.status(), 200);
        served.send_replace(Arc::default());
        let is_held = || !pieces.iter().all(Bytes::is_unique);
        assert!(is_held(), "{path}");
        tokio::time::pause();
        tokio::time::advance(REQUEST_TIME).await;
        tokio::time::resume();
        wait_for("what was held to go", || (!is_held()).then_some(())).await;
        // Other requests on the same connection are answered.
        assert_eq!(client.code(BASE).await, 200);
        assert!(answer.into_body().collect().await.is_err());
    }
}

#[tokio::test]
async fn at_the_end_requests_are_finished() {
    let mut server = Server::start().await;
    let mut client = server.proxy().await;
    assert_eq!(client.code(BASE).await, 200);
    // Clients are sent elsewhere, but requests that still arrive are answered.
    server.readiness.stops();
    assert_eq!(client.code("/readyz").await, 503);
    assert_eq!(client.code(BASE).await, 200);
    drop(server.stop.take());
    timeout(Duration::from_secs(10), &mut server.task)
        .await
        .unwrap()
        .unwrap();
    client.ended.await.unwrap();
    assert!(TcpStream::connect(server.address).await.is_err());
}

#[tokio::test]
async fn it_listens_on_all_addresses_unless_one_is_given() {
    let listener = listen(None, 0).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    match TcpListener::bind("[::1]:0").await {
        Ok(_) => drop(TcpStream::connect(("::1", port)).await.unwrap()),
        Err(_) => eprintln!("LEFT OUT: this machine has no IPv6"),
    }
    let one = listen(Some([127, 0, 0, 1].into()), 0).await.unwrap();
    assert_eq!(one.local_addr().unwrap().ip(), IpAddr::from([127, 0, 0, 1]));
}
