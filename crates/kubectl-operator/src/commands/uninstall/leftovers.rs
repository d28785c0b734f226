//! Deletes the objects that an Operator object still lists after its operator was deleted, and the object itself.

use std::io::Write;

use anyhow::bail;
use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use kube::{Api, Client, ResourceExt as _};
use olm_api::names::is_dns1123_subdomain;
use olm_api::v1::{Operator, RichReference};
use operator_controller::is_path_segment;

use super::removal::Removal;
use crate::args::shared::WaitArgs;
use crate::reader::{dynamic_api, get_cluster};
use crate::terminal::plain;
use crate::watch::{Look, Outcome, Screen, until};
use crate::writer;

/// Deletes the listed objects, waits until none is listed that is to be deleted, and deletes the Operator object. It stays if it
/// lists other objects, because OLM recreates it as long as an object belongs to it. Returns those objects.
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
    for reference in going(listed, removal) {
        if let Some((api, object)) = object(client, reference) {
            writer::delete_dynamic(&api, &object).await?;
        }
    }
    let outcome = until(screen, wait.limit(), async || {
        let found = get_cluster::<Operator>(client, &name).await?;
        let left = found.iter().flat_map(|found| going(found, removal));
        Ok(Look::at_left(left.map(text).collect()))
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
fn refs(operator: &Operator) -> impl Iterator<Item = &RichReference> {
    let components = operator.status.iter().flat_map(|status| status.components.iter());
    components.flat_map(|components| components.refs.iter())
}

/// Returns the references to objects that are deleted: all but definitions that stay because others own or require them.
fn going<'a>(operator: &'a Operator, removal: &'a Removal) -> impl Iterator<Item = &'a RichReference> {
    refs(operator).filter(|reference| {
        let stays = |name: &str| {
            let mut all = removal.definitions.iter();
            all.any(|definition| definition.name == name && !definition.is_deleted)
        };
        let is_definition = reference.kind.as_deref() == Some("CustomResourceDefinition");
        !(is_definition && reference.name.as_deref().is_some_and(stays))
    })
}

/// Returns the API and object of a reference; `None` if the reference is invalid.
fn object(client: &Client, reference: &RichReference) -> Option<(Api<DynamicObject>, DynamicObject)> {
    let (name, kind) = (reference.name.as_deref()?, reference.kind.as_deref()?);
    let version = reference.api_version.as_deref().unwrap_or("v1");
    let (group, version) = version.split_once('/').unwrap_or(("", version));
    let namespace = reference
        .namespace
        .as_deref()
        .filter(|namespace| !namespace.is_empty());
    if !is_path_segment(name) || namespace.is_some_and(|namespace| !is_dns1123_subdomain(namespace)) {
        return None;
    }
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
    let api = dynamic_api(client, namespace, &resource);
    Some((api, DynamicObject::new(name, &resource)))
}

fn text(reference: &RichReference) -> String {
    format!("{}: waiting for deletion", subject(reference))
}

/// Returns kind and name of the object.
fn subject(reference: &RichReference) -> String {
    let word = |word: &Option<String>| plain(word.as_deref().unwrap_or_default());
    format!("{} {}", word(&reference.kind), word(&reference.name))
}
