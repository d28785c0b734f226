//! Settings of commands, resolved from flags and environment.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Once};

use anyhow::{Context as _, bail};
use olm_oci::{AuthPlaces, Credentials, Host, Limits, Puller, Pusher, Reference, RegistryConfig, Spool};
use tempfile::NamedTempFile;

use crate::args::GlobalArgs;
use crate::printer;

/// Folder of layers below `OLM_CACHE_DIR`, named as in upstream's `opm`.
const IMAGES: &str = "images";

/// Settings for the access to registries.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    registries: RegistryConfig,
    auth: AuthPlaces,
    /// Value of `OLM_CACHE_DIR`.
    cache: Option<PathBuf>,
    /// Keeps the copy of a file that was read from a pipe.
    _root_ca_copy: Option<Arc<NamedTempFile>>,
}

impl Settings {
    /// Creates settings from flags and environment.
    ///
    /// # Errors
    /// Conflicting flags.
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
                "invalid flag combination: --use-http and --skip-tls-verify cannot both be true: each means the other"
            ),
            _ => {}
        }
        let registries = RegistryConfig::of_user(global.registry_config.as_deref())?
            .with_insecure(global.use_http || global.skip_tls || global.skip_tls_verify);
        Ok(Self {
            registries,
            auth: AuthPlaces::of_environment(),
            cache: variable("OLM_CACHE_DIR"),
            _root_ca_copy: None,
        })
    }

    /// Returns the settings with a file of certificate authorities (PEM) that registries may be signed by.
    ///
    /// # Errors
    /// The file cannot be read.
    pub(crate) fn with_root_ca(&self, path: &Path) -> anyhow::Result<Self> {
        let (mut trusted, mut kept) = (path.to_owned(), None);
        if !path.is_file() {
            // A pipe, as of a process substitution, can be read only once, but each registry's client reads the file.
            let failed = || format!("failed to fetch root CA from {}", path.display());
            let bytes = std::fs::read(path).with_context(failed)?;
            let mut copy = NamedTempFile::new().with_context(failed)?;
            copy.write_all(&bytes).with_context(failed)?;
            trusted = copy.path().to_owned();
            kept = Some(Arc::new(copy));
        }
        Ok(Self {
            registries: self.registries.clone().with_root_ca(trusted),
            _root_ca_copy: kept,
            ..self.clone()
        })
    }

    /// Returns a puller with the limits for catalogs.
    pub(crate) fn puller(&self) -> Puller {
        let puller = Puller::new(self.registries.clone()).with_limits(Limits::CATALOG);
        match &self.cache {
            Some(folder) => puller.with_spool(Spool::new(folder.join(IMAGES), u64::MAX)),
            None => puller,
        }
    }
    pub(crate) fn pusher(&self) -> Pusher {
        Pusher::new(self.registries.clone())
    }

    /// Returns the user's credentials for the hosts of an image, from the files and credential helpers of other tools. A policy
    /// that requires signatures causes one warning.
    ///
    /// # Errors
    /// The registry configuration cannot be used, or its policy rejects the image.
    pub(crate) fn credentials(&self, image: &Reference) -> anyhow::Result<Credentials> {
        static TOLD: Once = Once::new();
        if let Some(policy) = self.registries.unverified_by(image)? {
            TOLD.call_once(|| {
                printer::warning(&format!(
                    "{} requires signatures of {image}; opm does not verify signatures",
                    policy.display()
                ));
            });
        }
        self.credentials_of(&self.registries.hosts(image)?)
    }

    /// Returns the user's credentials for the host that an image is pushed to.
    ///
    /// # Errors
    /// The registry configuration cannot be used.
    pub(crate) fn push_credentials(&self, image: &Reference) -> anyhow::Result<Credentials> {
        let host = self.registries.push_host(image)?;
        self.credentials_of(&host.into_iter().collect::<Vec<_>>())
    }

    fn credentials_of(&self, hosts: &[Host]) -> anyhow::Result<Credentials> {
        Ok(Credentials::of_user_for(hosts, &self.auth, &self.registries)?)
    }
}

fn variable(name: &str) -> Option<PathBuf> {
    std::env::var_os(name)
        .filter(|value| !value.is_empty())
        .map(PathBuf::from)
}
