//! The connection to the API server.

mod answers;
mod transport;
mod warnings;

use std::time::Duration;

use http::Uri;
use kube::{Client, Config};
use thiserror::Error;

pub(crate) use self::answers::limit_answers;
pub use self::warnings::collect_warnings;
pub(crate) use self::warnings::with_warnings;
use crate::error::with_causes;
use crate::metrics::Metrics;

/// Target of request spans, which distinguishes them from other spans.
pub(crate) const REQUESTS: &str = "olm_runtime::requests";

/// Deadline for the API server to start its answer to any request. Except for watches, it also applies to each further chunk. Writes and
/// reads of reconciles must finish within it.
pub const REQUEST_DEADLINE: Duration = Duration::from_secs(30);

/// Reason why no connection could be configured.
#[derive(Debug, Error)]
#[error("{0}")]
pub struct ClientError(String);

impl ClientError {
    fn new(what: &str, source: &(dyn std::error::Error + 'static)) -> Self {
        Self(format!("{what}: {}", with_causes(source)))
    }
}

/// Connects with the kubeconfig at `path`. Without one it uses `KUBECONFIG` or the in-cluster environment. An empty path counts as none,
/// as in upstream's programs.
///
/// kube's default retry of refused requests is off: a create that is repeated blindly could run twice, and the driver retries whole
/// reconciles anyway. Answers have a maximum size, except for watches, and requests are counted in `metrics`. Warnings about writes are collected
/// for the executor. Requests without an answer time out ([`REQUEST_DEADLINE`]). A connection is closed if its other end is gone. This does
/// not apply if the kubeconfig names a proxy or a login program; inside a cluster neither occurs.
///
/// # Errors
/// If no usable configuration is found; the text names what was tried.
pub async fn connect(path: Option<&str>, metrics: &Metrics) -> Result<Client, ClientError> {
    let mut config = match path.filter(|path| !path.is_empty()) {
        Some(path) => {
            let what = format!("cannot use the kubeconfig `{path}`");
            let wrap = |error: kube::config::KubeconfigError| ClientError::new(&what, &error);
            let kubeconfig = kube::config::Kubeconfig::read_from(path).map_err(wrap)?;
            Config::from_custom_kubeconfig(kubeconfig, &kube::config::KubeConfigOptions::default())
                .await
                .map_err(wrap)?
        }
        None => Config::infer().await.map_err(|error| {
            let what = "found neither a usable kubeconfig nor a ServiceAccount of a pod";
            ClientError::new(what, &error)
        })?,
    };
    config.default_retry = false;
    let builder = transport::build(config)
        .map_err(|error| ClientError::new("cannot set up the connection to the API server", &error))?;
    Ok(builder
        .with_layer(&limit_answers(metrics))
        .with_layer(&collect_warnings())
        .build())
}

/// True if the answer to this request has no end.
pub(crate) fn is_watch(uri: &Uri) -> bool {
    let query = uri.query().unwrap_or_default();
    query
        .split('&')
        .any(|parameter| matches!(parameter, "watch=true" | "watch=1"))
}
