//! Labels that make objects components of Operators (`docs/reference/operators.md`).

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use olm_api::labels;

/// How many such labels of one object count, the first ones by name: whoever may label an object may write thousands of them, and
/// each makes an Operator come into being.
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
    fn of_very_many_labels_the_first_ones_count() {
        let metadata = with((10..100).map(|index| format!("operators.coreos.com/{index}")));
        assert_eq!(operators_of(&metadata).count(), MAX_LABELS);
        assert!(bears(&metadata, "operators.coreos.com/10"));
        assert!(bears(&metadata, "operators.coreos.com/99"));
    }
}
