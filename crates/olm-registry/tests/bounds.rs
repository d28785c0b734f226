//! The most that a catalog's server can cost its readers. The servers are tonic's own, with answers no real
//! catalog has.

#![allow(clippy::panic)]

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use olm_registry::client::Client;
use olm_registry::limits::{DEPENDENCY_BYTES, MESSAGE_FIELDS, PACKAGE_BYTES, PARALLEL_PACKAGES, ReadLimits};
use olm_registry::proto;
use olm_registry::snapshot::{Fetched, SnapshotError, fetch_within};
use prost::Message as _;
use tokio_stream::{Stream, StreamExt as _};

/// Limits that are reached soon, so that the tests are short.
const SMALL: ReadLimits = ReadLimits {
    bundles: 1_000,
    packages: 10,
    bytes: 8 << 20,
    kept: 4 << 20,
    time: Duration::from_secs(30),
};
/// Upper bound for the time of any read, however busy the machine.
const SOON: Duration = Duration::from_secs(25);

fn bundle(number: usize) -> proto::Bundle {
    proto::Bundle {
        csv_name: format!("demo.v{number}"),
        package_name: "demo".into(),
        channel_name: "stable".into(),
        bundle_path: "quay.io/x/demo:1".into(),
        version: "1.0.0".into(),
        ..proto::Bundle::default()
    }
}

type Bundles = Pin<Box<dyn Stream<Item = proto::Bundle> + Send>>;

mod server {
    //! A handwritten server of two methods: the generated one sends stored messages only.

    use std::convert::Infallible;
    use std::sync::Arc;
    use std::task::{Context, Poll};

    use bytes::Bytes;
    use http_body_util::{BodyExt as _, Full};
    use tonic::body::Body;
    use tonic::codegen::{BoxFuture, Service, http};
    use tonic::server::{Grpc, NamedService, ServerStreamingService, UnaryService};
    use tonic::{Request, Response, Status};
    use tonic_prost::ProstCodec;

    use tokio_stream::StreamExt as _;

    use super::{Bundles, Pin, Stream, proto};

    pub type Package = Pin<Box<dyn Future<Output = proto::Package> + Send>>;

    #[derive(Clone)]
    pub struct Rogue {
        pub bundles: Arc<dyn Fn() -> Bundles + Send + Sync>,
        pub package: Arc<dyn Fn(String) -> Package + Send + Sync>,
    }

    impl NamedService for Rogue {
        const NAME: &'static str = "api.Registry";
    }

    impl Service<http::Request<tonic::body::Body>> for Rogue {
        type Response = http::Response<tonic::body::Body>;
        type Error = Infallible;
        type Future = BoxFuture<Self::Response, Infallible>;

        fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
            Poll::Ready(Ok(()))
        }

        fn call(&mut self, request: http::Request<tonic::body::Body>) -> Self::Future {
            let this = self.clone();
            Box::pin(async move {
                Ok(if request.uri().path().contains("/List") {
                    let codec = ProstCodec::<proto::Bundle, proto::ListBundlesRequest>::default();
                    Grpc::new(codec).server_streaming(this, request).await
                } else {
                    let codec = ProstCodec::<proto::Package, proto::GetPackageRequest>::default();
                    Grpc::new(codec).unary(this, request).await
                })
            })
        }
    }

    /// Answers with a status whose details are invalid base64.
    #[derive(Clone)]
    pub struct Detailed {
        pub in_trailers: bool,
    }

    impl NamedService for Detailed {
        const NAME: &'static str = "api.Registry";
    }

    impl Service<http::Request<Body>> for Detailed {
        type Response = http::Response<Body>;
        type Error = Infallible;
        type Future = std::future::Ready<Result<Self::Response, Infallible>>;

        fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
            Poll::Ready(Ok(()))
        }

        fn call(&mut self, _: http::Request<Body>) -> Self::Future {
            let mut status = http::HeaderMap::new();
            for (name, value) in [
                ("grpc-status", "2"),
                ("grpc-message", "as it likes"),
                ("grpc-status-details-bin", "!"),
            ] {
                status.insert(name, http::HeaderValue::from_static(value));
            }
            let mut answer = http::Response::new(Body::empty());
            if self.in_trailers {
                let trailers = std::future::ready(Some(Ok(status)));
                *answer.body_mut() = Body::new(Full::new(Bytes::new()).with_trailers(trailers));
            } else {
                *answer.headers_mut() = status;
            }
            let grpc = http::HeaderValue::from_static("application/grpc");
            answer.headers_mut().insert("content-type", grpc);
            std::future::ready(Ok(answer))
        }
    }

    impl ServerStreamingService<proto::ListBundlesRequest> for Rogue {
        type Response = proto::Bundle;
        type ResponseStream = Pin<Box<dyn Stream<Item = Result<proto::Bundle, Status>> + Send>>;
        type Future = BoxFuture<Response<Self::ResponseStream>, Status>;

        fn call(&mut self, _: Request<proto::ListBundlesRequest>) -> Self::Future {
            let bundles: Self::ResponseStream = Box::pin((self.bundles)().map(Ok));
            Box::pin(async move { Ok(Response::new(bundles)) })
        }
    }

    impl UnaryService<proto::GetPackageRequest> for Rogue {
        type Response = proto::Package;
        type Future = BoxFuture<Response<proto::Package>, Status>;

        fn call(&mut self, request: Request<proto::GetPackageRequest>) -> Self::Future {
            let package = (self.package)(request.into_inner().name);
            Box::pin(async move { Ok(Response::new(package.await)) })
        }
    }
}

/// Reads a catalog with these answers.
async fn read(
    limits: ReadLimits,
    bundles: impl Fn() -> Bundles + Send + Sync + 'static,
    package: impl Fn() -> proto::Package + Send + Sync + 'static,
) -> Result<usize, SnapshotError> {
    let package = move |_| std::future::ready(package());
    let fetched = read_slowly(limits, bundles, package).await;
    fetched.map(|fetched| fetched.snapshot.entries.len())
}

/// Reads a catalog whose server delays its answer for each package.
async fn read_slowly<Responding: Future<Output = proto::Package> + Send + 'static>(
    limits: ReadLimits,
    bundles: impl Fn() -> Bundles + Send + Sync + 'static,
    package: impl Fn(String) -> Responding + Send + Sync + 'static,
) -> Result<Fetched, SnapshotError> {
    let (address, task) = serve(bundles, package).await;
    let began = Instant::now();
    let client = client(&address);
    let fetched = fetch_within(&client, &limits).await;
    assert!(began.elapsed() < SOON, "{:?}", began.elapsed());
    task.abort();
    fetched
}

type Serving = tokio::task::JoinHandle<Result<(), tonic::transport::Error>>;

fn client(address: &str) -> Client {
    let endpoint = tonic::transport::Endpoint::from_shared(format!("http://{address}"));
    Client::new(endpoint.expect("address").connect_lazy())
}

/// Starts a server with these answers and returns its address.
async fn serve<Responding: Future<Output = proto::Package> + Send + 'static>(
    bundles: impl Fn() -> Bundles + Send + Sync + 'static,
    package: impl Fn(String) -> Responding + Send + Sync + 'static,
) -> (String, Serving) {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("port");
    let address = listener.local_addr().expect("address").to_string();
    let rogue = server::Rogue {
        bundles: Arc::new(bundles),
        package: Arc::new(move |name| -> server::Package { Box::pin(package(name)) }),
    };
    let incoming = tokio_stream::wrappers::TcpListenerStream::new(listener);
    let task = tokio::spawn(
        tonic::transport::Server::builder()
            .add_service(rogue)
            .serve_with_incoming(incoming),
    );
    (address, task)
}

fn package() -> proto::Package {
    proto::Package {
        name: "demo".into(),
        default_channel_name: "stable".into(),
        ..proto::Package::default()
    }
}

fn endless(make: impl Fn(usize) -> proto::Bundle + Send + 'static) -> Bundles {
    Box::pin(tokio_stream::iter((0..).map(make)))
}

#[track_caller]
fn refused(result: Result<usize, SnapshotError>, text: &str) {
    let message = result.expect_err(text).to_string();
    assert!(message.contains(text), "{text}: {message}");
}

#[tokio::test]
async fn an_ordinary_catalog_is_read() {
    let bundles = || -> Bundles { Box::pin(tokio_stream::iter((0..3).map(bundle))) };
    assert_eq!(read(SMALL, bundles, package).await.expect("read"), 3);
}

#[tokio::test]
async fn endless_bundles_are_counted() {
    let result = read(SMALL, || endless(bundle), package).await;
    refused(
        result,
        "more than 1000 bundles, the limit `bundles` of one catalog",
    );
}

/// Content that is not kept counts too, or a server could keep a reader busy forever.
#[tokio::test]
async fn endless_bytes_are_counted() {
    let large = |number| proto::Bundle {
        csv_json: "x".repeat(1 << 20),
        ..bundle(number)
    };
    let result = read(SMALL, move || endless(large), package).await;
    refused(result, "more than 8388608 bytes, the limit `bytes`");
}

#[tokio::test]
async fn what_is_kept_of_bundles_is_counted() {
    let named = |number| proto::Bundle {
        channel_name: format!("{number}{}", "x".repeat(1 << 20)),
        ..bundle(number)
    };
    let result = read(SMALL, move || endless(named), package).await;
    refused(result, "bytes to keep in memory, the limit `kept`");
    // Only a hash of inline manifests is kept.
    let inline = |number| proto::Bundle {
        bundle_path: String::new(),
        object: vec!["x".repeat(1 << 20)],
        ..bundle(number)
    };
    let result = read(SMALL, move || endless(inline), package).await;
    refused(result, ", the limit `bytes`");
    // Reports about skipped bundles count too.
    let unusable = |number| proto::Bundle {
        dependencies: vec![proto::Dependency {
            r#type: "olm.package".into(),
            value: "x".repeat(300 << 10),
        }],
        channel_name: "y".repeat(1 << 20),
        ..bundle(number)
    };
    let result = read(SMALL, move || endless(unusable), package).await;
    refused(result, "the limit `kept`");
}

#[tokio::test]
async fn what_is_kept_of_packages_is_counted() {
    let bundles = || -> Bundles { Box::pin(tokio_stream::iter((0..1).map(bundle))) };
    let channels = || proto::Package {
        channels: (0..80_000)
            .map(|number| proto::Channel {
                name: number.to_string(),
                csv_name: "demo.v0".into(),
                deprecation: None,
            })
            .collect(),
        ..package()
    };
    refused(read(SMALL, bundles, channels).await, "the limit `kept`");
}

#[tokio::test]
async fn packages_are_counted_before_they_are_asked_for() {
    let bundles = || -> Bundles {
        Box::pin(tokio_stream::iter((0..20).map(|number| proto::Bundle {
            package_name: format!("demo-{number}"),
            ..bundle(number)
        })))
    };
    refused(read(SMALL, bundles, package).await, "more than 10 packages");
}

fn property(kind: &str, value: impl Into<String>) -> proto::Property {
    proto::Property {
        r#type: kind.into(),
        value: value.into(),
    }
}

/// Lists of properties are stored once, but read and indexed for each bundle that has them.
#[tokio::test]
async fn what_bundles_share_is_counted_for_each_of_them() {
    let properties: Vec<proto::Property> = (0..5_000)
        .map(|number| property("olm.label.required", format!(r#"{{"label":"{number}"}}"#)))
        .collect();
    let shared = move |number| proto::Bundle {
        properties: properties.clone(),
        ..bundle(number)
    };
    let limits = ReadLimits {
        bytes: 1 << 30,
        ..SMALL
    };
    let result = read(limits, move || endless(shared.clone()), package).await;
    refused(result, "the limit `kept`");
}

/// Values in another order each time are few bytes, but need as much memory as new ones.
#[tokio::test]
async fn what_properties_become_is_counted_for_each_list_of_them() {
    let long = "x".repeat(64 << 10);
    let reordered = move |number: usize| proto::Bundle {
        properties: vec![
            property("olm.label", format!(r#"{{"label":"{long}"}}"#)),
            property("olm.label", format!(r#"{{"label":"{number}"}}"#)),
        ],
        ..bundle(number)
    };
    let limits = ReadLimits {
        bytes: 1 << 30,
        ..SMALL
    };
    let result = read(limits, move || endless(reordered.clone()), package).await;
    refused(result, "the limit `kept`");
}

/// One bundle that is too large does not hide the others.
#[tokio::test]
async fn bundles_that_say_too_much_are_left_out_by_name() {
    let label = |bytes: usize| format!(r#"{{"label":"{}"}}"#, "x".repeat(bytes - r#"{"label":""}"#.len()));
    let cases = [
        (property("olm.label", label(DEPENDENCY_BYTES)), ""),
        (property("olm.csv.metadata", label(1 << 20)), ""),
        (
            property("olm.label", label(DEPENDENCY_BYTES + 1)),
            "a property olm.label exceeds 262144 bytes",
        ),
        (
            property("olm.package", format!("[{}0]", "0,".repeat(DEPENDENCY_BYTES))),
            "a property olm.package exceeds 262144 bytes",
        ),
    ];
    for (large, reason) in cases {
        let limits = ReadLimits {
            bytes: 1 << 30,
            kept: 1 << 30,
            ..SMALL
        };
        let bundles = move || -> Bundles {
            let large = proto::Bundle {
                properties: vec![large.clone()],
                ..bundle(7)
            };
            Box::pin(tokio_stream::iter([bundle(1), large]))
        };
        let fetched = read_slowly(limits, bundles, |_| std::future::ready(package())).await;
        let fetched = fetched.expect("read");
        let expected: Vec<String> = (!reason.is_empty())
            .then(|| format!("bundle \"demo.v7\" of package \"demo\", channel \"stable\": {reason}"))
            .into_iter()
            .collect();
        assert_eq!(fetched.skipped, expected);
        assert_eq!(fetched.snapshot.entries.len(), 2 - expected.len());
    }
}

/// A distant server answers one request in a tenth of a second, and a catalog has hundreds of packages.
#[tokio::test]
async fn packages_are_asked_for_some_at_a_time() {
    let bundles = || -> Bundles {
        Box::pin(tokio_stream::iter((0..2 * PARALLEL_PACKAGES).map(|number| {
            proto::Bundle {
                package_name: format!("demo-{number}"),
                ..bundle(number)
            }
        })))
    };
    let limits = ReadLimits {
        packages: 100,
        ..SMALL
    };
    // Requests are answered only when this many wait; more never run at a time.
    let together = Arc::new(tokio::sync::Barrier::new(PARALLEL_PACKAGES));
    let asking = Arc::new(AtomicUsize::new(0));
    let most = Arc::new(AtomicUsize::new(0));
    let seen = Arc::clone(&most);
    let answer = move |name: String| {
        let (together, asking, most) = (Arc::clone(&together), Arc::clone(&asking), Arc::clone(&most));
        async move {
            most.fetch_max(asking.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            together.wait().await;
            tokio::time::sleep(Duration::from_millis(20)).await;
            asking.fetch_sub(1, Ordering::SeqCst);
            proto::Package { name, ..package() }
        }
    };
    let fetched = read_slowly(limits, bundles, answer).await.expect("read");
    assert_eq!(fetched.snapshot.entries.len(), 2 * PARALLEL_PACKAGES);
    assert_eq!(seen.load(Ordering::SeqCst), PARALLEL_PACKAGES);
}

/// A bundle with nothing but its name is also a valid package name message.
#[tokio::test]
async fn names_of_packages_are_bounded() {
    let named = |number| proto::Bundle {
        csv_name: format!("{number}{}", "x".repeat(1 << 20)),
        ..proto::Bundle::default()
    };
    let (address, task) = serve(move || endless(named), |_| std::future::ready(package())).await;
    let listed = client(&address).list_packages().await;
    task.abort();
    let error = listed.expect_err("they have no end");
    assert!(error.message().contains("package names"), "{error}");
}

/// tonic panics at such details, in the task that asked.
#[tokio::test]
async fn details_of_a_status_that_are_none_are_not_read() {
    for in_trailers in [false, true] {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("port");
        let address = listener.local_addr().expect("address").to_string();
        let incoming = tokio_stream::wrappers::TcpListenerStream::new(listener);
        let task = tokio::spawn(
            tonic::transport::Server::builder()
                .add_service(server::Detailed { in_trailers })
                .serve_with_incoming(incoming),
        );
        let client = client(&address);
        let package = client.get_package("demo").await.expect_err("a status");
        let streamed = match client.list_bundles().await {
            Ok(bundles) => Box::pin(bundles)
                .next()
                .await
                .expect("an end")
                .expect_err("a status"),
            Err(status) => status,
        };
        for status in [package, streamed] {
            assert_eq!(status.message(), "as it likes", "{status:?}");
        }
        task.abort();
    }
}

/// Several are requested at a time, so each has a much smaller limit than a bundle.
#[tokio::test]
async fn a_package_too_large_leaves_its_bundles_out() {
    let bundles = || -> Bundles { Box::pin(tokio_stream::iter((0..1).map(bundle))) };
    let large = |name: String| {
        std::future::ready(proto::Package {
            default_channel_name: "x".repeat(PACKAGE_BYTES),
            name,
            ..package()
        })
    };
    let fetched = read_slowly(SMALL, bundles, large).await.expect("read");
    assert_eq!(fetched.snapshot.entries.len(), 0);
    assert!(
        fetched.skipped[0].starts_with("package \"demo\": "),
        "{:?}",
        fetched.skipped
    );
}

/// Two encoded bytes are a hundred in memory.
#[tokio::test]
async fn a_message_of_empty_fields_is_not_decoded() {
    let hollow = || proto::Bundle {
        provided_apis: vec![proto::GroupVersionKind::default(); MESSAGE_FIELDS + 1],
        ..bundle(0)
    };
    assert!(hollow().encoded_len() < 1 << 20);
    let bundles = move || endless(move |_| hollow());
    refused(read(SMALL, bundles, package).await, "fields, the limit");
}

#[tokio::test]
async fn a_catalog_that_drips_is_given_up() {
    let bundles = || -> Bundles {
        let drip = tokio_stream::iter((0..).map(bundle)).throttle(Duration::from_millis(50));
        Box::pin(drip)
    };
    let limits = ReadLimits {
        time: Duration::from_secs(1),
        ..SMALL
    };
    refused(
        read(limits, bundles, package).await,
        "timed out after 1 s, the limit `time`",
    );
}
