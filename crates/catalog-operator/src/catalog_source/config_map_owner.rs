//! Owner reference with which a catalog's ConfigMap is deleted with its CatalogSource, as upstream writes it, and its label.
//! No I/O.

use k8s_openapi::api::core::v1::ConfigMap;
use olm_api::labels;
use olm_api::v1alpha1::CatalogSource;
use olm_runtime::plan::{Action, Guard, Target};
use serde_json::{Value, json};

use super::objects::{Ownership, owner_reference};
use crate::object;
use crate::stores::config_maps::Version;

/// Returns a write that adds `source` to the owners of its ConfigMap, and the label by which it is watched; `None` if it
/// has both.
///
/// Only a ConfigMap with a key of a catalog gets them. Otherwise a user with write access to CatalogSources, but not to
/// ConfigMaps, could have any ConfigMap of the namespace deleted.
///
/// A version that the status refers to is served as it is, because a webhook removes owners or labels: see
/// [`is_stripped`].
pub(crate) fn to_write(source: &CatalogSource, name: &str, version: &Version) -> Option<Action> {
    let mut owners = version.owners.clone()?;
    let is_owned = object::has_owner(&owners, source.metadata.uid.as_deref());
    if is_owned && version.is_watched || is_recorded(source, name, version) {
        return None;
    }
    if !is_owned {
        owners.push(owner_reference(source, Ownership::Plain));
    }
    let namespace = source.metadata.namespace.as_deref().unwrap_or_default();
    let guard = Guard {
        uid: Some(version.uid.clone()),
        // The list is written as a whole, so an owner that was added meanwhile must not be lost.
        resource_version: Some(version.resource_version.clone()),
    };
    let label = json!({labels::CATALOG_SOURCE: source.metadata.name});
    let patch = json!({"metadata": {"labels": label, "ownerReferences": owners}});
    Some(Action::patch(
        Target::of::<ConfigMap>(namespace, name),
        patch,
        guard,
    ))
}

/// True when `written`, the answer to [`to_write`], is the ConfigMap as it was: a webhook removed the owner.
pub(crate) fn is_stripped(written: &Value, version: &Version) -> bool {
    written["metadata"]["resourceVersion"] == version.resource_version.as_str()
}

/// True when the status of `source` refers to this version of its ConfigMap.
pub(crate) fn is_recorded(source: &CatalogSource, name: &str, version: &Version) -> bool {
    let status = source.status.as_ref();
    let reference = status.and_then(|status| status.config_map_reference.as_ref());
    reference.is_some_and(|reference| {
        reference.name == name
            && reference.uid.as_ref() == Some(&version.uid)
            && reference.resource_version.as_ref() == Some(&version.resource_version)
    })
}
