//! Parsing of requests, and the permission each one needs.

use olm_api::packages::{GROUP, ICON, RESOURCE, VERSION};
use olm_runtime::review::Attributes;
use percent_encoding::percent_decode_str;

use crate::api_status::ApiStatus;
use crate::selectors::{FieldSelector, LabelSelector};

/// The target of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Route {
    /// Liveness.
    Health,
    /// Readiness for requests.
    Readiness,
    /// Metrics of the process.
    Metrics,
    /// Version of the program.
    Version,
    /// `/apis`, the groups.
    Groups,
    /// The versions of the group.
    Group,
    /// The resources of the version.
    Resources,
    /// OpenAPI v2.
    OpenApiV2,
    /// The documents of OpenAPI v3.
    OpenApiV3Paths,
    /// The document of the version.
    OpenApiV3,
    /// PackageManifests of a namespace, or of all.
    List(Option<String>),
    /// One PackageManifest.
    Get {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
    },
    /// The icon of a package.
    Icon {
        /// Namespace of its PackageManifest.
        namespace: String,
        /// Its name.
        name: String,
    },
    /// Profiles, which only Go programs have.
    Profiles,
    /// An unknown path.
    Nothing,
}

/// Callers that may have a response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Access {
    /// Every caller, because probes do not authenticate.
    Everybody,
    /// Any authenticated caller. Discovery is the same in every cluster, and must work while the API server
    /// cannot be asked.
    Authenticated,
    /// Callers with this permission.
    Allowed(Attributes),
}

/// The relevant parts of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestInfo {
    /// Target of the request.
    pub route: Route,
    /// Callers that may have the response.
    pub access: Access,
    /// True if the method is read only.
    pub is_read: bool,
    /// True if it asks for a watch.
    pub is_watch: bool,
    /// The decoded pairs of the query.
    pub parameters: Vec<(String, String)>,
}

impl RequestInfo {
    /// Parses method, path and query of a request.
    ///
    /// # Errors
    /// The decoded path is not valid text.
    pub fn parse(method: &str, path: &str, query: Option<&str>) -> Result<Self, ApiStatus> {
        let decoded = |text: &str| match percent_decode_str(text).decode_utf8() {
            Ok(text) => Ok(text.into_owned()),
            Err(_) => Err(ApiStatus::bad_request("the path is not percent-encoded UTF-8")),
        };
        let segments: Vec<String> = path
            .split('/')
            .filter(|segment| !segment.is_empty())
            .map(decoded)
            .collect::<Result<_, _>>()?;
        let pairs = form_urlencoded::parse(query.unwrap_or_default().as_bytes());
        let parameters: Vec<(String, String)> = pairs.into_owned().collect();
        let segments: Vec<&str> = segments.iter().map(String::as_str).collect();
        let value = |name: &str| parameter(&parameters, name);
        let is_watch = value("watch").is_some_and(|value| !matches!(value, "0" | "false"));
        let route = route(&segments);
        let access = match route {
            Route::Health | Route::Readiness => Access::Everybody,
            Route::Version
            | Route::Groups
            | Route::Group
            | Route::Resources
            | Route::OpenApiV2
            | Route::OpenApiV3Paths
            | Route::OpenApiV3 => Access::Authenticated,
            _ => {
                let selected = value("fieldSelector").and_then(|text| FieldSelector::parse(text).ok());
                let selected = selected.as_ref().and_then(FieldSelector::name);
                Access::Allowed(attributes(method, path, &segments, is_watch, selected))
            }
        };
        Ok(Self {
            route,
            access,
            is_read: matches!(method, "GET" | "HEAD"),
            is_watch,
            parameters,
        })
    }

    /// Returns a parameter's value.
    pub fn parameter(&self, name: &str) -> Option<&str> {
        parameter(&self.parameters, name)
    }

    /// Returns the selectors of a list. `limit` and `continue` have no effect: a list is sent whole.
    ///
    /// # Errors
    /// A selector cannot be parsed.
    pub fn selectors(&self) -> Result<(LabelSelector, FieldSelector), ApiStatus> {
        let text = |name| self.parameter(name).unwrap_or_default();
        let unusable = |error: String| ApiStatus::bad_request(&error);
        Ok((
            LabelSelector::parse(text("labelSelector")).map_err(unusable)?,
            FieldSelector::parse(text("fieldSelector")).map_err(unusable)?,
        ))
    }
}

fn route(segments: &[&str]) -> Route {
    match segments {
        ["healthz" | "livez"] => Route::Health,
        ["readyz"] => Route::Readiness,
        ["metrics"] => Route::Metrics,
        ["debug", "pprof", ..] => Route::Profiles,
        ["version"] => Route::Version,
        ["apis"] => Route::Groups,
        ["openapi", "v2"] => Route::OpenApiV2,
        ["openapi", "v3"] => Route::OpenApiV3Paths,
        ["openapi", "v3", "apis", GROUP, VERSION] => Route::OpenApiV3,
        ["apis", GROUP] => Route::Group,
        ["apis", GROUP, VERSION, rest @ ..] => match rest {
            [] => Route::Resources,
            [RESOURCE] => Route::List(None),
            ["namespaces", namespace, RESOURCE] => Route::List(Some((*namespace).to_owned())),
            ["namespaces", namespace, RESOURCE, name] => Route::Get {
                namespace: (*namespace).to_owned(),
                name: (*name).to_owned(),
            },
            ["namespaces", namespace, RESOURCE, name, ICON] => Route::Icon {
                namespace: (*namespace).to_owned(),
                name: (*name).to_owned(),
            },
            _ => Route::Nothing,
        },
        _ => Route::Nothing,
    }
}

/// Returns the attributes for the API server's review, which parses requests the same way.
fn attributes(
    method: &str,
    path: &str,
    segments: &[&str],
    is_watch: bool,
    selected: Option<&str>,
) -> Attributes {
    let ["apis", GROUP, VERSION, rest @ ..] = segments else {
        return Attributes::Path {
            verb: method.to_ascii_lowercase(),
            path: path.to_owned(),
        };
    };
    let (namespace, rest) = match rest {
        ["namespaces", namespace, rest @ ..] if !rest.is_empty() => (*namespace, rest),
        rest => ("", rest),
    };
    let part = |at: usize| rest.get(at).copied().unwrap_or_default();
    let (resource, name, subresource) = (part(0), part(1), part(2));
    let verb = match method {
        "POST" => "create",
        "PUT" => "update",
        "PATCH" => "patch",
        "DELETE" if name.is_empty() => "deletecollection",
        "DELETE" => "delete",
        _ if !name.is_empty() => "get",
        _ if is_watch => "watch",
        _ => "list",
    };
    let is_many = matches!(verb, "list" | "watch" | "deletecollection");
    Attributes::Resource {
        verb: verb.into(),
        group: GROUP.into(),
        version: VERSION,
        namespace: namespace.to_owned(),
        resource: resource.to_owned(),
        subresource: subresource.to_owned(),
        name: if is_many {
            selected.unwrap_or_default()
        } else {
            name
        }
        .to_owned(),
    }
}

fn parameter<'a>(parameters: &'a [(String, String)], name: &str) -> Option<&'a str> {
    let found = parameters.iter().find(|(key, _)| key == name);
    found.map(|(_, value)| value.as_str())
}

#[cfg(test)]
mod tests;
