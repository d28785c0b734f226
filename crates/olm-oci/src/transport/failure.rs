//! What hosts answer when it is not what was asked for, in our classes.

use http::StatusCode;

use crate::digest::Digest;
use crate::error::{Attempt, PullErrorClass};
use crate::registry_config::Host;

/// Name of the header in which registries tell a manifest's digest.
const CONTENT_DIGEST: &str = "docker-content-digest";
/// How much of a registry's error text is worth repeating.
const MAX_ERROR_TEXT: usize = 200;

/// What went wrong at one host.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) class: PullErrorClass,
    pub(crate) detail: String,
}

impl Failure {
    pub(crate) fn new(class: PullErrorClass, detail: impl Into<String>) -> Self {
        Self {
            class,
            detail: detail.into(),
        }
    }

    pub(crate) fn at(self, host: &Host) -> Attempt {
        Attempt {
            host: host.origin(),
            class: self.class,
            detail: self.detail,
        }
    }
}

/// Whether other credentials might change the answer.
pub(super) fn is_refusal(status: StatusCode) -> bool {
    status == StatusCode::UNAUTHORIZED || status == StatusCode::FORBIDDEN
}

/// The response if it is a success, else what its status and text say.
pub(super) async fn accept_response(response: reqwest::Response) -> Result<reqwest::Response, Failure> {
    let status = response.status();
    if status.is_success() {
        return Ok(response);
    }
    let (class, word) = match status {
        StatusCode::NOT_FOUND => (PullErrorClass::NotFound, "not found"),
        StatusCode::UNAUTHORIZED => (PullErrorClass::Unauthorized, "unauthorised"),
        StatusCode::FORBIDDEN => (PullErrorClass::Unauthorized, "access denied"),
        StatusCode::TOO_MANY_REQUESTS => (PullErrorClass::Unreachable, "too many requests"),
        status if status.is_server_error() => (PullErrorClass::Unreachable, "server error"),
        _ => (PullErrorClass::Malformed, "unexpected answer"),
    };
    let mut detail = format!("{word} (HTTP {})", status.as_u16());
    if let Some(text) = error_text(response).await {
        detail.push_str(": ");
        detail.push_str(&text);
    }
    Err(Failure::new(class, detail))
}

/// The messages of a registry's error body, shortened. Bodies of any other form (proxies send HTML) are left out.
async fn error_text(mut response: reqwest::Response) -> Option<String> {
    #[derive(serde::Deserialize)]
    struct Body {
        errors: Vec<Entry>,
    }
    #[derive(serde::Deserialize)]
    struct Entry {
        #[serde(default)]
        code: String,
        #[serde(default)]
        message: String,
    }
    let mut body = Vec::new();
    while body.len() < 16 * 1024 {
        match response.chunk().await {
            Ok(Some(chunk)) => body.extend_from_slice(&chunk),
            _ => break,
        }
    }
    let body: Body = serde_json::from_slice(&body).ok()?;
    let texts = body
        .errors
        .iter()
        .map(|entry| match (entry.message.as_str(), entry.code.as_str()) {
            ("", code) => code.to_owned(),
            (message, _) => message.to_owned(),
        });
    let text: String = texts
        .collect::<Vec<_>>()
        .join(", ")
        .chars()
        .take(MAX_ERROR_TEXT)
        .collect();
    (!text.is_empty()).then_some(text)
}

pub(super) fn told_digest(response: &reqwest::Response) -> Option<Digest> {
    response
        .headers()
        .get(CONTENT_DIGEST)?
        .to_str()
        .ok()?
        .parse()
        .ok()
}

pub(super) fn check_length(response: &reqwest::Response, limit: u64) -> Result<(), Failure> {
    match response.content_length() {
        Some(length) if length > limit => Err(too_large(limit)),
        _ => Ok(()),
    }
}

pub(super) fn too_large(limit: u64) -> Failure {
    Failure::new(
        PullErrorClass::TooLarge,
        format!("larger than the allowed {limit} bytes"),
    )
}

pub(super) fn mismatch(expected: &Digest, actual: &Digest) -> Failure {
    Failure::new(
        PullErrorClass::DigestMismatch,
        format!("content of {expected} has digest {actual}"),
    )
}

pub(super) fn transport_failure(error: &reqwest::Error) -> Failure {
    Failure::new(PullErrorClass::Unreachable, told_chain(error))
}

pub(crate) fn registry_failure(error: &oci_client::errors::OciDistributionError) -> Failure {
    use oci_client::errors::OciDistributionError as E;
    let class = match error {
        E::AuthenticationFailure(_) | E::UnauthorizedError { .. } => PullErrorClass::Unauthorized,
        E::ServerError { code: 401 | 403, .. } => PullErrorClass::Unauthorized,
        E::ServerError { code: 404, .. } | E::ImageManifestNotFoundError(_) => PullErrorClass::NotFound,
        E::RequestError(error) if error.status().is_some_and(is_refusal) => PullErrorClass::Unauthorized,
        E::RequestError(_) | E::IoError(_) | E::ServerError { .. } => PullErrorClass::Unreachable,
        E::RegistryError { envelope, .. } => envelope_class(envelope),
        _ => PullErrorClass::Malformed,
    };
    let detail = match error {
        E::AuthenticationFailure(_) => "the registry's token service refused the credentials".to_owned(),
        error => told_chain(error),
    };
    Failure::new(class, detail)
}

fn envelope_class(envelope: &oci_client::errors::OciEnvelope) -> PullErrorClass {
    use oci_client::errors::OciErrorCode as Code;
    match envelope.errors.first().map(|error| &error.code) {
        Some(Code::Unauthorized | Code::Denied) => PullErrorClass::Unauthorized,
        Some(Code::NotFound | Code::NameUnknown | Code::ManifestUnknown | Code::BlobUnknown) => {
            PullErrorClass::NotFound
        }
        Some(Code::Toomanyrequests) => PullErrorClass::Unreachable,
        _ => PullErrorClass::Malformed,
    }
}

/// An error with its causes in one line. HTTP libraries tell the interesting part ("connection refused") last.
pub(super) fn told_chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = error.to_string();
        if !text.ends_with(&more) {
            text.push_str(": ");
            text.push_str(&more);
        }
        cause = error.source();
    }
    text
}

pub(super) fn malformed(detail: String) -> Failure {
    Failure::new(PullErrorClass::Malformed, detail)
}
