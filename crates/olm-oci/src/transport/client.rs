//! The HTTP client for one host.

use std::path::{Path, PathBuf};
use std::sync::Once;

use go_compat::error_chain;
use http::{HeaderMap, HeaderName, HeaderValue};
use reqwest::redirect::Policy;

use super::failure::Failure;
use crate::error::PullErrorClass;
use crate::host::Host;
use crate::limits::Limits;

const USER_AGENT: &str = concat!("olm-oci/", env!("CARGO_PKG_VERSION"));

/// Makes *ring* the process's TLS implementation, unless the program chose one already.
pub fn install_tls_provider() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // `Err` means that a provider is already installed, which is enough.
        let _ = rustls::crypto::ring::default_provider().install_default();
    });
}

/// Returns a client with the certificates that are configured for a host. It follows no redirects and
/// decompresses nothing.
pub(super) fn build_client(host: &Host, limits: &Limits) -> Result<reqwest::Client, Failure> {
    let mut builder = reqwest::Client::builder()
        .user_agent(USER_AGENT)
        .redirect(Policy::none())
        .referer(false)
        .no_gzip()
        .no_brotli()
        .no_zstd()
        .no_deflate()
        .connect_timeout(limits.connect)
        .tls_danger_accept_invalid_certs(host.skip_verify);
    let mut roots = Vec::new();
    for path in &host.ca {
        roots.extend(
            reqwest::Certificate::from_pem_bundle(&read_pem(path)?).map_err(|e| unusable_pem(path, &e))?,
        );
    }
    builder = builder.tls_certs_merge(roots);
    if let Some((certificate, key)) = used_pair(host) {
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
            format!("cannot set up TLS: {}", error_chain(&error)),
        )
    })
}

/// Returns the client certificate for a host: the HTTP library takes one, while containerd lets the server
/// choose.
fn used_pair(host: &Host) -> Option<&(PathBuf, Option<PathBuf>)> {
    let (used, unused) = host.client.split_first()?;
    if !unused.is_empty() {
        tracing::warn!(
            host = %host.authority,
            used = %used.0.display(),
            unused = unused.len(),
            "several client certificates are configured; only the first is used"
        );
    }
    Some(used)
}

/// Returns the headers that are configured for a host.
pub(super) fn configured_headers(host: &Host) -> Result<HeaderMap, Failure> {
    let mut headers = HeaderMap::new();
    for (name, values) in &host.headers {
        let unusable = || {
            Failure::new(
                PullErrorClass::Malformed,
                format!("invalid configured header `{name}`"),
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
    Ok(headers)
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
    let detail = format!("unusable certificate {}: {}", path.display(), error_chain(error));
    Failure::new(PullErrorClass::Malformed, detail)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(crate) fn host(path: &str) -> Host {
        Host {
            path: path.into(),
            mirror: true,
            ..Host::of_registry("m:5000")
        }
    }
}
