//! The Operator controller: lists all objects with the label of an operator (`docs/reference/operators.md`).
//!
//! # Expected flow
//! `observe` finds the labelled objects with an index. If one of them requires an Operator ([`founder`]) and
//! there is none, it is created at once; the next reconcile writes its status. Changes of an Operator that
//! OLM created are collected for a while ([`triggers::gather`]), and an unchanged status is not written.
//!
//! OLM deletes it after a while without an object that requires it. If a user deletes an Operator, it is
//! recreated while objects have its label.

pub(crate) mod components;
pub(crate) mod founder;
pub(crate) mod status;
pub(crate) mod triggers;

#[cfg(test)]
mod tests;

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use k8s_openapi::api::core::v1::ObjectReference;
use kube::Resource;
use olm_api::{labels, names::is_dns1123_subdomain, v1::Operator};
use olm_runtime::{
    NamespacedName, Timestamp,
    driver::{Reconciler, StatusUpdate},
    error::ObserveError,
    key::reference,
    outcome::Outcomes,
    plan::{Action, Plan, Requeue, Target},
};
use serde_json::json;

use crate::{
    operator::components::{ComponentIndex, Found},
    operator_sketch::OperatorSketch,
    stores::Stores,
};

/// Time for which an Operator that OLM created is kept without an object that requires it. A reinstall in
/// this time reuses it.
pub(crate) const KEPT_UNHELD: Duration = Duration::from_secs(10 * 60);

pub(crate) struct Operators {
    pub(crate) stores: Stores,
    pub(crate) index: ComponentIndex,
}

/// An Operator and its components.
#[derive(Debug, Clone)]
pub(crate) struct Observed {
    pub(crate) name: String,
    pub(crate) operator: Option<Arc<OperatorSketch>>,
    /// Label of its components.
    pub(crate) label: String,
    pub(crate) found: Found,
}

/// State passed to the next reconcile.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Known {
    /// True when the Operator existed.
    pub(crate) was_there: bool,
    /// Time since no object requires it.
    pub(crate) unheld_since: Option<Timestamp>,
}

/// State passed from `decide` to `status`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Verdict {
    pub(crate) known: Known,
    /// True when its status is due: it stays, and is not so new that its components are still being collected.
    pub(crate) is_due: bool,
}

#[async_trait]
impl Reconciler for Operators {
    type Key = NamespacedName;
    type Observed = Observed;
    type Verdict = Verdict;
    type Memory = Known;

    const NAME: &'static str = "operator";

    fn regarding(&self, key: &NamespacedName) -> Option<ObjectReference> {
        let found = self.stores.operators.get_key(key)?;
        Some(reference::<Operator>(key, found.uid()))
    }

    async fn observe(&self, key: &NamespacedName) -> Result<Option<Observed>, ObserveError> {
        let Some(label) = labels::component_label_of(&key.name) else {
            return Ok(None);
        };
        let operator = self.stores.operators.get_key(key);
        let found = components::find(&self.index, &key.name, &label);
        // It may have existed a moment ago.
        let nothing = operator.is_none() && found.refs.is_empty();
        Ok((!nothing).then(|| Observed {
            name: key.name.clone(),
            operator,
            label,
            found,
        }))
    }

    fn decide(observed: &Observed, known: Option<&Known>, now: Timestamp) -> (Plan, Verdict) {
        decide(observed, known.copied().unwrap_or_default(), now)
    }

    fn status(observed: &Observed, verdict: Verdict, _: &Outcomes, _: Timestamp) -> StatusUpdate<Known> {
        status::status(observed, verdict)
    }
}

/// Creates the Operator if one is required and missing. Deletes it if OLM created it and no object has
/// required it for long enough.
pub(crate) fn decide(observed: &Observed, known: Known, now: Timestamp) -> (Plan, Verdict) {
    let mut plan = Plan::default();
    let Some(operator) = &observed.operator else {
        // An Operator that a user deleted is recreated as long as it has components, as upstream does.
        let was_ended = known.unheld_since.is_some_and(|since| left(since, now).is_zero());
        let is_wanted = observed.found.is_founded || known.was_there && !was_ended;
        if is_wanted && is_dns1123_subdomain(&observed.name) {
            plan.actions.push(create(&observed.name));
        }
        let known = Known {
            was_there: known.was_there && is_wanted,
            unheld_since: None,
        };
        return (plan, Verdict { known, is_due: false });
    };
    let is_kept = !operator.is_ours || observed.found.is_founded || operator.is_deleting();
    let since = (!is_kept).then(|| known.unheld_since.unwrap_or(now));
    let left = since.map(|since| left(since, now));
    let goes = left == Some(Duration::ZERO);
    if goes {
        let target = Target::cluster::<Operator>(&observed.name);
        plan.actions.push(Action::delete(target, operator.uid()));
    } else if let Some(delay) = left {
        plan.requeue = Requeue::after(delay, "deletion of an unused Operator is due");
    }
    // Its components come in the next moments; without this each install would write one status more.
    let is_new = operator.is_ours && !known.was_there;
    if is_new {
        plan.requeue = plan.requeue.sooner(Requeue::after(
            triggers::GATHER,
            "first status of an Operator is due",
        ));
    }
    let known = Known {
        was_there: true,
        unheld_since: since,
    };
    let is_due = !goes && !is_new;
    (plan, Verdict { known, is_due })
}

/// Returns the time until it is deleted.
fn left(since: Timestamp, now: Timestamp) -> Duration {
    let passed = Duration::try_from(now.duration_since(since)).unwrap_or_default();
    KEPT_UNHELD.saturating_sub(passed)
}

fn create(name: &str) -> Action {
    let object = json!({
        "apiVersion": Operator::api_version(&()), "kind": Operator::kind(&()),
        // The label marks Operators that OLM created; only these are deleted.
        "metadata": {"name": name, "labels": {labels::MANAGED: labels::TRUE}}, "spec": {},
    });
    Action::create_or_keep(Target::cluster::<Operator>(name), object)
}
