//! Who comes first where not all can: one of each namespace, then another of each. Pure.

use std::collections::{BTreeMap, VecDeque};

use crate::operators::Key;

/// The same in turn by namespace, those of one namespace in their order. Whose namespace is full, or whose name sorts first, hides nobody.
pub(crate) fn in_turn<T>(items: impl IntoIterator<Item = T>, namespace: impl Fn(&T) -> String) -> Vec<T> {
    let mut waiting: BTreeMap<String, VecDeque<T>> = BTreeMap::new();
    for item in items {
        waiting.entry(namespace(&item)).or_default().push_back(item);
    }
    let mut ordered = Vec::new();
    while !waiting.is_empty() {
        ordered.extend(waiting.values_mut().filter_map(VecDeque::pop_front));
        waiting.retain(|_, items| !items.is_empty());
    }
    ordered
}

/// The same of keys.
pub(crate) fn keys_in_turn(keys: impl IntoIterator<Item = Key>) -> Vec<Key> {
    in_turn(keys, |key| key.0.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn namespaces_take_turns() {
        let items = ["aaa/1", "aaa/2", "aaa/3", "shop/1", "shop/2", "zoo/1"];
        let namespace = |item: &&str| item.split('/').next().unwrap_or_default().to_owned();
        assert_eq!(
            in_turn(items, namespace),
            ["aaa/1", "shop/1", "zoo/1", "aaa/2", "shop/2", "aaa/3"]
        );
    }
}
