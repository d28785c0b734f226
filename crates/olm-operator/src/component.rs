//! Labels that make objects components of Operators (`docs/reference/operators.md`).

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use olm_api::labels;

/// How many such labels of one object count, the first ones by name: whoever may label an object may write thousands of them.
pub(crate) const MAX_LABELS: usize = 64;

/// The labels of an object that count.
pub(crate) fn labels_of(metadata: &ObjectMeta) -> impl Iterator<Item = &str> {
    let all = metadata.labels.iter().flatten().map(|(key, _)| key.as_str());
    all.filter(|key| labels::operator_of_component(key).is_some())
        .take(MAX_LABELS)
}

/// Names of the Operators that an object is a component of.
pub(crate) fn operators_of(metadata: &ObjectMeta) -> impl Iterator<Item = &str> {
    labels_of(metadata).filter_map(labels::operator_of_component)
}

/// Whether an object bears this label, however many others it has.
pub(crate) fn bears(metadata: &ObjectMeta, label: &str) -> bool {
    let labels = metadata.labels.as_ref();
    labels.is_some_and(|labels| labels.contains_key(label))
}

/// All such labels of an object, by which it is found.
pub(crate) fn all_labels(metadata: &ObjectMeta) -> BTreeSet<String> {
    let all = metadata.labels.iter().flatten().map(|(key, _)| key);
    all.filter(|key| labels::operator_of_component(key).is_some())
        .cloned()
        .collect()
}

/// Names of this many bytes and more may have been cut, also by what was trimmed then.
const CUT_FROM: usize = 60;

/// Whether an Operator of this name may be one of `namespace`: it is called `<package>.<namespace>`, cut as a label needs it.
pub(crate) fn is_own(operator: &str, namespace: &str) -> bool {
    let mut dots = operator.match_indices('.').filter(|(at, _)| *at > 0);
    if operator.len() >= CUT_FROM {
        return dots.any(|(at, _)| namespace.starts_with(operator.get(at + 1..).unwrap_or_default()));
    }
    // Names of namespaces have no dots.
    dots.next_back()
        .is_some_and(|(at, _)| operator.get(at + 1..) == Some(namespace))
}

/// Whether what is in `namespace`, or in none, is the Operator's before what others labelled in theirs.
pub(crate) fn is_near(operator: &str, namespace: &str) -> bool {
    namespace.is_empty() || is_own(operator, namespace)
}

/// The namespace in the name of an Operator, for a turn among others; `""` where it names none.
pub(crate) fn namespace_of(operator: &str) -> &str {
    operator.rsplit_once('.').map_or("", |(_, namespace)| namespace)
}

/// What makes an object a component of the same Operators as `metadata`, to be written on it.
pub(crate) fn shared_labels(metadata: &ObjectMeta) -> BTreeMap<String, String> {
    labels_of(metadata)
        .map(|key| (key.to_owned(), String::new()))
        .collect()
}

/// Drops all labels but those; true when one is left.
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
        assert!(is_near("demo.ns", ""));
        assert_eq!((namespace_of("demo.v2.ns"), namespace_of("demo")), ("ns", ""));
    }

    #[test]
    fn of_very_many_labels_the_first_ones_count() {
        let metadata = with((10..100).map(|index| format!("operators.coreos.com/{index}")));
        assert_eq!(operators_of(&metadata).count(), MAX_LABELS);
        assert!(bears(&metadata, "operators.coreos.com/10"));
        assert!(bears(&metadata, "operators.coreos.com/99"));
    }
}
