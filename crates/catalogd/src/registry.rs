//! Registries as both controllers of OLM v1 use them: credentials, authorities, and texts of errors.

mod pull_secrets;

use std::fs;
use std::path::PathBuf;

use olm_oci::{
    ContainerTools, Credentials, PullError, PullErrorClass, Puller, Reference, RegistryConfig,
    certificate_files,
};
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
        for file in certificate_files(self.authorities.as_deref())? {
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

/// Returns upstream's text for an image that does not exist, and our own otherwise, with the way out.
pub fn pull_error(image: &Reference, error: &PullError) -> String {
    if error.class() == PullErrorClass::NotFound {
        let text = format!(
            "error creating image source: reading manifest {} in {}/{}: manifest unknown",
            image.selector(),
            image.registry(),
            image.repository(),
        );
        return format!("{text}; {}", way_out(error.class()));
    }
    with_way_out(error)
}

/// Returns the text of a failed pull with the way out.
pub(crate) fn with_way_out(error: &PullError) -> String {
    format!("{error}; {}", way_out(error.class()))
}

/// Returns the way out of a failed pull, in the words of bundles of Subscriptions.
fn way_out(class: PullErrorClass) -> &'static str {
    match class {
        PullErrorClass::UnknownHost | PullErrorClass::Unreachable => {
            "OLM retries until the registry answers; check the registry, the network and mirrors"
        }
        PullErrorClass::Untrusted => {
            "configure the CA of the registry's certificate: a file in --pull-cas-dir (catalog.registryCA of the chart)"
        }
        PullErrorClass::NotFound => "check the image name, push the image, or configure a mirror that has it",
        PullErrorClass::Unauthorized => {
            "add a pull secret for the registry: --global-pull-secret, or imagePullSecrets of OLM's ServiceAccount \
             (catalogd.pullSecrets and operatorController.pullSecrets of the chart)"
        }
        PullErrorClass::TooLarge => "build the image with fewer or smaller files",
        PullErrorClass::Malformed => "build and push the image again",
        PullErrorClass::DigestMismatch => {
            "the registry or mirror serves wrong content; push the image again or use another mirror"
        }
        PullErrorClass::Storage => "give OLM's pod a writable volume with free space for its cache",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A registry that does not exist: upstream's users look for the text, and ours for the way out.
    #[tokio::test]
    async fn errors_of_pulls_name_the_way_out() {
        let image: Reference = "127.0.0.1:1/a/b:v1".parse().unwrap();
        let puller = Puller::new(RegistryConfig::default());
        let error = puller
            .resolve(&image, &Credentials::anonymous())
            .await
            .unwrap_err();
        let text = pull_error(&image, &error);
        assert!(
            text.starts_with("cannot pull image `127.0.0.1:1/a/b:v1`: "),
            "{text}"
        );
        assert!(
            text.ends_with(
                "; OLM retries until the registry answers; check the registry, the network and mirrors"
            ),
            "{text}"
        );
        for (class, part) in [
            (PullErrorClass::Untrusted, "catalog.registryCA"),
            (PullErrorClass::NotFound, "check the image name"),
            (PullErrorClass::Unauthorized, "pull secret"),
        ] {
            assert!(way_out(class).contains(part), "{class}");
        }
    }
}
