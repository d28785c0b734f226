//! TLS versions, cipher suites and curves of a server.

use rustls::crypto::CryptoProvider;
use rustls::crypto::ring::default_provider;
use rustls::version::TLS13;
use rustls::{CipherSuite, NamedGroup, SupportedCipherSuite, SupportedProtocolVersion};

use super::VERSIONS;

static TLS13_ALONE: [&SupportedProtocolVersion; 1] = [&TLS13];

/// What a server offers. The default is everything that is supported.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TlsProfile {
    /// True if TLS 1.2 is not offered.
    pub only_tls13: bool,
    /// Cipher suites; `None` for all. All suites of TLS 1.3 are offered unless one of them is listed: Go, and so upstream's programs,
    /// cannot restrict them.
    pub ciphers: Option<Vec<CipherSuite>>,
    /// Curves; empty for all.
    pub curves: Vec<NamedGroup>,
}

impl TlsProfile {
    /// Returns the versions of TLS that are offered.
    pub fn versions(&self) -> &'static [&'static SupportedProtocolVersion] {
        if self.only_tls13 { &TLS13_ALONE } else { &VERSIONS }
    }

    pub(super) fn provider(&self) -> CryptoProvider {
        let mut provider = default_provider();
        if let Some(ciphers) = &self.ciphers {
            let is_listed = |suite: &SupportedCipherSuite| ciphers.contains(&suite.suite());
            let is_tls13 = |suite: &SupportedCipherSuite| matches!(suite, SupportedCipherSuite::Tls13(_));
            let suites = &mut provider.cipher_suites;
            let all_of_tls13 = !suites.iter().any(|suite| is_tls13(suite) && is_listed(suite));
            suites.retain(|suite| is_listed(suite) || (all_of_tls13 && is_tls13(suite)));
        }
        if !self.curves.is_empty() {
            let groups = &mut provider.kx_groups;
            groups.retain(|group| self.curves.contains(&group.name()));
        }
        provider
    }
}
