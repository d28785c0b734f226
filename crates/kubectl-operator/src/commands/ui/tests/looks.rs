//! Tests of what stands out on a page, and the pages as files to look at without a cluster.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use k8s_openapi::ByteString;
use kube::ResourceExt as _;
use olm_api::plan_preview::PlanPreview;
use olm_resolver::objects::Objects;
use olm_testing::samples::ETCD_CATALOG;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::catalogs::OBJECTS;
use super::pages::Frame;
use super::*;
use crate::catalogs::from_directory;
use crate::command_line::CommandLine;
use crate::commands::approve::Shown;
use crate::commands::catalog::row;
use crate::commands::explain::explain;
use crate::commands::graph::Versions;
use crate::operators::tests::{gathered, gathered_of};
use crate::packages::{Channel, Package, Version};

fn frame<'a>(title: &'a str, commands: &'a CommandLine) -> Frame<'a> {
    Frame {
        title,
        namespace: Some("shop"),
        commands,
        seal: "seal",
        notes: Vec::new(),
    }
}

fn source(namespace: &str, name: &str, status: &Value) -> Value {
    json!({"apiVersion": "operators.coreos.com/v1alpha1", "kind": "CatalogSource",
        "metadata": {"namespace": namespace, "name": name},
        "spec": {"sourceType": "grpc", "image": "registry.example.com/cat:v1", "displayName": "Cat"}, "status": status})
}

fn connection(state: &str) -> Value {
    json!({"connectionState": {"lastObservedState": state}})
}

/// Returns an operator that fails for a long reason.
fn failing() -> Vec<Value> {
    let reason = format!(
        "constraints not satisfiable: {}the-end",
        "no operators found in channel beta of package etcd, ".repeat(10)
    );
    let conditions = json!([{"type": "ResolutionFailed", "status": "True", "reason": "ConstraintsNotSatisfiable", "message": reason}]);
    vec![subscription("db", &json!({"conditions": conditions}))]
}

#[test]
fn failing_operators_are_first_and_counted() {
    let commands = CommandLine::default();
    let body = pages::operators(&frame("Operators", &commands), &gathered(), "");
    for count in ["2 failing", "2 waiting", "1 ready"] {
        assert!(body.contains(&format!(">{count}</span>")), "{count}: {body}");
    }
    let at = |name: &str| body.find(&format!("id=\"operator-shop-{name}\"")).unwrap();
    let order = ["wrong", "etcd.v9.0.0", "new", "waits", "ready"].map(at);
    assert!(order.is_sorted(), "{order:?}");
}

/// The page of the plan has no button then.
#[tokio::test]
async fn a_failed_plan_has_the_way_out_of_status_on_its_page() {
    let cluster = cluster();
    let failed = json!({"status": {"phase": "Failed", "message": "no rights"}});
    assert!(cluster.edit("InstallPlan", "shop", "install-1", &failed));
    logged_in(&cluster, async |browser| {
        let way_out = "correct the cause, then delete the plan, and OLM creates another: kubectl delete installplan install-1 -n shop";
        for (page, cause) in [
            ("operator?namespace=shop&name=db", "InstallPlan install-1: no rights"),
            (
                "plan?namespace=shop&name=install-1",
                "InstallPlan install-1 has failed and cannot be approved: no rights; to resolve: correct",
            ),
        ] {
            let text = text_of(&browser.page(page).await);
            assert!(text.contains(cause) && text.contains(way_out), "{page}: {text}");
        }
    })
    .await;
}

/// The hold may be set and removed while the page is open.
#[tokio::test]
async fn a_plan_outside_a_hold_has_no_button_until_it_is_released() {
    let cluster = cluster();
    let hold = |range: &str| {
        let range = Some(range).filter(|range| !range.is_empty());
        let hold = json!({"metadata": {"annotations": {olm_api::labels::UPGRADE_HOLD: range}}});
        assert!(cluster.edit("Subscription", "shop", "db", &hold));
    };
    logged_in(&cluster, async |browser| {
        let plan = "plan?namespace=shop&name=install-1";
        for (range, is_held) in [("=1.0.0", true), ("", false), ("=1.0.0", true)] {
            hold(range);
            let page = browser.page(plan).await;
            let text = text_of(&page);
            let refusal = "cannot approve InstallPlan install-1: Subscription db is held within =1.0.0";
            assert_eq!(text.contains(refusal), is_held, "{text}");
            assert_eq!(
                text.contains("This plan is waiting for approval"),
                !is_held,
                "{text}"
            );
            assert_eq!(page.body.contains("<form class=\"ask\""), !is_held, "{text}");
        }
        let text = text_of(&browser.page("operators?namespace=shop").await);
        assert!(!text.contains("Plans waiting for approval"), "{text}");
        let text = text_of(&browser.page("operator?namespace=shop&name=db").await);
        assert!(
            !text.contains("Review the pending plan") && text.contains("unhold db -n shop"),
            "{text}"
        );
    })
    .await;
}

#[test]
fn a_long_reason_is_on_the_page_once_and_folded() {
    let commands = CommandLine::default();
    let body = pages::operator(&frame("db", &commands), &gathered_of(failing()), "db").unwrap();
    assert_eq!(body.matches("the-end").count(), 1, "{body}");
    assert_eq!(body.matches("<details class=\"reason\"").count(), 1, "{body}");
    assert!(body.contains("see the reason above"), "{body}");
    let short = pages::operators(&frame("Operators", &commands), &gathered(), "");
    assert!(!short.contains("<details"), "{short}");
}

#[tokio::test]
async fn catalogs_are_shown_with_their_problems_failing_ones_first() {
    let cluster = cluster();
    let mut stale = connection("READY");
    stale["message"] = json!("cannot pull <b>");
    for (namespace, name, status) in [
        ("olm", "fine", connection("READY")),
        ("olm", "stale", stale),
        ("olm", "zombie", connection("TRANSIENT_FAILURE")),
        ("shop", "own", json!({})),
        ("other", "hidden", connection("READY")),
    ] {
        cluster.put(source(namespace, name, &status));
    }
    logged_in(&cluster, async |browser| {
        let seen = browser.page("catalogs").await;
        insta::assert_snapshot!(text_of(&seen), @r"
        Catalogs
        4 catalogs that namespace shop can use  1 failing 2 waiting 1 ready
        Catalog State Name Source Priority Problem
        olm/zombie TRANSIENT_FAILURE Cat grpc registry.example.com/cat:v1 0
        olm/stale READY Cat grpc registry.example.com/cat:v1 0 cannot pull &lt;b&gt;
        shop/own New Cat grpc registry.example.com/cat:v1 0
        olm/fine READY Cat grpc registry.example.com/cat:v1 0
        A catalog that is not READY offers nothing new. Installed operators run on.
        The same in a terminal kubectl operator catalog list -o wide -n shop
        ");
        let all = browser.page("catalogs?namespace=").await;
        assert!(
            text_of(&all).contains("5 catalogs in all namespaces"),
            "{}",
            all.body
        );
    })
    .await;
}

/// An object of a catalog's file, as far as the pages of packages show it.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Blob<'a> {
    schema: String,
    #[serde(default)]
    name: String,
    #[serde(default)]
    default_channel: String,
    #[serde(default)]
    entries: Vec<Entry>,
    #[serde(default, borrow)]
    properties: Vec<Property<'a>>,
}

#[derive(Deserialize)]
struct Entry {
    #[serde(default)]
    name: String,
    #[serde(default)]
    replaces: String,
}

#[derive(Deserialize)]
struct Property<'a> {
    #[serde(rename = "type")]
    type_: String,
    #[serde(borrow)]
    value: &'a RawValue,
}

impl Property<'_> {
    /// Returns the ClusterServiceVersion that a property holds.
    fn csv(&self) -> Option<Value> {
        #[derive(Deserialize)]
        struct Object {
            data: ByteString,
        }
        let object: Object = serde_json::from_str(self.value.get()).ok()?;
        let object: Value = serde_json::from_slice(&object.data.0).ok()?;
        (object["kind"] == "ClusterServiceVersion").then_some(object)
    }
}

/// Reads a package of the corpus as package-server would serve it.
fn package_of(file: &Path) -> Package {
    let text = fs::read_to_string(file).unwrap();
    let blobs = serde_json::Deserializer::from_str(&text).into_iter::<Blob<'_>>();
    let blobs: Vec<Blob<'_>> = blobs.map(|blob| blob.unwrap()).collect();
    let version = |name: &str| {
        let bundle = blobs
            .iter()
            .find(|blob| blob.schema == "olm.bundle" && blob.name == name);
        let mut properties = bundle.iter().flat_map(|bundle| &bundle.properties);
        let found = properties.find(|property| property.type_ == "olm.package")?;
        let found: Value = serde_json::from_str(found.value.get()).unwrap();
        found["version"].as_str().map(str::to_owned)
    };
    let mut package = Package {
        catalog: "community".to_owned(),
        catalog_namespace: "olm".to_owned(),
        ..Package::default()
    };
    for blob in &blobs {
        match blob.schema.as_str() {
            "olm.package" => {
                package.name.clone_from(&blob.name);
                package.default_channel.clone_from(&blob.default_channel);
            }
            "olm.channel" => {
                let replaced: BTreeSet<&str> =
                    blob.entries.iter().map(|entry| entry.replaces.as_str()).collect();
                let mut heads = blob
                    .entries
                    .iter()
                    .filter(|entry| !replaced.contains(entry.name.as_str()));
                let head = heads.next().map(|entry| entry.name.clone()).unwrap_or_default();
                package.channels.push(Channel {
                    name: blob.name.clone(),
                    head_version: version(&head).unwrap_or_default(),
                    head,
                    versions: blob
                        .entries
                        .iter()
                        .map(|entry| Version {
                            version: version(&entry.name).unwrap_or_default(),
                            name: entry.name.clone(),
                            deprecated: None,
                        })
                        .collect(),
                    ..Channel::default()
                });
            }
            _ => {}
        }
    }
    let head = package.head_channel().map(|channel| channel.head.clone());
    let head = blobs
        .iter()
        .find(|blob| blob.schema == "olm.bundle" && Some(&blob.name) == head.as_ref());
    let csv = head.and_then(|head| head.properties.iter().find_map(Property::csv));
    let csv = csv.unwrap_or_default();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    package.display_name = text(&csv["spec"]["displayName"]);
    package.provider = text(&csv["spec"]["provider"]["name"]);
    package.description = text(&csv["spec"]["description"]);
    package
}

/// Returns a drawing's page of a package of the corpus: the installed version, and the upgrades from it.
fn graph_page(folder: &Path, name: &str, channel: &str, way: &[&str]) -> String {
    let (_, fetched) = olm_registry::snapshot::of_directory(folder).unwrap();
    let snapshot = olm_resolver::Snapshot::from(&fetched.snapshot);
    let versions = Versions {
        installed: BTreeMap::from([(way[0].to_owned(), vec!["shop/db".to_owned()])]),
        ..Versions::default()
    };
    let way = way.iter().enumerate().map(|(at, version)| {
        let channel = if at == 0 { "" } else { channel };
        (channel.to_owned(), (*version).to_owned())
    });
    let graph = routes::graph_of(&snapshot, "olm/community", name, &versions, way.collect());
    let (title, commands) = (format!("Upgrade graph of {name}"), CommandLine::default());
    pages::graph(&frame(&title, &commands), "shop", &graph, name, "olm/community")
}

/// Writes the pages to `target/pages`, with the real catalogs of the corpus. A browser opens them from there.
#[test]
fn pages_to_look_at_are_written() {
    let Some(corpus) = olm_testing::shared::corpus_dir() else {
        return;
    };
    let (folder, fbc) = (corpus.with_file_name("pages"), corpus.join("fbc"));
    fs::create_dir_all(&folder).unwrap();
    let write = |name: &str, text: &str| fs::write(folder.join(name), text).unwrap();
    write("style.css", &routes::style());
    write("script.js", routes::SCRIPT);
    let commands = CommandLine::default();

    let mut files: Vec<_> = fs::read_dir(&fbc)
        .unwrap()
        .map(|entry| entry.unwrap().path().join("catalog.json"))
        .collect();
    files.sort();
    let packages: Vec<Package> = files.iter().map(|file| package_of(file)).collect();
    assert_eq!(packages.len(), 125);
    let body = pages::catalog(&frame("Packages", &commands), &packages, "");
    assert!(body.contains("125 of 125 packages"), "{body}");
    write("packages.html", &body);
    for package in &packages {
        let body = pages::package(&frame(&package.name, &commands), "shop", package, false);
        assert!(
            !body.contains("<script>") && !body.contains("<img"),
            "{}",
            package.name
        );
        write(&format!("package-{}.html", package.name), &body);
    }

    let che = ["7.24.1", "7.24.2", "7.25.0", "7.25.1"].map(|version| format!("eclipse-che.v{version}"));
    let che: Vec<&str> = che.iter().map(String::as_str).collect();
    let body = graph_page(&fbc.join("eclipse-che"), "eclipse-che", "stable", &che);
    assert!(body.contains("upgrade 3 of 3"), "{body}");
    write("graph-eclipse-che.html", &body);
    let infinispan = ["2.0.4", "2.0.5", "2.1.0"].map(|version| format!("infinispan-operator.v{version}"));
    let infinispan: Vec<&str> = infinispan.iter().map(String::as_str).collect();
    let body = graph_page(&fbc.join("infinispan"), "infinispan", "2.1.x", &infinispan);
    // Three of the five channels end where the newest goes on, and share its lane.
    let lanes = body.split("<path class=\"lane\" d=\"M").skip(1);
    let lanes: BTreeSet<&str> = lanes.map(|rest| rest.split_once(',').unwrap().0).collect();
    assert_eq!(lanes.len(), 2, "{body}");
    write("graph-infinispan.html", &body);

    let operators = gathered();
    write(
        "operators.html",
        &pages::operators(&frame("Operators", &commands), &operators, ""),
    );
    write(
        "operator.html",
        &pages::operator(&frame("waits", &commands), &operators, "waits").unwrap(),
    );
    write(
        "operator-failing.html",
        &pages::operator(&frame("db", &commands), &gathered_of(failing()), "db").unwrap(),
    );
    let plan: olm_api::v1alpha1::InstallPlan = serde_json::from_value(waiting("{}")).unwrap();
    let preview = plan.annotations().get(olm_api::labels::PLAN_PREVIEW);
    let shown = Shown {
        plan: "install-1".to_owned(),
        namespace: "shop".to_owned(),
        subscriptions: vec!["db".to_owned()],
        operators: vec!["etcd.v2.0.0".to_owned()],
        preview: preview.and_then(|text| PlanPreview::from_annotation(text)),
        ..Shown::default()
    };
    write(
        "plan.html",
        &pages::plan(&frame("etcd 1.0.0 → 2.0.0", &commands), &shown, "digest"),
    );
    let mut catalogs = Vec::new();
    for (name, state) in [
        ("fine", "READY"),
        ("slow", "CONNECTING"),
        ("zombie", "TRANSIENT_FAILURE"),
    ] {
        let source = serde_json::from_value(source("olm", name, &connection(state))).unwrap();
        catalogs.push(row(&source));
    }
    write(
        "catalogs.html",
        &pages::catalogs(&frame("Catalogs", &commands), &catalogs),
    );

    let etcd = tempfile::tempdir().unwrap();
    fs::write(etcd.path().join("catalog.yaml"), ETCD_CATALOG).unwrap();
    let objects = Objects::read(OBJECTS).unwrap();
    let contents = from_directory(etcd.path(), &objects.catalog_keys("shop"))
        .unwrap()
        .contents;
    let question = objects.question("shop", "olm", contents);
    let plan = olm_resolver::plan::plan(&question).map_err(|error| error.to_string());
    let explained = explain(&question, None).unwrap();
    write(
        "explain.html",
        &pages::explain(&frame("Why in shop", &commands), &explained, &plan, None),
    );
}
