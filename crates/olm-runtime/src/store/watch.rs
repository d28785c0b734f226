//! What a store watches.

use std::collections::BTreeMap;

use kube::Client;
use kube::runtime::watcher;

use super::Stored;

/// Objects a page of the initial list; small, because a page is decoded whole before it is pruned.
const PAGE_SIZE: u32 = 100;

/// One label requirement of a watch.
#[derive(Debug, Clone)]
pub(super) enum Requirement {
    Equals(String, String),
    Exists(String),
    Absent(String),
}

/// What to watch and how much of it to keep.
pub struct Watch<K> {
    pub(super) client: Client,
    pub(super) config: watcher::Config,
    pub(super) requirements: Vec<Requirement>,
    pub(super) prune: fn(&mut K),
}

impl<K: Stored> Watch<K> {
    /// Every object of the kind, in all namespaces.
    pub fn new(client: &Client) -> Self {
        Self {
            client: client.clone(),
            config: watcher::Config::default().page_size(PAGE_SIZE),
            requirements: Vec::new(),
            prune: |_| {},
        }
    }

    /// Only objects with label `key` equal to `value`.
    #[must_use]
    pub fn label_equals(self, key: &str, value: &str) -> Self {
        self.require(Requirement::Equals(key.to_owned(), value.to_owned()))
    }

    /// Only objects that have label `key`.
    #[must_use]
    pub fn label_exists(self, key: &str) -> Self {
        self.require(Requirement::Exists(key.to_owned()))
    }

    /// Only objects without label `key`.
    #[must_use]
    pub fn label_absent(self, key: &str) -> Self {
        self.require(Requirement::Absent(key.to_owned()))
    }

    /// Drops from each object what nobody reads; `managedFields` always go.
    #[must_use]
    pub fn prune(mut self, prune: fn(&mut K)) -> Self {
        self.prune = prune;
        self
    }

    fn require(mut self, requirement: Requirement) -> Self {
        self.requirements.push(requirement);
        self
    }

    pub(super) fn selector(&self) -> Option<String> {
        let terms: Vec<String> = self
            .requirements
            .iter()
            .map(|requirement| match requirement {
                Requirement::Equals(key, value) => format!("{key}={value}"),
                Requirement::Exists(key) => key.clone(),
                Requirement::Absent(key) => format!("!{key}"),
            })
            .collect();
        (!terms.is_empty()).then(|| terms.join(","))
    }
}

pub(super) fn selected(requirements: &[Requirement], labels: &BTreeMap<String, String>) -> bool {
    requirements.iter().all(|requirement| match requirement {
        Requirement::Equals(key, value) => labels.get(key) == Some(value),
        Requirement::Exists(key) => labels.contains_key(key),
        Requirement::Absent(key) => !labels.contains_key(key),
    })
}
