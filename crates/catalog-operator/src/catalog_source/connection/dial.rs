//! One attempt to connect: a socket whose end is noticed, and a server that responds.

use async_trait::async_trait;
use olm_registry::connection;
use tokio::sync::oneshot;
use tonic::transport::Channel;

use super::Endpoint;

/// A channel, and a receiver that ends when its connection does.
pub type Dialled = (Channel, oneshot::Receiver<()>);

/// Makes connections.
#[async_trait]
pub trait Dial: Send + Sync + 'static {
    /// Makes one attempt; returns the error if it failed.
    async fn connect(&self, endpoint: &Endpoint) -> Result<Dialled, String>;
}

/// Connects over the network.
#[derive(Debug)]
pub(crate) struct Tcp;

#[async_trait]
impl Dial for Tcp {
    async fn connect(&self, endpoint: &Endpoint) -> Result<Dialled, String> {
        let dialled = connection::dial(&endpoint.dial, &endpoint.address).await?;
        connection::greet(&dialled.channel, &endpoint.address).await?;
        Ok((dialled.channel, dialled.lost))
    }
}
