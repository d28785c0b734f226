//! Exports spans to an OpenTelemetry collector if the environment names one: OTLP over HTTP, as protobuf.
//!
//! Names and meaning of the variables are OpenTelemetry's, except for the default: without an endpoint nothing is exported. The library
//! sends spans in batches on its own thread, and drops those beyond its queue, so no reconcile waits for the export. When the collector
//! fails, that is logged once until it accepts a batch.

use std::{
    collections::HashMap,
    path::Path,
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use async_trait::async_trait;
use bytes::Bytes;
use http::{HeaderName, HeaderValue, Request, Response, Uri};
use http_body_util::{BodyExt, Full, Limited};
use hyper_util::{
    client::legacy::{Client, connect::Connect},
    rt::TokioExecutor,
};
use kube::{Config, client::ConfigExt};
use opentelemetry::trace::TracerProvider;
use opentelemetry_http::{HttpClient, HttpError};
use opentelemetry_otlp::{SpanExporter, WithExportConfig, WithHttpConfig};
use opentelemetry_sdk::{Resource, trace::SdkTracerProvider};
use rustls::pki_types::{CertificateDer, pem::PemObject as _};
use tokio::runtime::Handle;
use tracing::{Subscriber, level_filters::LevelFilter};
use tracing_subscriber::{Layer, filter::Targets, registry::LookupSpan};

use crate::error;

/// Timeout for sending a batch to the collector.
const PATIENCE: Duration = Duration::from_secs(10);
/// Maximum time that the process waits at the end to send its last spans.
const LAST_BATCH: Duration = Duration::from_secs(2);
/// Maximum bytes read of an answer.
const ANSWER_LIMIT: usize = 64 << 10;
/// OTLP's path for spans.
const TRACES: &str = "/v1/traces";

/// Settings from the environment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Settings {
    /// Complete address to which batches are sent.
    endpoint: Uri,
    /// File with trusted CA certificates; empty for those of the system.
    certificate: String,
    /// HTTP headers sent with each batch.
    headers: Headers,
}

/// Headers; `Debug` shows only their number, because they may contain credentials. Values are as in the environment.
#[derive(Clone, PartialEq, Eq)]
struct Headers(HashMap<String, String>);

impl std::fmt::Debug for Headers {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_tuple("Headers").field(&self.0.len()).finish()
    }
}

impl Settings {
    /// Reads the settings with `variable`; `None` if nothing is to be exported.
    ///
    /// # Errors
    /// If a setting is not supported, with the text for the log.
    pub(super) fn of(variable: impl Fn(&str) -> Option<String>) -> Result<Option<Self>, String> {
        let value = |name: &str| variable(name).filter(|value| !value.is_empty());
        // The variable for traces takes precedence over that for all signals.
        let either = |what: &str| {
            let names = [
                format!("OTEL_EXPORTER_OTLP_TRACES_{what}"),
                format!("OTEL_EXPORTER_OTLP_{what}"),
            ];
            names
                .into_iter()
                .find_map(|name| value(&name).map(|value| (name, value)))
        };
        if value("OTEL_SDK_DISABLED").is_some_and(|value| value.eq_ignore_ascii_case("true")) {
            return Ok(None);
        }
        let Some((name, endpoint)) = either("ENDPOINT") else {
            return Ok(None);
        };
        match value("OTEL_TRACES_EXPORTER").as_deref() {
            None | Some("otlp") => {}
            Some("none") => return Ok(None),
            Some(other) => {
                return Err(format!(
                    "unsupported OTEL_TRACES_EXPORTER {other:?}: only otlp is supported"
                ));
            }
        }
        if let Some((name, protocol)) = either("PROTOCOL").filter(|(_, value)| value != "http/protobuf") {
            return Err(format!(
                "unsupported {name} {protocol:?}: only http/protobuf is supported, which collectors accept on port 4318"
            ));
        }
        let whole = if name.contains("TRACES") {
            endpoint.clone()
        } else {
            format!("{}{TRACES}", endpoint.trim_end_matches('/'))
        };
        let uri: Option<Uri> = whole.parse().ok();
        let uri = uri.filter(|uri| {
            matches!(uri.scheme_str(), Some("http" | "https"))
                && uri.host().is_some_and(|host| !host.is_empty())
        });
        let endpoint = uri.ok_or_else(|| {
            format!("invalid {name}: expected a URL such as http://collector.monitoring:4318")
        })?;
        // The library reads the headers itself. It skips invalid ones, and an empty variable for traces overrides the general one.
        let (name, text) = either("HEADERS").unwrap_or_default();
        if let Some(number) = unusable_header(&text) {
            return Err(format!(
                "invalid {name}: entry {number} is not name=value such as authorization=Bearer%20TOKEN"
            ));
        }
        let headers = text.split(',').filter_map(|entry| entry.split_once('='));
        let headers = headers.map(|(name, value)| (name.trim().to_owned(), value.trim().to_owned()));
        Ok(Some(Self {
            endpoint,
            certificate: either("CERTIFICATE").map(|(_, path)| path).unwrap_or_default(),
            headers: Headers(headers.collect()),
        }))
    }
}

/// Running export of spans.
pub(crate) struct Export {
    provider: SdkTracerProvider,
}

impl Export {
    /// Exports spans of `program` as configured in `settings`, with connections that run on `runtime`.
    ///
    /// # Errors
    /// If a setting cannot be used, with the text for the log.
    pub(super) fn start(
        settings: &Settings,
        program: &'static str,
        runtime: &Handle,
    ) -> Result<Self, String> {
        let mut config = Config::new(settings.endpoint.clone());
        config.root_cert = authorities(&settings.certificate)?;
        let https = config
            .rustls_https_connector()
            .map_err(|error| format!("cannot set up TLS to the collector: {error}"))?;
        let sender = Sender {
            runtime: runtime.clone(),
            client: Client::builder(TokioExecutor::new()).build(https),
            // The rest of the address may contain credentials.
            collector: settings.endpoint.host().unwrap_or_default().to_owned(),
            is_failing: AtomicBool::new(false),
        };
        let exporter = SpanExporter::builder()
            .with_http()
            .with_http_client(sender)
            .with_endpoint(settings.endpoint.to_string())
            .with_headers(settings.headers.0.clone())
            .build()
            .map_err(|error| error.to_string())?;
        let resource = Resource::builder();
        // A name set in the environment takes precedence.
        let resource = match std::env::var_os("OTEL_SERVICE_NAME") {
            Some(name) if !name.is_empty() => resource,
            _ => resource.with_service_name(program),
        };
        let provider = SdkTracerProvider::builder()
            .with_batch_exporter(exporter)
            .with_resource(resource.build())
            .build();
        Ok(Self { provider })
    }

    /// Returns the layer that records spans of reconciles and of requests to the API server, with the log lines inside them. Other crates
    /// are excluded.
    pub(super) fn layer<S>(&self) -> impl Layer<S> + Send + Sync + use<S>
    where
        S: Subscriber + for<'a> LookupSpan<'a> + Send + Sync,
    {
        let ours = [
            "olm_runtime",
            "olm_operator",
            "catalog_operator",
            "package_server",
            "olm_registry",
        ];
        let targets = ours.map(|target| (target, LevelFilter::INFO));
        let filter = Targets::new()
            .with_targets(targets)
            .with_target(crate::client::REQUESTS, LevelFilter::DEBUG);
        tracing_opentelemetry::layer()
            .with_tracer(self.provider.tracer("olm"))
            .with_location(false)
            .with_threads(false)
            .with_context_activation(false)
            .with_filter(filter)
    }

    /// Sends the remaining spans, with a short timeout.
    pub(crate) async fn end(self) {
        // Shutdown waits for the exporter's thread, which waits for this runtime.
        let ending = tokio::task::spawn_blocking(move || self.provider.shutdown_with_timeout(LAST_BATCH));
        let _ = tokio::time::timeout(2 * LAST_BATCH, ending).await;
    }
}

/// Returns the number of the first invalid entry of comma-separated `name=value` headers. The entry itself may be a secret.
fn unusable_header(text: &str) -> Option<usize> {
    let is_usable = |entry: &str| {
        entry.trim().is_empty()
            || entry.split_once('=').is_some_and(|(name, value)| {
                let value = value.trim();
                HeaderName::from_bytes(name.trim().as_bytes()).is_ok()
                    && !value.is_empty()
                    && HeaderValue::from_str(value).is_ok()
            })
    };
    let found = text.split(',').position(|entry| !is_usable(entry));
    found.map(|position| position + 1)
}

/// Reads the CA certificates in the file at `path`; `None` if the path is empty.
fn authorities(path: &str) -> Result<Option<Vec<Vec<u8>>>, String> {
    if path.is_empty() {
        return Ok(None);
    }
    let unusable = |error: &dyn std::fmt::Display| {
        format!("cannot read the certificates in {path} (OTEL_EXPORTER_OTLP_CERTIFICATE): {error}")
    };
    let found = CertificateDer::pem_file_iter(Path::new(path)).map_err(|error| unusable(&error))?;
    let found = found
        .map(|found| found.map(|certificate| certificate.to_vec()))
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| unusable(&error))?;
    if found.is_empty() {
        return Err(unusable(&"the file has none"));
    }
    Ok(Some(found))
}

/// Posts batches. The exporter's thread does not belong to the runtime, so the work is spawned there.
struct Sender<C> {
    runtime: Handle,
    client: Client<C, Full<Bytes>>,
    collector: String,
    /// True if a failure of the collector was logged.
    is_failing: AtomicBool,
}

impl<C> std::fmt::Debug for Sender<C> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_tuple("Sender").field(&self.collector).finish()
    }
}

#[async_trait]
impl<C: Connect + Clone + Send + Sync + 'static> HttpClient for Sender<C> {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let client = self.client.clone();
        let sent = self.runtime.spawn(async move {
            let answer = async {
                let (head, body) = client.request(request.map(Full::new)).await?.into_parts();
                let body = Limited::new(body, ANSWER_LIMIT).collect().await?.to_bytes();
                Ok::<_, HttpError>(Response::from_parts(head, body))
            };
            tokio::time::timeout(PATIENCE, answer).await
        });
        let sent: Result<Response<Bytes>, HttpError> = match sent.await {
            Ok(Ok(answer)) => answer,
            Ok(Err(_)) => Err(format!("no answer within {} s", PATIENCE.as_secs()).into()),
            Err(_) => Err("the process is stopping".into()),
        };
        let failure = match &sent {
            Ok(answer) if answer.status().is_success() => None,
            Ok(answer) => Some(format!("the collector answered {}", answer.status())),
            Err(error) => Some(error::with_causes(error.as_ref())),
        };
        let was_failing = self.is_failing.swap(failure.is_some(), Ordering::Relaxed);
        // The library does not log failures.
        if let Some(error) = failure.filter(|_| !was_failing) {
            let collector = &self.collector;
            tracing::warn!(collector, error, "spans lost: cannot send them to the collector");
        }
        sent
    }
}

#[cfg(test)]
mod tests;
