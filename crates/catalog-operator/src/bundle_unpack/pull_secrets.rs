//! The pull secrets of a catalog.

use kube::Client;
use olm_api::v1alpha1::CatalogSource;
use olm_oci::{Credentials, PullErrorClass};
use olm_runtime::error::ObserveError;
use olm_runtime::store::Store;
use olm_runtime::{NamespacedName, pull_secrets};

use super::error::{UnpackClass, UnpackError};
use crate::catalog_source::objects::service_account_name;

/// Reads pull secrets.
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
    pub(crate) async fn of_catalog(&self, catalog: &NamespacedName) -> Result<Credentials, UnpackError> {
        let found = self.catalogs.get_key(catalog);
        let names = found.map(|catalog| catalog.spec.secrets.to_vec());
        let key = |name: String| NamespacedName::new(catalog.namespace.as_str(), name);
        self.read(names.unwrap_or_default().into_iter().map(key).collect())
            .await
    }

    /// Adds the pull secrets of the ServiceAccount of the catalog's pod if a registry refused the catalog's own, for which `refused` is
    /// the error. Returns true if there are more.
    pub(crate) async fn add_more(
        &self,
        catalog: &NamespacedName,
        credentials: &mut Credentials,
        refused: Option<PullErrorClass>,
    ) -> Result<bool, UnpackError> {
        if refused != Some(PullErrorClass::Unauthorized) {
            return Ok(false);
        }
        let found = self.catalogs.get_key(catalog);
        let name = found.map_or_else(|| catalog.name.clone(), |catalog| service_account_name(&catalog));
        let account = NamespacedName::new(catalog.namespace.as_str(), name);
        let named = pull_secrets::of_account(&self.client, &account).await;
        let more = self.read(named.map_err(unreadable)?).await?;
        let has_more = !more.is_empty();
        credentials.merge(more);
        Ok(has_more)
    }

    async fn read(&self, secrets: Vec<NamespacedName>) -> Result<Credentials, UnpackError> {
        let mut credentials = Credentials::anonymous();
        let found = pull_secrets::read(&self.client, secrets).await;
        for (secret, data) in found.map_err(unreadable)? {
            let read = Credentials::from_secret(&data, &secret);
            credentials.merge(read.map_err(|error| UnpackError::new(UnpackClass::Unauthorized, error))?);
        }
        Ok(credentials)
    }
}

/// An unresponsive API server is as temporary as an unresponsive registry.
fn unreadable(error: ObserveError) -> UnpackError {
    UnpackError::new(UnpackClass::Unreachable, error)
}
