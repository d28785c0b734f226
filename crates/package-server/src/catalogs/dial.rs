//! Connections to registries, which tests replace.

use async_trait::async_trait;
use olm_registry::connection;
pub use olm_registry::connection::Dialled;

/// Makes connections.
#[async_trait]
pub trait Dial: Send + Sync + 'static {
    /// Connects to `host:port` once, or returns the cause of the failure.
    async fn connect(&self, address: &str) -> Result<Dialled, String>;
}

/// Connects over the network.
#[derive(Debug)]
pub struct Tcp;

#[async_trait]
impl Dial for Tcp {
    async fn connect(&self, address: &str) -> Result<Dialled, String> {
        connection::dial(address, address).await
    }
}
