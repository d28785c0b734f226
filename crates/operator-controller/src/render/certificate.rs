//! Certificates of webhook servers: the names of their objects, and what each provider needs in the rendered ones.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::ByteString;
use olm_runtime::plan::SecretData;
use serde_json::{Value, json};

use super::bundle::Bundle;
use super::object::{annotate, limited_name};
use super::validate::deployment_of;

/// Group of Issuers and Certificates.
const CERT_MANAGER: &str = "cert-manager.io";
/// Annotation by which cert-manager writes the CA of a Certificate, as `namespace/name`, into an object.
const INJECT_CA_FROM: &str = "cert-manager.io/inject-ca-from";
/// Annotation of a Service by which OpenShift writes a certificate for it into the named Secret.
const SERVING_CERT_SECRET_NAME: &str = "service.beta.openshift.io/serving-cert-secret-name";
/// Annotation by which OpenShift writes the CA of its certificates into an object.
const INJECT_CABUNDLE: &str = "service.beta.openshift.io/inject-cabundle";
/// Validity period of cert-manager's certificates, and the time before expiry at which it renews them, as Go writes durations.
const LIFETIME: (&str, &str) = ("17520h0m0s", "24h0m0s");
/// Longest common name of a certificate, in characters.
const MAX_COMMON_NAME: usize = 64;

/// Issuer of the certificates of webhook servers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CertificateProvider {
    /// cert-manager: the bundle gets a self-signed Issuer and a Certificate for each server.
    CertManager,
    /// The service-ca operator of OpenShift.
    OpenshiftServiceCa,
    /// OLM issues them, as for ClusterServiceVersions. By name of each Deployment that serves webhooks ([`endpoints`]), a certificate
    /// whose Secret becomes an object of the bundle.
    Own(BTreeMap<String, OwnCertificate>),
}

/// A certificate that OLM has issued.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnCertificate {
    /// Data of its Secret, with the private key.
    pub data: SecretData,
    /// The CAs that clients of the server trust, as PEM.
    pub ca_bundle: String,
    /// Hash of the CA that signed the certificate. Pods restart when it changes.
    pub ca_hash: String,
}

/// A Deployment that serves webhooks, and the names of the objects in front of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// Name of the Deployment.
    pub deployment: String,
    /// Name of the Service.
    pub service: String,
    /// Name of the Secret with the certificate; its keys are `tls.crt` and `tls.key`.
    pub secret: String,
    /// Namespace of all of them.
    pub namespace: String,
}

impl Endpoint {
    /// Returns the endpoint of a Deployment.
    pub(super) fn new(deployment: &str, namespace: &str) -> Self {
        let service = limited_name(&deployment.replace('.', "-"), "service");
        Self {
            deployment: deployment.to_owned(),
            secret: limited_name(&service, "cert"),
            service,
            namespace: namespace.to_owned(),
        }
    }

    /// Returns the DNS names by which the API server calls the server; the first is the shortest.
    pub fn hosts(&self) -> [String; 3] {
        let host = format!("{}.{}", self.service, self.namespace);
        let [svc, cluster] = ["svc", "svc.cluster.local"].map(|domain| format!("{host}.{domain}"));
        [host, svc, cluster]
    }
}

/// Returns the endpoints of all Deployments that serve webhooks, in the order of the bundle.
pub fn endpoints(bundle: &Bundle, namespace: &str) -> Vec<Endpoint> {
    let webhooks = bundle.csv.spec.webhook_definitions.iter();
    let serving: BTreeSet<&str> = webhooks.map(deployment_of).collect();
    let deployments = bundle.csv.spec.install.deployments().iter();
    deployments
        .filter(|entry| serving.contains(entry.name.as_str()))
        .map(|entry| Endpoint::new(&entry.name, namespace))
        .collect()
}

impl CertificateProvider {
    /// Issuers that are used where the cluster serves a kind, given as group, version and kind. The first is preferred, as by upstream.
    pub const OF_CLUSTER: [(&'static str, &'static str, &'static str, Self); 2] = [
        (CERT_MANAGER, "v1", "Certificate", Self::CertManager),
        (
            "config.openshift.io",
            "v1",
            "ClusterVersion",
            Self::OpenshiftServiceCa,
        ),
    ];

    /// Returns OLM as the issuer, with empty certificates: to see which objects a bundle has, without their contents.
    pub fn without_content(endpoints: &[Endpoint]) -> Self {
        let empty = |endpoint: &Endpoint| {
            let certificate = OwnCertificate {
                data: SecretData::new(BTreeMap::<String, Vec<u8>>::new()),
                ca_bundle: String::new(),
                ca_hash: String::new(),
            };
            (endpoint.deployment.clone(), certificate)
        };
        Self::Own(endpoints.iter().map(empty).collect())
    }

    /// Adds to a webhook configuration or a CustomResourceDefinition what makes clients trust the server. `client_config`
    /// is the JSON pointer of the map that takes a CA.
    pub(super) fn trust(&self, object: &mut Value, client_config: &str, endpoint: &Endpoint) {
        match self {
            Self::CertManager => {
                let source = format!("{}/{}", endpoint.namespace, endpoint.secret);
                annotate(object, INJECT_CA_FROM, &source);
            }
            Self::OpenshiftServiceCa => annotate(object, INJECT_CABUNDLE, "true"),
            Self::Own(issued) => {
                if let Some(certificate) = issued.get(&endpoint.deployment)
                    && let Some(Value::Object(config)) = object.pointer_mut(client_config)
                {
                    let bundle = json!(ByteString(certificate.ca_bundle.clone().into_bytes()));
                    config.insert("caBundle".to_owned(), bundle);
                }
            }
        }
    }

    /// Adds to the Service what makes the provider issue a certificate for it.
    pub(super) fn request(&self, service: &mut Value, endpoint: &Endpoint) {
        if *self == Self::OpenshiftServiceCa {
            annotate(service, SERVING_CERT_SECRET_NAME, &endpoint.secret);
        }
    }

    /// Returns the hash of the CA to note on the pods; `None` if the provider's certificates are not known here.
    pub(super) fn ca_hash(&self, endpoint: &Endpoint) -> Option<&str> {
        match self {
            Self::Own(issued) => Some(issued.get(&endpoint.deployment)?.ca_hash.as_str()),
            Self::CertManager | Self::OpenshiftServiceCa => None,
        }
    }

    /// Returns the objects that make the provider issue a certificate, or the Secret with it.
    pub(super) fn objects(&self, endpoint: &Endpoint) -> Vec<Value> {
        match self {
            Self::CertManager => {}
            Self::OpenshiftServiceCa => return Vec::new(),
            Self::Own(issued) => {
                let secret = json!({
                    "apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/tls",
                    "metadata": {"name": endpoint.secret, "namespace": endpoint.namespace},
                });
                let certificate = issued.get(&endpoint.deployment);
                return Vec::from_iter(certificate.map(|certificate| certificate.data.within(&secret)));
            }
        }
        let api_version = format!("{CERT_MANAGER}/v1");
        let issuer = limited_name(&endpoint.secret, "selfsigned-issuer");
        let hosts = endpoint.hosts();
        let common_name = hosts.first().filter(|host| host.len() <= MAX_COMMON_NAME);
        let (duration, renew_before) = LIFETIME;
        vec![
            json!({
                "apiVersion": api_version, "kind": "Issuer",
                "metadata": {"name": issuer, "namespace": endpoint.namespace},
                "spec": {"selfSigned": {}},
            }),
            json!({
                "apiVersion": api_version, "kind": "Certificate",
                "metadata": {"name": endpoint.secret, "namespace": endpoint.namespace},
                "spec": {
                    "secretName": endpoint.secret,
                    // cert-manager rejects a longer one, which upstream does not expect.
                    "commonName": common_name,
                    "dnsNames": hosts,
                    "usages": ["server auth"],
                    "duration": duration,
                    "renewBefore": renew_before,
                    "issuerRef": {"name": issuer},
                },
            }),
        ]
    }
}
