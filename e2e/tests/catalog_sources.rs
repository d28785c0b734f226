//! Catalogs that are not images.

use std::fs;

use anyhow::Context as _;
use e2e::demo::{FIRST, SECOND, greet};
use e2e::lab::{Lab, Namespace, PATIENCE, catalog_source, operator_group, subscription};
use olm_fbc::yaml;
use serde_json::{Value, json};
use xtask::kubectl::text;
use xtask::workspace;

/// Returns objects of the demo operator's bundles of these releases: definitions, then ClusterServiceVersions.
fn demo_objects(releases: &[&str]) -> anyhow::Result<(Vec<Value>, Vec<Value>)> {
    let (mut definitions, mut csvs) = (Vec::new(), Vec::new());
    for release in releases {
        let folder = workspace::root().join(format!("e2e/demo-operator/bundles/{release}/manifests"));
        for entry in fs::read_dir(&folder).with_context(|| format!("no folder {}", folder.display()))? {
            let object = yaml::parse(&fs::read(entry?.path())?)?;
            match object["kind"].as_str() {
                Some("ClusterServiceVersion") => csvs.push(object),
                Some("CustomResourceDefinition") => definitions.push(object),
                _ => anyhow::bail!("a manifest of another kind in {}", folder.display()),
            }
        }
    }
    // One definition serves all releases: only one per name and version is allowed.
    definitions.drain(..definitions.len() - 1);
    Ok((definitions, csvs))
}

fn config_map(releases: &[&str], head: &str) -> anyhow::Result<Value> {
    let (definitions, csvs) = demo_objects(releases)?;
    let packages =
        json!([{"packageName": "demo-operator", "channels": [{"name": "stable", "currentCSV": head}]}]);
    Ok(json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "content"},
        "data": {
            "customResourceDefinitions": yaml::to_string(&definitions)?,
            "clusterServiceVersions": yaml::to_string(&csvs)?,
            "packages": yaml::to_string(&packages)?,
        },
    }))
}

fn registry_pods(namespace: &Namespace<'_>) -> anyhow::Result<Vec<Value>> {
    let mut pods = namespace.list("pod")?;
    pods.retain(|pod| text(pod, "/metadata/labels/olm.catalogSource") == "catalog");
    Ok(pods)
}

#[test]
fn cat_009_a_config_map_is_a_catalog_and_gains_a_version() -> anyhow::Result<()> {
    let lab = Lab::shared()?;
    let namespace = lab.namespace("catsrc-configmap")?;
    namespace.apply(&[
        json!({
            "apiVersion": "operators.coreos.com/v1alpha1", "kind": "CatalogSource", "metadata": {"name": "catalog"},
            "spec": {"sourceType": "configmap", "configMap": "content", "displayName": "catalog", "publisher": "e2e",
                     "grpcPodConfig": {"securityContextConfig": "restricted"}},
        }),
        operator_group("group", &[namespace.name()]),
        subscription("demo", "demo-operator", "stable", "catalog", namespace.name()),
    ])?;
    namespace.wait_for("catsrc", "catalog", "ConfigMapError", |source| {
        text(source, "/status/reason") == "ConfigMapError"
            && text(source, "/status/message")
                == "failed to get catalog config map content: configmaps \"content\" not found"
    })?;

    namespace.apply(&[config_map(&["1.0.0"], FIRST)?])?;
    namespace.wait_for_phase(FIRST, "Succeeded")?;
    greet(&namespace, "1.0.0")?;
    let pods = registry_pods(&namespace)?;
    assert_eq!(pods.len(), 1);
    assert_eq!(pods[0]["spec"]["automountServiceAccountToken"], false);
    assert_eq!(pods[0]["spec"]["serviceAccountName"], "catalog-configmap-server");

    namespace.apply(&[config_map(&["1.0.0", "1.1.0"], SECOND)?])?;
    namespace.wait_for_phase(SECOND, "Succeeded")?;
    greet(&namespace, "1.1.0")?;
    let content = namespace.get("configmap", "content")?.context("no ConfigMap")?;
    // It is deleted with its catalog, as upstream's.
    let source = namespace.get("catsrc", "catalog")?.context("no CatalogSource")?;
    assert_eq!(
        content["metadata"]["ownerReferences"],
        json!([{"apiVersion": "operators.coreos.com/v1alpha1", "kind": "CatalogSource", "name": "catalog",
            "uid": text(&source, "/metadata/uid"), "blockOwnerDeletion": false, "controller": false}])
    );
    assert_eq!(
        content["metadata"]["labels"],
        json!({"olm.catalogSource": "catalog"})
    );
    let version = text(&content, "/metadata/resourceVersion");
    lab.kubectl().wait("one pod, of the new version", PATIENCE, |_| {
        let pods = registry_pods(&namespace)?;
        let labels = pods
            .iter()
            .map(|pod| text(pod, "/metadata/labels/olm.configMapResourceVersion"));
        let labels: Vec<&str> = labels.collect();
        Ok(if labels == [version] {
            Ok(())
        } else {
            Err(format!("{labels:?}"))
        })
    })?;
    let source = namespace.get("catsrc", "catalog")?.context("no CatalogSource")?;
    assert_eq!(
        text(&source, "/status/configMapReference/resourceVersion"),
        version
    );

    // A broken update is reported, and the previous content is still served.
    let mut broken = config_map(&["1.1.0"], SECOND)?;
    broken["data"]["packages"] =
        json!("- packageName: demo-operator\n  channels: [{name: stable, currentCSV: gone}]\n");
    namespace.apply(&[broken])?;
    let source = namespace.wait_for("catsrc", "catalog", "what is wrong with it", |source| {
        text(source, "/status/message").contains("couldn't find currentCSV gone in csv list")
    })?;
    assert_eq!(
        text(&source, "/status/connectionState/lastObservedState"),
        "READY"
    );
    Ok(())
}

/// The server does not come from the image, which needs no program at all.
#[test]
fn the_content_of_a_catalog_image_is_extracted_and_served_by_opm() -> anyhow::Result<()> {
    let lab = Lab::shared()?;
    let namespace = lab.namespace("catsrc-extracted")?;
    let mut source = catalog_source("catalog", lab.demo_catalog()?);
    source["spec"]["grpcPodConfig"]["extractContent"] = json!({"catalogDir": "/configs"});
    namespace.apply(&[
        source,
        operator_group("group", &[namespace.name()]),
        subscription("demo", "demo-operator", "stable", "catalog", namespace.name()),
    ])?;
    namespace.wait_for_phase(SECOND, "Succeeded")?;
    let pods = registry_pods(&namespace)?;
    let inits = pods.first().context("no pod")?["spec"]["initContainers"].as_array();
    let names: Vec<&str> = inits
        .into_iter()
        .flatten()
        .map(|container| text(container, "/name"))
        .collect();
    assert_eq!(names, ["extract-utilities", "extract-content"]);
    Ok(())
}
