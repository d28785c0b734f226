//! Checks of ClusterServiceVersions that are not deleted in time, and of objects that outlived theirs. Pure.

use kube::ResourceExt as _;
use olm_api::labels::OWNER_KIND_CSV;

use super::age::{age, seconds};
use super::finding::{Finding, about, at, object, word};
use super::observed::{Copied, Observed, Owned, Read, Unread};
use crate::terminal::plain;

/// Time, in seconds, that finalizers of OLM and of operators may take.
const PATIENCE: i64 = 5 * 60;

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

/// Checks that copies of ClusterServiceVersions have an original.
pub(super) fn copies<'a>(
    observed: &Observed,
    copies: &'a Read<Vec<Copied>>,
) -> Result<Vec<Finding>, &'a Unread> {
    let findings = copies.as_ref()?.iter().filter_map(|copy| {
        let about = object(OWNER_KIND_CSV, &copy.namespace, &copy.name);
        match observed.has_csv(&(copy.from.clone(), copy.name.clone())) {
            Ok(true) => None,
            Ok(false) => Some(Finding::error(
                about,
                format!(
                    "it is a copy whose original in namespace {} no longer exists{}",
                    plain(&copy.from),
                    match copy.is_going {
                        true => ", and it is being deleted",
                        false => "",
                    }
                ),
                format!(
                    "kubectl delete csv {} -n {}",
                    word(&copy.name),
                    word(&copy.namespace)
                ),
            )),
            Err(cause) => Some(Finding::not_checked(about, cause)),
        }
    });
    Ok(findings.collect())
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

/// Returns a name of an RBAC object for a command. Such names may have colons.
fn word_of_rbac(name: &str) -> &str {
    match word(&name.replace(':', "-")) == "NAME" {
        true => "NAME",
        false => name,
    }
}
