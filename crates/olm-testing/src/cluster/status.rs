//! Error responses as API servers send them.

use serde_json::{Value, json};

/// An error response.
#[derive(Debug, Clone, PartialEq)]
pub struct Refusal {
    /// HTTP status code.
    pub code: u16,
    /// Machine-readable reason.
    pub reason: String,
    /// Text for users.
    pub message: String,
    /// Reasons of `details.causes`.
    pub causes: Vec<String>,
}

impl Refusal {
    /// Creates a refusal without causes.
    pub fn new(code: u16, reason: &str, message: &str) -> Self {
        Self {
            code,
            reason: reason.to_owned(),
            message: message.to_owned(),
            causes: Vec::new(),
        }
    }

    /// 403, as from authorization or admission.
    pub fn forbidden(message: &str) -> Self {
        Self::new(403, "Forbidden", message)
    }

    /// 403 because the namespace is being deleted.
    pub fn terminating(message: &str) -> Self {
        Self {
            causes: vec!["NamespaceTerminating".to_owned()],
            ..Self::forbidden(message)
        }
    }

    /// 409, as for two concurrent writers.
    pub fn conflict(message: &str) -> Self {
        Self::new(409, "Conflict", message)
    }

    /// 422, for an invalid object.
    pub fn invalid(message: &str) -> Self {
        Self::new(422, "Invalid", message)
    }

    /// 503, a temporary failure.
    pub fn unavailable(message: &str) -> Self {
        Self::new(503, "ServiceUnavailable", message)
    }

    /// Returns the `Status` object.
    pub(super) fn body(&self) -> Value {
        let causes: Vec<Value> = self
            .causes
            .iter()
            .map(|reason| json!({"reason": reason, "message": ""}))
            .collect();
        json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": self.message,
            "reason": self.reason, "code": self.code, "details": {"causes": causes}})
    }
}

pub(super) fn not_found(message: &str) -> Refusal {
    Refusal::new(404, "NotFound", message)
}

pub(super) fn bad_request(message: &str) -> Refusal {
    Refusal::new(400, "BadRequest", message)
}

pub(super) fn expired(message: &str) -> Refusal {
    Refusal::new(410, "Expired", message)
}
