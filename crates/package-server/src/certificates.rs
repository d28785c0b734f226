//! The serving certificate: files that may be replaced at any time, or one made here when there are none.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig, SupportedProtocolVersion};
use tokio::sync::watch;

use crate::front_proxy;

/// How often the files are looked at. A mounted Secret is replaced within a minute or so of its change.
const LOOK_EVERY: Duration = Duration::from_secs(10);

/// Protocols in the order in which they are preferred.
const PROTOCOLS: [&[u8]; 2] = [b"h2", b"http/1.1"];

/// Why there is no certificate to serve with.
#[derive(Debug, thiserror::Error)]
pub enum CertificateError {
    /// A file cannot be read.
    #[error("cannot read {path}: {source}")]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// A file is no PEM of what it should be.
    #[error("{path} has no {what} in PEM form")]
    Pem {
        /// Which.
        path: PathBuf,
        /// What it should have.
        what: &'static str,
    },
    /// They do not fit each other, or cannot be used.
    #[error("the certificate cannot be used: {0}")]
    Unusable(#[from] rustls::Error),
    /// The authorities of the API server cannot be used.
    #[error("certificates of the API server cannot be verified: {0}")]
    Authorities(#[from] rustls::server::VerifierBuilderError),
    /// None could be made.
    #[error("cannot make a certificate: {0}")]
    Made(#[from] rcgen::Error),
}

/// Where the certificate comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// Files that have to be there.
    Files {
        /// The certificate, and those between it and the authority.
        certificate: PathBuf,
        /// Its key.
        key: PathBuf,
    },
    /// Files, or a certificate for `localhost` where they are not there.
    FilesOrSelfSigned {
        /// The certificate.
        certificate: PathBuf,
        /// Its key.
        key: PathBuf,
    },
}

/// A certificate and its key, as they were read.
#[derive(Debug, Clone, PartialEq, Eq)]
struct KeyPair {
    certificate: Vec<u8>,
    key: Vec<u8>,
}

/// The certificate and key of a source, read again and again.
#[derive(Debug)]
pub struct Certificates {
    source: Source,
    pair: KeyPair,
    versions: &'static [&'static SupportedProtocolVersion],
}

impl Certificates {
    /// Reads the files, or makes a certificate.
    ///
    /// # Errors
    /// There is none to serve with.
    pub fn load(
        source: Source,
        versions: &'static [&'static SupportedProtocolVersion],
    ) -> Result<Self, CertificateError> {
        let pair = match &source {
            Source::Files { certificate, key } => read(certificate, key)?,
            Source::FilesOrSelfSigned { certificate, key } if certificate.exists() && key.exists() => {
                read(certificate, key)?
            }
            Source::FilesOrSelfSigned { .. } => {
                tracing::warn!("there are no certificate files; serving with a certificate for localhost");
                self_signed()?
            }
        };
        let certificates = Self {
            source,
            pair,
            versions,
        };
        certificates.config(None)?;
        Ok(certificates)
    }

    /// What to serve with now, to whom the API server's certificate is known as `known`.
    fn config(&self, known: Option<&front_proxy::FrontProxy>) -> Result<ServerConfig, CertificateError> {
        let (certificate, key) = match &self.source {
            Source::Files { certificate, key } | Source::FilesOrSelfSigned { certificate, key } => {
                (certificate, key)
            }
        };
        let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&self.pair.certificate).collect();
        let chain = chain
            .ok()
            .filter(|chain| !chain.is_empty())
            .ok_or_else(|| CertificateError::Pem {
                path: certificate.clone(),
                what: "certificate",
            })?;
        let key = PrivateKeyDer::from_pem_slice(&self.pair.key).map_err(|_| CertificateError::Pem {
            path: key.clone(),
            what: "key",
        })?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(self.versions)?;
        let authorities = known
            .map(|known| known.authorities.as_slice())
            .unwrap_or_default();
        let builder = if authorities.is_empty() {
            builder.with_no_client_auth()
        } else {
            let mut roots = RootCertStore::empty();
            roots.add_parsable_certificates(authorities.iter().cloned());
            let verifier = WebPkiClientVerifier::builder_with_provider(roots.into(), provider)
                // Probes have none.
                .allow_unauthenticated()
                .build()?;
            builder.with_client_cert_verifier(verifier)
        };
        let mut config = builder.with_single_cert(chain, key)?;
        config.alpn_protocols = PROTOCOLS.map(<[u8]>::to_vec).to_vec();
        Ok(config)
    }

    /// What to serve with, and from now on also whenever the files or what is known of the API server have changed. What cannot
    /// be used is told, and what was used before goes on. The second part is to be awaited all the while.
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
        let config = self.config(known.borrow_and_update().as_deref())?;
        let (sender, receiver) = watch::channel(Arc::new(config));
        let keep = async move {
            let mut is_watched = true;
            loop {
                let is_other = tokio::select! {
                    changed = known.changed(), if is_watched => {
                        is_watched = changed.is_ok();
                        is_watched
                    }
                    () = tokio::time::sleep(LOOK_EVERY) => self.look(),
                };
                if !is_other {
                    continue;
                }
                let known = known.borrow_and_update().clone();
                match self.config(known.as_deref()) {
                    Ok(config) => {
                        sender.send_replace(Arc::new(config));
                        tracing::info!(
                            "serving with a changed certificate, or changed authorities of the API server"
                        );
                    }
                    Err(error) => tracing::error!(%error, "going on with what was used before"),
                }
            }
        };
        Ok((receiver, keep))
    }

    /// Reads the files again; true when they are others.
    fn look(&mut self) -> bool {
        let (Source::Files { certificate, key } | Source::FilesOrSelfSigned { certificate, key }) =
            &self.source;
        if matches!(self.source, Source::FilesOrSelfSigned { .. }) && !(certificate.exists() && key.exists())
        {
            return false;
        }
        match read(certificate, key) {
            Ok(pair) => {
                let is_other = pair != self.pair;
                self.pair = pair;
                is_other
            }
            Err(error) => {
                tracing::warn!(%error, "the certificate cannot be looked at");
                false
            }
        }
    }
}

fn read(certificate: &Path, key: &Path) -> Result<KeyPair, CertificateError> {
    let read = |path: &Path| {
        fs::read(path).map_err(|source| CertificateError::File {
            path: path.to_owned(),
            source,
        })
    };
    Ok(KeyPair {
        certificate: read(certificate)?,
        key: read(key)?,
    })
}

fn self_signed() -> Result<KeyPair, CertificateError> {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()])?;
    Ok(KeyPair {
        certificate: made.cert.pem().into_bytes(),
        key: made.signing_key.serialize_pem().into_bytes(),
    })
}
