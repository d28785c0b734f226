//! A real server on a loopback port and our client, method by method.

#![allow(clippy::panic)]

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use olm_registry::client::{Client, HEALTH_NAME};
use olm_registry::index::Index;
use olm_registry::proto::{
    self, experimental_registry_client::ExperimentalRegistryClient, registry_client::RegistryClient,
};
use olm_registry::{cache, server, snapshot};
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio_stream::StreamExt as _;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Request, Status};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;

const CATALOG: &str = include_str!("catalog.yaml");

struct Server {
    address: String,
    stop: Option<oneshot::Sender<()>>,
    task: JoinHandle<()>,
}

impl Server {
    async fn start(index: Index) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("port");
        Self::start_on(index, listener)
    }

    fn start_on(index: Index, listener: TcpListener) -> Self {
        let address = listener.local_addr().expect("address").to_string();
        let (stop, stopped) = oneshot::channel::<()>();
        let task = tokio::spawn(async move {
            let stop = async {
                let _ = stopped.await;
            };
            server::serve(Arc::new(index), listener, stop)
                .await
                .expect("serve");
        });
        Self {
            address,
            stop: Some(stop),
            task,
        }
    }

    async fn small() -> Self {
        let dir = tempfile::tempdir().expect("folder");
        std::fs::write(dir.path().join("catalog.yaml"), CATALOG).expect("catalog");
        Self::start(cache::open_temporary(dir.path()).expect("index")).await
    }

    fn client(&self) -> Client {
        Client::connect(&self.address).expect("address")
    }

    async fn registry(&self) -> RegistryClient<Channel> {
        RegistryClient::connect(format!("http://{}", self.address))
            .await
            .expect("connection")
    }

    /// Ends the server as a signal would, and waits for it.
    async fn stop(&mut self) {
        self.stop.take().expect("running").send(()).expect("running");
        tokio::time::timeout(Duration::from_secs(10), &mut self.task)
            .await
            .expect("stops in time")
            .expect("no panic");
    }
}

fn unknown<T: std::fmt::Debug>(result: Result<T, Status>, message: &str) {
    let status = result.expect_err(message);
    assert_eq!((status.code(), status.message()), (Code::Unknown, message));
}

async fn entries(
    stream: Result<tonic::Response<tonic::Streaming<proto::ChannelEntry>>, Status>,
) -> Vec<String> {
    stream
        .expect("entries")
        .into_inner()
        .map(|entry| entry.expect("entry"))
        .map(|entry| {
            format!(
                "{}/{}/{}<{}",
                entry.package_name, entry.channel_name, entry.bundle_name, entry.replaces
            )
        })
        .collect()
        .await
}

#[tokio::test]
async fn packages() {
    let server = Server::small().await;
    let client = server.client();
    assert_eq!(client.list_packages().await.expect("packages"), ["alpha", "beta"]);
    let package = client.get_package("alpha").await.expect("package");
    assert_eq!(package.default_channel_name, "stable");
    assert_eq!(package.deprecation.expect("deprecation").message, "alpha is old");
    let channels: Vec<_> = package
        .channels
        .iter()
        .map(|channel| {
            (
                channel.name.as_str(),
                channel.csv_name.as_str(),
                channel.deprecation.is_some(),
            )
        })
        .collect();
    assert_eq!(
        channels,
        [("fast", "alpha.v3", true), ("stable", "alpha.v3", false)]
    );
    unknown(client.get_package("gamma").await, "package \"gamma\" not found");
}

#[tokio::test]
async fn one_bundle() {
    let server = Server::small().await;
    let client = server.client();
    let bundle = client
        .get_bundle("alpha", "stable", "alpha.v2")
        .await
        .expect("bundle");
    assert_eq!(bundle.channel_name, "stable");
    assert_eq!(bundle.skip_range, "<2.0.0");
    assert_eq!(
        (bundle.replaces.as_str(), bundle.skips.len()),
        ("", 0),
        "edges are left out"
    );
    assert_eq!(
        bundle.deprecation.expect("deprecation").message,
        "alpha.v2 is broken"
    );
    assert_eq!(bundle.object.len(), 2);
    assert!(bundle.csv_json.contains(r#""kind":"ClusterServiceVersion""#));
    assert_eq!(bundle.provided_apis[0].kind, "Alpha");
    assert!(
        bundle
            .properties
            .iter()
            .all(|property| property.r#type != "olm.bundle.object")
    );
    unknown(client.get_bundle("x", "c", "b").await, "package \"x\" not found");
    unknown(
        client.get_bundle("alpha", "c", "b").await,
        "package \"alpha\", channel \"c\" not found",
    );
    unknown(
        client.get_bundle("alpha", "stable", "b").await,
        "package \"alpha\", channel \"stable\", bundle \"b\" not found",
    );
}

#[tokio::test]
async fn a_csv_is_made_from_metadata_with_the_packages_icon() {
    let server = Server::small().await;
    let bundle = server
        .client()
        .get_bundle("beta", "stable", "beta.v1")
        .await
        .expect("bundle");
    let csv: serde_json::Value = serde_json::from_str(&bundle.csv_json).expect("json");
    assert_eq!(csv["spec"]["install"]["strategy"], "deployment");
    assert_eq!(csv["spec"]["icon"][0]["mediatype"], "image/svg+xml");
    assert_eq!(csv["spec"]["description"], "About beta");
    assert_eq!(csv["spec"]["displayName"], "Beta");
    assert_eq!(bundle.object, std::slice::from_ref(&bundle.csv_json));
}

#[tokio::test]
#[allow(deprecated)]
async fn head_of_a_channel() {
    let server = Server::small().await;
    let mut registry = server.registry().await;
    let request = |package: &str, channel: &str| proto::GetBundleInChannelRequest {
        pkg_name: package.into(),
        channel_name: channel.into(),
    };
    let head = registry
        .get_bundle_for_channel(request("alpha", "stable"))
        .await
        .expect("head");
    assert_eq!(head.into_inner().csv_name, "alpha.v3");
    unknown(
        registry.get_bundle_for_channel(request("alpha", "x")).await,
        "package \"alpha\", channel \"x\" not found",
    );
}

#[tokio::test]
async fn replacements() {
    let server = Server::small().await;
    let mut registry = server.registry().await;
    let all = |name: &str| proto::GetAllReplacementsRequest {
        csv_name: name.into(),
    };
    // Once where replaces and skips name it both, once in each channel.
    assert_eq!(
        entries(registry.get_channel_entries_that_replace(all("alpha.v2")).await).await,
        ["alpha/fast/alpha.v3<alpha.v2", "alpha/stable/alpha.v3<alpha.v2"]
    );
    assert_eq!(
        entries(registry.get_channel_entries_that_replace(all("alpha.v1.1")).await).await,
        ["alpha/stable/alpha.v3<alpha.v2"]
    );
    unknown(
        registry.get_channel_entries_that_replace(all("none")).await,
        "no channel entries found that replace none",
    );
    let one = |name: &str, channel: &str| proto::GetReplacementRequest {
        csv_name: name.into(),
        pkg_name: "alpha".into(),
        channel_name: channel.into(),
    };
    let next = registry
        .get_bundle_that_replaces(one("alpha.v1", "stable"))
        .await
        .expect("next");
    assert_eq!(next.into_inner().csv_name, "alpha.v2");
    unknown(
        registry.get_bundle_that_replaces(one("alpha.v3", "stable")).await,
        "no entry found for package \"alpha\", channel \"stable\"",
    );
}

#[tokio::test]
async fn providers() {
    let server = Server::small().await;
    let mut registry = server.registry().await;
    let (group, version) = ("example.com".to_owned(), "v1".to_owned());
    let provide = |kind: &str| proto::GetAllProvidersRequest {
        group: group.clone(),
        version: version.clone(),
        kind: kind.into(),
        plural: "ignored".into(),
    };
    // The skipped name outside of the channel counts here.
    assert_eq!(
        entries(registry.get_channel_entries_that_provide(provide("Alpha")).await).await,
        [
            "alpha/fast/alpha.v3<alpha.v2",
            "alpha/stable/alpha.v1<",
            "alpha/stable/alpha.v2<alpha.v1",
            "alpha/stable/alpha.v3<alpha.v2",
            "alpha/stable/alpha.v3<alpha.v1.1",
            "beta/stable/beta.v1<",
        ]
    );
    let latest = |kind: &str| proto::GetLatestProvidersRequest {
        group: group.clone(),
        version: version.clone(),
        kind: kind.into(),
        plural: String::new(),
    };
    // But not here.
    assert_eq!(
        entries(
            registry
                .get_latest_channel_entries_that_provide(latest("Alpha"))
                .await
        )
        .await,
        [
            "alpha/fast/alpha.v3<alpha.v2",
            "alpha/stable/alpha.v3<alpha.v2",
            "beta/stable/beta.v1<"
        ]
    );
    let default = |kind: &str| proto::GetDefaultProviderRequest {
        group: group.clone(),
        version: version.clone(),
        kind: kind.into(),
        plural: String::new(),
    };
    let provider = registry
        .get_default_bundle_that_provides(default("Alpha"))
        .await
        .expect("provider");
    let provider = provider.into_inner();
    assert_eq!(
        (provider.csv_name.as_str(), provider.channel_name.as_str()),
        ("alpha.v3", "stable")
    );
    let text = "group:\"example.com\" version:\"v1\" kind:\"None\"";
    unknown(
        registry.get_channel_entries_that_provide(provide("None")).await,
        &format!("no channel entries found that provide {text}"),
    );
    unknown(
        registry
            .get_latest_channel_entries_that_provide(latest("None"))
            .await,
        &format!("no channel entries found that provide {text}"),
    );
    unknown(
        registry.get_default_bundle_that_provides(default("None")).await,
        &format!("no channel entries found that provide {text}"),
    );
}

#[tokio::test]
async fn all_bundles() {
    let server = Server::small().await;
    let stream = server.client().list_bundles().await.expect("stream");
    let bundles: Vec<proto::Bundle> = stream.map(|bundle| bundle.expect("bundle")).collect().await;
    let names: Vec<_> = bundles
        .iter()
        .map(|bundle| {
            format!(
                "{}/{}/{}",
                bundle.channel_name, bundle.package_name, bundle.csv_name
            )
        })
        .collect();
    assert_eq!(
        names,
        [
            "fast/alpha/alpha.v3",
            "stable/alpha/alpha.v1",
            "stable/alpha/alpha.v2",
            "stable/alpha/alpha.v3",
            "stable/beta/beta.v1"
        ]
    );
    let newest = &bundles[3];
    assert_eq!(
        (newest.replaces.as_str(), newest.skips.as_slice()),
        ("alpha.v2", &["alpha.v1.1".to_owned()][..])
    );
    assert_eq!(
        (bundles[2].csv_json.as_str(), bundles[2].object.len()),
        ("", 0),
        "content is in the image"
    );
    assert_eq!(bundles[1].bundle_path, "");
    assert!(
        !bundles[1].csv_json.is_empty(),
        "a bundle without image is sent whole"
    );
    assert_eq!(
        bundles[2].deprecation.as_ref().expect("deprecation").message,
        "alpha.v2 is broken"
    );
}

#[tokio::test]
async fn custom_schemas() {
    let server = Server::small().await;
    let mut client = ExperimentalRegistryClient::connect(format!("http://{}", server.address))
        .await
        .expect("connection");
    let request = |schema: &str, package: &str, acknowledged: bool| {
        let mut request = Request::new(proto::ExperimentalListPackageCustomSchemasRequest {
            schema: schema.into(),
            package_name: package.into(),
        });
        if acknowledged {
            request
                .metadata_mut()
                .insert(server::ACKNOWLEDGE_EXPERIMENTAL, "true".parse().expect("value"));
        }
        request
    };
    for (schema, package, acknowledged, expected) in [
        ("custom.notes", "alpha", true, 2),
        ("custom.notes", "", true, 1),
        ("custom.notes", "beta", true, 0),
        ("custom.other", "alpha", true, 0),
        ("custom.notes", "alpha", false, 0),
    ] {
        let answer = client
            .experimental_list_package_custom_schemas(request(schema, package, acknowledged))
            .await
            .expect("answer");
        let structs: Vec<_> = answer
            .into_inner()
            .map(|item| item.expect("struct"))
            .collect()
            .await;
        assert_eq!(structs.len(), expected, "{schema} {package} {acknowledged}");
        if let Some(first) = structs.first() {
            assert!(first.fields.contains_key("note"));
        }
    }
    let status = client
        .experimental_list_package_custom_schemas(request("", "alpha", true))
        .await
        .expect_err("no schema");
    assert_eq!(
        (status.code(), status.message()),
        (Code::InvalidArgument, "schema is required")
    );
}

#[tokio::test]
async fn health_is_told_for_any_name() {
    use tonic_health::pb::{
        HealthCheckRequest, health_check_response::ServingStatus, health_client::HealthClient,
    };
    let server = Server::small().await;
    let channel = tonic::transport::Endpoint::from_shared(format!("http://{}", server.address))
        .expect("address")
        .connect_lazy();
    let mut health = HealthClient::new(channel);
    for name in ["", "Registry", "anything"] {
        let answer = health
            .check(HealthCheckRequest { service: name.into() })
            .await
            .expect("answer");
        assert_eq!(answer.into_inner().status(), ServingStatus::Serving);
    }
    server.client().check().await.expect("serving");
}

#[tokio::test]
async fn a_watcher_is_told_and_does_not_hold_up_the_stop() {
    let mut server = Server::small().await;
    let channel = Endpoint::from_shared(format!("http://{}", server.address))
        .expect("address")
        .connect()
        .await
        .expect("connection");
    let request = HealthCheckRequest {
        service: HEALTH_NAME.to_owned(),
    };
    let mut changes = HealthClient::new(channel)
        .watch(request)
        .await
        .expect("watch")
        .into_inner();
    let first = changes.message().await.expect("stream").expect("status");
    assert_eq!(first.status(), ServingStatus::Serving);
    server.stop().await;
    let end = async {
        while let Ok(Some(change)) = changes.message().await {
            assert_ne!(change.status(), ServingStatus::Serving);
        }
    };
    tokio::time::timeout(Duration::from_secs(20), end)
        .await
        .expect("the stream ends");
    let listener = TcpListener::bind(&server.address).await.expect("the same port");
    let dir = tempfile::tempdir().expect("folder");
    std::fs::write(dir.path().join("catalog.yaml"), CATALOG).expect("catalog");
    let server = Server::start_on(cache::open_temporary(dir.path()).expect("index"), listener);
    let packages = server.client().list_packages().await.expect("packages");
    assert_eq!(packages.len(), 2);
}

#[tokio::test]
async fn a_snapshot_of_the_small_catalog() {
    let server = Server::small().await;
    let fetched = snapshot::fetch(&server.client()).await.expect("snapshot");
    assert_eq!(fetched.skipped, Vec::<String>::new());
    let names: Vec<_> = fetched
        .snapshot
        .entries
        .iter()
        .map(|entry| format!("{}/{}/{}", entry.package, entry.channel, entry.name))
        .collect();
    assert_eq!(
        names,
        [
            "alpha/fast/alpha.v3",
            "alpha/stable/alpha.v1",
            "alpha/stable/alpha.v2",
            "alpha/stable/alpha.v3",
            "beta/stable/beta.v1"
        ]
    );
    let deprecation = fetched.snapshot.entries[2]
        .deprecation
        .as_ref()
        .expect("deprecation");
    assert_eq!(deprecation.package.as_deref(), Some("alpha is old"));
    assert_eq!(deprecation.bundle.as_deref(), Some("alpha.v2 is broken"));
}

#[test]
fn a_cache_is_used_only_for_its_catalog() {
    let catalog = tempfile::tempdir().expect("folder");
    let cache_dir = tempfile::tempdir().expect("folder");
    let file = catalog.path().join("catalog.yaml");
    std::fs::write(&file, CATALOG).expect("catalog");
    assert!(cache::open_checked(catalog.path(), cache_dir.path()).is_err());
    cache::open_or_build(catalog.path(), cache_dir.path()).expect("built");
    cache::open_checked(catalog.path(), cache_dir.path()).expect("fits");
    let written = |path: &Path| {
        std::fs::metadata(path.join(cache::INDEX_FILE))
            .expect("file")
            .modified()
            .expect("time")
    };
    let before = written(cache_dir.path());
    cache::open_or_build(catalog.path(), cache_dir.path()).expect("kept");
    assert_eq!(
        written(cache_dir.path()),
        before,
        "a fitting index is not written again"
    );
    std::fs::write(&file, format!("{CATALOG}\n---\nschema: custom\n")).expect("catalog");
    let error = cache::open_checked(catalog.path(), cache_dir.path())
        .err()
        .expect("stale")
        .to_string();
    assert!(
        error.starts_with("cache requires rebuild: cache reports digest as "),
        "{error}"
    );
    cache::open_or_build(catalog.path(), cache_dir.path()).expect("built anew");
    cache::open_checked(catalog.path(), cache_dir.path()).expect("fits again");
}

/// The corpus catalog: every entry is listed, every bundle is answered with its content.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_corpus_catalog_is_served_whole() {
    let Some(corpus) = olm_testing::shared::corpus_dir() else {
        return;
    };
    let catalog = corpus.join("fbc");
    let model = olm_fbc::validate::validate(&catalog).expect("valid");
    let server = Server::start(cache::open_temporary(&catalog).expect("index")).await;
    let client = server.client();
    assert_eq!(
        client.list_packages().await.expect("packages").len(),
        model.packages.len()
    );
    let mut listed: BTreeMap<(String, String, String), proto::Bundle> = BTreeMap::new();
    let mut stream = client.list_bundles().await.expect("stream");
    while let Some(bundle) = stream.next().await {
        let bundle = bundle.expect("bundle");
        let key = (
            bundle.package_name.clone(),
            bundle.channel_name.clone(),
            bundle.csv_name.clone(),
        );
        assert!(listed.insert(key, bundle).is_none());
    }
    let mut count = 0;
    for (package_name, package) in &model.packages {
        let served = client.get_package(package_name).await.expect("package");
        assert_eq!(served.channels.len(), package.channels.len());
        for (channel_name, channel) in &package.channels {
            for entry in &channel.entries {
                count += 1;
                let key = (package_name.clone(), channel_name.clone(), entry.name.clone());
                let listed = listed
                    .get(&key)
                    .unwrap_or_else(|| panic!("{key:?} is not listed"));
                assert_eq!((&listed.replaces, &listed.skips), (&entry.replaces, &entry.skips));
                assert_eq!(listed.csv_json, "");
                let whole = client
                    .get_bundle(package_name, channel_name, &entry.name)
                    .await
                    .expect("bundle");
                let csv: serde_json::Value = serde_json::from_str(&whole.csv_json).expect("json");
                assert_eq!(csv["metadata"]["name"], entry.name.as_str());
                assert!(whole.object.contains(&whole.csv_json));
                let same = proto::Bundle {
                    csv_json: String::new(),
                    object: Vec::new(),
                    replaces: listed.replaces.clone(),
                    skips: listed.skips.clone(),
                    ..whole
                };
                assert_eq!(&same, listed);
            }
        }
    }
    assert_eq!(listed.len(), count);
    let fetched = snapshot::fetch(&client).await.expect("snapshot");
    assert_eq!(
        (fetched.snapshot.entries.len(), fetched.skipped.len()),
        (count, 0)
    );
}

/// A catalog of one package with content of its own: a CSV and a CRD a bundle, edges as given.
fn checklist_catalog(entries: &str) -> tempfile::TempDir {
    use base64::Engine as _;
    let object = |text: String| {
        let data = base64::engine::general_purpose::STANDARD.encode(text);
        serde_json::json!({"type": "olm.bundle.object", "value": {"data": data}})
    };
    let dir = tempfile::tempdir().expect("folder");
    let entries: serde_json::Value = serde_json::from_str(entries).expect("entries");
    let mut text = serde_json::json!({"schema": "olm.package", "name": "p", "defaultChannel": "stable", "description": "d"}).to_string();
    for channel in ["stable", "fast"] {
        text += &serde_json::json!({"schema": "olm.channel", "package": "p", "name": channel, "entries": entries}).to_string();
    }
    for entry in entries.as_array().expect("list") {
        let name = entry["name"].as_str().expect("name");
        let version = name.trim_start_matches("p.v");
        text += &serde_json::json!({"schema": "olm.bundle", "package": "p", "name": name, "properties": [
            {"type": "olm.package", "value": {"packageName": "p", "version": version}},
            object(serde_json::json!({"kind": "ClusterServiceVersion", "metadata": {"name": name}}).to_string()),
            object(serde_json::json!({"kind": "CustomResourceDefinition", "metadata": {"name": "things.p.io"}}).to_string()),
        ]})
        .to_string();
    }
    std::fs::write(dir.path().join("catalog.json"), text).expect("catalog");
    dir
}

const CHAIN: &str = r#"[
    {"name": "p.v1.2.0", "replaces": "p.v1.1.0", "skips": ["p.v1.1.5"]},
    {"name": "p.v1.1.0", "replaces": "p.v1.0.0"}
]"#;

async fn serve_chain() -> Server {
    Server::start(cache::open_temporary(checklist_catalog(CHAIN).path()).expect("index")).await
}

/// The chain's package with a channel `slow` that ends earlier, and a package `q` whose channel has a name of `p`'s.
async fn serve_two_packages() -> Server {
    let dir = checklist_catalog(CHAIN);
    let more = [
        serde_json::json!({"schema": "olm.channel", "package": "p", "name": "slow", "entries": [{"name": "p.v1.1.0"}]}),
        serde_json::json!({"schema": "olm.package", "name": "q", "defaultChannel": "fast"}),
        serde_json::json!({"schema": "olm.channel", "package": "q", "name": "fast", "entries": [{"name": "q.v2.0.0"}]}),
        serde_json::json!({"schema": "olm.bundle", "package": "q", "name": "q.v2.0.0", "image": "quay.io/q/q:v2", "properties": [
            {"type": "olm.package", "value": {"packageName": "q", "version": "2.0.0"}}]}),
    ];
    let text: String = more.iter().map(ToString::to_string).collect();
    std::fs::write(dir.path().join("more.json"), text).expect("catalog");
    Server::start(cache::open_temporary(dir.path()).expect("index")).await
}

#[tokio::test]
async fn arch_013_csvs_crds_and_metadata_on_packages_and_channels_are_stored() {
    let server = serve_chain().await;
    let client = server.client();
    let bundle = client
        .get_bundle("p", "stable", "p.v1.1.0")
        .await
        .expect("bundle");
    let kinds: Vec<String> = bundle
        .object
        .iter()
        .map(|object| {
            let object: serde_json::Value = serde_json::from_str(object).expect("JSON");
            object["kind"].as_str().expect("kind").to_owned()
        })
        .collect();
    assert_eq!(kinds, ["ClusterServiceVersion", "CustomResourceDefinition"]);
    assert!(bundle.csv_json.contains("\"p.v1.1.0\""));
    let package = client.get_package("p").await.expect("package");
    assert_eq!(
        (package.default_channel_name.as_str(), package.channels.len()),
        ("stable", 2)
    );
}

#[tokio::test]
async fn arch_014_each_channel_of_a_package_points_to_one_csv() {
    let server = serve_two_packages().await;
    for (package, default, heads) in [
        (
            "p",
            "stable",
            &[("fast", "p.v1.2.0"), ("slow", "p.v1.1.0"), ("stable", "p.v1.2.0")][..],
        ),
        ("q", "fast", &[("fast", "q.v2.0.0")][..]),
    ] {
        let found = server.client().get_package(package).await.expect("package");
        assert_eq!(
            (found.name.as_str(), found.default_channel_name.as_str()),
            (package, default)
        );
        let pointed: Vec<(&str, &str)> = found
            .channels
            .iter()
            .map(|channel| (channel.name.as_str(), channel.csv_name.as_str()))
            .collect();
        assert_eq!(pointed, heads);
        for (channel, head) in heads {
            let mut registry = server.registry().await;
            #[allow(deprecated)]
            let answer = registry.get_bundle_for_channel(proto::GetBundleInChannelRequest {
                pkg_name: package.into(),
                channel_name: (*channel).into(),
            });
            let bundle = answer.await.expect("bundle").into_inner();
            assert_eq!(
                (bundle.csv_name.as_str(), bundle.channel_name.as_str()),
                (*head, *channel)
            );
        }
    }
    let two = r#"[{"name": "p.v1.2.0"}, {"name": "p.v1.1.0"}]"#;
    let error = cache::open_temporary(checklist_catalog(two).path())
        .err()
        .expect("refused");
    let error = std::error::Error::source(&error).expect("cause").to_string();
    assert!(error.contains("multiple channel heads found in graph"), "{error}");
}

#[tokio::test]
async fn arch_015_operators_and_upgrades_are_asked_for_over_grpc() {
    let server = serve_chain().await;
    let mut registry = server.registry().await;
    let names: Vec<String> = registry
        .list_packages(proto::ListPackageRequest {})
        .await
        .expect("answer")
        .into_inner()
        .map(|package| package.expect("package").name)
        .collect()
        .await;
    assert_eq!(names, ["p"]);
    let upgrade = registry
        .get_bundle_that_replaces(proto::GetReplacementRequest {
            csv_name: "p.v1.1.0".into(),
            pkg_name: "p".into(),
            channel_name: "stable".into(),
        })
        .await
        .expect("upgrade");
    assert_eq!(upgrade.into_inner().csv_name, "p.v1.2.0");
}

#[tokio::test]
async fn upg_001_operators_are_grouped_in_packages_and_channels() {
    let server = serve_two_packages().await;
    let client = server.client();
    let mut places = Vec::new();
    let mut stream = client.list_bundles().await.expect("stream");
    while let Some(bundle) = stream.next().await {
        let bundle = bundle.expect("bundle");
        places.push(format!(
            "{}/{}/{}",
            bundle.package_name, bundle.channel_name, bundle.csv_name
        ));
    }
    assert_eq!(
        places,
        [
            "p/fast/p.v1.1.0",
            "p/fast/p.v1.2.0",
            "q/fast/q.v2.0.0",
            "p/slow/p.v1.1.0",
            "p/stable/p.v1.1.0",
            "p/stable/p.v1.2.0"
        ]
    );
}

/// Two entries lead on from p.v1.0.0; the answer is one, and always the same one.
#[tokio::test]
async fn upg_007_one_bundle_replaces_another_unambiguously() {
    let entries = r#"[
        {"name": "p.v1.3.0", "replaces": "p.v1.2.0"},
        {"name": "p.v1.2.0", "replaces": "p.v1.1.0", "skips": ["p.v1.0.0"]},
        {"name": "p.v1.1.0", "replaces": "p.v0.9.0", "skips": ["p.v1.0.0"]}
    ]"#;
    let mut answers = std::collections::BTreeSet::new();
    for _ in 0..5 {
        let server =
            Server::start(cache::open_temporary(checklist_catalog(entries).path()).expect("index")).await;
        let mut registry = server.registry().await;
        for _ in 0..5 {
            let request = proto::GetReplacementRequest {
                csv_name: "p.v1.0.0".into(),
                pkg_name: "p".into(),
                channel_name: "stable".into(),
            };
            let answer = registry.get_bundle_that_replaces(request).await.expect("bundle");
            answers.insert(answer.into_inner().csv_name);
        }
    }
    assert_eq!(answers.into_iter().collect::<Vec<_>>(), ["p.v1.1.0"]);
}

#[tokio::test]
async fn upg_025_releases_without_content_are_nodes_of_the_graph() {
    let server = serve_chain().await;
    let mut registry = server.registry().await;
    for (absent, next) in [("p.v1.0.0", "p.v1.1.0"), ("p.v1.1.5", "p.v1.2.0")] {
        let all = proto::GetAllReplacementsRequest {
            csv_name: absent.into(),
        };
        let found = entries(registry.get_channel_entries_that_replace(all).await).await;
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found.iter().all(|entry| entry.contains(next)), "{found:?}");
        let one = proto::GetReplacementRequest {
            csv_name: absent.into(),
            pkg_name: "p".into(),
            channel_name: "fast".into(),
        };
        let bundle = registry.get_bundle_that_replaces(one).await.expect("bundle");
        assert_eq!(bundle.into_inner().csv_name, next);
    }
}
