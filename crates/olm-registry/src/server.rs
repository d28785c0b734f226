//! The gRPC server of the contract, over an index.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use tokio::net::TcpListener;
use tokio_stream::{Stream, StreamExt as _, iter};
use tonic::transport::server::TcpIncoming;
use tonic::{Request, Response, Status};

use crate::frame::Frame;
use crate::health::HealthService;
use crate::index::Index;
use crate::proto::{self};
use crate::query::QueryError;
use crate::service::experimental_registry_server::{ExperimentalRegistry, ExperimentalRegistryServer};
use crate::service::registry_server::{Registry, RegistryServer};
use crate::write_coalescer::WriteCoalescer;

/// Metadata key that a request to an experimental method must have.
pub const ACKNOWLEDGE_EXPERIMENTAL: &str = "x-acknowledge-experimental";

/// Serving ended early.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The descriptors for reflection are broken.
    #[error("set up reflection")]
    Reflection(#[source] tonic_reflection::server::Error),
    /// The transport failed.
    #[error("serve registry")]
    Transport(#[source] tonic::transport::Error),
}

type Answers<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

#[derive(Clone)]
struct Service {
    index: Arc<Index>,
}

/// Serves `index` on `listener` until `stop` resolves, then lets open requests finish.
///
/// # Errors
/// The transport fails.
pub async fn serve(
    index: Arc<Index>,
    listener: TcpListener,
    stop: impl Future<Output = ()> + Send + 'static,
) -> Result<(), ServeError> {
    let (health, serving) = HealthService::new();
    let reflection = || {
        tonic_reflection::server::Builder::configure()
            .register_encoded_file_descriptor_set(proto::DESCRIPTORS)
            .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
    };
    // Each version describes itself by default; here it also describes the other.
    let reflection_v1 = reflection()
        .register_encoded_file_descriptor_set(tonic_reflection::pb::v1alpha::FILE_DESCRIPTOR_SET)
        .build_v1()
        .map_err(ServeError::Reflection)?;
    let reflection_v1alpha = reflection()
        .register_encoded_file_descriptor_set(tonic_reflection::pb::v1::FILE_DESCRIPTOR_SET)
        .build_v1alpha()
        .map_err(ServeError::Reflection)?;
    let service = Service { index };
    // Small answers would wait 40 ms for the client's delayed acknowledgement otherwise.
    let incoming = TcpIncoming::from(listener)
        .with_nodelay(Some(true))
        .map(|stream| stream.map(WriteCoalescer::new));
    tonic::transport::Server::builder()
        .add_service(RegistryServer::new(service.clone()))
        .add_service(ExperimentalRegistryServer::new(service))
        .add_service(health)
        .add_service(reflection_v1)
        .add_service(reflection_v1alpha)
        .serve_with_incoming_shutdown(incoming, async move {
            stop.await;
            // Ends the streams of health watchers; a stop would wait for them otherwise.
            let _ = serving.send(false);
            drop(serving);
        })
        .await
        .map_err(ServeError::Transport)
}

/// Returns a query's error as a status. Upstream returns plain errors, which clients see with code Unknown
/// and may compare by text.
fn status(error: &QueryError) -> Status {
    match error {
        QueryError::NoSchema | QueryError::SchemaName(_) => Status::invalid_argument(error.to_string()),
        _ => Status::unknown(error.to_string()),
    }
}

fn stream<T: Send + 'static>(answers: Result<Vec<T>, QueryError>) -> Result<Response<Answers<T>>, Status> {
    let answers = answers.map_err(|error| status(&error))?;
    Ok(Response::new(Box::pin(iter(answers.into_iter().map(Ok)))))
}

fn single<T>(answer: Result<T, QueryError>) -> Result<Response<T>, Status> {
    answer.map(Response::new).map_err(|error| status(&error))
}

fn api(group: String, version: String, kind: String) -> proto::GroupVersionKind {
    proto::GroupVersionKind {
        group,
        version,
        kind,
        plural: String::new(),
    }
}

#[tonic::async_trait]
impl Registry for Service {
    type ListPackagesStream = Answers<proto::PackageName>;

    async fn list_packages(
        &self,
        _request: Request<proto::ListPackageRequest>,
    ) -> Result<Response<Self::ListPackagesStream>, Status> {
        stream(Ok(self.index.list_packages()))
    }

    async fn get_package(
        &self,
        request: Request<proto::GetPackageRequest>,
    ) -> Result<Response<proto::Package>, Status> {
        single(self.index.package(&request.get_ref().name))
    }

    async fn get_bundle(&self, request: Request<proto::GetBundleRequest>) -> Result<Response<Frame>, Status> {
        let wanted = request.get_ref();
        single(
            self.index
                .bundle(&wanted.pkg_name, &wanted.channel_name, &wanted.csv_name),
        )
    }

    async fn get_bundle_for_channel(
        &self,
        request: Request<proto::GetBundleInChannelRequest>,
    ) -> Result<Response<Frame>, Status> {
        let wanted = request.get_ref();
        single(self.index.head_bundle(&wanted.pkg_name, &wanted.channel_name))
    }

    type GetChannelEntriesThatReplaceStream = Answers<proto::ChannelEntry>;

    async fn get_channel_entries_that_replace(
        &self,
        request: Request<proto::GetAllReplacementsRequest>,
    ) -> Result<Response<Self::GetChannelEntriesThatReplaceStream>, Status> {
        stream(self.index.entries_that_replace(&request.get_ref().csv_name))
    }

    async fn get_bundle_that_replaces(
        &self,
        request: Request<proto::GetReplacementRequest>,
    ) -> Result<Response<Frame>, Status> {
        let wanted = request.get_ref();
        single(
            self.index
                .bundle_that_replaces(&wanted.csv_name, &wanted.pkg_name, &wanted.channel_name),
        )
    }

    type GetChannelEntriesThatProvideStream = Answers<proto::ChannelEntry>;

    async fn get_channel_entries_that_provide(
        &self,
        request: Request<proto::GetAllProvidersRequest>,
    ) -> Result<Response<Self::GetChannelEntriesThatProvideStream>, Status> {
        let wanted = request.into_inner();
        stream(
            self.index
                .entries_that_provide(&api(wanted.group, wanted.version, wanted.kind)),
        )
    }

    type GetLatestChannelEntriesThatProvideStream = Answers<proto::ChannelEntry>;

    async fn get_latest_channel_entries_that_provide(
        &self,
        request: Request<proto::GetLatestProvidersRequest>,
    ) -> Result<Response<Self::GetLatestChannelEntriesThatProvideStream>, Status> {
        let wanted = request.into_inner();
        stream(
            self.index
                .latest_entries_that_provide(&api(wanted.group, wanted.version, wanted.kind)),
        )
    }

    async fn get_default_bundle_that_provides(
        &self,
        request: Request<proto::GetDefaultProviderRequest>,
    ) -> Result<Response<Frame>, Status> {
        let wanted = request.into_inner();
        single(
            self.index
                .default_bundle_that_provides(&api(wanted.group, wanted.version, wanted.kind)),
        )
    }

    type ListBundlesStream = Answers<Frame>;

    /// Frames are read at the client's pace, so a slow client costs no memory.
    async fn list_bundles(
        &self,
        _request: Request<proto::ListBundlesRequest>,
    ) -> Result<Response<Self::ListBundlesStream>, Status> {
        let index = Arc::clone(&self.index);
        let frames =
            iter(0..index.entry_count()).filter_map(move |position| index.listed_bundle(position).map(Ok));
        Ok(Response::new(Box::pin(frames)))
    }
}

#[tonic::async_trait]
impl ExperimentalRegistry for Service {
    type ExperimentalListPackageCustomSchemasStream = Answers<Frame>;

    async fn experimental_list_package_custom_schemas(
        &self,
        request: Request<proto::ExperimentalListPackageCustomSchemasRequest>,
    ) -> Result<Response<Self::ExperimentalListPackageCustomSchemasStream>, Status> {
        let acknowledged = request
            .metadata()
            .get(ACKNOWLEDGE_EXPERIMENTAL)
            .is_some_and(|value| value == "true");
        if !acknowledged {
            return stream(Ok(Vec::new()));
        }
        let wanted = request.get_ref();
        stream(self.index.custom_blobs(&wanted.schema, &wanted.package_name))
    }
}
