//! The ServiceAccount of a catalog's pod, to which others may add pull secrets. No I/O.

use k8s_openapi::api::core::v1::ServiceAccount;
use serde_json::{Value, json};

/// Returns a merge patch for an account of ours that differs from `wanted`; `None` if it matches. Pull secrets
/// are only added: others, such as an internal registry, add theirs to the same list.
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
    let missing = asked.iter().filter(|name| !there.contains(name));
    let all: Vec<Value> = there
        .iter()
        .chain(missing)
        .map(|name| json!({"name": name}))
        .collect();
    if all.len() > there.len() {
        patch["imagePullSecrets"] = json!(all);
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
