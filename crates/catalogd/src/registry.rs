//! Registries as both controllers of OLM v1 use them: credentials, authorities, and texts of errors.

mod pull_secrets;

use std::fs;
use std::path::{Path, PathBuf};

use olm_oci::{ContainerTools, Credentials, PullError, PullErrorClass, Puller, Reference, RegistryConfig};
use olm_runtime::NamespacedName;

pub use self::pull_secrets::PullSecrets;
use self::pull_secrets::account_of;

/// Token of the ServiceAccount of a pod.
const TOKEN: &str = "/var/run/secrets/kubernetes.io/serviceaccount/token";

/// Credentials for registries, and authorities that sign their certificates.
#[derive(Clone)]
pub struct Registry {
    secrets: PullSecrets,
    /// Folder with certificates of authorities, as PEM.
    authorities: Option<PathBuf>,
}

impl Registry {
    /// Pulls with the credentials in `secrets`. Registries may be signed by the `authorities` in a folder, besides those of the system.
    pub(crate) fn new(secrets: PullSecrets, authorities: Option<PathBuf>) -> Self {
        Self { secrets, authorities }
    }

    /// Returns a puller that trusts the authorities that are in the folder now, with the limits for bundles.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub fn puller(&self) -> Result<Puller, String> {
        let mut config = RegistryConfig::default().with_tools(ContainerTools::new(None));
        for file in certificates(self.authorities.as_deref())? {
            config = config.with_root_ca(file);
        }
        Ok(Puller::new(config))
    }

    /// Returns the credentials as they are now.
    ///
    /// # Errors
    /// The API server does not answer, or a secret is malformed.
    pub async fn credentials(&self) -> Result<Credentials, String> {
        self.secrets.credentials().await
    }
}

/// Returns the ServiceAccount of this pod; `None` outside of a cluster.
pub(crate) fn own_account() -> Option<NamespacedName> {
    account_of(&fs::read_to_string(TOKEN).ok()?)
}

/// Returns upstream's text for an image that does not exist, and our own otherwise.
pub fn pull_error(image: &Reference, error: &PullError) -> String {
    if error.class() == PullErrorClass::NotFound {
        return format!(
            "error creating image source: reading manifest {} in {}/{}: manifest unknown",
            image.selector(),
            image.registry(),
            image.repository(),
        );
    }
    error.to_string()
}

/// Returns the files of a folder of certificates. Kubernetes keeps the content of mounted volumes in names with two dots.
///
/// # Errors
/// The folder cannot be read.
pub fn certificates(folder: Option<&Path>) -> Result<Vec<PathBuf>, String> {
    let Some(folder) = folder else {
        return Ok(Vec::new());
    };
    let unread = |error: std::io::Error| format!("cannot read {}: {error}", folder.display());
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).map_err(unread)? {
        let entry = entry.map_err(unread)?;
        let path = entry.path();
        if path.is_file() && !entry.file_name().as_encoded_bytes().starts_with(b"..") {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn authorities_are_the_files_of_their_folder() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path();
        fs::create_dir(path.join("..data")).unwrap();
        for name in ["b.pem", "a.crt", "..hidden"] {
            fs::write(path.join(name), "").unwrap();
        }
        let found = certificates(Some(path)).unwrap();
        assert_eq!(found, [path.join("a.crt"), path.join("b.pem")]);
        assert_eq!(certificates(None).unwrap(), [""; 0].map(PathBuf::from));
        assert!(certificates(Some(&path.join("gone"))).is_err());
    }
}
