//! Reads catalogs through the registry's gRPC API.

use async_trait::async_trait;
use olm_fbc::entry::CatalogSnapshot;
use olm_registry::client::Client;
use olm_registry::snapshot;
use tonic::transport::Channel;

use crate::bundle_unpack::InlineBundle;
use crate::snapshots::CatalogReader;

/// Reads a catalog with one call for all bundles and one for each package.
#[derive(Debug, Clone, Copy)]
pub struct GrpcCatalogReader;

#[async_trait]
impl CatalogReader for GrpcCatalogReader {
    async fn read(&self, channel: Channel) -> Result<(CatalogSnapshot, usize), String> {
        let client = Client::new(channel);
        let fetched = Box::pin(snapshot::fetch(&client))
            .await
            .map_err(|error| error.to_string())?;
        for left_out in &fetched.skipped {
            tracing::warn!("catalog content is not used: {left_out}");
        }
        Ok((fetched.snapshot, fetched.bytes))
    }

    async fn manifests(&self, channel: Channel, bundle: &InlineBundle) -> Result<Vec<String>, String> {
        let client = Client::new(channel);
        let found = client.get_bundle(&bundle.package, &bundle.channel, &bundle.name);
        let found = found.await.map_err(|status| snapshot::message(&status))?;
        Ok(found.object)
    }
}

#[cfg(test)]
mod tests;
