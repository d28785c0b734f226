use olm_testing::cluster::{FakeCluster, Fault, Kind, Refusal};
use serde_json::{Value, json};

use super::*;

/// Returns a PackageManifest with two channels, from a catalog.
pub(crate) fn manifest(name: &str, catalog: &str) -> Value {
    let head = |version: &str| {
        json!({"displayName": "Etcd", "version": version, "minKubeVersion": "1.30.0", "provider": {"name": "CNCF"},
            "description": "Keeps \u{1b}[2Jkeys.\n\nAnd values.",
            "installModes": [{"type": "OwnNamespace", "supported": true}, {"type": "AllNamespaces", "supported": false}],
            "customresourcedefinitions": {"owned": [{"kind": "Etcd", "name": "etcds.example.com", "version": "v1"}],
                "required": [{"kind": "Disk", "name": "disks.example.com", "version": "v1"}]}})
    };
    let entry = |version: &str| json!({"name": format!("etcd.v{version}"), "version": version});
    let mut old = entry("1.0.0");
    old["deprecation"] = json!({"message": "it loses keys"});
    json!({"apiVersion": "packages.operators.coreos.com/v1", "kind": "PackageManifest",
        "metadata": {"name": name, "namespace": "shop"}, "spec": {},
        "status": {"packageName": name, "catalogSource": catalog, "catalogSourceNamespace": "olm", "catalogSourceDisplayName": "Cat",
            "catalogSourcePublisher": "", "defaultChannel": "stable", "provider": {"name": "CNCF"},
            "channels": [
                {"name": "beta", "currentCSV": "etcd.v2.0.0", "currentCSVDesc": head("2.0.0"), "entries": [entry("2.0.0"), entry("1.1.0")],
                    "deprecation": {"message": "use stable"}},
                {"name": "stable", "currentCSV": "etcd.v1.1.0", "currentCSVDesc": head("1.1.0"), "entries": [entry("1.1.0"), old]}]}})
}

/// Returns that PackageManifest as a package.
pub(crate) fn package(name: &str, catalog: &str) -> Package {
    serde_json::from_value::<PackageManifest>(manifest(name, catalog))
        .unwrap()
        .into()
}

/// Returns a cluster with a package-server.
pub(crate) fn served() -> FakeCluster {
    let cluster = FakeCluster::new();
    cluster.serve(Kind {
        group: "packages.operators.coreos.com".to_owned(),
        versions: vec!["v1".to_owned()],
        kind: "PackageManifest".to_owned(),
        plural: "packagemanifests".to_owned(),
        namespaced: true,
        status: false,
        custom: true,
    });
    cluster
}

#[tokio::test(start_paused = true)]
async fn packages_are_read_from_the_package_server() {
    let cluster = served();
    for name in ["vault", "etcd"] {
        cluster.put(manifest(name, "cat"));
    }
    let (client, _link) = cluster.connect();
    let found = all(&client, Some("shop"), &CommandLine::default()).await.unwrap();
    assert_eq!(found, [package("etcd", "cat"), package("vault", "cat")]);
    let all_of_them = all(&client, None, &CommandLine::default()).await.unwrap();
    assert_eq!(all_of_them, found);
    assert!(
        all(&client, Some("elsewhere"), &CommandLine::default())
            .await
            .unwrap()
            .is_empty()
    );
}

#[tokio::test(start_paused = true)]
async fn a_cluster_without_a_package_server_is_reported_as_such() {
    let (client, _link) = FakeCluster::new().connect();
    let error = all(&client, Some("shop"), &CommandLine::default())
        .await
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("does not serve packages.operators.coreos.com/v1"),
        "{error}"
    );
    assert!(
        error.contains("kubectl get apiservice v1.packages.operators.coreos.com"),
        "{error}"
    );

    let cluster = served();
    cluster.on_request(|_| {
        Some(Fault::Refuse(Refusal::new(
            503,
            "ServiceUnavailable",
            "no endpoints",
        )))
    });
    let (client, _link) = cluster.connect();
    let error = all(&client, Some("shop"), &CommandLine::default())
        .await
        .unwrap_err()
        .to_string();
    assert!(error.contains("(no endpoints)"), "{error}");

    // Missing permission is reported as such.
    let cluster = served();
    cluster.on_request(|_| Some(Fault::Refuse(Refusal::new(403, "Forbidden", "is forbidden"))));
    let (client, _link) = cluster.connect();
    let error = all(&client, Some("shop"), &CommandLine::default())
        .await
        .unwrap_err()
        .to_string();
    assert!(
        error.starts_with("cannot list packagemanifests in namespace shop: is forbidden"),
        "{error}"
    );
}

#[test]
fn a_missing_package_is_reported_with_similar_ones() {
    let packages = || {
        vec![
            package("etcd", "cat"),
            package("etcd", "other"),
            package("vault", "cat"),
        ]
    };
    let named = |packages: Vec<Package>, name: &str, catalog: Option<&str>| {
        super::named(packages, name, catalog, "shop", &CommandLine::default())
    };
    assert_eq!(named(packages(), "etcd", None).unwrap().len(), 2);
    for catalog in ["other", "olm/other"] {
        let found = named(packages(), "etcd", Some(catalog)).unwrap();
        assert_eq!(found, [package("etcd", "other")], "{catalog}");
    }
    for (name, catalog, expected) in [
        (
            "vault",
            Some("other"),
            "catalog other has no package vault, but olm/cat has",
        ),
        (
            "ETC",
            None,
            "no catalog for this namespace has a package ETC; did you mean etcd?",
        ),
        (
            "vualt",
            None,
            "no catalog for this namespace has a package vualt; did you mean vault?",
        ),
        (
            "nope",
            None,
            "no catalog for this namespace has a package nope; list all 3 packages with `kubectl operator list-available -n shop`",
        ),
    ] {
        let error = named(packages(), name, catalog).unwrap_err();
        assert_eq!(error.to_string(), expected);
    }
    let error = named(Vec::new(), "etcd", None).unwrap_err().to_string();
    assert!(error.contains("catalog list -A"), "{error}");
}
