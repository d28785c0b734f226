//! A Secret with a serving certificate, without its private key, which is never decoded or kept. The API
//! server's `managedFields` show whether the key still belongs to the certificate.

use std::collections::BTreeMap;

use k8s_openapi::{ByteString, api::core::v1::Secret, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use kube::Resource;
use olm_api::labels;
use serde::Deserialize;

use crate::component;

/// The fields of a Secret that are used.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, Resource)]
#[resource(inherit = Secret)]
pub(crate) struct ServingSecret {
    #[serde(default)]
    pub(crate) metadata: ObjectMeta,
    /// Certificates; empty after pruning if the Secret is not OLM's.
    #[serde(default)]
    data: Certificates,
    /// True when the private key was not set by the same writer as the certificate.
    #[serde(skip)]
    is_key_changed: bool,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
struct Certificates {
    /// Certificate of the CA, as PEM.
    #[serde(default, rename = "olmCAKey")]
    ca: Option<ByteString>,
    /// Certificate of the server, as PEM.
    #[serde(default, rename = "tls.crt")]
    certificate: Option<ByteString>,
}

impl ServingSecret {
    /// Removes unused fields.
    pub(crate) fn prune(&mut self) {
        self.is_key_changed = is_key_changed(&self.metadata);
        component::keep_labels(&mut self.metadata);
        if let Some(annotations) = &mut self.metadata.annotations {
            annotations.retain(|key, _| key == labels::CA_HASH);
        }
        if self.ca_hash().is_none() {
            self.data = Certificates::default();
            self.is_key_changed = false;
        }
    }

    /// True when the private key was changed or removed since the certificate was set.
    pub(crate) fn is_key_changed(&self) -> bool {
        self.is_key_changed
    }

    /// Hash of its CA from the annotation; `None` for a Secret without a serving certificate.
    pub(crate) fn ca_hash(&self) -> Option<&str> {
        let annotations = self.metadata.annotations.as_ref()?;
        annotations.get(labels::CA_HASH).map(String::as_str)
    }

    /// Certificate of the CA, as PEM; may be empty.
    pub(crate) fn ca(&self) -> &str {
        text(self.data.ca.as_ref())
    }

    /// Certificate of the server, as PEM; may be empty.
    pub(crate) fn certificate(&self) -> &str {
        text(self.data.certificate.as_ref())
    }
}

/// Text of a Secret; empty when it is not UTF-8.
fn text(bytes: Option<&ByteString>) -> &str {
    let text = bytes.and_then(|bytes| str::from_utf8(&bytes.0).ok());
    text.unwrap_or_default()
}

/// True when other writers changed the key. The API server removes a field from its manager's entry as soon
/// as others change or remove it. Without a manager of the certificate nothing is known. Changes by a webhook
/// to our own write count as ours.
fn is_key_changed(metadata: &ObjectMeta) -> bool {
    let mut set: BTreeMap<Option<&str>, [bool; 2]> = BTreeMap::new();
    for entry in metadata.managed_fields.iter().flatten() {
        let data = entry.fields_v1.as_ref().and_then(|fields| fields.0.get("f:data"));
        let by_manager = set.entry(entry.manager.as_deref()).or_default();
        for (is_set, field) in by_manager.iter_mut().zip(["f:tls.crt", "f:tls.key"]) {
            *is_set |= data.is_some_and(|data| data.get(field).is_some());
        }
    }
    let mut setters = set.values().filter(|[certificate, _]| *certificate).peekable();
    setters.peek().is_some() && !setters.any(|[_, key]| *key)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn secret(annotations: serde_json::Value) -> ServingSecret {
        let encoded = |text: &str| serde_json::to_value(ByteString(text.into())).unwrap();
        let mut secret: ServingSecret = serde_json::from_value(json!({"apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/tls",
            "metadata": {"name": "s", "annotations": annotations},
            "data": {"olmCAKey": encoded("the CA"), "tls.crt": encoded("the certificate"), "tls.key": encoded("the key")}}))
        .unwrap();
        secret.prune();
        secret
    }

    #[test]
    fn the_private_key_is_not_kept_and_of_other_secrets_nothing_is() {
        let kept = secret(json!({"olmcahash": "h", "other": "x"}));
        assert_eq!(
            (kept.ca(), kept.certificate(), kept.ca_hash()),
            ("the CA", "the certificate", Some("h"))
        );
        let text = format!("{kept:?}");
        assert!(!text.contains("the key") && !text.contains("other"), "{text}");
        let other = secret(json!({}));
        assert_eq!((other.ca(), other.certificate()), ("", ""));
    }

    #[test]
    fn a_key_is_changed_when_who_set_the_certificate_did_not_set_it() {
        let entry = |manager: &str, operation: &str, fields: &[&str]| {
            let data: serde_json::Map<_, _> = fields
                .iter()
                .map(|name| (format!("f:{name}"), json!({})))
                .collect();
            json!({"manager": manager, "operation": operation, "fieldsV1": {"f:data": data}})
        };
        let (crt, key) = ("tls.crt", "tls.key");
        let pair = entry("olm-operator/csv", "Apply", &[crt, key]);
        let certificate = entry("olm-operator/csv", "Apply", &[crt]);
        for (what, entries, changed) in [
            ("ours", json!([pair]), false),
            ("upstream's", json!([entry("olm", "Update", &[crt, key])]), false),
            ("gone", json!([certificate]), true),
            (
                "another's",
                json!([certificate, entry("kubectl", "Update", &[key])]),
                true,
            ),
            (
                "set by two",
                json!([pair, entry("backup", "Update", &[crt])]),
                false,
            ),
            (
                "a webhook's",
                json!([certificate, entry("olm-operator/csv", "Update", &[key])]),
                false,
            ),
            ("unknown", json!([entry("kubectl", "Update", &[key])]), false),
            ("nothing", json!(null), false),
        ] {
            let mut secret: ServingSecret = serde_json::from_value(
                json!({"metadata": {"managedFields": entries, "annotations": {"olmcahash": "h"}}}),
            )
            .unwrap();
            secret.prune();
            assert_eq!(secret.is_key_changed(), changed, "{what}");
        }
    }

    #[test]
    fn contents_that_are_no_text_read_as_missing() {
        let secret: ServingSecret =
            serde_json::from_value(json!({"metadata": {}, "data": {"tls.crt": "/w==", "olmCAKey": null}}))
                .unwrap();
        assert_eq!((secret.ca(), secret.certificate()), ("", ""));
        let empty: ServingSecret = serde_json::from_value(json!({"metadata": {}})).unwrap();
        assert_eq!(empty.ca(), "");
    }
}
