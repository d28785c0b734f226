//! A user's credentials, from the files and helpers of podman, skopeo and Docker, containers-auth.json(5).
//!
//! An unreadable file is not an error: public images need no credentials. When a registry refuses, its error
//! lists the files and helpers that were asked and their answers.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use crate::asked::Asked;
use crate::auth::Credentials;
use crate::credential::CredentialsError;
use crate::helper::{self, Helpers};
use crate::host::{Host, RegistryConfigError};
use crate::registry_config::RegistryConfig;

/// Entry of `credential-helpers` in `registries.conf` that means the files.
const FILES: &str = "containers-auth.json";
/// File of container tools below a folder of the session or of the user's configuration.
const AUTH: &str = "containers/auth.json";

/// Environment that decides where a user's credentials are.
#[derive(Debug, Clone, Default)]
pub struct AuthPlaces {
    /// `REGISTRY_AUTH_FILE`.
    pub auth_file: Option<PathBuf>,
    /// `DOCKER_CONFIG`, a folder.
    pub docker_config: Option<PathBuf>,
    /// `XDG_RUNTIME_DIR`; if unset, the user's own folder in `/run` is used.
    pub runtime_dir: Option<PathBuf>,
    /// `XDG_CONFIG_HOME`; if unset, `.config` in the home is used.
    pub config_home: Option<PathBuf>,
    /// The home folder.
    pub home: Option<PathBuf>,
}

/// A file of credentials.
#[derive(Debug, Clone, PartialEq, Eq)]
struct AuthFile {
    path: PathBuf,
    /// True if it has the form of `.dockercfg`.
    is_old: bool,
}

impl AuthPlaces {
    /// Returns the places that the environment of this process names.
    pub fn of_environment() -> Self {
        Self {
            auth_file: variable("REGISTRY_AUTH_FILE"),
            docker_config: variable("DOCKER_CONFIG"),
            runtime_dir: variable("XDG_RUNTIME_DIR"),
            config_home: variable("XDG_CONFIG_HOME"),
            home: variable("HOME"),
        }
    }

    /// Returns the files in the order in which they are asked.
    fn files(&self) -> Vec<AuthFile> {
        let docker = self
            .docker_config
            .clone()
            .or_else(|| Some(self.home.as_ref()?.join(".docker")))
            .map(|folder| folder.join("config.json"));
        let of_session = self
            .runtime_dir
            .as_ref()
            .map_or_else(own_run_file, |folder| Some(folder.join(AUTH)));
        let config = self
            .config_home
            .clone()
            .or_else(|| Some(self.home.as_ref()?.join(".config")))
            .map(|folder| folder.join(AUTH));
        let files = [
            self.auth_file.clone().or_else(|| docker.clone()),
            of_session,
            config,
            docker,
        ];
        let old = self.home.as_ref().map(|home| home.join(".dockercfg"));
        let mut found: Vec<AuthFile> = Vec::new();
        for (path, is_old) in files.into_iter().map(|path| (path, false)).chain([(old, true)]) {
            let file = path.map(|path| AuthFile { path, is_old });
            found.extend(file.filter(|file| !found.contains(file)));
        }
        found
    }
}

/// Returns the path in an environment variable; `None` if it is unset or empty.
pub(crate) fn variable(name: &str) -> Option<PathBuf> {
    let value = std::env::var_os(name).filter(|value| !value.is_empty());
    value.map(PathBuf::from)
}

/// Returns the file of container tools for a session without a folder of its own.
fn own_run_file() -> Option<PathBuf> {
    use std::os::unix::fs::MetadataExt as _;
    let user = std::fs::metadata("/proc/self").ok()?.uid();
    Some(PathBuf::from(format!("/run/containers/{user}/auth.json")))
}

impl Credentials {
    /// Returns a user's credentials for registries (host, with port if any). Helpers that the files name are
    /// run, as are the `helpers` from `registries.conf`. Earlier sources are tried first.
    pub fn of_user(places: &AuthPlaces, helpers: &[String], registries: &[String]) -> Self {
        let mut credentials = Self::anonymous();
        let mut asked = Asked::default();
        let files = [FILES.to_owned()];
        let order = if helpers.is_empty() { &files[..] } else { helpers };
        for name in order {
            if name == FILES {
                for file in places.files() {
                    credentials.merge(of_file(&file, registries, &mut asked));
                }
                continue;
            }
            for registry in registries {
                let (helped, said) = of_helper(name, registry, None);
                asked.note("registries.conf", registry, &said);
                credentials.merge(helped);
            }
        }
        credentials.with_asked(asked)
    }

    /// Returns a user's credentials for hosts. Those that may not be asked are left out.
    ///
    /// # Errors
    /// The configuration of container tools cannot be read.
    pub fn of_user_for(
        hosts: &[Host],
        places: &AuthPlaces,
        config: &RegistryConfig,
    ) -> Result<Self, RegistryConfigError> {
        let mut registries: Vec<String> = Vec::new();
        for host in hosts.iter().filter(|host| host.refusal.is_none()) {
            if !registries.iter().any(|known| known == host.registry()) {
                registries.push(host.registry().to_owned());
            }
        }
        Ok(Self::of_user(places, &config.credential_helpers()?, &registries))
    }
}

/// Returns a file's credentials for registries, with those of the helpers it names.
fn of_file(file: &AuthFile, registries: &[String], asked: &mut Asked) -> Credentials {
    let path = file.path.display().to_string();
    let text = match std::fs::read(&file.path) {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            asked.missing.push(path);
            return Credentials::anonymous();
        }
        read => read.map_err(|error| error.to_string()),
    };
    let read = text.and_then(|text| {
        let found = Credentials::read(&text, &path, file.is_old, Some(registries));
        let helpers: Helpers = match file.is_old {
            true => Helpers::default(),
            false => serde_json::from_slice(&text).unwrap_or_default(),
        };
        Ok((found.map_err(|error| reason(&error))?, helpers))
    });
    let (mut found, helpers) = match read {
        Ok(read) => read,
        Err(reason) => {
            for registry in registries {
                asked.note(&path, registry, &reason);
            }
            return Credentials::anonymous();
        }
    };
    for registry in registries {
        let Some(name) = helpers.of(registry) else {
            let said = match found.for_registry(registry).is_empty() {
                true => "has no credentials for it",
                false => "has credentials",
            };
            asked.note(&path, registry, said);
            continue;
        };
        let (mut helped, said) = of_helper(name, registry, Some(&file.path));
        asked.note(&path, registry, &said);
        helped.merge(found);
        found = helped;
    }
    found
}

/// Returns a helper's credentials for a registry, and its answer as text.
fn of_helper(name: &str, registry: &str, file: Option<&Path>) -> (Credentials, String) {
    let program = helper::program(name);
    let named = file.map_or_else(String::new, |file| format!(", configured in {}", file.display()));
    let (text, credentials) = match helper::ask(name, registry) {
        Ok(Some(credential)) => (
            "has credentials".to_owned(),
            Credentials::of_registry(registry, credential),
        ),
        Ok(None) => ("has no credentials for it".to_owned(), Credentials::anonymous()),
        Err(reason) => (reason, Credentials::anonymous()),
    };
    (credentials, format!("credential helper {program}{named}: {text}"))
}

/// Describes a file's fault, without its name.
fn reason(error: &CredentialsError) -> String {
    match error {
        CredentialsError::Parse { line, column, .. } => {
            format!("is not a valid config.json: line {line}, column {column}")
        }
        CredentialsError::Auth { key, .. } => format!("`auth` of `{key}` is not base64 of user:password"),
    }
}

#[cfg(test)]
mod tests;
