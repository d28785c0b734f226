//! Whether there is room for one more content, and what has to go for it. Pure.
//!
//! All contents together have a bound. Within it whoever comes first is served; at it each namespace has its part, so that the
//! catalogs of one do not take away what those of another need.

use std::collections::BTreeMap;

use olm_runtime::NamespacedName;

/// Bytes that contents may take.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bounds {
    /// Those of the catalogs in one namespace.
    pub(super) namespace: usize,
    /// All of them.
    pub(super) total: usize,
}

/// A content that is in memory.
#[derive(Debug, Clone, Copy)]
pub(super) struct Kept<'a> {
    pub(super) key: &'a NamespacedName,
    pub(super) bytes: usize,
}

/// What is to be done with a content that was read.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Admission {
    /// It is kept, and these are not any more.
    Admitted { instead_of: Vec<NamespacedName> },
    /// It is not kept: why.
    Refused(String),
}

/// Whether the content of `key` has room for its `bytes` beside what is `kept`, its own former content left out.
pub(super) fn admit<'a>(
    kept: impl IntoIterator<Item = Kept<'a>>,
    key: &NamespacedName,
    bytes: usize,
    bounds: Bounds,
) -> Admission {
    let others: Vec<Kept<'_>> = kept.into_iter().filter(|kept| kept.key != key).collect();
    let mut namespaces: BTreeMap<&str, usize> = BTreeMap::from([(key.namespace.as_str(), 0)]);
    for other in &others {
        let of_namespace = namespaces.entry(&other.key.namespace).or_default();
        *of_namespace = of_namespace.saturating_add(other.bytes);
    }
    let beside = namespaces
        .get(key.namespace.as_str())
        .copied()
        .unwrap_or_default();
    if beside.saturating_add(bytes) > bounds.namespace {
        return Admission::Refused(format!(
            "this catalog takes {} MiB of memory, those of its namespace that are in use take {} MiB already, and may take {} MiB \
             together",
            bytes >> 20,
            beside >> 20,
            bounds.namespace >> 20
        ));
    }
    let mut all: usize = namespaces
        .values()
        .fold(bytes, |sum, bytes| sum.saturating_add(*bytes));
    let mut instead_of = Vec::new();
    if all <= bounds.total {
        return Admission::Admitted { instead_of };
    }
    let part = bounds.total / namespaces.len();
    if beside.saturating_add(bytes) > part {
        return Admission::Refused(format!(
            "this catalog takes {} MiB of memory, all that are in use may take {} MiB together, and those of its namespace would \
             take more than their part of {} MiB",
            bytes >> 20,
            bounds.total >> 20,
            part >> 20
        ));
    }
    let mut others = others;
    // The largest first, so that as few as possible go.
    others.sort_by_key(|other| std::cmp::Reverse(other.bytes));
    while all > bounds.total {
        let most = namespaces
            .iter()
            .filter(|(namespace, _)| **namespace != key.namespace)
            .max_by_key(|(_, bytes)| **bytes);
        let Some((namespace, _)) = most else { break };
        let namespace = (*namespace).to_owned();
        let Some(place) = others.iter().position(|other| other.key.namespace == namespace) else {
            break;
        };
        let gone = others.remove(place);
        all = all.saturating_sub(gone.bytes);
        if let Some(bytes) = namespaces.get_mut(namespace.as_str()) {
            *bytes = bytes.saturating_sub(gone.bytes);
        }
        instead_of.push(gone.key.clone());
    }
    Admission::Admitted { instead_of }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUNDS: Bounds = Bounds {
        namespace: 60 << 20,
        total: 100 << 20,
    };

    /// What comes of `catalog` with so many MiB beside `kept`, each `namespace/name` with its MiB.
    fn admitted(kept: &[(&str, usize)], catalog: &str, mebibytes: usize) -> Result<String, String> {
        let key = |text: &str| {
            let (namespace, name) = text.split_once('/').unwrap();
            NamespacedName::new(namespace, name)
        };
        let keys: Vec<(NamespacedName, usize)> =
            kept.iter().map(|(text, size)| (key(text), size << 20)).collect();
        let kept = keys.iter().map(|(key, bytes)| Kept { key, bytes: *bytes });
        match admit(kept, &key(catalog), mebibytes << 20, BOUNDS) {
            Admission::Admitted { instead_of } => {
                let gone: Vec<String> = instead_of.iter().map(ToString::to_string).collect();
                Ok(gone.join(" "))
            }
            Admission::Refused(text) => Err(text),
        }
    }

    #[test]
    fn within_the_bounds_whoever_comes_is_served() {
        let kept = [("a/one", 30), ("b/one", 40)];
        assert_eq!(admitted(&kept, "a/two", 30), Ok(String::new()));
        assert_eq!(
            admitted(&kept, "b/one", 60),
            Ok(String::new()),
            "its former content goes"
        );
    }

    #[test]
    fn a_namespace_has_a_bound_of_its_own() {
        let text = admitted(&[("a/one", 40)], "a/two", 21).unwrap_err();
        insta::assert_snapshot!(text, @"this catalog takes 21 MiB of memory, those of its namespace that are in use take 40 MiB already, and may take 60 MiB together");
    }

    /// Two tenants have filled everything; the third gets its part, and the one that has most pays for it.
    #[test]
    fn a_namespace_within_its_part_takes_the_place_of_the_one_that_has_most() {
        let kept = [("a/small", 10), ("a/large", 45), ("b/one", 25), ("b/two", 20)];
        assert_eq!(admitted(&kept, "c/one", 30), Ok("a/large".to_owned()));
        let kept = [("a/one", 50), ("b/one", 50)];
        let text = admitted(&kept, "c/one", 34).unwrap_err();
        insta::assert_snapshot!(text, @"this catalog takes 34 MiB of memory, all that are in use may take 100 MiB together, and those of its namespace would take more than their part of 33 MiB");
    }
}
