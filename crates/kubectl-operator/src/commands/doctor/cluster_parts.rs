//! Checks of OLM itself, and of objects that cannot be read. Pure.

use kube::ResourceExt as _;
use olm_api::labels;

use super::finding::{Finding, about, at, object, word};
use super::observed::{Observed, Read, Unread};
use crate::operators::replicas;
use crate::reader::Unreadable;
use crate::terminal::plain;

/// Deployments without which nothing is installed.
const NEEDED: [&str; 2] = ["catalog-operator", "olm-operator"];

/// Checks that OLM runs.
pub(super) fn programs(observed: &Observed) -> Result<Vec<Finding>, &Unread> {
    let programs = observed.programs.as_ref()?;
    let unwell = programs.iter().filter_map(|program| {
        let (wanted, available) = replicas(program);
        let at = at(program);
        let remedy = match wanted {
            0 => format!("kubectl scale deployment {at} --replicas 1"),
            _ => format!("kubectl describe deployment {at}; kubectl logs deployment/{at}"),
        };
        (available < wanted.max(1)).then(|| {
            Finding::error(
                about(program),
                format!("OLM does not run: {available} of {wanted} pods are available"),
                remedy,
            )
        })
    });
    let is_missing = |name: &&&str| {
        let mut apps = programs.iter().filter_map(|program| program.labels().get("app"));
        apps.all(|app| app != **name)
    };
    let missing = NEEDED.iter().filter(is_missing).map(|name| {
        Finding::warning(
            object("Deployment", "", name),
            format!(
                "no Deployment with this app label in namespace {}: OLM is not installed, or runs in another namespace",
                plain(&observed.olm)
            ),
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

/// Checks that objects match their schemas. Unreadable objects get no other check.
pub(super) fn readable(observed: &Observed) -> Result<Vec<Finding>, &Unread> {
    let findings = unreadable(observed.unreadable());
    if findings.is_empty() {
        // Without these objects nothing can be reported.
        observed.operators.as_ref()?;
    }
    Ok(findings)
}

/// Returns a finding for each unreadable object.
pub(super) fn unreadable<'a>(unreadable: impl IntoIterator<Item = &'a Unreadable>) -> Vec<Finding> {
    let findings = unreadable.into_iter().map(|found| {
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
