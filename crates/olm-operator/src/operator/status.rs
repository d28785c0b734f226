//! The status of an Operator. Pure.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};
use olm_api::{
    condition::operator::TOO_MANY_COMPONENTS,
    v1::{Components, Operator, RichReference},
};
use olm_runtime::{
    NamespacedName,
    driver::StatusUpdate,
    key::reference,
    plan::{Action, EventDraft, Guard, Identity, Target, to_value},
};
use serde_json::{Value, json};

use super::components::{MAX_COMPONENTS, order};
use crate::{
    component,
    operator::{Known, Observed, Verdict},
    operator_sketch::{OperatorSketch, StatusHash},
};

/// Bytes of JSON that the list takes at most; etcd takes objects of 1.5 MiB.
const MAX_BYTES: usize = 512 * 1024;

/// The status write, if the status says something else, and a warning where it cannot list everything.
pub(crate) fn status(observed: &Observed, verdict: Verdict) -> StatusUpdate<Known> {
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
    let warning = (is_cut && !verdict.known.is_told).then(|| too_many(observed, operator, refs.len()));
    let known = Known {
        is_told: is_cut,
        ..verdict.known
    };
    StatusUpdate {
        patches: Vec::from_iter(write(observed, operator, refs)),
        events: Vec::from_iter(warning),
        memory: known.to_be_kept(),
        ..StatusUpdate::default()
    }
}

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
    // Of what is there only the hash is known, so all that counts is said, also what is not to be.
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
            uid: operator.uid().map(str::to_owned),
            resource_version: None,
        },
        identity: Identity::Operator,
    })
}

/// As many of the components as a status takes. What others labelled in their namespaces does not displace what is in the
/// Operator's own or in none.
fn listed(name: &str, components: &[RichReference]) -> Vec<RichReference> {
    let is_elsewhere =
        |found: &RichReference| !component::is_near(name, found.namespace.as_deref().unwrap_or_default());
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
    let regarding = reference::<Operator>(&key, operator.uid().map(str::to_owned));
    let message = format!(
        "{} objects bear the label {}, more than a status takes: it lists {listed} of them, those without namespace and of the \
         operator's own first. Remove the label from what does not belong to the operator.",
        observed.found.total, observed.label
    );
    EventDraft::warning(regarding, TOO_MANY_COMPONENTS, message)
}
