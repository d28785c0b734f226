//! The state of a cluster as input of the checks. Each part is a value or the error of its read.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;
use olm_api::extension_v1::{ClusterCatalog, ClusterExtension};
use olm_api::v1::OperatorGroup;
use olm_api::v1alpha1::{CatalogSource, ClusterServiceVersion, InstallPlan, Subscription};

use crate::operators::Key;
use crate::reader::Unreadable;

/// Reason why a part was not read.
pub(super) type Unread = String;

/// A part of the state, or the reason why it was not read.
pub(super) type Read<T> = Result<T, Unread>;

/// The state of one namespace or of all. The module `read` fills it in.
#[derive(Debug)]
pub(crate) struct Observed {
    /// The namespace; `None` for all namespaces.
    pub(super) namespace: Option<String>,
    /// Namespace whose catalogs every namespace may use.
    pub(super) global: String,
    /// Namespace in which OLM runs.
    pub(super) olm: String,
    pub(super) now: Timestamp,
    /// Deployments of OLM in its namespace; if there are none, those of all namespaces.
    pub(super) programs: Read<Vec<Deployment>>,
    /// True if an admission policy guards the labels that OLM trusts. `None` for a single namespace, whose users may lack
    /// permission to read policies.
    pub(super) guard: Option<Read<bool>>,
    /// ClusterCatalogs of OLM v1. `None` for a single namespace, without OLM v1, and if there are none.
    pub(super) cluster_catalogs: Option<Read<Vec<ClusterCatalog>>>,
    /// ClusterExtensions of OLM v1, likewise.
    pub(super) extensions: Option<Read<Vec<ClusterExtension>>>,
    /// Objects that do not match their schemas.
    pub(super) unreadable: Vec<Unreadable>,
    pub(super) subscriptions: Read<Vec<Subscription>>,
    /// Catalogs of the namespaces, the global ones, and those that Subscriptions name.
    pub(super) catalogs: BTreeMap<Key, Read<Option<CatalogSource>>>,
    /// Namespaces whose catalogs could not be listed, with the reason.
    pub(super) unlisted_catalogs: Vec<(String, Unread)>,
    /// Pods of catalogs that are not ready; missing if they may not be read.
    pub(super) catalog_pods: BTreeMap<Key, Vec<Pod>>,
    pub(super) groups: Read<Vec<OperatorGroup>>,
    /// OperatorGroups of all namespaces.
    pub(super) all_groups: Read<Vec<OperatorGroup>>,
    /// ServiceAccounts that OperatorGroups name, and whether they exist.
    pub(super) accounts: BTreeMap<Key, Read<bool>>,
    /// Target namespaces other than the group's own, by namespace of the group, and whether they exist.
    pub(super) group_targets: BTreeMap<Key, Read<bool>>,
    /// Accounts with any permission; read only if an OperatorGroup names a ServiceAccount.
    pub(super) bound: Read<Bound>,
    /// InstallPlans that Subscriptions refer to and that may be incomplete.
    pub(super) plans: BTreeMap<Key, Read<Option<InstallPlan>>>,
    /// ClusterServiceVersions without copies.
    pub(super) csvs: Read<Vec<ClusterServiceVersion>>,
    pub(super) copies: Read<Vec<Copied>>,
    /// ClusterServiceVersions that were in no list, and whether they exist. They are requested again after their dependents were
    /// read.
    pub(super) asked_again: BTreeMap<Key, Read<bool>>,
    /// Later values of `installedCSV` of Subscriptions whose ClusterServiceVersion seemed to be missing.
    pub(super) installed_since: BTreeMap<Key, Read<Option<String>>>,
    /// Names of original ClusterServiceVersions in other namespaces.
    pub(super) originals: BTreeMap<String, Read<BTreeSet<String>>>,
    /// Webhook configurations, by kind.
    pub(super) webhooks: Vec<(&'static str, Read<Vec<Caller>>)>,
    pub(super) api_services: Read<Vec<Caller>>,
    /// Cluster-wide roles and bindings that belong to a ClusterServiceVersion, by kind.
    pub(super) roles: Vec<(&'static str, Read<Vec<Owned>>)>,
    pub(super) services: BTreeMap<Key, Read<ServiceState>>,
    /// Services that OLM created for a ClusterServiceVersion. Their certificates are in a Secret of their own.
    pub(super) own_services: BTreeSet<Key>,
    pub(super) definitions: Read<Vec<Definition>>,
    /// Jobs that unpack bundles.
    pub(super) jobs: Read<Vec<Job>>,
    /// ConfigMaps of failed Jobs that are known to belong to unpacking.
    pub(super) unpacked: BTreeSet<Key>,
}

/// Subjects of bindings.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Bound {
    /// ServiceAccounts that are bound by name.
    pub(super) accounts: BTreeSet<Key>,
    /// Namespaces whose ServiceAccounts are all bound.
    pub(super) namespaces: BTreeSet<String>,
}

/// A copy of a ClusterServiceVersion.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Copied {
    pub(super) namespace: String,
    pub(super) name: String,
    /// Namespace of the original.
    pub(super) from: String,
    pub(super) is_going: bool,
}

/// A cluster-wide object that a ClusterServiceVersion owns by labels.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Owned {
    pub(super) name: String,
    pub(super) owner: Key,
}

/// A configuration that makes the API server call a Service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Caller {
    pub(super) name: String,
    /// The ClusterServiceVersion that owns it.
    pub(super) owner: Key,
    pub(super) targets: Vec<Target>,
    /// Problem that the API server reports for it.
    pub(super) trouble: Option<String>,
}

/// A Service that the API server calls.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Target {
    /// Namespace and name of the Service.
    pub(super) service: Key,
    /// Trusted certificates, as PEM; empty for those of the system.
    pub(super) ca: Vec<u8>,
}

/// The state of a Service as far as calls depend on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ServiceState {
    Gone,
    /// Number of endpoints that are ready.
    Ready(usize),
}

/// A CustomResourceDefinition.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Definition {
    pub(super) name: String,
    /// Versions, and whether they are served.
    pub(super) versions: BTreeMap<String, bool>,
    /// Version in which new objects are stored.
    pub(super) storage: String,
    /// Versions in which objects are stored.
    pub(super) stored: Vec<String>,
    /// The conversion webhook.
    pub(super) conversion: Option<Target>,
}

impl Observed {
    /// Returns true if there is nothing for OLM to manage.
    pub(crate) fn has_no_operators(&self) -> bool {
        self.subscriptions.as_ref().is_ok_and(Vec::is_empty)
            && self.csvs.as_ref().is_ok_and(Vec::is_empty)
            && self.copies.as_ref().is_ok_and(Vec::is_empty)
    }

    /// Returns true if this ClusterServiceVersion exists and is no copy. It may have been created after the list was read.
    pub(super) fn has_csv(&self, key: &Key) -> Read<bool> {
        if self.is_listed(key)? {
            return Ok(true);
        }
        match self.asked_again.get(key) {
            Some(read) => read.clone(),
            None => Err("it was in no list and was not read again".to_owned()),
        }
    }

    /// Returns true if a list contained it.
    pub(super) fn is_listed(&self, (namespace, name): &Key) -> Read<bool> {
        let is_looked_at = self.namespace.as_ref().is_none_or(|own| own == namespace);
        if is_looked_at {
            let csvs = self.csvs.as_ref().map_err(Clone::clone)?;
            return Ok(csvs.iter().any(|csv| {
                csv.metadata.name.as_ref() == Some(name) && csv.metadata.namespace.as_ref() == Some(namespace)
            }));
        }
        match self.originals.get(namespace) {
            Some(Ok(names)) => Ok(names.contains(name)),
            Some(Err(cause)) => Err(cause.clone()),
            None => Err(format!("namespace {namespace} was not read")),
        }
    }
}
