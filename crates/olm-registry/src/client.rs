//! A client of the contract, with deadlines on every call.

use std::pin::Pin;

use prost::Message;
use tokio_stream::Stream;
use tokio_stream::StreamExt as _;
use tonic::client::Grpc;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::Channel;
use tonic::{Request, Status};
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::{HealthCheckRequest, HealthCheckResponse};

use crate::codec::BoundedCodec;
use crate::limits::{CALL_TIME, MESSAGE_BYTES, PACKAGE_BYTES, PACKAGE_NAME_BYTES, ReadLimits, STALL_TIME};
use crate::proto;
use crate::status_details::{self, WithoutDetails};

/// Name readers use in health checks.
pub const HEALTH_NAME: &str = "Registry";

/// Messages of a stream, up to its end or first error.
pub type Messages<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

/// A client of a registry. Clones share the connection.
#[derive(Clone, Debug)]
pub struct Client {
    channel: WithoutDetails,
    message_bytes: usize,
}

impl Client {
    /// Returns a client over the caller's channel.
    pub fn new(channel: Channel) -> Self {
        Self {
            channel: status_details::without(channel),
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

    async fn grpc(&self) -> Result<Grpc<WithoutDetails>, Status> {
        let mut grpc = Grpc::new(self.channel.clone()).max_decoding_message_size(self.message_bytes);
        grpc.ready()
            .await
            .map_err(|error| Status::unknown(format!("Service was not ready: {error}")))?;
        Ok(grpc)
    }

    /// Calls a method with one answer, by its path (`/api.Registry/GetPackage`).
    ///
    /// # Errors
    /// The server's error, or an exceeded deadline.
    pub async fn ask<Q, A>(&self, path: &'static str, mut question: Request<Q>) -> Result<A, Status>
    where
        Q: Message + 'static,
        A: Message + Default + 'static,
    {
        question.set_timeout(CALL_TIME);
        let mut grpc = self.grpc().await?;
        let codec = BoundedCodec::<Q, A>::default();
        let answer = Box::pin(grpc.unary(question, PathAndQuery::from_static(path), codec)).await?;
        Ok(answer.into_inner())
    }

    /// Calls a method with a stream of answers, by its path. The call must start within the call deadline,
    /// and ends if nothing arrives within the stall deadline.
    ///
    /// # Errors
    /// The server's error or an exceeded deadline, returned here or as the item that ends the stream.
    pub async fn stream<Q, A>(&self, path: &'static str, question: Request<Q>) -> Result<Messages<A>, Status>
    where
        Q: Message + 'static,
        A: Message + Default + 'static,
    {
        let call = async {
            let mut grpc = self.grpc().await?;
            let codec = BoundedCodec::<Q, A>::default();
            grpc.server_streaming(question, PathAndQuery::from_static(path), codec)
                .await
        };
        let started = tokio::time::timeout(CALL_TIME, Box::pin(call))
            .await
            .map_err(|_| Status::deadline_exceeded("the registry did not answer in time"))??;
        let mut failed = false;
        let messages = started.into_inner().timeout(STALL_TIME).map_while(move |item| {
            // Messages after an error have no meaning.
            if failed {
                return None;
            }
            let item =
                item.unwrap_or_else(|_| Err(Status::deadline_exceeded("the registry stopped sending data")));
            failed = item.is_err();
            Some(item)
        });
        Ok(Box::pin(messages))
    }

    /// Returns a package.
    ///
    /// # Errors
    /// The server's error, or an exceeded deadline.
    pub async fn get_package(&self, name: &str) -> Result<proto::Package, Status> {
        let question = Request::new(proto::GetPackageRequest {
            name: name.to_owned(),
        });
        let bounded = self.clone().with_message_bytes(PACKAGE_BYTES);
        bounded.ask("/api.Registry/GetPackage", question).await
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
        let question = Request::new(proto::GetBundleRequest {
            pkg_name: package.to_owned(),
            channel_name: channel.to_owned(),
            csv_name: name.to_owned(),
        });
        self.ask("/api.Registry/GetBundle", question).await
    }

    /// Returns the names of all packages: at most as many as [`ReadLimits::CATALOG`] allows, with at most
    /// [`PACKAGE_NAME_BYTES`] together.
    ///
    /// # Errors
    /// The server's error, an exceeded deadline, or too many packages.
    pub async fn list_packages(&self) -> Result<Vec<String>, Status> {
        let most = ReadLimits::CATALOG.packages;
        let question = Request::new(proto::ListPackageRequest {});
        let mut names: Messages<proto::PackageName> =
            self.stream("/api.Registry/ListPackages", question).await?;
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
        let question = Request::new(proto::ListBundlesRequest {});
        self.stream("/api.Registry/ListBundles", question).await
    }

    /// Checks that the server reports to be serving.
    ///
    /// # Errors
    /// The server cannot be reached, does not answer in time or is not serving.
    pub async fn check(&self) -> Result<(), Status> {
        let question = Request::new(HealthCheckRequest {
            service: HEALTH_NAME.to_owned(),
        });
        // No permit bounds how many servers are asked at once.
        let bounded = self.clone().with_message_bytes(PACKAGE_BYTES);
        let answer: HealthCheckResponse = bounded.ask("/grpc.health.v1.Health/Check", question).await?;
        if answer.status() == ServingStatus::Serving {
            Ok(())
        } else {
            Err(Status::unavailable("the registry is not serving"))
        }
    }
}
