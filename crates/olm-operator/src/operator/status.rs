//! The status of an Operator. No I/O.

use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};
use olm_api::{
    condition::operator::TOO_MANY_COMPONENTS,
    v1::{Components, Operator, RichReference},
};
use olm_runtime::{
    NamespacedName, Timestamp,
    driver::StatusUpdate,
    key::reference,
    plan::{Action, EventDraft, Guard, Identity, Requeue, Target, to_value},
};
use serde_json::{Value, json};

use super::components::{MAX_COMPONENTS, order};
use crate::{
    component,
    operator::{Known, Observed, Verdict},
    operator_sketch::{OperatorSketch, StatusHash},
};

/// Limit of the list as JSON, in bytes; etcd accepts objects of 1.5 MiB.
const MAX_BYTES: usize = 512 * 1024;

/// Time after the start in which a status of an earlier process is not changed. Components are reconciled at
/// the start, too, and many of them are written then after another OLM.
const BEGINNING: Duration = Duration::from_secs(5);

/// Time before the report that a status does not list all components is repeated.
const TOLD_FOR: Duration = Duration::from_secs(60 * 60);

/// Returns the status write, if the status changes, and a warning if it cannot list everything.
pub(crate) fn status(observed: &Observed, verdict: Verdict, now: Timestamp) -> StatusUpdate<Known> {
    let alive = observed
        .operator
        .as_ref()
        .filter(|operator| !operator.is_deleting() && !verdict.goes);
    let Some(operator) = alive else {
        return StatusUpdate {
            memory: verdict.known.to_be_kept(),
            ..StatusUpdate::default()
        };
    };
    let refs = listed(&observed.name, &observed.found.refs);
    let is_cut = refs.len() < observed.found.total;
    let known = verdict.known;
    let told = known.told.filter(|told| passed(*told, now) < TOLD_FOR);
    let warning = (is_cut && told.is_none()).then(|| too_many(observed, operator, refs.len()));
    let (mut patches, mut requeue, mut written) = (Vec::new(), Requeue::AwaitChange, known.written);
    let (mut outdated_since, mut was_right) = (None, true);
    if let Some(action) = write(observed, operator, refs) {
        let is_before = !known.written && !known.was_right && !operator.status.is_empty();
        was_right = known.was_right;
        outdated_since = is_before.then(|| known.outdated_since.unwrap_or(now));
        let delay = outdated_since.map_or(Duration::ZERO, |since| {
            BEGINNING.saturating_sub(passed(since, now))
        });
        if delay.is_zero() {
            patches.push(action);
            written = true;
        } else {
            let reason = "debounce of component changes";
            requeue = Requeue::After { delay, reason };
        }
    }
    let known = Known {
        told: is_cut.then_some(now).or(told),
        written,
        outdated_since,
        was_right,
        ..known
    };
    StatusUpdate {
        patches,
        events: Vec::from_iter(warning),
        requeue,
        memory: known.to_be_kept(),
    }
}

/// Time since `then`; very long if a clock was set back.
fn passed(then: Timestamp, now: Timestamp) -> Duration {
    Duration::try_from(now.duration_since(then)).unwrap_or(Duration::MAX)
}

fn is_near(name: &str, found: &RichReference) -> bool {
    component::is_near(name, found.namespace.as_deref().unwrap_or_default())
}

/// Returns the write; `None` when the status already matches.
fn write(observed: &Observed, operator: &OperatorSketch, refs: Vec<RichReference>) -> Option<Action> {
    let exists = LabelSelectorRequirement {
        key: observed.label.clone(),
        operator: "Exists".to_owned(),
        values: None,
    };
    let components = Components {
        label_selector: LabelSelector {
            match_expressions: Some(vec![exists]),
            match_labels: None,
        },
        refs: refs.into(),
        ..Components::default()
    };
    if StatusHash::of_components(&components) == operator.status {
        return None;
    }
    // Only the hash of the stored status is known, so all fields are written, including those to remove.
    let mut wanted = to_value(&components);
    wanted["labelSelector"]["matchLabels"] = Value::Null;
    if components.refs.is_empty() {
        wanted["refs"] = Value::Null;
    }
    Some(Action::Patch {
        target: Target::cluster::<Operator>(&observed.name),
        patch: json!({"status": {"components": wanted}}),
        subresource: Some("status"),
        guard: Guard {
            uid: operator.uid(),
            resource_version: None,
        },
        identity: Identity::Operator,
    })
}

/// Returns the components that fit into a status. Objects labelled in other namespaces do not displace
/// cluster-scoped ones or those of the Operator's own namespace.
fn listed(name: &str, components: &[RichReference]) -> Vec<RichReference> {
    let is_elsewhere = |found: &RichReference| !is_near(name, found);
    let mut refs = components.to_vec();
    refs.sort_by_key(is_elsewhere);
    refs.truncate(MAX_COMPONENTS);
    let mut bytes = 0;
    refs.retain(|found| {
        bytes += to_value(found).to_string().len();
        bytes <= MAX_BYTES
    });
    refs.sort_by(|a, b| order(a).cmp(&order(b)));
    refs
}

fn too_many(observed: &Observed, operator: &OperatorSketch, listed: usize) -> EventDraft {
    let key = NamespacedName::cluster(&observed.name);
    let regarding = reference::<Operator>(&key, operator.uid());
    let message = format!(
        "{} objects have the label {}, more than the status can list. It lists {listed}, cluster-scoped objects and the operator's own first. Remove the label from objects that do not belong to the operator.",
        observed.found.total, observed.label
    );
    EventDraft::warning(regarding, TOO_MANY_COMPONENTS, message)
}
