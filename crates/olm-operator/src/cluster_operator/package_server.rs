//! Reports the state of package-server's ClusterServiceVersion. No I/O.
//!
//! The report follows from the current objects and the last report, so that changes missed while the process
//! was down are still reported.

use std::{collections::BTreeSet, sync::Arc};

use jiff::Timestamp;
use kube::ResourceExt;
use olm_api::{
    cluster_operator::{
        AVAILABLE, CSV_DELETED, CSV_NOT_SUCCEEDED, CSV_SUCCEEDED, ClusterOperatorStatus, DEGRADED,
        OperandVersion, PROGRESSING, RELEASE, RelatedObject, SAFE, UPGRADEABLE,
    },
    v1alpha1::{ClusterServiceVersion, ClusterServiceVersionPhase as Phase},
};
use olm_runtime::{NamespacedName, condition::stored_time};

use super::{related, text::shown};

/// Maximum length of a foreign text in a message, in characters.
const MAX_TEXT: usize = 1024;

#[derive(Debug, Clone)]
pub(crate) struct Inputs {
    /// Name of the ClusterOperator.
    pub(crate) name: String,
    /// Version of the cluster's release; empty if it is not configured.
    pub(crate) release: String,
    /// The ClusterServiceVersions of OLM's namespace that name this ClusterOperator in their label.
    pub(crate) csvs: Vec<Arc<ClusterServiceVersion>>,
}

/// Sets `status` to the current report.
pub(super) fn report(status: &mut ClusterOperatorStatus, inputs: &Inputs, now: Timestamp) {
    let gone = take_gone(status, &inputs.csvs);
    match active(&inputs.csvs) {
        Some(csv) => report_csv(status, csv, &inputs.release, now),
        None => report_none(status, inputs, gone.as_ref(), now),
    }
}

/// Returns the ClusterServiceVersion that replaces the others; the newest if there are several.
fn active(csvs: &[Arc<ClusterServiceVersion>]) -> Option<&ClusterServiceVersion> {
    let others = |csv: &'_ ClusterServiceVersion| {
        let replaced = csv.spec.replaces().filter(|name| *name != csv.name_any());
        replaced.map(str::to_owned)
    };
    let replaced: BTreeSet<String> = csvs.iter().filter_map(|csv| others(csv)).collect();
    let last = csvs.iter().filter(|csv| !replaced.contains(&csv.name_any()));
    // If all are replaced, they replace each other.
    newest(last).or_else(|| newest(csvs.iter()))
}

fn newest<'a>(
    csvs: impl Iterator<Item = &'a Arc<ClusterServiceVersion>>,
) -> Option<&'a ClusterServiceVersion> {
    let found = csvs.max_by_key(|csv| (csv.creation_timestamp().map(|time| time.0), csv.name_any()));
    found.map(AsRef::as_ref)
}

/// Removes versions of and references to deleted ClusterServiceVersions from `status`. Returns the last one.
fn take_gone(
    status: &mut ClusterOperatorStatus,
    csvs: &[Arc<ClusterServiceVersion>],
) -> Option<OperandVersion> {
    let there: Vec<RelatedObject> = csvs.iter().map(|csv| related::to_csv(csv)).collect();
    let is_gone = |related: &RelatedObject| related::is_csv(related) && !there.contains(related);
    let known = &status.related_objects;
    let gone: Vec<String> = known
        .iter()
        .filter(|one| is_gone(one))
        .map(|one| one.name.clone())
        .collect();
    let last = gone
        .last()
        .map(|name| OperandVersion::new(name.as_str(), status.version(name).unwrap_or_default()));
    if !gone.is_empty() {
        status.related_objects.retain(|related| !is_gone(related));
        status.versions.retain(|version| !gone.contains(&version.name));
    }
    last
}

fn report_csv(
    status: &mut ClusterOperatorStatus,
    csv: &ClusterServiceVersion,
    release: &str,
    now: Timestamp,
) {
    let now = &stored_time(now);
    status.set_condition(DEGRADED, false, ("", ""), now);
    status.set_condition(UPGRADEABLE, true, ("", SAFE), now);
    let version = shown(csv.spec.version.as_deref().unwrap_or_default(), MAX_TEXT);
    let key = NamespacedName::from_object(csv);
    match csv.phase() {
        Phase::Succeeded => {
            let seen = format!("ClusterServiceVersion {key} observed in phase Succeeded");
            let deployed = format!("Deployed version {version}");
            status.set_condition(AVAILABLE, true, (CSV_SUCCEEDED, &seen), now);
            status.set_condition(PROGRESSING, false, ("", &deployed), now);
            if !release.is_empty() {
                set_version(status, OperandVersion::new(RELEASE, release));
            }
            set_version(status, OperandVersion::new(csv.name_any(), version));
        }
        Phase::Failed => {
            let state = csv.status.as_ref();
            let message = state.and_then(|state| state.message.as_deref());
            let message = shown(message.unwrap_or_default(), MAX_TEXT);
            let reason = shown(csv.reason(), MAX_TEXT);
            let seen = format!(
                "ClusterServiceVersion {key} observed in phase Failed with reason: {reason}, message: {message}"
            );
            let failed = format!("Failed to deploy {version}");
            status.set_condition(AVAILABLE, false, (CSV_NOT_SUCCEEDED, &seen), now);
            status.set_condition(PROGRESSING, false, ("", &failed), now);
        }
        _ => {
            let towards = format!("Working toward {version}");
            if status.condition(AVAILABLE).is_none() {
                status.set_condition(AVAILABLE, false, ("", &towards), now);
            }
            status.set_condition(PROGRESSING, true, ("", &towards), now);
        }
    }
    for related in [related::to_namespace(&key.namespace), related::to_csv(csv)] {
        if !status.related_objects.contains(&related) {
            status.related_objects.push(related);
        }
    }
}

fn report_none(
    status: &mut ClusterOperatorStatus,
    inputs: &Inputs,
    gone: Option<&OperandVersion>,
    now: Timestamp,
) {
    let now = &stored_time(now);
    if let Some(gone) = gone {
        let uninstalled = format!("Uninstalled version {}", gone.version);
        status.set_condition(DEGRADED, false, ("", ""), now);
        status.set_condition(UPGRADEABLE, true, ("", SAFE), now);
        status.set_condition(AVAILABLE, false, (CSV_DELETED, &uninstalled), now);
        status.set_condition(PROGRESSING, false, ("", &uninstalled), now);
    } else if status.conditions.is_empty() {
        let waiting = format!("waiting for events - source={}", inputs.name);
        status.set_condition(DEGRADED, false, ("", ""), now);
        status.set_condition(AVAILABLE, false, ("", ""), now);
        status.set_condition(PROGRESSING, true, ("", &waiting), now);
    }
}

fn set_version(status: &mut ClusterOperatorStatus, version: OperandVersion) {
    match status
        .versions
        .iter_mut()
        .find(|known| known.name == version.name)
    {
        Some(known) => *known = version,
        None => status.versions.push(version),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::test_env::decode;

    fn csv(name: &str, replaces: &str, status: Value) -> Arc<ClusterServiceVersion> {
        Arc::new(decode(json!({
            "metadata": {"namespace": "olm", "name": name},
            "spec": {"version": "0.9.0", "replaces": replaces}, "status": status,
        })))
    }

    fn after(status: &ClusterOperatorStatus, csvs: &[Arc<ClusterServiceVersion>]) -> ClusterOperatorStatus {
        let mut status = status.clone();
        let inputs = Inputs {
            name: "ps".into(),
            release: "4.18.0".into(),
            csvs: csvs.to_vec(),
        };
        report(&mut status, &inputs, Timestamp::from_second(1).unwrap());
        let again = {
            let mut again = status.clone();
            report(&mut again, &inputs, Timestamp::from_second(2).unwrap());
            again
        };
        assert_eq!(again, status, "what was said is not said again");
        status
    }

    fn text(status: &ClusterOperatorStatus) -> String {
        let conditions = status.conditions.iter().map(|condition| {
            let (type_, status) = (&condition.type_, &condition.status);
            format!("{type_} {status} ({}: {})\n", condition.reason, condition.message)
        });
        let versions = status
            .versions
            .iter()
            .map(|row| format!("{}={}\n", row.name, row.version));
        let related = status
            .related_objects
            .iter()
            .map(|row| format!("{}/{}/{}\n", row.resource, row.namespace, row.name));
        conditions.chain(versions).chain(related).collect()
    }

    #[test]
    fn each_phase_is_reported_and_available_stays_while_something_is_on_its_way() {
        let none = after(&ClusterOperatorStatus::default(), &[]);
        insta::assert_snapshot!(text(&none), @r"
        Degraded False (: )
        Available False (: )
        Progressing True (: waiting for events - source=ps)
        ");
        let begun = after(&none, &[csv("a", "", json!({"phase": "Installing"}))]);
        insta::assert_snapshot!(text(&begun), @r"
        Degraded False (: )
        Available False (: )
        Progressing True (: Working toward 0.9.0)
        Upgradeable True (: Safe to upgrade)
        namespaces//olm
        clusterserviceversions/olm/a
        ");
        let done = after(&begun, &[csv("a", "", json!({"phase": "Succeeded"}))]);
        insta::assert_snapshot!(text(&done), @r"
        Degraded False (: )
        Available True (ClusterServiceVersionSucceeded: ClusterServiceVersion olm/a observed in phase Succeeded)
        Progressing False (: Deployed version 0.9.0)
        Upgradeable True (: Safe to upgrade)
        operator=4.18.0
        a=0.9.0
        namespaces//olm
        clusterserviceversions/olm/a
        ");
        let again = after(&done, &[csv("a", "", json!({"phase": "Pending"}))]);
        assert_eq!(again.condition(AVAILABLE), done.condition(AVAILABLE));
        assert_eq!(
            again.condition(PROGRESSING).unwrap().message,
            "Working toward 0.9.0"
        );
        let failed = json!({"phase": "Failed", "reason": "ComponentUnhealthy", "message": "one\ntwo"});
        let failed = after(&done, &[csv("a", "", failed)]);
        let available = failed.condition(AVAILABLE).unwrap();
        assert_eq!(
            (available.reason.as_str(), available.message.as_str()),
            (
                "ClusterServiceVersionNotSucceeded",
                "ClusterServiceVersion olm/a observed in phase Failed with reason: ComponentUnhealthy, message: one\\ntwo"
            )
        );
        assert_eq!(
            failed.condition(PROGRESSING).unwrap().message,
            "Failed to deploy 0.9.0"
        );
    }

    #[test]
    fn a_deleted_one_loses_its_version_and_reference_whether_or_not_another_follows() {
        let succeeded = || json!({"phase": "Succeeded"});
        let done = after(&ClusterOperatorStatus::default(), &[csv("a", "", succeeded())]);
        insta::assert_snapshot!(text(&after(&done, &[])), @r"
        Degraded False (: )
        Upgradeable True (: Safe to upgrade)
        Available False (ClusterServiceVersionDeleted: Uninstalled version 0.9.0)
        Progressing False (: Uninstalled version 0.9.0)
        operator=4.18.0
        namespaces//olm
        ");
        insta::assert_snapshot!(text(&after(&done, &[csv("b", "a", succeeded())])), @r"
        Degraded False (: )
        Upgradeable True (: Safe to upgrade)
        Available True (ClusterServiceVersionSucceeded: ClusterServiceVersion olm/b observed in phase Succeeded)
        Progressing False (: Deployed version 0.9.0)
        operator=4.18.0
        b=0.9.0
        namespaces//olm
        clusterserviceversions/olm/b
        ");
    }

    #[test]
    fn the_end_of_the_chain_is_reported_on() {
        let name = |csvs: &[Arc<ClusterServiceVersion>]| active(csvs).map(ResourceExt::name_any);
        let row = |name: &str, replaces: &str| csv(name, replaces, json!({}));
        assert_eq!(name(&[row("c", "b"), row("b", "a"), row("z", "c")]).unwrap(), "z");
        assert_eq!(name(&[row("b", "a"), row("a", "")]).unwrap(), "b");
        // Even if another one would sort last.
        assert_eq!(name(&[row("z", ""), row("a", "z")]).unwrap(), "a");
        assert_eq!(name(&[row("a", "a")]).unwrap(), "a");
        assert_eq!(name(&[row("a", "b"), row("b", "a")]).unwrap(), "b");
        assert_eq!(name(&[]), None);
    }
}
