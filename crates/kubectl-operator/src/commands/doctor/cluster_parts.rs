//! OLM itself, what it unpacks, and definitions whose objects cannot be read. Pure.

use k8s_openapi::api::apps::v1::Deployment;
use kube::ResourceExt as _;
use olm_api::condition;

use super::finding::{Finding, Severity, object, word};
use super::observed::{Observed, Unread};
use crate::terminal::plain;

/// Deployments without which nothing is installed.
const NEEDED: [&str; 2] = ["catalog-operator", "olm-operator"];

/// OLM runs.
pub(super) fn programs(observed: &Observed) -> Result<Vec<Finding>, &Unread> {
    let programs = observed.programs.as_ref()?;
    let unwell = programs.iter().filter_map(|program| {
        let (wanted, available) = replicas(program);
        let (namespace, name) = (program.namespace().unwrap_or_default(), program.name_any());
        let remedy = match wanted {
            0 => format!(
                "kubectl scale deployment {} -n {} --replicas 1",
                word(&name),
                word(&namespace)
            ),
            _ => format!(
                "kubectl describe deployment {0} -n {1}; kubectl logs deployment/{0} -n {1}",
                word(&name),
                word(&namespace)
            ),
        };
        (available < wanted.max(1)).then(|| {
            Finding::error(
                object("Deployment", &namespace, &name),
                format!("OLM does not run: {available} of {wanted} pods are available"),
                remedy,
            )
        })
    });
    let is_there = |name: &&str| {
        programs
            .iter()
            .any(|program| program.labels().get("app").map(String::as_str) == Some(name))
    };
    let missing = NEEDED.iter().filter(|name| !is_there(name)).map(|name| {
        Finding::warning(
            object("Deployment", "", name),
            "no Deployment with this label app was found: OLM is not installed, or runs elsewhere",
            format!("kubectl get deployments -A -l app={name}; with OLM in another namespace: --global-catalog-namespace"),
        )
    });
    Ok(unwell.chain(missing).collect())
}

fn replicas(deployment: &Deployment) -> (i32, i32) {
    let wanted = deployment
        .spec
        .as_ref()
        .and_then(|spec| spec.replicas)
        .unwrap_or(1);
    let available = deployment
        .status
        .as_ref()
        .and_then(|status| status.available_replicas)
        .unwrap_or(0);
    (wanted, available)
}

/// Bundles were unpacked.
pub(super) fn unpacking(observed: &Observed) -> Result<Vec<Finding>, &Unread> {
    let mut findings = Vec::new();
    for job in observed.jobs.as_ref()? {
        let conditions = job
            .status
            .iter()
            .flat_map(|status| status.conditions.iter().flatten());
        let failed = conditions
            .into_iter()
            .find(|found| found.type_ == "Failed" && found.status == condition::TRUE);
        let Some(failed) = failed else {
            continue;
        };
        let (namespace, name) = (job.namespace().unwrap_or_default(), job.name_any());
        let said = failed
            .message
            .as_deref()
            .or(failed.reason.as_deref())
            .unwrap_or("it does not say why");
        findings.push(Finding::warning(
            object("Job", &namespace, &name),
            format!("it failed to unpack a bundle: {said}"),
            format!(
                "kubectl logs job/{0} -n {1} --all-containers; then kubectl delete job,configmap {0} -n {1}, and it is unpacked anew",
                word(&name),
                word(&namespace)
            ),
        ));
    }
    Ok(findings)
}

/// Versions in which objects are stored are served.
pub(super) fn stored_versions(observed: &Observed) -> Result<Vec<Finding>, &Unread> {
    let mut findings = Vec::new();
    for definition in observed.definitions.as_ref()? {
        let unserved: Vec<String> = definition
            .stored
            .iter()
            .filter(|version| definition.versions.get(*version) != Some(&true))
            .map(|version| plain(version))
            .collect();
        if unserved.is_empty() {
            continue;
        }
        // What it still names can be read, in another version.
        let is_lost = definition
            .stored
            .iter()
            .any(|version| !definition.versions.contains_key(version));
        let is_storage = unserved.contains(&definition.storage);
        let remedy = match is_storage {
            true => format!("serve it: kubectl edit crd {}", word(&definition.name)),
            false => format!(
                "write all its objects anew (kubectl get {0} -A -o yaml | kubectl replace -f -); then kubectl patch crd {0} --subresource status \
                 --type merge -p '{{\"status\":{{\"storedVersions\":[\"{1}\"]}}}}'",
                word(&definition.name),
                word(&definition.storage)
            ),
        };
        findings.push(Finding::new(
            if is_lost { Severity::Error } else { Severity::Warning },
            object("CustomResourceDefinition", "", &definition.name),
            format!("objects are stored in {}, which it does not serve any more; upgrades that drop it are refused", unserved.join(", ")),
            remedy,
        ));
    }
    Ok(findings)
}
