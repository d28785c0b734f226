//! RBAC and accounts of namespaces in which a plan waits for a permission, watched as long as it waits.
//!
//! Who gives the permission writes RBAC that bears no mark of OLM's, so that no store sees it. Nothing is kept of it but that it is
//! there: the API server alone says whether it is enough.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::api::core::v1::ServiceAccount;
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding};
use kube::Client;
use kube::core::{ApiResource, DynamicObject};
use olm_runtime::NamespacedName;
use olm_runtime::store::{OnDemand, Projection, Scope, StoreSet, WatchUser};
use olm_runtime::sync::Mutex;

/// Namespaces that are watched at a time, three connections to the API server each; the plans of others look again by themselves.
const MAX_NAMESPACES: usize = 32;

/// Nothing is kept of an object.
#[derive(Debug, Clone)]
pub(crate) struct Nothing;

impl Projection for Nothing {
    type Object = DynamicObject;

    fn of(_: DynamicObject) -> Self {
        Self
    }
}

/// What gives rights; a clone is another handle to the same.
#[derive(Clone)]
pub(crate) struct Rights {
    watches: OnDemand<Nothing>,
    /// By waiting plan.
    waiting: Arc<Mutex<BTreeMap<NamespacedName, Vec<WatchUser<Nothing>>>>>,
}

impl Rights {
    /// No watch begins before a plan waits.
    pub(crate) fn register(set: &StoreSet, client: &Client) -> Self {
        Self {
            watches: set.on_demand(client),
            waiting: Arc::default(),
        }
    }

    /// Calls `listener` with each plan that waits when something changes that may be what it waits for.
    pub(crate) fn on_change(&self, listener: impl Fn(&NamespacedName) + Send + Sync + 'static) {
        let waiting = Arc::clone(&self.waiting);
        self.watches.on_change(move |scope, _| {
            let plans: Vec<NamespacedName> = waiting.lock().keys().cloned().collect();
            let namespace = scope.namespace.as_ref();
            let in_reach = plans
                .iter()
                .filter(|plan| namespace.is_none_or(|namespace| *namespace == plan.namespace));
            in_reach.for_each(&listener);
        });
    }

    /// Whether the plan waits for a permission. As long as it does, what gives rights in its namespace is watched.
    pub(crate) fn set_waiting(&self, plan: &NamespacedName, waits: bool) {
        let mut waiting = self.waiting.lock();
        if !waits {
            waiting.remove(plan);
            return;
        }
        let namespaces: BTreeSet<&String> = waiting.keys().map(|plan| &plan.namespace).collect();
        let is_known = waiting.contains_key(plan);
        if is_known || (namespaces.len() >= MAX_NAMESPACES && !namespaces.contains(&plan.namespace)) {
            return;
        }
        let users = scopes(&plan.namespace).map(|scope| self.watches.user(&scope));
        waiting.insert(plan.clone(), users.into());
    }
}

fn scopes(namespace: &str) -> [Scope; 5] {
    let scope = |api: ApiResource, namespace: Option<&str>| Scope {
        api,
        namespace: namespace.map(str::to_owned),
        name: None,
        label: None,
    };
    [
        scope(ApiResource::erase::<Role>(&()), Some(namespace)),
        scope(ApiResource::erase::<RoleBinding>(&()), Some(namespace)),
        scope(ApiResource::erase::<ServiceAccount>(&()), Some(namespace)),
        scope(ApiResource::erase::<ClusterRole>(&()), None),
        scope(ApiResource::erase::<ClusterRoleBinding>(&()), None),
    ]
}
