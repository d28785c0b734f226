//! What was read of a cluster, as checks take it: each part is there, or why it is not.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;
use olm_api::v1::OperatorGroup;
use olm_api::v1alpha1::{CatalogSource, ClusterServiceVersion, InstallPlan, Subscription};

use crate::operators::Key;
use crate::reader::Unreadable;

/// Why something was not read.
pub(super) type Unread = String;

/// What was read.
pub(super) type Read<T> = Result<T, Unread>;

/// What was read of one namespace or all. Pure values; `read` makes them.
#[derive(Debug)]
pub(crate) struct Observed {
    /// None for all namespaces.
    pub(super) namespace: Option<String>,
    /// Whose catalogs every namespace may use.
    pub(super) global: String,
    /// Where OLM itself runs.
    pub(super) olm: String,
    pub(super) now: Timestamp,
    /// Deployments of OLM itself, in its namespace; elsewhere only if there is none.
    pub(super) programs: Read<Vec<Deployment>>,
    /// True if an admission policy guards the labels that OLM trusts; `None` for one namespace alone, whose users may not read policies.
    pub(super) guard: Option<Read<bool>>,
    /// Objects that are not what their kinds should be.
    pub(super) unreadable: Vec<Unreadable>,
    pub(super) subscriptions: Read<Vec<Subscription>>,
    /// Those of the namespaces, the global ones, and those that Subscriptions name.
    pub(super) catalogs: BTreeMap<Key, Read<Option<CatalogSource>>>,
    /// Where lists of catalogs could not be had: namespace, and why.
    pub(super) unlisted_catalogs: Vec<(String, Unread)>,
    /// Pods of catalogs that are not well; missing where they may not be read.
    pub(super) catalog_pods: BTreeMap<Key, Vec<Pod>>,
    pub(super) groups: Read<Vec<OperatorGroup>>,
    /// OperatorGroups of all namespaces.
    pub(super) all_groups: Read<Vec<OperatorGroup>>,
    /// Whether ServiceAccounts that OperatorGroups name are there.
    pub(super) accounts: BTreeMap<Key, Read<bool>>,
    /// Whether namespaces are there that OperatorGroups name beside their own, by the namespace of the group.
    pub(super) group_targets: BTreeMap<Key, Read<bool>>,
    /// Who has any right at all; not read where no OperatorGroup names a ServiceAccount.
    pub(super) bound: Read<Bound>,
    /// InstallPlans that Subscriptions refer to and that may not be done.
    pub(super) plans: BTreeMap<Key, Read<Option<InstallPlan>>>,
    /// Those that are no copies.
    pub(super) csvs: Read<Vec<ClusterServiceVersion>>,
    pub(super) copies: Read<Vec<Copied>>,
    /// Whether ClusterServiceVersions are there that no list had: they were asked for again, after what depends on them was read.
    pub(super) asked_again: BTreeMap<Key, Read<bool>>,
    /// What Subscriptions that seemed to lack their ClusterServiceVersion had installed afterwards.
    pub(super) installed_since: BTreeMap<Key, Read<Option<String>>>,
    /// Names of ClusterServiceVersions that are no copies, of namespaces that are not looked at themselves.
    pub(super) originals: BTreeMap<String, Read<BTreeSet<String>>>,
    /// Webhook configurations, by kind.
    pub(super) webhooks: Vec<(&'static str, Read<Vec<Caller>>)>,
    pub(super) api_services: Read<Vec<Caller>>,
    /// Cluster-wide rights that a ClusterServiceVersion left behind or has, by kind.
    pub(super) roles: Vec<(&'static str, Read<Vec<Owned>>)>,
    pub(super) services: BTreeMap<Key, Read<ServiceState>>,
    /// Those that OLM made for a ClusterServiceVersion: their certificates are in a Secret of theirs.
    pub(super) own_services: BTreeSet<Key>,
    pub(super) definitions: Read<Vec<Definition>>,
    /// Jobs that unpack bundles.
    pub(super) jobs: Read<Vec<Job>>,
    /// ConfigMaps of Jobs that failed, as far as they are known to be of unpacking, too.
    pub(super) unpacked: BTreeSet<Key>,
}

/// Subjects of bindings.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Bound {
    /// ServiceAccounts.
    pub(super) accounts: BTreeSet<Key>,
    /// Namespaces all of whose ServiceAccounts are meant.
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

/// An object of the cluster that a ClusterServiceVersion owns by labels.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Owned {
    pub(super) name: String,
    pub(super) owner: Key,
}

/// What has the API server call a service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Caller {
    pub(super) name: String,
    /// The ClusterServiceVersion that it is of.
    pub(super) owner: Key,
    pub(super) targets: Vec<Target>,
    /// What the API server says is wrong with it.
    pub(super) trouble: Option<String>,
}

/// Whom it calls.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Target {
    /// Namespace and name of the service.
    pub(super) service: Key,
    /// Certificates that it trusts, as PEM; empty for those of the system.
    pub(super) ca: Vec<u8>,
}

/// A service as far as calls depend on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ServiceState {
    Gone,
    /// So many endpoints take calls.
    Ready(usize),
}

/// A CustomResourceDefinition.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Definition {
    pub(super) name: String,
    /// Versions and whether they are served.
    pub(super) versions: BTreeMap<String, bool>,
    /// The version that new objects are stored in.
    pub(super) storage: String,
    /// Versions in which there are objects.
    pub(super) stored: Vec<String>,
    /// Who converts them.
    pub(super) conversion: Option<Target>,
}

impl Observed {
    /// Whether there is nothing that OLM would look after.
    pub(crate) fn has_no_operators(&self) -> bool {
        self.subscriptions.as_ref().is_ok_and(Vec::is_empty)
            && self.csvs.as_ref().is_ok_and(Vec::is_empty)
            && self.copies.as_ref().is_ok_and(Vec::is_empty)
    }

    /// Whether there is such a ClusterServiceVersion that is no copy. One that no list had may have come since.
    pub(super) fn has_csv(&self, key: &Key) -> Read<bool> {
        if self.is_listed(key)? {
            return Ok(true);
        }
        match self.asked_again.get(key) {
            Some(read) => read.clone(),
            None => Err("it was in no list, and was not asked for again".to_owned()),
        }
    }

    /// Whether a list had it.
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
