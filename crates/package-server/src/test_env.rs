//! Registries, certificates and reviews for tests.

use std::convert::Infallible;
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures::stream;
use http::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use http::{Request, Response};
use http_body::Frame;
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt as _, StreamBody};
use hyper::body::Incoming;
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use olm_api::v1alpha1::CatalogSource;
use olm_registry::{cache, server};
use olm_runtime::review::{Attributes, Decision, ReviewError, Reviewer, User};
use rcgen::{BasicConstraints, CertificateParams, DistinguishedName, DnType, IsCa, Issuer, KeyPair};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::front_proxy::FrontProxy;

/// Longest wait before a test fails.
const PATIENCE: Duration = Duration::from_secs(30);

/// A registry that serves a catalog.
pub(crate) struct Registry {
    pub(crate) address: String,
    stop: Option<oneshot::Sender<()>>,
    task: JoinHandle<()>,
}

impl Registry {
    /// Serves a folder of catalog files.
    pub(crate) async fn of(folder: &Path) -> Self {
        Self::at("127.0.0.1:0", folder).await
    }

    /// Serves it at an address that may have been in use before.
    pub(crate) async fn at(address: &str, folder: &Path) -> Self {
        let index = Arc::new(cache::open_temporary(folder, None).unwrap());
        let listener = TcpListener::bind(address).await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let (stop, stopped) = oneshot::channel::<()>();
        let task = tokio::spawn(async move {
            let stopped = async {
                let _ = stopped.await;
            };
            server::serve(index, listener, stopped).await.unwrap();
        });
        Self {
            address,
            stop: Some(stop),
            task,
        }
    }

    /// Stops it as a deleted pod would; its address is free then.
    pub(crate) async fn stop(mut self) {
        drop(self.stop.take());
        (&mut self.task).await.unwrap();
    }
}

/// Answers of a registry, by method and request: encoded messages, or `None` to reset the stream.
pub(crate) type Answers = dyn Fn(&str, &[u8]) -> Option<Vec<Vec<u8>>> + Send + Sync;

/// Starts a registry with the test's answers, which runs until the test ends. Returns its address.
pub(crate) async fn rogue(answers: Arc<Answers>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let answers = Arc::clone(&answers);
            let service = service_fn(move |request: Request<Incoming>| answer(request, Arc::clone(&answers)));
            let connection = http2::Builder::new(TokioExecutor::new());
            tokio::spawn(connection.serve_connection(TokioIo::new(stream), service));
        }
    });
    address
}

type GrpcBody = BoxBody<Bytes, Infallible>;

async fn answer(request: Request<Incoming>, answers: Arc<Answers>) -> Result<Response<GrpcBody>, String> {
    let (head, body) = request.into_parts();
    let question = body.collect().await.unwrap().to_bytes();
    // Each message follows a byte for its compression, and its length.
    let messages = answers(head.uri.path(), &question[5..]).ok_or("as the test likes")?;
    let framed = messages.into_iter().map(|message| {
        let length = u32::try_from(message.len()).unwrap().to_be_bytes();
        Frame::data([&[0], &length[..], &message].concat().into())
    });
    let trailers = HeaderMap::from_iter([(
        HeaderName::from_static("grpc-status"),
        HeaderValue::from_static("0"),
    )]);
    let frames = framed.chain([Frame::trailers(trailers)]).map(Ok);
    let mut response = Response::new(StreamBody::new(stream::iter(frames)).boxed());
    let grpc = HeaderValue::from_static("application/grpc");
    response.headers_mut().insert(CONTENT_TYPE, grpc);
    Ok(response)
}

/// Returns a ClusterServiceVersion of this name. As with real ones, its kept part is larger than an entry in
/// the lists of versions.
pub(crate) fn csv(name: &str, version: &str) -> Value {
    json!({
        "apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion",
        "metadata": {"name": name, "labels": {"projected": "yes"}},
        "spec": {"displayName": "Demo", "description": "d".repeat(4000), "version": version, "provider": {"name": "t"},
            "icon": [{"base64data": "aGVsbG8=", "mediatype": "image/png"}]},
    })
}

/// Writes a catalog of packages to a folder: names and versions, all in the channel `stable`.
pub(crate) fn catalog(packages: &[(&str, &[&str])]) -> TempDir {
    use base64::Engine as _;
    let mut blobs = Vec::new();
    for (package, versions) in packages {
        let name = |version: &str| format!("{package}.v{version}");
        let mut entries = Vec::new();
        let mut replaces: Option<String> = None;
        for version in *versions {
            let mut entry = json!({"name": name(version)});
            if let Some(replaces) = replaces.replace(name(version)) {
                entry["replaces"] = json!(replaces);
            }
            entries.push(entry);
            let manifest = csv(&name(version), version).to_string();
            let data = base64::engine::general_purpose::STANDARD.encode(manifest);
            blobs.push(json!({
                "schema": "olm.bundle", "name": name(version), "package": package, "image": "registry.example/x:1",
                "properties": [
                    {"type": "olm.package", "value": {"packageName": package, "version": version}},
                    {"type": "olm.bundle.object", "value": {"data": data}},
                ],
            }));
        }
        blobs.push(json!({"schema": "olm.package", "name": package, "defaultChannel": "stable"}));
        blobs
            .push(json!({"schema": "olm.channel", "name": "stable", "package": package, "entries": entries}));
    }
    let folder = TempDir::new().unwrap();
    let text: Vec<String> = blobs.iter().map(Value::to_string).collect();
    fs::write(folder.path().join("catalog.json"), text.join("\n")).unwrap();
    folder
}

/// Writes a catalog with one package `demo`, which has a channel `side` beside `stable`. The bundle at its
/// head has an icon of `icon` bytes, and a ConfigMap of `more`.
pub(crate) fn catalog_with_side_channel(icon: usize, more: usize) -> TempDir {
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;
    let folder = catalog(&[("demo", &["1.0.0"])]);
    let mut head = csv("demo.v2.0.0", "2.0.0");
    head["spec"]["icon"][0]["base64data"] = STANDARD.encode(vec![7; icon]).into();
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}, "data": {"a": "x".repeat(more)}});
    let blobs = [
        json!({"schema": "olm.channel", "name": "side", "package": "demo", "entries": [{"name": "demo.v2.0.0"}]}),
        json!({
            "schema": "olm.bundle", "name": "demo.v2.0.0", "package": "demo", "image": "registry.example/x:2",
            "properties": [
                {"type": "olm.package", "value": {"packageName": "demo", "version": "2.0.0"}},
                {"type": "olm.bundle.object", "value": {"data": STANDARD.encode(head.to_string())}},
                {"type": "olm.bundle.object", "value": {"data": STANDARD.encode(map.to_string())}},
            ],
        }),
    ];
    let text: Vec<String> = blobs.iter().map(Value::to_string).collect();
    fs::write(folder.path().join("side.json"), text.join("\n")).unwrap();
    folder
}

/// Returns a CatalogSource served at `address`.
pub(crate) fn source(namespace: &str, name: &str, address: &str) -> CatalogSource {
    serde_json::from_value(json!({
        "metadata": {"name": name, "namespace": namespace, "uid": format!("{namespace}-{name}"),
            "resourceVersion": "1", "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {"sourceType": "grpc", "address": address, "displayName": "Catalog", "publisher": "t"},
    }))
    .unwrap()
}

/// Waits until `seen` returns something, which it does within a moment or never.
pub(crate) async fn wait_for<T>(what: &str, mut seen: impl FnMut() -> Option<T>) -> T {
    let found = async {
        loop {
            if let Some(found) = seen() {
                return found;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let found = tokio::time::timeout(PATIENCE, found).await;
    found.unwrap_or_else(|_| panic!("waited in vain for {what}"))
}

/// Reviews by name: `ada` has every permission here, and the token `ada-token` is hers.
pub(crate) struct ByName {
    /// While this is set, reviews are not answered.
    pub(crate) is_away: AtomicBool,
    /// The requested reviews.
    pub(crate) asked: Mutex<Vec<(User, Attributes)>>,
}

impl ByName {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self {
            is_away: AtomicBool::new(false),
            asked: Mutex::default(),
        })
    }

    fn away(&self) -> Result<(), ReviewError> {
        if self.is_away.load(Ordering::SeqCst) {
            Err(ReviewError("away".to_owned()))
        } else {
            Ok(())
        }
    }
}

#[async_trait]
impl Reviewer for ByName {
    async fn identify(&self, token: &str) -> Result<Option<User>, ReviewError> {
        self.away()?;
        let name = token.strip_suffix("-token");
        Ok(name.map(|name| User {
            name: name.to_owned(),
            ..User::default()
        }))
    }

    async fn decide(&self, user: &User, attributes: &Attributes) -> Result<Decision, ReviewError> {
        self.away()?;
        self.asked
            .lock()
            .unwrap()
            .push((user.clone(), attributes.clone()));
        Ok(Decision {
            is_allowed: user.name == "ada",
            reason: String::new(),
        })
    }
}

/// An authority and its issued certificates.
pub(crate) struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pub(crate) pem: String,
}

impl Authority {
    pub(crate) fn new(name: &str) -> Self {
        let mut params = named(name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let pem = params.self_signed(&key).unwrap().pem();
        Self {
            issuer: Issuer::new(params, key),
            pem,
        }
    }

    /// Returns a certificate and its key as PEM. The common name is also the name of the server.
    pub(crate) fn sign(&self, name: &str) -> (String, String) {
        let key = KeyPair::generate().unwrap();
        let certificate = named(name).signed_by(&key, &self.issuer).unwrap();
        (certificate.pem(), key.serialize_pem())
    }
}

fn named(name: &str) -> CertificateParams {
    let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    params
}

/// Returns the settings for recognising the API server: a certificate of `authority` for `front-proxy`.
pub(crate) fn front_proxy(authority: &str) -> FrontProxy {
    let data = [
        ("requestheader-allowed-names", r#"["front-proxy"]"#),
        ("requestheader-client-ca-file", authority),
        ("requestheader-extra-headers-prefix", r#"["X-Remote-Extra-"]"#),
        ("requestheader-group-headers", r#"["X-Remote-Group"]"#),
        ("requestheader-username-headers", r#"["X-Remote-User"]"#),
    ];
    FrontProxy::parse(&data.map(|(key, value)| (key.to_owned(), value.to_owned())).into()).unwrap()
}
