//! Hosts of a registry, read from the folder that containerd reads too.
//!
//! Layout: `<dir>/<registry>/hosts.toml` (a port is written `quay.io_5000_` or `quay.io:5000`), else
//! `<dir>/_default/hosts.toml`. The first folder that exists decides. Files are read at every pull, so an
//! edit takes effect without a restart, as it does for containerd.
//!
//! Without such a folder, a [`ContainerTools`] is used.
//!
//! Known keys: `server`, and for it and for each `[host."URL"]`: `capabilities`, `ca`, `client`,
//! `skip_verify`, `override_path`, `[header]`. Other keys are ignored, as newer containerd versions keep
//! adding some.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::containers::ContainerTools;
use crate::host::{Capabilities, Host, RegistryConfigError, read_toml};
use crate::policy;
use crate::reference::Reference;
use crate::user_credentials::variable;

/// Environment variable of users with the folder of `hosts.toml` files.
const FOLDER_VARIABLE: &str = "OPM_REGISTRY_CONFIG";
/// Folder of all registries that have none of their own.
const DEFAULT_FOLDER: &str = "_default";
/// File within a registry's folder.
const HOSTS_FILE: &str = "hosts.toml";

/// The location of a registry's mirrors, and the overrides of command line flags.
#[derive(Debug, Clone, Default)]
pub struct RegistryConfig {
    dir: Option<PathBuf>,
    tools: Option<ContainerTools>,
    insecure: bool,
    root_ca: Vec<PathBuf>,
}

impl RegistryConfig {
    /// Returns the configuration of a containerd style folder. A folder that does not exist counts as empty.
    pub fn from_dir(dir: impl Into<PathBuf>) -> Self {
        Self {
            dir: Some(dir.into()),
            ..Self::default()
        }
    }

    /// Returns the configuration of a user's command: of a containerd style folder if one is named, else of
    /// podman, skopeo and Docker.
    ///
    /// # Errors
    /// The folder does not exist.
    pub fn of_user(dir: Option<&Path>) -> Result<Self, RegistryConfigError> {
        let own = match dir {
            Some(dir) if !dir.is_dir() => {
                return Err(RegistryConfigError(format!(
                    "registry configuration {} is not a directory",
                    dir.display()
                )));
            }
            Some(dir) => Self::from_dir(dir),
            None => Self::default(),
        };
        Ok(own.with_tools(ContainerTools::of_environment()))
    }

    /// Does the same as [`RegistryConfig::of_user`], with the folder in `OPM_REGISTRY_CONFIG`.
    ///
    /// # Errors
    /// The folder does not exist.
    pub fn of_environment() -> Result<Self, RegistryConfigError> {
        Self::of_user(variable(FOLDER_VARIABLE).as_deref())
    }

    /// Adds the configuration of podman, skopeo and Docker, read unless a folder is named. Its policy is
    /// always honoured.
    #[must_use]
    pub fn with_tools(self, tools: ContainerTools) -> Self {
        Self {
            tools: Some(tools),
            ..self
        }
    }

    /// Accepts any certificate from every host, and plain http from hosts that do not speak https.
    #[must_use]
    pub fn with_insecure(self, insecure: bool) -> Self {
        Self { insecure, ..self }
    }

    /// Trusts the certificate authorities of this PEM file too, for every host.
    #[must_use]
    pub fn with_root_ca(mut self, path: impl Into<PathBuf>) -> Self {
        self.root_ca.push(path.into());
        self
    }

    /// Returns the hosts for an image: mirrors in the order of the configuration, then the registry itself.
    ///
    /// # Errors
    /// A configuration file that exists must be readable and valid, and a policy must not reject the image;
    /// see [`RegistryConfigError`].
    pub fn hosts(&self, image: &Reference) -> Result<Vec<Host>, RegistryConfigError> {
        self.unverified_by(image)?;
        let hosts = match &self.tools {
            Some(tools) if self.dir.is_none() => {
                let hosts = tools.hosts(image)?.into_iter();
                hosts.map(|host| self.over_any(host)).collect()
            }
            _ => self.hosts_of(image.registry())?,
        };
        Ok(hosts.into_iter().map(|host| self.finish(host)).collect())
    }

    /// Returns the host to push an image to; `None` if no configured host accepts pushes.
    ///
    /// # Errors
    /// See [`RegistryConfig::hosts`].
    pub fn push_host(&self, image: &Reference) -> Result<Option<Host>, RegistryConfigError> {
        let hosts = match &self.tools {
            Some(tools) if self.dir.is_none() => vec![self.over_any(tools.own_host(image)?)],
            _ => self.hosts_of(image.registry())?,
        };
        let host = hosts.into_iter().find(|host| host.capabilities.push);
        Ok(host.map(|host| self.finish(host)))
    }

    /// Returns the policy file that requires signatures of an image, which are not verified here.
    ///
    /// # Errors
    /// The policy rejects the image, or cannot be read.
    pub fn unverified_by(&self, image: &Reference) -> Result<Option<PathBuf>, RegistryConfigError> {
        match &self.tools {
            Some(tools) => policy::judge(tools, image),
            None => Ok(None),
        }
    }

    /// Returns the programs and files that `registries.conf` names for credentials of any registry. Empty for
    /// the usual files.
    ///
    /// # Errors
    /// A file cannot be read.
    pub fn credential_helpers(&self) -> Result<Vec<String>, RegistryConfigError> {
        match &self.tools {
            Some(tools) if self.dir.is_none() => tools.credential_helpers(),
            _ => Ok(Vec::new()),
        }
    }

    /// Applies `--insecure` to the hosts of a configuration that writes no schemes.
    fn over_any(&self, host: Host) -> Host {
        Host {
            http_fallback: self.insecure || host.http_fallback,
            ..host
        }
    }

    fn finish(&self, mut host: Host) -> Host {
        host.skip_verify |= self.insecure;
        host.ca.extend(self.root_ca.iter().cloned());
        host
    }

    fn hosts_of(&self, registry: &str) -> Result<Vec<Host>, RegistryConfigError> {
        match self.file_for(registry) {
            Some(path) => self.read(&path, registry),
            None => Ok(vec![self.over_any(Host::of_registry(registry))]),
        }
    }

    /// Returns the file for a registry. The first existing folder decides; without a `hosts.toml` there are
    /// no mirrors.
    fn file_for(&self, registry: &str) -> Option<PathBuf> {
        let dir = self.dir.as_deref()?;
        let mut folders = Vec::new();
        if let Some((host, port)) = registry.rsplit_once(':') {
            folders.push(format!("{host}_{port}_"));
        }
        folders.push(registry.to_owned());
        folders.push(DEFAULT_FOLDER.to_owned());
        let folder = folders
            .iter()
            .map(|name| dir.join(name))
            .find(|folder| folder.is_dir())?;
        let file = folder.join(HOSTS_FILE);
        file.is_file().then_some(file)
    }

    fn read(&self, path: &Path, registry: &str) -> Result<Vec<Host>, RegistryConfigError> {
        let file: HostsFile = read_toml(path)?;
        let mut hosts = Vec::new();
        for (url, entry) in file.host {
            let entry: HostEntry = entry
                .try_into()
                .map_err(RegistryConfigError::cannot("parse", path))?;
            hosts.push(Host {
                mirror: true,
                ..entry.host(path, &url)?
            });
        }
        let own = self.over_any(Host::of_registry(registry));
        let server = match file.server.as_deref().filter(|server| !server.is_empty()) {
            Some(url) => file.own.host(path, url)?,
            None => Host {
                authority: own.authority.clone(),
                plain_http: own.plain_http,
                http_fallback: own.http_fallback,
                path: own.path.clone(),
                ..file.own.host(path, &own.origin())?
            },
        };
        hosts.push(Host {
            mirror: server.authority != own.authority,
            ..server
        });
        Ok(hosts)
    }
}

#[derive(Debug, Deserialize)]
struct HostsFile {
    server: Option<String>,
    #[serde(flatten)]
    own: HostEntry,
    // A table, not a map: hosts are tried in the order of the file.
    #[serde(default)]
    host: toml::Table,
}

#[derive(Debug, Default, Deserialize)]
struct HostEntry {
    capabilities: Option<Vec<String>>,
    ca: Option<OneOrMany>,
    client: Option<Client>,
    #[serde(default)]
    skip_verify: bool,
    #[serde(default)]
    override_path: bool,
    #[serde(default)]
    header: BTreeMap<String, OneOrMany>,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum OneOrMany {
    One(String),
    Many(Vec<String>),
}

impl OneOrMany {
    fn into_vec(self) -> Vec<String> {
        match self {
            Self::One(one) => vec![one],
            Self::Many(many) => many,
        }
    }
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Client {
    One(String),
    Many(Vec<String>),
    Pairs(Vec<Vec<String>>),
}

impl HostEntry {
    fn host(self, file: &Path, url: &str) -> Result<Host, RegistryConfigError> {
        let invalid = || {
            RegistryConfigError(format!(
                "registry configuration {}: `{url}` is not a http or https URL",
                file.display()
            ))
        };
        // containerd completes an address without scheme the same way.
        let full = if url.contains("://") {
            url.to_owned()
        } else {
            format!("https://{url}")
        };
        let parsed = reqwest::Url::parse(&full).map_err(|_| invalid())?;
        let plain_http = match parsed.scheme() {
            "http" => true,
            "https" => false,
            _ => return Err(invalid()),
        };
        let name = parsed
            .host_str()
            .filter(|name| !name.is_empty())
            .ok_or_else(invalid)?;
        let authority = parsed
            .port()
            .map_or_else(|| name.to_owned(), |port| format!("{name}:{port}"));
        let mut path = parsed.path().trim_end_matches('/').to_owned();
        if !self.override_path && !path.ends_with("/v2") {
            path.push_str("/v2");
        }
        let folder = file.parent().unwrap_or(Path::new(""));
        Ok(Host {
            plain_http,
            http_fallback: false,
            authority,
            path,
            capabilities: parse_capabilities(self.capabilities, file, url)?,
            skip_verify: self.skip_verify,
            ca: self
                .ca
                .map(OneOrMany::into_vec)
                .unwrap_or_default()
                .iter()
                .map(|ca| folder.join(ca))
                .collect(),
            client: self
                .client
                .map(|client| client.into_pairs(folder))
                .unwrap_or_default(),
            headers: self
                .header
                .into_iter()
                .map(|(name, values)| (name, values.into_vec()))
                .collect(),
            ..Host::of_registry(name)
        })
    }
}

impl Client {
    fn into_pairs(self, folder: &Path) -> Vec<(PathBuf, Option<PathBuf>)> {
        let entries = match self {
            Self::One(one) => vec![vec![one]],
            Self::Many(many) => many.into_iter().map(|file| vec![file]).collect(),
            Self::Pairs(pairs) => pairs,
        };
        entries
            .into_iter()
            .filter_map(|entry| {
                let mut files = entry
                    .into_iter()
                    .filter(|file| !file.is_empty())
                    .map(|file| folder.join(file));
                files.next().map(|certificate| (certificate, files.next()))
            })
            .collect()
    }
}

fn parse_capabilities(
    words: Option<Vec<String>>,
    file: &Path,
    host: &str,
) -> Result<Capabilities, RegistryConfigError> {
    let Some(words) = words else {
        return Ok(Capabilities::ALL);
    };
    let mut capabilities = Capabilities::default();
    for word in words {
        match word.to_ascii_lowercase().as_str() {
            "pull" => capabilities.pull = true,
            "resolve" => capabilities.resolve = true,
            "push" => capabilities.push = true,
            _ => {
                return Err(RegistryConfigError(format!(
                    "registry configuration {}: unknown capability `{word}` of `{host}`: use pull, resolve, push",
                    file.display()
                )));
            }
        }
    }
    Ok(capabilities)
}

#[cfg(test)]
mod tests;
