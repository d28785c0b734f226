//! Labels that make objects components of Operators (`docs/reference/operators.md`).

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use olm_api::labels;

/// Returns the component labels of an object.
pub(crate) fn labels_of(metadata: &ObjectMeta) -> impl Iterator<Item = &str> {
    let all = metadata.labels.iter().flatten().map(|(key, _)| key.as_str());
    all.filter(|key| labels::operator_of_component(key).is_some())
}

/// Names of the Operators that an object is a component of.
pub(crate) fn operators_of(metadata: &ObjectMeta) -> impl Iterator<Item = &str> {
    labels_of(metadata).filter_map(labels::operator_of_component)
}

/// Names of this length in bytes and more may have been truncated, considering characters trimmed after the
/// truncation.
const CUT_FROM: usize = 60;

/// True when an Operator of this name may belong to `namespace`. The name is `<package>.<namespace>`,
/// truncated to fit a label.
pub(crate) fn is_own(operator: &str, namespace: &str) -> bool {
    let mut dots = operator.match_indices('.').filter(|(at, _)| *at > 0);
    if operator.len() >= CUT_FROM {
        return dots.any(|(at, _)| namespace.starts_with(operator.get(at + 1..).unwrap_or_default()));
    }
    // Names of namespaces contain no dots.
    dots.next_back()
        .is_some_and(|(at, _)| operator.get(at + 1..) == Some(namespace))
}

/// Returns the namespace in the name of an Operator, for turns among namespaces; `""` if it has none.
pub(crate) fn namespace_of(operator: &str) -> &str {
    operator.rsplit_once('.').map_or("", |(_, namespace)| namespace)
}

/// Returns the labels that make an object a component of the same Operators as `metadata`.
pub(crate) fn shared_labels(metadata: &ObjectMeta) -> BTreeMap<String, String> {
    labels_of(metadata)
        .map(|key| (key.to_owned(), String::new()))
        .collect()
}

/// Drops all labels except component labels; true when one remains.
pub(crate) fn keep_labels(metadata: &mut ObjectMeta) -> bool {
    let mut kept = metadata.labels.take().unwrap_or_default();
    kept.retain(|key, _| labels::operator_of_component(key).is_some());
    let is_component = !kept.is_empty();
    metadata.labels = is_component.then_some(kept);
    is_component
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(labels: impl IntoIterator<Item = String>) -> ObjectMeta {
        ObjectMeta {
            labels: Some(labels.into_iter().map(|key| (key, "x".to_owned())).collect()),
            ..ObjectMeta::default()
        }
    }

    #[test]
    fn other_labels_name_no_operator_and_are_not_kept() {
        let mut metadata = with(
            [
                "operators.coreos.com/a.ns",
                "olm.managed",
                "operators.example.com/b",
            ]
            .map(str::to_owned),
        );
        assert_eq!(operators_of(&metadata).collect::<Vec<_>>(), ["a.ns"]);
        assert!(keep_labels(&mut metadata));
        assert_eq!(metadata.labels.unwrap().len(), 1);
        let mut plain = with(["olm.managed".to_owned()]);
        assert!(!keep_labels(&mut plain));
        assert_eq!(plain.labels, None);
    }

    #[test]
    fn an_operator_is_of_the_namespace_that_its_name_ends_with() {
        let cut = format!("{}.golden", "p".repeat(56));
        for (operator, namespace, is) in [
            ("demo.ns", "ns", true),
            ("demo.v2.ns", "ns", true),
            ("demo.ns", "s", false),
            ("demo.ns", "ns2", false),
            ("demo", "demo", false),
            (".ns", "ns", false),
            (cut.as_str(), "golden-path", true),
            (cut.as_str(), "gold", false),
            ("demo.golden", "golden-path", false),
        ] {
            assert_eq!(is_own(operator, namespace), is, "{operator} {namespace}");
        }
        assert_eq!((namespace_of("demo.v2.ns"), namespace_of("demo")), ("ns", ""));
    }
}
