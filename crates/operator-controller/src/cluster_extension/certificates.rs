//! Certificates of webhooks: the issuer that the cluster has, or pairs that OLM issues.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use olm_api::labels;
use olm_runtime::certificate::{
    CertificateMaker, SECRET_KEY_CERTIFICATE, SECRET_KEY_PRIVATE_KEY, Unfit, ca_hash, inspect,
};
use olm_runtime::discovery::deadline;
use olm_runtime::error::ObserveError;
use olm_runtime::key::is_path_segment;
use olm_runtime::plan::SecretData;
use olm_runtime::{Timestamp, clock};

use super::ClusterExtensions;
use crate::render::{Bundle, CertificateProvider, Endpoint, OwnCertificate, endpoints};

/// Issuer of the certificates of a bundle, and when they are renewed.
#[derive(Debug)]
pub(super) struct Certificates {
    pub(super) provider: CertificateProvider,
    /// `None` if the issuer renews them, or there are none.
    pub(super) renewed_at: Option<Timestamp>,
}

/// Data of a Secret.
type Data = BTreeMap<String, Vec<u8>>;

impl ClusterExtensions {
    /// Returns the issuer of certificates for the webhooks of a bundle. Nothing is read for a bundle without webhooks.
    pub(super) async fn certificates(
        &self,
        bundle: &Bundle,
        namespace: &str,
    ) -> Result<Certificates, ObserveError> {
        let endpoints = endpoints(bundle, namespace);
        if !endpoints.is_empty() {
            for (group, version, kind, provider) in CertificateProvider::OF_CLUSTER {
                if self.discovery.find_kind(group, version, kind).await?.is_some() {
                    return Ok(Certificates {
                        provider,
                        renewed_at: None,
                    });
                }
            }
        }
        let now = clock::now();
        let mut issued = BTreeMap::new();
        let mut renewed_at = None;
        for endpoint in endpoints {
            let stored = self.stored(&endpoint).await?;
            let (certificate, until) = pair(&endpoint, stored, now)?;
            renewed_at = renewed_at.into_iter().chain([until]).min();
            issued.insert(endpoint.deployment, certificate);
        }
        Ok(Certificates {
            provider: CertificateProvider::Own(issued),
            renewed_at,
        })
    }

    /// Returns the data of the Secret of an endpoint.
    async fn stored(&self, endpoint: &Endpoint) -> Result<Data, ObserveError> {
        let Endpoint {
            secret, namespace, ..
        } = endpoint;
        if !is_path_segment(secret) || !is_path_segment(namespace) {
            return Ok(Data::new());
        }
        let api: Api<Secret> = Api::namespaced(self.client.clone(), namespace);
        let found = deadline(&format!("Secret {namespace}/{secret}"), api.get_opt(secret)).await?;
        let data = found.and_then(|secret| secret.data).unwrap_or_default();
        Ok(data.into_iter().map(|(key, value)| (key, value.0)).collect())
    }
}

/// Returns the stored pair if it can be used, else a new one, and when it is renewed.
fn pair(
    endpoint: &Endpoint,
    mut stored: Data,
    now: Timestamp,
) -> Result<(OwnCertificate, Timestamp), ObserveError> {
    let hosts = endpoint.hosts().to_vec();
    let keys = [
        labels::SECRET_KEY_CA,
        SECRET_KEY_CERTIFICATE,
        SECRET_KEY_PRIVATE_KEY,
    ];
    stored.retain(|key, _| keys.contains(&key.as_str()));
    let text = |key: &str| String::from_utf8_lossy(stored.get(key).map_or(&[], Vec::as_slice)).into_owned();
    let (ca, certificate) = (text(labels::SECRET_KEY_CA), text(SECRET_KEY_CERTIFICATE));
    let found = inspect(&ca, &certificate, &hosts, now);
    if let Ok(validity) = found
        && stored.len() == keys.len()
    {
        return Ok((own(ca, SecretData::new(stored)), validity.rotate_at));
    }
    let failed = |error: String| ObserveError::read(format!("a certificate for {}", endpoint.service), error);
    let issued = CertificateMaker
        .issue(&hosts, now)
        .map_err(|error| failed(error.to_string()))?;
    let mut certificate = own(issued.ca, issued.data);
    if matches!(found, Err(Unfit::Due(_))) {
        // Pods serve with the old certificate until they have restarted.
        certificate.ca_bundle += &ca;
    }
    Ok((certificate, issued.rotate_at))
}

fn own(ca: String, data: SecretData) -> OwnCertificate {
    OwnCertificate {
        data,
        ca_hash: ca_hash(&ca),
        ca_bundle: ca,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pair_is_used_until_it_is_due() {
        let endpoint = Endpoint {
            deployment: "demo".to_owned(),
            service: "demo-service".to_owned(),
            secret: "demo-service-cert".to_owned(),
            namespace: "ns".to_owned(),
        };
        let now: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        let (first, until) = pair(&endpoint, Data::new(), now).unwrap();
        assert_eq!(until.to_string(), "2027-12-31T00:00:00Z");
        let secret: Secret = serde_json::from_value(first.data.within(&serde_json::json!({}))).unwrap();
        let data: Data = secret
            .data
            .unwrap()
            .into_iter()
            .map(|(key, value)| (key, value.0))
            .collect();
        assert_eq!(
            pair(&endpoint, data.clone(), now).unwrap(),
            (first.clone(), until)
        );
        assert_ne!(pair(&endpoint, data.clone(), until).unwrap().0, first);
        let other = Endpoint {
            service: "other".to_owned(),
            ..endpoint.clone()
        };
        assert_ne!(pair(&other, data.clone(), now).unwrap().0, first, "another name");
        let without_key = data
            .into_iter()
            .filter(|(key, _)| key != SECRET_KEY_PRIVATE_KEY)
            .collect();
        assert_ne!(pair(&endpoint, without_key, now).unwrap().0, first);
    }
}
