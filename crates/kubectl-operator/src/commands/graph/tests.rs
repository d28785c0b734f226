use std::sync::Arc;

use kube::Client;
use olm_fbc::entry::{BundleEntry, Deprecation};
use olm_testing::cluster::FakeCluster;
use serde_json::json;

use super::*;
use crate::args::{Args, Command};
use crate::operators::tests::subscription;
use crate::packages::tests::served;

fn entry(channel: &str, version: &str, replaces: &str, skips: &[&str], range: &str) -> BundleEntry {
    BundleEntry {
        name: format!("etcd.v{version}").into(),
        package: "etcd".into(),
        channel: channel.into(),
        default_channel: channel == "stable",
        version: version.parse().ok(),
        replaces: (!replaces.is_empty()).then(|| replaces.into()),
        skips: skips.iter().map(|skip| Arc::from(*skip)).collect(),
        skip_range: range.parse().ok().map(Arc::new),
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

fn lanes_of(entries: &[BundleEntry], installed: &str) -> PackageLanes {
    PackageLanes::new("etcd", "olm/cat", entries.iter(), &by_db(installed))
}

fn args(words: &[&str]) -> GraphArgs {
    let words = ["kubectl-operator", "graph"].iter().chain(words);
    match <Args as clap::Parser>::try_parse_from(words).unwrap().command {
        Command::Graph(args) => args,
        other => panic!("{other:?}"),
    }
}

#[test]
fn channels_are_lanes_with_what_is_installed_marked() {
    let lanes = lanes_of(&entries(), "etcd.v1.1.0");
    insta::assert_snapshot!(text::text(&lanes, Colours(false), None), @r"
    package etcd of catalog olm/cat

    channel stable (default), deprecated: use beta
      * 1.2.0  etcd.v1.2.0  head; replaces etcd.v1.1.0; skipRange >=1.0.0 <1.2.0
      @ 1.1.0  etcd.v1.1.0  installed by shop/db; replaces etcd.v1.0.0; skips etcd.v1.0.1
      - 1.0.1  etcd.v1.0.1  skipped; replaces etcd.v1.0.0
      | 1.0.0  etcd.v1.0.0  deprecated: it loses data

    channel beta
      * 2.0.0  etcd.v2.0.0  head; replaces etcd.v1.2.0
      | 1.2.0  etcd.v1.2.0
    ");
    assert_eq!(lanes.notes(), [""; 0]);
    let elsewhere = lanes_of(&entries(), "etcd.v0.9.0");
    assert_eq!(
        elsewhere.notes(),
        ["etcd.v0.9.0 is installed by shop/db, but is in none of these channels"]
    );
}

#[test]
fn lines_end_where_the_terminal_does() {
    let text = text::text(&lanes_of(&entries(), "etcd.v1.1.0"), Colours(false), Some(30));
    assert!(text.lines().all(|line| line.chars().count() <= 30), "{text}");
    assert!(text.contains("etcd.v1.2.0"), "{text}");
}

#[test]
fn a_channel_without_one_head_is_told() {
    let two = [
        entry("stable", "1.0.0", "", &[], ""),
        entry("stable", "2.0.0", "", &[], ""),
    ];
    let text = text::text(&lanes_of(&two, ""), Colours(false), None);
    assert!(
        text.contains("broken: multiple channel heads found in graph"),
        "{text}"
    );
}

#[test]
fn a_picture_shows_lanes_arcs_and_marks() {
    let picture = svg::svg(&lanes_of(&entries(), "etcd.v1.1.0"));
    assert!(picture.starts_with("<svg xmlns="), "{picture}");
    for part in [
        "channel stable (default) (deprecated)",
        "channel beta",
        "1.1.0 installed",
        "1.2.0 head",
        "1.0.1 skipped",
        "1.0.0 deprecated",
    ] {
        assert!(picture.contains(part), "{part}: {picture}");
    }
    let arcs = |dash: &str| picture.matches(dash).count();
    // 1.0.1 and 1.1.0 replace 1.0.0, 1.2.0 replaces 1.1.0, 2.0.0 replaces 1.2.0; one is skipped; the range has two that are not
    // named.
    assert_eq!(arcs("marker-end"), 7);
    assert_eq!((arcs("\"6 3\""), arcs("\"1 4\"")), (1, 2));
}

/// The publisher of a catalog chooses the names.
#[test]
fn nothing_of_a_catalog_is_markup_or_moves_a_cursor() {
    let evil = "</text><script href='http://x'>\u{1b}[2J\u{202e}&\"";
    let mut one = entry("stable", "1.0.0", "", &[], "");
    (one.name, one.channel, one.package) = (evil.into(), evil.into(), evil.into());
    one.deprecation = Some(Arc::new(Deprecation {
        bundle: Some(evil.into()),
        channel: Some(evil.into()),
        package: Some(evil.into()),
    }));
    let lanes = PackageLanes::new(evil, evil, [one].iter(), &by_db(evil));
    let picture = svg::svg(&lanes);
    assert!(!picture.contains("<script"), "{picture}");
    assert_eq!(
        picture.matches("</text>").count(),
        picture.matches("<text").count()
    );
    let text = text::text(&lanes, Colours(false), None);
    for drawing in [&picture, &text] {
        let moves = |letter: char| letter.is_control() && letter != '\n' || letter == '\u{202e}';
        assert!(!drawing.chars().any(moves), "{drawing:?}");
    }
    // The SVG loads no other file.
    assert!(
        !picture.contains("href=\"") && !picture.contains("url(http"),
        "{picture}"
    );
}

#[test]
fn a_package_of_ten_thousand_versions_is_drawn_and_larger_ones_are_cut() {
    let many: Vec<BundleEntry> = (0..lanes::MAX_ENTRIES + 5)
        .map(|at| {
            let replaces = at
                .checked_sub(1)
                .map(|before| format!("etcd.v1.{before}.0"))
                .unwrap_or_default();
            entry("stable", &format!("1.{at}.0"), &replaces, &[], ">=1.0.0")
        })
        .collect();
    let lanes = lanes_of(&many, "");
    assert_eq!(
        lanes
            .channels
            .iter()
            .map(|lane| lane.entries.len())
            .sum::<usize>(),
        lanes::MAX_ENTRIES
    );
    assert!(
        lanes.notes().iter().any(|note| note.contains("5 entries more")),
        "{:?}",
        lanes.notes()
    );
    let picture = svg::svg(&lanes);
    assert!(picture.len() < 2 << 20, "{}", picture.len());
    assert!(picture.contains("9700 older versions are not shown"));
    let text = text::text(&lanes, Colours(false), None);
    assert!(text.lines().count() < 1100);
    assert!(text.contains("and 9000 older ones"));
}

/// Repeated entries cost a catalog only a few bytes each.
#[test]
fn what_a_catalog_repeats_is_drawn_once_and_counts_once() {
    let mut repeated = entries();
    repeated.extend((0..lanes::MAX_ENTRIES).map(|_| entry("stable", "1.0.0", "", &[], ">=1.0.0")));
    repeated.push(entry("new", "3.0.0", "", &[], ""));
    let lanes = lanes_of(&repeated, "etcd.v1.1.0");
    let mut once = entries();
    once.push(entry("new", "3.0.0", "", &[], ""));
    assert_eq!(lanes, lanes_of(&once, "etcd.v1.1.0"));
    assert_eq!(lanes.left_out, 0);
    let stops: usize = lanes.channels.iter().map(|lane| lane.entries.len()).sum();
    assert_eq!((svg::svg(&lanes).matches("<g>").count(), stops), (7, 7));

    let names: Arc<[Arc<str>]> = vec![Arc::from("x"); 600_000].into();
    let long: Vec<BundleEntry> = (0..3)
        .map(|at| BundleEntry {
            skips: Arc::clone(&names),
            ..entry("stable", &format!("1.{at}.0"), "", &[], "")
        })
        .collect();
    let lanes = lanes_of(&long, "");
    assert_eq!((lanes.channels[0].entries.len(), lanes.left_out), (1, 2));
}

#[tokio::test]
async fn a_package_or_channel_that_is_not_there_is_told_with_those_that_are() {
    let snapshot = Snapshot::new(entries());
    let key = CatalogKey {
        name: "cat".to_owned(),
        namespace: "olm".to_owned(),
    };
    let (client, _link) = FakeCluster::new().connect();
    let cluster = Cluster::of(client, "shop");
    let drawn = |words: &[&str]| drawn(&snapshot, &key, &args(words), &BTreeMap::new(), &cluster);
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
    let found = catalog(&cluster, &args(words), subscriptions).await;
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
async fn a_subscription_that_cannot_be_read_keeps_nobody_from_a_graph() {
    let cluster = FakeCluster::new();
    cluster.put(subscription("db", &json!({})));
    let mut odd = subscription("odd", &json!({}));
    odd["spec"] = json!({"name": 7});
    cluster.put(odd);
    let (client, _link) = cluster.connect();
    let own = of_package(&client, "shop", "etcd").await.unwrap();
    assert_eq!(own.len(), 1);
    assert_eq!(own[0].name_any(), "db");
}

#[test]
fn what_is_installed_is_what_subscriptions_say() {
    let with = |status| serde_json::from_value::<Subscription>(subscription("db", &status)).unwrap();
    assert_eq!(
        installed(&[with(json!({"installedCSV": "etcd.v1.0.0"}))]),
        by_db("etcd.v1.0.0")
    );
    assert_eq!(
        installed(&[with(json!({"currentCSV": "etcd.v1.0.0"}))]),
        BTreeMap::new()
    );
}
