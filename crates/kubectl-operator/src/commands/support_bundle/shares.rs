//! Which objects of a kind are kept where there are too many: each namespace has its share, and loses its largest first. Pure.

use std::collections::BTreeMap;

use serde_json::Value;

/// Objects of a kind as they come, of which so many bytes are kept.
pub(super) struct Shares {
    most: usize,
    bytes: usize,
    namespaces: BTreeMap<String, Namespace>,
    dropped: BTreeMap<String, usize>,
}

/// What is kept of one namespace.
#[derive(Default)]
struct Namespace {
    bytes: usize,
    /// By size, then in the order in which they came.
    objects: BTreeMap<(usize, usize), Value>,
    count: usize,
}

impl Shares {
    /// None yet, and never more than so many bytes.
    pub(super) fn new(most: usize) -> Self {
        Self {
            most,
            bytes: 0,
            namespaces: BTreeMap::new(),
            dropped: BTreeMap::new(),
        }
    }

    /// One more, and how much it counts. It may take the place of others, or be left out itself.
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

    /// How many were left out, by namespace.
    pub(super) fn dropped(&self) -> &BTreeMap<String, usize> {
        &self.dropped
    }

    /// What is kept, by namespace, in the order in which it came.
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
        // The largest goes first.
        assert!(!kept.contains(&"aaa/100".to_owned()), "{kept:?}");
        assert_eq!(kept[0], "aaa/0");
    }
}
