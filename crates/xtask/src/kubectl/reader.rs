//! Reads objects over the cluster's socket. A kubectl per read would take most of the processor time of the tests.
//!
//! Whatever cannot be answered with certainty is left to kubectl: unusual arguments, unknown kinds, and every failure.

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};

use super::text;

/// Time for an answer of the API server.
const TIMEOUT: Duration = Duration::from_secs(30);
/// Media type of the list of all groups with their resources.
const DISCOVERY: &str = "application/json;v=v2;g=apidiscovery.k8s.io;as=APIGroupDiscoveryList";

/// Answers `kubectl get --ignore-not-found -o json` with these arguments: the object or a list, `Some(None)` if there is none.
/// Returns `None` if kubectl has to be asked.
pub(super) fn read(socket: &Path, arguments: &[&str]) -> Option<Option<Value>> {
    let query = Query::parse(arguments)?;
    if let Some(name) = query.name {
        let [kind] = query.kinds[..] else { return None };
        let path = format!(
            "{}/{name}",
            known(socket, kind)?.path(query.namespace, query.in_all)?
        );
        return match ask(socket, &path, "application/json")? {
            (200, object) => Some(Some(without_managers(object))),
            // A kind that is gone has no name in the details.
            (404, status) if status.pointer("/details/name")?.as_str()? == name => Some(None),
            _ => None,
        };
    }
    let mut items = Vec::new();
    for kind in &query.kinds {
        let mut path = known(socket, kind)?.path(query.namespace, query.in_all)?;
        if let Some(selector) = query.selector {
            path.push_str(&format!("?labelSelector={}", encoded(selector)));
        }
        let (200, list) = ask(socket, &path, "application/json")? else {
            return None;
        };
        items.extend(items_of(list)?);
    }
    Some((!items.is_empty()).then(|| json!({ "apiVersion": "v1", "kind": "List", "items": items })))
}

/// What is asked for.
#[derive(Debug, PartialEq, Eq)]
struct Query<'a> {
    kinds: Vec<&'a str>,
    name: Option<&'a str>,
    namespace: Option<&'a str>,
    in_all: bool,
    selector: Option<&'a str>,
}

impl<'a> Query<'a> {
    /// Parses arguments of `kubectl get`; `None` if there are others than those the tests use.
    fn parse(arguments: &[&'a str]) -> Option<Self> {
        let (mut words, mut namespace, mut selector, mut in_all) = (Vec::new(), None, None, false);
        let mut rest = arguments.iter();
        while let Some(word) = rest.next() {
            match *word {
                "-n" => namespace = Some(*rest.next()?),
                "-l" => selector = Some(*rest.next()?),
                "-A" | "--all-namespaces" => in_all = true,
                word if word.starts_with('-') => return None,
                word => words.push(word),
            }
        }
        let (kinds, name) = match words[..] {
            [kinds] => match kinds.split_once('/') {
                Some((kind, name)) => (kind, Some(name)),
                None => (kinds, None),
            },
            [kinds, name] if !name.contains('/') => (kinds, Some(name)),
            _ => return None,
        };
        if name.is_some() && (in_all || selector.is_some()) {
            return None;
        }
        Some(Self {
            kinds: kinds.split(',').collect(),
            name,
            namespace,
            in_all,
            selector,
        })
    }
}

/// A resource of the API.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Resource {
    /// Path of its group and version.
    base: String,
    plural: String,
    /// What kubectl takes for it, in lower case: plural, singular, each also with the group.
    names: Vec<String>,
    short: Vec<String>,
    is_namespaced: bool,
}

impl Resource {
    /// Returns the path of its list; `None` if the namespace is not given, which kubectl takes from its configuration.
    fn path(&self, namespace: Option<&str>, in_all: bool) -> Option<String> {
        let Self { base, plural, .. } = self;
        if !self.is_namespaced || in_all {
            return Some(format!("{base}/{plural}"));
        }
        Some(format!("{base}/namespaces/{}/{plural}", namespace?))
    }
}

/// Returns the resource of that name. The list of resources is read once, and again for a name that is not in it.
fn known(socket: &Path, kind: &str) -> Option<Resource> {
    static KNOWN: Mutex<BTreeMap<PathBuf, Vec<Resource>>> = Mutex::new(BTreeMap::new());
    let lists = || KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    let known = lists().get(socket).and_then(|known| find(known, kind));
    if known.is_some() {
        return known;
    }
    let mut fresh = Vec::new();
    for root in ["/api", "/apis"] {
        let (200, list) = ask(socket, root, DISCOVERY)? else {
            return None;
        };
        fresh.extend(resources(&list)?);
    }
    let found = find(&fresh, kind);
    lists().insert(socket.to_owned(), fresh);
    found
}

/// Returns the first resource of that name, as kubectl does, which prefers full names to short ones.
fn find(resources: &[Resource], kind: &str) -> Option<Resource> {
    let kind = kind.to_lowercase();
    let by_name = resources.iter().find(|resource| resource.names.contains(&kind));
    let by_short = || resources.iter().find(|resource| resource.short.contains(&kind));
    by_name.or_else(by_short).cloned()
}

/// Returns the resources of an `APIGroupDiscoveryList` in its order, which is that of preference.
fn resources(list: &Value) -> Option<Vec<Resource>> {
    let mut found = Vec::new();
    for group in list["items"].as_array()? {
        let name = text(group, "/metadata/name");
        for version in group["versions"].as_array()? {
            let base = match (name, text(version, "/version")) {
                ("", version) => format!("/api/{version}"),
                (group, version) => format!("/apis/{group}/{version}"),
            };
            for resource in version["resources"].as_array().into_iter().flatten() {
                let names = ["/resource", "/singularResource"].map(|place| text(resource, place));
                let short = resource["shortNames"].as_array().into_iter().flatten();
                found.push(Resource {
                    base: base.clone(),
                    plural: names[0].to_owned(),
                    names: names
                        .iter()
                        .flat_map(|plain| [plain.to_lowercase(), format!("{plain}.{name}")])
                        .collect(),
                    short: short.filter_map(Value::as_str).map(str::to_owned).collect(),
                    is_namespaced: resource["scope"] == "Namespaced",
                });
            }
        }
    }
    Some(found)
}

/// Returns the items of a list, each with its version and kind, which built-in kinds only have on the list.
fn items_of(mut list: Value) -> Option<Vec<Value>> {
    let version = list["apiVersion"].clone();
    let kind = list["kind"].as_str()?.strip_suffix("List")?.to_owned();
    let Value::Array(items) = list["items"].take() else {
        return None;
    };
    let complete = |item: Value| {
        let mut item = without_managers(item);
        if item.get("kind").is_none() {
            item["apiVersion"] = version.clone();
            item["kind"] = json!(kind);
        }
        item
    };
    Some(items.into_iter().map(complete).collect())
}

/// Removes what kubectl does not show either.
fn without_managers(mut object: Value) -> Value {
    if let Some(metadata) = object["metadata"].as_object_mut() {
        metadata.remove("managedFields");
    }
    object
}

/// Sends a GET request and returns the status and the JSON of the response; `None` if there is no complete one.
fn ask(socket: &Path, path: &str, accept: &str) -> Option<(u16, Value)> {
    let mut stream = UnixStream::connect(socket).ok()?;
    stream.set_read_timeout(Some(TIMEOUT)).ok()?;
    // To HTTP/1.0 the server answers in one piece, and closes.
    write!(
        stream,
        "GET {path} HTTP/1.0\r\nHost: localhost\r\nAccept: {accept}\r\n\r\n"
    )
    .ok()?;
    let mut response = Vec::new();
    stream.read_to_end(&mut response).ok()?;
    parse(&response)
}

fn parse(response: &[u8]) -> Option<(u16, Value)> {
    let end = response.windows(4).position(|four| four == b"\r\n\r\n")?;
    let (head, body) = response.split_at_checked(end + 4)?;
    let head = std::str::from_utf8(head).ok()?;
    let status = head.split(' ').nth(1)?.parse().ok()?;
    Some((status, serde_json::from_slice(body).ok()?))
}

/// Encodes text for a query.
fn encoded(text: &str) -> String {
    text.bytes()
        .map(|byte| {
            if byte.is_ascii_alphanumeric() {
                char::from(byte).to_string()
            } else {
                format!("%{byte:02X}")
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pods() -> Resource {
        let list = json!({"items": [{"metadata": {"name": ""}, "versions": [{"version": "v1", "resources": [
            {"resource": "pods", "singularResource": "pod", "shortNames": ["po"], "scope": "Namespaced"},
        ]}]}]});
        resources(&list).unwrap().remove(0)
    }

    #[test]
    fn arguments_that_tests_use_are_parsed_and_others_left_to_kubectl() {
        let query = Query::parse(&["csv,pods", "-A", "-l", "a=b"]).unwrap();
        assert_eq!(
            (query.kinds, query.in_all, query.selector),
            (vec!["csv", "pods"], true, Some("a=b"))
        );
        let by_slash = Query::parse(&["-n", "olm", "deployment/x"]);
        assert_eq!(by_slash, Query::parse(&["deployment", "x", "-n", "olm"]));
        for odd in [
            &["pods", "--as", "me"][..],
            &["pods", "a", "b"],
            &["-n"],
            &["pods", "a", "-l", "b"],
        ] {
            assert_eq!(Query::parse(odd), None, "{odd:?}");
        }
    }

    #[test]
    fn a_resource_has_several_names_and_full_names_come_first() {
        let mut other = pods();
        other.base = "/apis/metrics.k8s.io/v1beta1".to_owned();
        other.names = ["pods", "pod", "pods.metrics.k8s.io"].map(str::to_owned).to_vec();
        other.short = vec!["pod".to_owned()];
        let list = [other.clone(), pods()];
        assert_eq!(find(&list, "po"), Some(pods()));
        assert_eq!(find(&list, "Pod"), Some(other.clone()));
        assert_eq!(find(&list, "pods.metrics.k8s.io"), Some(other));
        assert_eq!(find(&list, "nodes"), None);
    }

    #[test]
    fn paths_have_the_namespace_that_is_given() {
        assert_eq!(
            pods().path(Some("olm"), false).unwrap(),
            "/api/v1/namespaces/olm/pods"
        );
        assert_eq!(pods().path(Some("olm"), true).unwrap(), "/api/v1/pods");
        assert_eq!(pods().path(None, false), None);
    }

    #[test]
    fn responses_are_complete_or_none() {
        let response = b"HTTP/1.0 404 Not Found\r\nContent-Type: application/json\r\n\r\n{\"a\":1}";
        assert_eq!(parse(response), Some((404, json!({ "a": 1 }))));
        assert_eq!(parse(&response[..response.len() - 1]), None);
        assert_eq!(parse(b"HTTP/1.0 502 Bad Gateway\r\n\r\n"), None);
    }

    #[test]
    fn items_have_the_kind_of_their_list() {
        let list = json!({ "apiVersion": "v1", "kind": "PodList", "items": [{ "metadata": { "name": "a", "managedFields": [] } }] });
        assert_eq!(
            items_of(list).unwrap(),
            [json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "a" } })]
        );
    }
}
