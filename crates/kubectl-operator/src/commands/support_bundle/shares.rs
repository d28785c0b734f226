//! Selects the objects of a kind to keep if there are too many. The namespace with the most bytes loses its largest objects
//! first. Pure.

use std::collections::BTreeMap;

use serde_json::Value;

/// Objects of a kind, up to a maximum of bytes.
pub(super) struct Shares {
    most: usize,
    bytes: usize,
    namespaces: BTreeMap<String, Namespace>,
    dropped: BTreeMap<String, usize>,
}

/// The objects of one namespace.
#[derive(Default)]
struct Namespace {
    bytes: usize,
    /// Objects by size and arrival.
    objects: BTreeMap<(usize, usize), Value>,
    count: usize,
}

impl Shares {
    /// Returns an empty selection for at most `most` bytes.
    pub(super) fn new(most: usize) -> Self {
        Self {
            most,
            bytes: 0,
            namespaces: BTreeMap::new(),
            dropped: BTreeMap::new(),
        }
    }

    /// Adds an object with its number of bytes. It may replace others, or be dropped itself.
    pub(super) fn push(&mut self, object: Value, cost: usize) {
        let namespace = object["metadata"]["namespace"].as_str().unwrap_or_default();
        let of = self.namespaces.entry(namespace.to_owned()).or_default();
        of.count += 1;
        of.bytes += cost;
        of.objects.insert((cost, of.count), object);
        self.bytes += cost;
        while self.bytes > self.most {
            let largest = self.namespaces.iter_mut().max_by_key(|(_, of)| of.bytes);
            let Some((name, of)) = largest else {
                return;
            };
            let Some(((cost, _), _)) = of.objects.pop_last() else {
                return;
            };
            of.bytes -= cost;
            self.bytes -= cost;
            *self.dropped.entry(name.clone()).or_default() += 1;
        }
    }

    /// Returns the number of dropped objects by namespace.
    pub(super) fn dropped(&self) -> &BTreeMap<String, usize> {
        &self.dropped
    }

    /// Returns the kept objects by namespace, in order of arrival.
    pub(super) fn into_objects(self) -> Vec<Value> {
        let mut all = Vec::new();
        for of in self.namespaces.into_values() {
            let mut objects: Vec<_> = of.objects.into_iter().collect();
            objects.sort_by_key(|((_, at), _)| *at);
            all.extend(objects.into_iter().map(|(_, object)| object));
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_namespace_that_is_full_of_objects_takes_no_others_place() {
        let object =
            |namespace: &str, name: usize| json!({"metadata": {"namespace": namespace, "name": name}});
        let mut shares = Shares::new(100);
        for name in 0..50 {
            shares.push(object("aaa", name), 10);
            assert!(shares.bytes <= 100);
        }
        shares.push(object("aaa", 100), 90);
        for name in 0..3 {
            shares.push(object("olm", name), 10);
        }
        shares.push(object("zzz", 0), 5);
        assert_eq!(shares.dropped(), &BTreeMap::from([("aaa".to_owned(), 45)]));
        let kept: Vec<String> = shares
            .into_objects()
            .iter()
            .map(|object| {
                format!(
                    "{}/{}",
                    object["metadata"]["namespace"].as_str().unwrap(),
                    object["metadata"]["name"]
                )
            })
            .collect();
        assert_eq!(kept.iter().filter(|name| name.starts_with("olm/")).count(), 3);
        assert!(kept.contains(&"zzz/0".to_owned()));
        // The largest object is dropped first.
        assert!(!kept.contains(&"aaa/100".to_owned()), "{kept:?}");
        assert_eq!(kept[0], "aaa/0");
    }
}
