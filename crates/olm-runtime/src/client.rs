//! The connection to the API server.

pub mod bounded;
mod counted;
mod deadline;
mod gated;
mod transport;
mod warnings;

use std::time::Duration;

use http::Uri;
use kube::{Client, Config};
use thiserror::Error;

pub(crate) use self::counted::CountRequests;
pub(crate) use self::gated::gated;
pub use self::warnings::CollectWarnings;
pub(crate) use self::warnings::with_warnings;
use crate::metrics::Metrics;

/// Where spans of requests are told apart from other spans.
pub(crate) const REQUESTS: &str = "olm_runtime::requests";

/// How long the API server may take until it begins to answer a request, of whatever kind, and then for each further piece of an answer
/// that is not a watch. Writes, and reads of rounds, have it as a whole.
pub const REQUEST_DEADLINE: Duration = Duration::from_secs(30);

/// No connection could be configured.
#[derive(Debug, Error)]
pub enum ClientError {
    /// Neither a kubeconfig nor the in-cluster environment is usable.
    #[error("found neither a usable kubeconfig nor a ServiceAccount of a pod: {0}")]
    Config(#[source] kube::config::InferConfigError),
    /// The configured kubeconfig cannot be used.
    #[error("cannot use the kubeconfig `{path}`: {source}")]
    Kubeconfig {
        /// Its path.
        path: String,
        /// The cause.
        #[source]
        source: kube::config::KubeconfigError,
    },
    /// TLS or authentication settings are unusable.
    #[error("cannot set up the connection to the API server: {0}")]
    Client(#[source] kube::Error),
}

/// Connects with the kubeconfig at `path`, or else (also where it is empty, as upstream's programs take it) by `KUBECONFIG`, the in-cluster environment.
///
/// kube's default retry of refused requests is off: a create that is repeated blindly could be made
/// twice, and the driver repeats whole rounds anyway. Answers are bounded, see [`bounded`], requests counted in
/// `metrics`, and warnings about writes collected for the executor. What is not answered is given up ([`REQUEST_DEADLINE`]). What is sent and
/// not acknowledged for as long as `unacknowledged` says is given up as well, and so is a connection whose other end is gone; these two not
/// where a kubeconfig names a proxy, or a program that logs in, as none in a cluster does.
///
/// # Errors
/// When no usable configuration is found; the text says what was tried.
pub async fn connect(
    path: Option<&str>,
    unacknowledged: Option<Duration>,
    metrics: &Metrics,
) -> Result<Client, ClientError> {
    let mut config = match path.filter(|path| !path.is_empty()) {
        Some(path) => {
            let wrap = |source| ClientError::Kubeconfig {
                path: path.to_owned(),
                source,
            };
            let kubeconfig = kube::config::Kubeconfig::read_from(path).map_err(wrap)?;
            Config::from_custom_kubeconfig(kubeconfig, &kube::config::KubeConfigOptions::default())
                .await
                .map_err(wrap)?
        }
        None => Config::infer().await.map_err(ClientError::Config)?,
    };
    config.default_retry = false;
    let builder = transport::build(config, unacknowledged).map_err(ClientError::Client)?;
    let counted = CountRequests(metrics.clone());
    Ok(builder
        .with_layer(&deadline::AnswerInTime)
        .with_layer(&bounded::BoundAnswers)
        .with_layer(&counted)
        .with_layer(&CollectWarnings)
        .build())
}

/// Whether the answer to this request has no end.
pub(crate) fn is_watch(uri: &Uri) -> bool {
    let query = uri.query().unwrap_or_default();
    query
        .split('&')
        .any(|parameter| matches!(parameter, "watch=true" | "watch=1"))
}
