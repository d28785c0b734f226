//! Maps changed objects to CatalogSources. No I/O.

use std::collections::BTreeSet;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use olm_api::labels;
use olm_api::v1alpha1::CatalogSource;
use olm_runtime::NamespacedName;
use olm_runtime::store::Change;

use super::source::is_of_config_map;
use crate::object;

/// Returns the CatalogSources that own an object, before or after its change. One without owners belongs to
/// the CatalogSource that its labels name.
pub(crate) fn owners<K: Resource>(change: &Change<K>) -> BTreeSet<NamespacedName> {
    let references = change.versions().flat_map(|object| {
        let meta = object.meta();
        let namespace = meta.namespace.clone().unwrap_or_default();
        let owners = meta.owner_references.iter().flatten();
        owners
            .filter(|owner| {
                owner.kind == "CatalogSource" && object::group_version(&owner.api_version).0 == olm_api::GROUP
            })
            .map(|owner| owner.name.as_str())
            .chain(named_by_labels(meta))
            .map(|owner| NamespacedName::new(namespace.clone(), owner))
            .collect::<Vec<_>>()
    });
    references.collect()
}

/// Returns the name of the CatalogSource in the labels of an object without owners, as of all that is created
/// in a cluster whose webhook removes owners. `None` without OLM's mark.
pub(crate) fn named_by_labels(meta: &ObjectMeta) -> Option<&str> {
    let labels = meta.labels.as_ref()?;
    let is_managed = labels::is_true(labels, labels::MANAGED);
    let has_owners = meta.owner_references.iter().flatten().next().is_some();
    let mut names = [labels::CATALOG_SOURCE, labels::CATALOG_UPDATE]
        .into_iter()
        .filter_map(|label| labels.get(label).map(String::as_str));
    names.find(|name| is_managed && !has_owners && !name.is_empty())
}

/// Returns those of the namespace's CatalogSources that use this ConfigMap.
pub(crate) fn made_of_config_map<'a>(
    config_map: &NamespacedName,
    sources: impl IntoIterator<Item = &'a CatalogSource>,
) -> BTreeSet<NamespacedName> {
    let sources = sources.into_iter();
    sources
        .filter(|source| is_of_config_map(source))
        .filter(|source| source.spec.config_map.as_ref() == Some(&config_map.name))
        .map(NamespacedName::from_object)
        .collect()
}

/// Returns the namespace whose catalogs' pods may change because its enforced security level changed.
pub(crate) fn relabelled_namespace<K: Resource>(change: &Change<K>) -> Option<String> {
    let levels: BTreeSet<Option<&String>> = change
        .versions()
        .map(|namespace| {
            namespace
                .meta()
                .labels
                .as_ref()?
                .get(olm_api::labels::POD_SECURITY_ENFORCE)
        })
        .collect();
    (levels.len() > 1)
        .then(|| change.object().meta().name.clone())
        .flatten()
}
