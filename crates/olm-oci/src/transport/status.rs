//! A host's status and headers, in our classes.

use http::StatusCode;

use super::failure::Failure;
use super::wire::Response;
use crate::digest::Digest;
use crate::error::PullErrorClass;
use crate::limits::{ERROR_BYTES, ERROR_CHARACTERS};

/// Header in which registries report a manifest's digest.
const CONTENT_DIGEST: &str = "docker-content-digest";

/// Returns whether other credentials might change the answer.
pub(super) fn is_refusal(status: StatusCode) -> bool {
    status == StatusCode::UNAUTHORIZED || status == StatusCode::FORBIDDEN
}

/// Returns the response if it is a success, else the failure from its status and text.
pub(super) async fn accept(response: Response) -> Result<Response, Failure> {
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
        _ => (PullErrorClass::Malformed, "unexpected response"),
    };
    let mut detail = format!("{word} (HTTP {})", status.as_u16());
    if let Some(text) = error_text(response).await {
        detail.push_str(": ");
        detail.push_str(&text);
    }
    Err(Failure::new(class, detail))
}

/// Returns the messages of a registry's error body, shortened. Bodies of any other form (proxies send HTML)
/// are ignored.
async fn error_text(response: Response) -> Option<String> {
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

/// Returns the digest in a response's header.
pub(super) fn announced_digest(response: &Response) -> Option<Digest> {
    response
        .headers()
        .get(CONTENT_DIGEST)?
        .to_str()
        .ok()?
        .parse()
        .ok()
}
