//! The state of a cluster as input of the checks. Each part is a value or the error of its read.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Pod;
use olm_api::extension_v1::{ClusterCatalog, ClusterExtension};
use olm_api::v1::OperatorGroup;
use olm_api::v1alpha1::{CatalogSource, ClusterServiceVersion};

use crate::operators::{Gathered, Key};
use crate::reader::Unreadable;
use crate::terminal::seconds;

/// Age, in seconds, from which a ClusterServiceVersion is older than a read; one takes less by default.
const NEW: i64 = 60;

/// Reason why a part was not read.
pub(super) type Unread = String;

/// A part of the state, or the reason why it was not read.
pub(super) type Read<T> = Result<T, Unread>;

/// The state of one namespace or of all. The module `read` fills it in.
#[derive(Debug)]
pub(crate) struct Observed {
    /// Namespace whose catalogs every namespace may use.
    pub(super) global: String,
    /// Namespace in which OLM runs.
    pub(super) olm: String,
    pub(super) now: Timestamp,
    /// Deployments of OLM in its namespace.
    pub(super) programs: Read<Vec<Deployment>>,
    /// True if an admission policy guards the labels that OLM trusts. `None` for a single namespace, whose users may lack
    /// permission to read policies.
    pub(super) guard: Option<Read<bool>>,
    /// ClusterCatalogs of OLM v1. `None` for a single namespace, without OLM v1, and if there are none.
    pub(super) cluster_catalogs: Option<Read<Vec<ClusterCatalog>>>,
    /// ClusterExtensions of OLM v1, likewise.
    pub(super) extensions: Option<Read<Vec<ClusterExtension>>>,
    /// Operator objects that list nothing and that OLM does not delete, because it did not create them. Empty for a single namespace,
    /// and if they cannot be read.
    pub(super) leftovers: Vec<String>,
    /// Objects that do not match their schemas.
    pub(super) unreadable: Vec<Unreadable>,
    /// Subscriptions with their InstallPlans, and ClusterServiceVersions without copies.
    pub(super) operators: Read<Gathered>,
    /// Catalogs of the namespaces, the global ones, and those that Subscriptions name.
    pub(super) catalogs: BTreeMap<Key, Read<Option<CatalogSource>>>,
    /// Namespaces whose catalogs could not be listed, with the reason.
    pub(super) unlisted_catalogs: Vec<(String, Unread)>,
    /// Pods of catalogs that are not ready.
    pub(super) catalog_pods: BTreeMap<Key, Read<Vec<Pod>>>,
    pub(super) groups: Read<Vec<OperatorGroup>>,
    /// ServiceAccounts that OperatorGroups name, and whether they exist.
    pub(super) accounts: BTreeMap<Key, Read<bool>>,
    /// Target namespaces other than the group's own, by namespace of the group, and whether they exist.
    pub(super) group_targets: BTreeMap<Key, Read<bool>>,
    /// Webhook configurations of both kinds.
    pub(super) webhooks: Read<Vec<Caller>>,
    pub(super) api_services: Read<Vec<Caller>>,
    /// Cluster-wide roles and bindings that belong to a ClusterServiceVersion.
    pub(super) roles: Read<Vec<Owned>>,
    /// Numbers of ready endpoints of Services that the API server calls; `None` if they do not exist.
    pub(super) services: BTreeMap<Key, Read<Option<usize>>>,
    /// CustomResourceDefinitions with a conversion webhook, and its Service.
    pub(super) conversions: Read<Vec<(String, Key)>>,
}

/// A cluster-wide object that a ClusterServiceVersion owns by labels.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Owned {
    pub(super) kind: String,
    pub(super) name: String,
    pub(super) owner: Key,
}

/// A configuration that makes the API server call a Service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Caller {
    pub(super) object: Owned,
    /// The Services.
    pub(super) targets: Vec<Key>,
    /// True for webhooks that the API server skips if it cannot call them.
    pub(super) is_optional: bool,
    /// Problem that the API server reports for it.
    pub(super) trouble: Option<String>,
}

impl Observed {
    /// Returns true if there is nothing for OLM to manage.
    pub(crate) fn has_no_operators(&self) -> bool {
        let is_empty = |found: &Gathered| found.subscriptions.is_empty() && found.csvs.is_empty();
        self.operators.as_ref().is_ok_and(is_empty)
    }

    /// Returns all objects that do not match their schemas.
    pub(super) fn unreadable(&self) -> impl Iterator<Item = &Unreadable> {
        let of_operators = self.operators.iter().flat_map(|found| &found.unreadable);
        self.unreadable.iter().chain(of_operators)
    }

    /// Returns true if this ClusterServiceVersion exists and is no copy. It is in a namespace that is checked.
    pub(super) fn has_csv(&self, key: &Key) -> Read<bool> {
        let found = self.operators.as_ref().map_err(Clone::clone)?;
        Ok(found.has_csv(key))
    }

    /// Returns false if a ClusterServiceVersion is in no list although something names it, or is new and no Subscription names it. The
    /// reads may be minutes apart: it may have been created meanwhile, and an upgrade passes the dependents to the next version. The
    /// remedy would be to delete them. OLM writes the status of a Subscription before it creates a version, so the next read has both.
    pub(super) fn is_consistent(&self) -> bool {
        let mut named = owners(self).chain(installed(self));
        named.all(|csv| self.has_csv(&csv) != Ok(false)) && !self.has_new_operator()
    }

    /// Returns true if a ClusterServiceVersion without a Subscription may be newer than the list of Subscriptions.
    fn has_new_operator(&self) -> bool {
        let is_new = |csv: &ClusterServiceVersion| {
            let created = csv.metadata.creation_timestamp.as_ref();
            created.is_some_and(|created| seconds(self.now, created.0) < NEW)
        };
        let operators = self.operators.iter().flat_map(Gathered::operators);
        let mut lone = operators.filter(|operator| operator.subscription.is_none());
        lone.any(|operator| operator.installed.is_some_and(is_new))
    }
}

/// Returns the ClusterServiceVersions that own something.
fn owners(observed: &Observed) -> impl Iterator<Item = Key> {
    let callers = observed.webhooks.iter().chain(&observed.api_services).flatten();
    let of_roles = observed.roles.iter().flatten();
    let owned = callers.map(|caller| &caller.object).chain(of_roles);
    owned.map(|owned| owned.owner.clone())
}

/// Returns the ClusterServiceVersions that Subscriptions installed.
fn installed(observed: &Observed) -> impl Iterator<Item = Key> {
    let subscriptions = observed.operators.iter().flat_map(|found| &found.subscriptions);
    subscriptions.filter_map(|subscription| {
        let csv = subscription.status.as_ref()?.installed_csv.clone()?;
        let namespace = subscription.metadata.namespace.clone()?;
        (!csv.is_empty()).then_some((namespace, csv))
    })
}
