//! A host of a registry: its address, its settings and what it may be used for.

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;

use crate::reference::DEFAULT_REGISTRY;

/// The real host of `docker.io`.
const DOCKER_HUB_HOST: &str = "registry-1.docker.io";

/// A registry's configuration cannot be used. The error names the file.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct RegistryConfigError(pub(crate) String);

impl RegistryConfigError {
    pub(crate) fn invalid(path: &Path, reason: impl fmt::Display) -> Self {
        Self(format!("{}: {reason}", path.display()))
    }

    /// Returns the error of something that cannot be done with a file, for example `read` it.
    pub(crate) fn cannot<E: fmt::Display>(verb: &'static str, path: &Path) -> impl FnOnce(E) -> Self {
        move |error| {
            Self(format!(
                "cannot {verb} registry configuration {}: {error}",
                path.display()
            ))
        }
    }
}

/// Reads a TOML file.
pub(crate) fn read_toml<T: DeserializeOwned>(path: &Path) -> Result<T, RegistryConfigError> {
    let text = std::fs::read_to_string(path).map_err(RegistryConfigError::cannot("read", path))?;
    toml::from_str(&text).map_err(RegistryConfigError::cannot("parse", path))
}

/// The requests that a host may be used for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Capabilities {
    /// Fetching content by digest.
    pub pull: bool,
    /// Turning a tag into a digest, which needs trust in the host.
    pub resolve: bool,
    /// Uploading.
    pub push: bool,
}

impl Capabilities {
    /// All capabilities, which is the default of a host without a `capabilities` key.
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
    /// Use plain `http` if the host does not speak `https`.
    pub http_fallback: bool,
    /// Host name and port if not the scheme's own.
    pub authority: String,
    /// API root without trailing slash: `/v2`, or the host's own path with `override_path`.
    pub path: String,
    /// The requests it may be used for.
    pub capabilities: Capabilities,
    /// Accept any certificate.
    pub skip_verify: bool,
    /// Extra certificate authorities, PEM files.
    pub ca: Vec<PathBuf>,
    /// Client certificates: PEM files of certificate and key (one file may hold both). Only the first is
    /// used; the rest are reported in the log.
    pub client: Vec<(PathBuf, Option<PathBuf>)>,
    /// Extra request headers.
    pub headers: BTreeMap<String, Vec<String>>,
    /// Repository on this host, if it differs from the image's.
    pub repository: Option<String>,
    /// Reason for which the host may not be asked.
    pub refusal: Option<String>,
    /// A mirror, which gets the registry's name in the query parameter `ns`.
    pub mirror: bool,
}

impl Host {
    /// Returns a registry's host without any configuration. Registries on this machine often have no
    /// certificate.
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

    /// Returns the name of the registry under which credentials for it are kept.
    pub fn registry(&self) -> &str {
        match self.authority.as_str() {
            DOCKER_HUB_HOST => DEFAULT_REGISTRY,
            authority => authority,
        }
    }

    /// Returns scheme and authority, as shown in errors.
    pub fn origin(&self) -> String {
        let scheme = if self.plain_http { "http" } else { "https" };
        format!("{scheme}://{}", self.authority)
    }
}

/// Returns whether a registry is on this machine.
fn is_loopback(registry: &str) -> bool {
    let host = match registry.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|b| b.is_ascii_digit()) => host,
        _ => registry,
    };
    let host = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}
