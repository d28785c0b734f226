//! A client of the contract, with deadlines on every call.

use std::pin::Pin;
use std::time::Duration;

use tokio_stream::Stream;
use tokio_stream::StreamExt as _;
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Response, Status, Streaming};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;

use crate::limits::{
    CALL_TIME, CONNECT_TIME, MESSAGE_BYTES, PACKAGE_BYTES, PACKAGE_NAME_BYTES, ReadLimits, STALL_TIME,
};
use crate::proto;
use crate::proto::registry_client::RegistryClient;
use crate::status_details::WithoutDetails;

/// Name readers use in health checks.
pub const HEALTH_NAME: &str = "Registry";

/// Deadlines of a client.
#[derive(Clone, Copy, Debug)]
pub struct Timeouts {
    /// Time to connect.
    pub connect: Duration,
    /// Time for a call with one answer, and for the start of a stream.
    pub call: Duration,
    /// Time between two messages of a stream.
    pub stall: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            connect: CONNECT_TIME,
            call: CALL_TIME,
            stall: STALL_TIME,
        }
    }
}

/// A client cannot be created, because its address is invalid.
#[derive(Debug, thiserror::Error)]
#[error("invalid registry address {address:?}")]
pub struct AddressError {
    address: String,
    #[source]
    source: tonic::transport::Error,
}

/// Messages of a stream, up to its end or first error.
pub type Messages<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

/// A client of a registry. Clones share the connection.
#[derive(Clone, Debug)]
pub struct Client {
    channel: WithoutDetails,
    timeouts: Timeouts,
    message_bytes: usize,
}

impl Client {
    /// Returns a client for `host:port`; connects when first used. Must be called within a tokio runtime.
    ///
    /// # Errors
    /// The address is invalid.
    pub fn connect(address: &str) -> Result<Self, AddressError> {
        let timeouts = Timeouts::default();
        Ok(Self::new(endpoint(address, &timeouts)?.connect_lazy(), timeouts))
    }

    /// Returns a client over the caller's channel.
    pub fn new(channel: Channel, timeouts: Timeouts) -> Self {
        Self {
            channel: WithoutDetails(channel),
            timeouts,
            message_bytes: MESSAGE_BYTES,
        }
    }

    /// Limits a bundle, and a message of a stream, to this many bytes.
    #[must_use]
    pub fn with_message_bytes(self, message_bytes: usize) -> Self {
        Self {
            message_bytes,
            ..self
        }
    }

    fn registry(&self, message_bytes: usize) -> RegistryClient<WithoutDetails> {
        RegistryClient::new(self.channel.clone()).max_decoding_message_size(message_bytes)
    }

    fn request<T>(&self, message: T) -> Request<T> {
        let mut request = Request::new(message);
        request.set_timeout(self.timeouts.call);
        request
    }

    /// Returns a package.
    ///
    /// # Errors
    /// The server's error, or an exceeded deadline.
    pub async fn get_package(&self, name: &str) -> Result<proto::Package, Status> {
        let question = self.request(proto::GetPackageRequest {
            name: name.to_owned(),
        });
        let answer = self.registry(PACKAGE_BYTES).get_package(question).await?;
        Ok(answer.into_inner())
    }

    /// Returns a bundle with its content.
    ///
    /// # Errors
    /// The server's error, or an exceeded deadline.
    pub async fn get_bundle(
        &self,
        package: &str,
        channel: &str,
        name: &str,
    ) -> Result<proto::Bundle, Status> {
        let question = self.request(proto::GetBundleRequest {
            pkg_name: package.to_owned(),
            channel_name: channel.to_owned(),
            csv_name: name.to_owned(),
        });
        let answer = self.registry(self.message_bytes).get_bundle(question).await?;
        Ok(answer.into_inner())
    }

    /// Returns the names of all packages: at most as many as [`ReadLimits::CATALOG`] allows, with at most
    /// [`PACKAGE_NAME_BYTES`] together.
    ///
    /// # Errors
    /// The server's error, an exceeded deadline, or too many packages.
    pub async fn list_packages(&self) -> Result<Vec<String>, Status> {
        let most = ReadLimits::CATALOG.packages;
        let mut registry = self.registry(self.message_bytes);
        let call = registry.list_packages(proto::ListPackageRequest {});
        let mut names = self.bounded(call).await?;
        let (mut out, mut bytes) = (Vec::new(), 0_usize);
        while let Some(package) = names.next().await {
            if out.len() >= most {
                return Err(Status::out_of_range(format!("more than {most} packages")));
            }
            let name = package?.name;
            bytes = bytes.saturating_add(name.len());
            if bytes > PACKAGE_NAME_BYTES {
                return Err(Status::out_of_range(format!(
                    "package names exceed {PACKAGE_NAME_BYTES} bytes"
                )));
            }
            out.push(name);
        }
        Ok(out)
    }

    /// Streams every bundle of every channel, in the server's order. Their number is not limited here.
    ///
    /// # Errors
    /// The server's error or an exceeded deadline, returned here or as the item that ends the stream.
    pub async fn list_bundles(&self) -> Result<Messages<proto::Bundle>, Status> {
        let mut registry = self.registry(self.message_bytes);
        let call = registry.list_bundles(proto::ListBundlesRequest {});
        self.bounded(call).await
    }

    /// Checks that the server reports to be serving.
    ///
    /// # Errors
    /// The server cannot be reached, does not answer in time or is not serving.
    pub async fn check(&self) -> Result<(), Status> {
        let request = self.request(HealthCheckRequest {
            service: HEALTH_NAME.to_owned(),
        });
        let answer = HealthClient::new(self.channel.clone()).check(request).await?;
        if answer.into_inner().status() == ServingStatus::Serving {
            Ok(())
        } else {
            Err(Status::unavailable("the registry is not serving"))
        }
    }

    /// Starts a stream within the call deadline, and ends it if nothing arrives within the stall deadline.
    async fn bounded<T: Send + 'static>(
        &self,
        call: impl Future<Output = Result<Response<Streaming<T>>, Status>>,
    ) -> Result<Messages<T>, Status> {
        let started = tokio::time::timeout(self.timeouts.call, call)
            .await
            .map_err(|_| Status::deadline_exceeded("the registry did not answer in time"))??;
        let mut failed = false;
        let messages = started
            .into_inner()
            .timeout(self.timeouts.stall)
            .map_while(move |item| {
                // Messages after an error have no meaning.
                if failed {
                    return None;
                }
                let item = item
                    .unwrap_or_else(|_| Err(Status::deadline_exceeded("the registry stopped sending data")));
                failed = item.is_err();
                Some(item)
            });
        Ok(Box::pin(messages))
    }
}

fn endpoint(address: &str, timeouts: &Timeouts) -> Result<Endpoint, AddressError> {
    let endpoint = Endpoint::from_shared(format!("http://{address}")).map_err(|source| AddressError {
        address: address.to_owned(),
        source,
    })?;
    Ok(endpoint
        .connect_timeout(timeouts.connect)
        .tcp_nodelay(true)
        .http2_keep_alive_interval(Duration::from_secs(30))
        .keep_alive_timeout(Duration::from_secs(10)))
}
