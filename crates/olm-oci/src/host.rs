//! A host that answers for a registry: how it is reached, and what it may be used for.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::PathBuf;

use crate::reference::DEFAULT_REGISTRY;

/// The host that really answers for `docker.io`.
const DOCKER_HUB_HOST: &str = "registry-1.docker.io";

/// Why a registry's configuration cannot be used; names the file.
#[derive(Debug, thiserror::Error)]
pub enum RegistryConfigError {
    /// The file exists but cannot be read.
    #[error("cannot read registry configuration {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The file is no TOML of the expected shape.
    #[error("cannot parse registry configuration {}: {source}", path.display())]
    Parse {
        /// The file.
        path: PathBuf,
        /// Where and why.
        source: Box<toml::de::Error>,
    },
    /// A host's or server's address is no http or https URL.
    #[error("registry configuration {}: `{url}` is not a http or https URL", path.display())]
    Url {
        /// The file.
        path: PathBuf,
        /// The address as written.
        url: String,
    },
    /// The file says what cannot be, or what forbids the image.
    #[error("{}: {reason}", path.display())]
    Invalid {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// A capability that does not exist.
    #[error("registry configuration {}: unknown capability `{capability}` of `{host}`: use pull, resolve, push", path.display())]
    Capability {
        /// The file.
        path: PathBuf,
        /// The host whose entry it is.
        host: String,
        /// The word as written.
        capability: String,
    },
}

/// What a host may be used for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capabilities {
    /// Fetching content by digest.
    pub pull: bool,
    /// Turning a tag into a digest, which needs trust in the host.
    pub resolve: bool,
    /// Uploading.
    pub push: bool,
}

impl Capabilities {
    /// Everything, which is what a host without a `capabilities` key may do.
    pub const ALL: Self = Self {
        pull: true,
        resolve: true,
        push: true,
    };
}

/// One host to ask, in the order of the list it came in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Host {
    /// Plain `http` instead of `https`.
    pub plain_http: bool,
    /// Plain `http` will do where nobody speaks `https`.
    pub http_fallback: bool,
    /// Host name and port if not the scheme's own.
    pub authority: String,
    /// API root without trailing slash: `/v2`, or what `override_path` says.
    pub path: String,
    /// What it may be used for.
    pub capabilities: Capabilities,
    /// Accept any certificate.
    pub skip_verify: bool,
    /// Extra certificate authorities, PEM files.
    pub ca: Vec<PathBuf>,
    /// Client certificates: PEM files of certificate and key (one file may hold both). Only the first is used; of more a log line
    /// says so.
    pub client: Vec<(PathBuf, Option<PathBuf>)>,
    /// Extra request headers.
    pub headers: BTreeMap<String, Vec<String>>,
    /// The repository there, where that is not the image's own.
    pub repository: Option<String>,
    /// Why it may not be asked.
    pub refusal: Option<String>,
    /// Not the registry itself but a stand-in, which is told the registry's name with the query parameter `ns`.
    pub mirror: bool,
}

impl Host {
    /// A registry as it is reached without any configuration. Those on this machine often have no certificate.
    pub(crate) fn of_registry(registry: &str) -> Self {
        let authority = if registry == DEFAULT_REGISTRY {
            DOCKER_HUB_HOST
        } else {
            registry
        };
        Self {
            plain_http: false,
            http_fallback: is_loopback(registry),
            authority: authority.to_owned(),
            path: "/v2".to_owned(),
            capabilities: Capabilities::ALL,
            skip_verify: false,
            ca: Vec::new(),
            client: Vec::new(),
            headers: BTreeMap::new(),
            repository: None,
            refusal: None,
            mirror: false,
        }
    }

    /// The registry by the name under which credentials for it are kept.
    pub fn registry(&self) -> &str {
        match self.authority.as_str() {
            DOCKER_HUB_HOST => DEFAULT_REGISTRY,
            authority => authority,
        }
    }

    /// Scheme and authority, as shown in errors.
    pub fn origin(&self) -> String {
        let scheme = if self.plain_http { "http" } else { "https" };
        format!("{scheme}://{}", self.authority)
    }
}

/// Whether a registry is on this machine.
fn is_loopback(registry: &str) -> bool {
    let host = match registry.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|b| b.is_ascii_digit()) => host,
        _ => registry,
    };
    let host = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}
