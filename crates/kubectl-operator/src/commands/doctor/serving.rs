//! Checks that webhooks, APIServices and conversions reach a Service. Pure.

use std::collections::BTreeSet;

use super::csvs::orphaned;
use super::finding::{Finding, Severity, object, word};
use super::observed::{Caller, Observed, Owned, Read, Unread};
use crate::operators::Key;
use crate::terminal::plain;

/// Checks that webhooks reach their Services, and belong to a ClusterServiceVersion.
pub(super) fn webhooks(observed: &Observed) -> Result<Vec<Finding>, &Unread> {
    of_callers(observed, &observed.webhooks, "so requests to it are rejected")
}

/// Checks the same for APIServices.
pub(super) fn api_services(observed: &Observed) -> Result<Vec<Finding>, &Unread> {
    of_callers(observed, &observed.api_services, "so its API is not served")
}

/// Checks the same for conversions of CustomResourceDefinitions.
pub(super) fn conversions(observed: &Observed) -> Result<Vec<Finding>, &Unread> {
    let findings = observed
        .conversions
        .as_ref()?
        .iter()
        .filter_map(|(name, target)| {
            let about = object("CustomResourceDefinition", "", name);
            let effect = (Severity::Error, "so its objects cannot be converted");
            reach(observed, about, target, effect)
        });
    Ok(findings.collect())
}

fn of_callers<'a>(
    observed: &Observed,
    callers: &'a Read<Vec<Caller>>,
    effect: &str,
) -> Result<Vec<Finding>, &'a Unread> {
    let callers = callers.as_ref()?.iter();
    Ok(callers
        .flat_map(|caller| of_caller(observed, caller, effect))
        .collect())
}

fn of_caller(observed: &Observed, caller: &Caller, effect: &str) -> Vec<Finding> {
    let Owned { kind, name, owner } = &caller.object;
    if let Some(finding) = orphaned(observed, &caller.object) {
        return vec![finding];
    }
    let about = object(kind, "", name);
    let effect = match caller.is_optional {
        true => (
            Severity::Warning,
            "so the webhook is skipped: requests pass without it, as its failurePolicy is Ignore",
        ),
        false => (Severity::Error, effect),
    };
    let targets: BTreeSet<&Key> = caller.targets.iter().collect();
    let mut findings: Vec<Finding> = targets
        .into_iter()
        .filter_map(|target| reach(observed, about.clone(), target, effect))
        .collect();
    if let (Some(trouble), true) = (&caller.trouble, findings.is_empty()) {
        let at = format!("{} -n {}", word(&owner.1), word(&owner.0));
        findings.push(Finding::error(
            about,
            format!("the API server reports it as unavailable: {trouble}"),
            format!("check its operator: kubectl describe csv {at}"),
        ));
    }
    findings
}

/// Returns a finding if the Service is missing or none of its endpoints is ready, with the effect and its severity.
fn reach(
    observed: &Observed,
    about: String,
    target: &Key,
    (severity, effect): (Severity, &str),
) -> Option<Finding> {
    let (namespace, name) = target;
    let service = format!("{}/{}", plain(namespace), plain(name));
    let place = word(namespace);
    match observed.services.get(target) {
        Some(Ok(Some(1..))) => None,
        Some(Ok(Some(0))) => Some(Finding::new(
            severity,
            about,
            format!("its service {service} has no ready endpoint, {effect}"),
            format!("check why its pods are not ready: kubectl operator status -n {place}"),
        )),
        Some(Ok(None)) => Some(Finding::new(
            severity,
            about,
            format!("its service {service} does not exist, {effect}"),
            format!("reinstall the operator in namespace {place}, or delete this object"),
        )),
        Some(Err(cause)) => Some(Finding::not_checked(about, cause)),
        None => Some(Finding::not_checked(about, "its service was not read")),
    }
}
