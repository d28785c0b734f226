//! The serving certificate: files that may be replaced at any time, or a self-signed one if there are none.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context as _;
use olm_runtime::tls::{KeyPair, LOOK_EVERY, TlsError};
use rustls::{ServerConfig, SupportedProtocolVersion};
use tokio::sync::watch;

use crate::front_proxy;

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

/// The last valid certificate and key of a source, and the settings for serving with them.
#[derive(Debug)]
pub struct Certificates {
    source: Source,
    pair: KeyPair,
    versions: &'static [&'static SupportedProtocolVersion],
}

impl Certificates {
    /// Reads the files, or creates a certificate.
    ///
    /// # Errors
    /// There is no certificate to serve with.
    pub fn load(
        source: Source,
        versions: &'static [&'static SupportedProtocolVersion],
    ) -> anyhow::Result<Self> {
        let pair = match source.read()? {
            Some(pair) => pair,
            None => {
                tracing::warn!("no certificate files found; using a self-signed certificate for localhost");
                self_signed(&source).context("cannot create a certificate")?
            }
        };
        let certificates = Self {
            source,
            pair,
            versions,
        };
        certificates.configured(&certificates.pair, None)?;
        Ok(certificates)
    }

    /// Returns the TLS configuration for `pair`. `known` verifies the API server's client certificate.
    fn configured(
        &self,
        pair: &KeyPair,
        known: Option<&front_proxy::FrontProxy>,
    ) -> Result<ServerConfig, TlsError> {
        let authorities = known
            .map(|known| known.authorities.as_slice())
            .unwrap_or_default();
        pair.config(authorities, self.versions, &PROTOCOLS)
    }

    /// Returns the TLS configuration, updated whenever the files or the API server's settings change. An
    /// invalid certificate is logged once, and the previous one stays in use. The returned future must be
    /// polled throughout.
    ///
    /// # Errors
    /// The certificate cannot be used.
    pub fn serve(
        mut self,
        mut known: watch::Receiver<front_proxy::FrontProxyConfig>,
    ) -> Result<
        (
            watch::Receiver<Arc<ServerConfig>>,
            impl Future<Output = ()> + Send,
        ),
        TlsError,
    > {
        let mut applied = known.borrow_and_update().clone();
        let config = self.configured(&self.pair, applied.as_deref())?;
        let (sender, receiver) = watch::channel(Arc::new(config));
        let keep = async move {
            let mut told = String::new();
            loop {
                tokio::select! {
                    Ok(()) = known.changed() => {}
                    () = tokio::time::sleep(LOOK_EVERY) => {}
                }
                let settings = known.borrow_and_update().clone();
                let pair = match self.look() {
                    Ok(pair) => {
                        told.clear();
                        pair
                    }
                    Err(error) => {
                        if error.to_string() != told {
                            tracing::error!(%error, "cannot reload certificate files, keeping the previous certificate");
                            told = error.to_string();
                        }
                        self.pair.clone()
                    }
                };
                if pair == self.pair && settings == applied {
                    continue;
                }
                match self.configured(&pair, settings.as_deref()) {
                    Ok(config) => {
                        self.pair = pair;
                        sender.send_replace(Arc::new(config));
                        tracing::info!("certificate or front proxy CA reloaded");
                    }
                    Err(error) => {
                        tracing::error!(%error, "cannot apply changed certificates, keeping the previous ones");
                    }
                }
                applied = settings;
            }
        };
        Ok((receiver, keep))
    }

    /// Reads the files again; returns the present pair if they are missing and may be.
    fn look(&self) -> Result<KeyPair, TlsError> {
        let pair = self.source.read()?.unwrap_or_else(|| self.pair.clone());
        if pair != self.pair {
            // An unusable pair must not keep new authorities out.
            self.configured(&pair, None)?;
        }
        Ok(pair)
    }
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
