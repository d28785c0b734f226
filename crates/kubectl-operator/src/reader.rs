//! Reads of a cluster with time limits. Errors name the object that was read and a remedy.

use std::fmt::Debug;
use std::future::Future;
use std::time::Duration;

use anyhow::anyhow;
use go_compat::error_chain;
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::serde::de::DeserializeOwned;
use kube::api::{ListParams, PartialObjectMeta};
use kube::core::{ApiResource, ClusterResourceScope, DynamicObject, NamespaceResourceScope, ObjectList};
use kube::{Api, Client, Resource, ResourceExt as _};
use olm_api::extension_v1;
use olm_api::names::is_dns1123_subdomain;
use serde_json::Value;

use crate::terminal::plain;

/// Timeout for one request.
const PATIENCE: Duration = Duration::from_secs(60);
/// Page size of lists.
pub(crate) const PAGE: u32 = 500;
/// No namespace has this name, so it has no objects.
const NO_NAMESPACE: &str = "-";
/// End of the API server's message for a missing object. It names the object, in quotes.
const MISSING: &str = "\" not found";
/// Maximum number of pages per list, in case a server never ends one.
const MAX_PAGES: usize = 200;

/// A kind of the API server.
pub(crate) trait Kind: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned {}

impl<K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned> Kind for K {}

/// A kind whose objects are in namespaces.
pub(crate) trait NamespacedKind: Kind + Resource<Scope = NamespaceResourceScope> {}

impl<K: Kind + Resource<Scope = NamespaceResourceScope>> NamespacedKind for K {}

/// A kind whose objects are in no namespace.
pub(crate) trait ClusterKind: Kind + Resource<Scope = ClusterResourceScope> {}

impl<K: Kind + Resource<Scope = ClusterResourceScope>> ClusterKind for K {}

/// Awaits a response with a timeout.
///
/// # Errors
/// The request times out or fails. The text includes `what`, as in `cannot read Subscription db in namespace shop`.
pub(crate) async fn answer<T>(
    what: impl Fn() -> String,
    question: impl Future<Output = kube::Result<T>>,
) -> anyhow::Result<T> {
    match tokio::time::timeout(PATIENCE, question).await {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(error)) => Err(ReadError {
            text: format!("cannot {}: {}", what(), cause(&error)),
            is_forbidden: matches!(&error, kube::Error::Api(status) if status.code == 403),
            is_unserved: is_unknown_kind(&error),
        }
        .into()),
        Err(_) => Err(anyhow!(
            "cannot {}: no answer within {} s",
            what(),
            PATIENCE.as_secs()
        )),
    }
}

/// An error response.
#[derive(Debug, thiserror::Error)]
#[error("{text}")]
struct ReadError {
    text: String,
    is_forbidden: bool,
    is_unserved: bool,
}

/// Replaces the error of a request if the cluster does not serve the kind, and the kind is of OLM v1, which is a part of its own.
///
/// # Errors
/// Those of the request.
pub(crate) fn of_kind<K: Resource<DynamicType = ()>, T>(answer: anyhow::Result<T>) -> anyhow::Result<T> {
    answer.map_err(
        |error| match is_unserved(&error) && K::group(&()) == extension_v1::GROUP {
            true => ReadError {
                text: format!(
                    "OLM v1 is not installed in this cluster (no {} API); the chart's value v1.enabled installs it",
                    K::kind(&())
                ),
                is_forbidden: false,
                is_unserved: true,
            }
            .into(),
            false => error,
        },
    )
}

/// Returns true if a request failed due to missing permission, and not for a temporary reason.
pub(crate) fn is_forbidden(error: &anyhow::Error) -> bool {
    let error = error.downcast_ref::<ReadError>();
    error.is_some_and(|error| error.is_forbidden)
}

/// Returns true if a request failed because the cluster does not have the kind.
pub(crate) fn is_unserved(error: &anyhow::Error) -> bool {
    let error = error.downcast_ref::<ReadError>();
    error.is_some_and(|error| error.is_unserved)
}

/// Returns the API server's message, and a remedy if one is known.
pub(crate) fn cause(error: &kube::Error) -> String {
    let message = said(error);
    let status = match error {
        kube::Error::Api(status) => status,
        kube::Error::Service(_) => {
            return format!("{message}; check --kubeconfig, --context and `kubectl cluster-info`");
        }
        _ => return message,
    };
    match status.code {
        401 => format!("{message}; the cluster rejected the credentials, log in again"),
        403 => format!("{message}; request this permission, or see `kubectl auth can-i --list`"),
        404 if message.starts_with("namespaces ") => {
            format!("{message}; create it with `kubectl create namespace`")
        }
        404 if is_unknown_kind(error) => format!("{message}; is OLM installed in this cluster?"),
        _ => message,
    }
}

/// Returns the API server's message.
pub(crate) fn said(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) => plain(&status.message),
        kube::Error::Service(error) => plain(&error_chain(&**error)),
        _ => plain(&error_chain(error)),
    }
}

/// Returns true if the server does not serve the kind. For a missing object, the message names it.
pub(crate) fn is_unknown_kind(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 404 && !status.message.ends_with(MISSING))
}

/// Describes the namespaces of a read.
pub(crate) fn place(namespace: Option<&str>) -> String {
    namespace.map_or_else(
        || "all namespaces".to_owned(),
        |namespace| format!("namespace {namespace}"),
    )
}

/// Returns an API for one namespace or all.
pub(crate) fn api<K: NamespacedKind>(client: &Client, namespace: Option<&str>) -> Api<K> {
    match namespace {
        Some(namespace) => Api::namespaced(client.clone(), in_path(namespace)),
        None => Api::all(client.clone()),
    }
}

/// Does the same for a kind that is known only now.
pub(crate) fn dynamic_api(
    client: &Client,
    namespace: Option<&str>,
    kind: &ApiResource,
) -> Api<DynamicObject> {
    match namespace {
        Some(namespace) => Api::namespaced_with(client.clone(), in_path(namespace), kind),
        None => Api::all_with(client.clone(), kind),
    }
}

/// Returns a namespace as part of a path, which is not escaped. An invalid name becomes [`NO_NAMESPACE`].
fn in_path(namespace: &str) -> &str {
    match is_dns1123_subdomain(namespace) {
        true => namespace,
        false => NO_NAMESPACE,
    }
}

/// Returns all objects of a kind that a label selector matches, in one namespace or all.
///
/// # Errors
/// The list request fails.
pub(crate) async fn list<K: NamespacedKind>(
    client: &Client,
    namespace: Option<&str>,
    labels: &str,
) -> anyhow::Result<Vec<K>> {
    let api = &api::<K>(client, namespace);
    let page = |params: ListParams| async move { api.list(&params).await };
    pages(&listing::<K>(namespace), labels, PAGE, Some, page).await
}

/// Returns all objects of a kind without namespaces that a label selector matches.
///
/// # Errors
/// The list request fails.
pub(crate) async fn list_cluster<K: ClusterKind>(client: &Client, labels: &str) -> anyhow::Result<Vec<K>> {
    let api = &Api::<K>::all(client.clone());
    let page = |params: ListParams| async move { api.list(&params).await };
    of_kind::<K, _>(pages(&format!("list {}", K::plural(&())), labels, PAGE, Some, page).await)
}

/// Returns true if the namespace exists. Invalid names are not requested.
///
/// # Errors
/// The request fails.
pub(crate) async fn has_namespace(client: &Client, name: &str) -> anyhow::Result<bool> {
    if !is_dns1123_subdomain(name) {
        return Ok(false);
    }
    let api: Api<Namespace> = Api::all(client.clone());
    let what = || format!("read namespace {}", plain(name));
    let found = answer(what, api.get_metadata_opt(name)).await?;
    Ok(found.is_some())
}

/// Checks that a namespace exists, for commands that found nothing in it. For users who may not read it, it exists.
///
/// # Errors
/// The namespace does not exist.
pub(crate) async fn require_namespace(client: &Client, name: &str) -> anyhow::Result<()> {
    match has_namespace(client, name).await {
        Ok(false) => Err(anyhow!("namespace {} does not exist", plain(name))),
        Ok(true) | Err(_) => Ok(()),
    }
}

/// Returns the names of all objects of a kind.
///
/// # Errors
/// The list request fails.
pub(crate) async fn list_names<K: NamespacedKind>(
    client: &Client,
    namespace: &str,
) -> anyhow::Result<Vec<String>> {
    let api = &api::<K>(client, Some(namespace));
    let page = |params: ListParams| async move { api.list_metadata(&params).await };
    let name = |object: PartialObjectMeta<K>| object.metadata.name;
    pages(&listing::<K>(Some(namespace)), "", PAGE, name, page).await
}

/// Returns the names of all objects of a kind without namespaces.
///
/// # Errors
/// The list request fails.
pub(crate) async fn list_cluster_names<K: ClusterKind>(client: &Client) -> anyhow::Result<Vec<String>> {
    let api = &Api::<K>::all(client.clone());
    let page = |params: ListParams| async move { api.list_metadata(&params).await };
    let name = |object: PartialObjectMeta<K>| object.metadata.name;
    pages(&format!("list {}", K::plural(&())), "", PAGE, name, page).await
}

/// An object that does not match the schema of its kind.
#[derive(Debug, Clone)]
pub(crate) struct Unreadable {
    pub kind: String,
    pub namespace: String,
    pub name: String,
    /// The whole object.
    pub object: Value,
    /// Reason why it cannot be read, without its values.
    pub cause: String,
    /// The object and the reason, as text.
    pub text: String,
}

/// Does the same as [`list`], but an object that cannot be read does not hide the others.
///
/// # Errors
/// The list request fails.
pub(crate) async fn list_readable<K: NamespacedKind>(
    client: &Client,
    namespace: Option<&str>,
    labels: &str,
) -> anyhow::Result<(Vec<K>, Vec<Unreadable>)> {
    let api = &dynamic_api(client, namespace, &ApiResource::erase::<K>(&()));
    let page = |params: ListParams| async move { api.list(&params).await };
    let (mut found, mut unreadable) = (Vec::new(), Vec::new());
    for object in pages(&listing::<K>(namespace), labels, PAGE, Some, page).await? {
        let (namespace, name) = (object.namespace().unwrap_or_default(), object.name_any());
        let object = serde_json::to_value(object)?;
        match K::deserialize(&object) {
            Ok(object) => found.push(object),
            Err(error) => {
                let (kind, cause) = (K::kind(&()).into_owned(), without_value(&error));
                unreadable.push(Unreadable {
                    text: format!("cannot read {kind} {namespace}/{name}: {cause}"),
                    kind,
                    namespace,
                    name,
                    object,
                    cause,
                });
            }
        }
    }
    Ok((found, unreadable))
}

/// Returns the expected type without the actual value, which may be confidential.
fn without_value(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let expected = text.rsplit_once(", expected ").map(|(_, expected)| expected);
    let begins = |start: &&str| text.starts_with(*start);
    match (
        ["invalid type", "invalid value", "invalid length"]
            .iter()
            .find(|start| begins(start)),
        expected,
    ) {
        (Some(start), Some(expected)) => format!("{start}, expected {expected}"),
        // The text names a field of our types.
        _ if text.starts_with("missing field `") => text,
        _ => "it does not match its kind's schema".to_owned(),
    }
}

/// Describes the list of a kind in one namespace or all, for errors.
fn listing<K: Resource<DynamicType = ()>>(namespace: Option<&str>) -> String {
    format!("list {} in {}", K::plural(&()), place(namespace))
}

/// Returns the parts that `keep` takes from all objects of a list, which is read in pages of `size` objects.
///
/// # Errors
/// A request fails, or the list does not end. The text includes `what`.
pub(crate) async fn pages<T, U, F>(
    what: &str,
    labels: &str,
    size: u32,
    keep: impl Fn(T) -> Option<U>,
    page: impl Fn(ListParams) -> F,
) -> anyhow::Result<Vec<U>>
where
    T: Clone,
    F: Future<Output = kube::Result<ObjectList<T>>>,
{
    let what = || what.to_owned();
    let mut params = ListParams::default().limit(size);
    if !labels.is_empty() {
        params = params.labels(labels);
    }
    let mut found = Vec::new();
    for _ in 0..MAX_PAGES {
        let page = answer(what, page(params.clone())).await?;
        found.extend(page.items.into_iter().filter_map(&keep));
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => params.continue_token = Some(token),
            None => return Ok(found),
        }
    }
    Err(anyhow!("cannot {}: the list does not end", what()))
}

/// Returns an object if it exists. Invalid names are not requested, because they would change the path of the request.
///
/// # Errors
/// The request fails.
pub(crate) async fn get<K: NamespacedKind>(
    client: &Client,
    namespace: &str,
    name: &str,
) -> anyhow::Result<Option<K>> {
    if !is_dns1123_subdomain(name) || !is_dns1123_subdomain(namespace) {
        return Ok(None);
    }
    let api = api::<K>(client, Some(namespace));
    let what = || format!("read {} {name} in namespace {namespace}", K::kind(&()));
    answer(what, async { if_found(api.get(name).await) }).await
}

/// Returns an object of a kind without namespaces if it exists. Invalid names are not requested.
///
/// # Errors
/// The request fails.
pub(crate) async fn get_cluster<K: ClusterKind>(client: &Client, name: &str) -> anyhow::Result<Option<K>> {
    if !is_dns1123_subdomain(name) {
        return Ok(None);
    }
    let api = Api::<K>::all(client.clone());
    let what = || format!("read {} {name}", K::kind(&()));
    of_kind::<K, _>(answer(what, async { if_found(api.get(name).await) }).await)
}

/// Returns `None` for a missing object. If the kind is not served, it is unknown whether the object exists.
fn if_found<K>(answer: kube::Result<K>) -> kube::Result<Option<K>> {
    match answer {
        Err(kube::Error::Api(status)) if status.code == 404 && status.message.ends_with(MISSING) => Ok(None),
        answer => answer.map(Some),
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;
    use olm_api::extension_v1::{ClusterCatalog, ClusterCatalogSpec};
    use olm_testing::cluster::{FakeCluster, Fault, Refusal};
    use serde_json::json;

    use super::*;
    use crate::writer;

    #[tokio::test(start_paused = true)]
    async fn a_missing_olm_v1_is_named_with_the_way_to_it() {
        let cluster = FakeCluster::new();
        let (client, _link) = cluster.connect();
        let new = ClusterCatalog::new("a", ClusterCatalogSpec::default());
        let created = writer::create(&Api::<ClusterCatalog>::all(client.clone()), &new).await;
        let read = get_cluster::<ClusterCatalog>(&client, "a").await;
        let listed = list_cluster::<ClusterCatalog>(&client, "").await;
        let answers = [created.map(drop), read.map(drop), listed.map(drop)];
        for answer in answers {
            let error = answer.unwrap_err();
            assert_eq!(
                error.to_string(),
                "OLM v1 is not installed in this cluster (no ClusterCatalog API); the chart's value v1.enabled installs it"
            );
            assert!(is_unserved(&error));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_impossible_name_is_not_requested() {
        let cluster = FakeCluster::new();
        cluster.on_request(|_| Some(Fault::Refuse(Refusal::unavailable("it was asked"))));
        let (client, _link) = cluster.connect();
        for name in [
            "a/scale",
            "a?watch=1",
            "../..",
            "..",
            "",
            "A",
            "a b",
            &"a".repeat(254),
        ] {
            let found = get::<ConfigMap>(&client, "shop", name).await;
            assert!(found.is_ok_and(|found| found.is_none()), "{name}");
        }
        for name in ["a", "etcd.v1.0.0", "0-9"] {
            assert!(get::<ConfigMap>(&client, "shop", name).await.is_err(), "{name}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn what_cannot_be_a_namespace_leads_nowhere() {
        let cluster = FakeCluster::new();
        cluster.put(json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"namespace": "kube-system", "name": "x"}}));
        let (client, _link) = cluster.connect();
        for namespace in [
            "../../../../api/v1/namespaces/kube-system/secrets/x?y",
            "kube-system/secrets/x?",
            "..",
            "a/b",
            "",
        ] {
            let found = get::<ConfigMap>(&client, namespace, "x").await;
            assert!(found.is_ok_and(|found| found.is_none()), "{namespace}");
            assert!(cluster.log().counts.is_empty(), "{namespace}");
            let listed = list::<ConfigMap>(&client, Some(namespace), "").await;
            assert!(listed.is_ok_and(|found| found.is_empty()), "{namespace}");
            let readable = list_readable::<ConfigMap>(&client, Some(namespace), "").await;
            assert!(readable.is_ok_and(|(found, _)| found.is_empty()), "{namespace}");
            let names = list_names::<ConfigMap>(&client, namespace).await;
            assert!(names.is_ok_and(|found| found.is_empty()), "{namespace}");
            let counts = cluster.take_log().counts;
            assert_eq!(
                counts,
                [(("list", "ConfigMap".to_owned()), 3)].into(),
                "{namespace}"
            );
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_parse_error_of_an_object_does_not_reveal_its_content() {
        let cluster = FakeCluster::new();
        for (name, data) in [
            ("a", json!("hunter2, expected x")),
            ("b", json!({"k": {"hunter2": 1}})),
            ("c", json!([7_777_777])),
        ] {
            cluster.put(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": "shop", "name": name}, "data": data}));
        }
        let (client, _link) = cluster.connect();
        let (_, unreadable) = list_readable::<ConfigMap>(&client, None, "").await.unwrap();
        assert_eq!(unreadable.len(), 3, "{unreadable:?}");
        for found in unreadable {
            assert!(
                found.text.starts_with("cannot read ConfigMap shop/"),
                "{}",
                found.text
            );
            assert!(found.cause.contains("expected a"), "{}", found.cause);
            assert!(
                !found.text.contains("hunter2") && !found.text.contains("7777777"),
                "{}",
                found.text
            );
        }
    }

    #[tokio::test(start_paused = true)]
    async fn only_a_missing_right_is_a_missing_right() {
        for (code, expected) in [(403, true), (500, false), (429, false)] {
            let cluster = FakeCluster::new();
            cluster.on_request(move |_| Some(Fault::Refuse(Refusal::new(code, "Nope", "no"))));
            let (client, _link) = cluster.connect();
            let error = list::<ConfigMap>(&client, None, "").await.unwrap_err();
            assert_eq!(is_forbidden(&error), expected, "{code}");
        }
    }
}
