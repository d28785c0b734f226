//! Label selectors, checked with the messages of Kubernetes.

use go_compat::quote;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};
use kube_core::Selector;
use olm_api::names::{label_key_faults, label_value_faults};

/// Checks a selector; without one everything is selected.
///
/// # Errors
/// The first fault, in the words of Kubernetes.
pub(super) fn parse(selector: Option<&LabelSelector>) -> Result<Selector, String> {
    let Some(selector) = selector else {
        return Ok(Selector::default());
    };
    for (key, value) in selector.match_labels.iter().flatten() {
        check(key, std::slice::from_ref(value))?;
    }
    for requirement in selector.match_expressions.iter().flatten() {
        check_requirement(requirement)?;
    }
    Selector::try_from(selector.clone()).map_err(|error| error.to_string())
}

fn check_requirement(requirement: &LabelSelectorRequirement) -> Result<(), String> {
    let LabelSelectorRequirement {
        key,
        operator,
        values,
    } = requirement;
    let values = values.as_deref().unwrap_or_default();
    let fault = match operator.as_str() {
        "In" | "NotIn" if values.is_empty() => "for 'in', 'notin' operators, values set can't be empty",
        "Exists" | "DoesNotExist" if !values.is_empty() => {
            "values set must be empty for exists and does not exist"
        }
        "In" | "NotIn" | "Exists" | "DoesNotExist" => return check(key, values),
        other => return Err(format!("{} is not a valid label selector operator", quote(other))),
    };
    let values: Vec<String> = values.iter().map(|value| quote(value).to_string()).collect();
    Err(format!("values: Invalid value: [{}]: {fault}", values.join(",")))
}

fn check(key: &str, values: &[String]) -> Result<(), String> {
    let mut faults = Vec::new();
    let of_key = label_key_faults(key);
    if !of_key.is_empty() {
        faults.push(format!(
            "key: Invalid value: {}: {}",
            quote(key),
            of_key.join("; ")
        ));
    }
    for (index, value) in values.iter().enumerate() {
        let of_value = label_value_faults(value);
        if !of_value.is_empty() {
            faults.push(format!(
                "values[{index}][{key}]: Invalid value: {}: {}",
                quote(value),
                of_value.join("; ")
            ));
        }
    }
    match faults.as_slice() {
        [] => Ok(()),
        [one] => Err(one.clone()),
        // As Kubernetes prints several errors at once.
        several => Err(format!("[{}]", several.join(", "))),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn invalid_selectors_are_refused_in_the_words_of_kubernetes() {
        for (selector, error) in [
            (json!({}), None),
            (json!({"matchLabels": {"example.com/a": "b", "c": ""}}), None),
            (
                json!({"matchExpressions": [
                    {"key": "a", "operator": "In", "values": ["b"]}, {"key": "a", "operator": "NotIn", "values": ["c"]},
                    {"key": "a", "operator": "Exists"}, {"key": "d", "operator": "DoesNotExist"},
                ]}),
                None,
            ),
            (
                json!({"matchExpressions": [{"key": "a", "operator": "Near", "values": ["b"]}]}),
                Some(r#""Near" is not a valid label selector operator"#),
            ),
            (
                json!({"matchExpressions": [{"key": "a", "operator": "In"}]}),
                Some("values: Invalid value: []: for 'in', 'notin' operators, values set can't be empty"),
            ),
            (
                json!({"matchLabels": {"a": "b c"}}),
                Some(
                    "values[0][a]: Invalid value: \"b c\": a valid label must be an empty string or consist of alphanumeric \
                     characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or \
                     'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')",
                ),
            ),
            (
                json!({"matchLabels": {"/a": "b"}}),
                Some(r#"key: Invalid value: "/a": prefix part must be non-empty"#),
            ),
        ] {
            let parsed: LabelSelector = serde_json::from_value(selector.clone()).unwrap();
            let found = parse(Some(&parsed)).err();
            assert_eq!(found.as_deref(), error, "{selector}");
        }
    }
}
