//! ClusterOperators that a program reports to, watched by name if the cluster serves the kind, and code that all of them share.
//!
//! Without the kind, nothing is watched or requested. The kind may be added or removed while the program runs.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use kube::{
    Client,
    core::{ApiResource, DynamicObject, GroupVersionKind},
};
use olm_api::{
    cluster_operator::{self, ClusterOperatorStatus},
    proxy::{GROUP, VERSION},
};
use serde_json::json;

use crate::{
    NamespacedName,
    driver::StatusUpdate,
    plan::{Action, Plan, Requeue, Target, status_patch},
    store::{OnDemand, Projection, Scope, StoreSet, WatchUser},
    sync::Mutex,
};

/// Maximum time that a reconcile waits for the first list.
const PATIENCE: Duration = Duration::from_secs(5);
/// Requeue interval while a ClusterOperator has not been read.
const READ_INTERVAL: Duration = Duration::from_secs(60);

/// Status of a ClusterOperator; the store keeps nothing else of it.
#[derive(Debug, Clone, PartialEq)]
struct KeptStatus(ClusterOperatorStatus);

impl Projection for KeptStatus {
    type Object = DynamicObject;

    fn of(mut object: DynamicObject) -> Self {
        // A status that cannot be parsed counts as empty and is overwritten.
        Self(serde_json::from_value(object.data["status"].take()).unwrap_or_default())
    }
}

/// Knowledge about a ClusterOperator on a cluster that serves the kind.
#[derive(Debug, Clone, PartialEq)]
pub enum Stored {
    /// Not read yet.
    Unread,
    /// It does not exist.
    Missing,
    /// It exists.
    There {
        /// Uid of the object.
        uid: Option<String>,
        /// Status of the object.
        status: ClusterOperatorStatus,
    },
}

impl Stored {
    /// Returns the status, if known.
    pub fn status(&self) -> Option<&ClusterOperatorStatus> {
        match self {
            Self::Unread | Self::Missing => None,
            Self::There { status, .. } => Some(status),
        }
    }

    /// Plans the creation of a missing ClusterOperator `name`. Its status is written once it exists.
    pub fn plan(&self, name: &str) -> Plan {
        match self {
            Self::Unread => Plan {
                requeue: Requeue::after(READ_INTERVAL, "ClusterOperator not read yet"),
                ..Plan::default()
            },
            Self::Missing => {
                let object = json!({
                    "apiVersion": format!("{GROUP}/{VERSION}"), "kind": cluster_operator::KIND,
                    "metadata": {"name": name}, "spec": {},
                });
                Plan::of(vec![Action::create_or_keep(target(name), object)])
            }
            Self::There { .. } => Plan::default(),
        }
    }

    /// Patches the status of the ClusterOperator `name` to the result of `change`, if that differs.
    pub fn update(&self, name: &str, change: impl FnOnce(&mut ClusterOperatorStatus)) -> StatusUpdate {
        let Self::There { uid, status } = self else {
            return StatusUpdate::default();
        };
        let mut wanted = status.clone();
        change(&mut wanted);
        StatusUpdate {
            patches: Vec::from_iter(status_patch(target(name), uid.as_deref(), status, &wanted)),
            ..StatusUpdate::default()
        }
    }
}

/// ClusterOperators with given names. Clones share the same watches.
#[derive(Clone)]
pub struct ClusterOperators {
    watches: OnDemand<KeptStatus>,
    names: Arc<[String]>,
    /// Watches by name; empty while the cluster does not serve the kind.
    watched: Arc<Mutex<BTreeMap<String, Arc<WatchUser<KeptStatus>>>>>,
}

impl ClusterOperators {
    /// Registers ClusterOperators with `names`; none is watched yet.
    pub fn register(set: &StoreSet, client: &Client, names: impl IntoIterator<Item = String>) -> Self {
        Self {
            watches: set.on_demand(client),
            names: names.into_iter().collect(),
            watched: Arc::default(),
        }
    }

    /// Returns the keys of all of them, whether they exist or not.
    pub fn keys(&self) -> impl Iterator<Item = NamespacedName> {
        self.names
            .iter()
            .map(|name| NamespacedName::cluster(name.as_str()))
    }

    /// Starts the watches when the cluster serves the kind, and stops them when it no longer does. Must be called inside the runtime.
    pub fn follow(&self, is_served: bool) {
        let mut watched = self.watched.lock();
        if !is_served {
            watched.clear();
        } else if watched.is_empty() {
            let users = self.names.iter().map(|name| {
                let user = self.watches.user(&scope(name));
                (name.clone(), Arc::new(user))
            });
            watched.extend(users);
        }
    }

    /// Calls `listener` with the key of each ClusterOperator that changes.
    pub fn on_change(&self, listener: impl Fn(NamespacedName) + Send + Sync + 'static) {
        self.watches
            .on_change(move |_, change| listener(change.object().key()));
    }

    /// Returns what is known of a ClusterOperator; `None` if the cluster does not serve the kind. Waits for the first list, but not for
    /// long.
    pub async fn find(&self, name: &str) -> Option<Stored> {
        let user = Arc::clone(self.watched.lock().get(name)?);
        if tokio::time::timeout(PATIENCE, user.ready()).await.is_err() {
            return Some(Stored::Unread);
        }
        let found = user.store().get_key(&NamespacedName::cluster(name));
        Some(found.map_or(Stored::Missing, |found| Stored::There {
            uid: found.uid(),
            status: found.0.clone(),
        }))
    }
}

fn target(name: &str) -> Target {
    Target::dynamic(scope(name).api, None, name)
}

fn scope(name: &str) -> Scope {
    scope_of(cluster_operator::KIND, cluster_operator::DEFINITION, name)
}

/// Returns the scope of one object of OpenShift's configuration; `definition` is the name of the CustomResourceDefinition of its kind.
pub fn scope_of(kind: &str, definition: &str, name: &str) -> Scope {
    let kind = GroupVersionKind::gvk(GROUP, VERSION, kind);
    let plural = definition.split('.').next().unwrap_or_default();
    Scope {
        api: ApiResource::from_gvk_with_plural(&kind, plural),
        namespace: None,
        name: Some(name.to_owned()),
        label: None,
    }
}
