//! OLM's report about itself: health, version, and whether the operators allow the next minor version of the
//! cluster. No I/O.

use std::{sync::Arc, time::Duration};

use jiff::Timestamp;
use kube::ResourceExt;
use olm_api::{
    cluster_operator::{
        AVAILABLE, ClusterOperatorStatus, DEGRADED, ERROR_CHECKING_COMPATIBILITY, INCOMPATIBLE_OPERATORS,
        OperandVersion, PROGRESSING, RELEASE, RelatedObject, UPGRADEABLE, WAITING,
    },
    labels,
    v1alpha1::ClusterServiceVersion,
};
use olm_runtime::{NamespacedName, condition::stored_time, plan::Requeue};

use super::{
    max_version::{self, blocking},
    related,
};

/// Time without progress after which OLM reports itself as degraded.
const GRACE: Duration = Duration::from_secs(5 * 60);
/// Interval of the checks for remaining work.
const INTERVAL: Duration = Duration::from_secs(60);

#[derive(Debug, Clone)]
pub(crate) struct Inputs {
    /// Name of the ClusterOperator.
    pub(crate) name: String,
    /// Version of the cluster's release; empty if it is not configured.
    pub(crate) release: String,
    /// Version of OLM.
    pub(crate) version: String,
    /// True when the controllers of this process have reconciled something, or have nothing to do.
    pub(crate) is_working: bool,
    /// Time since this process started, by a monotonic clock.
    pub(crate) at_work: Duration,
    /// ClusterServiceVersions that have properties, without copies.
    pub(crate) operators: Vec<Arc<ClusterServiceVersion>>,
    /// ClusterServiceVersions of OLM's own namespace.
    pub(crate) own: Vec<Arc<ClusterServiceVersion>>,
}

/// Returns the properties annotation of an operator.
pub(super) fn properties(csv: &ClusterServiceVersion) -> Option<&str> {
    csv.annotations().get(labels::PROPERTIES).map(String::as_str)
}

/// Returns the time of the next check. No check is needed once there was progress, because that triggers a
/// reconcile.
pub(super) fn requeue(inputs: &Inputs) -> Requeue {
    if inputs.is_working {
        return Requeue::AwaitChange;
    }
    let left = GRACE.saturating_sub(inputs.at_work);
    Requeue::After {
        delay: if left.is_zero() {
            INTERVAL
        } else {
            left.min(INTERVAL)
        },
        reason: "progress check",
    }
}

/// Sets `status` to the current report. The report of an earlier process remains until there is something to
/// report.
pub(super) fn report(status: &mut ClusterOperatorStatus, inputs: &Inputs, now: Timestamp) {
    if inputs.is_working {
        report_work(status, inputs, now);
    } else {
        report_waiting(status, inputs, now);
    }
    let mut own: Vec<RelatedObject> = inputs.own.iter().map(|csv| related::to_csv(csv)).collect();
    own.sort_by(|a, b| a.name.cmp(&b.name));
    if !own.is_empty() {
        status.related_objects = own.into();
    }
}

fn report_work(status: &mut ClusterOperatorStatus, inputs: &Inputs, now: Timestamp) {
    status.set_versions(versions(inputs));
    let now = &stored_time(now);
    let deployed = format!("Deployed {}", inputs.version);
    status.set_condition(PROGRESSING, false, ("", &deployed), now);
    status.set_condition(AVAILABLE, true, ("", ""), now);
    status.set_condition(DEGRADED, false, ("", ""), now);
    match obstacle(inputs) {
        None => status.set_condition(UPGRADEABLE, true, ("", ""), now),
        Some((reason, message)) => status.set_condition(UPGRADEABLE, false, (reason, &message), now),
    }
}

fn report_waiting(status: &mut ClusterOperatorStatus, inputs: &Inputs, now: Timestamp) {
    let is_late = inputs.at_work >= GRACE;
    let is_restart = status.has_versions(&versions(inputs)) && status.condition(AVAILABLE).is_some();
    if is_restart && !is_late {
        return;
    }
    let now = &stored_time(now);
    let awaited = format!("Waiting to see update {} succeed", inputs.version);
    status.set_condition(PROGRESSING, true, ("", &awaited), now);
    status.set_condition(UPGRADEABLE, false, ("", WAITING), now);
    if is_late || status.condition(AVAILABLE).is_none() {
        status.set_condition(AVAILABLE, false, ("", WAITING), now);
    }
    if is_late {
        status.set_condition(DEGRADED, true, ("", WAITING), now);
    } else if status.condition(DEGRADED).is_none() {
        status.set_condition(DEGRADED, false, ("", ""), now);
    }
}

fn versions(inputs: &Inputs) -> Vec<OperandVersion> {
    let release = (!inputs.release.is_empty()).then(|| OperandVersion::new(RELEASE, inputs.release.as_str()));
    let own = OperandVersion::new(inputs.name.as_str(), inputs.version.as_str());
    release.into_iter().chain([own]).collect()
}

/// Returns reason and message of what blocks the next minor version of the cluster.
fn obstacle(inputs: &Inputs) -> Option<(&'static str, String)> {
    let current = match max_version::current(&inputs.release) {
        Ok(current) => current,
        Err(error) => {
            let message = format!(
                "Encountered errors while checking compatibility with the next minor version of OpenShift: {error}"
            );
            return Some((ERROR_CHECKING_COMPATIBILITY, message));
        }
    };
    let operators = inputs.operators.iter().filter_map(|csv| {
        let key = NamespacedName::from_object(csv.as_ref());
        Some((key, properties(csv)?))
    });
    blocking(operators, current).map(|message| (INCOMPATIBLE_OPERATORS, message))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::test_env::decode;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn inputs(is_working: bool) -> Inputs {
        Inputs {
            name: "olm".into(),
            release: "4.18.0".into(),
            version: "0.9.0".into(),
            is_working,
            at_work: Duration::ZERO,
            operators: Vec::new(),
            own: Vec::new(),
        }
    }

    /// Input of a process without progress for this many seconds.
    fn waiting(seconds: u64) -> Inputs {
        Inputs {
            at_work: Duration::from_secs(seconds),
            ..inputs(false)
        }
    }

    /// Returns `Available True: message` of each condition, with its age in seconds.
    fn conditions(status: &ClusterOperatorStatus) -> Vec<String> {
        let shown = status.conditions.iter().map(|condition| {
            let since = condition.last_transition_time.as_ref().unwrap().0.as_second();
            let (type_, status) = (&condition.type_, &condition.status);
            format!(
                "{type_} {status} {since} {}: {}",
                condition.reason, condition.message
            )
        });
        shown.collect()
    }

    #[test]
    fn ocp_005_before_anything_was_done_a_new_report_says_that_it_waits_and_is_not_degraded_at_once() {
        let mut status = ClusterOperatorStatus::default();
        report(&mut status, &waiting(1), at(1));
        assert_eq!(
            conditions(&status),
            [
                "Progressing True 1 : Waiting to see update 0.9.0 succeed",
                "Upgradeable False 1 : Waiting for updates to take effect",
                "Available False 1 : Waiting for updates to take effect",
                "Degraded False 1 : ",
            ]
        );
        assert!(status.versions.is_empty());
        report(&mut status, &waiting(299), at(299));
        assert_eq!(status.condition(DEGRADED).unwrap().status, "False");
        report(&mut status, &waiting(300), at(300));
        assert_eq!(
            conditions(&status)[3],
            "Degraded True 300 : Waiting for updates to take effect"
        );
        report(&mut status, &inputs(true), at(400));
        assert_eq!(
            conditions(&status),
            [
                "Progressing False 400 : Deployed 0.9.0",
                "Upgradeable True 400 : ",
                "Available True 400 : ",
                "Degraded False 400 : ",
            ]
        );
        let wanted = [
            OperandVersion::new("operator", "4.18.0"),
            OperandVersion::new("olm", "0.9.0"),
        ];
        assert!(status.has_versions(&wanted));
    }

    #[test]
    fn a_report_of_an_earlier_process_stays_until_there_is_a_new_one() {
        let mut said = ClusterOperatorStatus::default();
        report(&mut said, &inputs(true), at(1));
        let mut status = said.clone();
        report(&mut status, &waiting(100), at(100));
        assert_eq!(status, said, "a restart");
        // Another version: in progress, and available the whole time.
        let newer = Inputs {
            version: "0.10.0".into(),
            ..waiting(100)
        };
        report(&mut status, &newer, at(100));
        assert_eq!(
            conditions(&status),
            [
                "Progressing True 100 : Waiting to see update 0.10.0 succeed",
                "Available True 1 : ",
                "Degraded False 1 : ",
                "Upgradeable False 100 : Waiting for updates to take effect",
            ]
        );
        report(&mut said, &waiting(300), at(300));
        assert_eq!(said.condition(DEGRADED).unwrap().status, "True");
        assert_eq!(said.condition(AVAILABLE).unwrap().status, "False");
    }

    fn operator(namespace: &str, name: &str, value: Value) -> Arc<ClusterServiceVersion> {
        let properties = json!({"properties": [{"type": "olm.maxOpenShiftVersion", "value": value}]});
        let annotations = json!({"operatorframework.io/properties": properties.to_string()});
        let metadata = json!({"namespace": namespace, "name": name, "annotations": annotations});
        Arc::new(decode(json!({"metadata": metadata, "spec": {}})))
    }

    /// The version of the cluster's release counts, not OLM's own.
    #[track_caller]
    fn check_release(release: &str, max: &str, obstacle: Option<&str>) {
        let mut status = ClusterOperatorStatus::default();
        let inputs = Inputs {
            release: release.into(),
            operators: vec![operator("ns", "a", json!(max))],
            ..inputs(true)
        };
        report(&mut status, &inputs, at(1));
        let said = match obstacle {
            None => "Upgradeable True 1 : ".to_owned(),
            Some(next) => format!(
                "Upgradeable False 1 IncompatibleOperatorsInstalled: ClusterServiceVersions blocking minor version upgrades to {next}:\n\
                 - maximum supported OCP version for ns/a is {max}"
            ),
        };
        assert_eq!(conditions(&status).pop(), Some(said), "{release} {max}");
    }

    #[test]
    fn ocp_002_the_release_is_held_against_the_last_version_of_the_operators() {
        check_release("4.17.9", "4.18", None);
        check_release("4.18.0", "4.18", Some("4.19"));
        check_release("4.18.0", "4.19", None);
    }

    #[test]
    fn ocp_004_a_later_patch_or_a_prerelease_of_the_cluster_is_its_minor_version() {
        for release in ["4.18.0", "4.18.0-rc1", "4.18.7", "4.18.7-rc1"] {
            check_release(release, "4.17", Some("4.19"));
            check_release(release, "4.18", Some("4.19"));
            check_release(release, "4.19", None);
        }
    }

    #[test]
    fn since_when_it_is_not_upgradeable_stays_when_the_list_changes() {
        let mut status = ClusterOperatorStatus::default();
        let mut inputs = inputs(true);
        for (name, second) in [("a", 1), ("b", 2)] {
            inputs.operators.push(operator("ns", name, json!("4.18")));
            report(&mut status, &inputs, at(second));
        }
        let condition = conditions(&status).pop().unwrap();
        let head = "Upgradeable False 1 IncompatibleOperatorsInstalled: ClusterServiceVersions blocking minor version upgrades to 4.19:\n";
        assert!(
            condition.starts_with(head) && condition.contains("ns/b"),
            "{condition}"
        );
    }

    #[test]
    fn without_a_release_it_is_not_upgradeable_and_nothing_is_tried_again() {
        let mut status = ClusterOperatorStatus::default();
        let inputs = Inputs {
            release: String::new(),
            ..inputs(true)
        };
        report(&mut status, &inputs, at(1));
        assert_eq!(
            conditions(&status).pop().unwrap(),
            "Upgradeable False 1 ErrorCheckingOperatorCompatibility: Encountered errors while checking compatibility \
             with the next minor version of OpenShift: desired release version missing from RELEASE_VERSION env variable"
        );
        assert_eq!(requeue(&inputs), Requeue::AwaitChange);
        assert!(status.has_versions(&[OperandVersion::new("olm", "0.9.0")]));
    }

    #[test]
    fn who_gets_nothing_done_is_looked_at_again_when_it_is_degraded() {
        let delay = |after: u64| match requeue(&waiting(after)) {
            Requeue::After { delay, .. } => Some(delay.as_secs()),
            Requeue::AwaitChange => None,
        };
        assert_eq!(delay(0), Some(60));
        assert_eq!(delay(200), Some(60));
        assert_eq!(delay(299), Some(1));
        assert_eq!(delay(300), Some(60));
        assert_eq!(requeue(&inputs(true)), Requeue::AwaitChange);
    }

    /// The machine's clock may be set right after its start, by hours, in either direction.
    #[test]
    fn a_changed_clock_makes_no_report_early_or_late() {
        for hours in [-2, 2] {
            let mut status = ClusterOperatorStatus::default();
            let set = |second: i64| at(10_000 + second + hours * 3600);
            report(&mut status, &waiting(1), at(10_001));
            report(&mut status, &waiting(299), set(299));
            assert_eq!(status.condition(DEGRADED).unwrap().status, "False", "{hours}");
            report(&mut status, &waiting(300), set(300));
            assert_eq!(status.condition(DEGRADED).unwrap().status, "True", "{hours}");
        }
    }

    #[test]
    fn its_own_operators_are_referred_to_by_name_and_stay_when_there_are_none() {
        let mut status = ClusterOperatorStatus::default();
        let mut inputs = inputs(true);
        inputs.own = vec![operator("olm", "b", json!("9")), operator("olm", "a", json!("9"))];
        report(&mut status, &inputs, at(1));
        let names = |status: &ClusterOperatorStatus| {
            let all = status.related_objects.iter();
            all.map(|related| related.name.clone()).collect::<Vec<_>>()
        };
        assert_eq!(names(&status), ["a", "b"]);
        let related = &status.related_objects[0];
        assert_eq!(
            (
                related.group.as_str(),
                related.resource.as_str(),
                related.namespace.as_str()
            ),
            ("operators.coreos.com", "clusterserviceversions", "olm")
        );
        inputs.own.clear();
        report(&mut status, &inputs, at(2));
        assert_eq!(names(&status), ["a", "b"]);
    }
}
