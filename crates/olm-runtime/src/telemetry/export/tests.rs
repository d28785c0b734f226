use std::{
    collections::BTreeMap,
    io::Write,
    net::SocketAddr,
    sync::{Arc, Mutex},
};

use hyper_util::client::legacy::connect::HttpConnector;
use kube::client::Body;
use opentelemetry_proto::tonic::{
    collector::trace::v1::ExportTraceServiceRequest,
    common::v1::{KeyValue, any_value},
    trace::v1::{Span, span::SpanKind},
};
use prost::Message;
use rustls::{ServerConfig, pki_types::PrivateKeyDer};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::TcpListener,
};
use tokio_rustls::TlsAcceptor;
use tracing::{Instrument, field};
use tracing_subscriber::{Registry, layer::SubscriberExt};

use super::*;
use crate::{
    client::{REQUESTS, limit_answers},
    metrics::Metrics,
    tls::authority::Authority,
};

/// Received batches, or the heads of their requests.
type Got<T> = Arc<Mutex<Vec<T>>>;

/// Collector on its own address.
struct Collector {
    address: SocketAddr,
    got: Got<ExportTraceServiceRequest>,
    heads: Got<String>,
}

impl Collector {
    /// Answers each batch with `status`, over TLS with `tls`. Without a status it accepts connections and never answers.
    async fn start(status: Option<u16>, tls: Option<TlsAcceptor>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (got, heads) = (Arc::default(), Arc::default());
        let collector = Self {
            address,
            got: Arc::clone(&got),
            heads: Arc::clone(&heads),
        };
        tokio::spawn(async move {
            let mut held = Vec::new();
            while let Ok((stream, _)) = listener.accept().await {
                let got = (Arc::clone(&got), Arc::clone(&heads));
                let Some(status) = status else {
                    held.push(stream);
                    continue;
                };
                match tls.clone() {
                    None => drop(tokio::spawn(serve(stream, status, got))),
                    Some(tls) => drop(tokio::spawn(async move {
                        if let Ok(stream) = tls.accept(stream).await {
                            serve(stream, status, got).await;
                        }
                    })),
                }
            }
        });
        collector
    }

    fn spans(&self) -> Vec<Span> {
        let got = self.got.lock().unwrap();
        let resources = got.iter().flat_map(|request| &request.resource_spans);
        let scopes = resources.flat_map(|resource| &resource.scope_spans);
        scopes.flat_map(|scope| scope.spans.clone()).collect()
    }

    fn variables(&self) -> BTreeMap<&'static str, String> {
        BTreeMap::from([("OTEL_EXPORTER_OTLP_ENDPOINT", format!("http://{}", self.address))])
    }
}

async fn serve(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    status: u16,
    (got, heads): (Got<ExportTraceServiceRequest>, Got<String>),
) {
    let mut bytes = Vec::new();
    loop {
        let end = loop {
            let end = bytes.windows(4).position(|window| window == b"\r\n\r\n");
            match end {
                Some(end) => break end + 4,
                None if stream.read_buf(&mut bytes).await.unwrap_or(0) == 0 => return,
                None => {}
            }
        };
        let head = String::from_utf8_lossy(&bytes[..end]).to_lowercase();
        assert!(head.starts_with("post /v1/traces http/1.1\r\n"), "{head}");
        assert!(
            head.contains("content-type: application/x-protobuf\r\n"),
            "{head}"
        );
        heads
            .lock()
            .unwrap()
            .push(String::from_utf8_lossy(&bytes[..end]).into_owned());
        let length = head.split("content-length: ").nth(1).unwrap_or("0");
        let length: usize = length.lines().next().unwrap().parse().unwrap();
        while bytes.len() < end + length {
            stream.read_buf(&mut bytes).await.unwrap();
        }
        let body = bytes.drain(..end + length).skip(end).collect::<Vec<_>>();
        got.lock()
            .unwrap()
            .push(ExportTraceServiceRequest::decode(&*body).unwrap());
        let answer = format!("HTTP/1.1 {status} Whatever\r\ncontent-length: 0\r\n\r\n");
        stream.write_all(answer.as_bytes()).await.unwrap();
    }
}

fn settings(variables: &BTreeMap<&'static str, String>) -> Result<Option<Settings>, String> {
    Settings::of(|name| variables.get(name).cloned())
}

fn started(variables: &BTreeMap<&'static str, String>) -> Export {
    let settings = settings(variables).unwrap().expect("something is to be exported");
    Export::start(&settings, "olm-operator", &Handle::current()).unwrap()
}

/// Runs a reconcile with one request, and a request outside of it.
#[expect(clippy::disallowed_methods, reason = "what is sent is traced")]
async fn round() {
    let server =
        tower::service_fn(|_: Request<Body>| async { Ok::<_, kube::Error>(Response::new(Body::empty())) });
    let client = kube::client::ClientBuilder::new(server, "default")
        .with_layer(&limit_answers(&Metrics::default()))
        .build();
    let request = |path: &str| Request::patch(path).body(Body::empty()).unwrap();
    let span = tracing::info_span!(
        "round",
        controller = "csv",
        key = "ns/a.v1",
        result = field::Empty,
        otel.status_code = field::Empty
    );
    async {
        tracing::debug!("not told");
        client.send(request("/apis/x/y?fieldManager=olm")).await.unwrap();
    }
    .instrument(span.clone())
    .await;
    span.record("result", "error");
    span.record("otel.status_code", "ERROR");
    client.send(request("/outside")).await.unwrap();
}

/// Returns the attributes as text.
fn told(attributes: &[KeyValue]) -> BTreeMap<&str, String> {
    let text = |attribute: &KeyValue| match attribute.value.as_ref()?.value.as_ref()? {
        any_value::Value::StringValue(text) => Some(text.clone()),
        _ => None,
    };
    attributes
        .iter()
        .filter_map(|attribute| Some((attribute.key.as_str(), text(attribute)?)))
        .collect()
}

#[tokio::test]
async fn a_reconcile_and_its_requests_are_one_trace() {
    let collector = Collector::start(Some(200), None).await;
    let export = started(&collector.variables());
    let subscriber = Registry::default().with(export.layer());
    let _here = tracing::subscriber::set_default(subscriber);
    round().await;
    export.end().await;
    let spans = collector.spans();
    let [request, round] = spans.as_slice() else {
        panic!("not two spans: {spans:#?}");
    };
    assert_eq!((round.name.as_str(), request.name.as_str()), ("round", "request"));
    assert_eq!(request.trace_id, round.trace_id);
    assert_eq!(request.parent_span_id, round.span_id);
    assert_eq!(request.kind(), SpanKind::Client);
    let of_round = told(&round.attributes);
    for (name, value) in [("controller", "csv"), ("key", "ns/a.v1"), ("result", "error")] {
        assert_eq!(of_round[name], value);
    }
    assert_eq!(round.status.as_ref().unwrap().code, 2, "error");
    let of_request = told(&request.attributes);
    for (name, value) in [
        ("http.request.method", "PATCH"),
        ("url.path", "/apis/x/y"),
        ("http.response.status_code", "200"),
    ] {
        assert_eq!(of_request[name], value);
    }
    assert!(round.events.is_empty(), "{:?}", round.events);
    let got = collector.got.lock().unwrap();
    let resource = got[0].resource_spans[0].resource.as_ref().unwrap();
    assert_eq!(told(&resource.attributes)["service.name"], "olm-operator");
}

#[tokio::test]
async fn a_collector_over_tls_is_believed_by_the_given_authority() {
    let (authority, stranger) = (Authority::new("ours"), Authority::new("another"));
    let (certificate, key) = authority.sign("collector", &[]);
    let certificate = CertificateDer::pem_slice_iter(certificate.as_bytes())
        .flatten()
        .collect();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let tls = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(
            certificate,
            PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap(),
        )
        .unwrap();
    let collector = Collector::start(Some(200), Some(TlsAcceptor::from(Arc::new(tls)))).await;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ca.crt");
    for (believed, spans) in [(&stranger, 0), (&authority, 2)] {
        std::fs::write(&path, &believed.pem).unwrap();
        let variables = BTreeMap::from([
            (
                "OTEL_EXPORTER_OTLP_ENDPOINT",
                format!("https://localhost:{}/", collector.address.port()),
            ),
            ("OTEL_EXPORTER_OTLP_CERTIFICATE", path.display().to_string()),
        ]);
        let export = started(&variables);
        let subscriber = Registry::default().with(export.layer());
        let _here = tracing::subscriber::set_default(subscriber);
        round().await;
        export.end().await;
        assert_eq!(collector.spans().len(), spans);
    }
    for content in ["", "nonsense"] {
        std::fs::File::create(&path)
            .unwrap()
            .write_all(content.as_bytes())
            .unwrap();
        let error = authorities(path.to_str().unwrap()).unwrap_err();
        assert!(
            error.contains("ca.crt (OTEL_EXPORTER_OTLP_CERTIFICATE)"),
            "{error}"
        );
    }
    assert!(
        authorities("/nowhere/ca.crt")
            .unwrap_err()
            .contains("/nowhere/ca.crt")
    );
}

/// Variable with the endpoint for [`the_headers_of_the_environment_go_with_each_batch`], which runs in a child process with its own
/// environment.
const HEADERS_GO_TO: &str = "OLM_TEST_HEADERS_GO_TO";

#[tokio::test]
async fn the_headers_of_the_environment_go_with_each_batch() {
    if let Ok(endpoint) = std::env::var(HEADERS_GO_TO) {
        let variable = |name: &str| match name {
            "OTEL_EXPORTER_OTLP_ENDPOINT" => Some(endpoint.clone()),
            name => std::env::var(name).ok(),
        };
        let settings = Settings::of(variable).unwrap().unwrap();
        let export = Export::start(&settings, "olm-operator", &Handle::current()).unwrap();
        let subscriber = Registry::default().with(export.layer());
        let _here = tracing::subscriber::set_default(subscriber);
        round().await;
        export.end().await;
        return;
    }
    // An empty variable counts as unset.
    for of_traces in [None, Some(""), Some("x-team=b")] {
        let collector = Collector::start(Some(200), None).await;
        let this = std::env::current_exe().unwrap();
        let mut child = tokio::process::Command::new(this);
        child.args([
            "--exact",
            "telemetry::export::tests::the_headers_of_the_environment_go_with_each_batch",
        ]);
        child.env(HEADERS_GO_TO, format!("http://{}", collector.address));
        child.env(
            "OTEL_EXPORTER_OTLP_HEADERS",
            "authorization=Bearer%20t0ken, x-team = a\n",
        );
        if let Some(value) = of_traces {
            child.env("OTEL_EXPORTER_OTLP_TRACES_HEADERS", value);
        }
        let ended = child.output().await.unwrap();
        assert!(ended.status.success(), "{ended:?}");
        let heads = collector.heads.lock().unwrap();
        assert!(!heads.is_empty());
        let own = of_traces.is_some_and(|value| !value.is_empty());
        for head in heads.iter() {
            let has_token = head.contains("\r\nauthorization: Bearer t0ken\r\n");
            assert_eq!(has_token, !own, "{of_traces:?}: {head}");
            let team = if own {
                "\r\nx-team: b\r\n"
            } else {
                "\r\nx-team: a\r\n"
            };
            assert!(head.contains(team), "{of_traces:?}: {head}");
        }
    }
}

#[test]
fn headers_are_as_in_the_environment_or_are_reported() {
    let of = |name: &'static str, value: &str| {
        let endpoint = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://c".to_owned());
        settings(&BTreeMap::from([endpoint, (name, value.to_owned())]))
    };
    let headers = "OTEL_EXPORTER_OTLP_HEADERS";
    for text in ["a=b", "authorization=Basic%20YQ==,x-b = c ,", " a=b\n"] {
        assert!(of(headers, text).is_ok(), "{text}");
    }
    for (text, entry) in [
        ("s3cret", 1),
        ("a=b,Bearer s3cret=x", 2),
        ("a=", 1),
        ("a=b,,c=\u{1}", 3),
        ("=b", 1),
    ] {
        let error = of(headers, text).unwrap_err();
        let wanted = format!("invalid {headers}: entry {entry} is not name=value");
        assert!(error.starts_with(&wanted) && !error.contains("s3cret"), "{error}");
    }
    let secret = format!("{:?}", of(headers, "authorization=s3cret").unwrap());
    assert!(
        secret.contains("Headers(1)") && !secret.contains("s3cret"),
        "{secret}"
    );
    let own = of("OTEL_EXPORTER_OTLP_TRACES_HEADERS", "a").unwrap_err();
    assert!(
        own.starts_with("invalid OTEL_EXPORTER_OTLP_TRACES_HEADERS: entry 1"),
        "{own}"
    );
}

fn sender(collector: &Collector) -> Sender<HttpConnector> {
    Sender {
        runtime: Handle::current(),
        client: Client::builder(TokioExecutor::new()).build_http(),
        collector: format!("http://{}{TRACES}", collector.address),
        is_failing: AtomicBool::new(false),
    }
}

/// The exporter's thread logs to the process's subscriber, which a test does not have. So the sender is tested directly.
#[tokio::test]
async fn a_collector_that_refuses_is_reported_once_until_it_accepts_something() {
    let refusing = Collector::start(Some(503), None).await;
    let batch = |sender: &Sender<_>| {
        let request = Request::post(&sender.collector).header("content-type", "application/x-protobuf");
        request.body(Bytes::new()).unwrap()
    };
    let refused = sender(&refusing);
    let answer = refused.send_bytes(batch(&refused)).await.unwrap();
    assert_eq!(answer.status(), 503);
    assert!(refused.is_failing.load(Ordering::Relaxed));
    let taking = Collector::start(Some(200), None).await;
    let taken = sender(&taking);
    taken.is_failing.store(true, Ordering::Relaxed);
    taken.send_bytes(batch(&taken)).await.unwrap();
    assert!(!taken.is_failing.load(Ordering::Relaxed));
}

#[tokio::test]
async fn an_unresponsive_collector_delays_neither_reconciles_nor_the_exit() {
    let silent = Collector::start(None, None).await;
    let export = started(&silent.variables());
    let subscriber = Registry::default().with(export.layer());
    let _here = tracing::subscriber::set_default(subscriber);
    let began = std::time::Instant::now();
    for _ in 0..10_000 {
        tracing::info_span!(target: REQUESTS, "round").in_scope(|| ());
    }
    export.end().await;
    assert!(began.elapsed() < 6 * LAST_BATCH, "{:?}", began.elapsed());
}

#[test]
fn the_environment_says_what_is_exported() {
    let of = |variables: &[(&'static str, &str)]| {
        let variables = variables.iter().map(|(name, value)| (*name, (*value).to_owned()));
        settings(&variables.collect())
    };
    let endpoint = |variables: &[(&'static str, &str)]| {
        of(variables)
            .unwrap()
            .map(|settings| settings.endpoint.to_string())
    };
    let all = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://collector:4318");
    let traces = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "https://collector/own");
    assert_eq!(endpoint(&[]), None);
    assert_eq!(endpoint(&[("OTEL_EXPORTER_OTLP_ENDPOINT", "")]), None);
    assert_eq!(endpoint(&[all]).unwrap(), "http://collector:4318/v1/traces");
    assert_eq!(
        endpoint(&[(all.0, "http://collector/a/")]).unwrap(),
        "http://collector/a/v1/traces"
    );
    assert_eq!(endpoint(&[all, traces]).unwrap(), "https://collector/own");
    assert_eq!(endpoint(&[all, ("OTEL_SDK_DISABLED", "TRUE")]), None);
    assert_eq!(endpoint(&[all, ("OTEL_TRACES_EXPORTER", "none")]), None);
    assert!(endpoint(&[all, ("OTEL_TRACES_EXPORTER", "otlp")]).is_some());
    assert!(endpoint(&[all, ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf")]).is_some());
    for (variables, told) in [
        (
            [all, ("OTEL_TRACES_EXPORTER", "zipkin")],
            "unsupported OTEL_TRACES_EXPORTER \"zipkin\"",
        ),
        ([all, ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")], "on port 4318"),
        ([(all.0, "collector:4318"), traces], ""),
        (
            [(all.0, "collector:4318"), ("X", "")],
            "invalid OTEL_EXPORTER_OTLP_ENDPOINT: expected a URL",
        ),
        ([(all.0, "ftp://collector"), ("X", "")], ": expected a URL"),
        ([(all.0, "http://"), ("X", "")], ": expected a URL"),
    ] {
        let error = of(&variables).err().unwrap_or_default();
        assert!(
            error.contains(told) && error.is_empty() == told.is_empty(),
            "{variables:?}: {error}"
        );
    }
}
