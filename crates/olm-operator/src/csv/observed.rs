//! Everything one decision about a ClusterServiceVersion reads, as values.
//!
//! `observe` fills these from the stores and, where it says so, from the API server; `decide`, `status` and what they ask know
//! nothing else.

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
};
use olm_api::{api_key::ApiKey, v1alpha1::ClusterServiceVersion, v2::OperatorCondition};
use olm_runtime::plan::Target;

use crate::{
    csv::{
        coverage::{Binding, RoleKey},
        deployment::overrides::Overrides,
        replacement::Sibling,
        strategy::Strategy,
    },
    operator_group::{Group, intersection::NamespaceSet},
};

/// How long the steps of an InstallPlan get.
const PLAN_GRACE: Duration = Duration::from_secs(15);
/// How long a ClusterServiceVersion gets that no Subscription names (yet).
const HAND_GRACE: Duration = Duration::from_secs(2);

/// One ClusterServiceVersion and what decides its fate.
#[derive(Debug, Clone)]
pub struct Observed {
    /// The object itself, pruned of what nobody reads.
    pub csv: Arc<ClusterServiceVersion>,
    /// The namespace is being deleted: nothing can be created in it any more.
    pub namespace_terminating: bool,
    /// Its install strategy, or why that cannot be used.
    pub strategy: Result<Strategy, String>,
    /// Namespaces its group targets, other than its own, in which something can be created.
    pub open_targets: BTreeSet<String>,
    /// The OperatorGroups of its namespace, by name.
    pub groups: Vec<Group>,
    /// The OperatorGroups of other namespaces that provide APIs.
    pub foreign_groups: Vec<ForeignGroup>,
    /// The other ClusterServiceVersions of its namespace, copies left out.
    pub siblings: Vec<Sibling>,
    /// OperatorCondition of the one it replaces.
    pub previous_condition: Option<Arc<OperatorCondition>>,
    /// Deployments of its namespace that carry its owner labels, by name.
    pub deployments: BTreeMap<String, Arc<Deployment>>,
    /// Deployments that are called like one of the strategy's and carry the owner labels of another, by name.
    pub inherited: BTreeMap<String, Arc<Deployment>>,
    /// ReplicaSets of Deployments that make way for others; `None` when nobody asked for them.
    pub replica_sets: Option<Vec<ObjectMeta>>,
    /// Name and uid of the ReplicaSets that stayed behind of Deployments that made way.
    pub left_behind: BTreeMap<String, String>,
    /// Why the pods of a Deployment do not run, by Deployment; read only while an install waits.
    pub pod_troubles: BTreeMap<String, String>,
    /// What the Subscription that names it configures, or why that cannot be used; `None` without a Subscription.
    pub subscription: Option<Result<Overrides, String>>,
    /// What the cluster serves of the APIs it owns or needs.
    pub cluster: ClusterApis,
    /// The ServiceAccounts it names and that exist.
    pub accounts: BTreeMap<String, FoundAccount>,
    /// RBAC objects that concern it.
    pub rbac: Rbac,
    /// Roles and RoleBindings that steps of Complete InstallPlans of its namespace made for it.
    pub planned: Vec<PlannedRbac>,
    /// Rights that its narrowed group no longer covers have waited long enough for what was to replace them.
    pub is_overdue: bool,
    /// Objects outside its namespace that carry its owner labels; read only while it is being deleted.
    pub leftovers: Vec<Leftover>,
}

/// Another OperatorGroup that provides APIs.
#[derive(Debug, Clone, PartialEq)]
pub struct ForeignGroup {
    /// `namespace/name`.
    pub key: String,
    /// Where its operators work, its own namespace included.
    pub targets: NamespaceSet,
    /// What they provide.
    pub provided: BTreeSet<ApiKey>,
}

/// What the cluster serves.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ClusterApis {
    /// `gitVersion` of the API server, for example `v1.34.4`; empty when nobody asked.
    pub server_version: String,
    /// The CustomResourceDefinitions named by the ClusterServiceVersion that exist.
    pub crds: BTreeMap<String, Crd>,
    /// Kinds of the native and the required aggregated APIs that are served.
    pub served: BTreeSet<Kind>,
    /// Kinds of which nobody can tell at the moment whether they are served, and why.
    pub unknown: BTreeMap<Kind, String>,
    /// The required APIServices that exist, by name.
    pub api_services: BTreeMap<String, ApiService>,
}

/// A kind of an API.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Kind {
    /// Group, empty for the core.
    pub group: String,
    /// Version.
    pub version: String,
    /// Kind.
    pub kind: String,
}

/// A CustomResourceDefinition that exists.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Crd {
    /// Its uid.
    pub uid: String,
    /// Versions that are served.
    pub served: BTreeSet<String>,
    /// Both `Established` and `NamesAccepted` are true.
    pub established: bool,
    /// `namespace/name` of the ClusterServiceVersions it was installed with.
    pub alongside: BTreeSet<String>,
}

/// An APIService that exists.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ApiService {
    /// Its uid.
    pub uid: String,
    /// Its condition `Available` is true.
    pub available: bool,
    /// Why it is not, in one word, if it says so.
    pub reason: Option<String>,
}

/// A ServiceAccount that exists.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct FoundAccount {
    /// Uid and name of the ClusterServiceVersions that own it.
    pub csv_owners: BTreeMap<String, String>,
}

/// A Role or RoleBinding that a step of a Complete InstallPlan made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlannedRbac {
    /// Uid of the InstallPlan.
    pub plan_uid: String,
    /// `Role` or `RoleBinding`.
    pub kind: String,
    /// Name of the object.
    pub name: String,
    /// Permissions hash of the object the step carries; `None` when the step only refers to where its object is.
    pub content: Option<String>,
}

/// RBAC objects that concern a ClusterServiceVersion.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Rbac {
    /// Roles with its owner labels in its namespace.
    pub roles: Vec<Arc<Role>>,
    /// RoleBindings with its owner labels in its namespace.
    pub role_bindings: Vec<Arc<RoleBinding>>,
    /// ClusterRoles with its owner labels.
    pub cluster_roles: Vec<Arc<ClusterRole>>,
    /// ClusterRoleBindings with its owner labels.
    pub cluster_role_bindings: Vec<Arc<ClusterRoleBinding>>,
    /// Roles with its owner labels that were made for it in other namespaces.
    pub replicated_roles: Vec<Arc<Role>>,
    /// RoleBindings with its owner labels that were made for it in other namespaces.
    pub replicated_bindings: Vec<Arc<RoleBinding>>,
    /// What others granted its accounts, read from the API server when its own RBAC is incomplete.
    pub granted_by_others: Option<ForeignGrants>,
}

/// Bindings of the namespace and of the cluster, and the roles they point to.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ForeignGrants {
    /// Bindings that name one of the accounts.
    pub bindings: Vec<Binding>,
    /// The rules of the roles they point to.
    pub roles: BTreeMap<RoleKey, Vec<PolicyRule>>,
}

/// An object that no garbage collection finds, because its owner is in a namespace and it is not in that one.
#[derive(Debug, Clone, PartialEq)]
pub struct Leftover {
    /// The object.
    pub target: Target,
    /// Its uid.
    pub uid: Option<String>,
}

impl Observed {
    /// Name of the ClusterServiceVersion.
    pub fn name(&self) -> &str {
        self.csv.metadata.name.as_deref().unwrap_or_default()
    }

    /// Namespace of the ClusterServiceVersion.
    pub fn namespace(&self) -> &str {
        self.csv.metadata.namespace.as_deref().unwrap_or_default()
    }

    /// Uid of the ClusterServiceVersion.
    pub fn uid(&self) -> &str {
        self.csv.metadata.uid.as_deref().unwrap_or_default()
    }

    /// What it replaces, if it says so.
    pub fn replaces(&self) -> Option<&str> {
        self.csv.spec.replaces()
    }

    /// When it was created.
    pub fn created(&self) -> Timestamp {
        self.csv
            .metadata
            .creation_timestamp
            .as_ref()
            .map_or(Timestamp::UNIX_EPOCH, |time| time.0)
    }

    /// The one OperatorGroup of the namespace; `None` when there is none or more than one.
    pub fn group(&self) -> Option<&Group> {
        match self.groups.as_slice() {
            [group] => Some(group),
            _ => None,
        }
    }

    /// How long the present phase has lasted.
    pub fn waited(&self, now: Timestamp) -> Duration {
        let status = self.csv.status.as_ref();
        let since = status.and_then(|status| status.last_transition_time.as_ref());
        let since = since.map_or(self.created(), |time| time.0);
        Duration::try_from(now.duration_since(since)).unwrap_or_default()
    }

    /// How much longer the steps of an InstallPlan may still be making accounts and roles; `None` when they have had their time.
    ///
    /// Until then what they make is not looked for by live reads. A creation time in the future, by a clock that is ahead, is no
    /// reason to wait.
    pub fn plan_grace(&self, now: Timestamp) -> Option<Duration> {
        let grace = if self.subscription.is_some() {
            PLAN_GRACE
        } else {
            HAND_GRACE
        };
        let age = Duration::try_from(now.duration_since(self.created())).ok()?;
        grace.checked_sub(age).filter(|left| !left.is_zero())
    }
}
