//! OLM v1 on the embedded cluster: `catalogd` and `operator-controller`, as the chart's `v1.enabled` installs them.

use std::time::Duration;

use anyhow::Context as _;
use serde_json::{Value, json};

use super::{NAMESPACE, wait_for_definitions};
use crate::cluster::{self, Cluster};
use crate::images::Built;
use crate::kubectl::{Destination, text};
use crate::progress::Progress;
use crate::{chart, manifest};

/// Templates of the chart with everything of OLM v1.
const TEMPLATES: [&str; 3] = [
    "templates/25-catalogd.yaml",
    "templates/27-operator-controller.yaml",
    "templates/35-metrics-tls.yaml",
];
/// Programs of OLM v1, which are the labels `app` of their pods, too.
const PROGRAMS: [&str; 2] = ["catalogd", "operator-controller"];
/// Accounts of the programs.
pub(crate) const ACCOUNTS: [&str; 2] = [
    "system:serviceaccount:olm:catalogd-controller-manager",
    "system:serviceaccount:olm:operator-controller-controller-manager",
];
/// Timeout of a pod to be deleted, or to be ready.
const PATIENCE: Duration = Duration::from_secs(180);

/// Creates the configuration of registries that `catalogd` and `operator-controller` read, and returns the arguments of helm that
/// install both.
///
/// # Errors
/// The configuration is rejected.
pub fn with_v1(cluster: &Cluster, destination: &Destination) -> anyhow::Result<[&'static str; 10]> {
    let registries = format!(
        "[[registry]]\nprefix = \"olm.local\"\nlocation = \"{}\"\ninsecure = true\n",
        cluster.registry()
    );
    destination.apply(&[json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"namespace": NAMESPACE, "name": "registries"}, "data": {"registries.conf": registries}})])?;
    Ok([
        "--set",
        "v1.enabled=true",
        "--set-json",
        r#"catalogd.volumes=[{"name": "registries", "configMap": {"name": "registries"}}]"#,
        "--set-json",
        r#"catalogd.volumeMounts=[{"name": "registries", "mountPath": "/etc/containers"}]"#,
        "--set-json",
        r#"operatorController.volumes=[{"name": "registries", "configMap": {"name": "registries"}}]"#,
        "--set-json",
        r#"operatorController.volumeMounts=[{"name": "registries", "mountPath": "/etc/containers"}]"#,
    ])
}

/// Adds OLM v1 with the images `built`, which the cluster can already pull, to the OLM that [`super::deploy()`] installed.
///
/// # Errors
/// Helm cannot be built, an object is rejected, or a program does not become ready.
pub(crate) fn deploy(cluster: &Cluster, built: &Built, progress: &Progress) -> anyhow::Result<()> {
    let helm = cluster::helm(progress).context("helm renders the chart")?;
    let destination = Destination::Embedded(cluster.clone());
    let mut values = with_v1(cluster, &destination)?.to_vec();
    for template in TEMPLATES {
        values.extend(["--show-only", template]);
    }
    let objects = manifest::parse(&chart::render(&helm, &values)?).context("helm rendered no YAML")?;
    let mut objects = manifest::pin_images(&objects, &built.images)?;
    progress.stage("OLM v1 applied", || {
        destination.apply(&objects)?;
        objects.retain(|object| object["kind"] == "CustomResourceDefinition");
        wait_for_definitions(&destination, &objects)
    })?;
    progress.stage("catalogd and operator-controller ready", || {
        PROGRAMS
            .iter()
            .try_for_each(|program| wait_until_alone(&destination, program))
    })
}

/// Replaces the pods of OLM v1, so that their processes are new.
///
/// # Errors
/// A pod does not end, or its successor does not become ready.
pub(crate) fn restart(destination: &Destination) -> anyhow::Result<()> {
    for program in PROGRAMS {
        let label = format!("app={program}");
        destination.run(&["delete", "pod", "-n", NAMESPACE, "-l", &label, "--wait=true"])?;
        wait_until_alone(destination, program)?;
    }
    Ok(())
}

/// Waits until exactly one pod of a program is there and its container is ready.
fn wait_until_alone(destination: &Destination, program: &str) -> anyhow::Result<()> {
    let label = format!("app={program}");
    destination.wait(&format!("{program} to be ready"), PATIENCE, |destination| {
        let pods = destination.get(&["pods", "-n", NAMESPACE, "-l", &label])?;
        let pods = pods.unwrap_or_default();
        Ok(match pods["items"].as_array().map(Vec::as_slice) {
            Some([pod]) if pod["status"]["containerStatuses"][0]["ready"] == true => Ok(()),
            Some([pod]) => Err(format!(
                "its pod is {}: {}",
                text(pod, "/status/phase"),
                pod["status"]["containerStatuses"][0]["state"]
            )),
            pods => Err(format!("it has {} pods", pods.map_or(0, <[Value]>::len))),
        })
    })
}

#[cfg(test)]
mod tests {
    use crate::workspace;

    use super::*;

    #[test]
    fn the_templates_of_v1_and_the_accounts_in_them_exist() {
        let folder = workspace::root().join("charts/olm");
        let mut all = String::new();
        for template in TEMPLATES {
            all.push_str(&std::fs::read_to_string(folder.join(template)).unwrap());
        }
        for account in ACCOUNTS {
            let name = account.rsplit(':').next().unwrap();
            assert!(
                all.contains(&format!("kind: ServiceAccount\nmetadata:\n  name: {name}\n")),
                "{name}"
            );
        }
    }
}
