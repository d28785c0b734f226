//! Certificate authority for tests, and clients that trust it.

use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, DistinguishedName, DnType, IsCa, Issuer, KeyPair};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::{TlsFiles, TlsProfile};

/// Certificate authority that signs test certificates.
pub(crate) struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pub(crate) pem: String,
}

impl Authority {
    pub(crate) fn new(name: &str) -> Self {
        let mut params = named(name, &[]);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let pem = params.self_signed(&key).unwrap().pem();
        let issuer = Issuer::new(params, key);
        Self { issuer, pem }
    }

    /// Returns a certificate with this common name and these organizations, and its key, both as PEM. It is also valid for `localhost`.
    pub(crate) fn sign(&self, name: &str, organizations: &[&str]) -> (String, String) {
        let key = KeyPair::generate().unwrap();
        let certificate = named(name, organizations).signed_by(&key, &self.issuer).unwrap();
        (certificate.pem(), key.serialize_pem())
    }

    /// Writes files of a server with a certificate of this authority; clients may use certificates of `clients`.
    pub(crate) fn files(&self, folder: &Path, clients: Option<&Self>) -> TlsFiles {
        let files = TlsFiles {
            certificate: folder.join("tls.crt"),
            key: folder.join("tls.key"),
            client_ca: clients.map(|_| folder.join("ca.crt")),
            profile: TlsProfile::default(),
        };
        let (certificate, key) = self.sign("server", &[]);
        std::fs::write(&files.certificate, certificate).unwrap();
        std::fs::write(&files.key, key).unwrap();
        if let (Some(path), Some(clients)) = (&files.client_ca, clients) {
            std::fs::write(path, &clients.pem).unwrap();
        }
        files
    }

    /// Connects to a server with a certificate of this authority. The client presents `identity`, if any.
    pub(crate) async fn connect(
        &self,
        address: SocketAddr,
        identity: Option<&(String, String)>,
        protocols: &[&[u8]],
    ) -> io::Result<TlsStream<TcpStream>> {
        let stream = TcpStream::connect(address).await?;
        self.shake_hands(stream, identity, protocols).await
    }

    /// Performs the handshake on an existing connection.
    pub(crate) async fn shake_hands(
        &self,
        stream: TcpStream,
        identity: Option<&(String, String)>,
        protocols: &[&[u8]],
    ) -> io::Result<TlsStream<TcpStream>> {
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(CertificateDer::pem_slice_iter(self.pem.as_bytes()).flatten());
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots);
        let mut config = match identity {
            None => builder.with_no_client_auth(),
            Some((certificate, key)) => {
                let chain = CertificateDer::pem_slice_iter(certificate.as_bytes());
                let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap();
                builder
                    .with_client_auth_cert(chain.flatten().collect(), key)
                    .unwrap()
            }
        };
        config.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
        let name = ServerName::try_from("localhost").unwrap();
        TlsConnector::from(Arc::new(config)).connect(name, stream).await
    }
}

fn named(name: &str, organizations: &[&str]) -> CertificateParams {
    let mut params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    for organization in organizations {
        params
            .distinguished_name
            .push(DnType::OrganizationName, *organization);
    }
    params
}
