//! Queries, method by method.

use olm_registry::{proto, server};
use prost::Message as _;
use tokio_stream::StreamExt as _;
use tonic::{Code, Request};

use crate::server::{Server, entries, unknown};

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
async fn head_of_a_channel() {
    let server = Server::small().await;
    let registry = server.registry();
    let request = |package: &str, channel: &str| proto::GetBundleInChannelRequest {
        pkg_name: package.into(),
        channel_name: channel.into(),
    };
    let head = registry
        .get_bundle_for_channel(request("alpha", "stable"))
        .await
        .expect("head");
    assert_eq!(head.csv_name, "alpha.v3");
    unknown(
        registry.get_bundle_for_channel(request("alpha", "x")).await,
        "package \"alpha\", channel \"x\" not found",
    );
}

#[tokio::test]
async fn replacements() {
    let server = Server::small().await;
    let registry = server.registry();
    let all = |name: &str| proto::GetAllReplacementsRequest {
        csv_name: name.into(),
    };
    // Once if replaces and skips both name it, and once per channel.
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
    assert_eq!(next.csv_name, "alpha.v2");
    unknown(
        registry.get_bundle_that_replaces(one("alpha.v3", "stable")).await,
        "no entry found for package \"alpha\", channel \"stable\"",
    );
}

#[tokio::test]
async fn providers() {
    let server = Server::small().await;
    let registry = server.registry();
    let (group, version) = ("example.com".to_owned(), "v1".to_owned());
    let provide = |kind: &str| proto::GetAllProvidersRequest {
        group: group.clone(),
        version: version.clone(),
        kind: kind.into(),
        plural: "ignored".into(),
    };
    // A skipped name outside of the channel counts for this method.
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
    // It does not count for this method.
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
    let client = server.registry();
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
        let structs: Vec<_> = answer.map(|item| item.expect("struct")).collect().await;
        assert_eq!(structs.len(), expected, "{schema} {package} {acknowledged}");
        if let Some(first) = structs.first() {
            assert!(first.fields.contains_key("note"));
        }
    }
    let status = client
        .experimental_list_package_custom_schemas(request("", "alpha", true))
        .await
        .err()
        .expect("no schema");
    assert_eq!(
        (status.code(), status.message()),
        (Code::InvalidArgument, "schema is required")
    );
}

/// The server's paths are written by hand, so they are compared with the contract's.
#[tokio::test]
async fn every_method_of_the_contract_is_served() {
    let server = Server::small().await;
    let client = server.client();
    let served = async |path: String| {
        let answer = client.ask::<(), ()>(path.leak(), Request::new(())).await;
        answer.err().map(|status| status.code()) != Some(Code::Unimplemented)
    };
    let contract = prost_types::FileDescriptorSet::decode(proto::DESCRIPTORS).expect("descriptors");
    let mut methods = 0;
    for file in contract.file.iter().filter(|file| file.package() == "api") {
        for service in &file.service {
            for method in &service.method {
                let path = format!("/api.{}/{}", service.name(), method.name());
                assert!(served(path.clone()).await, "{path}");
                methods += 1;
            }
        }
    }
    assert_eq!(methods, 11);
    assert!(!served("/api.Registry/Unknown".to_owned()).await);
}
