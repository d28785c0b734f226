//! Answers that are none, as clients of Kubernetes understand them.

use olm_api::packages::{GROUP, RESOURCE};
use serde_json::json;

use olm_runtime::review::Attributes;

/// Why there is no other answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiStatus {
    /// Status code of HTTP.
    pub code: u16,
    /// The reason for programs.
    pub reason: &'static str,
    /// The reason for people.
    pub message: String,
    /// Object it is about.
    pub name: Option<String>,
    /// When to try again, in seconds.
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

    /// Something in the request cannot be read.
    pub fn bad_request(message: &str) -> Self {
        Self::new(400, "BadRequest", message)
    }

    /// It is not known who asks.
    pub fn unauthorized() -> Self {
        Self::new(401, "Unauthorized", "Unauthorized")
    }

    /// Whoever asks is not allowed to.
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

    /// There is no such PackageManifest.
    pub fn no_package(name: &str) -> Self {
        Self {
            name: Some(name.to_owned()),
            ..Self::new(404, "NotFound", format!("{RESOURCE}.{GROUP} {name:?} not found"))
        }
    }

    /// There is no such path.
    pub fn no_path() -> Self {
        Self::new(
            404,
            "NotFound",
            "the server could not find the requested resource",
        )
    }

    /// What is served can be read and nothing else.
    pub fn read_only(verb: &str) -> Self {
        let message = format!("{verb} is not supported on resources of kind \"{RESOURCE}.{GROUP}\"");
        Self::new(405, "MethodNotAllowed", message)
    }

    /// The caller takes no form that there is.
    pub fn not_acceptable() -> Self {
        let message = "only the following media types are accepted: application/json, application/yaml";
        Self::new(406, "NotAcceptable", message)
    }

    /// Something else has to answer first, and does not.
    pub fn unavailable(message: impl Into<String>) -> Self {
        Self {
            retry_after: Some(1),
            ..Self::new(503, "ServiceUnavailable", message)
        }
    }

    /// The answer took too long.
    pub fn timeout() -> Self {
        Self {
            retry_after: Some(1),
            ..Self::new(504, "Timeout", "the answer took too long")
        }
    }

    /// A bug.
    pub fn internal() -> Self {
        Self::new(
            500,
            "InternalError",
            "Internal error occurred; the log of the server tells more",
        )
    }

    /// The body of the answer.
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
    fn failures_are_told_as_clients_know_them() {
        let told = |failure: &ApiStatus| serde_json::from_slice::<Value>(&failure.body()).unwrap();
        let missing = told(&ApiStatus::no_package("demo"));
        assert_eq!(
            missing["message"],
            "packagemanifests.packages.operators.coreos.com \"demo\" not found"
        );
        assert_eq!(missing["details"]["name"], "demo");
        // By this word clients know that it is one.
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
    fn who_is_refused_what_is_told() {
        let attributes = Attributes::Resource {
            verb: "get",
            group: GROUP,
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
