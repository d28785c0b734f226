//! Probes of a revision, which decide whether an object is ready. No I/O.
//!
//! Source of rules and texts: package `probing` of upstream's library `boxcutter`, and the default probes of its applier.

use std::collections::BTreeMap;

use go_compat::json::{Html, to_string};
use go_compat::quote;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube_core::{Selector, SelectorExt as _};
use olm_api::condition::TRUE;
use olm_api::extension_v1::{
    Assertion, AssertionType, ConditionEqual, FieldValue, FieldsEqual, ProbeSelector, ProbeSelectorType,
    ProgressionProbe,
};
use serde_json::{Value, json};

use super::object::ObjectId;
use crate::resolve;

/// Result of a probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum ProbeStatus {
    /// It passes.
    Passed,
    /// It fails.
    Failed,
    /// The object does not show whether it passes.
    Unknown,
}

/// Result of probes, with the messages that explain it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ProbeResult {
    pub(super) status: ProbeStatus,
    pub(super) messages: Vec<String>,
}

impl ProbeResult {
    fn of(status: ProbeStatus, message: impl Into<String>) -> Self {
        Self {
            status,
            messages: vec![message.into()],
        }
    }

    /// Result for objects that a probe does not select.
    fn passed() -> Self {
        Self {
            status: ProbeStatus::Passed,
            messages: Vec::new(),
        }
    }

    /// Returns the result of all together: the messages of the worst status.
    fn all(results: impl Iterator<Item = Self>) -> Self {
        let results: Vec<Self> = results.collect();
        let statuses = results.iter().map(|result| result.status);
        let status = statuses.max().unwrap_or(ProbeStatus::Passed);
        let messages = results.into_iter().filter(|result| result.status == status);
        Self {
            status,
            messages: messages.flat_map(|result| result.messages).collect(),
        }
    }

    /// True if the object is ready.
    pub(super) fn is_passed(&self) -> bool {
        self.status == ProbeStatus::Passed
    }

    /// Returns the lines of a report about the object.
    pub(super) fn lines(&self) -> String {
        let word = match self.status {
            ProbeStatus::Passed => "Succeeded",
            ProbeStatus::Failed => "Failed",
            ProbeStatus::Unknown => "Unknown",
        };
        let messages: String = self
            .messages
            .iter()
            .map(|message| format!("  - {message}\n"))
            .collect();
        format!("Probes:\n- Progress: {word}\n{messages}")
    }
}

/// Probes an object as it is in the cluster. Without probes every object passes. Lists of the API server leave the kind out, so `id` says
/// which object it is.
pub(super) fn probe(probes: &[ProgressionProbe], id: &ObjectId, object: &Value) -> ProbeResult {
    ProbeResult::all(probes.iter().map(|probe| {
        // Upstream looks at the generation before the selector, so that this message is repeated for each probe.
        let observed = object["status"]["observedGeneration"].as_i64();
        if observed.is_some_and(|observed| observed != generation(object)) {
            return ProbeResult::of(ProbeStatus::Unknown, ".status outdated");
        }
        if !selects(&probe.selector, id, object) {
            return ProbeResult::passed();
        }
        ProbeResult::all(probe.assertions.iter().map(|assertion| assert(assertion, object)))
    }))
}

/// True if a probe selects the object. An object that none selects is ready as soon as it is applied.
pub(super) fn is_probed(probes: &[ProgressionProbe], id: &ObjectId, object: &Value) -> bool {
    probes.iter().any(|probe| selects(&probe.selector, id, object))
}

/// Checks that the probes can be evaluated.
///
/// # Errors
/// A label selector that is not valid.
pub(super) fn check_probes(probes: &[ProgressionProbe]) -> Result<(), String> {
    for label in probes.iter().filter_map(|probe| probe.selector.label.as_ref()) {
        resolve::selects(Some(label), &BTreeMap::new())
            .map_err(|error| format!("invalid label selector in progressionProbe: {error}"))?;
    }
    Ok(())
}

fn generation(object: &Value) -> i64 {
    object["metadata"]["generation"].as_i64().unwrap_or_default()
}

fn selects(selector: &ProbeSelector, id: &ObjectId, object: &Value) -> bool {
    match selector.type_ {
        ProbeSelectorType::GroupKind => {
            let wanted = selector.group_kind.as_ref();
            wanted.is_some_and(|wanted| wanted.group == id.group && wanted.kind == id.kind)
        }
        ProbeSelectorType::Label => {
            let label = selector.label.as_ref();
            label.is_none_or(|label| labels_match(label, &object["metadata"]["labels"]))
        }
        ProbeSelectorType::Other(_) => false,
    }
}

fn labels_match(selector: &LabelSelector, labels: &Value) -> bool {
    let labels: BTreeMap<String, String> = serde_json::from_value(labels.clone()).unwrap_or_default();
    Selector::try_from(selector.clone()).is_ok_and(|selector| selector.matches(&labels))
}

fn assert(assertion: &Assertion, object: &Value) -> ProbeResult {
    let result = match assertion.type_ {
        AssertionType::ConditionEqual => assertion
            .condition_equal
            .as_ref()
            .map(|wanted| condition(wanted, object)),
        AssertionType::FieldsEqual => assertion
            .fields_equal
            .as_ref()
            .map(|wanted| fields(wanted, object)),
        AssertionType::FieldValue => assertion.field_value.as_ref().map(|wanted| field(wanted, object)),
        AssertionType::Other(_) => None,
    };
    result.unwrap_or_else(ProbeResult::passed)
}

fn condition(wanted: &ConditionEqual, object: &Value) -> ProbeResult {
    let unknown = |message: String| ProbeResult::of(ProbeStatus::Unknown, message);
    let type_ = &wanted.type_;
    let conditions = match object["status"].get("conditions") {
        None => return unknown("missing .status.conditions".to_owned()),
        Some(Value::Array(conditions)) if conditions.iter().all(Value::is_object) => conditions,
        Some(_) => return unknown("malformed .status.conditions".to_owned()),
    };
    let found = conditions
        .iter()
        .find(|condition| condition["type"] == type_.as_str());
    let Some(found) = found else {
        return unknown(format!("missing .status.condition[\"{type_}\"]"));
    };
    let observed = found["observedGeneration"].as_i64();
    if observed.is_some_and(|observed| observed != generation(object)) {
        return unknown(format!(".status.condition[\"{type_}\"] outdated"));
    }
    let status = found["status"].as_str().unwrap_or_default();
    let result = if status == wanted.status {
        ProbeStatus::Passed
    } else {
        ProbeStatus::Failed
    };
    ProbeResult::of(result, format!(".status.condition[\"{type_}\"] is {status}"))
}

/// Returns the value at a path such as `spec.replicas`.
fn at<'a>(object: &'a Value, path: &str) -> Option<&'a Value> {
    let mut names = path.trim_matches('.').split('.');
    names.try_fold(object, |value, name| value.as_object()?.get(name))
}

fn json(value: &Value) -> String {
    to_string(value, Html::Escaped)
}

fn fields(wanted: &FieldsEqual, object: &Value) -> ProbeResult {
    let failed = |message: String| ProbeResult::of(ProbeStatus::Failed, message);
    let (a, b) = (&wanted.field_a, &wanted.field_b);
    let Some(value_a) = at(object, a) else {
        return failed(format!("\"{a}\" missing"));
    };
    let Some(value_b) = at(object, b) else {
        return failed(format!("\"{b}\" missing"));
    };
    if value_a == value_b {
        return ProbeResult::of(ProbeStatus::Passed, format!("\"{a}\" == \"{b}\""));
    }
    failed(format!(
        "\"{a}\" != \"{b}\" expected: {} got: {}",
        json(value_a),
        json(value_b)
    ))
}

fn field(wanted: &FieldValue, object: &Value) -> ProbeResult {
    let (path, value) = (quote(&wanted.field_path), quote(&wanted.value));
    let Some(found) = at(object, &wanted.field_path) else {
        return ProbeResult::of(ProbeStatus::Failed, format!("missing key: {path}"));
    };
    if *found == *wanted.value {
        return ProbeResult::of(ProbeStatus::Passed, format!("value at key {path} == {value}"));
    }
    let expected = json(&Value::from(wanted.value.as_str()));
    let message = format!(
        "value at key {path} != {value}; expected: {expected} got: {}",
        json(found)
    );
    ProbeResult::of(ProbeStatus::Failed, message)
}

/// Returns the probes of a revision that OLM creates, in upstream's order.
pub(super) fn default_probes() -> Vec<ProgressionProbe> {
    const CERT_MANAGER: &str = "cert-manager.io";
    let is_true =
        |type_: &str| json!({"type": "ConditionEqual", "conditionEqual": {"type": type_, "status": TRUE}});
    let in_phase = |phase: &str| json!({"type": "FieldValue", "fieldValue": {"fieldPath": "status.phase", "value": phase}});
    let is_updated = json!({
        "type": "FieldsEqual",
        "fieldsEqual": {"fieldA": "status.updatedReplicas", "fieldB": "status.replicas"},
    });
    let is_rolled_out = [is_updated, is_true("Available")];
    let probes = [
        (
            "apiextensions.k8s.io",
            "CustomResourceDefinition",
            vec![is_true("Established")],
        ),
        (CERT_MANAGER, "Certificate", vec![is_true("Ready")]),
        (CERT_MANAGER, "Issuer", vec![is_true("Ready")]),
        ("", "Namespace", vec![in_phase("Active")]),
        ("", "PersistentVolumeClaim", vec![in_phase("Bound")]),
        ("apps", "StatefulSet", is_rolled_out.to_vec()),
        ("apps", "Deployment", is_rolled_out.to_vec()),
    ];
    let probe = |(group, kind, assertions): &(&str, &str, Vec<Value>)| {
        let selector = json!({"type": "GroupKind", "groupKind": {"group": group, "kind": kind}});
        json!({"selector": selector, "assertions": assertions})
    };
    // Every one of them decodes.
    serde_json::from_value(probes.iter().map(probe).collect()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelectorRequirement;

    use super::*;

    /// One row per kind and state: the object, and the status with its messages.
    #[test]
    fn default_probes_report_upstreams_messages() {
        use ProbeStatus::{Failed, Passed, Unknown};
        let deployment = |status: Value| json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"generation": 2}, "status": status});
        let with_condition = |condition: Value| {
            deployment(json!({"replicas": 1, "updatedReplicas": 1, "conditions": [condition]}))
        };
        let available = |status: &str| json!({"type": "Available", "status": status});
        let rows = [
            (json!({"apiVersion": "v1", "kind": "ConfigMap"}), Passed, ""),
            (
                json!({"apiVersion": "v1", "kind": "Namespace", "status": {"phase": "Terminating"}}),
                Failed,
                r#"value at key "status.phase" != "Active"; expected: "Active" got: "Terminating""#,
            ),
            (
                json!({"apiVersion": "v1", "kind": "Namespace", "status": {"phase": "Active"}}),
                Passed,
                r#"value at key "status.phase" == "Active""#,
            ),
            (
                json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim"}),
                Failed,
                r#"missing key: "status.phase""#,
            ),
            (
                json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition"}),
                Unknown,
                "missing .status.conditions",
            ),
            (
                json!({"apiVersion": "cert-manager.io/v1", "kind": "Issuer", "status": {"conditions": {}}}),
                Unknown,
                "malformed .status.conditions",
            ),
            (
                json!({"apiVersion": "cert-manager.io/v1", "kind": "Certificate", "status": {"conditions": []}}),
                Unknown,
                r#"missing .status.condition["Ready"]"#,
            ),
            (
                with_condition(available("True")),
                Passed,
                r#""status.updatedReplicas" == "status.replicas" and .status.condition["Available"] is True"#,
            ),
            (
                with_condition(available("False")),
                Failed,
                r#".status.condition["Available"] is False"#,
            ),
            (
                with_condition(json!({"type": "Available", "status": "True", "observedGeneration": 1})),
                Unknown,
                r#".status.condition["Available"] outdated"#,
            ),
            (
                deployment(json!({"replicas": 2, "updatedReplicas": 1, "conditions": [available("True")]})),
                Failed,
                r#""status.updatedReplicas" != "status.replicas" expected: 1 got: 2"#,
            ),
            (
                deployment(json!({"replicas": 2, "conditions": [available("False")]})),
                Failed,
                r#""status.updatedReplicas" missing and .status.condition["Available"] is False"#,
            ),
        ];
        let probes = default_probes();
        for (object, status, messages) in rows {
            let result = probe(&probes, &ObjectId::of(&object), &object);
            assert_eq!(
                (result.status, result.messages.join(" and ").as_str()),
                (status, messages),
                "{object}"
            );
        }
        let outdated = deployment(json!({"observedGeneration": 1}));
        assert_eq!(
            probe(&probes, &ObjectId::of(&outdated), &outdated).messages,
            [".status outdated"; 7]
        );
        assert_eq!(check_probes(&probes), Ok(()));
    }

    #[test]
    fn labels_select_objects() {
        let expression = |operator: &str, values: &[&str]| LabelSelector {
            match_expressions: Some(vec![LabelSelectorRequirement {
                key: "a".to_owned(),
                operator: operator.to_owned(),
                values: Some(values.iter().map(|value| (*value).to_owned()).collect()),
            }]),
            ..LabelSelector::default()
        };
        let equals = LabelSelector {
            match_labels: Some([("a".to_owned(), "1".to_owned())].into()),
            ..LabelSelector::default()
        };
        let rows = [
            (equals, [true, false, false]),
            (expression("In", &["1"]), [true, false, false]),
            (expression("NotIn", &["1"]), [false, true, true]),
            (expression("Exists", &[]), [true, true, false]),
            (expression("DoesNotExist", &[]), [false, false, true]),
        ];
        for (label, expected) in rows {
            let probe = ProgressionProbe {
                selector: ProbeSelector {
                    type_: ProbeSelectorType::Label,
                    label: Some(label),
                    ..ProbeSelector::default()
                },
                ..ProgressionProbe::default()
            };
            let found = [json!({"a": "1"}), json!({"a": "2"}), json!({})].map(|labels| {
                let object = json!({"metadata": {"labels": labels}});
                is_probed(std::slice::from_ref(&probe), &ObjectId::default(), &object)
            });
            assert_eq!(found, expected, "{probe:?}");
        }
    }

    #[test]
    fn probes_that_cannot_be_evaluated_are_reported() {
        let mut probe = default_probes().remove(0);
        probe.selector.label = Some(LabelSelector {
            match_expressions: Some(vec![LabelSelectorRequirement {
                key: "a".to_owned(),
                operator: "Near".to_owned(),
                values: None,
            }]),
            ..LabelSelector::default()
        });
        assert_eq!(
            check_probes(&[probe]).unwrap_err(),
            "invalid label selector in progressionProbe: \"Near\" is not a valid label selector operator"
        );
    }
}
