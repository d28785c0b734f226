//! What hosts answer when it is not what was asked for, in our classes.

use go_compat::error_chain;
use http::StatusCode;

use super::wire::Answer;
use crate::digest::Digest;
use crate::error::{Attempt, PullErrorClass};
use crate::limits::{ERROR_BYTES, ERROR_CHARACTERS};
use crate::registry_config::Host;

/// Name of the header in which registries tell a manifest's digest.
const CONTENT_DIGEST: &str = "docker-content-digest";

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
pub(super) async fn accept(response: Answer) -> Result<Answer, Failure> {
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
async fn error_text(response: Answer) -> Option<String> {
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
    let body = response.beginning(ERROR_BYTES).await;
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
        .take(ERROR_CHARACTERS)
        .collect();
    (!text.is_empty()).then_some(text)
}

pub(super) fn told_digest(response: &Answer) -> Option<Digest> {
    response
        .headers()
        .get(CONTENT_DIGEST)?
        .to_str()
        .ok()?
        .parse()
        .ok()
}

pub(super) fn too_large(limit: u64) -> Failure {
    Failure::new(
        PullErrorClass::TooLarge,
        format!("larger than the allowed {limit} bytes"),
    )
}

/// Somebody takes too long: a limit of time, not of the network.
pub(super) fn too_slow(detail: String) -> Failure {
    Failure::new(PullErrorClass::Unreachable, detail)
}

pub(super) fn mismatch(expected: &Digest, actual: &Digest) -> Failure {
    Failure::new(
        PullErrorClass::DigestMismatch,
        format!("content of {expected} has digest {actual}"),
    )
}

/// A blob goes on after the size that its manifest names.
pub(super) fn longer(expected: &Digest, size: u64) -> Failure {
    Failure::new(
        PullErrorClass::DigestMismatch,
        format!("content of {expected} is longer than the {size} bytes that the manifest names"),
    )
}

/// A blob is what its digest says and ends before the size that its manifest names.
pub(super) fn shorter(expected: &Digest, received: u64, size: u64) -> Failure {
    Failure::new(
        PullErrorClass::DigestMismatch,
        format!("content of {expected} has {received} bytes, the manifest names {size}"),
    )
}

pub(super) fn transport_failure(error: &reqwest::Error) -> Failure {
    Failure::new(PullErrorClass::Unreachable, error_chain(error))
}

pub(super) fn malformed(detail: String) -> Failure {
    Failure::new(PullErrorClass::Malformed, detail)
}
