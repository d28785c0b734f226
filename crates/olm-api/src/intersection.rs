//! Which OperatorGroups share namespaces, and the APIs that each lists. OLM fails a ClusterServiceVersion that brings an API of a group
//! with which its own shares a namespace. Pure (`docs/reference/operator-groups.md`).

use std::collections::BTreeSet;

use crate::api_key::{ApiSet, parse_api_set};
use crate::labels;
use crate::v1::OperatorGroup;

/// A set of target namespaces. "All namespaces" is exactly `{""}`; a set of `""` and other names is not
/// "all".
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NamespaceSet(BTreeSet<String>);

impl NamespaceSet {
    /// Creates the set of these names.
    pub fn new<S: Into<String>>(names: impl IntoIterator<Item = S>) -> Self {
        Self(names.into_iter().map(Into::into).collect())
    }

    /// Returns a group's targets for the intersection: its own namespace is added, unless there are no
    /// targets or they are "all".
    pub fn of_group<S: Into<String>>(own: &str, targets: impl IntoIterator<Item = S>) -> Self {
        let mut set = Self::new(targets);
        if set.0.first().is_some_and(|first| !first.is_empty()) {
            set.0.insert(own.to_owned());
        }
        set
    }

    /// True for `{""}`.
    pub fn is_all(&self) -> bool {
        self.0.len() == 1 && self.0.contains("")
    }

    /// True when both contain a common namespace; "all" intersects every set that is not empty.
    pub fn intersects(&self, other: &Self) -> bool {
        match (self.is_all(), other.is_all()) {
            (true, _) => !other.0.is_empty(),
            (_, true) => !self.0.is_empty(),
            (false, false) => !self.0.is_disjoint(&other.0),
        }
    }
}

/// Returns the APIs that a group lists as provided.
pub fn listed_apis(group: &OperatorGroup) -> ApiSet {
    let annotations = group.metadata.annotations.as_ref();
    let listed = annotations.and_then(|annotations| annotations.get(labels::PROVIDED_APIS));
    listed.map(|text| parse_api_set(text)).unwrap_or_default()
}
