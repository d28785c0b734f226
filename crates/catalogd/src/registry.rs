//! Registries as both controllers of OLM v1 use them: credentials, authorities, and texts of errors.

use std::fs;
use std::path::PathBuf;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use kube::Client;
use olm_oci::{
    ContainerTools, Credentials, Limits, PullError, PullErrorClass, Puller, Reference, RegistryConfig, Spool,
    certificate_files,
};
use olm_runtime::error::{ObserveError, with_causes};
use olm_runtime::{NamespacedName, pull_secrets};
use serde_json::Value;

/// Token of the ServiceAccount of a pod.
const TOKEN: &str = "/var/run/secrets/kubernetes.io/serviceaccount/token";

/// Credentials for registries, and authorities that sign their certificates.
#[derive(Clone)]
pub struct Registry {
    /// Reads pull secrets at each pull.
    client: Client,
    /// Pull secret for all images.
    global: Option<NamespacedName>,
    /// ServiceAccount of this pod, which may have pull secrets; `None` outside of a cluster.
    account: Option<NamespacedName>,
    /// Folder with certificates of authorities, as PEM.
    authorities: Option<PathBuf>,
    limits: Limits,
    spool: Spool,
}

impl Registry {
    /// Pulls with the credentials in the secret `global`, and in those of this pod's ServiceAccount. Registries may be signed by the
    /// `authorities` in a folder, besides those of the system. Large layers are kept in the folder `spool` while they are pulled, at most
    /// two of the largest.
    pub(crate) fn new(
        client: Client,
        global: Option<NamespacedName>,
        authorities: Option<PathBuf>,
        spool: PathBuf,
        limits: Limits,
    ) -> Self {
        let token = fs::read_to_string(TOKEN).unwrap_or_default();
        Self {
            client,
            global,
            account: account_of(&token),
            authorities,
            limits,
            spool: Spool::new(spool, 2 * limits.layer),
        }
    }

    /// Returns a puller that trusts the authorities that are in the folder now.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub fn puller(&self) -> Result<Puller, String> {
        let mut config = RegistryConfig::default().with_tools(ContainerTools::new(None));
        for file in certificate_files(self.authorities.as_deref())? {
            config = config.with_root_ca(file);
        }
        let puller = Puller::new(config).with_limits(self.limits);
        Ok(puller.with_spool(self.spool.clone()))
    }

    /// Returns the credentials in all secrets as they are now. Secrets that do not exist are skipped, as kubelets do.
    ///
    /// # Errors
    /// The API server does not answer, or a secret is malformed; the text names the object.
    pub async fn credentials(&self) -> Result<Credentials, String> {
        let unread = |error: ObserveError| with_causes(&error);
        let mut secrets: Vec<NamespacedName> = self.global.iter().cloned().collect();
        if let Some(account) = &self.account {
            let named = pull_secrets::of_account(&self.client, account).await;
            secrets.extend(named.map_err(unread)?);
        }
        let mut credentials = Credentials::anonymous();
        for (secret, data) in pull_secrets::read(&self.client, secrets).await.map_err(unread)? {
            let read = Credentials::from_secret(&data, &secret);
            credentials.merge(read.map_err(|error| error.to_string())?);
        }
        Ok(credentials)
    }
}

/// Returns the ServiceAccount that a token of Kubernetes belongs to. The token is our own, so its signature does not matter.
fn account_of(token: &str) -> Option<NamespacedName> {
    let claims = token.split('.').nth(1)?;
    let claims = URL_SAFE_NO_PAD.decode(claims.trim_end_matches('=')).ok()?;
    let claims: Value = serde_json::from_slice(&claims).ok()?;
    let account = claims["sub"].as_str()?.strip_prefix("system:serviceaccount:")?;
    let (namespace, name) = account.split_once(':')?;
    let is_account = !namespace.is_empty() && !name.is_empty() && !name.contains(':');
    is_account.then(|| NamespacedName::new(namespace, name))
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
            assert!(way_out(class).contains(part), "{class:?}");
        }
    }

    #[test]
    fn the_account_of_a_token_is_its_subject() {
        let token = |claims: &str| format!("e30.{}.sig", URL_SAFE_NO_PAD.encode(claims));
        let of = |claims: &str| account_of(&token(claims)).map(|key| key.to_string());
        assert_eq!(
            of(r#"{"sub":"system:serviceaccount:olmv1-system:catalogd"}"#).as_deref(),
            Some("olmv1-system/catalogd")
        );
        for claims in [
            r#"{"sub":"system:node:a"}"#,
            r#"{"sub":"system:serviceaccount:a:b:c"}"#,
            r#"{"sub":"system:serviceaccount::b"}"#,
            r#"{"sub":1}"#,
            "[",
        ] {
            assert_eq!(of(claims), None, "{claims}");
        }
        for token in ["", "a", "a.%.c"] {
            assert_eq!(account_of(token), None, "{token}");
        }
    }
}
