//! The status of an Operator. No I/O.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};
use olm_api::v1::{Components, Operator};
use olm_runtime::{
    driver::StatusUpdate,
    plan::{Action, Guard, Identity, Target, to_value},
};
use serde_json::{Value, json};

use crate::{
    operator::{Known, Observed, Verdict},
    operator_sketch::{OperatorSketch, StatusHash},
};

/// Returns the status write, if the status changes.
pub(crate) fn status(observed: &Observed, verdict: Verdict) -> StatusUpdate<Known> {
    let operator = observed.operator.as_ref();
    let alive = operator.filter(|operator| !operator.is_deleting() && verdict.is_due);
    StatusUpdate {
        patches: Vec::from_iter(alive.and_then(|operator| write(observed, operator))),
        // The default needs no memory.
        memory: Some(verdict.known).filter(|known| *known != Known::default()),
        ..StatusUpdate::default()
    }
}

/// Returns the write; `None` when the status already matches.
fn write(observed: &Observed, operator: &OperatorSketch) -> Option<Action> {
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
        refs: observed.found.refs.clone().into(),
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
        guard: Guard::of_uid(operator.uid()),
        identity: Identity::Operator,
    })
}
