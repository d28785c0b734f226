//! The cluster's Proxy, watched if the cluster serves the kind.

use std::sync::Arc;

use k8s_openapi::api::core::v1::EnvVar;
use kube::{Client, core::DynamicObject};
use olm_api::proxy;
use olm_runtime::{
    NamespacedName,
    cluster_operator::scope_of,
    store::{Change, OnDemand, Projection, StoreSet, WatchUser},
    sync::Mutex,
};

use tokio::time::{Duration, Instant};

use crate::stores::CustomResourceDefinition;

/// Time that a reconcile waits for the first read.
const PATIENCE: Duration = Duration::from_secs(10);
/// Time for which Deployments keep their current variables before the first read. It allows for an overloaded
/// API server while an operator starts.
const HOLD: Duration = Duration::from_secs(5 * 60);

/// The variables from a Proxy object for containers.
#[derive(Debug, Clone, PartialEq)]
struct Variables(Vec<EnvVar>);

impl Projection for Variables {
    type Object = DynamicObject;

    fn of(mut object: DynamicObject) -> Self {
        // An invalid status counts as empty.
        let status = serde_json::from_value(object.data["status"].take());
        let status: proxy::ProxyStatus = status.unwrap_or_default();
        let variables = status.values().map(|(name, value)| EnvVar {
            name: name.to_owned(),
            value: Some(value.to_owned()),
            value_from: None,
        });
        Self(variables.collect())
    }
}

/// Known proxy variables.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct ProxyVariables {
    /// Variables for containers; empty without a Proxy.
    pub(crate) all: Vec<EnvVar>,
    /// True when the Proxy was not read yet but may be.
    pub(crate) are_awaited: bool,
}

/// The cluster's Proxy. Without the kind there is no watch, and no variable; by default there never is one.
#[derive(Clone, Default)]
pub(crate) struct ClusterProxy {
    watches: Option<OnDemand<Variables>>,
    watched: Arc<Mutex<Option<Watched>>>,
}

/// The running watch.
#[derive(Clone)]
struct Watched {
    user: Arc<WatchUser<Variables>>,
    since: Instant,
}

impl ClusterProxy {
    pub(crate) fn register(set: &StoreSet, client: &Client) -> Self {
        Self {
            watches: Some(set.on_demand(client)),
            watched: Arc::default(),
        }
    }

    /// Starts the watch when the kind is created, and stops it when the kind is deleted.
    pub(crate) fn follow(&self, change: &Change<CustomResourceDefinition>) {
        let Some(watches) = &self.watches else {
            return;
        };
        let Some(is_there) = CustomResourceDefinition::serves(proxy::DEFINITION, change) else {
            return;
        };
        let mut watched = self.watched.lock();
        match (is_there, watched.is_some()) {
            (true, false) => {
                let scope = scope_of(proxy::KIND, proxy::DEFINITION, proxy::NAME);
                *watched = Some(Watched {
                    user: Arc::new(watches.user(&scope)),
                    since: Instant::now(),
                });
            }
            (false, true) => *watched = None,
            _ => {}
        }
    }

    /// Calls `listener` when the Proxy changes.
    pub(crate) fn on_change(&self, listener: impl Fn() + Send + Sync + 'static) {
        if let Some(watches) = &self.watches {
            watches.on_change(move |_, _| listener());
        }
    }

    /// Returns the variables for containers.
    ///
    /// It waits for the first read, because a Deployment without these variables would restart its pods for
    /// nothing. The wait is short. Any user who can install operators can create a definition of that name,
    /// and unreadable objects must not block other operators.
    pub(crate) async fn variables(&self) -> ProxyVariables {
        let watched = self.watched.lock().clone();
        let Some(Watched { user, since }) = watched else {
            return ProxyVariables::default();
        };
        // After that time this returns at once.
        if tokio::time::timeout_at(since + PATIENCE, user.ready())
            .await
            .is_err()
        {
            let are_awaited = since.elapsed() < HOLD;
            if are_awaited {
                tracing::debug!("cannot read the cluster Proxy yet; operators keep their proxy settings");
            } else {
                tracing::warn!("cannot read the cluster Proxy; operators run without proxy settings");
            }
            return ProxyVariables {
                are_awaited,
                ..ProxyVariables::default()
            };
        }
        let found = user.store().get_key(&NamespacedName::cluster(proxy::NAME));
        ProxyVariables {
            all: found.map(|found| found.0.clone()).unwrap_or_default(),
            are_awaited: false,
        }
    }
}
