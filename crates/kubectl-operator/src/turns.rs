//! Round-robin selection across namespaces, for limited numbers of items. Pure.

use std::collections::{BTreeMap, VecDeque};

/// Orders items so that namespaces take turns, and keeps the order within each. No namespace can hide others by its number of
/// items or its name.
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
