//! Parsing of HTTP requests.

use std::collections::BTreeMap;

use bytes::Bytes;
use http::Method;
use serde_json::Value;

use super::kinds::Kind;
use super::state::State;
use super::status::{Refusal, bad_request, not_found};

/// Format of a patch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PatchType {
    /// RFC 7386.
    Merge,
    /// RFC 6902.
    Json,
    /// Server-side apply.
    Apply,
}

/// Operation of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verb {
    /// Read one object.
    Get,
    /// Read many objects.
    List,
    /// Watch changes.
    Watch,
    /// Create one object.
    Create,
    /// Replace one object.
    Update,
    /// Patch one object.
    Patch(PatchType),
    /// Delete one object.
    Delete,
    /// Delete many objects.
    DeleteCollection,
}

impl Verb {
    /// True for requests that change objects.
    pub fn writes(self) -> bool {
        !matches!(self, Self::Get | Self::List | Self::Watch)
    }

    /// Returns the verb as in rules and texts.
    pub fn text(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::List => "list",
            Self::Watch => "watch",
            Self::Create => "create",
            Self::Update => "update",
            Self::Patch(PatchType::Apply) => "apply",
            Self::Patch(_) => "patch",
            Self::Delete => "delete",
            Self::DeleteCollection => "deletecollection",
        }
    }
}

/// A request about objects.
#[derive(Debug, Clone)]
pub struct Request {
    /// Operation.
    pub verb: Verb,
    /// Kind of the objects.
    pub kind: Kind,
    /// API version of the answer.
    pub version: String,
    /// Namespace; empty for all namespaces and for cluster-scoped kinds.
    pub namespace: String,
    /// Name; empty for collections.
    pub name: String,
    /// Subresource; empty for the object itself.
    pub subresource: String,
    /// User whose permissions count: empty for the client itself, else the impersonated user.
    pub user: String,
    /// Request body; null if there is none.
    pub body: Value,
    pub(super) params: BTreeMap<String, String>,
    /// True if only metadata is requested.
    pub(super) metadata_only: bool,
}

impl Request {
    /// Returns a query parameter; empty if it is missing.
    pub fn param(&self, name: &str) -> &str {
        self.params.get(name).map_or("", String::as_str)
    }

    /// True if the request selects an object of the right kind.
    pub(super) fn selects(&self, object: &Value) -> bool {
        let namespace = object["metadata"]["namespace"].as_str().unwrap_or_default();
        (self.namespace.is_empty() || self.namespace == namespace)
            && super::selector::labels_fit(self.param("labelSelector"), object)
            && super::selector::fields_fit(self.param("fieldSelector"), object)
    }

    /// Returns the `apiVersion` of answers.
    pub(super) fn api_version(&self) -> String {
        if self.kind.group.is_empty() {
            self.version.clone()
        } else {
            format!("{}/{}", self.kind.group, self.version)
        }
    }

    /// Returns `Kind namespace/name`.
    pub fn subject(&self) -> String {
        let name = match self.body["metadata"]["name"]
            .as_str()
            .or(self.body["metadata"]["generateName"].as_str())
        {
            Some(name) if self.name.is_empty() => name,
            _ => &self.name,
        };
        if self.namespace.is_empty() {
            format!("{} {name}", self.kind.kind)
        } else {
            format!("{} {}/{name}", self.kind.kind, self.namespace)
        }
    }

    /// Returns one line as in the text of a plan: `patch Role ns/a {…}`, `apply Deployment ns/d as ns/account`.
    pub fn text(&self) -> String {
        let mut text = format!("{} {}", self.verb.text(), self.subject());
        match self.verb {
            _ if !self.subresource.is_empty() => text += &format!(" {}", self.subresource),
            Verb::Patch(PatchType::Merge) => {
                let mut patch = self.body.clone();
                // Preconditions are not part of the change.
                if let Some(metadata) = patch["metadata"].as_object_mut() {
                    metadata.remove("uid");
                    metadata.remove("resourceVersion");
                    if metadata.is_empty() {
                        patch.as_object_mut().map(|patch| patch.remove("metadata"));
                    }
                }
                if patch["metadata"].is_null() {
                    patch.as_object_mut().map(|patch| patch.remove("metadata"));
                }
                text += &format!(" {patch}");
            }
            Verb::Patch(PatchType::Json) => text += &format!(" {}", self.body),
            _ => {}
        }
        if let Some(account) = self.user.strip_prefix("system:serviceaccount:") {
            text += &format!(" as {}", account.replacen(':', "/", 1));
        }
        text
    }
}

/// Target of a path.
pub(super) enum Route {
    /// Server version at `/version`.
    Version,
    /// Discovery at `/api`, `/apis`, or one group and version of them.
    Discovery(Vec<String>),
    /// Objects of one kind.
    Objects(Box<Request>),
}

/// Parses a request.
pub(super) fn route(state: &State, parts: &http::request::Parts, body: &Bytes) -> Result<Route, Refusal> {
    let path: Vec<&str> = parts
        .uri
        .path()
        .split('/')
        .filter(|part| !part.is_empty())
        .collect();
    let (group, version, rest) = match path.as_slice() {
        ["version"] => return Ok(Route::Version),
        ["api", version, rest @ ..] if !rest.is_empty() => ("", *version, rest),
        ["apis", group, version, rest @ ..] if !rest.is_empty() => (*group, *version, rest),
        ["api" | "apis", ..] => {
            return Ok(Route::Discovery(
                path.iter().map(|part| (*part).to_owned()).collect(),
            ));
        }
        _ => return Err(not_found("the server could not find the requested resource")),
    };
    let (namespace, plural, name, subresource) = match rest {
        ["namespaces", namespace, "status" | "finalize"] if group.is_empty() => {
            ("", "namespaces", *namespace, rest[2])
        }
        ["namespaces", namespace, plural] => (*namespace, *plural, "", ""),
        ["namespaces", namespace, plural, name] => (*namespace, *plural, *name, ""),
        ["namespaces", namespace, plural, name, sub] => (*namespace, *plural, *name, *sub),
        [plural] => ("", *plural, "", ""),
        [plural, name] => ("", *plural, *name, ""),
        [plural, name, sub] => ("", *plural, *name, *sub),
        _ => return Err(not_found("the server could not find the requested resource")),
    };
    let kind = state.kinds().into_iter().find(|kind| {
        kind.group == group && kind.plural == plural && kind.versions.iter().any(|served| served == version)
    });
    let kind = kind.ok_or_else(|| not_found("the server could not find the requested resource"))?;
    let params = params(parts.uri.query().unwrap_or_default());
    let watching = params
        .get("watch")
        .is_some_and(|value| value == "true" || value == "1");
    let header = |name: &str| {
        parts
            .headers
            .get(name)
            .and_then(|value| value.to_str().ok())
            .unwrap_or_default()
    };
    let body = match body.is_empty() {
        true => Value::Null,
        false => serde_json::from_slice(body).map_err(|error| bad_request(&error.to_string()))?,
    };
    Ok(Route::Objects(Box::new(Request {
        verb: verb(&parts.method, name.is_empty(), watching, header("content-type"))?,
        kind,
        version: version.to_owned(),
        namespace: namespace.to_owned(),
        name: name.to_owned(),
        subresource: subresource.to_owned(),
        user: header("impersonate-user").to_owned(),
        body,
        metadata_only: header("accept").contains("as=PartialObjectMetadata"),
        params,
    })))
}

fn verb(method: &Method, collection: bool, watching: bool, content: &str) -> Result<Verb, Refusal> {
    Ok(match (method.as_str(), collection) {
        ("GET", true) if watching => Verb::Watch,
        ("GET", true) => Verb::List,
        ("GET", false) => Verb::Get,
        ("POST", true) => Verb::Create,
        ("PUT", false) => Verb::Update,
        ("PATCH", false) => Verb::Patch(match content.split(';').next().unwrap_or_default() {
            "application/merge-patch+json" => PatchType::Merge,
            "application/json-patch+json" => PatchType::Json,
            "application/apply-patch+yaml" => PatchType::Apply,
            other => {
                return Err(Refusal::new(
                    415,
                    "UnsupportedMediaType",
                    &format!("the body of the request was in an unknown format: {other}"),
                ));
            }
        }),
        ("DELETE", true) => Verb::DeleteCollection,
        ("DELETE", false) => Verb::Delete,
        _ => {
            return Err(Refusal::new(
                405,
                "MethodNotAllowed",
                "the server does not allow this method on the requested resource",
            ));
        }
    })
}

fn params(query: &str) -> BTreeMap<String, String> {
    let pairs = query.split('&').filter(|pair| !pair.is_empty());
    pairs
        .map(|pair| {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            (decoded(key), decoded(value))
        })
        .collect()
}

fn decoded(text: &str) -> String {
    let (mut bytes, mut rest) = (Vec::new(), text.as_bytes().iter());
    while let Some(byte) = rest.next() {
        match byte {
            b'+' => bytes.push(b' '),
            b'%' => {
                let digits: Vec<u8> = rest.by_ref().take(2).copied().collect();
                let digits = String::from_utf8_lossy(&digits).into_owned();
                bytes.push(u8::from_str_radix(&digits, 16).unwrap_or(b'?'));
            }
            other => bytes.push(*other),
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
