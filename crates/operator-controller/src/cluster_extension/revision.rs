//! Inputs of a revision, and whether the newest one still matches the extension. Pure.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt as _;
use kube::core::PartialObjectMeta;
use olm_api::extension_v1::{ClusterExtension, ClusterObjectSet, LifecycleState};
use olm_api::labels;
use olm_runtime::{NamespacedName, Timestamp};
use serde_json::json;
use sha2::{Digest as _, Sha256};

use crate::render::Bundle;
use crate::resolve::Chosen;

/// Annotation of a ClusterServiceVersion with the properties of its bundle.
const PROPERTIES: &str = "olm.properties";
/// Form of revisions. A program with another number renders all bundles again.
const FORM: u32 = 1;

/// Returns a digest of what a revision of the bundle is made from.
pub(super) fn made_from(
    extension: &ClusterExtension,
    chosen: &Chosen,
    account: Option<&NamespacedName>,
) -> String {
    let spec = &extension.spec;
    let mut inputs = json!({
        "form": FORM,
        "uid": extension.metadata.uid,
        "bundle": [chosen.name, chosen.version, chosen.image, chosen.package],
        "namespace": spec.namespace,
        "config": spec.inline_config(),
        "deadline": spec.progress_deadline_minutes,
    });
    if let Some(account) = account {
        inputs["account"] = json!(account.name);
    }
    hex::encode(Sha256::digest(inputs.to_string()))
}

/// Returns true if the newest revision was made from this, and its certificates are not due.
pub(super) fn is_current(revisions: &[Arc<ClusterObjectSet>], made_from: &str, now: Timestamp) -> bool {
    newest(revisions).is_some_and(|revision| {
        let annotation = |key: &str| revision.annotations().get(key).map(String::as_str);
        revision.spec.lifecycle_state != LifecycleState::Archived
            && revision.metadata.deletion_timestamp.is_none()
            && annotation(labels::REVISION_MADE_FROM) == Some(made_from)
            && renewed_at(revision).is_none_or(|at| now < at)
    })
}

/// Returns true if the Secrets with the objects of the newest revision are among `secrets`.
pub(super) fn has_secrets(
    revisions: &[Arc<ClusterObjectSet>],
    secrets: &[Arc<PartialObjectMeta<Secret>>],
) -> bool {
    let phases = newest(revisions)
        .into_iter()
        .flat_map(|revision| revision.spec.phases.iter());
    let mut references = phases
        .flat_map(|phase| &phase.objects)
        .filter_map(|object| object.reference.as_ref());
    references.all(|reference| secrets.iter().any(|secret| secret.name_any() == reference.name))
}

/// Returns the newest revision.
pub(super) fn newest(revisions: &[Arc<ClusterObjectSet>]) -> Option<&Arc<ClusterObjectSet>> {
    revisions.iter().max_by_key(|revision| revision.spec.revision)
}

/// Returns when the certificates of a revision are renewed; `None` if OLM did not issue any.
pub(super) fn renewed_at(revision: &ClusterObjectSet) -> Option<Timestamp> {
    let text = revision.annotations().get(labels::REVISION_RENEWED_AT)?;
    text.parse().ok()
}

/// Returns the annotations of the ClusterObjectSet of a bundle, whose certificates are renewed at a time. Its objects are written as the
/// `account`, or as that of OLM.
pub(super) fn annotations(
    extension: &ClusterExtension,
    account: Option<&NamespacedName>,
    chosen: &Chosen,
    bundle: &Bundle,
    renewed_at: Option<Timestamp>,
) -> BTreeMap<String, String> {
    let made_from = made_from(extension, chosen, account);
    let account = account.cloned();
    let (namespace, name) = account.map(|account| (account.namespace, account.name)).unzip();
    let annotations = [
        (labels::EXTENSION_BUNDLE_NAME, Some(chosen.name.clone())),
        (labels::EXTENSION_BUNDLE_VERSION, Some(chosen.version.clone())),
        (labels::EXTENSION_BUNDLE_REFERENCE, Some(chosen.image.clone())),
        (labels::EXTENSION_PACKAGE_NAME, Some(chosen.package.clone())),
        (labels::REVISION_MADE_FROM, Some(made_from)),
        (labels::SERVICE_ACCOUNT_NAMESPACE, namespace),
        (labels::SERVICE_ACCOUNT_NAME, name),
        (labels::REVISION_RENEWED_AT, renewed_at.map(|at| at.to_string())),
        (PROPERTIES, bundle.csv.annotations().get(PROPERTIES).cloned()),
    ];
    let present = annotations.into_iter();
    present
        .filter_map(|(key, value)| Some((key.to_owned(), value?)))
        .collect()
}
