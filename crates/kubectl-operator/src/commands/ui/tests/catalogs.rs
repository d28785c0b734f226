//! Tests of pages about catalogs and explanations.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use olm_resolver::objects::Objects;
use olm_testing::samples::ETCD_CATALOG;

use super::*;
use crate::catalogs::from_directory;
use crate::command_line::CommandLine;
use crate::commands::explain::explain;
use crate::commands::graph::Versions;
use crate::packages::tests::{manifest, served as cluster_with_packages};

#[tokio::test]
async fn packages_are_searched_and_shown_with_a_command_to_install_each() {
    let cluster = cluster_with_packages();
    let mut hostile = manifest("vault", "cat");
    hostile["status"]["channels"][0]["name"] = json!("<b>$(x)");
    hostile["status"]["channels"][1]["currentCSVDesc"]["description"] =
        json!("<img src=x onerror=alert(1)>\u{202e}");
    cluster.put(hostile);
    cluster.put(manifest("etcd", "cat"));
    logged_in(&cluster, async |browser| {
        let seen = browser.page("catalog").await;
        insta::assert_snapshot!(text_of(&seen), @r"
        Packages
        Search Search
        2 of 2 packages that namespace shop can use
        Package Name Catalog Channel Version
        etcd Etcd by CNCF olm/cat stable 1.1.0
        vault Etcd by CNCF olm/cat stable 1.1.0
        The same in a terminal kubectl operator list-available -n shop
        ");
        // As `ui -A` does.
        let all = text_of(&browser.page("catalog?namespace=").await);
        assert!(all.contains("2 of 2 packages of all catalogs"), "{all}");
        assert!(all.contains("kubectl operator list-available -A"), "{all}");
        let one = browser.page("package?namespace=&catalog=olm/cat&name=etcd").await;
        assert_eq!(one.status, 200);
        assert!(text_of(&one).contains("kubectl operator install etcd"), "{}", text_of(&one));
        let seen = browser.page("catalog?q=VAUL").await;
        assert!(seen.body.contains("1 of 2 packages"), "{}", seen.body);
        assert!(!seen.body.contains("name=etcd"), "{}", seen.body);
        let seen = browser.page("package?catalog=olm/cat&name=etcd").await;
        insta::assert_snapshot!(text_of(&seen), @r"
        etcd
        Etcd by CNCF, of catalog olm/cat
        Upgrade graph  asks the catalogs, which can take a while.
        Channel beta
        deprecated: use stable
        Head 2.0.0 (etcd.v2.0.0)
        Install modes OwnNamespace
        Kubernetes 1.30.0 or newer
        Provides Etcd (etcds.example.com)
        Requires Disk (disks.example.com)
        Install it kubectl operator install etcd --catalog olm/cat --channel beta --create-operator-group -n shop
        Versions (2)
        2.0.0 (etcd.v2.0.0), head
        1.1.0 (etcd.v1.1.0)
        Channel stable (default)
        Head 1.1.0 (etcd.v1.1.0)
        Install modes OwnNamespace
        Kubernetes 1.30.0 or newer
        Provides Etcd (etcds.example.com)
        Requires Disk (disks.example.com)
        Install it kubectl operator install etcd --catalog olm/cat --channel stable --create-operator-group -n shop
        Versions (2)
        1.1.0 (etcd.v1.1.0), head
        1.0.0 (etcd.v1.0.0), deprecated: it loses keys
        Description
        Keeps \u{1b}[2Jkeys.
        And values.
        The same in a terminal kubectl operator describe etcd --catalog olm/cat -n shop
        ");
        let seen = browser.page("package?catalog=olm/cat&name=vault").await;
        assert_eq!(seen.status, 200);
        assert!(
            !seen.body.contains("<b>") && !seen.body.contains("<img"),
            "{}",
            seen.body
        );
        assert!(seen.body.contains("&lt;img"), "{}", seen.body);
        // No command is offered whose text a catalog controls.
        assert_eq!(
            seen.body.matches("kubectl operator install").count(),
            1,
            "{}",
            seen.body
        );
        for page in [
            "package?catalog=olm/other&name=etcd",
            "package?catalog=olm/cat&name=nope",
            "package",
        ] {
            assert_eq!(browser.page(page).await.status, 404, "{page}");
        }
    })
    .await;
}

/// Bundles have all usual texts.
#[tokio::test]
async fn a_catalog_of_a_thousand_bundles_is_no_burden() {
    let cluster = cluster_with_packages();
    let packages = 500;
    for number in 0..packages {
        let mut package = manifest(&format!("package-{number}"), "cat");
        let description = json!("What it does, at length. ".repeat(100));
        for channel in package["status"]["channels"].as_array_mut().unwrap() {
            channel["currentCSVDesc"]["description"] = description.clone();
        }
        cluster.put(package);
    }
    logged_in(&cluster, async |browser| {
        browser.page("catalog").await;
        let reads = cluster.log().counts;
        let start = Instant::now();
        for word in ["", "package-4", "at%20length", "nope"] {
            let seen = browser.page(&format!("catalog?q={word}")).await;
            assert_eq!(seen.status, 200);
            assert!(seen.body.len() < 128 << 10, "{}", seen.body.len());
            assert!(
                seen.body.contains(&format!("of {packages} packages")),
                "{}",
                seen.body
            );
        }
        // A hundred times the expected duration.
        assert!(start.elapsed() < Duration::from_secs(20), "{:?}", start.elapsed());
        assert_eq!(cluster.log().counts, reads, "they are read once");
    })
    .await;
}

pub(super) const OBJECTS: &str = "
apiVersion: operators.coreos.com/v1
kind: OperatorGroup
metadata: {name: og, namespace: shop}
---
apiVersion: operators.coreos.com/v1alpha1
kind: Subscription
metadata: {name: db, namespace: shop}
spec: {name: etcd, channel: stable, source: cat, sourceNamespace: olm, startingCSV: etcd.v1.0.0}
---
apiVersion: operators.coreos.com/v1alpha1
kind: Subscription
metadata: {name: other, namespace: shop}
spec: {name: etcd, channel: '<i>beta', source: cat, sourceNamespace: olm}
";

#[test]
fn why_something_does_not_resolve_is_shown_as_it_is_printed() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("catalog.yaml"), ETCD_CATALOG).unwrap();
    let objects = Objects::read(OBJECTS).unwrap();
    let keys: BTreeSet<_> = objects.catalog_keys("shop");
    let catalogs = from_directory(folder.path(), &keys).unwrap();
    let question = objects.question("shop", "olm", catalogs.contents);
    let plan = olm_resolver::plan::plan(&question).map_err(|error| error.to_string());
    let commands = CommandLine::default();
    let frame = pages::Frame {
        title: "Why",
        namespace: Some("shop"),
        commands: &commands,
        seal: "seal",
        notes: Vec::new(),
    };
    let of = |name: Option<&str>| {
        let explained = explain(&question, name).unwrap();
        let body = pages::explain(&frame, &explained, &plan, name);
        assert!(!body.contains("<i>"), "{body}");
        let mut printed = explained.to_string();
        for (letter, escaped) in [("&", "&amp;"), ("<", "&lt;"), (">", "&gt;"), ("\"", "&quot;")] {
            printed = printed.replace(letter, escaped);
        }
        assert!(
            body.contains(&format!("<pre>{printed}</pre>")),
            "{printed}: {body}"
        );
        body
    };
    for (name, parts) in [
        (
            Some("other"),
            [
                "other: cannot be resolved",
                "to resolve: set spec.channel of subscription other to stable (now &lt;i&gt;beta)",
                "kubectl operator explain other -n shop",
            ],
        ),
        (
            Some("db"),
            [
                "db: resolves to etcd.v1.0.0",
                "etcd.v1.1.0",
                "kubectl operator plan -n shop",
            ],
        ),
        (
            None,
            [
                "other: cannot be resolved",
                "etcd.v1.1.0",
                "kubectl operator explain -n shop",
            ],
        ),
    ] {
        let body = of(name);
        for part in parts {
            assert!(body.contains(part), "{part}: {body}");
        }
    }
}

#[test]
fn a_graph_has_its_command_beside_it_and_says_what_its_stops_mean() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("catalog.yaml"), ETCD_CATALOG).unwrap();
    let (_, fetched) = olm_registry::snapshot::of_directory(folder.path()).unwrap();
    let snapshot = olm_resolver::Snapshot::from(&fetched.snapshot);
    let versions = Versions {
        installed: BTreeMap::from([("etcd.v1.0.0".to_owned(), vec!["shop/db".to_owned()])]),
        ..Versions::default()
    };
    let way = [("", "etcd.v1.0.0"), ("stable", "etcd.v1.1.0")];
    let way = way.map(|(channel, name)| (channel.to_owned(), name.to_owned()));
    let graph = routes::graph_of(&snapshot, "olm/cat", "etcd", &versions, way.to_vec());
    let commands = CommandLine::default();
    let frame = pages::Frame {
        title: "Upgrade graph",
        namespace: Some("shop"),
        commands: &commands,
        seal: "seal",
        notes: Vec::new(),
    };
    let of = |package: &str| Seen {
        status: 200,
        head: String::new(),
        body: pages::graph(&frame, "shop", &graph, package, "olm/cat"),
    };
    let text = text_of(&of("etcd"));
    for part in [
        "The same in a terminal kubectl operator graph etcd --catalog olm/cat -n shop",
        "Upgrade path: etcd.v1.0.0 → etcd.v1.1.0",
        "etcd.v1.1.0, head in stable etcd.v1.0.0, installed in stable",
        "1.1.0  etcd.v1.1.0, head, replaces etcd.v1.0.0, upgrade 1 of 1",
        "1.0.0  etcd.v1.0.0, installed by shop/db",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let body = of("etcd").body;
    for class in ["installed", "head", "skipped", "deprecated"] {
        let key = format!("<g class=\"{class}\"><circle");
        assert!(body.contains(&key), "{key}: {body}");
    }
    // The policy of the pages forbids styles in them.
    assert!(!body.contains("<style"), "{body}");
    for link in body.split("href=\"#version-").skip(1) {
        let id = link.split_once('"').unwrap().0;
        assert!(
            body.contains(&format!("<li id=\"version-{id}\">")),
            "{id}: {body}"
        );
    }
    assert!(
        !of("$(x)").body.contains("kubectl operator graph"),
        "it is of a catalog's making"
    );
}

/// Otherwise users who may write Subscriptions could hide another one, or a reason.
#[tokio::test]
async fn unreadable_objects_are_reported_on_every_page_without_them() {
    let odd = |name: &str| {
        let mut odd = subscription(name, &json!({}));
        odd["spec"] = json!({"name": 7});
        odd
    };
    let cluster = cluster();
    (0..23).for_each(|at| cluster.put(odd(&format!("odd-{at:02}"))));
    logged_in(&cluster, async |browser| {
        for page in [
            "operators",
            "operator?name=db",
            "operator?name=odd-00",
            "explain?name=db",
            "graph?catalog=olm/none&name=etcd",
        ] {
            let text = text_of(&browser.page(page).await);
            assert!(
                text.contains("cannot read Subscription shop/odd-00: "),
                "{page}: {text}"
            );
            assert!(text.contains("\nand 3 more\n"), "{page}: {text}");
        }
    })
    .await;
    let cluster = FakeCluster::new();
    cluster.put(odd("odd"));
    logged_in(&cluster, async |browser| {
        let text = text_of(&browser.page("explain?name=db").await);
        assert!(text.contains("; cannot read Subscription shop/odd: "), "{text}");
    })
    .await;
}

#[tokio::test]
async fn an_explanation_that_cannot_be_had_is_reported_on_its_page() {
    let cluster = cluster();
    logged_in(&cluster, async |browser| {
        let seen = browser.page("explain?name=db").await;
        // The missing group is a valid explanation, and no error.
        assert_eq!(seen.status, 200);
        assert!(seen.body.contains("create an OperatorGroup"), "{}", seen.body);
        let seen = browser.page("explain?name=nope").await;
        assert_eq!(seen.status, 502);
        assert!(seen.body.contains("no subscription nope"), "{}", seen.body);
        let seen = browser.page("graph?catalog=olm/none&name=etcd").await;
        assert_eq!(seen.status, 502);
        assert!(
            seen.body.contains("Catalog olm/none does not exist"),
            "{}",
            seen.body
        );
        assert_eq!(browser.page("explain?namespace=").await.status, 404);
    })
    .await;
}

#[tokio::test]
async fn the_steps_on_the_page_are_those_that_plan_prints() {
    let cluster = cluster();
    cluster.put(
        json!({"apiVersion": "operators.coreos.com/v1", "kind": "OperatorGroup",
        "metadata": {"namespace": "shop", "name": "og"}, "spec": {}}),
    );
    let manual = json!({"spec": {"installPlanApproval": "Manual"}});
    assert!(cluster.edit("Subscription", "shop", "db", &manual));
    let approved = json!({"spec": {"approved": true}});
    assert!(cluster.edit("InstallPlan", "shop", "install-1", &approved));
    let conditions =
        json!([{"type": "BundleUnpackFailed", "status": "True", "message": "cannot pull image x:v1"}]);
    cluster.put(subscription("other", &json!({"conditions": conditions})));
    logged_in(&cluster, async |browser| {
        let text = text_of(&browser.page("explain?name=db").await);
        let (_, steps) = text.split_once("What OLM is going to do").unwrap();
        for part in [
            "InstallPlan install-1 that installs etcd.v2.0.0 for subscription db is in progress",
            "other: Failed: cannot pull image x:v1",
        ] {
            assert!(steps.contains(part), "{part}: {text}");
        }
    })
    .await;
}
