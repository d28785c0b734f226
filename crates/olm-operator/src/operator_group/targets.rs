//! Which namespaces an OperatorGroup selects (`docs/reference/operator-groups.md`).

use std::collections::{BTreeMap, BTreeSet};

use kube::core::{Selector, SelectorExt};
use olm_api::{install_mode::NAMESPACE_ALL, v1::OperatorGroupSpec};

/// A namespace, as a selector sees it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NamespaceLabels {
    /// Its name.
    pub name: String,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
}

/// The selected namespaces: an explicit list wins over a selector, and no selector selects all.
///
/// # Errors
/// For people: what in the spec makes no sense.
pub fn select(spec: &OperatorGroupSpec, namespaces: &[NamespaceLabels]) -> Result<BTreeSet<String>, String> {
    if !spec.target_namespaces.is_empty() {
        if spec.target_namespaces.iter().any(String::is_empty) {
            return Err(format!(
                "TargetNamespaces cannot contain NamespaceAll: [{}]",
                spec.target_namespaces.join(" ")
            ));
        }
        return Ok(spec.target_namespaces.iter().cloned().collect());
    }
    let selector = spec.selector.clone().unwrap_or_default();
    let selector = Selector::try_from(selector).map_err(|error| format!("spec.selector: {error}"))?;
    if selector.selects_all() {
        return Ok(BTreeSet::from([NAMESPACE_ALL.to_owned()]));
    }
    let matching = namespaces
        .iter()
        .filter(|namespace| selector.matches(&namespace.labels));
    Ok(matching.map(|namespace| namespace.name.clone()).collect())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn namespaces() -> Vec<NamespaceLabels> {
        let namespace = |name: &str, team: &str| NamespaceLabels {
            name: name.into(),
            labels: BTreeMap::from([("team".to_owned(), team.to_owned())]),
        };
        vec![namespace("b", "x"), namespace("a", "x"), namespace("c", "y")]
    }

    #[track_caller]
    fn check(spec: Value, expected: Result<&[&str], &str>) {
        let spec: OperatorGroupSpec = serde_json::from_value(spec).unwrap();
        let expected = expected
            .map(|names| names.iter().map(|name| (*name).to_owned()).collect())
            .map_err(str::to_owned);
        assert_eq!(select(&spec, &namespaces()), expected);
    }

    #[test]
    fn a_list_wins_over_a_selector_and_is_not_checked_for_existence() {
        check(
            json!({"targetNamespaces": ["z", "a"], "selector": {"matchLabels": {"team": "y"}}}),
            Ok(&["a", "z"]),
        );
    }

    #[test]
    fn no_selector_and_an_empty_one_select_all() {
        check(json!({}), Ok(&[""]));
        check(json!({"selector": {}}), Ok(&[""]));
        check(
            json!({"targetNamespaces": [], "selector": {"matchLabels": {}}}),
            Ok(&[""]),
        );
    }

    #[test]
    fn a_selector_picks_by_label_and_may_pick_nothing() {
        check(
            json!({"selector": {"matchLabels": {"team": "x"}}}),
            Ok(&["a", "b"]),
        );
        check(json!({"selector": {"matchLabels": {"team": "z"}}}), Ok(&[]));
        check(
            json!({"selector": {"matchExpressions": [{"key": "team", "operator": "NotIn", "values": ["x"]}]}}),
            Ok(&["c"]),
        );
    }

    #[test]
    fn all_among_others_is_refused() {
        check(
            json!({"targetNamespaces": ["a", ""]}),
            Err("TargetNamespaces cannot contain NamespaceAll: [a ]"),
        );
    }
}
