//! The kinds and example objects of the user documents, on a real API server.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use anyhow::{Context as _, ensure};
use e2e::cluster::{Scratch, shared};
use e2e::lab::PATIENCE;
use serde_json::{Value, json};
use xtask::cluster::UpOptions;
use xtask::kubectl::{Destination, text};
use xtask::{manifest, workspace};

const GROUP: &str = "operators.coreos.com";

/// Returns kubectl for the shared cluster, with the definitions of this checkout.
fn kubectl() -> anyhow::Result<Destination> {
    static READY: Mutex<Option<Destination>> = Mutex::new(None);
    let mut ready = READY.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(destination) = &*ready {
        return Ok(destination.clone());
    }
    let destination = Destination::Embedded(shared()?);
    destination.apply(&manifest::read_folder(&definitions())?)?;
    established(&destination)?;
    *ready = Some(destination.clone());
    Ok(destination)
}

fn definitions() -> PathBuf {
    workspace::root().join("manifests/crds")
}

fn established(destination: &Destination) -> anyhow::Result<()> {
    for definition in manifest::read_folder(&definitions())? {
        let name = format!("crd/{}", text(&definition, "/metadata/name"));
        destination.run(&["wait", "--for=condition=Established", "--timeout=60s", &name])?;
    }
    Ok(())
}

/// Asserts the row of `kubectl api-resources` for a kind: short names, preferred version, scope, categories.
fn assert_listed(
    plural: &str,
    short: &str,
    version: &str,
    namespaced: bool,
    kind: &str,
) -> anyhow::Result<()> {
    let group = format!("--api-group={GROUP}");
    let listed = [
        "api-resources",
        "--cached=false",
        "--no-headers",
        "--output=wide",
        &group,
    ];
    // The command fails while an API of the cluster does not respond.
    let list = kubectl()?.wait("all kinds", PATIENCE, |kubectl| Ok(Ok(kubectl.run(&listed)?)))?;
    let row: Vec<&str> = list
        .lines()
        .map(|line| line.split_whitespace().collect::<Vec<_>>())
        .find(|words| words.first() == Some(&plural))
        .with_context(|| format!("api-resources does not list {plural}:\n{list}"))?;
    let version = format!("{GROUP}/{version}");
    let namespaced = namespaced.to_string();
    let mut wanted = vec![plural];
    wanted.extend((!short.is_empty()).then_some(short));
    wanted.extend([version.as_str(), namespaced.as_str(), kind]);
    assert_eq!(row[..row.len() - 2], wanted[..]);
    assert_eq!(
        row.last(),
        Some(&"olm"),
        "category: `kubectl get olm` shows all kinds"
    );
    Ok(())
}

/// Asserts that a version of the group serves a kind, with its status.
fn assert_served(version: &str, plural: &str, kind: &str) -> anyhow::Result<()> {
    let list = kubectl()?.run(&["get", "--raw", &format!("/apis/{GROUP}/{version}")])?;
    let list: Value = serde_json::from_str(&list)?;
    let named = |name: &str| {
        let all = list["resources"].as_array().into_iter().flatten();
        all.filter(|resource| resource["name"] == name).count()
    };
    assert_eq!(named(plural), 1, "{version} serves {kind}");
    assert_eq!(
        named(&format!("{plural}/status")),
        1,
        "{version} serves the status of {kind}"
    );
    Ok(())
}

#[test]
fn api_001_the_api_server_knows_cluster_service_versions_as_csv() -> anyhow::Result<()> {
    assert_listed(
        "clusterserviceversions",
        "csv,csvs",
        "v1alpha1",
        true,
        "ClusterServiceVersion",
    )?;
    assert_served("v1alpha1", "clusterserviceversions", "ClusterServiceVersion")
}

#[test]
fn api_002_the_api_server_knows_catalog_sources_as_catsrc() -> anyhow::Result<()> {
    assert_listed("catalogsources", "catsrc", "v1alpha1", true, "CatalogSource")?;
    assert_served("v1alpha1", "catalogsources", "CatalogSource")
}

#[test]
fn api_003_the_api_server_knows_subscriptions_as_sub() -> anyhow::Result<()> {
    assert_listed("subscriptions", "sub,subs", "v1alpha1", true, "Subscription")?;
    assert_served("v1alpha1", "subscriptions", "Subscription")
}

#[test]
fn api_004_the_api_server_knows_install_plans_as_ip() -> anyhow::Result<()> {
    assert_listed("installplans", "ip", "v1alpha1", true, "InstallPlan")?;
    assert_served("v1alpha1", "installplans", "InstallPlan")
}

#[test]
fn api_005_the_api_server_knows_operator_groups_as_og() -> anyhow::Result<()> {
    assert_listed("operatorgroups", "og", "v1", true, "OperatorGroup")?;
    assert_served("v1", "operatorgroups", "OperatorGroup")?;
    assert_served("v1alpha2", "operatorgroups", "OperatorGroup")
}

#[test]
fn api_006_the_api_server_serves_both_versions_of_operator_conditions() -> anyhow::Result<()> {
    assert_listed("operatorconditions", "condition", "v2", true, "OperatorCondition")?;
    assert_served("v1", "operatorconditions", "OperatorCondition")?;
    assert_served("v2", "operatorconditions", "OperatorCondition")
}

#[test]
fn api_007_an_operators_conditions_are_kept_and_are_a_list() -> anyhow::Result<()> {
    let sent = fixture("OperatorCondition", "my-operator")?;
    let destination = kubectl()?;
    let namespace = Namespace::new(&destination, "api-conditions")?;
    let sent = namespace.placed(&sent);
    let stored = create(&destination, &sent, false)?;
    assert_eq!(missing("", &sent, &stored), [""; 0]);
    assert_eq!(stored["spec"]["conditions"].as_array().map(Vec::len), Some(1));

    let mut refused = sent.clone();
    refused["metadata"]["name"] = json!("refused");
    refused["spec"]["conditions"] = json!({"type": "Upgradeable", "status": "False"});
    let error = create(&destination, &refused, true)
        .err()
        .context("a map was taken for a list")?;
    assert!(error.to_string().contains("spec.conditions"), "{error:#}");
    Ok(())
}

#[test]
fn api_008_olm_config_is_one_object_for_the_cluster() -> anyhow::Result<()> {
    assert_listed("olmconfigs", "", "v1", false, "OLMConfig")?;
    assert_served("v1", "olmconfigs", "OLMConfig")?;
    let destination = kubectl()?;
    for sent in fixtures()?.iter().filter(|object| object["kind"] == "OLMConfig") {
        assert_eq!(sent["metadata"]["name"], "cluster");
        let stored = create(&destination, sent, true)?;
        assert_eq!(missing("", sent, &stored), [""; 0]);
    }
    Ok(())
}

/// Every object of the documents is created, its status is written, and the result has every field that was sent.
#[test]
fn api_010_example_objects_are_taken_without_loss_of_fields() -> anyhow::Result<()> {
    let destination = kubectl()?;
    let mut kinds = BTreeSet::new();
    for (number, example) in fixtures()?.iter().enumerate() {
        let what = format!("{} {}", text(example, "/kind"), text(example, "/metadata/name"));
        kinds.insert(text(example, "/kind").to_owned());
        let example = completed(example.clone());
        // One namespace per example, because two examples have the same name.
        let namespace = Namespace::new(&destination, &format!("api-example-{number:02}"))?;
        let sent = namespace.placed(&example);
        let stored = create(&destination, &sent, true).with_context(|| what.clone())?;
        let mut lost = missing("", &without_status(&sent), &stored);
        if sent.get("status").is_some() {
            // A creation drops the status; it needs a second write, and a dry run of that needs the object.
            create(&destination, &sent, false).with_context(|| what.clone())?;
            let stored = write_status(&destination, &sent).with_context(|| what.clone())?;
            // The operators run here, and limit this annotation to installed operators.
            let kept_by_us = ".metadata.annotations.olm.providedAPIs";
            let after = missing("", &sent, &stored);
            lost.extend(
                after
                    .into_iter()
                    .filter(|path| path != kept_by_us && !lost.contains(path))
                    .collect::<Vec<_>>(),
            );
        }
        let known: &[&str] = match text(&example, "/metadata/annotations/olm.providedAPIs") {
            // The document shows a field the API never had; the API's field is `serviceAccountName`.
            "PackageManifest.v1alpha1.packages.apps.redhat.com" => &[".spec.serviceAccount"],
            // The operators run here, and write the image resolved from the template in the annotation.
            _ if !text(&example, "/metadata/annotations/olm.catalogImageTemplate").is_empty() => {
                &[".metadata.generation", ".spec.image"]
            }
            _ => &[],
        };
        lost.retain(|path| !known.contains(&path.as_str()));
        assert_eq!(lost, [""; 0], "{what}");
    }
    let all = [
        "CatalogSource",
        "ClusterServiceVersion",
        "InstallPlan",
        "OLMConfig",
        "OperatorCondition",
        "OperatorGroup",
        "Subscription",
    ];
    assert_eq!(kinds.iter().map(String::as_str).collect::<Vec<_>>(), all);
    Ok(())
}

/// Client-side apply keeps the whole object in an annotation, which has a size limit; large definitions can exceed it.
#[test]
fn plain_kubectl_apply_takes_every_definition() -> anyhow::Result<()> {
    let cluster = Scratch::start("definitions", UpOptions { no_node: true })?;
    let destination = Destination::Embedded((*cluster).clone());
    let folder = definitions();
    let folder = folder.to_str().context("the checkout's path is not UTF-8")?;
    let first = destination.run(&["apply", "--filename", folder])?;
    let count = manifest::read_folder(&definitions())?.len();
    assert_eq!(
        first.lines().filter(|line| line.ends_with(" created")).count(),
        count,
        "{first}"
    );
    established(&destination)?;
    let second = destination.run(&["apply", "--filename", folder])?;
    assert_eq!(
        second.lines().filter(|line| line.ends_with(" unchanged")).count(),
        count,
        "{second}"
    );
    Ok(())
}

/// Returns the example objects, which are fixtures of the API crate.
fn fixtures() -> anyhow::Result<Vec<Value>> {
    let objects = manifest::read_folder(&workspace::root().join("crates/olm-api/tests/fixtures"))?;
    ensure!(objects.len() >= 15, "only {} example objects", objects.len());
    Ok(objects)
}

fn fixture(kind: &str, name: &str) -> anyhow::Result<Value> {
    let mut all = fixtures()?.into_iter();
    all.find(|object| object["kind"] == kind && object["metadata"]["name"] == name)
        .with_context(|| format!("no example {kind} {name}"))
}

/// Returns an example with the fields that users must add before an API server accepts it.
fn completed(mut object: Value) -> Value {
    if object["kind"] == "ClusterServiceVersion" && object["spec"].get("install").is_none() {
        object["spec"]["install"] = json!({"strategy": "deployment", "spec": {"deployments": []}});
    }
    // The document writes a number; the API's port is text.
    if let Some(port) = object.pointer_mut("/status/registryService/port") {
        *port = json!(port.to_string().trim_matches('"'));
    }
    object
}

fn without_status(object: &Value) -> Value {
    let mut object = object.clone();
    if let Some(fields) = object.as_object_mut() {
        fields.remove("status");
    }
    object
}

/// Creates an object as users do; server-side apply would reject unknown fields instead of dropping them.
fn create(destination: &Destination, object: &Value, dry_run: bool) -> anyhow::Result<Value> {
    let mut words = vec!["apply", "--validate=warn", "--output=json", "--filename=-"];
    words.extend(dry_run.then_some("--dry-run=server"));
    Ok(serde_json::from_str(
        &destination.run_with_input(&words, &object.to_string())?,
    )?)
}

/// Writes a status as a dry run, because the operators may react to the object at the same time.
fn write_status(destination: &Destination, object: &Value) -> anyhow::Result<Value> {
    let patch = json!({"status": object["status"]}).to_string();
    let stored = destination.run(&[
        "patch",
        text(object, "/kind"),
        text(object, "/metadata/name"),
        "--namespace",
        text(object, "/metadata/namespace"),
        "--subresource=status",
        "--type=merge",
        "--dry-run=server",
        "--output=json",
        "--patch",
        &patch,
    ])?;
    Ok(serde_json::from_str(&stored)?)
}

/// Returns the paths of sent fields that are missing or changed in the result. Null means absent, as in Kubernetes.
fn missing(path: &str, sent: &Value, stored: &Value) -> Vec<String> {
    match (sent, stored) {
        (Value::Null, _) => Vec::new(),
        (Value::Object(sent), Value::Object(stored)) => sent
            .iter()
            .flat_map(|(key, value)| {
                missing(
                    &format!("{path}.{key}"),
                    value,
                    stored.get(key).unwrap_or(&Value::Null),
                )
            })
            .collect(),
        (Value::Array(sent), Value::Array(stored)) if sent.len() == stored.len() => sent
            .iter()
            .zip(stored)
            .enumerate()
            .flat_map(|(index, (sent, stored))| missing(&format!("{path}[{index}]"), sent, stored))
            .collect(),
        (sent, stored) if sent == stored => Vec::new(),
        _ => vec![path.to_owned()],
    }
}

/// A namespace for a test's objects, deleted on drop.
struct Namespace<'a> {
    destination: &'a Destination,
    name: String,
}

impl<'a> Namespace<'a> {
    fn new(destination: &'a Destination, name: &str) -> anyhow::Result<Self> {
        destination.run(&[
            "delete",
            "namespace",
            name,
            "--ignore-not-found",
            "--wait=true",
            "--timeout=120s",
        ])?;
        destination.run(&["create", "namespace", name])?;
        Ok(Self {
            destination,
            name: name.to_owned(),
        })
    }

    /// Returns the object, in this namespace if it is namespaced.
    fn placed(&self, object: &Value) -> Value {
        let mut object = object.clone();
        if object["metadata"].get("namespace").is_some() {
            object["metadata"]["namespace"] = json!(self.name);
        }
        object
    }
}

impl Drop for Namespace<'_> {
    fn drop(&mut self) {
        let _ = self.destination.run(&[
            "delete",
            "namespace",
            &self.name,
            "--ignore-not-found",
            "--wait=false",
        ]);
    }
}

#[test]
fn what_did_not_come_back_is_found() {
    let sent = json!({"a": null, "b": [{"c": 1}, {"c": 2}], "d": "x", "e": {"f": 1}});
    let stored = json!({"b": [{"c": 1}, {"c": 3}], "d": "x", "g": 1});
    assert_eq!(missing("", &sent, &stored), [".b[1].c", ".e"]);
}
