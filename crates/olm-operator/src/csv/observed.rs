//! The input of one decision about a ClusterServiceVersion, as values.
//!
//! `observe` fills these from the stores, and from the API server where its documentation says so. `decide`
//! and `status` use no other input.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use jiff::Timestamp;
use k8s_openapi::{
    api::{
        apps::v1::Deployment,
        rbac::v1::{ClusterRole, ClusterRoleBinding, PolicyRule, Role, RoleBinding},
    },
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
    kube_aggregator::pkg::apis::apiregistration::v1::{APIService, APIServiceCondition},
};
use olm_api::{
    api_key::ApiKey,
    overrides::Overrides,
    v1alpha1::{ClusterServiceVersion, ClusterServiceVersionPhase as Phase},
    v2::OperatorCondition,
};
use olm_runtime::plan::Target;

use crate::{
    csv::{
        coverage::{Binding, RoleKey},
        replacement::Sibling,
        serving::found::Serving,
        strategy::Strategy,
    },
    operator_group::{Group, intersection::NamespaceSet},
    stores::{CustomResourceDefinition, ProxyVariables},
};

/// Time in which the steps of an InstallPlan should finish.
const PLAN_GRACE: Duration = Duration::from_secs(15);
/// Grace period of a ClusterServiceVersion without a Subscription.
const HAND_GRACE: Duration = Duration::from_secs(2);

/// One ClusterServiceVersion and the input of decisions about it.
#[derive(Debug, Clone)]
pub(crate) struct Observed {
    /// The object itself, without unused fields.
    pub(crate) csv: Arc<ClusterServiceVersion>,
    /// True when the namespace is being deleted, so that nothing can be created in it.
    pub(crate) namespace_terminating: bool,
    /// Its install strategy, or the error in it.
    pub(crate) strategy: Result<Strategy, String>,
    /// Namespaces its group targets, other than its own, that are not being deleted.
    pub(crate) open_targets: BTreeSet<String>,
    /// The OperatorGroups of its namespace, by name.
    pub(crate) groups: Vec<Group>,
    /// The OperatorGroups of other namespaces that provide APIs.
    pub(crate) foreign_groups: Vec<ForeignGroup>,
    /// The other ClusterServiceVersions of its namespace, without copies.
    pub(crate) siblings: Vec<Sibling>,
    /// OperatorCondition of its predecessor.
    pub(crate) previous_condition: Option<Arc<OperatorCondition>>,
    /// Deployments of its namespace with its owner labels, by name.
    pub(crate) deployments: BTreeMap<String, Arc<Deployment>>,
    /// Deployments with the name of one of the strategy's and the owner labels of another
    /// ClusterServiceVersion, by name.
    pub(crate) inherited: BTreeMap<String, Arc<Deployment>>,
    /// ReplicaSets of Deployments that are being replaced; `None` if they were not read.
    pub(crate) replica_sets: Option<Vec<ObjectMeta>>,
    /// Name and uid of remaining ReplicaSets of replaced Deployments.
    pub(crate) left_behind: BTreeMap<String, String>,
    /// Reasons why pods do not run, by Deployment; `None` if the pods were not or could not be read.
    pub(crate) pod_troubles: Option<BTreeMap<String, String>>,
    /// Configuration of the Subscription that names it, or the error in it; `None` without a Subscription.
    pub(crate) subscription: Option<Result<Overrides, String>>,
    /// Variables of the cluster's Proxy.
    pub(crate) proxy: ProxyVariables,
    /// Served APIs, of those that it owns or needs.
    pub(crate) cluster: ClusterApis,
    /// The existing ServiceAccounts that it names, with the uids of the ClusterServiceVersions that own them.
    pub(crate) accounts: BTreeMap<String, BTreeSet<String>>,
    /// RBAC objects that are related to it.
    pub(crate) rbac: Rbac,
    /// Objects outside its namespace with its owner labels; only read while it is being deleted.
    pub(crate) leftovers: Vec<Leftover>,
    /// Certificates and the objects that refer to them.
    pub(crate) serving: Serving,
}

/// Another OperatorGroup that provides APIs.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ForeignGroup {
    /// `namespace/name`.
    pub(crate) id: String,
    /// Namespaces in which its operators work, including its own.
    pub(crate) targets: NamespaceSet,
    pub(crate) provided: BTreeSet<ApiKey>,
}

/// APIs and versions that the cluster serves.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct ClusterApis {
    /// `gitVersion` of the API server, for example `v1.34.4`; empty if it was not requested.
    pub(crate) server_version: String,
    /// The existing CustomResourceDefinitions that the ClusterServiceVersion names.
    pub(crate) crds: BTreeMap<String, Arc<CustomResourceDefinition>>,
    /// Served kinds, of the native and the required aggregated APIs.
    pub(crate) served: BTreeSet<ApiKey>,
    /// Kinds for which discovery failed, and the error.
    pub(crate) unknown: BTreeMap<ApiKey, String>,
    /// The existing required and owned APIServices, by name.
    pub(crate) api_services: BTreeMap<String, Arc<APIService>>,
}

/// Returns the condition `Available` of an APIService.
pub(crate) fn availability(api: &APIService) -> Option<&APIServiceCondition> {
    let mut conditions = api.status.as_ref()?.conditions.iter().flatten();
    conditions.find(|condition| condition.type_ == "Available")
}

/// True when the condition `Available` of an APIService is true.
pub(crate) fn is_available(api: &APIService) -> bool {
    availability(api).is_some_and(|condition| condition.status == "True")
}

/// Kind, namespace (empty for cluster-scoped kinds) and name of a Role, ClusterRole or binding.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct RbacKey {
    pub(crate) kind: &'static str,
    pub(crate) namespace: String,
    pub(crate) name: String,
}

impl RbacKey {
    /// Creates the key of an object; `namespace` is empty for cluster-scoped kinds.
    pub(crate) fn new(kind: &'static str, namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self {
            kind,
            namespace: namespace.into(),
            name: name.into(),
        }
    }
}

/// RBAC objects that are related to a ClusterServiceVersion.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Rbac {
    /// Roles with its owner labels in its namespace.
    pub(crate) roles: Vec<Arc<Role>>,
    /// RoleBindings with its owner labels in its namespace.
    pub(crate) role_bindings: Vec<Arc<RoleBinding>>,
    /// ClusterRoles with its owner labels.
    pub(crate) cluster_roles: Vec<Arc<ClusterRole>>,
    /// ClusterRoleBindings with its owner labels.
    pub(crate) cluster_role_bindings: Vec<Arc<ClusterRoleBinding>>,
    /// Roles with its owner labels that were made for it in other namespaces.
    pub(crate) replicated_roles: Vec<Arc<Role>>,
    /// RoleBindings with its owner labels that were made for it in other namespaces.
    pub(crate) replicated_bindings: Vec<Arc<RoleBinding>>,
    /// Names for counterparts of its Roles and bindings that other objects with OLM's label already have.
    pub(crate) taken: BTreeSet<RbacKey>,
    /// Roles of target namespaces, existing or not, that bindings of others refer to; read before a Role of
    /// that name is created.
    pub(crate) bound_by_others: BTreeSet<RbacKey>,
    /// Rights that others granted to its accounts, read from the API server when its own RBAC is incomplete.
    pub(crate) granted_by_others: Option<ForeignGrants>,
}

/// Bindings of the namespace and of the cluster, and the roles they refer to.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct ForeignGrants {
    /// Bindings that name one of the accounts.
    pub(crate) bindings: Vec<Binding>,
    /// The rules of the roles they refer to.
    pub(crate) roles: BTreeMap<RoleKey, Vec<PolicyRule>>,
}

/// An object that garbage collection does not delete, because its owner is in another namespace.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Leftover {
    pub(crate) target: Target,
    pub(crate) uid: Option<String>,
    /// True when it is being deleted.
    pub(crate) is_deleting: bool,
    /// True when finalizers of others delay its deletion.
    pub(crate) is_kept: bool,
}

impl Observed {
    pub(crate) fn name(&self) -> &str {
        self.csv.metadata.name.as_deref().unwrap_or_default()
    }

    pub(crate) fn namespace(&self) -> &str {
        self.csv.metadata.namespace.as_deref().unwrap_or_default()
    }

    pub(crate) fn uid(&self) -> &str {
        self.csv.metadata.uid.as_deref().unwrap_or_default()
    }

    /// Returns the configuration of the Subscription that names it; `None` also if that is invalid.
    pub(crate) fn overrides(&self) -> Option<&Overrides> {
        self.subscription.as_ref()?.as_ref().ok()
    }

    /// Name of the ClusterServiceVersion that it replaces, if any.
    pub(crate) fn replaces(&self) -> Option<&str> {
        self.csv.spec.replaces()
    }

    pub(crate) fn created(&self) -> Timestamp {
        let created = self.csv.metadata.creation_timestamp.as_ref();
        created.map_or(Timestamp::UNIX_EPOCH, |time| time.0)
    }

    /// Returns the only OperatorGroup of the namespace; `None` when there is none or more than one.
    pub(crate) fn group(&self) -> Option<&Group> {
        match self.groups.as_slice() {
            [group] => Some(group),
            _ => None,
        }
    }

    /// Returns the duration of the current phase.
    pub(crate) fn waited(&self, now: Timestamp) -> Duration {
        let status = self.csv.status.as_ref();
        let since = status.and_then(|status| status.last_transition_time.as_ref());
        let since = since.map_or(self.created(), |time| time.0);
        Duration::try_from(now.duration_since(since)).unwrap_or_default()
    }

    /// Returns the time in which the steps of an InstallPlan may still create accounts and roles; `None` when
    /// it has passed.
    ///
    /// Until then there are no live reads for the objects of these steps. A creation time in the future, by a
    /// fast clock, is no reason to wait.
    pub(crate) fn plan_grace(&self, now: Timestamp) -> Option<Duration> {
        // It was complete before a Subscription named it.
        if *self.csv.phase() == Phase::Succeeded {
            return None;
        }
        let grace = if self.subscription.is_some() {
            PLAN_GRACE
        } else {
            HAND_GRACE
        };
        let age = Duration::try_from(now.duration_since(self.created())).ok()?;
        grace.checked_sub(age).filter(|left| !left.is_zero())
    }
}
