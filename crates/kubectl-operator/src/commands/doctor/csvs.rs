//! ClusterServiceVersions that do not run, and what outlived them. Pure.

use kube::ResourceExt as _;
use olm_api::condition::csv as reason;
use olm_api::labels::OWNER_KIND_CSV;
use olm_api::v1alpha1::{ClusterServiceVersion, ClusterServiceVersionPhase as Phase};

use super::age::{age, seconds};
use super::finding::{Finding, Severity, object, word};
use super::observed::{Observed, Unread};
use crate::operators::unmet;
use crate::terminal::plain;

/// What OLM does by itself takes no longer, in seconds.
const PATIENCE: i64 = 5 * 60;
/// Requirements of one that are named.
const MAX_REQUIREMENTS: usize = 3;

/// ClusterServiceVersions have succeeded.
pub(super) fn succeeded(observed: &Observed) -> Result<Vec<Finding>, &Unread> {
    let mut findings = Vec::new();
    for csv in observed.csvs.as_ref()? {
        let (namespace, name) = (csv.namespace().unwrap_or_default(), csv.name_any());
        let about = object(OWNER_KIND_CSV, &namespace, &name);
        let at = format!("{} -n {}", word(&name), word(&namespace));
        if let Some(since) = &csv.metadata.deletion_timestamp {
            if seconds(observed.now, since.0) > PATIENCE {
                findings.push(Finding::error(
                    about,
                    format!(
                        "it is being deleted since {}, and finalizers hold it: {}",
                        age(observed.now, since.0),
                        csv.finalizers().join(", ")
                    ),
                    format!("have whoever set them finish, or as the last way out: kubectl patch csv {at} --type merge -p '{{\"metadata\":{{\"finalizers\":null}}}}'"),
                ));
            }
            continue;
        }
        let phase = csv.phase();
        if *phase == Phase::Succeeded {
            continue;
        }
        let status = csv.status.as_ref();
        let since = status
            .and_then(|status| status.last_transition_time.clone())
            .or_else(|| csv.creation_timestamp());
        let is_old = since
            .as_ref()
            .is_some_and(|since| seconds(observed.now, since.0) > PATIENCE);
        let severity = match *phase == Phase::Failed || is_old {
            true => Severity::Error,
            false => Severity::Warning,
        };
        let for_how_long = since
            .map(|since| format!(" since {}", age(observed.now, since.0)))
            .unwrap_or_default();
        let phase_word = match phase.as_str() {
            "" => "new",
            phase => phase,
        };
        findings.push(Finding::new(
            severity,
            about,
            format!("it is {phase_word}{for_how_long}: {}", cause(csv)),
            remedy(csv, &at, &namespace),
        ));
    }
    Ok(findings)
}

fn cause(csv: &ClusterServiceVersion) -> String {
    let status = csv.status.as_ref();
    let said = status
        .and_then(|status| status.message.clone())
        .filter(|said| !said.is_empty());
    let said = said.unwrap_or_else(|| "OLM has not looked at it".to_owned());
    match unmet(csv, MAX_REQUIREMENTS) {
        None => said,
        Some(unmet) => format!("{said}; missing: {unmet}"),
    }
}

fn remedy(csv: &ClusterServiceVersion, at: &str, namespace: &str) -> String {
    let place = word(namespace);
    match csv.reason() {
        reason::REQUIREMENTS_NOT_MET => format!(
            "bring what is missing; all of it: kubectl get csv {at} -o jsonpath='{{.status.requirementStatus}}'"
        ),
        reason::NO_OPERATOR_GROUP => format!("make an OperatorGroup in namespace {place}"),
        reason::TOO_MANY_OPERATOR_GROUPS => {
            format!("keep one OperatorGroup: kubectl get operatorgroup -n {place}")
        }
        reason::UNSUPPORTED_OPERATOR_GROUP => format!(
            "change the namespaces of the OperatorGroup to a mode the operator supports: kubectl get csv {at} -o jsonpath='{{.spec.installModes}}'"
        ),
        reason::INTER_OPERATOR_GROUP_OWNER_CONFLICT => {
            "narrow the OperatorGroup of one of the two operators that provide the API, or uninstall one"
                .to_owned()
        }
        reason::OPERATOR_CONDITION_NOT_UPGRADEABLE => {
            format!("wait for the operator, or override it: kubectl edit operatorcondition -n {place}")
        }
        _ => format!("kubectl operator status -n {place}; kubectl describe csv {at}"),
    }
}

/// Copies have their originals.
pub(super) fn copies(observed: &Observed) -> Result<Vec<Finding>, &Unread> {
    let mut findings = Vec::new();
    for copy in observed.copies.as_ref()? {
        let about = || object(OWNER_KIND_CSV, &copy.namespace, &copy.name);
        match observed.has_csv(&(copy.from.clone(), copy.name.clone())) {
            Ok(true) => {}
            Ok(false) => findings.push(Finding::error(
                about(),
                format!(
                    "it is a copy whose original in namespace {} is gone{}",
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
            Err(cause) => findings.push(Finding::not_checked(about(), cause)),
        }
    }
    Ok(findings)
}

/// Cluster-wide rights belong to a ClusterServiceVersion that is there.
pub(super) fn rights(observed: &Observed) -> Result<Vec<Finding>, &Unread> {
    let mut findings = Vec::new();
    for (kind, read) in &observed.roles {
        for owned in read.as_ref()? {
            match observed.has_csv(&owned.owner) {
                Ok(true) => {}
                Ok(false) => findings.push(leftover(kind, &owned.name, &owned.owner)),
                Err(cause) => findings.push(Finding::not_checked(object(kind, "", &owned.name), cause)),
            }
        }
    }
    Ok(findings)
}

/// What is left of a ClusterServiceVersion that is gone.
pub(super) fn leftover(kind: &str, name: &str, (namespace, csv): &crate::operators::Key) -> Finding {
    Finding::error(
        object(kind, "", name),
        format!(
            "it was left behind: its ClusterServiceVersion {}/{} is gone",
            plain(namespace),
            plain(csv)
        ),
        format!("kubectl delete {} {}", kind.to_lowercase(), word_of_rbac(name)),
    )
}

/// Names of RBAC may have colons.
fn word_of_rbac(name: &str) -> &str {
    match word(&name.replace(':', "-")) == "NAME" {
        true => "NAME",
        false => name,
    }
}
