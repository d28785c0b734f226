//! TLS certificates of a server, in files that may be replaced at any time.

#[cfg(test)]
pub(crate) mod authority;
mod profile;
#[cfg(test)]
mod tests;

use std::fmt;
use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustls::crypto::CryptoProvider;
use rustls::crypto::ring::default_provider;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::version::{TLS12, TLS13};
use rustls::{RootCertStore, ServerConfig, SupportedProtocolVersion};
use tokio::sync::watch;

pub use profile::TlsProfile;

/// Interval of checking the files. A mounted Secret is replaced within about a minute of its change.
pub const LOOK_EVERY: Duration = Duration::from_secs(10);
/// Maximum bytes of one of these files; a Secret cannot be larger.
const FILE_BYTES: u64 = 1 << 20;
/// Supported TLS versions.
pub static VERSIONS: [&SupportedProtocolVersion; 2] = [&TLS13, &TLS12];

/// Reason why there is no usable TLS configuration.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct TlsError(String);

impl TlsError {
    /// A file does not contain the expected PEM content.
    fn no_pem(path: &Path, what: &str) -> Self {
        Self(format!("{} has no {what} in PEM form", path.display()))
    }

    /// Certificate and key do not match, or cannot be used.
    fn unusable(error: &rustls::Error) -> Self {
        Self(format!("unusable certificate: {error}"))
    }
}

/// Certificate chain and key as PEM, with their paths.
#[derive(Clone, PartialEq, Eq)]
pub struct KeyPair {
    /// Certificate with its intermediates, as PEM.
    pub certificate: Vec<u8>,
    /// Private key, as PEM.
    pub key: Vec<u8>,
    /// Path of the certificate.
    pub certificate_path: PathBuf,
    /// Path of the key.
    pub key_path: PathBuf,
}

impl fmt::Debug for KeyPair {
    /// Shows only the paths; the key must not appear in logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyPair")
            .field("certificate_path", &self.certificate_path)
            .field("key_path", &self.key_path)
            .finish_non_exhaustive()
    }
}

impl KeyPair {
    /// Reads both files.
    ///
    /// # Errors
    /// If a file cannot be read.
    pub fn read(certificate: &Path, key: &Path) -> Result<Self, TlsError> {
        Ok(Self {
            certificate: read(certificate)?,
            key: read(key)?,
            certificate_path: certificate.to_owned(),
            key_path: key.to_owned(),
        })
    }

    /// Returns the TLS configuration for all cipher suites and curves. Client certificates are optional, and must be signed by one of
    /// `authorities`. Without authorities none are requested.
    ///
    /// # Errors
    /// If the certificate or the key cannot be used.
    pub fn config(
        &self,
        authorities: &[CertificateDer<'static>],
        versions: &[&'static SupportedProtocolVersion],
        protocols: &[&[u8]],
    ) -> Result<ServerConfig, TlsError> {
        self.config_with(default_provider(), authorities, versions, protocols)
    }

    /// Returns the TLS configuration as [`Self::config`], for the cipher suites and curves of `provider`.
    fn config_with(
        &self,
        provider: CryptoProvider,
        authorities: &[CertificateDer<'static>],
        versions: &[&'static SupportedProtocolVersion],
        protocols: &[&[u8]],
    ) -> Result<ServerConfig, TlsError> {
        let chain = certificates(&self.certificate, &self.certificate_path)?;
        let key = PrivateKeyDer::from_pem_slice(&self.key);
        let key = key.map_err(|_| TlsError::no_pem(&self.key_path, "key"))?;
        let provider = Arc::new(provider);
        let builder =
            ServerConfig::builder_with_provider(Arc::clone(&provider)).with_protocol_versions(versions);
        let builder = builder.map_err(|error| TlsError::unusable(&error))?;
        let builder = if authorities.is_empty() {
            builder.with_no_client_auth()
        } else {
            let mut roots = RootCertStore::empty();
            roots.add_parsable_certificates(authorities.iter().cloned());
            let verifier = WebPkiClientVerifier::builder_with_provider(roots.into(), provider)
                // Probes have no certificate.
                .allow_unauthenticated()
                .build()
                .map_err(|error| TlsError(format!("cannot verify client certificates: {error}")))?;
            builder.with_client_cert_verifier(verifier)
        };
        let config = builder.with_single_cert(chain, key);
        let mut config = config.map_err(|error| TlsError::unusable(&error))?;
        if !authorities.is_empty() {
            // A resumed session would not verify the client certificate again.
            config.session_storage = Arc::new(NoServerSessionStorage {});
            config.send_tls13_tickets = 0;
        }
        config.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
        Ok(config)
    }
}

/// Files of a server: its certificate, its key and, if clients may use certificates, their authorities.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsFiles {
    /// Certificate of the server.
    pub certificate: PathBuf,
    /// Key of the certificate.
    pub key: PathBuf,
    /// CA certificates of clients.
    pub client_ca: Option<PathBuf>,
    /// Versions, cipher suites and curves to serve with.
    pub profile: TlsProfile,
}

/// Contents of the files.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Contents {
    pair: KeyPair,
    authorities: Vec<CertificateDer<'static>>,
}

impl TlsFiles {
    fn read(&self) -> Result<Contents, TlsError> {
        let authorities = match &self.client_ca {
            None => Vec::new(),
            Some(path) => certificates(&read(path)?, path)?,
        };
        Ok(Contents {
            pair: KeyPair::read(&self.certificate, &self.key)?,
            authorities,
        })
    }

    /// Returns the configuration for `protocols`, updated whenever the files change. An unusable change is logged once, and the old
    /// configuration stays in use. The returned future does the updates and has to be polled all the time.
    ///
    /// # Errors
    /// If the files cannot be used initially.
    pub fn serve(
        self,
        protocols: &'static [&'static [u8]],
    ) -> Result<
        (
            watch::Receiver<Arc<ServerConfig>>,
            impl Future<Output = ()> + Send + use<>,
        ),
        TlsError,
    > {
        let (provider, versions) = (self.profile.provider(), self.profile.versions());
        let configured = move |read: &Contents, (): &()| {
            read.pair
                .config_with(provider.clone(), &read.authorities, versions, protocols)
        };
        reloading(move || self.read(), watch::channel(()).1, configured)
    }
}

/// Returns what `configured` makes of the content of files and of `settings`, updated whenever one of them changes. `read` reads
/// the files. An unusable change is logged once and the last usable content stays in use, also with new settings. The returned
/// future does the updates and has to be polled all the time.
///
/// # Errors
/// If the files cannot be used initially.
pub fn reloading<T, S>(
    mut read: impl FnMut() -> Result<T, TlsError> + Send,
    mut settings: watch::Receiver<S>,
    configured: impl Fn(&T, &S) -> Result<ServerConfig, TlsError> + Send,
) -> Result<
    (
        watch::Receiver<Arc<ServerConfig>>,
        impl Future<Output = ()> + Send,
    ),
    TlsError,
>
where
    T: PartialEq + Send,
    S: PartialEq + Clone + Send + Sync,
{
    let mut last = read()?;
    let mut applied = settings.borrow_and_update().clone();
    let (sender, receiver) = watch::channel(Arc::new(configured(&last, &applied)?));
    let keep = async move {
        let mut told = String::new();
        loop {
            tokio::select! {
                Ok(()) = settings.changed() => {}
                () = tokio::time::sleep(LOOK_EVERY) => {}
            }
            let given = settings.borrow_and_update().clone();
            let is_new = given != applied;
            let looked = read().and_then(|content| {
                if !is_new && content == last {
                    return Ok(None);
                }
                Ok(Some((configured(&content, &given)?, content)))
            });
            let config = match looked {
                Ok(changed) => {
                    // The error is resolved, and is logged again if it returns.
                    told.clear();
                    changed.map(|(config, content)| {
                        last = content;
                        config
                    })
                }
                Err(error) => {
                    if error.to_string() != told {
                        tracing::error!(%error, "cannot reload certificate files, keeping the previous certificate");
                        told = error.to_string();
                    }
                    // Unusable files must not keep new settings out.
                    is_new.then(|| configured(&last, &given).ok()).flatten()
                }
            };
            applied = given;
            if let Some(config) = config {
                sender.send_replace(Arc::new(config));
                tracing::info!("certificate files reloaded");
            }
        }
    };
    Ok((receiver, keep))
}

/// Subject of a certificate. Unreadable parts are empty.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Subject {
    /// Common name.
    pub common_name: String,
    /// Organizations, which Kubernetes uses as groups.
    pub organizations: Vec<String>,
}

impl Subject {
    /// Returns the subject of `certificate`, which must already be verified.
    pub fn of(certificate: &CertificateDer<'_>) -> Self {
        let Ok((_, certificate)) = x509_parser::parse_x509_certificate(certificate) else {
            return Self::default();
        };
        let subject = certificate.subject();
        let texts = subject.iter_organization().filter_map(|name| name.as_str().ok());
        // The last of several common names counts, as in Go and so in the API server.
        let name = subject.iter_common_name().last();
        Self {
            common_name: name
                .and_then(|name| name.as_str().ok())
                .unwrap_or_default()
                .to_owned(),
            organizations: texts.map(str::to_owned).collect(),
        }
    }
}

/// Returns the certificates of a file, which must have at least one.
fn certificates(pem: &[u8], path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    let all = all.ok().filter(|all| !all.is_empty());
    all.ok_or_else(|| TlsError::no_pem(path, "certificate"))
}

fn read(path: &Path) -> Result<Vec<u8>, TlsError> {
    let read = || {
        let mut content = Vec::new();
        File::open(path)?.take(FILE_BYTES + 1).read_to_end(&mut content)?;
        if content.len() as u64 > FILE_BYTES {
            return Err(io::Error::other("larger than 1 MiB, the limit of a Secret"));
        }
        Ok(content)
    };
    read().map_err(|error: io::Error| TlsError(format!("cannot read {}: {error}", path.display())))
}
