//! Marks and finds objects that belong to a ClusterServiceVersion.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::Resource;
use olm_api::{extension_v1::ClusterObjectSet, labels, v1alpha1::ClusterServiceVersion};
use olm_runtime::NamespacedName;

use crate::component;

/// Maximum length of a label value, in bytes.
pub(crate) const MAX_LABEL_BYTES: usize = 63;

/// Labels of all objects made for `csv`: the three owner labels and the label of the filtered caches.
pub(crate) fn labels(csv: &ClusterServiceVersion) -> BTreeMap<String, String> {
    labels_as(labels::OWNER_KIND_CSV, &NamespacedName::from_object(csv))
}

/// Labels of objects made for an owner of this kind: the three owner labels and the label of the filtered caches.
pub(crate) fn labels_as(kind: &str, owner: &NamespacedName) -> BTreeMap<String, String> {
    let all = [
        (labels::MANAGED, labels::TRUE),
        (labels::OWNER, owner.name.as_str()),
        (labels::OWNER_NAMESPACE, owner.namespace.as_str()),
        (labels::OWNER_KIND, kind),
    ];
    all.map(|(key, value)| (key.to_owned(), value.to_owned())).into()
}

/// Returns [`labels()`], and the labels that make objects for `csv` components of the same Operators.
pub(crate) fn marks(csv: &ClusterServiceVersion) -> BTreeMap<String, String> {
    let mut marks = component::shared_labels(&csv.metadata);
    marks.extend(labels(csv));
    marks
}

/// Returns an owner reference to `csv` for an object of its namespace. It is not the controller, and does not
/// block a foreground deletion.
pub(crate) fn reference(csv: &ClusterServiceVersion) -> OwnerReference {
    OwnerReference {
        api_version: ClusterServiceVersion::api_version(&()).into_owned(),
        kind: ClusterServiceVersion::kind(&()).into_owned(),
        name: csv.metadata.name.clone().unwrap_or_default(),
        uid: csv.metadata.uid.clone().unwrap_or_default(),
        controller: Some(false),
        block_owner_deletion: Some(false),
    }
}

/// Label selector for the objects of a ClusterServiceVersion.
pub(crate) fn selector(namespace: &str, name: &str) -> String {
    format!(
        "{}={name},{}={namespace},{}={}",
        labels::OWNER,
        labels::OWNER_NAMESPACE,
        labels::OWNER_KIND,
        labels::OWNER_KIND_CSV
    )
}

/// Returns the ClusterServiceVersion in the owner labels, if all three exist.
pub(crate) fn labelled(metadata: &ObjectMeta) -> Option<NamespacedName> {
    labelled_as(labels::OWNER_KIND_CSV, metadata)
}

/// Returns the OperatorGroup in the owner labels, if all three exist.
pub(crate) fn labelled_group(metadata: &ObjectMeta) -> Option<NamespacedName> {
    labelled_as(labels::OWNER_KIND_OPERATOR_GROUP, metadata)
}

fn labelled_as(kind: &str, metadata: &ObjectMeta) -> Option<NamespacedName> {
    let found = metadata.labels.as_ref()?;
    let (namespace, name) = (found.get(labels::OWNER_NAMESPACE)?, found.get(labels::OWNER)?);
    (found.get(labels::OWNER_KIND)? == kind).then(|| NamespacedName::new(namespace, name))
}

/// True when the owner labels name this ClusterServiceVersion.
pub(crate) fn is_labelled(metadata: &ObjectMeta, namespace: &str, name: &str) -> bool {
    labelled(metadata).is_some_and(|owner| owner.namespace == namespace && owner.name == name)
}

/// True when the object was made for ClusterServiceVersions other than this one; it is deleted with them.
pub(crate) fn is_of_another(metadata: &ObjectMeta, csv: &NamespacedName) -> bool {
    let labelled = labelled(metadata);
    let mut names = references(metadata).map(|owner| owner.name.as_str()).peekable();
    if labelled.is_none() && names.peek().is_none() {
        return false;
    }
    labelled.as_ref() != Some(csv) && !names.any(|name| name == csv.name)
}

/// True when a ClusterObjectSet of OLM v1 controls the object, because a ClusterExtension has adopted it. The
/// ClusterServiceVersion then neither repairs nor deletes it.
pub(crate) fn is_of_extension(metadata: &ObjectMeta) -> bool {
    let (group, kind) = (ClusterObjectSet::group(&()), ClusterObjectSet::kind(&()));
    controller(metadata).is_some_and(|owner| {
        owner.kind == kind && owner.api_version.split('/').next() == Some(group.as_ref())
    })
}

/// Returns the owner that controls an object; the API server accepts one.
pub(crate) fn controller(metadata: &ObjectMeta) -> Option<&OwnerReference> {
    let mut owners = metadata.owner_references.iter().flatten();
    owners.find(|owner| owner.controller == Some(true))
}

/// Returns the owner references to ClusterServiceVersions.
pub(crate) fn references(metadata: &ObjectMeta) -> impl Iterator<Item = &OwnerReference> {
    let group = ClusterServiceVersion::group(&());
    let kind = ClusterServiceVersion::kind(&());
    metadata.owner_references.iter().flatten().filter(move |owner| {
        owner.kind == kind && owner.api_version.split('/').next() == Some(group.as_ref())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner(api_version: &str, kind: &str) -> OwnerReference {
        OwnerReference {
            api_version: api_version.into(),
            kind: kind.into(),
            ..OwnerReference::default()
        }
    }

    #[test]
    fn references_of_other_kinds_and_groups_do_not_count() {
        let metadata = ObjectMeta {
            owner_references: Some(vec![
                owner("operators.coreos.com/v1alpha1", "ClusterServiceVersion"),
                owner("operators.coreos.com/v1alpha1", "CatalogSource"),
                owner("v1", "ConfigMap"),
                owner("example.com/v1", "ClusterServiceVersion"),
            ]),
            ..ObjectMeta::default()
        };
        assert_eq!(references(&metadata).count(), 1);
    }

    #[test]
    fn an_object_is_of_an_extension_if_its_object_set_is_the_controller() {
        for (api_version, kind, controller, expected) in [
            (
                "olm.operatorframework.io/v1",
                "ClusterObjectSet",
                Some(true),
                true,
            ),
            (
                "olm.operatorframework.io/v1",
                "ClusterObjectSet",
                Some(false),
                false,
            ),
            ("olm.operatorframework.io/v1", "ClusterObjectSet", None, false),
            (
                "olm.operatorframework.io/v1",
                "ClusterExtension",
                Some(true),
                false,
            ),
            ("example.com/v1", "ClusterObjectSet", Some(true), false),
        ] {
            let metadata = ObjectMeta {
                owner_references: Some(vec![
                    owner("operators.coreos.com/v1alpha1", "ClusterServiceVersion"),
                    OwnerReference {
                        controller,
                        ..owner(api_version, kind)
                    },
                ]),
                ..ObjectMeta::default()
            };
            assert_eq!(is_of_extension(&metadata), expected, "{api_version} {kind}");
        }
    }

    #[test]
    fn objects_of_others_unowned_ones_and_shared_ones_are_distinguished() {
        let csv = NamespacedName::new("ns", "a");
        let owned_by = |names: &[&str]| ObjectMeta {
            owner_references: Some(
                names
                    .iter()
                    .map(|name| OwnerReference {
                        name: (*name).into(),
                        ..owner("operators.coreos.com/v1alpha1", "ClusterServiceVersion")
                    })
                    .collect(),
            ),
            ..ObjectMeta::default()
        };
        assert!(is_of_another(&owned_by(&["b"]), &csv));
        assert!(!is_of_another(&owned_by(&["b", "a"]), &csv));
        assert!(!is_of_another(&owned_by(&[]), &csv));
        let labelled = |name: &str| ObjectMeta {
            labels: Some(
                [
                    ("olm.owner", name),
                    ("olm.owner.namespace", "ns"),
                    ("olm.owner.kind", "ClusterServiceVersion"),
                ]
                .map(|(key, value)| (key.to_owned(), value.to_owned()))
                .into(),
            ),
            ..ObjectMeta::default()
        };
        assert!(is_of_another(&labelled("b"), &csv));
        assert!(!is_of_another(&labelled("a"), &csv));
    }

    #[test]
    fn owner_labels_count_only_together() {
        let with = |pairs: &[(&str, &str)]| ObjectMeta {
            labels: Some(
                pairs
                    .iter()
                    .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))
                    .collect(),
            ),
            ..ObjectMeta::default()
        };
        let full = [
            ("olm.owner", "a"),
            ("olm.owner.namespace", "ns"),
            ("olm.owner.kind", "ClusterServiceVersion"),
        ];
        assert_eq!(labelled(&with(&full)), Some(NamespacedName::new("ns", "a")));
        assert!(is_labelled(&with(&full), "ns", "a"));
        assert!(!is_labelled(&with(&full), "other", "a"));
        assert_eq!(labelled(&with(&full[..2])), None);
        let group = [
            ("olm.owner", "a"),
            ("olm.owner.namespace", "ns"),
            ("olm.owner.kind", "OperatorGroup"),
        ];
        assert_eq!(labelled(&with(&group)), None);
        assert_eq!(
            labelled_group(&with(&group)),
            Some(NamespacedName::new("ns", "a"))
        );
        assert_eq!(labelled_group(&with(&full)), None);
    }
}
