use std::sync::Arc;

use go_compat::semver::Range;
use kube::{Client, ResourceExt as _};
use olm_fbc::entry::{BundleEntry, Deprecation};
use olm_testing::cluster::FakeCluster;
use serde_json::json;

use super::*;
use crate::args::{Args, Command};
use crate::operators::tests::{csv, gathered, gathered_of, subscription};
use crate::packages::tests::served;

fn entry(channel: &str, version: &str, replaces: &str, skips: &[&str], range: &str) -> BundleEntry {
    BundleEntry {
        name: format!("etcd.v{version}").into(),
        package: "etcd".into(),
        channel: channel.into(),
        default_channel: channel == "stable",
        version: go_compat::semver::Version::parse(version).ok(),
        replaces: (!replaces.is_empty()).then(|| replaces.into()),
        skips: skips.iter().map(|skip| Arc::from(*skip)).collect(),
        skip_range: Range::parse(range).ok().map(Arc::new),
        ..BundleEntry::default()
    }
}

fn entries() -> Vec<BundleEntry> {
    let mut old = entry("stable", "1.0.0", "", &[], "");
    old.deprecation = Some(Arc::new(Deprecation {
        bundle: Some("it loses data".into()),
        channel: Some("use beta".into()),
        package: None,
    }));
    vec![
        old,
        entry("stable", "1.0.1", "etcd.v1.0.0", &[], ""),
        entry("stable", "1.1.0", "etcd.v1.0.0", &["etcd.v1.0.1"], ""),
        entry("stable", "1.2.0", "etcd.v1.1.0", &[], ">=1.0.0 <1.2.0"),
        entry("beta", "1.2.0", "", &[], ""),
        entry("beta", "2.0.0", "etcd.v1.2.0", &[], ""),
    ]
}

fn by_db(csv: &str) -> BTreeMap<String, Vec<String>> {
    BTreeMap::from([(csv.to_owned(), vec!["shop/db".to_owned()])])
}

fn args(words: &[&str]) -> GraphArgs {
    let words = ["kubectl-operator", "graph"].iter().chain(words);
    match <Args as clap::Parser>::try_parse_from(words).unwrap().command {
        Command::Graph(args) => args,
        other => panic!("{other:?}"),
    }
}

#[test]
fn words_are_coloured() {
    let graph = PackageGraph::new("etcd", "olm/cat", &entries(), &by_db("etcd.v1.1.0"));
    let painted = lines(&graph, Colours(true)).join("\n");
    for part in [
        "\u{1b}[32minstalled\u{1b}[0m by shop/db",
        "\u{1b}[33mdeprecated\u{1b}[0m: it loses data",
    ] {
        assert!(painted.contains(part), "{part}: {painted:?}");
    }
}

#[tokio::test]
async fn a_missing_package_or_channel_is_reported_with_the_existing_ones() {
    let snapshot = Snapshot::new(entries());
    let key = CatalogKey {
        name: "cat".to_owned(),
        namespace: "olm".to_owned(),
    };
    let (client, _link) = FakeCluster::new().connect();
    let cluster = Cluster::of(client, "shop");
    let drawn = |words: &[&str]| drawn(&snapshot, &key, &args(words), &Versions::default(), &cluster);
    assert_eq!(drawn(&["etcd"]).unwrap().channels.len(), 2);
    assert_eq!(drawn(&["etcd", "--channel", "beta"]).unwrap().channels.len(), 1);
    let error = drawn(&["etcd", "--channel", "no"]).unwrap_err().to_string();
    assert_eq!(
        error,
        "package etcd of catalog olm/cat has no channel no; it has beta, stable"
    );
    let error = drawn(&["vault"]).unwrap_err().to_string();
    assert!(error.contains("olm/cat has no package vault"), "{error}");
}

async fn chosen(client: &Client, words: &[&str], subscriptions: &[Subscription]) -> Result<String, String> {
    let cluster = Cluster::of(client.clone(), "shop");
    let args = args(words);
    let found = catalog(
        &cluster,
        &args.package,
        args.catalog.as_deref(),
        None,
        subscriptions,
    );
    let found = found.await;
    found
        .map(|key| key.to_string())
        .map_err(|error| error.to_string())
}

#[tokio::test(start_paused = true)]
async fn the_catalog_is_the_one_that_is_named_or_subscribed_to_or_the_only_one() {
    let cluster = served();
    let (client, _link) = cluster.connect();
    cluster.put(
        json!({"apiVersion": "operators.coreos.com/v1alpha1", "kind": "CatalogSource",
        "metadata": {"namespace": "olm", "name": "cat"}, "spec": {"sourceType": "grpc"}}),
    );
    let manifest = |catalog: &str| {
        json!({"apiVersion": "packages.operators.coreos.com/v1", "kind": "PackageManifest",
            "metadata": {"namespace": "shop", "name": format!("etcd-{catalog}")}, "status": {"packageName": "etcd", "catalogSource": catalog,
            "catalogSourceNamespace": "olm", "catalogSourceDisplayName": "", "catalogSourcePublisher": "", "defaultChannel": "stable", "channels": []}})
    };
    assert_eq!(
        chosen(&client, &["etcd", "--catalog", "cat"], &[]).await,
        Ok("olm/cat".to_owned())
    );
    assert_eq!(
        chosen(&client, &["etcd", "--catalog", "a/b"], &[]).await,
        Ok("a/b".to_owned())
    );
    let error = chosen(&client, &["etcd", "--catalog", "no"], &[])
        .await
        .unwrap_err();
    assert!(error.contains("catalog no not found"), "{error}");
    let subscribed: Subscription = serde_json::from_value(subscription("db", &json!({}))).unwrap();
    assert_eq!(
        chosen(&client, &["etcd"], &[subscribed]).await,
        Ok("olm/cat".to_owned())
    );
    cluster.put(manifest("other"));
    assert_eq!(chosen(&client, &["etcd"], &[]).await, Ok("olm/other".to_owned()));
    cluster.put(manifest("more"));
    let error = chosen(&client, &["etcd"], &[]).await.unwrap_err();
    assert!(error.contains("choose one with --catalog"), "{error}");
    assert!(cluster.log().writes.is_empty());
}

#[tokio::test(start_paused = true)]
async fn an_unreadable_subscription_does_not_prevent_a_graph() {
    let cluster = FakeCluster::new();
    cluster.put(subscription("db", &json!({})));
    let mut odd = subscription("odd", &json!({}));
    odd["spec"] = json!({"name": 7});
    cluster.put(odd);
    let (client, _link) = cluster.connect();
    let own = subscriptions(&client, "shop").await.unwrap();
    assert_eq!(own.len(), 1);
    assert_eq!(own[0].name_any(), "db");
}

/// OLM reports a version as installed as soon as it is created. All commands name the last one that succeeded.
#[test]
fn the_installed_version_is_the_last_that_succeeded() {
    let newest = json!({"installedCSV": "etcd.v2.0.0", "currentCSV": "etcd.v2.0.0"});
    for (status, phases, installed, upgrading) in [
        (
            &newest,
            Some(("Succeeded", "Deleting")),
            by_db("etcd.v2.0.0"),
            BTreeMap::new(),
        ),
        (
            &newest,
            Some(("Installing", "Replacing")),
            by_db("etcd.v1.0.0"),
            by_db("etcd.v2.0.0"),
        ),
        (
            &newest,
            Some(("Failed", "Replacing")),
            by_db("etcd.v1.0.0"),
            by_db("etcd.v2.0.0"),
        ),
        // Without permission to read ClusterServiceVersions only the status is known.
        (&newest, None, by_db("etcd.v2.0.0"), BTreeMap::new()),
        (&json!({}), None, BTreeMap::new(), BTreeMap::new()),
    ] {
        let mut objects = vec![subscription("db", status)];
        if let Some((newer, older)) = phases {
            let mut next = csv("2.0.0", newer, "");
            next["spec"]["replaces"] = json!("etcd.v1.0.0");
            objects.extend([next, csv("1.0.0", older, "")]);
        }
        let expected = Versions { installed, upgrading };
        assert_eq!(
            Versions::of(&gathered_of(objects), "etcd"),
            expected,
            "{phases:?}"
        );
    }
    assert_eq!(Versions::of(&gathered(), "vault"), Versions::default());
}
