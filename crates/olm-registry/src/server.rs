//! The gRPC server of the contract, over an index.

use std::convert::Infallible;
use std::future::{Future, ready};
use std::sync::Arc;
use std::task::{Context, Poll};

use prost::Message;
use tokio::net::TcpListener;
use tokio_stream::{StreamExt as _, iter};
use tonic::body::Body;
use tonic::codegen::{BoxFuture, Service, http};
use tonic::server::{Grpc, NamedService};
use tonic::transport::server::TcpIncoming;
use tonic::{Request, Response, Status};

use crate::codec::{BoundedCodec, Outgoing};
use crate::health::HealthService;
use crate::index::Index;
use crate::proto;
use crate::query::QueryError;
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

/// A service of the contract, by its name in paths. Bundles and custom blobs are sent as stored bytes.
#[derive(Clone)]
struct Registry<const EXPERIMENTAL: bool>(Arc<Index>);

/// An HTTP response with the answer of a method.
type Answer = BoxFuture<http::Response<Body>, Infallible>;

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
    // Small answers would wait 40 ms for the client's delayed acknowledgement otherwise.
    let incoming = TcpIncoming::from(listener)
        .with_nodelay(Some(true))
        .map(|stream| stream.map(WriteCoalescer::new));
    tonic::transport::Server::builder()
        .add_service(Registry::<false>(Arc::clone(&index)))
        .add_service(Registry::<true>(index))
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
        QueryError::Invalid(text) => Status::invalid_argument(text),
        QueryError::NotFound(text) => Status::unknown(text),
    }
}

/// Answers a request of type `Q` with one message.
fn unary<Q: Message + Default + 'static, A: Outgoing>(
    request: http::Request<Body>,
    answer: impl Fn(&Q) -> Result<A, QueryError> + Send + 'static,
) -> Answer {
    let method = tower::service_fn(move |question: Request<Q>| {
        let answer = answer(question.get_ref()).map_err(|error| status(&error));
        ready(answer.map(Response::new))
    });
    Box::pin(async move {
        let mut grpc = Grpc::new(BoundedCodec::<A, Q>::default());
        Ok(grpc.unary(method, request).await)
    })
}

/// Answers a request of type `Q` with a stream. Items are taken at the client's pace, so a slow client costs
/// no memory.
fn stream<Q, A, I>(
    request: http::Request<Body>,
    answers: impl Fn(&Q) -> Result<I, QueryError> + Send + 'static,
) -> Answer
where
    Q: Message + Default + 'static,
    A: Outgoing,
    I: IntoIterator<Item = A>,
    I::IntoIter: Send + 'static,
{
    let method = tower::service_fn(move |question: Request<Q>| {
        let answers = answers(question.get_ref()).map_err(|error| status(&error));
        ready(answers.map(|answers| Response::new(iter(answers.into_iter().map(Ok::<A, Status>)))))
    });
    Box::pin(async move {
        let mut grpc = Grpc::new(BoundedCodec::<A, Q>::default());
        Ok(grpc.server_streaming(method, request).await)
    })
}

fn api(group: &str, version: &str, kind: &str) -> proto::GroupVersionKind {
    proto::GroupVersionKind {
        group: group.to_owned(),
        version: version.to_owned(),
        kind: kind.to_owned(),
        plural: String::new(),
    }
}

impl<const EXPERIMENTAL: bool> NamedService for Registry<EXPERIMENTAL> {
    const NAME: &'static str = match EXPERIMENTAL {
        true => "api.ExperimentalRegistry",
        false => "api.Registry",
    };
}

impl<const EXPERIMENTAL: bool> Service<http::Request<Body>> for Registry<EXPERIMENTAL> {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = Answer;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Answer {
        answer(Arc::clone(&self.0), request)
    }
}

/// Answers a request by its path.
fn answer(index: Arc<Index>, request: http::Request<Body>) -> Answer {
    match request.uri().path() {
        "/api.Registry/ListPackages" => stream(request, move |_: &proto::ListPackageRequest| {
            Ok(index.list_packages())
        }),
        "/api.Registry/GetPackage" => unary(request, move |wanted: &proto::GetPackageRequest| {
            index.package(&wanted.name)
        }),
        "/api.Registry/GetBundle" => unary(request, move |wanted: &proto::GetBundleRequest| {
            index.bundle(&wanted.pkg_name, &wanted.channel_name, &wanted.csv_name)
        }),
        "/api.Registry/GetBundleForChannel" => {
            unary(request, move |wanted: &proto::GetBundleInChannelRequest| {
                index.head_bundle(&wanted.pkg_name, &wanted.channel_name)
            })
        }
        "/api.Registry/GetChannelEntriesThatReplace" => {
            stream(request, move |wanted: &proto::GetAllReplacementsRequest| {
                index.entries_that_replace(&wanted.csv_name)
            })
        }
        "/api.Registry/GetBundleThatReplaces" => {
            unary(request, move |wanted: &proto::GetReplacementRequest| {
                index.bundle_that_replaces(&wanted.csv_name, &wanted.pkg_name, &wanted.channel_name)
            })
        }
        "/api.Registry/GetChannelEntriesThatProvide" => {
            stream(request, move |wanted: &proto::GetAllProvidersRequest| {
                index.entries_that_provide(&api(&wanted.group, &wanted.version, &wanted.kind))
            })
        }
        "/api.Registry/GetLatestChannelEntriesThatProvide" => {
            stream(request, move |wanted: &proto::GetLatestProvidersRequest| {
                index.latest_entries_that_provide(&api(&wanted.group, &wanted.version, &wanted.kind))
            })
        }
        "/api.Registry/GetDefaultBundleThatProvides" => {
            unary(request, move |wanted: &proto::GetDefaultProviderRequest| {
                index.default_bundle_that_provides(&api(&wanted.group, &wanted.version, &wanted.kind))
            })
        }
        "/api.Registry/ListBundles" => stream(request, move |_: &proto::ListBundlesRequest| {
            let index = Arc::clone(&index);
            let positions = 0..index.entry_count();
            Ok(positions.filter_map(move |position| index.listed_bundle(position)))
        }),
        "/api.ExperimentalRegistry/ExperimentalListPackageCustomSchemas" => {
            let header = request.headers().get(ACKNOWLEDGE_EXPERIMENTAL);
            let acknowledged = header.is_some_and(|value| value == "true");
            type Question = proto::ExperimentalListPackageCustomSchemasRequest;
            stream(request, move |wanted: &Question| match acknowledged {
                true => index.custom_blobs(&wanted.schema, &wanted.package_name),
                false => Ok(Vec::new()),
            })
        }
        _ => Box::pin(ready(Ok(Status::unimplemented("").into_http::<Body>()))),
    }
}
