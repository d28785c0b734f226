//! HTTP clients for one host: our own, and `oci-client` told to go to the same place.

use std::path::Path;
use std::sync::Once;
use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue};
use oci_client::client::{Certificate, CertificateEncoding, ClientConfig, ClientProtocol};

use super::failure::{Failure, told_chain};
use crate::error::PullErrorClass;
use crate::reference::Reference;
use crate::registry_config::Host;

/// How long connecting may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// How long the other side may stay silent.
const READ_TIMEOUT: Duration = Duration::from_secs(30);
pub(crate) const USER_AGENT: &str = concat!("olm-oci/", env!("CARGO_PKG_VERSION"));

/// Makes *ring* the process's TLS implementation, unless the program chose one already.
pub fn install_tls_provider() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // Err means that there is one, which is all that is needed.
        let _ = rustls::crypto::ring::default_provider().install_default();
    });
}

/// A client with the certificates and headers that are configured for a host.
pub(crate) fn build_client(host: &Host) -> Result<reqwest::Client, Failure> {
    let mut builder = reqwest::Client::builder()
        .user_agent(USER_AGENT)
        .connect_timeout(CONNECT_TIMEOUT)
        .read_timeout(READ_TIMEOUT)
        .tls_danger_accept_invalid_certs(host.skip_verify);
    let mut headers = HeaderMap::new();
    for (name, values) in &host.headers {
        let unusable = || {
            Failure::new(
                PullErrorClass::Malformed,
                format!("configured header `{name}` is invalid"),
            )
        };
        let name = HeaderName::from_bytes(name.as_bytes()).map_err(|_| unusable())?;
        for value in values {
            headers.append(
                name.clone(),
                HeaderValue::from_str(value).map_err(|_| unusable())?,
            );
        }
    }
    builder = builder.default_headers(headers);
    let mut roots = Vec::new();
    for path in &host.ca {
        roots.extend(
            reqwest::Certificate::from_pem_bundle(&read_pem(path)?).map_err(|e| unusable_pem(path, &e))?,
        );
    }
    builder = builder.tls_certs_merge(roots);
    if let Some((certificate, key)) = host.client.first() {
        let mut pem = read_pem(certificate)?;
        if let Some(key) = key {
            pem.push(b'\n');
            pem.extend(read_pem(key)?);
        }
        builder = builder
            .identity(reqwest::Identity::from_pem(&pem).map_err(|error| unusable_pem(certificate, &error))?);
    }
    builder.build().map_err(|error| {
        Failure::new(
            PullErrorClass::Unreachable,
            format!("cannot set up TLS: {}", told_chain(&error)),
        )
    })
}

fn read_pem(path: &Path) -> Result<Vec<u8>, Failure> {
    std::fs::read(path).map_err(|error| {
        Failure::new(
            PullErrorClass::Malformed,
            format!("cannot read certificate {}: {error}", path.display()),
        )
    })
}

fn unusable_pem(path: &Path, error: &reqwest::Error) -> Failure {
    let detail = format!(
        "certificate {} cannot be used: {}",
        path.display(),
        told_chain(error)
    );
    Failure::new(PullErrorClass::Malformed, detail)
}

/// The settings of [`build_client`] in the words of `oci-client`, for token exchange and pushing.
pub(crate) fn client_config(host: &Host) -> Result<ClientConfig, Failure> {
    let mut roots = Vec::new();
    for path in &host.ca {
        let encoding = CertificateEncoding::Pem;
        roots.push(Certificate {
            encoding,
            data: read_pem(path)?,
        });
    }
    Ok(ClientConfig {
        protocol: if host.plain_http {
            ClientProtocol::Http
        } else {
            ClientProtocol::Https
        },
        accept_invalid_certificates: host.skip_verify,
        extra_root_certificates: roots,
        read_timeout: Some(READ_TIMEOUT),
        connect_timeout: Some(CONNECT_TIMEOUT),
        user_agent: USER_AGENT,
        ..ClientConfig::default()
    })
}

/// The image as `oci-client` must see it, so that its requests go to this host and below this host's path.
///
/// `oci-client` always asks `<registry>/v2/<repository>`; what a configured path has before `/v2` becomes part of the
/// registry, what it has behind becomes part of the repository.
pub(crate) fn token_reference(host: &Host, image: &Reference) -> oci_client::Reference {
    let (before, behind) = match host.path.split_once("/v2") {
        Some((before, behind)) if behind.is_empty() || behind.starts_with('/') => (before, behind),
        _ => (host.path.as_str(), ""),
    };
    let repository = match behind.trim_matches('/') {
        "" => image.repository().to_owned(),
        prefix => format!("{prefix}/{}", image.repository()),
    };
    let registry = format!("{}{before}", host.authority);
    match image.tag() {
        Some(tag) => oci_client::Reference::with_tag(registry, repository, tag.to_owned()),
        None => oci_client::Reference::with_digest(registry, repository, image.selector().to_owned()),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::registry_config::Capabilities;

    pub(crate) fn host(path: &str) -> Host {
        Host {
            plain_http: false,
            authority: "m:5000".into(),
            path: path.into(),
            capabilities: Capabilities::ALL,
            skip_verify: false,
            ca: Vec::new(),
            client: Vec::new(),
            headers: Default::default(),
            mirror: true,
        }
    }

    #[test]
    fn token_reference_splits_the_path_at_the_api_version() {
        let image: Reference = "quay.io/a/b:v1".parse().expect("reference");
        for (path, expected) in [
            ("/v2", "m:5000/a/b:v1"),
            ("/v2/cache", "m:5000/cache/a/b:v1"),
            ("/proxy/v2", "m:5000/proxy/a/b:v1"),
        ] {
            assert_eq!(token_reference(&host(path), &image).to_string(), expected);
        }
    }
}
