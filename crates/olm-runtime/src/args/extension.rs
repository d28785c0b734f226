//! Flags that both programs of OLM v1 have, with upstream's names.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use clap::Args;

use super::tls_profile::ProfileFlags;
use crate::admin::{Endpoints, SecureEndpoint};
use crate::tls::TlsFiles;

/// An address that may be empty.
type OptionalAddress = Option<SocketAddr>;

/// Where health and metrics are served, and the certificate. Both programs of OLM v1 have these flags.
#[derive(Debug, Clone, Args)]
pub struct ExtensionServing {
    /// Certificate to serve with, as PEM. Read again when it changes, as is the key.
    #[arg(long, default_value = "", value_name = "FILE")]
    tls_cert: String,
    /// Key of that certificate.
    #[arg(long, default_value = "", value_name = "FILE")]
    tls_key: String,
    #[command(flatten)]
    tls_profile: ProfileFlags,
    /// Where /metrics is served over TLS; with --tls-cert. If it is empty, the port that upstream's program has.
    #[arg(long, default_value = "", hide_default_value = true, value_name = "ADDRESS", value_parser = parse_optional_address)]
    metrics_bind_address: OptionalAddress,
    /// Where /healthz and /readyz are served.
    #[arg(long, default_value = ":8081", value_name = "ADDRESS", value_parser = parse_address)]
    health_probe_bind_address: SocketAddr,
}

impl ExtensionServing {
    /// Returns the error of flags that are each valid but do not fit together.
    pub fn usage_error(&self) -> Option<String> {
        if self.tls_cert.is_empty() != self.tls_key.is_empty() {
            return Some("tls-cert and tls-key flags must be used together".to_owned());
        }
        let is_plain = self.metrics_bind_address.is_some() && self.tls_cert.is_empty();
        is_plain.then(|| "metrics-bind-address requires tls-cert and tls-key flags".to_owned())
    }

    /// Returns the files to serve with; `None` to serve plain HTTP.
    pub fn tls(&self) -> Option<TlsFiles> {
        (!self.tls_cert.is_empty()).then(|| TlsFiles {
            certificate: PathBuf::from(&self.tls_cert),
            key: PathBuf::from(&self.tls_key),
            client_ca: None,
            profile: self.tls_profile.profile(),
        })
    }

    /// Returns the named cipher suites and curves that have no effect.
    pub fn without_effect(&self) -> Vec<&'static str> {
        self.tls_profile.without_effect()
    }

    /// Returns the addresses to serve health and metrics on; `port` is that of metrics if none is named.
    pub fn endpoints(&self, port: u16) -> Endpoints {
        let usual = SocketAddr::from((Ipv4Addr::UNSPECIFIED, port));
        Endpoints {
            health: self.health_probe_bind_address,
            secure: self.tls().map(|files| SecureEndpoint {
                address: self.metrics_bind_address.unwrap_or(usual),
                files,
            }),
        }
    }
}

/// Parses an address as Go does: without a host it is all addresses.
///
/// # Errors
/// The text is no address; the error is for users.
pub fn parse_address(text: &str) -> Result<SocketAddr, String> {
    let all = text
        .strip_prefix(':')
        .map(|port| format!("{}:{port}", Ipv4Addr::UNSPECIFIED));
    let address = all.as_deref().unwrap_or(text).parse();
    address
        .map_err(|_| format!("`{text}` is not an address: expected for example `:8443` or `127.0.0.1:8443`"))
}

fn parse_optional_address(text: &str) -> Result<OptionalAddress, String> {
    // Upstream's programs take 0 for none.
    if text.is_empty() || text == "0" {
        return Ok(None);
    }
    parse_address(text).map(Some)
}
