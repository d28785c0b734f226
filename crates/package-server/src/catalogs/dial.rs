//! How registries are reached; tests reach them in other ways.

use async_trait::async_trait;
use olm_registry::connection;
pub use olm_registry::connection::Dialled;

/// How connections are made.
#[async_trait]
pub trait Dial: Send + Sync + 'static {
    /// One attempt to reach `host:port`, or why it failed.
    async fn connect(&self, address: &str) -> Result<Dialled, String>;
}

/// Over the network.
#[derive(Debug)]
pub struct Tcp;

#[async_trait]
impl Dial for Tcp {
    async fn connect(&self, address: &str) -> Result<Dialled, String> {
        connection::dial(address, address).await
    }
}
