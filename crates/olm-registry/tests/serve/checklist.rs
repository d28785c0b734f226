//! Promises of the documents about catalogs and upgrade graphs.

use olm_registry::{cache, proto};
use tokio_stream::StreamExt as _;

use crate::server::{Server, entries};

/// Writes a catalog of one package with content of its own: a CSV and a CRD per bundle, edges as given.
fn checklist_catalog(entries: &str) -> tempfile::TempDir {
    let object = |text: String| {
        let data = olm_fbc::base64::encode(text);
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
    Server::start(cache::open_temporary(checklist_catalog(CHAIN).path(), None).expect("index")).await
}

/// Serves the chain's package with a channel `slow` that ends earlier, and a package `q` with a channel name
/// of `p`.
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
    Server::start(cache::open_temporary(dir.path(), None).expect("index")).await
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
            let registry = server.registry();
            let answer = registry.get_bundle_for_channel(proto::GetBundleInChannelRequest {
                pkg_name: package.into(),
                channel_name: (*channel).into(),
            });
            let bundle = answer.await.expect("bundle");
            assert_eq!(
                (bundle.csv_name.as_str(), bundle.channel_name.as_str()),
                (*head, *channel)
            );
        }
    }
    let two = r#"[{"name": "p.v1.2.0"}, {"name": "p.v1.1.0"}]"#;
    let error = cache::open_temporary(checklist_catalog(two).path(), None)
        .err()
        .expect("refused");
    let error = std::error::Error::source(&error).expect("cause").to_string();
    assert!(error.contains("multiple channel heads found in graph"), "{error}");
}

#[tokio::test]
async fn arch_015_operators_and_upgrades_are_asked_for_over_grpc() {
    let server = serve_chain().await;
    let registry = server.registry();
    let names: Vec<String> = registry
        .list_packages(proto::ListPackageRequest {})
        .await
        .expect("answer")
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
    assert_eq!(upgrade.csv_name, "p.v1.2.0");
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

/// Two entries replace p.v1.0.0; the answer is always the same one of them.
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
            Server::start(cache::open_temporary(checklist_catalog(entries).path(), None).expect("index"))
                .await;
        let registry = server.registry();
        for _ in 0..5 {
            let request = proto::GetReplacementRequest {
                csv_name: "p.v1.0.0".into(),
                pkg_name: "p".into(),
                channel_name: "stable".into(),
            };
            let answer = registry.get_bundle_that_replaces(request).await.expect("bundle");
            answers.insert(answer.csv_name);
        }
    }
    assert_eq!(answers.into_iter().collect::<Vec<_>>(), ["p.v1.1.0"]);
}

#[tokio::test]
async fn upg_025_releases_without_content_are_nodes_of_the_graph() {
    let server = serve_chain().await;
    let registry = server.registry();
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
        assert_eq!(bundle.csv_name, next);
    }
}
