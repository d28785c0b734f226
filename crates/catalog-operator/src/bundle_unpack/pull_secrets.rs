//! The pull secrets of a catalog.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{Secret, ServiceAccount};
use kube::{Api, Client};
use olm_api::v1alpha1::CatalogSource;
use olm_oci::{Credentials, CredentialsError};
use olm_runtime::NamespacedName;
use olm_runtime::discovery::deadline;
use olm_runtime::error::ObserveError;
use olm_runtime::key::is_path_segment;
use olm_runtime::store::Store;

use super::access::Keys;
use super::error::{UnpackClass, UnpackError};
use crate::catalog_source::objects::service_account_name;

/// Maximum number of secrets that are read for a catalog; the rest is ignored.
const MOST_SECRETS: usize = 32;

/// Reads pull secrets, live each time, because a cache would contain every Secret of the cluster.
pub(crate) struct PullSecrets {
    client: Client,
    catalogs: Store<CatalogSource>,
}

impl PullSecrets {
    /// Creates a reader for the pull secrets of these catalogs.
    pub(crate) fn new(client: Client, catalogs: Store<CatalogSource>) -> Self {
        Self { client, catalogs }
    }

    /// Reads the pull secrets that the CatalogSource names; none if it does not exist.
    pub(crate) async fn of_catalog(&self, catalog: &NamespacedName) -> Result<Keys, UnpackError> {
        let found = self.catalogs.get_key(catalog);
        let names = found
            .map(|catalog| catalog.spec.secrets.to_vec())
            .unwrap_or_default();
        self.read_secrets(&catalog.namespace, &names).await
    }

    /// Reads the pull secrets of the ServiceAccount of the catalog's pod.
    pub(crate) async fn of_service_account(&self, catalog: &NamespacedName) -> Result<Keys, UnpackError> {
        let api: Api<ServiceAccount> = Api::namespaced(self.client.clone(), &catalog.namespace);
        let found = self.catalogs.get_key(catalog);
        let name = found.map_or_else(|| catalog.name.clone(), |catalog| service_account_name(&catalog));
        let what = format!("ServiceAccount {}/{name}", catalog.namespace);
        let account = deadline(&what, api.get_opt(&name)).await.map_err(unreadable)?;
        let secrets = account
            .and_then(|account| account.image_pull_secrets)
            .unwrap_or_default();
        let names: Vec<String> = secrets.into_iter().map(|secret| secret.name).collect();
        self.read_secrets(&catalog.namespace, &names).await
    }

    async fn read_secrets(&self, namespace: &str, names: &[String]) -> Result<Keys, UnpackError> {
        let api: Api<Secret> = Api::namespaced(self.client.clone(), namespace);
        let mut keys = Keys::default();
        for name in readable(names) {
            let what = format!("Secret {namespace}/{name}");
            // A missing secret is skipped, as kubelets do: another one may suffice.
            if let Some(secret) = deadline(&what, api.get_opt(name)).await.map_err(unreadable)? {
                let read = read_secret(&secret, &what);
                let (credentials, text) =
                    read.map_err(|error| UnpackError::new(UnpackClass::Unauthorized, error))?;
                keys.add(credentials, text);
            }
        }
        Ok(keys)
    }
}

/// Returns each name once, up to the limit. Invalid names are skipped, because they could request other
/// resources, such as the list of all Secrets.
fn readable(names: &[String]) -> impl Iterator<Item = &String> {
    let mut known = BTreeSet::new();
    names
        .iter()
        .filter(move |name| is_path_segment(name) && known.insert(*name))
        .take(MOST_SECRETS)
}

/// Returns the credentials in a pull secret of either type, and their text.
fn read_secret<'a>(secret: &'a Secret, origin: &str) -> Result<(Credentials, &'a [u8]), CredentialsError> {
    let data = |key: &str| secret.data.as_ref().and_then(|data| data.get(key));
    if let Some(text) = data(".dockerconfigjson") {
        return Ok((Credentials::from_docker_config(&text.0, origin)?, &text.0));
    }
    match data(".dockercfg") {
        Some(text) => Ok((Credentials::from_dockercfg(&text.0, origin)?, &text.0)),
        None => Ok((Credentials::anonymous(), &[])),
    }
}

/// An unresponsive API server is as temporary as an unresponsive registry.
fn unreadable(error: ObserveError) -> UnpackError {
    UnpackError::new(UnpackClass::Unreachable, error)
}

#[cfg(test)]
mod tests {
    use k8s_openapi::ByteString;

    use super::*;

    fn secret(key: &str, text: &str) -> Secret {
        Secret {
            data: Some([(key.to_owned(), ByteString(text.as_bytes().to_vec()))].into()),
            ..Secret::default()
        }
    }

    #[test]
    fn names_of_secrets_are_read_once_and_ask_for_nothing_else() {
        let names = ["a", "?x", "a", "", "..", "a/b", "a?watch=1", "b"].map(str::to_owned);
        assert_eq!(readable(&names).collect::<Vec<_>>(), ["a", "b"]);
        let many: Vec<String> = (0..1000).map(|number| number.to_string()).collect();
        assert_eq!(readable(&many).count(), MOST_SECRETS);
    }

    #[test]
    fn both_types_of_pull_secret_are_read() {
        let auth = r#"{"quay.io": {"username": "u", "password": "p"}}"#;
        let rows = [
            (secret(".dockerconfigjson", &format!("{{\"auths\": {auth}}}")), 1),
            (secret(".dockercfg", auth), 1),
            (secret("other", "x"), 0),
        ];
        for (secret, expected) in rows {
            let (credentials, _) = read_secret(&secret, "Secret olm/s").unwrap();
            assert_eq!(credentials.for_repository("quay.io", "a/b").len(), expected);
        }
    }

    #[test]
    fn a_broken_pull_secret_is_named_without_its_content() {
        let error = read_secret(
            &secret(".dockerconfigjson", "{\"auths\": hunter2}"),
            "Secret olm/s",
        )
        .unwrap_err();
        assert!(
            error.to_string().contains("Secret olm/s") && !error.to_string().contains("hunter2"),
            "{error}"
        );
    }
}
