//! The ClusterOperators that a program reports to, watched by name where the cluster knows the kind, and what is the same for all of
//! them.
//!
//! Elsewhere nothing is watched and nothing asked; the kind may come and go while the program runs.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

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
};

/// How long a round waits for the first look.
const PATIENCE: Duration = Duration::from_secs(5);
/// How often it is asked whether a ClusterOperator was read that could not be.
const READ_INTERVAL: Duration = Duration::from_secs(60);

/// What is kept of a ClusterOperator.
#[derive(Debug, Clone, PartialEq)]
struct KeptStatus(ClusterOperatorStatus);

impl Projection for KeptStatus {
    type Object = DynamicObject;

    fn of(mut object: DynamicObject) -> Self {
        // One that does not fit says nothing, and is written anew.
        Self(serde_json::from_value(object.data["status"].take()).unwrap_or_default())
    }
}

/// What is known of a ClusterOperator on a cluster that has such a kind.
#[derive(Debug, Clone, PartialEq)]
pub enum Stored {
    /// It was not read yet.
    Unread,
    /// There is none.
    Missing,
    /// It is there.
    There {
        /// Its uid.
        uid: Option<String>,
        /// What it says.
        status: ClusterOperatorStatus,
    },
}

impl Stored {
    /// What it says, if it is known.
    pub fn status(&self) -> Option<&ClusterOperatorStatus> {
        match self {
            Self::Unread | Self::Missing => None,
            Self::There { status, .. } => Some(status),
        }
    }

    /// Makes a ClusterOperator called `name` that is missing; its status is written once it is there.
    pub fn plan(&self, name: &str) -> Plan {
        match self {
            Self::Unread => Plan {
                requeue: Requeue::After {
                    delay: READ_INTERVAL,
                    reason: "whether the ClusterOperator will be read at all is not told",
                },
                ..Plan::default()
            },
            Self::Missing => {
                let object = json!({
                    "apiVersion": format!("{GROUP}/{VERSION}"), "kind": cluster_operator::KIND,
                    "metadata": {"name": name}, "spec": {},
                });
                Plan {
                    actions: vec![Action::create_or_keep(target(name), object)],
                    ..Plan::default()
                }
            }
            Self::There { .. } => Plan::default(),
        }
    }

    /// The patch that makes the status of the ClusterOperator called `name` what `change` makes of it, if that is another.
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

/// The ClusterOperators of some names; a clone is another handle to the same.
#[derive(Clone)]
pub struct ClusterOperators {
    watches: OnDemand<KeptStatus>,
    names: Arc<[String]>,
    /// By name; none while the cluster has no such kind.
    watched: Arc<Mutex<BTreeMap<String, Arc<WatchUser<KeptStatus>>>>>,
}

impl ClusterOperators {
    /// Those with `names`; none is watched yet.
    pub fn register(set: &StoreSet, client: &Client, names: impl IntoIterator<Item = String>) -> Self {
        Self {
            watches: set.on_demand(client),
            names: names.into_iter().collect(),
            watched: Arc::default(),
        }
    }

    /// Keys of all of them, whether they are there or not.
    pub fn keys(&self) -> impl Iterator<Item = NamespacedName> {
        self.names
            .iter()
            .map(|name| NamespacedName::cluster(name.as_str()))
    }

    /// Begins to watch when the cluster has the kind, and ends when it has it no more. To be called on the runtime's tasks.
    pub fn follow(&self, is_served: bool) {
        let mut watched = self.lock();
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

    /// Calls `listener` with the key of each that changes.
    pub fn on_change(&self, listener: impl Fn(NamespacedName) + Send + Sync + 'static) {
        self.watches
            .on_change(move |_, change| listener(change.object().key()));
    }

    /// What is known of one; `None` where the cluster has no such kind. The first look is waited for, but not for long.
    pub async fn find(&self, name: &str) -> Option<Stored> {
        let user = Arc::clone(self.lock().get(name)?);
        if tokio::time::timeout(PATIENCE, user.ready()).await.is_err() {
            return Some(Stored::Unread);
        }
        let found = user.store().get_key(&NamespacedName::cluster(name));
        Some(found.map_or(Stored::Missing, |found| Stored::There {
            uid: found.uid(),
            status: found.0.clone(),
        }))
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Arc<WatchUser<KeptStatus>>>> {
        self.watched.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn api() -> ApiResource {
    let kind = GroupVersionKind::gvk(GROUP, VERSION, cluster_operator::KIND);
    let plural = cluster_operator::DEFINITION.split('.').next().unwrap_or_default();
    ApiResource::from_gvk_with_plural(&kind, plural)
}

fn target(name: &str) -> Target {
    Target::dynamic(api(), None, name)
}

fn scope(name: &str) -> Scope {
    Scope {
        api: api(),
        namespace: None,
        name: Some(name.to_owned()),
    }
}
