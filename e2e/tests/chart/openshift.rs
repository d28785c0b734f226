//! Reports to ClusterOperators, on a cluster that gets the kind later.

use anyhow::ensure;
use e2e::demo::SECOND;
use e2e::lab::PATIENCE;
use serde_json::{Value, json};
use xtask::kubectl::{Destination, text};

use crate::{KUBECTL_TIMEOUT, OPERATORS, Release};

const DEFINITION: &str = "clusteroperators.config.openshift.io";
/// Upstream's names, as the chart's values.
const REPORTS: [(&str, &str); 3] = [
    ("writeStatusName", OF_OLM),
    ("writeStatusNameCatalog", "operator-lifecycle-manager-catalog"),
    (
        "writePackageServerStatusName",
        "operator-lifecycle-manager-packageserver",
    ),
];
const OF_OLM: &str = "operator-lifecycle-manager";
const RELEASE: &str = "4.18.3";
/// Annotation of a ClusterServiceVersion with the properties of its bundle.
const PROPERTIES: &str = "operatorframework.io/properties";

/// Returns the definition of OpenShift, reduced to what a writer of a status needs.
fn definition() -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": DEFINITION},
        "spec": {
            "group": "config.openshift.io", "scope": "Cluster",
            "names": {"kind": "ClusterOperator", "listKind": "ClusterOperatorList", "plural": "clusteroperators", "singular": "clusteroperator",
                "shortNames": ["co"]},
            "versions": [{
                "name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
            }],
        },
    })
}

/// Returns `True reason: message` of a condition.
fn condition(object: &Value, type_: &str) -> String {
    let all = object["status"]["conditions"].as_array().into_iter().flatten();
    let Some(found) = all.into_iter().find(|condition| condition["type"] == type_) else {
        return String::new();
    };
    let text = |field: &str| found[field].as_str().unwrap_or_default();
    format!("{} {}: {}", text("status"), text("reason"), text("message"))
}

fn wait_for_upgradeable(kubectl: &Destination, wanted: &str) -> anyhow::Result<()> {
    kubectl.wait(&format!("Upgradeable to be {wanted}"), PATIENCE, |kubectl| {
        let found = kubectl.get(&[DEFINITION, OF_OLM])?.unwrap_or_default();
        let told = condition(&found, "Upgradeable");
        Ok((told == wanted).then_some(()).ok_or(told))
    })
}

/// OCP-001, OCP-005, OCP-006: reports with the rights that the chart grants.
pub fn reports(release: &Release) -> anyhow::Result<()> {
    let kubectl = &release.kubectl;
    let names = REPORTS.map(|(value, name)| format!("{value}={name}"));
    let values = format!("{},releaseVersion={RELEASE}", names.join(","));
    release.upgrade(&["--set", &values])?;
    // The kind is created after the reporting programs.
    kubectl.apply(&[definition()])?;
    for (_, name) in REPORTS {
        let works = |found: &Value| {
            condition(found, "Available").starts_with("True")
                && condition(found, "Progressing").starts_with("False")
                && condition(found, "Degraded").starts_with("False")
        };
        let found = kubectl.wait(&format!("{name} to be told of"), PATIENCE, |kubectl| {
            let found = kubectl.get(&[DEFINITION, name])?.unwrap_or_default();
            Ok(if works(&found) {
                Ok(found)
            } else {
                Err(found["status"].to_string())
            })
        })?;
        let versions = found["status"]["versions"]
            .as_array()
            .map(Vec::as_slice)
            .unwrap_or_default();
        ensure!(
            versions.contains(&json!({"name": "operator", "version": RELEASE})),
            "{name}: {found}"
        );
    }
    wait_for_upgradeable(kubectl, "True : ")?;

    let before = release.operator()?;
    let before = before["metadata"]["annotations"][PROPERTIES]
        .as_str()
        .unwrap_or("{}")
        .to_owned();
    let annotate = |properties: &str| {
        let change = format!("{PROPERTIES}={properties}");
        kubectl.run(&["annotate", "csv", SECOND, "-n", OPERATORS, "--overwrite", &change])
    };
    let limit = json!({"properties": [{"type": "olm.maxOpenShiftVersion", "value": "4.18"}]});
    annotate(&limit.to_string())?;
    wait_for_upgradeable(
        kubectl,
        &format!(
            "False IncompatibleOperatorsInstalled: ClusterServiceVersions blocking minor version upgrades to 4.19:\n\
             - maximum supported OCP version for {OPERATORS}/{SECOND} is 4.18"
        ),
    )?;
    annotate(&before)?;
    wait_for_upgradeable(kubectl, "True : ")?;

    // Without the kind the programs keep running.
    let restarts = || -> anyhow::Result<Vec<(String, u64)>> {
        let pods = kubectl.get(&[
            "pods",
            "-n",
            crate::OLM,
            "-l",
            "app in (olm-operator,catalog-operator)",
        ])?;
        let pods = pods.unwrap_or_default();
        let pods = pods["items"].as_array().into_iter().flatten();
        // Pods of the previous upgrade may still be terminating.
        let pods = pods.filter(|pod| pod["metadata"]["deletionTimestamp"].is_null());
        let of = |pod: &Value| {
            let count = pod["status"]["containerStatuses"][0]["restartCount"].as_u64();
            (text(pod, "/metadata/uid").to_owned(), count.unwrap_or_default())
        };
        Ok(pods.map(of).collect())
    };
    let running = restarts()?;
    kubectl.run(&["delete", "crd", DEFINITION, KUBECTL_TIMEOUT])?;
    release.ready()?;
    ensure!(restarts()? == running, "somebody ended with the kind");
    Ok(())
}
