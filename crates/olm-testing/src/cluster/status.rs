//! Refusals, as API servers word them.

use serde_json::{Value, json};

/// An answer other than success.
#[derive(Debug, Clone, PartialEq)]
pub struct Refusal {
    /// HTTP status.
    pub code: u16,
    /// Machine-readable reason.
    pub reason: String,
    /// Text for people.
    pub message: String,
    /// Reasons of `details.causes`.
    pub causes: Vec<String>,
}

impl Refusal {
    /// A refusal without causes.
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

    /// 403 because the namespace is on its way out.
    pub fn terminating(message: &str) -> Self {
        Self {
            causes: vec!["NamespaceTerminating".to_owned()],
            ..Self::forbidden(message)
        }
    }

    /// 409, as of two writers.
    pub fn conflict(message: &str) -> Self {
        Self::new(409, "Conflict", message)
    }

    /// 422.
    pub fn invalid(message: &str) -> Self {
        Self::new(422, "Invalid", message)
    }

    /// 500, which passes.
    pub fn unavailable(message: &str) -> Self {
        Self::new(503, "ServiceUnavailable", message)
    }

    /// The `Status` object.
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
