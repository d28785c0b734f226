//! The ConfigMaps that catalogs are made of, each watched by its name as long as a CatalogSource names it.
//!
//! Nothing is kept of them but a hash: the pod that serves a catalog reads the content. They belong to their authors, and are
//! never written.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use base64::Engine as _;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Client;
use kube::core::{ApiResource, DynamicObject};
use olm_api::config_map_catalog::content_hash;
use olm_runtime::NamespacedName;
use olm_runtime::store::{Change, OnDemand, Projected, Projection, Scope, StoreSet, WatchUser};
use tokio::time::{Duration, Instant};

/// How long the first look may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// ConfigMaps of one namespace that are watched at a time: each is a connection to the API server, which a CatalogSource costs
/// nothing to ask for.
pub(crate) const MAX_WATCHED: usize = 32;

/// What is known of the ConfigMap of a catalog.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ConfigMapState {
    /// The catalog is made of none.
    NotNamed,
    /// It is there.
    Found(Version),
    /// There is none of the name.
    Missing,
    /// The API server has not told yet.
    Unread,
    /// The namespace has more ConfigMaps that are catalogs than are watched.
    TooMany,
}

/// One version of a ConfigMap.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Version {
    /// Its uid.
    pub uid: String,
    /// Its `resourceVersion`.
    pub resource_version: String,
    /// Hash of the catalog in it: changes of what is beside that are not served anew.
    pub content_hash: String,
}

/// What is kept of a ConfigMap: the hash of its catalog.
#[derive(Debug, Clone)]
pub(crate) struct ContentHash(String);

impl Projection for ContentHash {
    type Object = DynamicObject;

    fn of(object: DynamicObject) -> Self {
        let data = &object.data;
        Self(content_hash(|key| {
            if let Some(text) = data["data"][key].as_str() {
                return Some(Cow::Borrowed(text.as_bytes()));
            }
            // A node makes files of both.
            let binary = data["binaryData"][key].as_str()?;
            let decoded = base64::engine::general_purpose::STANDARD.decode(binary);
            Some(Cow::Owned(decoded.unwrap_or_default()))
        }))
    }
}

/// The watched ConfigMaps; a clone is another handle to the same.
#[derive(Clone)]
pub(crate) struct ConfigMaps {
    watches: OnDemand<ContentHash>,
    /// By CatalogSource.
    watched: Arc<Mutex<BTreeMap<NamespacedName, Watched>>>,
}

/// The watch of a CatalogSource's ConfigMap.
#[derive(Clone)]
struct Watched {
    name: String,
    user: Arc<WatchUser<ContentHash>>,
    since: Instant,
}

impl ConfigMaps {
    /// No watch begins before a CatalogSource asks.
    pub(crate) fn register(set: &StoreSet, client: &Client) -> Self {
        Self {
            watches: set.on_demand(client),
            watched: Arc::default(),
        }
    }

    /// Calls `listener` with namespace and name of a watched ConfigMap that changed.
    pub(crate) fn on_change(&self, listener: impl Fn(&NamespacedName) + Send + Sync + 'static) {
        self.watches
            .on_change(move |_, change: &Change<Projected<ContentHash>>| listener(change.object().key()));
    }

    /// What is known of the ConfigMap `name` beside the CatalogSource `source`, which is watched from now on.
    ///
    /// The first look is waited for, but not for long.
    pub(crate) async fn of_source(&self, source: &NamespacedName, name: &str) -> ConfigMapState {
        let Some(Watched { user, since, .. }) = self.watch(source, name) else {
            return ConfigMapState::TooMany;
        };
        // Where that time is over this is a look and no wait.
        if tokio::time::timeout_at(since + PATIENCE, user.ready())
            .await
            .is_err()
        {
            return ConfigMapState::Unread;
        }
        let found = user
            .store()
            .get_key(&NamespacedName::new(&*source.namespace, name));
        found.map_or(ConfigMapState::Missing, |found| {
            ConfigMapState::Found(Version {
                uid: found.uid().unwrap_or_default().to_owned(),
                resource_version: found.resource_version().unwrap_or_default(),
                content_hash: found.0.clone(),
            })
        })
    }

    /// The CatalogSource is gone, or is not made of a ConfigMap any more.
    pub(crate) fn forget(&self, source: &NamespacedName) {
        self.lock().remove(source);
    }

    /// The watch, unless the namespace has too many.
    fn watch(&self, source: &NamespacedName, name: &str) -> Option<Watched> {
        let mut watched = self.lock();
        if let Some(known) = watched.get(source).filter(|known| known.name == name) {
            return Some(known.clone());
        }
        watched.remove(source);
        let names: BTreeSet<&str> = watched
            .iter()
            .filter(|(other, _)| other.namespace == source.namespace)
            .map(|(_, watched)| watched.name.as_str())
            .collect();
        if names.len() >= MAX_WATCHED && !names.contains(name) {
            return None;
        }
        let new = Watched {
            name: name.to_owned(),
            user: Arc::new(self.watches.user(&scope(&source.namespace, name))),
            since: Instant::now(),
        };
        watched.insert(source.clone(), new.clone());
        Some(new)
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<NamespacedName, Watched>> {
        self.watched.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn scope(namespace: &str, name: &str) -> Scope {
    Scope {
        api: ApiResource::erase::<ConfigMap>(&()),
        namespace: Some(namespace.to_owned()),
        name: Some(name.to_owned()),
    }
}

#[cfg(test)]
mod tests;
