//! Checks of OLM itself, its unpack Jobs, and definitions whose objects cannot be read. Pure.

use std::collections::BTreeSet;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::batch::v1::{Job, JobCondition};
use kube::ResourceExt as _;
use olm_api::{condition, labels};

use super::finding::{Finding, Severity, object, word};
use super::observed::{Observed, Read, Unread};
use crate::reader::Unreadable;
use crate::terminal::plain;

/// Deployments without which nothing is installed.
const NEEDED: [&str; 2] = ["catalog-operator", "olm-operator"];
/// Maximum number of namespaces named in one finding.
const MAX_NAMED: usize = 3;

/// Checks that OLM runs.
pub(super) fn programs(observed: &Observed) -> Result<Vec<Finding>, &Unread> {
    let (programs, elsewhere): (Vec<&Deployment>, Vec<&Deployment>) = observed
        .programs
        .as_ref()?
        .iter()
        .partition(|program| program.namespace().as_ref() == Some(&observed.olm));
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
    let is_there = |name: &&str| programs.iter().any(|program| app(program) == Some(name));
    let missing = NEEDED.iter().filter(|name| !is_there(name)).map(|name| {
        let others = elsewhere.iter().filter(|program| app(program) == Some(name));
        let others: BTreeSet<String> = others.filter_map(|program| program.namespace()).collect();
        let named: Vec<String> = others.iter().take(MAX_NAMED).map(|namespace| plain(namespace)).collect();
        let olm = plain(&observed.olm);
        let cause = match named.is_empty() {
            true => format!("no Deployment with this app label in namespace {olm}: OLM is not installed, or runs in another namespace"),
            // Any user who may create Deployments can set this label.
            false => format!(
                "no Deployment with this app label in namespace {olm}: OLM is not installed, or runs in another namespace; {} other namespaces have this label: {}",
                others.len(),
                named.join(", ")
            ),
        };
        Finding::warning(
            object("Deployment", "", name),
            cause,
            format!("kubectl get deployments -A -l app={name}; if OLM is in another namespace, use --olm-namespace"),
        )
    });
    Ok(unwell.chain(missing).collect())
}

/// Checks that the policy that protects labels trusted by OLM exists.
pub(super) fn guarded(guard: &Read<bool>) -> Result<Vec<Finding>, &Unread> {
    if *guard.as_ref()? {
        return Ok(Vec::new());
    }
    Ok(vec![Finding::warning(
        object("ValidatingAdmissionPolicyBinding", "", labels::GUARD_POLICY),
        "it does not exist: users who can write Roles in one namespace can make OLM copy them to others"
            .to_owned(),
        "helm upgrade with --set guardedLabels.enabled=true, on Kubernetes 1.30 or later".to_owned(),
    )])
}

fn app(program: &Deployment) -> Option<&str> {
    program.labels().get("app").map(String::as_str)
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

/// Returns the Failed condition of a Job, if it has one.
pub(super) fn failure(job: &Job) -> Option<&JobCondition> {
    let mut conditions = job
        .status
        .iter()
        .flat_map(|status| status.conditions.iter().flatten());
    conditions.find(|found| found.type_ == "Failed" && found.status == condition::TRUE)
}

/// Checks that objects match their schemas. Unreadable objects get no other check.
pub(super) fn readable(observed: &Observed) -> Result<Vec<Finding>, &Unread> {
    let findings = unreadable(&observed.unreadable);
    if findings.is_empty() {
        // Without these objects nothing can be reported.
        observed.subscriptions.as_ref()?;
        observed.csvs.as_ref()?;
    }
    Ok(findings)
}

/// Returns a finding for each unreadable object.
pub(super) fn unreadable(unreadable: &[Unreadable]) -> Vec<Finding> {
    let findings = unreadable.iter().map(|found| {
        Finding::error(
            object(&found.kind, &found.namespace, &found.name),
            format!(
                "it cannot be read, so it was not checked further: {}",
                found.cause
            ),
            format!(
                "correct it: kubectl edit {} {} -n {}",
                word(&found.kind.to_lowercase()),
                word(&found.name),
                word(&found.namespace)
            ),
        )
    });
    findings.collect()
}

/// Checks that Jobs that unpack bundles succeed.
pub(super) fn unpacking(observed: &Observed) -> Result<Vec<Finding>, &Unread> {
    let mut findings = Vec::new();
    for job in observed.jobs.as_ref()? {
        let Some(failed) = failure(job) else {
            continue;
        };
        let (namespace, name) = (job.namespace().unwrap_or_default(), job.name_any());
        let said = failed
            .message
            .as_deref()
            .or(failed.reason.as_deref())
            .unwrap_or("no reason given");
        findings.push(Finding::warning(
            object("Job", &namespace, &name),
            format!("it failed to unpack a bundle: {said}"),
            format!(
                "kubectl logs job/{0} -n {1} --all-containers; then kubectl delete {2} {0} -n {1}, and OLM unpacks it again",
                word(&name),
                word(&namespace),
                // Users can give a Job any name, so the ConfigMap of that name may be unrelated.
                match observed.unpacked.contains(&(namespace.clone(), name.clone())) {
                    true => "job,configmap",
                    false => "job",
                }
            ),
        ));
    }
    Ok(findings)
}

/// Checks that stored versions of objects are served.
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
        // A version that is still defined keeps its objects readable in another version.
        let is_lost = definition
            .stored
            .iter()
            .any(|version| !definition.versions.contains_key(version));
        let is_storage = unserved.contains(&definition.storage);
        let remedy = match is_storage {
            true => format!("serve it: kubectl edit crd {}", word(&definition.name)),
            false => format!(
                "rewrite all its objects (kubectl get {0} -A -o yaml | kubectl replace -f -); then kubectl \
                 patch crd {0} --subresource status --type merge -p \
                 '{{\"status\":{{\"storedVersions\":[\"{1}\"]}}}}'",
                word(&definition.name),
                word(&definition.storage)
            ),
        };
        findings.push(Finding::new(
            if is_lost { Severity::Error } else { Severity::Warning },
            object("CustomResourceDefinition", "", &definition.name),
            format!("objects are stored in {}, which it no longer serves; the API server rejects upgrades that remove it", unserved.join(", ")),
            remedy,
        ));
    }
    Ok(findings)
}
