//! `cargo xtask deploy`: applies `manifests/` and waits until the operators are ready.

use std::time::Duration;

use anyhow::Context as _;
use serde_json::{Value, json};

use crate::images::Built;
use crate::kubectl::{Destination, text};
use crate::progress::Progress;
use crate::{manifest, oci_layout, process, workspace};

pub mod v1;

/// Timeout for pulling images and starting operators.
const PATIENCE: Duration = Duration::from_secs(180);

/// Deployments of OLM's operators.
pub const OPERATORS: [&str; 2] = ["catalog-operator", "olm-operator"];
/// Namespace of the operators.
const NAMESPACE: &str = "olm";
/// Annotation of the Namespace with the digest of the manifests that were last applied.
const APPLIED: &str = "xtask.olm.dev/manifests";
/// Deployment that the OLM operator creates from package-server's ClusterServiceVersion.
pub const PACKAGE_SERVER: &str = "packageserver";

/// Installs OLM on `destination` with the images `built`, which it can already pull. Running pods are replaced only if their image or
/// manifests differ.
///
/// # Errors
/// An object is rejected, or an operator does not become ready. The error names it and the last state of its pod.
pub fn deploy(destination: &Destination, built: &Built, progress: &Progress) -> anyhow::Result<()> {
    let folder = workspace::root().join("manifests");
    progress.stage("CustomResourceDefinitions applied", || {
        let definitions = manifest::read_folder(&folder.join("crds"))?;
        destination.apply(&definitions)?;
        wait_for_definitions(destination, &definitions)
    })?;
    progress.stage("operators applied", || {
        let mut objects = manifest::read_folder(&folder.join("olm"))?;
        if let Destination::Embedded(cluster) = destination {
            let config = manifest::mount_registry_config(&mut objects, &cluster.registry_config())?;
            let namespaces = objects
                .iter()
                .filter(|object| object["kind"] == "Namespace")
                .count();
            objects.insert(namespaces, config);
        }
        objects = manifest::pin_images(&objects, &built.images)?;
        if let Some(registry) = destination.registry() {
            objects = manifest::rename_images(&objects, registry)?;
        }
        destination.apply(&objects)?;
        let note = format!("{APPLIED}={}", digest_of_manifests()?);
        destination.run(&["annotate", "namespace", NAMESPACE, &note, "--overwrite"])?;
        Ok(())
    })?;
    wait_until_ready(destination, built, progress)
}

/// Waits until these definitions are established; other definitions in a user's cluster may never be.
fn wait_for_definitions(destination: &Destination, definitions: &[Value]) -> anyhow::Result<()> {
    let mut command = destination.kubectl(&["wait", "--for=condition=Established", "--timeout=60s"]);
    process::run(command.args(names(definitions))).map(drop)
}

/// Returns the names of definitions as kubectl takes them.
fn names(definitions: &[Value]) -> impl Iterator<Item = String> {
    let names = definitions
        .iter()
        .map(|definition| text(definition, "/metadata/name"));
    names.map(|name| format!("customresourcedefinition/{name}"))
}

/// Returns a digest of `manifests/`.
fn digest_of_manifests() -> anyhow::Result<String> {
    let folder = workspace::root().join("manifests");
    let objects = ["crds", "olm"].map(|part| manifest::read_folder(&folder.join(part)));
    let objects = objects.into_iter().collect::<anyhow::Result<Vec<_>>>()?;
    Ok(oci_layout::digest(serde_json::to_string(&objects)?.as_bytes()))
}

/// Waits until the operators and package-server run the built images and are ready.
///
/// # Errors
/// One does not become ready; the error has the last state of its pod.
pub fn wait_until_ready(destination: &Destination, built: &Built, progress: &Progress) -> anyhow::Result<()> {
    for name in OPERATORS.into_iter().chain([PACKAGE_SERVER]) {
        progress.stage(&format!("{name} ready"), || wait_ready(destination, built, name))?;
    }
    Ok(())
}

/// Returns true if the operators and package-server run the built images and were deployed from the current manifests.
///
/// # Errors
/// A request to the cluster fails.
pub fn is_deployed(destination: &Destination, built: &Built) -> anyhow::Result<bool> {
    let namespace = destination.get(&["namespace", NAMESPACE])?.unwrap_or_default();
    if namespace["metadata"]["annotations"][APPLIED] != digest_of_manifests()? {
        return Ok(false);
    }
    for name in OPERATORS.into_iter().chain([PACKAGE_SERVER]) {
        let found = destination.get(&["deployment", "-n", "olm", name])?;
        if !found.is_some_and(|found| is_built(&found, built)) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Waits for an OLM deployed by other means, in any namespace, until one replica of each operator is available. `package-server`
/// is not checked, because it is optional.
///
/// # Errors
/// An operator does not exist (fails at once, with ways to install it), or no replica becomes available (with the last state of
/// its pods).
pub(crate) fn wait_for_deployed(destination: &Destination, progress: &Progress) -> anyhow::Result<()> {
    // Both are searched for before the first wait.
    for name in OPERATORS {
        of_operator(&with_label(destination, name)?, name)?;
    }
    for name in OPERATORS {
        progress.stage(&format!("{name} is there and available"), || {
            destination.wait(
                &format!("Deployment {name} to be available"),
                PATIENCE,
                |destination| {
                    let deployments = with_label(destination, name)?;
                    let deployment = of_operator(&deployments, name)?;
                    if is_available(deployment) {
                        return Ok(Ok(()));
                    }
                    let namespace = text(deployment, "/metadata/namespace");
                    let state = pod_state(destination, namespace, name)?;
                    Ok(Err(format!("in namespace {namespace}: {state}")))
                },
            )
        })?;
    }
    Ok(())
}

/// Returns the Deployments of all namespaces with an operator's label, which our chart and upstream's set.
fn with_label(destination: &Destination, name: &str) -> anyhow::Result<Value> {
    let label = format!("app={name}");
    let found = destination.get(&["deployments", "--all-namespaces", "-l", &label])?;
    Ok(found.unwrap_or_default())
}

/// Returns the operator among the Deployments with its label. Any user can set the label, so an available one takes precedence.
fn of_operator<'a>(deployments: &'a Value, name: &str) -> anyhow::Result<&'a Value> {
    let items = deployments["items"].as_array().map_or(&[][..], Vec::as_slice);
    let available = items.iter().find(|deployment| is_available(deployment));
    available.or(items.first()).with_context(|| {
        format!(
            "there is no OLM to take: no namespace has a Deployment with the label app={name}; install OLM as docs/guides/install-olm.md \
             shows, or leave out --no-deploy, and it is deployed for you"
        )
    })
}

fn is_available(deployment: &Value) -> bool {
    deployment["status"]["availableReplicas"].as_u64() > Some(0)
}

/// Returns true if a Deployment runs an image that was built.
fn is_built(deployment: &Value, built: &Built) -> bool {
    let image = text(deployment, "/spec/template/spec/containers/0/image");
    built.images.iter().any(|built| image.ends_with(&built.digest))
}

fn wait_ready(destination: &Destination, built: &Built, name: &str) -> anyhow::Result<()> {
    let what = format!("Deployment olm/{name} to be ready");
    destination.wait(&what, PATIENCE, |destination| {
        let Some(deployment) = destination.get(&["deployment", "-n", "olm", name])? else {
            return Ok(Err("it does not exist".to_owned()));
        };
        if !is_built(&deployment, built) {
            return Ok(Err("it has another image yet".to_owned()));
        }
        let current = deployment["metadata"]["generation"] == deployment["status"]["observedGeneration"];
        let wanted = deployment["spec"]["replicas"].as_u64().unwrap_or(1);
        let number = |field: &str| deployment["status"][field].as_u64().unwrap_or(0);
        if current
            && number("updatedReplicas") == wanted
            && number("readyReplicas") == wanted
            && number("replicas") == wanted
        {
            return Ok(Ok(()));
        }
        Ok(Err(pod_state(destination, NAMESPACE, name)?))
    })
}

/// Describes the state of an operator's pods in one line.
fn pod_state(destination: &Destination, namespace: &str, app: &str) -> anyhow::Result<String> {
    let pods = destination
        .get(&["pods", "-n", namespace, "-l", &format!("app={app}")])?
        .unwrap_or_else(|| json!({"items": []}));
    let items = pods["items"].as_array().cloned().unwrap_or_default();
    if items.is_empty() {
        return Ok("it has no pod yet".to_owned());
    }
    let states = items.iter().map(|pod| {
        let container = &pod["status"]["containerStatuses"][0];
        let waiting = container
            .pointer("/state/waiting")
            .or_else(|| container.pointer("/lastState/terminated"));
        let detail = waiting.map_or(String::new(), |state: &Value| {
            format!(" ({} {})", text(state, "/reason"), text(state, "/message"))
        });
        format!(
            "pod {} is {}{detail}",
            text(pod, "/metadata/name"),
            text(pod, "/status/phase")
        )
    });
    Ok(states.collect::<Vec<_>>().join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_existing_olm_is_used_in_any_namespace_and_a_missing_one_is_reported_with_ways_to_install_it() {
        let deployment = |namespace: &str, available: Value| json!({"metadata": {"namespace": namespace, "name": "olm-operator"}, "status": {"availableReplicas": available}});
        let list = |items: &[Value]| json!({ "kind": "List", "items": items });
        for none in [Value::Null, list(&[])] {
            let error = of_operator(&none, "olm-operator").unwrap_err().to_string();
            for part in [
                "app=olm-operator",
                "docs/guides/install-olm.md",
                "leave out --no-deploy",
            ] {
                assert!(error.contains(part), "{error}");
            }
        }
        assert!(workspace::root().join("docs/guides/install-olm.md").exists());
        // No replica is available: the API server omits the field if it is 0.
        let starting = deployment("system", Value::Null);
        let namespace = |items: &[Value]| {
            let list = list(items);
            let found = of_operator(&list, "olm-operator").unwrap();
            (text(found, "/metadata/namespace").to_owned(), is_available(found))
        };
        assert_eq!(
            namespace(std::slice::from_ref(&starting)),
            ("system".to_owned(), false)
        );
        let labelled = [starting, deployment("olm", json!(1))];
        assert_eq!(namespace(&labelled), ("olm".to_owned(), true));
    }

    #[test]
    fn the_definitions_that_were_applied_are_waited_for_and_no_others() {
        let folder = workspace::root().join("manifests/crds");
        let definitions = manifest::read_folder(&folder).unwrap();
        let told: Vec<String> = names(&definitions).collect();
        let ours = |word: &&String| {
            word.starts_with("customresourcedefinition/") && word.ends_with(".operators.coreos.com")
        };
        assert_eq!(
            (told.iter().filter(ours).count(), definitions.len()),
            (8, 8),
            "{told:?}"
        );
    }
}
