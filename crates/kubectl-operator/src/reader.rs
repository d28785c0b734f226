//! Reads of a cluster that come to an end, with errors that name what was read and the way out.

use std::error::Error;
use std::fmt::Debug;
use std::future::Future;
use std::time::Duration;

use anyhow::anyhow;
use k8s_openapi::serde::de::DeserializeOwned;
use kube::api::ListParams;
use kube::core::NamespaceResourceScope;
use kube::{Api, Client, Resource};

use crate::terminal::plain;

/// How long one question may go without an answer.
const PATIENCE: Duration = Duration::from_secs(60);
/// Objects that are asked for at once.
const PAGE: u32 = 500;
/// Pages of one list. A server that has more has no end.
const MAX_PAGES: usize = 200;

/// Waits for an answer.
///
/// # Errors
/// There is none, or it is an error; `what` is in it, as in `cannot read Subscription db in namespace shop`.
pub(crate) async fn answer<T>(
    what: impl Fn() -> String,
    question: impl Future<Output = kube::Result<T>>,
) -> anyhow::Result<T> {
    match tokio::time::timeout(PATIENCE, question).await {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(error)) => Err(anyhow!("cannot {}: {}", what(), cause(&error))),
        Err(_) => Err(anyhow!(
            "cannot {}: no answer within {} s",
            what(),
            PATIENCE.as_secs()
        )),
    }
}

/// What the API server says, and what to do where that is known.
pub(crate) fn cause(error: &kube::Error) -> String {
    let message = said(error);
    let kube::Error::Api(status) = error else {
        return message;
    };
    match status.code {
        401 => format!("{message}; the cluster does not know these credentials, log in again"),
        403 => format!("{message}; ask for this right, or see `kubectl auth can-i --list`"),
        404 if message.starts_with("namespaces ") => {
            format!("{message}; `kubectl create namespace` makes it")
        }
        404 if is_unknown_kind(error) => format!("{message}; is OLM installed in this cluster?"),
        _ => message,
    }
}

/// What the API server says, and no more.
pub(crate) fn said(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) => plain(&status.message),
        _ => plain(&causes(error)),
    }
}

/// An error with its causes that it does not tell itself.
fn causes(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let told = cause.to_string();
        if !text.contains(&told) {
            text = format!("{text}: {told}");
        }
        next = cause.source();
    }
    text
}

/// Whether the server does not serve the kind at all: of an object it says which one is not found.
pub(crate) fn is_unknown_kind(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 404 && !status.message.ends_with("\" not found"))
}

/// The namespaces something is read in.
pub(crate) fn place(namespace: Option<&str>) -> String {
    namespace.map_or_else(
        || "all namespaces".to_owned(),
        |namespace| format!("namespace {namespace}"),
    )
}

/// An API in one namespace or all.
pub(crate) fn api<K>(client: &Client, namespace: Option<&str>) -> Api<K>
where
    K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>,
{
    match namespace {
        Some(namespace) => Api::namespaced(client.clone(), namespace),
        None => Api::all(client.clone()),
    }
}

/// All objects of a kind that a selector of labels selects, in one namespace or all.
///
/// # Errors
/// They cannot be listed.
pub(crate) async fn list<K>(client: &Client, namespace: Option<&str>, labels: &str) -> anyhow::Result<Vec<K>>
where
    K: Resource<Scope = NamespaceResourceScope, DynamicType = ()> + Clone + Debug + DeserializeOwned,
{
    let api = api::<K>(client, namespace);
    let what = || format!("list {} in {}", K::plural(&()), place(namespace));
    let mut params = ListParams::default().limit(PAGE);
    if !labels.is_empty() {
        params = params.labels(labels);
    }
    let mut found = Vec::new();
    for _ in 0..MAX_PAGES {
        let page = answer(what, api.list(&params)).await?;
        found.extend(page.items);
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => params.continue_token = Some(token),
            None => return Ok(found),
        }
    }
    Err(anyhow!("cannot {}: the list has no end", what()))
}

/// One object, if it is there.
///
/// # Errors
/// It cannot be read.
pub(crate) async fn get<K>(client: &Client, namespace: &str, name: &str) -> anyhow::Result<Option<K>>
where
    K: Resource<Scope = NamespaceResourceScope, DynamicType = ()> + Clone + Debug + DeserializeOwned,
{
    let api = api::<K>(client, Some(namespace));
    let what = || format!("read {} {} in namespace {namespace}", K::kind(&()), plain(name));
    answer(what, async {
        match api.get(name).await {
            // Not to serve the kind is no answer about the object.
            Err(error) if is_not_found(&error) && !is_unknown_kind(&error) => Ok(None),
            answer => answer.map(Some),
        }
    })
    .await
}

fn is_not_found(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 404)
}
