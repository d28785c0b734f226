//! The CA bundle of a conversion webhook, as bundles bring it.
//!
//! Where the field was once required, scaffolding filled in `Cg==`, a line break. Since Kubernetes 1.31 a definition with a CA
//! bundle that holds no certificate is never established. Such a value authenticates no server, so it is left out: the server of
//! the webhook adds a CA, and olm-operator does so for webhooks that the ClusterServiceVersion describes.

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use serde_json::Value;

const CLIENT_CONFIG: &str = "/conversion/webhook/clientConfig";
const CA_BUNDLE: &str = "caBundle";

/// Takes a CA bundle without certificates off the spec of a CustomResourceDefinition.
pub(super) fn drop_unusable(spec: &mut Value) {
    let config = spec.pointer_mut(CLIENT_CONFIG).and_then(Value::as_object_mut);
    if let Some(config) = config
        && config.get(CA_BUNDLE).is_some_and(|bundle| !is_usable(bundle))
    {
        config.remove(CA_BUNDLE);
    }
}

/// True for PEM with at least one certificate and nothing that only resembles one, as the API server requires.
fn is_usable(bundle: &Value) -> bool {
    let Some(bytes) = bundle
        .as_str()
        .and_then(|text| olm_fbc::base64::decode(text).ok())
    else {
        return false;
    };
    let mut certificates = CertificateDer::pem_slice_iter(&bytes).peekable();
    certificates.peek().is_some() && certificates.all(|certificate| certificate.is_ok())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn kept(bundle: &Value) -> bool {
        let mut spec = json!({"conversion": {"strategy": "Webhook", "webhook": {
            "clientConfig": {"caBundle": bundle, "service": {"name": "s"}}, "conversionReviewVersions": ["v1"],
        }}});
        let before = spec.clone();
        drop_unusable(&mut spec);
        assert_eq!(
            spec["conversion"]["webhook"]["clientConfig"]["service"]["name"],
            "s"
        );
        spec == before
    }

    #[test]
    fn a_ca_bundle_without_a_certificate_is_left_out() {
        let pem =
            |label: &str, body: &str| format!("-----BEGIN {label}-----\n{body}\n-----END {label}-----\n");
        let certificate = pem("CERTIFICATE", "AAAA");
        for (text, expected) in [
            ("\n", false),
            ("", false),
            ("no certificate", false),
            (pem("PUBLIC KEY", "AAAA").as_str(), false),
            (pem("CERTIFICATE", "?").as_str(), false),
            (certificate.as_str(), true),
            (format!("# ours\n{certificate}{certificate}").as_str(), true),
            (
                format!("{certificate}{}", pem("CERTIFICATE", "?")).as_str(),
                false,
            ),
        ] {
            assert_eq!(kept(&olm_fbc::base64::encode(text).into()), expected, "{text:?}");
        }
        assert!(!kept(&json!("no base64")));
        assert!(!kept(&json!(1)));
    }

    #[test]
    fn a_definition_without_a_conversion_webhook_stays_as_it_is() {
        for mut spec in [json!({}), json!({"conversion": {"strategy": "None"}}), json!(1)] {
            let before = spec.clone();
            drop_unusable(&mut spec);
            assert_eq!(spec, before);
        }
    }
}
