//! Checks of ClusterServiceVersions that no Subscription manages or that are not deleted in time, and of objects that outlived theirs.
//! Pure.

use std::collections::BTreeSet;

use kube::ResourceExt as _;
use olm_api::v1alpha1::ClusterServiceVersionPhase as Phase;
use olm_resolver::installed::package_of;

use super::finding::{Finding, Severity, about, at, object, word};
use super::observed::{Observed, Owned, Unread};
use crate::operators::Operator;
use crate::terminal::{age, plain, seconds};

/// Time, in seconds, that finalizers of OLM and of operators may take.
const PATIENCE: i64 = 5 * 60;

/// Checks that operators have a Subscription, also while they are installed and after they failed.
pub(super) fn unsubscribed(observed: &Observed) -> Result<Vec<Finding>, &Unread> {
    let gathered = observed.operators.as_ref()?;
    let operators = gathered.operators();
    // A Subscription without a version reports itself what is in its way.
    let without_version = operators
        .iter()
        .filter(|operator| operator.subscription.is_some() && operator.installed.is_none());
    let unread = gathered.unreadable.iter().map(|object| object.namespace.clone());
    let looking: BTreeSet<String> = without_version.map(Operator::namespace).chain(unread).collect();
    let alone = operators
        .iter()
        .filter(|operator| operator.subscription.is_none());
    let findings = alone.filter_map(|operator| {
        let csv = operator.installed?;
        let (namespace, name) = (operator.namespace(), operator.name());
        let is_deleted = csv.metadata.deletion_timestamp.is_some() || *csv.phase() == Phase::Deleting;
        if operator.is_part_of_olm(&observed.olm) || is_deleted || looking.contains(&namespace) {
            return None;
        }
        let text = match csv.phase() {
            Phase::Succeeded => "it runs without a Subscription, so OLM does not upgrade it",
            _ => "no Subscription refers to it, so OLM installs no other version in its place",
        };
        // OLM adopts only a version that names its package, and none that is replaced.
        let adoptable = package_of(csv).filter(|_| *csv.phase() != Phase::Replacing);
        let adopt = adoptable.map(|package| {
            format!(
                "adopt it: kubectl operator install {} --version {} -n {}; or ",
                word(&package),
                word(&name),
                word(&namespace)
            )
        });
        Some(Finding::warning(
            about(csv),
            text,
            format!(
                "{}uninstall it: kubectl operator uninstall {}",
                adopt.unwrap_or_default(),
                at(csv)
            ),
        ))
    });
    Ok(findings.collect())
}

/// Checks that deleted ClusterServiceVersions do not remain.
pub(super) fn deleted(observed: &Observed) -> Result<Vec<Finding>, &Unread> {
    let mut findings = Vec::new();
    for csv in observed.operators.as_ref()?.csvs.values() {
        let Some(since) = &csv.metadata.deletion_timestamp else {
            continue;
        };
        if seconds(observed.now, since.0) <= PATIENCE {
            continue;
        }
        findings.push(Finding::error(
            about(csv),
            format!(
                "its deletion has been blocked by finalizers for {}: {}",
                age(observed.now, since.0),
                csv.finalizers().join(", ")
            ),
            format!("let the owners of the finalizers finish, or as a last resort: kubectl patch csv {} --type merge -p '{{\"metadata\":{{\"finalizers\":null}}}}'", at(csv)),
        ));
    }
    Ok(findings)
}

/// Checks that cluster-wide permissions belong to an existing ClusterServiceVersion.
pub(super) fn rights(observed: &Observed) -> Result<Vec<Finding>, &Unread> {
    let roles = observed.roles.as_ref()?.iter();
    Ok(roles.filter_map(|role| orphaned(observed, role)).collect())
}

/// Returns the finding for an object whose ClusterServiceVersion does not exist.
pub(super) fn orphaned(observed: &Observed, owned: &Owned) -> Option<Finding> {
    let Owned { kind, name, owner } = owned;
    let about = object(kind, "", name);
    match observed.has_csv(owner) {
        Ok(true) => None,
        Ok(false) => Some(Finding::error(
            about,
            format!(
                "it is orphaned: its ClusterServiceVersion {}/{} no longer exists",
                plain(&owner.0),
                plain(&owner.1)
            ),
            format!("kubectl delete {} {}", kind.to_lowercase(), word_of_rbac(name)),
        )),
        Err(cause) => Some(Finding::not_checked(about, cause)),
    }
}

/// Returns a note for each Operator object that outlived all that it listed.
pub(super) fn leftovers(names: &[String]) -> Vec<Finding> {
    let findings = names.iter().map(|name| {
        Finding::new(
            Severity::Note,
            object("Operator", "", name),
            "it is left over: it lists no objects, and OLM deletes only Operators that it created",
            format!("kubectl delete operator {}", word(name)),
        )
    });
    findings.collect()
}

/// Returns a name of an RBAC object for a command. Such names may have colons.
fn word_of_rbac(name: &str) -> &str {
    match word(&name.replace(':', "-")) == "NAME" {
        true => "NAME",
        false => name,
    }
}
