//! Which hosts answer for a registry, read from the folder that containerd reads too.
//!
//! Layout: `<dir>/<registry>/hosts.toml` (a port is written `quay.io_5000_` or `quay.io:5000`), else
//! `<dir>/_default/hosts.toml`. The first folder that exists decides. Files are read at every pull, so an edit takes
//! effect without a restart, as it does for containerd.
//!
//! Known keys: `server`, and for it and for each `[host."URL"]`: `capabilities`, `ca`, `client`, `skip_verify`,
//! `override_path`, `[header]`. Others are ignored, as newer containerd versions keep adding some.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::reference::DEFAULT_REGISTRY;

/// The host that really answers for `docker.io`.
const DOCKER_HUB_HOST: &str = "registry-1.docker.io";
/// The folder consulted when a registry has none of its own.
const DEFAULT_FOLDER: &str = "_default";
/// The file within a registry's folder.
const HOSTS_FILE: &str = "hosts.toml";

/// Where to look for a registry's mirrors, and what command line flags override.
#[derive(Debug, Clone, Default)]
pub struct RegistryConfig {
    dir: Option<PathBuf>,
    plain_http: bool,
    skip_tls_verify: bool,
    root_ca: Vec<PathBuf>,
}

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
    /// Not the registry itself but a stand-in, which is told the registry's name with the query parameter `ns`.
    pub mirror: bool,
}

impl Host {
    /// Scheme and authority, as shown in errors.
    pub fn origin(&self) -> String {
        let scheme = if self.plain_http { "http" } else { "https" };
        format!("{scheme}://{}", self.authority)
    }
}

impl RegistryConfig {
    /// Configuration from a containerd style folder. A folder that does not exist counts as empty.
    pub fn from_dir(dir: impl Into<PathBuf>) -> Self {
        Self {
            dir: Some(dir.into()),
            ..Self::default()
        }
    }

    /// Plain http for every registry without an explicit scheme in its configuration.
    #[must_use]
    pub fn with_plain_http(self, plain_http: bool) -> Self {
        Self { plain_http, ..self }
    }

    /// Accept any certificate from every host.
    #[must_use]
    pub fn with_skip_tls_verify(self, skip_tls_verify: bool) -> Self {
        Self {
            skip_tls_verify,
            ..self
        }
    }

    /// Trust the certificate authorities of this PEM file too, for every host.
    #[must_use]
    pub fn with_root_ca(mut self, path: impl Into<PathBuf>) -> Self {
        self.root_ca.push(path.into());
        self
    }

    /// The hosts that answer for `registry`: its mirrors in the order of the file, then the registry itself.
    ///
    /// # Errors
    /// A configuration file that exists must be readable and valid; see [`RegistryConfigError`].
    pub fn hosts(&self, registry: &str) -> Result<Vec<Host>, RegistryConfigError> {
        let mut hosts = match self.file_for(registry) {
            Some(path) => self.read(&path, registry)?,
            None => vec![self.server(registry)],
        };
        if self.skip_tls_verify {
            hosts.iter_mut().for_each(|host| host.skip_verify = true);
        }
        for host in &mut hosts {
            host.ca.extend(self.root_ca.iter().cloned());
        }
        Ok(hosts)
    }

    /// The first existing folder decides, even when it has no `hosts.toml` (then there are no mirrors).
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

    fn server(&self, registry: &str) -> Host {
        let authority = if registry == DEFAULT_REGISTRY {
            DOCKER_HUB_HOST
        } else {
            registry
        };
        Host {
            plain_http: self.plain_http || is_loopback(registry),
            authority: authority.to_owned(),
            path: "/v2".to_owned(),
            capabilities: Capabilities::ALL,
            skip_verify: false,
            ca: Vec::new(),
            client: Vec::new(),
            headers: BTreeMap::new(),
            mirror: false,
        }
    }

    fn read(&self, path: &Path, registry: &str) -> Result<Vec<Host>, RegistryConfigError> {
        let text = std::fs::read_to_string(path).map_err(|source| RegistryConfigError::Read {
            path: path.to_owned(),
            source,
        })?;
        let file: HostsFile = toml::from_str(&text).map_err(|source| RegistryConfigError::Parse {
            path: path.to_owned(),
            source: Box::new(source),
        })?;
        let mut hosts = Vec::new();
        for (url, entry) in file.host {
            let entry: HostEntry = entry.try_into().map_err(|source| RegistryConfigError::Parse {
                path: path.to_owned(),
                source: Box::new(source),
            })?;
            hosts.push(Host {
                mirror: true,
                ..entry.host(path, &url)?
            });
        }
        let own = self.server(registry);
        let server = match file.server.as_deref().filter(|server| !server.is_empty()) {
            Some(url) => file.own.host(path, url)?,
            None => Host {
                authority: own.authority.clone(),
                plain_http: own.plain_http,
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
    // A table, not a map: the order of the file is the order of trying.
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
        let invalid = || RegistryConfigError::Url {
            path: file.to_owned(),
            url: url.to_owned(),
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
            mirror: false,
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
    let mut capabilities = Capabilities {
        pull: false,
        resolve: false,
        push: false,
    };
    for word in words {
        match word.to_ascii_lowercase().as_str() {
            "pull" => capabilities.pull = true,
            "resolve" => capabilities.resolve = true,
            "push" => capabilities.push = true,
            _ => {
                return Err(RegistryConfigError::Capability {
                    path: file.to_owned(),
                    host: host.to_owned(),
                    capability: word,
                });
            }
        }
    }
    Ok(capabilities)
}

/// Registries on the machine itself speak plain http unless configured, as for Docker and containerd.
fn is_loopback(registry: &str) -> bool {
    let host = match registry.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|b| b.is_ascii_digit()) => host,
        _ => registry,
    };
    let host = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Writes `folder -> hosts.toml text` pairs and returns the configuration with its folder.
    fn config(files: &[(&str, &str)]) -> (tempfile::TempDir, RegistryConfig) {
        let dir = tempfile::tempdir().expect("folder");
        for (folder, text) in files {
            std::fs::create_dir_all(dir.path().join(folder)).expect("folder");
            std::fs::write(dir.path().join(folder).join(HOSTS_FILE), text).expect("file");
        }
        let config = RegistryConfig::from_dir(dir.path());
        (dir, config)
    }

    fn origins(config: &RegistryConfig, registry: &str) -> Vec<String> {
        let hosts = config.hosts(registry).expect("hosts");
        hosts
            .iter()
            .map(|host| format!("{}{}", host.origin(), host.path))
            .collect()
    }

    #[test]
    fn without_configuration_the_registry_itself_answers() {
        let config = RegistryConfig::default();
        assert_eq!(origins(&config, "quay.io"), ["https://quay.io/v2"]);
        assert_eq!(origins(&config, "docker.io"), ["https://registry-1.docker.io/v2"]);
        for loopback in ["localhost:5000", "127.0.0.1:5000", "[::1]:5000", "localhost"] {
            assert_eq!(origins(&config, loopback), [format!("http://{loopback}/v2")]);
        }
        let missing = RegistryConfig::from_dir("/does/not/exist");
        assert_eq!(origins(&missing, "quay.io"), ["https://quay.io/v2"]);
    }

    #[test]
    fn flags_override_scheme_and_verification() {
        let config = RegistryConfig::default()
            .with_plain_http(true)
            .with_skip_tls_verify(true);
        assert_eq!(origins(&config, "quay.io"), ["http://quay.io/v2"]);
        assert!(config.hosts("quay.io").expect("hosts")[0].skip_verify);
    }

    #[test]
    fn mirrors_come_in_the_order_of_the_file_then_the_server() {
        let (_dir, config) = config(&[(
            "quay.io",
            r#"
server = "https://quay.io"
[host."http://z-first:5000"]
  capabilities = ["pull", "resolve"]
[host."https://a-second"]
  skip_verify = true
"#,
        )]);
        assert_eq!(
            origins(&config, "quay.io"),
            [
                "http://z-first:5000/v2",
                "https://a-second/v2",
                "https://quay.io/v2"
            ]
        );
        let hosts = config.hosts("quay.io").expect("hosts");
        assert_eq!(
            hosts[0].capabilities,
            Capabilities {
                pull: true,
                resolve: true,
                push: false
            }
        );
        assert_eq!(hosts[1].capabilities, Capabilities::ALL);
        assert_eq!(
            [hosts[0].skip_verify, hosts[1].skip_verify, hosts[2].skip_verify],
            [false, true, false]
        );
        assert_eq!(
            [hosts[0].mirror, hosts[1].mirror, hosts[2].mirror],
            [true, true, false]
        );
    }

    #[test]
    fn default_folder_answers_for_all_others_and_keeps_their_own_server() {
        let (_dir, config) = config(&[
            ("_default", "[host.\"http://10.0.0.1:5000\"]\n"),
            ("quay.io_8443_", "server = \"http://other\"\n"),
        ]);
        assert_eq!(
            origins(&config, "ghcr.io"),
            ["http://10.0.0.1:5000/v2", "https://ghcr.io/v2"]
        );
        assert_eq!(
            origins(&config, "docker.io"),
            ["http://10.0.0.1:5000/v2", "https://registry-1.docker.io/v2"]
        );
        assert_eq!(origins(&config, "quay.io:8443"), ["http://other/v2"]);
        assert!(config.hosts("quay.io:8443").expect("hosts")[0].mirror);
    }

    #[test]
    fn a_folder_without_hosts_file_hides_the_default() {
        let (dir, config) = config(&[("_default", "[host.\"http://mirror\"]\n")]);
        std::fs::create_dir(dir.path().join("quay.io")).expect("folder");
        assert_eq!(origins(&config, "quay.io"), ["https://quay.io/v2"]);
    }

    #[test]
    fn paths_are_completed_or_overridden() {
        let (_dir, config) = config(&[(
            "quay.io",
            r#"
[host."https://m/proxy"]
[host."https://m/v2"]
[host."https://m/v2/quay-cache"]
  override_path = true
[host."https://m/"]
  override_path = true
"#,
        )]);
        assert_eq!(
            origins(&config, "quay.io"),
            [
                "https://m/proxy/v2",
                "https://m/v2",
                "https://m/v2/quay-cache",
                "https://m",
                "https://quay.io/v2"
            ]
        );
    }

    #[test]
    fn files_are_relative_to_the_folder_and_headers_are_kept() {
        let (dir, config) = config(&[(
            "quay.io",
            r#"
ca = "own.crt"
[host."https://m"]
  ca = ["a.crt", "/etc/b.crt"]
  client = [["c.cert", "c.key"], ["both.pem", ""]]
  [host."https://m".header]
    x-one = "1"
    x-two = ["2", "3"]
"#,
        )]);
        let hosts = config.hosts("quay.io").expect("hosts");
        let folder = dir.path().join("quay.io");
        assert_eq!(hosts[0].ca, [folder.join("a.crt"), PathBuf::from("/etc/b.crt")]);
        assert_eq!(
            hosts[0].client,
            [
                (folder.join("c.cert"), Some(folder.join("c.key"))),
                (folder.join("both.pem"), None)
            ]
        );
        assert_eq!(hosts[0].headers["x-two"], ["2", "3"]);
        assert_eq!(hosts[1].ca, [folder.join("own.crt")]);
    }

    #[test]
    fn broken_files_are_named() {
        for (text, expected) in [
            ("server = [", "cannot parse registry configuration"),
            ("server = \"ftp://x\"", "`ftp://x` is not a http or https URL"),
            (
                "[host.\"https://m\"]\ncapabilities = [\"fly\"]",
                "unknown capability `fly` of `https://m`",
            ),
            (
                "[host.\"https://m\"]\nskip_verify = \"yes\"",
                "cannot parse registry configuration",
            ),
        ] {
            let (dir, config) = config(&[("quay.io", text)]);
            let error = config.hosts("quay.io").expect_err(text).to_string();
            assert!(error.contains(expected), "{text}: {error}");
            let file = dir.path().join("quay.io").join(HOSTS_FILE);
            assert!(error.contains(&file.display().to_string()), "{error}");
        }
    }
}
