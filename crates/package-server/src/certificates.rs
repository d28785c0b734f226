//! The serving certificate: files that may be replaced at any time, or a self-signed one if there are none.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use olm_runtime::tls::{KeyPair, LOOK_EVERY, TlsError};
use rustls::{ServerConfig, SupportedProtocolVersion};
use tokio::sync::watch;

use crate::front_proxy;

/// Protocols in the order of preference.
const PROTOCOLS: [&[u8]; 2] = [b"h2", b"http/1.1"];

/// There is no certificate to serve with.
#[derive(Debug, thiserror::Error)]
pub enum CertificateError {
    /// The files cannot be used.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// A self-signed certificate could not be created.
    #[error("cannot create a certificate: {0}")]
    Made(#[from] rcgen::Error),
}

/// Source of the certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// Files that must exist.
    Files {
        /// The certificate and its intermediates.
        certificate: PathBuf,
        /// Its key.
        key: PathBuf,
    },
    /// Files, or a self-signed certificate for `localhost` if they do not exist.
    FilesOrSelfSigned {
        /// The certificate.
        certificate: PathBuf,
        /// Its key.
        key: PathBuf,
    },
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
    ) -> Result<Self, CertificateError> {
        let pair = match &source {
            Source::Files { certificate, key } => KeyPair::read(certificate, key)?,
            Source::FilesOrSelfSigned { certificate, key } if certificate.exists() && key.exists() => {
                KeyPair::read(certificate, key)?
            }
            Source::FilesOrSelfSigned { certificate, key } => {
                tracing::warn!("no certificate files found; using a self-signed certificate for localhost");
                self_signed(certificate, key)?
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
    ) -> Result<ServerConfig, CertificateError> {
        let authorities = known
            .map(|known| known.authorities.as_slice())
            .unwrap_or_default();
        Ok(pair.config(authorities, self.versions, &PROTOCOLS)?)
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
        CertificateError,
    > {
        let config = self.configured(&self.pair, known.borrow_and_update().as_deref())?;
        let (sender, receiver) = watch::channel(Arc::new(config));
        let keep = async move {
            let mut is_watched = true;
            let mut told = String::new();
            loop {
                let was_told = tokio::select! {
                    changed = known.changed(), if is_watched => {
                        is_watched = changed.is_ok();
                        is_watched
                    }
                    () = tokio::time::sleep(LOOK_EVERY) => false,
                };
                // Both may have changed at once.
                let are_others_known = was_told || known.has_changed().unwrap_or(false);
                let known = known.borrow_and_update().clone();
                let found = match self.look() {
                    Ok(None) => Ok(None),
                    Ok(Some(pair)) => self
                        .configured(&pair, known.as_deref())
                        .map(|config| Some((pair, config))),
                    Err(error) => Err(error),
                };
                let config = match found {
                    Ok(Some((pair, config))) => {
                        self.pair = pair;
                        told.clear();
                        Ok(config)
                    }
                    Ok(None) if are_others_known => self.configured(&self.pair, known.as_deref()),
                    Ok(None) => {
                        told.clear();
                        continue;
                    }
                    Err(error) => {
                        if error.to_string() != told {
                            tracing::error!(%error, "cannot reload certificate files, keeping the previous certificate");
                            told = error.to_string();
                        }
                        if !are_others_known {
                            continue;
                        }
                        self.configured(&self.pair, known.as_deref())
                    }
                };
                match config {
                    Ok(config) => {
                        sender.send_replace(Arc::new(config));
                        tracing::info!("certificate or front proxy CA reloaded");
                    }
                    Err(error) => {
                        tracing::error!(%error, "cannot apply changed certificates, keeping the previous ones");
                    }
                }
            }
        };
        Ok((receiver, keep))
    }

    /// Reads the files again; `None` if they are unchanged, or never existed.
    fn look(&self) -> Result<Option<KeyPair>, CertificateError> {
        let (Source::Files { certificate, key } | Source::FilesOrSelfSigned { certificate, key }) =
            &self.source;
        if matches!(self.source, Source::FilesOrSelfSigned { .. }) && !(certificate.exists() && key.exists())
        {
            return Ok(None);
        }
        let pair = KeyPair::read(certificate, key)?;
        Ok((pair != self.pair).then_some(pair))
    }
}

fn self_signed(certificate: &Path, key: &Path) -> Result<KeyPair, CertificateError> {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()])?;
    Ok(KeyPair {
        certificate: made.cert.pem().into_bytes(),
        key: made.signing_key.serialize_pem().into_bytes(),
        certificate_path: certificate.to_owned(),
        key_path: key.to_owned(),
    })
}
