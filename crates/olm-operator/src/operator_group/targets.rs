//! Computes the namespaces that an OperatorGroup selects (`docs/reference/operator-groups.md`).

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::Namespace;
use kube::{
    ResourceExt,
    core::{PartialObjectMeta, Selector, SelectorExt},
};
use olm_api::{install_mode::NAMESPACE_ALL, v1::OperatorGroupSpec};

/// Criterion by which an OperatorGroup's spec selects namespaces.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Selection {
    /// By name, whether or not they exist.
    Names(BTreeSet<String>),
    /// All namespaces.
    All,
    /// By labels.
    Labels(Selector),
}

impl Selection {
    /// Reads the spec: an explicit list takes precedence over a selector, and without a selector all are
    /// selected.
    ///
    /// # Errors
    /// The error in the spec, for users.
    pub(crate) fn read(spec: &OperatorGroupSpec) -> Result<Self, String> {
        if !spec.target_namespaces.is_empty() {
            if spec.target_namespaces.iter().any(String::is_empty) {
                return Err(format!(
                    "TargetNamespaces cannot contain NamespaceAll: [{}]",
                    spec.target_namespaces.join(" ")
                ));
            }
            return Ok(Self::Names(spec.target_namespaces.iter().cloned().collect()));
        }
        let selector = spec.selector.clone().unwrap_or_default();
        let selector = Selector::try_from(selector).map_err(|error| format!("spec.selector: {error}"))?;
        if selector.selects_all() {
            return Ok(Self::All);
        }
        Ok(Self::Labels(selector))
    }

    /// Returns the selected names; only `""` for all. `namespaces` is only used for a selection by labels.
    pub(crate) fn names<'a>(
        self,
        namespaces: impl IntoIterator<Item = &'a PartialObjectMeta<Namespace>>,
    ) -> BTreeSet<String> {
        match self {
            Self::Names(names) => names,
            Self::All => BTreeSet::from([NAMESPACE_ALL.to_owned()]),
            Self::Labels(selector) => namespaces
                .into_iter()
                .filter(|namespace| selector.matches(namespace.labels()))
                .map(ResourceExt::name_any)
                .collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn namespaces() -> [PartialObjectMeta<Namespace>; 3] {
        [("b", "x"), ("a", "x"), ("c", "y")].map(|(name, team)| {
            serde_json::from_value(json!({"metadata": {"name": name, "labels": {"team": team}}})).unwrap()
        })
    }

    #[track_caller]
    fn check(spec: Value, expected: Result<&[&str], &str>) {
        let spec: OperatorGroupSpec = serde_json::from_value(spec).unwrap();
        let expected = expected
            .map(|names| names.iter().map(|name| (*name).to_owned()).collect())
            .map_err(str::to_owned);
        let selected = Selection::read(&spec).map(|selection| selection.names(&namespaces()));
        assert_eq!(selected, expected);
    }

    #[test]
    fn og_016_a_list_wins_over_a_selector_and_is_not_checked_for_existence() {
        check(
            json!({"targetNamespaces": ["z", "a"], "selector": {"matchLabels": {"team": "y"}}}),
            Ok(&["a", "z"]),
        );
    }

    #[test]
    fn og_017_no_selector_and_an_empty_one_select_all() {
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
