//! Content of a served catalog: snapshots, caches, the corpus.

use std::collections::BTreeMap;
use std::path::Path;

use olm_registry::{cache, proto, snapshot};
use tokio_stream::StreamExt as _;

use crate::server::{CATALOG, Server};

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

/// Every entry of the corpus catalog is listed, and every bundle is returned with its content.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_corpus_catalog_is_served_whole() {
    let Some(corpus) = olm_testing::shared::corpus_dir() else {
        return;
    };
    let catalog = corpus.join("fbc");
    let model = olm_fbc::validate::validate(&catalog).expect("valid");
    let server = Server::start(cache::open_temporary(&catalog, None).expect("index")).await;
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
