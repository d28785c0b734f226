//! Reads catalogs through the registry's gRPC API.

use async_trait::async_trait;
use olm_fbc::entry::CatalogSnapshot;
use tonic::transport::Channel;

use crate::snapshots::CatalogReader;

/// Reads a catalog with two kinds of calls: all bundles, and each package.
pub struct RegistryReader;

#[async_trait]
impl CatalogReader for RegistryReader {
    async fn read(&self, _channel: Channel) -> Result<CatalogSnapshot, String> {
        Err("waiting for the registry client".to_owned())
    }
}
