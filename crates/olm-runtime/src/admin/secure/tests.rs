use std::net::SocketAddr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use http::{Method, Request, Response, StatusCode};
use http_body_util::BodyExt as _;
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::task::AbortHandle;

use super::*;
use crate::admin::HEAD_BYTES;
use crate::leader::Leadership;
use crate::metrics::Metrics;
use crate::review::KubeReviewer;
use crate::review::limits::REVIEW_AGE;
use crate::store::StoreSet;
use crate::tls::authority::Authority;
use crate::written::Written;

/// API server that knows tokens of the form `NAME-token`. It allows the group `scrapers` to read metrics.
#[derive(Default)]
struct ApiServer {
    tokens_asked: AtomicUsize,
    is_silent: AtomicBool,
    /// True if it answers with an error.
    is_failing: AtomicBool,
    /// Revoked tokens.
    revoked: Mutex<Vec<String>>,
    /// Access reviews that were requested, as user and attributes.
    decided: Mutex<Vec<(String, Value)>>,
}

impl ApiServer {
    async fn answer(self: Arc<Self>, request: Request<Body>) -> Result<Response<Body>, kube::Error> {
        if self.is_silent.load(Ordering::SeqCst) {
            std::future::pending::<()>().await;
        }
        if self.is_failing.load(Ordering::SeqCst) {
            let mut response = Response::new(Body::from(b"etcd at 10.1.2.3 is away".to_vec()));
            *response.status_mut() = StatusCode::INTERNAL_SERVER_ERROR;
            return Ok(response);
        }
        assert_eq!(request.method(), Method::POST);
        let (head, body) = request.into_parts();
        let mut review: Value = serde_json::from_slice(&body.collect().await?.to_bytes()).unwrap();
        let spec = &review["spec"];
        review["status"] = match head.uri.path() {
            "/apis/authentication.k8s.io/v1/tokenreviews" => {
                self.tokens_asked.fetch_add(1, Ordering::SeqCst);
                let token = spec["token"].as_str().unwrap();
                let is_good = !self
                    .revoked
                    .lock()
                    .unwrap()
                    .iter()
                    .any(|revoked| revoked == token);
                match token.strip_suffix("-token").filter(|_| is_good) {
                    Some("prometheus") => {
                        json!({"authenticated": true, "user": {"username": "prometheus", "groups": ["scrapers"]}})
                    }
                    Some(name) => json!({"authenticated": true, "user": {"username": name}}),
                    None => json!({"authenticated": false, "error": "token expired"}),
                }
            }
            "/apis/authorization.k8s.io/v1/subjectaccessreviews" => {
                let user = spec["user"].as_str().unwrap().to_owned();
                let groups = spec["groups"].as_array().unwrap();
                assert!(groups.contains(&json!("system:authenticated")), "{groups:?}");
                let allowed = groups.contains(&json!("scrapers"));
                let attributes = spec["nonResourceAttributes"].clone();
                self.decided.lock().unwrap().push((user, attributes));
                json!({"allowed": allowed})
            }
            path => unreachable!("nobody asks for {path}"),
        };
        let mut response = Response::new(Body::from(review.to_string().into_bytes()));
        *response.status_mut() = StatusCode::CREATED;
        Ok(response)
    }
}

struct Server {
    api: Arc<ApiServer>,
    address: SocketAddr,
    authority: Authority,
    clients: Authority,
    metrics: Metrics,
    folder: TempDir,
    serving: AbortHandle,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

impl Server {
    async fn start() -> Self {
        let api = Arc::<ApiServer>::default();
        let answering = Arc::clone(&api);
        let service = tower::service_fn(move |request| Arc::clone(&answering).answer(request));
        let reviews = Reviews::new(Arc::new(KubeReviewer::new(&Client::new(service, "olm"))));
        let (authority, clients) = (Authority::new("serving"), Authority::new("clients"));
        let folder = TempDir::new().unwrap();
        let (config, keeping) = authority
            .files(folder.path(), Some(&clients))
            .serve(&PROTOCOLS)
            .unwrap();
        let metrics = Metrics::registered();
        metrics.requested("200", "GET");
        let stores = StoreSet::new().with_metrics(metrics.clone());
        let stores = stores.start(&mut tokio::task::JoinSet::new());
        let guard = Guard::new(reviews, refusals(&metrics));
        let admin = Admin::new(stores, Leadership::default(), true);
        let listener = crate::listener::bind("127.0.0.1:0".parse().unwrap())
            .await
            .unwrap();
        let address = listener.local_addr().unwrap();
        let serving = tokio::spawn(async move {
            tokio::select! {
                () = serve(listener, config, admin, guard) => {}
                () = keeping => {}
            }
        });
        Self {
            api,
            address,
            authority,
            clients,
            metrics,
            folder,
            serving: serving.abort_handle(),
        }
    }

    async fn ask(&self, path: &str, header: &str) -> String {
        self.ask_as(None, path, header).await
    }

    /// Returns the answer to a request with an extra header. The connection presents the client certificate `identity`, if any.
    async fn ask_as(&self, identity: Option<&(String, String)>, path: &str, header: &str) -> String {
        let connected = self.authority.connect(self.address, identity, &PROTOCOLS).await;
        let mut stream = connected.unwrap();
        let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n{header}\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
    }

    async fn scrape(&self, token: &str) -> String {
        self.ask("/metrics", &format!("authorization: Bearer {token}\r\n"))
            .await
    }
}

#[track_caller]
fn assert_code(answer: &str, code: &str) {
    assert!(answer.starts_with(&format!("HTTP/1.1 {code}")), "{answer}");
}

#[tokio::test]
async fn met_001_metrics_are_served_to_whom_the_api_server_allows_it_and_health_to_everybody() {
    let server = Server::start().await;
    assert_code(&server.ask("/healthz", "").await, "200 OK");
    assert_code(&server.ask("/readyz", "").await, "200 OK");
    let told = server.scrape("prometheus-token").await;
    assert_code(&told, "200 OK");
    assert!(told.contains("\nrest_client_requests_total{"), "{told}");
    let asked = server.api.decided.lock().unwrap().pop().unwrap();
    assert_eq!(
        asked,
        (
            "prometheus".to_owned(),
            json!({"verb": "get", "path": "/metrics"})
        )
    );
    let nobody = server.ask("/metrics", "").await;
    assert_code(&nobody, "401 Unauthorized");
    assert!(nobody.contains("\r\nwww-authenticate: Bearer\r\n") && !nobody.contains("# TYPE"));
    assert_code(
        &server.ask("/metrics?x=1", "Authorization: Basic YTpi\r\n").await,
        "401",
    );
    let refused = server.scrape("eve-token").await;
    assert_code(&refused, "403 Forbidden");
    assert!(
        refused.ends_with("Authorization denied for user eve\n"),
        "{refused}"
    );
    assert_eq!(server.metrics.total("olm_metrics_refused_total"), 3.0);
}

#[tokio::test]
async fn a_certificate_identifies_the_user_without_a_token() {
    let server = Server::start().await;
    let scraper = server.clients.sign("ada", &["scrapers"]);
    let eve = server.clients.sign("eve", &[]);
    assert_code(&server.ask_as(Some(&scraper), "/metrics", "").await, "200 OK");
    assert_code(&server.ask_as(Some(&eve), "/metrics", "").await, "403");
    // A token takes precedence over the certificate.
    let token = "Authorization: Bearer eve-token\r\n";
    assert_code(&server.ask_as(Some(&scraper), "/metrics", token).await, "403");
    // A certificate signed by another authority is not accepted.
    let stranger = Authority::new("others").sign("ada", &["scrapers"]);
    let connected = server
        .authority
        .connect(server.address, Some(&stranger), &PROTOCOLS)
        .await;
    let refused = async {
        let mut stream = connected?;
        stream.write_all(b"GET /healthz HTTP/1.1\r\n\r\n").await?;
        stream.read_to_string(&mut String::new()).await
    };
    assert!(refused.await.is_err());
    assert_eq!(server.api.tokens_asked.load(Ordering::SeqCst), 1);
}

/// A revoked token is refused once the cached review has expired.
#[tokio::test]
async fn a_token_that_is_taken_back_opens_nothing_for_longer_than_answers_are_believed() {
    let server = Server::start().await;
    assert_code(&server.scrape("prometheus-token").await, "200 OK");
    server
        .api
        .revoked
        .lock()
        .unwrap()
        .push("prometheus-token".to_owned());
    tokio::time::pause();
    tokio::time::advance(REVIEW_AGE).await;
    tokio::time::resume();
    assert_code(&server.scrape("prometheus-token").await, "401");
}

#[tokio::test]
async fn an_unresponsive_api_server_is_reported_and_nothing_else() {
    let server = Server::start().await;
    server.api.is_silent.store(true, Ordering::SeqCst);
    let began = std::time::Instant::now();
    let (known, nobody) = tokio::join!(server.scrape("prometheus-token"), server.ask("/metrics", ""));
    assert_code(&known, "503 Service Unavailable");
    assert!(
        known.ends_with("\r\n\r\nthe API server does not answer\n"),
        "{known}"
    );
    assert_code(&nobody, "401");
    assert_code(&server.ask("/healthz", "").await, "200 OK");
    assert!(began.elapsed() < PATIENCE);
}

/// Invalid tokens must not reveal details of the API server, nor flood the log.
#[tokio::test]
async fn the_api_servers_error_is_logged_once_and_not_sent_to_clients() {
    let (written, _here) = Written::of_this_thread();
    let told = || written.count("cannot authorize requests for metrics");
    let server = Server::start().await;
    for round in 1..3 {
        server.api.is_failing.store(true, Ordering::SeqCst);
        for number in 0..3 {
            let answer = server.scrape(&format!("made-up-{round}-{number}")).await;
            assert_code(&answer, "503 Service Unavailable");
            assert!(
                answer.ends_with("\r\n\r\nthe API server does not answer\n"),
                "{answer}"
            );
        }
        assert_eq!(told(), round);
        // A refusal does not reset the log suppression.
        server.api.is_failing.store(false, Ordering::SeqCst);
        assert_code(&server.scrape("eve-token").await, "403");
        server.api.is_failing.store(true, Ordering::SeqCst);
        assert_code(&server.scrape(&format!("last-{round}")).await, "503");
        assert_eq!(told(), round);
        server.api.is_failing.store(false, Ordering::SeqCst);
        assert_code(&server.scrape("prometheus-token").await, "200 OK");
    }
    let log = written.text();
    assert!(log.contains("etcd at 10.1.2.3 is away"), "{log}");
}

#[tokio::test]
async fn http_2_is_not_supported_and_an_endless_head_is_cut_off() {
    let server = Server::start().await;
    let both: [&[u8]; 2] = [b"h2", b"http/1.1"];
    let mut stream = server
        .authority
        .connect(server.address, None, &both)
        .await
        .unwrap();
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(b"http/1.1".as_slice()));
    let mut sent = 0;
    while sent <= 4 * HEAD_BYTES && stream.write_all(&[b'a'; 512]).await.is_ok() {
        sent += 512;
        tokio::task::yield_now().await;
    }
    let mut answer = Vec::new();
    let ended = stream.read_to_end(&mut answer).await;
    assert!(!answer.starts_with(b"HTTP/1.1 200"), "{ended:?}");
}

/// A client that sends nothing, not even a handshake, is disconnected after the deadline.
#[tokio::test]
async fn an_idle_connection_is_closed() {
    let server = Server::start().await;
    let mut silent = tokio::net::TcpStream::connect(server.address).await.unwrap();
    let mut shaken = server
        .authority
        .connect(server.address, None, &PROTOCOLS)
        .await
        .unwrap();
    tokio::time::sleep(Duration::from_millis(40)).await;
    tokio::time::pause();
    tokio::time::advance(PATIENCE).await;
    tokio::time::resume();
    assert_eq!(silent.read(&mut [0; 16]).await.unwrap_or_default(), 0);
    assert_eq!(shaken.read(&mut [0; 16]).await.unwrap_or_default(), 0);
}

/// The first connection after a change of the files gets the new certificate.
#[tokio::test]
async fn a_certificate_that_is_replaced_is_served() {
    let server = Server::start().await;
    let other = Authority::new("other");
    assert!(other.connect(server.address, None, &PROTOCOLS).await.is_err());
    other.files(server.folder.path(), Some(&server.clients));
    tokio::time::pause();
    tokio::time::advance(crate::tls::LOOK_EVERY).await;
    tokio::time::resume();
    let served = async {
        while other.connect(server.address, None, &PROTOCOLS).await.is_err() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), served)
        .await
        .unwrap();
}
