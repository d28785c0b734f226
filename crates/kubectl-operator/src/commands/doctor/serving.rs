//! Checks that webhooks, APIServices and conversions reach a Service, and trust it. Pure.

use std::collections::BTreeSet;

use jiff::Timestamp;
use x509_parser::pem::Pem;

use super::csvs::orphaned;
use super::finding::{Finding, Severity, object, word};
use super::observed::{Caller, Observed, Owned, ServiceState, Target, Unread};
use crate::terminal::plain;

/// Certificates that expire within this time, in seconds, are reported.
const SOON: i64 = 7 * 24 * 60 * 60;

/// Checks that webhooks reach and trust their Services, and belong to a ClusterServiceVersion.
pub(super) fn webhooks(observed: &Observed) -> Result<Vec<Finding>, &Unread> {
    let callers = observed.webhooks.as_ref()?.iter();
    let effect = "so requests to it are rejected";
    Ok(callers
        .flat_map(|caller| of_caller(observed, caller, effect))
        .collect())
}

/// Checks the same for APIServices.
pub(super) fn api_services(observed: &Observed) -> Result<Vec<Finding>, &Unread> {
    let callers = observed.api_services.as_ref()?.iter();
    let effect = "so its API is not served";
    Ok(callers
        .flat_map(|caller| of_caller(observed, caller, effect))
        .collect())
}

/// Checks the same for conversions of CustomResourceDefinitions.
pub(super) fn conversions(observed: &Observed) -> Result<Vec<Finding>, &Unread> {
    let findings = observed.definitions.as_ref()?.iter().filter_map(|definition| {
        let about = object("CustomResourceDefinition", "", &definition.name);
        let target = definition.conversion.as_ref()?;
        of_target(observed, &about, target, "so its objects cannot be converted")
    });
    Ok(findings.collect())
}

fn of_caller(observed: &Observed, caller: &Caller, effect: &str) -> Vec<Finding> {
    let Owned { kind, name, owner } = &caller.object;
    if let Some(finding) = orphaned(observed, &caller.object) {
        return vec![finding];
    }
    let about = object(kind, "", name);
    let targets: BTreeSet<&Target> = caller.targets.iter().collect();
    let mut findings: Vec<Finding> = targets
        .into_iter()
        .filter_map(|target| of_target(observed, &about, target, effect))
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

/// Returns a finding if a Service is not reached, or its certificate is not trusted for long.
fn of_target(observed: &Observed, about: &str, target: &Target, effect: &str) -> Option<Finding> {
    let unreached = reach(observed, about.to_owned(), target, effect);
    unreached.or_else(|| trust(observed, about.to_owned(), target))
}

/// Returns a finding if the Service is missing or none of its endpoints is ready.
fn reach(observed: &Observed, about: String, target: &Target, effect: &str) -> Option<Finding> {
    let (namespace, name) = &target.service;
    let service = format!("{}/{}", plain(namespace), plain(name));
    let place = word(namespace);
    match observed.services.get(&target.service) {
        Some(Ok(Some(state))) if state.ready > 0 => None,
        Some(Ok(Some(_))) => Some(Finding::error(
            about,
            format!("its service {service} has no ready endpoint, {effect}"),
            format!("check why its pods are not ready: kubectl operator status -n {place}"),
        )),
        Some(Ok(None)) => Some(Finding::error(
            about,
            format!("its service {service} does not exist, {effect}"),
            format!("reinstall the operator in namespace {place}, or delete this object"),
        )),
        Some(Err(cause)) => Some(Finding::not_checked(about, cause)),
        None => Some(Finding::not_checked(about, "its service was not read")),
    }
}

/// Returns a finding for a certificate that expires soon or has expired. The last one counts, because there are two during a
/// rotation.
fn trust(observed: &Observed, about: String, target: &Target) -> Option<Finding> {
    if target.ca.is_empty() {
        return None;
    }
    let (namespace, name) = &target.service;
    // Only for Services of OLM does the Secret of this name belong to OLM.
    let service = observed.services.get(&target.service);
    let is_own = matches!(service, Some(Ok(Some(ServiceState { is_own: true, .. }))));
    let remedy = match is_own {
        true => format!(
            "OLM renews it when its Secret is deleted: kubectl delete secret {}-cert -n {}",
            word(name),
            word(namespace)
        ),
        false => format!(
            "let the owner of its service renew it: kubectl describe service {} -n {}",
            word(name),
            word(namespace)
        ),
    };
    let Some(end) = last_end(&target.ca) else {
        return Some(Finding::error(
            about,
            "the CA that it trusts is not readable",
            remedy,
        ));
    };
    let left = end.as_second().saturating_sub(observed.now.as_second());
    let (severity, cause) = match left {
        ..=0 => (
            Severity::Error,
            format!("the CA that it trusts has expired at {end}"),
        ),
        1..SOON => (
            Severity::Warning,
            format!("the CA that it trusts expires at {end}"),
        ),
        _ => return None,
    };
    Some(Finding::new(severity, about, cause, remedy))
}

/// Returns when the last certificate expires; `None` if none can be parsed.
fn last_end(pem: &[u8]) -> Option<Timestamp> {
    let certificates = Pem::iter_from_buffer(pem).take_while(Result::is_ok).flatten();
    let ends = certificates.filter_map(|pem| {
        let (_, certificate) = x509_parser::parse_x509_certificate(&pem.contents).ok()?;
        Timestamp::from_second(certificate.validity().not_after.timestamp()).ok()
    });
    ends.max()
}
