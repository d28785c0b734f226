//! Flags and environment, resolved to what commands need.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context as _, bail};
use olm_oci::{Credentials, Limits, Puller, Pusher, Reference, RegistryConfig};
use tempfile::NamedTempFile;

use crate::args::GlobalArgs;
use crate::printer;

/// How to reach registries.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    registries: RegistryConfig,
    /// Keeps what was read from a pipe for as long as it is used.
    _root_ca_copy: Option<Arc<NamedTempFile>>,
}

impl Settings {
    /// # Errors
    /// Flags that contradict each other.
    pub(crate) fn new(global: &GlobalArgs) -> anyhow::Result<Self> {
        if global.skip_tls {
            printer::note(
                "Flag --skip-tls has been deprecated, use --use-http and --skip-tls-verify instead",
            );
        }
        match (global.skip_tls, global.use_http, global.skip_tls_verify) {
            (true, true, _) => bail!("invalid flag combination: cannot use --use-http with --skip-tls"),
            (true, _, true) => {
                bail!("invalid flag combination: cannot use --skip-tls-verify with --skip-tls")
            }
            (_, true, true) => bail!(
                "invalid flag combination: --use-http and --skip-tls-verify cannot both be true: plain HTTP has no certificates"
            ),
            _ => {}
        }
        let registries = match &global.registry_config {
            Some(dir) if !dir.is_dir() => {
                bail!("registry configuration {} is not a directory", dir.display())
            }
            Some(dir) => RegistryConfig::from_dir(dir),
            None => RegistryConfig::default(),
        };
        let registries = registries
            .with_plain_http(global.use_http || global.skip_tls)
            .with_skip_tls_verify(global.skip_tls_verify);
        Ok(Self {
            registries,
            _root_ca_copy: None,
        })
    }

    /// The same, with a file of certificate authorities (PEM) that registries may be signed by.
    ///
    /// # Errors
    /// The file cannot be read.
    pub(crate) fn with_root_ca(&self, path: &Path) -> anyhow::Result<Self> {
        let failed = || format!("failed to fetch root CA from {}", path.display());
        if path.is_file() {
            return Ok(Self {
                registries: self.registries.clone().with_root_ca(path),
                _root_ca_copy: None,
            });
        }
        // A pipe, as of a process substitution, can be read once only, and each registry's client reads the file.
        let bytes = std::fs::read(path).with_context(failed)?;
        let mut copy = NamedTempFile::new().with_context(failed)?;
        copy.write_all(&bytes).with_context(failed)?;
        Ok(Self {
            registries: self.registries.clone().with_root_ca(copy.path()),
            _root_ca_copy: Some(Arc::new(copy)),
        })
    }

    /// Pulls, with the limits for catalogs.
    pub(crate) fn puller(&self) -> Puller {
        Puller::new(self.registries.clone()).with_limits(Limits::CATALOG)
    }
    pub(crate) fn pusher(&self) -> Pusher {
        Pusher::new(self.registries.clone())
    }

    /// The user's credentials for the registry of an image, from where other tools keep them; helpers that the files name are
    /// asked. What stands in an earlier file is tried first.
    ///
    /// # Errors
    /// A file that exists, or a helper for this very registry, cannot be used.
    pub(crate) fn credentials(&self, image: &Reference) -> anyhow::Result<Credentials> {
        let mut credentials = Credentials::anonymous();
        for path in credential_files() {
            credentials.merge(Credentials::from_file_and_helpers(&path, image.registry())?);
        }
        Ok(credentials)
    }
}

/// `REGISTRY_AUTH_FILE` alone, else podman's file of the session and of the user, and `config.json` in `DOCKER_CONFIG` or
/// `~/.docker`, as far as they are there.
fn credential_files() -> Vec<PathBuf> {
    let variable = |name| {
        std::env::var_os(name)
            .filter(|value| !value.is_empty())
            .map(PathBuf::from)
    };
    if let Some(file) = variable("REGISTRY_AUTH_FILE") {
        return vec![file];
    }
    let docker = variable("DOCKER_CONFIG").or_else(|| Some(variable("HOME")?.join(".docker")));
    let candidates = [
        variable("XDG_RUNTIME_DIR").map(|dir| dir.join("containers/auth.json")),
        variable("XDG_CONFIG_HOME")
            .or_else(|| Some(variable("HOME")?.join(".config")))
            .map(|dir| dir.join("containers/auth.json")),
        docker.map(|dir| dir.join("config.json")),
    ];
    candidates
        .into_iter()
        .flatten()
        .filter(|file| file.is_file())
        .collect()
}
