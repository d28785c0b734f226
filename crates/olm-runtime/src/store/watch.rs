//! Settings of a store's watch.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::core::PartialObjectMeta;
use kube::runtime::watcher;
use kube::{Client, Resource};

use super::Stored;
use super::set::prepare_metadata;

/// Objects per page of the initial list; small, because a page is decoded completely before it is pruned.
pub(super) const PAGE_SIZE: u32 = 100;

/// A requirement on the objects of a watch.
#[derive(Debug, Clone)]
pub(super) enum Requirement {
    Equals(String, String),
    Exists(String),
    Absent(String),
    /// These two are not labels. The request is limited to them, and the results of our writes are filtered by them.
    Namespace(String),
    Name(String),
}

/// Kind and selection of the watched objects, and the part of them to keep.
pub struct Watch<K> {
    pub(super) client: Client,
    pub(super) config: watcher::Config,
    pub(super) requirements: Vec<Requirement>,
    pub(super) prune: fn(&mut K),
}

impl<K: Stored> Watch<K> {
    /// Watches every object of the kind, in all namespaces.
    pub fn new(client: &Client) -> Self {
        Self {
            client: client.clone(),
            config: watcher::Config::default().page_size(PAGE_SIZE),
            requirements: Vec::new(),
            prune: |_| {},
        }
    }

    /// Selects only objects with label `key` equal to `value`.
    #[must_use]
    pub fn label_equals(self, key: &str, value: &str) -> Self {
        self.require(Requirement::Equals(key.to_owned(), value.to_owned()))
    }

    /// Selects only objects that have label `key`.
    #[must_use]
    pub fn label_exists(self, key: &str) -> Self {
        self.require(Requirement::Exists(key.to_owned()))
    }

    /// Selects only objects without label `key`.
    #[must_use]
    pub fn label_absent(self, key: &str) -> Self {
        self.require(Requirement::Absent(key.to_owned()))
    }

    /// Sets a function that removes unused parts of each object; `managedFields` are always removed.
    #[must_use]
    pub fn prune(mut self, prune: fn(&mut K)) -> Self {
        self.prune = prune;
        self
    }

    /// Watches only the metadata of the objects.
    pub(super) fn of_metadata(self) -> Watch<PartialObjectMeta<K>> {
        Watch {
            client: self.client,
            config: self.config,
            requirements: self.requirements,
            prune: |object| prepare_metadata(&mut object.metadata),
        }
    }

    fn require(mut self, requirement: Requirement) -> Self {
        self.requirements.push(requirement);
        self
    }

    /// Returns the settings of the request, without the requirements that the server cannot select by.
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
                Requirement::Namespace(_) | Requirement::Name(_) => None,
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
    })
}

/// Returns plural and group, as in the name of a CustomResourceDefinition.
pub(super) fn resource_name<K: Resource<DynamicType = ()>>() -> String {
    format!("{}.{}", K::plural(&()), K::group(&()))
}
