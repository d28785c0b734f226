//! Common code of the ClusterRoles for users, those of OperatorGroups ([`crate::group_role`]) and those of
//! APIs ([`crate::api_role`]). It corrects changed ClusterRoles and reports names that others use. No I/O.
//!
//! Only ClusterRoles with OLM's label are in the store. A missing one is created and never applied, so that
//! an existing object of others is kept.

use std::{collections::BTreeSet, time::Duration};

use k8s_openapi::api::{core::v1::ObjectReference, rbac::v1::ClusterRole};
use kube::ResourceExt;
use olm_api::condition::user_role::NAME_TAKEN;
use olm_runtime::{
    driver::StatusUpdate,
    outcome::{Outcome, Outcomes},
    plan::{Action, EventDraft, Guard, Plan, Requeue, Target, to_value},
};
use serde_json::{Value, json};

use crate::csv::rbac::same_rules;

/// Interval of retries for a taken name, because its deletion is not watched.
const TAKEN_INTERVAL: Duration = Duration::from_secs(10 * 60);

/// Returns the write that makes a ClusterRole match `wanted`; `found` is OLM's existing one. Other labels
/// remain.
pub(crate) fn upkeep(wanted: &ClusterRole, found: Option<&ClusterRole>) -> Option<Action> {
    let target = Target::cluster::<ClusterRole>(&wanted.name_any());
    let Some(found) = found else {
        return Some(Action::create_or_keep(target, to_value(wanted)));
    };
    let guard = Guard::of_uid(found.uid());
    (!is_kept(wanted, found)).then(|| Action::patch(target, repair(wanted), guard))
}

/// True when the ClusterRole matches. Kubernetes writes the rules of an aggregated ClusterRole, so these are
/// not compared.
fn is_kept(wanted: &ClusterRole, found: &ClusterRole) -> bool {
    let has = |(key, value): (&String, &String)| found.labels().get(key) == Some(value);
    let aggregates = wanted.aggregation_rule.is_some();
    wanted.labels().iter().all(has)
        && wanted.owner_references() == found.owner_references()
        && wanted.aggregation_rule == found.aggregation_rule
        && (aggregates
            || same_rules(
                found.rules.as_deref(),
                wanted.rules.as_deref().unwrap_or_default(),
            ))
}

fn repair(wanted: &ClusterRole) -> Value {
    let mut patch = json!({
        "metadata": {"labels": wanted.labels(), "ownerReferences": wanted.owner_references()},
        "aggregationRule": wanted.aggregation_rule,
    });
    if wanted.aggregation_rule.is_none() {
        patch["rules"] = json!(wanted.rules.as_deref().unwrap_or_default());
    }
    patch
}

/// Names that the last reported event of a key is about.
pub(crate) type Sent = BTreeSet<String>;

/// State passed from a reconcile to [`status`].
#[derive(Debug, Default)]
pub(crate) struct Verdict {
    /// Names that others own, according to OLM's stores.
    pub(crate) taken: BTreeSet<String>,
    /// Names of the ClusterRoles that the plan writes, in order.
    pub(crate) written: Vec<String>,
    /// Names that were reported.
    pub(crate) sent: Sent,
}

/// Returns the plan for these writes, which are independent of each other.
pub(crate) fn plan(actions: Vec<Action>, taken: BTreeSet<String>, sent: Option<&Sent>) -> (Plan, Verdict) {
    let verdict = Verdict {
        taken,
        written: actions
            .iter()
            .map(|action| action.target().name.clone())
            .collect(),
        sent: sent.cloned().unwrap_or_default(),
    };
    let plan = Plan {
        independent: actions.len(),
        actions,
        ..Plan::default()
    };
    (plan, verdict)
}

/// Returns a warning about `regarding`, once for each set of names that others own.
pub(crate) fn status(
    regarding: ObjectReference,
    verdict: Verdict,
    outcomes: &Outcomes,
) -> StatusUpdate<Sent> {
    let Verdict { taken, written, sent } = verdict;
    let kept = written.into_iter().zip(outcomes.iter());
    let kept = kept.filter(|(_, outcome)| matches!(outcome, Outcome::Kept));
    let names: BTreeSet<String> = taken.into_iter().chain(kept.map(|(name, _)| name)).collect();
    if names.is_empty() {
        return StatusUpdate::default();
    }
    let is_news = names != sent;
    let event = is_news.then(|| EventDraft::warning(regarding, NAME_TAKEN, message(&names)));
    StatusUpdate {
        events: event.into_iter().collect(),
        requeue: Requeue::after(TAKEN_INTERVAL, "foreign objects with these names are not watched"),
        memory: Some(names),
        ..StatusUpdate::default()
    }
}

/// The names are last, because an Event may be cut.
fn message(names: &BTreeSet<String>) -> String {
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    format!(
        "Cannot create ClusterRoles for users because other objects have their names. Users have no rights through them until those objects are deleted or renamed: {}",
        names.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use olm_runtime::outcome::outcomes_for_tests;

    use super::*;

    #[track_caller]
    fn sent(before: Option<&Sent>, outcome: Outcome) -> StatusUpdate<Sent> {
        let target = Target::cluster::<ClusterRole>("x");
        let (_, verdict) = plan(
            vec![Action::create_or_keep(target, json!({}))],
            BTreeSet::new(),
            before,
        );
        status(
            ObjectReference::default(),
            verdict,
            &outcomes_for_tests(vec![outcome]),
        )
    }

    #[test]
    fn a_name_that_is_taken_is_reported_once() {
        let first = sent(None, Outcome::Kept);
        assert_eq!(first.events.len(), 1);
        let later = |update: &StatusUpdate<Sent>| match update.requeue {
            Requeue::After { delay, .. } => Some(delay),
            _ => None,
        };
        assert_eq!(later(&first), Some(TAKEN_INTERVAL));
        let second = sent(first.memory.as_ref(), Outcome::Kept);
        assert!(second.events.is_empty());
        assert_eq!(later(&second), Some(TAKEN_INTERVAL));
        let made = sent(second.memory.as_ref(), Outcome::Gone);
        assert_eq!((made.events.len(), made.memory), (0, None));
    }
}
