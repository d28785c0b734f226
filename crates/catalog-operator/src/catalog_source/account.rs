//! The ServiceAccount of a catalog's pod, to which others may add pull secrets. No I/O.
//!
//! The API server treats the list of pull secrets as one value, so field ownership cannot be split. An
//! annotation records which ones are ours.

use k8s_openapi::api::core::v1::ServiceAccount;
use olm_api::labels;
use serde_json::{Value, json};

/// Returns the annotation that records pull secrets as ours; `None` if there are none.
pub(super) fn note(secrets: &[&str]) -> Option<String> {
    (!secrets.is_empty()).then(|| json!(secrets).to_string())
}

/// Returns a merge patch for an account of ours that differs from `wanted`; `None` if it matches. Pull
/// secrets that others add, such as those of an internal registry, remain. Of ours, those no longer wanted
/// are removed.
pub(super) fn mend(live: &ServiceAccount, wanted: &ServiceAccount) -> Option<Value> {
    let mut patch = json!({});
    for (key, value) in wanted.metadata.labels.iter().flatten() {
        if live.metadata.labels.as_ref().and_then(|labels| labels.get(key)) != Some(value) {
            patch["metadata"]["labels"][key] = json!(value);
        }
    }
    let automount = wanted.automount_service_account_token;
    if automount.is_some() && automount != live.automount_service_account_token {
        patch["automountServiceAccountToken"] = json!(automount);
    }
    let (there, asked) = (secrets(live), secrets(wanted));
    let annotation = live.metadata.annotations.as_ref();
    let annotation = annotation.and_then(|annotations| annotations.get(labels::CATALOG_PULL_SECRETS));
    let noted: Vec<String> = annotation
        .and_then(|text| serde_json::from_str(text).ok())
        .unwrap_or_default();
    let is_ours = |name: &str| noted.iter().any(|own| own == name);
    let mut left: Vec<&str> = there.clone();
    left.retain(|name| asked.contains(name) || !is_ours(name));
    left.extend(asked.iter().filter(|name| !there.contains(name)));
    if left != there {
        let named: Vec<Value> = left.iter().map(|name| json!({"name": name})).collect();
        patch["imagePullSecrets"] = json!(named);
    }
    // A secret that existed before it was wanted is not ours to remove.
    let ours: Vec<&str> = asked
        .into_iter()
        .filter(|name| is_ours(name) || !there.contains(name))
        .collect();
    let note = note(&ours);
    if note.as_ref() != annotation {
        patch["metadata"]["annotations"][labels::CATALOG_PULL_SECRETS] = json!(note);
    }
    patch
        .as_object()
        .is_some_and(|fields| !fields.is_empty())
        .then_some(patch)
}

fn secrets(account: &ServiceAccount) -> Vec<&str> {
    let secrets = account.image_pull_secrets.iter().flatten();
    secrets.map(|secret| secret.name.as_str()).collect()
}
