//! Deletes the objects that an Operator object lists and that were shown to the user, and the object itself.

use std::io::Write;

use anyhow::bail;
use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use kube::{Api, Client, ResourceExt as _};
use olm_api::names::is_dns1123_subdomain;
use olm_api::v1::{Operator, RichReference};
use operator_controller::is_path_segment;

use super::removal::Removal;
use crate::args::shared::WaitArgs;
use crate::operators::{Gathered, plan_name};
use crate::reader::{dynamic_api, get_cluster};
use crate::terminal::plain;
use crate::watch::{Look, Outcome, Screen, until};
use crate::writer;

/// Kind of definitions.
pub(super) const CRD_KIND: &str = "CustomResourceDefinition";

/// Returns true if another Subscription than the operator's refers to the InstallPlan.
pub(super) fn is_of_others(gathered: &Gathered, own: Option<&String>, plan: &RichReference) -> bool {
    let mut others = gathered.subscriptions.iter().filter(|found| {
        found.namespace() == plan.namespace && own.is_none_or(|own| found.name_any() != *own)
    });
    others.any(|other| {
        let named = other.status.as_ref().and_then(plan_name);
        named.is_some() && named == plan.name.as_deref()
    })
}

/// Deletes the objects that the removal shows as listed, waits until none is listed that is to be deleted, and deletes the Operator
/// object. It stays if it lists other objects, because OLM recreates it as long as an object belongs to it. Returns those objects.
///
/// # Errors
/// A request to the API server fails, or an object is not deleted in time.
pub(super) async fn end<W: Write>(
    client: &Client,
    removal: &Removal,
    listed: &Operator,
    wait: &WaitArgs,
    screen: &mut Screen<W>,
) -> anyhow::Result<Vec<String>> {
    let name = listed.name_any();
    for reference in &removal.listed {
        if let Some((api, object)) = object(client, reference) {
            writer::delete_dynamic(&api, &object).await?;
        }
    }
    let outcome = until(screen, wait.limit(), async || {
        let found = get_cluster::<Operator>(client, &name).await?;
        let left = found.iter().flat_map(refs);
        let left = left.filter(|reference| removal.deletes(reference));
        let lines = left.map(|reference| format!("{}: waiting for deletion", subject(reference)));
        Ok(Look::at_left(lines.collect()))
    });
    if outcome.await? != Outcome::Done {
        bail!(
            "Operator {name} still lists objects after {} s; their deletion continues, see `kubectl get operator {name} -o yaml`",
            wait.timeout().as_secs()
        );
    }
    let mut kept = Vec::new();
    if let Some(last) = get_cluster::<Operator>(client, &name).await? {
        kept.extend(refs(&last).map(subject));
        if kept.is_empty() {
            writer::delete(&Api::all(client.clone()), &last).await?;
        }
    }
    Ok(kept)
}

/// Returns the references that an Operator object lists.
pub(super) fn refs(operator: &Operator) -> impl Iterator<Item = &RichReference> + Clone {
    let components = operator.status.iter().flat_map(|status| status.components.iter());
    components.flat_map(|components| components.refs.iter())
}

/// Returns the fields that identify the object of a reference.
pub(super) fn key(reference: &RichReference) -> [&Option<String>; 4] {
    let (version, kind) = (&reference.api_version, &reference.kind);
    [version, kind, &reference.namespace, &reference.name]
}

/// Returns the namespace of the object; `None` for a cluster-wide one.
fn namespace_of(reference: &RichReference) -> Option<&str> {
    let namespace = reference.namespace.as_deref();
    namespace.filter(|namespace| !namespace.is_empty())
}

/// Returns true if a reference is to an object that can exist.
pub(super) fn is_valid(reference: &RichReference) -> bool {
    let namespace = namespace_of(reference);
    reference.kind.is_some()
        && reference.name.as_deref().is_some_and(is_path_segment)
        && namespace.is_none_or(is_dns1123_subdomain)
}

/// Returns the API and object of a valid reference.
fn object(client: &Client, reference: &RichReference) -> Option<(Api<DynamicObject>, DynamicObject)> {
    let (name, kind) = (reference.name.as_deref()?, reference.kind.as_deref()?);
    let version = reference.api_version.as_deref().unwrap_or("v1");
    let (group, version) = version.split_once('/').unwrap_or(("", version));
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
    let api = dynamic_api(client, namespace_of(reference), &resource);
    Some((api, DynamicObject::new(name, &resource)))
}

/// Returns kind, name and namespace of the object as text.
pub(super) fn subject(reference: &RichReference) -> String {
    let word = |word: &Option<String>| plain(word.as_deref().unwrap_or_default());
    let subject = format!("{} {}", word(&reference.kind), word(&reference.name));
    match namespace_of(reference) {
        Some(namespace) => format!("{subject} in namespace {}", plain(namespace)),
        None => subject,
    }
}
