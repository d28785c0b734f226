//! Checks whether the Deployments of an install match the strategy and run.
//!
//! The checks and their texts are described in `docs/reference/lifecycle.md`. Their order differs from
//! upstream's: drift is checked before health. So a fix in the ClusterServiceVersion or in the Subscription's
//! configuration is rolled out at once, even over a stuck Deployment.

use std::collections::BTreeMap;

use k8s_openapi::api::apps::v1::{Deployment, DeploymentCondition};
use kube::ResourceExt;
use olm_api::{condition::TRUE, labels};
use serde_json::Value;

use crate::{owner, stores};

/// Problem of the first Deployment that is not as it should be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum DeploymentProblem {
    /// It does not exist, or is not OLM's.
    Missing(String),
    /// It differs from the wanted one, and another apply helps.
    Outdated(String),
    /// It is in progress.
    Waiting(String),
    /// Its rollout has failed.
    Stuck(String),
}

/// The expected state of a Deployment of the install strategy.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct WantedDeployment {
    pub(crate) name: String,
    /// Hash of the wanted spec.
    pub(crate) hash: String,
    /// True when the variables of the cluster's Proxy are not known yet and so missing in the spec.
    pub(crate) lacks_proxy: bool,
    pub(crate) spec: Value,
    /// Annotations its pods must have.
    pub(crate) annotations: BTreeMap<String, String>,
    /// Labels from the author; they are not part of the hash.
    pub(crate) labels: BTreeMap<String, String>,
    /// Uid of the ClusterServiceVersion that must own it.
    pub(crate) owner_uid: String,
}

/// Strictness of the health check about a rollout in progress.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rollout {
    /// All new pods must be ready (a fresh install).
    MustBeComplete,
    /// Available is enough: a user restarted pods of a running operator, or pods were rescheduled.
    MayProgress,
}

/// Returns the first problem of a Deployment, or `None` when it matches the wanted one and runs.
pub(crate) fn check(
    wanted: &WantedDeployment,
    live: Option<&Deployment>,
    rollout: Rollout,
) -> Option<DeploymentProblem> {
    let Some(live) = live else {
        return Some(DeploymentProblem::Missing(format!(
            "missing deployment with name={}",
            wanted.name
        )));
    };
    drift(wanted, live)
        .map(DeploymentProblem::Outdated)
        .or_else(|| unhealthy(live, rollout))
}

/// What distinguishes the Deployment from the wanted one; the live spec is not compared, only what it was made from, and whether
/// others changed what we set since.
pub(crate) fn drift(wanted: &WantedDeployment, live: &Deployment) -> Option<String> {
    // Two that apply it would undo each other's changes.
    if owner::is_of_extension(&live.metadata) {
        return None;
    }
    let name = &wanted.name;
    let Some(found) = live.labels().get(labels::DEPLOYMENT_SPEC_HASH) else {
        return Some(format!("deployment {name} doesn't have a spec hash, update it"));
    };
    let is_owned = owner::references(&live.metadata).any(|owner| owner.uid == wanted.owner_uid);
    // An apply without these variables would restart its pods, and again with them.
    let keeps = wanted.lacks_proxy && is_owned;
    // Upstream created it, and computes hashes in another way.
    let adoption = stores::deployment::adoption::of(live);
    let adoption = adoption.filter(|adoption| adoption.is_of_another());
    let is_as_wanted = match &adoption {
        Some(adoption) => adoption.is_as(&wanted.spec),
        None => *found == wanted.hash,
    };
    if !is_as_wanted && !keeps {
        if *found == wanted.hash {
            return Some(format!("deployment {name} does not match its hash, update it"));
        }
        return Some(format!(
            "deployment changed old hash={found}, new hash={}",
            wanted.hash
        ));
    }
    let mut labels = wanted.labels.iter();
    if let Some((key, value)) = labels.find(|(key, value)| live.labels().get(*key) != Some(*value)) {
        return Some(format!("deployment {name} doesn't have the label {key}={value}"));
    }
    if !is_owned {
        return Some(format!(
            "deployment {name} is not owned by this ClusterServiceVersion"
        ));
    }
    if let Some(field) = stores::deployment::lost_field(live, &wanted.spec) {
        return Some(format!("deployment {name} was changed at {field}"));
    }
    let none = BTreeMap::new();
    let annotations = live
        .spec
        .as_ref()
        .and_then(|spec| spec.template.metadata.as_ref())
        .and_then(|metadata| metadata.annotations.as_ref())
        .unwrap_or(&none);
    if annotations.is_empty() && !wanted.annotations.is_empty() {
        return Some(format!("no annotations found on deployment (deployment {name})"));
    }
    wanted.annotations.iter().find_map(|(key, value)| match annotations.get(key) {
        None => Some(format!("annotations on deployment does not contain expected key: {key} (deployment {name})")),
        Some(found) if found != value => Some(format!(
            "unexpected annotation on deployment. Expected {key}:{value}, found {key}:{found} (deployment {name})"
        )),
        Some(_) => None,
    })
}

fn unhealthy(live: &Deployment, rollout: Rollout) -> Option<DeploymentProblem> {
    let name = live.metadata.name.as_deref().unwrap_or_default();
    let status = live.status.clone().unwrap_or_default();
    let waiting = |what: String| {
        Some(DeploymentProblem::Waiting(format!(
            "waiting for deployment {name} to become ready: {what}"
        )))
    };
    let condition = |kind: &str| condition(status.conditions.as_deref().unwrap_or_default(), kind);
    let available = condition("Available");
    let is_available = available.is_some_and(|found| found.status == TRUE);
    let unobserved = live.metadata.generation.unwrap_or(0) > status.observed_generation.unwrap_or(0);
    // A user scales or restarts a running operator: its last known state is used until there is a new one.
    if unobserved && rollout == Rollout::MayProgress && is_available {
        return None;
    }
    if unobserved {
        return waiting(format!(
            "waiting for spec update of deployment \"{name}\" to be observed..."
        ));
    }
    let has_given_up =
        condition("Progressing").is_some_and(|c| c.reason.as_deref() == Some("ProgressDeadlineExceeded"));
    // A stuck rollout does not affect an operator whose old pods still run.
    if has_given_up && (rollout == Rollout::MustBeComplete || !is_available) {
        return Some(DeploymentProblem::Stuck(format!(
            "deployment {name} not ready before timeout: deployment \"{name}\" exceeded its progress deadline"
        )));
    }
    let outdated = status
        .replicas
        .unwrap_or(0)
        .saturating_sub(status.updated_replicas.unwrap_or(0));
    let must_wait = outdated > 0 && (rollout == Rollout::MustBeComplete || !is_available);
    if must_wait {
        return waiting(format!(
            "deployment \"{name}\" waiting for {outdated} outdated replica(s) to be terminated"
        ));
    }
    if !is_available {
        let why = match available {
            Some(condition) => condition.message.clone().unwrap_or_default(),
            None => "missing condition \"Available\"".to_owned(),
        };
        return waiting(format!("deployment \"{name}\" not available: {why}"));
    }
    None
}

/// True when enough pods of the Deployment run, whether or not they are the wanted ones.
pub(crate) fn is_available(live: &Deployment) -> bool {
    let conditions = live
        .status
        .as_ref()
        .and_then(|status| status.conditions.as_deref());
    condition(conditions.unwrap_or_default(), "Available").is_some_and(|found| found.status == TRUE)
}

/// Returns the Deployment controller's message why it creates no pods: a quota or admission refuses them, or
/// the rollout is paused or cannot start.
pub(crate) fn creation_failure(live: &Deployment) -> Option<&str> {
    let conditions = live.status.as_ref()?.conditions.as_deref()?;
    let refused = condition(conditions, "ReplicaFailure").filter(|found| found.status == TRUE);
    let halted = || {
        let is_cause = |reason: &str| ["ReplicaSetCreateError", "DeploymentPaused"].contains(&reason);
        condition(conditions, "Progressing").filter(|found| found.reason.as_deref().is_some_and(is_cause))
    };
    let found = refused.or_else(halted)?;
    let message = found.message.as_deref().filter(|text| !text.is_empty());
    message.or(found.reason.as_deref())
}

/// True while the Deployment controller has not responded to the last change. It responds within
/// milliseconds, so this state alone is not reported.
pub(crate) fn is_just_changed(live: &Deployment) -> bool {
    let status = live.status.as_ref();
    let observed = status.and_then(|status| status.observed_generation).unwrap_or(0);
    let conditions = status
        .and_then(|status| status.conditions.as_deref())
        .unwrap_or_default();
    live.metadata.generation.unwrap_or(0) > observed || condition(conditions, "Available").is_none()
}

fn condition<'a>(conditions: &'a [DeploymentCondition], kind: &str) -> Option<&'a DeploymentCondition> {
    conditions.iter().find(|condition| condition.type_ == kind)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn wanted() -> WantedDeployment {
        WantedDeployment {
            name: "d".into(),
            hash: "h1".into(),
            lacks_proxy: false,
            spec: Value::Null,
            annotations: BTreeMap::from([("a".to_owned(), "1".to_owned())]),
            labels: BTreeMap::from([("l".to_owned(), "1".to_owned())]),
            owner_uid: "u".into(),
        }
    }

    fn live(labels: Value, annotations: Value, status: Value) -> Deployment {
        serde_json::from_value(json!({
            "metadata": {"name": "d", "generation": 2, "labels": labels, "ownerReferences": [
                {"apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion", "name": "c", "uid": "u"}
            ]},
            "spec": {"selector": {}, "template": {"metadata": {"annotations": annotations}}},
            "status": status,
        }))
        .unwrap()
    }

    fn healthy() -> Value {
        json!({"observedGeneration": 2, "replicas": 1, "updatedReplicas": 1, "conditions": [{"type": "Available", "status": "True"}]})
    }

    #[track_caller]
    fn check_live(labels: Value, annotations: Value, status: Value, expected: Option<DeploymentProblem>) {
        let live = live(labels, annotations, status);
        assert_eq!(check(&wanted(), Some(&live), Rollout::MustBeComplete), expected);
    }

    fn hash() -> Value {
        json!({"olm.deployment-spec-hash": "h1", "l": "1"})
    }

    #[test]
    fn a_wanted_and_available_deployment_has_no_problem() {
        check_live(hash(), json!({"a": "1", "more": "x"}), healthy(), None);
    }

    #[test]
    fn a_missing_deployment_is_named() {
        assert_eq!(
            check(&wanted(), None, Rollout::MustBeComplete),
            Some(DeploymentProblem::Missing(
                "missing deployment with name=d".into()
            ))
        );
    }

    #[test]
    fn drift_is_reported_by_hash_then_by_annotations() {
        let outdated = |text: &str| Some(DeploymentProblem::Outdated(text.to_owned()));
        let fine = json!({"a": "1"});
        check_live(
            json!({}),
            fine.clone(),
            healthy(),
            outdated("deployment d doesn't have a spec hash, update it"),
        );
        let other = json!({"olm.deployment-spec-hash": "h0"});
        check_live(
            other,
            fine,
            healthy(),
            outdated("deployment changed old hash=h0, new hash=h1"),
        );
        let unlabelled = json!({"olm.deployment-spec-hash": "h1", "l": "2"});
        check_live(
            unlabelled,
            json!({"a": "1"}),
            healthy(),
            outdated("deployment d doesn't have the label l=1"),
        );
        check_live(
            hash(),
            json!({}),
            healthy(),
            outdated("no annotations found on deployment (deployment d)"),
        );
        check_live(
            hash(),
            json!({"b": "1"}),
            healthy(),
            outdated("annotations on deployment does not contain expected key: a (deployment d)"),
        );
        check_live(
            hash(),
            json!({"a": "2"}),
            healthy(),
            outdated("unexpected annotation on deployment. Expected a:1, found a:2 (deployment d)"),
        );
    }

    #[test]
    fn health_is_reported_in_the_words_of_the_deployment() {
        let waiting = |text: &str| {
            Some(DeploymentProblem::Waiting(format!(
                "waiting for deployment d to become ready: {text}"
            )))
        };
        let cases = [
            (
                json!({"observedGeneration": 1}),
                waiting("waiting for spec update of deployment \"d\" to be observed..."),
            ),
            (
                json!({"observedGeneration": 2, "replicas": 3, "updatedReplicas": 1}),
                waiting("deployment \"d\" waiting for 2 outdated replica(s) to be terminated"),
            ),
            (
                json!({"observedGeneration": 2}),
                waiting("deployment \"d\" not available: missing condition \"Available\""),
            ),
            (
                json!({"observedGeneration": 2, "conditions": [{"type": "Available", "status": "False", "message": "no pods"}]}),
                waiting("deployment \"d\" not available: no pods"),
            ),
            (
                json!({"observedGeneration": 2, "conditions": [{"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded"}]}),
                Some(DeploymentProblem::Stuck(
                    "deployment d not ready before timeout: deployment \"d\" exceeded its progress deadline"
                        .into(),
                )),
            ),
        ];
        for (status, expected) in cases {
            check_live(hash(), json!({"a": "1"}), status, expected);
        }
    }

    #[test]
    fn a_deployment_of_a_namesake_that_is_gone_is_taken_over() {
        let mut orphan = live(hash(), json!({"a": "1"}), healthy());
        orphan.metadata.owner_references.as_mut().unwrap()[0].uid = "old".into();
        assert_eq!(
            check(&wanted(), Some(&orphan), Rollout::MustBeComplete),
            Some(DeploymentProblem::Outdated(
                "deployment d is not owned by this ClusterServiceVersion".into()
            ))
        );
    }

    #[test]
    fn drift_is_seen_even_when_the_deployment_is_stuck() {
        let stuck = json!({"observedGeneration": 2, "conditions": [{"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded"}]});
        check_live(
            json!({"olm.deployment-spec-hash": "h0"}),
            json!({"a": "1"}),
            stuck,
            Some(DeploymentProblem::Outdated(
                "deployment changed old hash=h0, new hash=h1".into(),
            )),
        );
    }

    #[test]
    fn a_restart_of_a_running_operator_is_not_unhealthy_while_it_stays_available() {
        let rolling = json!({"observedGeneration": 2, "replicas": 2, "updatedReplicas": 1, "conditions": [{"type": "Available", "status": "True"}]});
        let live = live(hash(), json!({"a": "1"}), rolling);
        assert_eq!(check(&wanted(), Some(&live), Rollout::MayProgress), None);
        assert!(matches!(
            check(&wanted(), Some(&live), Rollout::MustBeComplete),
            Some(DeploymentProblem::Waiting(_))
        ));
    }

    #[test]
    fn a_rollout_that_gets_stuck_is_no_failure_of_a_running_operator_that_stays_available() {
        let rolling = |available: &str| {
            let conditions = json!([{"type": "Available", "status": available, "message": "no pods"},
                {"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded"}]);
            let status = json!({"observedGeneration": 2, "replicas": 2, "updatedReplicas": 1, "conditions": conditions});
            live(hash(), json!({"a": "1"}), status)
        };
        let is_stuck =
            |problem: Option<DeploymentProblem>| matches!(problem, Some(DeploymentProblem::Stuck(_)));
        let stuck = rolling("True");
        assert_eq!(check(&wanted(), Some(&stuck), Rollout::MayProgress), None);
        assert!(is_stuck(check(&wanted(), Some(&stuck), Rollout::MustBeComplete)));
        let down = rolling("False");
        assert!(is_stuck(check(&wanted(), Some(&down), Rollout::MayProgress)));
    }

    #[test]
    fn a_deployment_without_pods_reports_the_reason() {
        let told = |conditions: Value| {
            let live = live(hash(), json!({}), json!({"conditions": conditions}));
            creation_failure(&live).map(str::to_owned)
        };
        let failure = |status: &str| json!([{"type": "ReplicaFailure", "status": status, "reason": "FailedCreate", "message": "forbidden: quota"}]);
        assert_eq!(told(failure("True")).as_deref(), Some("forbidden: quota"));
        assert_eq!(told(failure("False")), None);
        let progressing = |reason: &str| json!([{"type": "Progressing", "status": "False", "reason": reason, "message": "m"}]);
        assert_eq!(told(progressing("ReplicaSetCreateError")).as_deref(), Some("m"));
        assert_eq!(told(progressing("DeploymentPaused")).as_deref(), Some("m"));
        assert_eq!(told(progressing("ProgressDeadlineExceeded")), None);
        assert_eq!(told(json!([])), None);
    }

    #[test]
    fn two_replicas_with_one_pod_gone_stay_healthy_while_available() {
        let one_gone = json!({"observedGeneration": 2, "replicas": 2, "updatedReplicas": 2, "unavailableReplicas": 1, "conditions": [{"type": "Available", "status": "True"}]});
        check_live(hash(), json!({"a": "1"}), one_gone, None);
    }
}
