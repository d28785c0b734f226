//! A Secret with a serving certificate, without its private key: that is never decoded, let alone kept.

use std::borrow::Cow;

use k8s_openapi::{ByteString, NamespaceResourceScope, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use kube::Resource;
use olm_api::labels;
use serde::Deserialize;

use crate::component;

/// What is read of a Secret.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
pub(crate) struct ServingSecret {
    #[serde(default)]
    pub(crate) metadata: ObjectMeta,
    /// Certificates; empty once a Secret is pruned that holds none of ours.
    #[serde(default)]
    data: Certificates,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
struct Certificates {
    /// Certificate of the CA, as PEM.
    #[serde(default, rename = "olmCAKey")]
    ca: Pem,
    /// Certificate of the server, as PEM.
    #[serde(default, rename = "tls.crt")]
    certificate: Pem,
}

/// Text of a Secret; empty when it is none.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(from = "Option<ByteString>")]
struct Pem(String);

impl From<Option<ByteString>> for Pem {
    fn from(bytes: Option<ByteString>) -> Self {
        let bytes = bytes.map(|bytes| bytes.0).unwrap_or_default();
        Self(String::from_utf8(bytes).unwrap_or_default())
    }
}

impl ServingSecret {
    /// Drops what nobody reads.
    pub(crate) fn prune(&mut self) {
        component::keep_labels(&mut self.metadata);
        if let Some(annotations) = &mut self.metadata.annotations {
            annotations.retain(|key, _| key == labels::CA_HASH);
        }
        if self.ca_hash().is_none() {
            self.data = Certificates::default();
        }
    }

    /// Hash of its CA, as it says; `None` when it is no Secret of a serving certificate.
    pub(crate) fn ca_hash(&self) -> Option<&str> {
        let annotations = self.metadata.annotations.as_ref()?;
        annotations.get(labels::CA_HASH).map(String::as_str)
    }

    /// Certificate of the CA, as PEM; empty when there is none.
    pub(crate) fn ca(&self) -> &str {
        &self.data.ca.0
    }

    /// Certificate of the server, as PEM; empty when there is none.
    pub(crate) fn certificate(&self) -> &str {
        &self.data.certificate.0
    }
}

impl Resource for ServingSecret {
    type DynamicType = ();
    type Scope = NamespaceResourceScope;

    fn kind((): &()) -> Cow<'_, str> {
        "Secret".into()
    }

    fn group((): &()) -> Cow<'_, str> {
        "".into()
    }

    fn version((): &()) -> Cow<'_, str> {
        "v1".into()
    }

    fn plural((): &()) -> Cow<'_, str> {
        "secrets".into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
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
    fn contents_that_are_no_text_read_as_missing() {
        let secret: ServingSecret =
            serde_json::from_value(json!({"metadata": {}, "data": {"tls.crt": "/w==", "olmCAKey": null}}))
                .unwrap();
        assert_eq!((secret.ca(), secret.certificate()), ("", ""));
        let empty: ServingSecret = serde_json::from_value(json!({"metadata": {}})).unwrap();
        assert_eq!(empty.ca(), "");
    }
}
