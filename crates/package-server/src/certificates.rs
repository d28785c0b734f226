//! The serving certificate: files that may be replaced at any time, or a self-signed one if there are none.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context as _;
use olm_runtime::tls::{KeyPair, TlsError, reloading};
use rustls::{ServerConfig, SupportedProtocolVersion};
use tokio::sync::watch;

use crate::front_proxy::FrontProxyConfig;

/// Protocols in the order of preference.
const PROTOCOLS: [&[u8]; 2] = [b"h2", b"http/1.1"];

/// Files of the certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    /// The certificate and its intermediates.
    pub certificate: PathBuf,
    /// Its key.
    pub key: PathBuf,
    /// True if a self-signed certificate for `localhost` is used while there are no files.
    pub or_self_signed: bool,
}

impl Source {
    /// Reads the files; `None` if they are missing and may be.
    fn read(&self) -> Result<Option<KeyPair>, TlsError> {
        if self.or_self_signed && !(self.certificate.exists() && self.key.exists()) {
            return Ok(None);
        }
        KeyPair::read(&self.certificate, &self.key).map(Some)
    }
}

/// Returns the TLS configuration, updated whenever the files or the API server's settings change. An invalid
/// certificate is logged once, and the previous one stays in use. The returned future must be polled
/// throughout.
///
/// # Errors
/// There is no certificate to serve with, or it cannot be used.
pub fn serve(
    source: Source,
    versions: &'static [&'static SupportedProtocolVersion],
    known: watch::Receiver<FrontProxyConfig>,
) -> anyhow::Result<(
    watch::Receiver<Arc<ServerConfig>>,
    impl Future<Output = ()> + Send + use<>,
)> {
    let mut last = match source.read()? {
        Some(pair) => pair,
        None => {
            tracing::warn!("no certificate files found; using a self-signed certificate for localhost");
            self_signed(&source).context("cannot create a certificate")?
        }
    };
    // Files that may be missing do not end the use of the last certificate.
    let read = move || -> Result<KeyPair, TlsError> {
        if let Some(pair) = source.read()? {
            last = pair;
        }
        Ok(last.clone())
    };
    // The authorities of the API server's client certificate.
    let configured = move |pair: &KeyPair, known: &FrontProxyConfig| {
        let authorities = known.as_ref().map(|known| known.authorities.as_slice());
        pair.config(authorities.unwrap_or_default(), versions, &PROTOCOLS)
    };
    Ok(reloading(read, known, configured)?)
}

fn self_signed(source: &Source) -> Result<KeyPair, rcgen::Error> {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()])?;
    Ok(KeyPair {
        certificate: made.cert.pem().into_bytes(),
        key: made.signing_key.serialize_pem().into_bytes(),
        certificate_path: source.certificate.clone(),
        key_path: source.key.clone(),
    })
}
