//! What a store watches.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::runtime::watcher;
use kube::{Client, Resource};

use super::Stored;

/// Objects a page of the initial list; small, because a page is decoded whole before it is pruned.
pub(super) const PAGE_SIZE: u32 = 100;

/// One requirement of a watch.
#[derive(Debug, Clone)]
pub(super) enum Requirement {
    Equals(String, String),
    Exists(String),
    Absent(String),
    /// These two are no labels: the request is for them alone, and what our writes return is judged by them.
    Namespace(String),
    Name(String),
    /// No selector of the server knows finalizers: what has none is dropped when it comes.
    Finalizer(String),
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

    /// Keeps only objects with finalizer `name`. The server sends the others, too, and nothing of them stays in memory.
    #[must_use]
    pub fn with_finalizer(self, name: &str) -> Self {
        self.require(Requirement::Finalizer(name.to_owned()))
    }

    /// Drops from each object what nobody reads; `managedFields` go afterwards in any case.
    #[must_use]
    pub fn prune(mut self, prune: fn(&mut K)) -> Self {
        self.prune = prune;
        self
    }

    fn require(mut self, requirement: Requirement) -> Self {
        self.requirements.push(requirement);
        self
    }

    /// What the server is asked for; the requirements that it cannot select by are left out.
    pub(super) fn config(&self) -> watcher::Config {
        let mut config = self.config.clone();
        config.label_selector = self.selector();
        config
    }

    fn selector(&self) -> Option<String> {
        let terms: Vec<String> = self
            .requirements
            .iter()
            .filter_map(|requirement| match requirement {
                Requirement::Equals(key, value) => Some(format!("{key}={value}")),
                Requirement::Exists(key) => Some(key.clone()),
                Requirement::Absent(key) => Some(format!("!{key}")),
                Requirement::Namespace(_) | Requirement::Name(_) | Requirement::Finalizer(_) => None,
            })
            .collect();
        (!terms.is_empty()).then(|| terms.join(","))
    }
}

pub(super) fn selected(requirements: &[Requirement], metadata: &ObjectMeta) -> bool {
    let label = |key| metadata.labels.as_ref().and_then(|labels| labels.get(key));
    requirements.iter().all(|requirement| match requirement {
        Requirement::Equals(key, value) => label(key) == Some(value),
        Requirement::Exists(key) => label(key).is_some(),
        Requirement::Absent(key) => label(key).is_none(),
        Requirement::Namespace(name) => metadata.namespace.as_ref() == Some(name),
        Requirement::Name(name) => metadata.name.as_ref() == Some(name),
        Requirement::Finalizer(name) => metadata.finalizers.iter().flatten().any(|found| found == name),
    })
}

/// Plural and group, as in the name of a CustomResourceDefinition.
pub(super) fn resource_name<K: Resource<DynamicType = ()>>() -> String {
    format!("{}.{}", K::plural(&()), K::group(&()))
}
