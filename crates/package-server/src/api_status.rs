//! Error responses as `metav1.Status`.

use olm_api::packages::{GROUP, RESOURCE};
use serde_json::json;

use olm_runtime::review::Attributes;

/// An error that is returned instead of the requested object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiStatus {
    /// HTTP status code.
    pub code: u16,
    /// Machine-readable reason.
    pub reason: &'static str,
    /// Human-readable message.
    pub message: String,
    /// Name of the object concerned.
    pub name: Option<String>,
    /// Seconds after which to retry.
    pub retry_after: Option<u32>,
}

impl ApiStatus {
    fn new(code: u16, reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            code,
            reason,
            message: message.into(),
            name: None,
            retry_after: None,
        }
    }

    /// A part of the request cannot be parsed.
    pub fn bad_request(message: &str) -> Self {
        Self::new(400, "BadRequest", message)
    }

    /// The caller is not authenticated.
    pub fn unauthorized() -> Self {
        Self::new(401, "Unauthorized", "Unauthorized")
    }

    /// The caller is not authorized.
    pub fn forbidden(user: &str, attributes: &Attributes, why: &str) -> Self {
        let (about, message) = match attributes {
            Attributes::Path { verb, path } => {
                (path.clone(), format!("User {user:?} cannot {verb} path {path:?}"))
            }
            Attributes::Resource {
                verb,
                group,
                version: _,
                namespace,
                resource,
                subresource,
                name,
            } => {
                let what = match subresource.as_str() {
                    "" => resource.clone(),
                    subresource => format!("{resource}/{subresource}"),
                };
                let scope = match namespace.as_str() {
                    "" => "at the cluster scope".to_owned(),
                    namespace => format!("in the namespace {namespace:?}"),
                };
                let about = match name.as_str() {
                    "" => format!("{resource}.{group}"),
                    name => format!("{resource}.{group} {name:?}"),
                };
                let message =
                    format!("User {user:?} cannot {verb} resource {what:?} in API group {group:?} {scope}");
                (about, message)
            }
        };
        let why = if why.is_empty() {
            String::new()
        } else {
            format!(": {why}")
        };
        Self::new(403, "Forbidden", format!("{about} is forbidden: {message}{why}"))
    }

    /// The PackageManifest does not exist.
    pub fn no_package(name: &str) -> Self {
        Self {
            name: Some(name.to_owned()),
            ..Self::new(404, "NotFound", format!("{RESOURCE}.{GROUP} {name:?} not found"))
        }
    }

    /// The path does not exist.
    pub fn no_path() -> Self {
        Self::new(
            404,
            "NotFound",
            "the server could not find the requested resource",
        )
    }

    /// The API is read only.
    pub fn read_only(verb: &str) -> Self {
        let message = format!("{verb} is not supported on resources of kind \"{RESOURCE}.{GROUP}\"");
        Self::new(405, "MethodNotAllowed", message)
    }

    /// The caller accepts none of the available media types.
    pub fn not_acceptable() -> Self {
        let message = "only the following media types are accepted: application/json, application/yaml";
        Self::new(406, "NotAcceptable", message)
    }

    /// A component that is needed first does not answer.
    pub fn unavailable(message: impl Into<String>) -> Self {
        Self {
            retry_after: Some(1),
            ..Self::new(503, "ServiceUnavailable", message)
        }
    }

    /// The response took too long.
    pub fn timeout() -> Self {
        Self {
            retry_after: Some(1),
            ..Self::new(504, "Timeout", "the request timed out")
        }
    }

    /// A bug.
    pub fn internal() -> Self {
        Self::new(
            500,
            "InternalError",
            "Internal error occurred; see the server's log",
        )
    }

    /// Returns the body of the response.
    pub fn body(&self) -> Vec<u8> {
        let mut details = serde_json::Map::new();
        if let Some(name) = &self.name {
            details.insert("name".to_owned(), json!(name));
            details.insert("group".to_owned(), json!(GROUP));
            details.insert("kind".to_owned(), json!(RESOURCE));
        }
        if let Some(seconds) = self.retry_after {
            details.insert("retryAfterSeconds".to_owned(), json!(seconds));
        }
        let mut status = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": self.message, "reason": self.reason, "code": self.code,
        });
        if !details.is_empty() {
            status["details"] = json!(details);
        }
        status.to_string().into_bytes()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    #[test]
    fn failures_are_reported_as_clients_know_them() {
        let told = |failure: &ApiStatus| serde_json::from_slice::<Value>(&failure.body()).unwrap();
        let missing = told(&ApiStatus::no_package("demo"));
        assert_eq!(
            missing["message"],
            "packagemanifests.packages.operators.coreos.com \"demo\" not found"
        );
        assert_eq!(missing["details"]["name"], "demo");
        // Clients recognise a Status by this field.
        assert_eq!(
            (&missing["status"], &missing["kind"]),
            (&json!("Failure"), &json!("Status"))
        );
        assert_eq!(
            (&missing["code"], &missing["reason"]),
            (&json!(404), &json!("NotFound"))
        );
        let later = told(&ApiStatus::unavailable("later"));
        assert_eq!(later["details"]["retryAfterSeconds"], 1);
        assert!(told(&ApiStatus::unauthorized())["details"].is_null());
    }

    #[test]
    fn a_refusal_names_the_user_and_the_request() {
        let attributes = Attributes::Resource {
            verb: "get".into(),
            group: GROUP.into(),
            version: "v1",
            namespace: "ns".to_owned(),
            resource: RESOURCE.to_owned(),
            subresource: "icon".to_owned(),
            name: "demo".to_owned(),
        };
        assert_eq!(
            ApiStatus::forbidden("eve", &attributes, "no rule").message,
            "packagemanifests.packages.operators.coreos.com \"demo\" is forbidden: User \"eve\" cannot get resource \
             \"packagemanifests/icon\" in API group \"packages.operators.coreos.com\" in the namespace \"ns\": no rule"
        );
        let path = Attributes::Path {
            verb: "get".to_owned(),
            path: "/metrics".to_owned(),
        };
        assert_eq!(
            ApiStatus::forbidden("eve", &path, "").message,
            "/metrics is forbidden: User \"eve\" cannot get path \"/metrics\""
        );
    }
}
