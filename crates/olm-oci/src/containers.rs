//! Hosts of an image by the configuration of podman, skopeo and buildah: `registries.conf` and `certs.d`.
//!
//! Formats: containers-registries.conf(5), containers-certs.d(5). Files are read at every pull, so an edit
//! takes effect at once.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::host::{Capabilities, Host, RegistryConfigError, read_toml};
use crate::reference::Reference;
use crate::user_credentials::variable;

/// Configuration file below `etc/containers` and below `.config/containers` of a home.
const REGISTRIES: &str = "registries.conf";
/// Folder beside it with additional files.
const DROP_INS: &str = "registries.conf.d";
/// Extension of these files.
const DROP_IN: &str = "conf";
/// Folder of certificates, with one folder per registry.
const CERTS: &str = "certs.d";
/// Folder of a user's own configuration, below the home.
pub(crate) const USER: &str = ".config/containers";
/// The machine's configuration, below the root.
pub(crate) const SYSTEM: &str = "etc/containers";

/// Locations of the container tools' configuration.
#[derive(Debug, Clone)]
pub struct ContainerTools {
    root: PathBuf,
    home: Option<PathBuf>,
    registries_conf: Option<PathBuf>,
}

impl ContainerTools {
    /// Returns the configuration of the machine and of the user with this home.
    pub fn new(home: Option<PathBuf>) -> Self {
        Self {
            root: PathBuf::from("/"),
            home,
            registries_conf: None,
        }
    }

    /// Returns the configuration that the environment of this process names: `HOME`, `CONTAINERS_REGISTRIES_CONF`.
    pub fn of_environment() -> Self {
        Self::new(variable("HOME")).with_registries_conf(variable("CONTAINERS_REGISTRIES_CONF"))
    }

    /// Reads this file instead of `registries.conf`. It must exist.
    #[must_use]
    pub fn with_registries_conf(self, file: Option<PathBuf>) -> Self {
        Self {
            registries_conf: file,
            ..self
        }
    }

    /// Reads the machine's configuration below another root.
    #[must_use]
    pub fn with_root(self, root: impl Into<PathBuf>) -> Self {
        Self {
            root: root.into(),
            ..self
        }
    }

    /// Returns the folders of the user and of the machine, in this order.
    pub(crate) fn folders(&self) -> Vec<PathBuf> {
        let user = self.home.as_ref().map(|home| home.join(USER));
        user.into_iter().chain([self.root.join(SYSTEM)]).collect()
    }

    /// Returns the hosts to read an image from: the mirrors of its entry in their order, then the registry
    /// itself.
    ///
    /// # Errors
    /// A file that exists cannot be read, or contradicts itself.
    pub(crate) fn hosts(&self, image: &Reference) -> Result<Vec<Host>, RegistryConfigError> {
        let config = self.load()?;
        let Some((file, entry)) = config.find(image) else {
            return Ok(vec![self.host(image, false)?]);
        };
        let mirrors = entry
            .mirror
            .iter()
            .filter(|mirror| mirror.serves(image))
            .filter(|_| !entry.mirror_by_digest_only || image.digest().is_some());
        let own = (entry.location.as_str(), entry.insecure);
        let endpoints = mirrors
            .map(|mirror| (mirror.location.as_str(), mirror.insecure))
            .chain([own]);
        endpoints
            .map(|(location, insecure)| {
                let physical = entry
                    .rewrite(image, location)
                    .map_err(|reason| RegistryConfigError::invalid(file, reason))?;
                Ok(Host {
                    refusal: config.refusal(&physical),
                    capabilities: Capabilities {
                        push: false,
                        ..Capabilities::ALL
                    },
                    ..self.host(&physical, insecure)?
                })
            })
            .collect()
    }

    /// Returns the host to push an image to. Mirrors and other locations are not used for a push.
    ///
    /// # Errors
    /// See [`ContainerTools::hosts`].
    pub(crate) fn own_host(&self, image: &Reference) -> Result<Host, RegistryConfigError> {
        let config = self.load()?;
        let insecure = config.find(image).is_some_and(|(_, entry)| entry.insecure);
        Ok(Host {
            refusal: config.refusal(image),
            ..self.host(image, insecure)?
        })
    }

    /// Returns the programs and files that are asked for credentials of any registry.
    ///
    /// # Errors
    /// See [`ContainerTools::hosts`].
    pub(crate) fn credential_helpers(&self) -> Result<Vec<String>, RegistryConfigError> {
        Ok(self.load()?.credential_helpers)
    }

    fn host(&self, image: &Reference, insecure: bool) -> Result<Host, RegistryConfigError> {
        let certificates = self.certificates(image.registry())?;
        let host = Host::of_registry(image.registry());
        Ok(Host {
            repository: Some(image.repository().to_owned()),
            skip_verify: insecure,
            http_fallback: insecure || host.http_fallback,
            ca: certificates.authorities,
            client: certificates.client,
            ..host
        })
    }

    /// Returns a registry's certificates from the first folder that has any.
    fn certificates(&self, registry: &str) -> Result<Certificates, RegistryConfigError> {
        let mut folders = self.folders();
        folders.push(self.root.join("etc/docker"));
        let folder = folders
            .into_iter()
            .map(|folder| folder.join(CERTS).join(registry))
            .find(|folder| folder.is_dir());
        let mut found = Certificates::default();
        for file in folder.iter().flat_map(|folder| files_in(folder)) {
            let ending = file.extension().and_then(|ending| ending.to_str());
            let lacks = |other: &Path, what: &str| {
                RegistryConfigError::invalid(&file, format!("{what} {} is missing", other.display()))
            };
            let (certificate, key) = (file.with_extension("cert"), file.with_extension("key"));
            match ending {
                Some("crt") => found.authorities.push(file),
                Some("cert") if !key.is_file() => {
                    return Err(lacks(&key, "its key (CA certificates end in .crt)"));
                }
                Some("cert") => found.client.push((certificate, Some(key))),
                Some("key") if !certificate.is_file() => {
                    return Err(lacks(&certificate, "its certificate"));
                }
                _ => {}
            }
        }
        Ok(found)
    }

    /// Loads the configuration from all files together.
    fn load(&self) -> Result<Config, RegistryConfigError> {
        let user = self.home.as_ref().map(|home| home.join(USER));
        let system = self.root.join(SYSTEM);
        let own = user
            .as_ref()
            .map(|folder| folder.join(REGISTRIES))
            .filter(|file| file.is_file());
        let everybodys = || {
            [
                Some(system.join(DROP_INS)),
                user.as_ref().map(|user| user.join(DROP_INS)),
            ]
        };
        // Unless a file is named, a user's own file replaces the machine's file and drop-ins.
        let (file, folders) = match (&self.registries_conf, own) {
            (Some(file), _) => (file.clone(), everybodys()),
            (None, Some(file)) => (file, [None, user.as_ref().map(|user| user.join(DROP_INS))]),
            (None, None) => (system.join(REGISTRIES), everybodys()),
        };
        let mut config = Config::default();
        if self.registries_conf.is_some() || file.is_file() {
            config.add(&file)?;
        }
        for folder in folders.iter().flatten() {
            let drop_ins = files_in(folder);
            for file in drop_ins
                .iter()
                .filter(|file| file.extension().is_some_and(|ending| ending == DROP_IN))
            {
                config.add(file)?;
            }
        }
        Ok(config)
    }
}

/// Returns a folder's files by name. A folder that is missing or unreadable has none, as for container tools.
fn files_in(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut files: Vec<PathBuf> = entries
        .map(|entry| entry.path())
        .filter(|path| path.is_file())
        .collect();
    files.sort();
    files
}

#[derive(Default)]
struct Certificates {
    authorities: Vec<PathBuf>,
    client: Vec<(PathBuf, Option<PathBuf>)>,
}

/// Entries by prefix, each with the file it came from.
#[derive(Default)]
struct Config {
    entries: BTreeMap<String, (PathBuf, Entry)>,
    credential_helpers: Vec<String>,
}

impl Config {
    /// Adds a file. Its entries replace those with the same prefix.
    fn add(&mut self, path: &Path) -> Result<(), RegistryConfigError> {
        let file: File = read_toml(path)?;
        let mut entries: BTreeMap<String, (PathBuf, Entry)> = BTreeMap::new();
        let old = file.registries.unwrap_or_default().into_entries();
        for entry in file.registry.into_iter().chain(old) {
            let entry = entry
                .complete()
                .map_err(|reason| RegistryConfigError::invalid(path, reason))?;
            // The first of several entries with one prefix in a file counts.
            entries
                .entry(entry.prefix.clone())
                .or_insert((path.to_owned(), entry));
        }
        self.entries.extend(entries);
        if let Some(helpers) = file.credential_helpers {
            self.credential_helpers = helpers;
        }
        Ok(())
    }

    /// Returns the entry with the longest prefix that matches an image.
    fn find(&self, image: &Reference) -> Option<&(PathBuf, Entry)> {
        let name = format!("{}/{}", image.registry(), image.repository());
        self.entries
            .values()
            .filter(|(_, entry)| matched(&name, &entry.prefix).is_some())
            .max_by_key(|(_, entry)| entry.prefix.len())
    }

    /// Returns why an image's own registry may not be asked; `None` if it may.
    fn refusal(&self, image: &Reference) -> Option<String> {
        let (file, entry) = self.find(image).filter(|(_, entry)| entry.blocked)?;
        Some(format!(
            "registry {} is blocked in {}",
            entry.prefix,
            file.display()
        ))
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
struct File {
    registry: Vec<Entry>,
    credential_helpers: Option<Vec<String>>,
    /// The older form, without mirrors.
    registries: Option<OldLists>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct OldLists {
    insecure: OldList,
    block: OldList,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct OldList {
    registries: Vec<String>,
}

impl OldLists {
    fn into_entries(self) -> Vec<Entry> {
        let mut entries: BTreeMap<String, Entry> = BTreeMap::new();
        let mut entry = |location: String, set: fn(&mut Entry)| {
            let found = entries.entry(location.clone()).or_default();
            found.location = location;
            set(found);
        };
        for location in self.insecure.registries {
            entry(location, |entry| entry.insecure = true);
        }
        for location in self.block.registries {
            entry(location, |entry| entry.blocked = true);
        }
        entries.into_values().collect()
    }
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
struct Entry {
    prefix: String,
    location: String,
    insecure: bool,
    blocked: bool,
    mirror_by_digest_only: bool,
    mirror: Vec<Mirror>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
struct Mirror {
    location: String,
    insecure: bool,
    pull_from_mirror: String,
}

impl Mirror {
    fn serves(&self, image: &Reference) -> bool {
        match self.pull_from_mirror.as_str() {
            "digest-only" => image.digest().is_some(),
            "tag-only" => image.digest().is_none(),
            _ => true,
        }
    }
}

impl Entry {
    /// Returns the entry with its prefix, checked.
    fn complete(mut self) -> Result<Self, String> {
        self.location = location(&self.location)?;
        self.prefix = location(&self.prefix)?;
        if self.prefix.is_empty() {
            self.prefix = self.location.clone();
        }
        let is_pattern = self.prefix.starts_with("*.");
        if self.prefix.is_empty() {
            return Err("an entry has neither location nor prefix".to_owned());
        }
        if self.location.is_empty() && !is_pattern {
            return Err(format!("{} has no location", self.prefix));
        }
        if is_pattern && self.prefix.contains(['/', '@', ':']) {
            return Err(format!(
                "invalid prefix {}: expected for example *.example.com",
                self.prefix
            ));
        }
        for mirror in &mut self.mirror {
            mirror.location = location(&mirror.location)?;
            if mirror.location.is_empty() {
                return Err(format!("a mirror of {} has no location", self.prefix));
            }
            let when = mirror.pull_from_mirror.as_str();
            if !matches!(when, "" | "all" | "digest-only" | "tag-only") {
                return Err(format!(
                    "unsupported pull-from-mirror {when:?} of mirror {}",
                    mirror.location
                ));
            }
        }
        Ok(self)
    }

    /// Returns the image's name at a location.
    fn rewrite(&self, image: &Reference, location: &str) -> Result<Reference, String> {
        let name = image.to_string();
        // A pattern without a location changes how a registry is reached, not its name.
        if location.is_empty() {
            return Ok(image.clone());
        }
        let end = matched(&name, &self.prefix).unwrap_or_default();
        let rewritten = format!("{location}{}", name.get(end..).unwrap_or_default());
        rewritten
            .parse()
            .map_err(|error| format!("location {location} of {}: {error}", self.prefix))
    }
}

/// Returns a prefix or location without its trailing slash.
fn location(text: &str) -> Result<String, String> {
    let trimmed = text.trim_end_matches('/');
    if trimmed.starts_with("http://") || trimmed.starts_with("https://") {
        return Err(format!("{text} must not have a scheme"));
    }
    Ok(trimmed.to_owned())
}

/// Returns how many bytes of a name a prefix matches; `None` if it does not match.
fn matched(name: &str, prefix: &str) -> Option<usize> {
    let end = match prefix.strip_prefix('*') {
        Some(domain) => {
            let at = name.find(domain)?;
            let is_host = !name.get(..at)?.contains('/');
            is_host.then_some(at + domain.len())?
        }
        None => name.starts_with(prefix).then_some(prefix.len())?,
    };
    let rest = name.get(end..)?;
    (rest.is_empty() || rest.starts_with([':', '/', '@'])).then_some(end)
}

#[cfg(test)]
mod tests;
