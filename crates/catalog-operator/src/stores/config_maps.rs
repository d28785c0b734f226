//! The ConfigMaps that catalogs are made of, each watched by its name as long as a CatalogSource names it.
//!
//! Of each its owners and a hash are kept: the pod that serves a catalog reads the content.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::Client;
use kube::core::{ApiResource, DynamicObject};
use olm_api::config_map_catalog::{KEYS, content_hash};
use olm_runtime::NamespacedName;
use olm_runtime::store::{Change, OnDemand, Projected, Projection, Scope, StoreSet, WatchUser};
use olm_runtime::sync::{Mutex, RwLock};
use tokio::task::JoinSet;
use tokio::time::{Duration, Instant};

/// How long the first look may take before it is told that it takes so long.
const PATIENCE: Duration = Duration::from_secs(10);
/// Most catalogs of a namespace whose ConfigMaps are watched: each costs a request that stays open.
const MOST_WATCHED: usize = 100;

/// What is known of the ConfigMap of a catalog.
#[derive(Debug, Clone, PartialEq)]
pub enum ConfigMapState {
    /// The catalog is made of none.
    NotNamed,
    /// It is there.
    Found(Version),
    /// There is none of the name.
    Missing,
    /// The API server was asked a moment ago.
    Asked,
    /// The API server has not told for some time; why, if it says so.
    Unread(Option<String>),
}

/// One version of a ConfigMap.
#[derive(Debug, Clone, PartialEq)]
pub struct Version {
    /// Its uid.
    pub uid: String,
    /// Its `resourceVersion`.
    pub resource_version: String,
    /// Hash of the catalog in it: changes of what is beside that are not served anew.
    pub content_hash: String,
    /// Its owners; `None` for a ConfigMap that has no key of a catalog.
    pub owners: Option<Vec<OwnerReference>>,
}

/// The parts of a ConfigMap that the store keeps.
#[derive(Debug, Clone)]
pub(crate) struct CatalogContent {
    /// The hash of its catalog.
    hash: String,
    /// See [`Version::owners`].
    owners: Option<Vec<OwnerReference>>,
}

impl Projection for CatalogContent {
    type Object = DynamicObject;

    fn of(object: DynamicObject) -> Self {
        let data = &object.data;
        let text = |key: &str| {
            if let Some(text) = data["data"][key].as_str() {
                return Some(Cow::Borrowed(text.as_bytes()));
            }
            // A node makes files of both.
            let binary = data["binaryData"][key].as_str()?;
            let decoded = olm_fbc::base64::decode(binary);
            Some(Cow::Owned(decoded.unwrap_or_default()))
        };
        let is_catalog = KEYS.iter().any(|key| text(key).is_some());
        Self {
            hash: content_hash(text),
            owners: is_catalog.then(|| object.metadata.owner_references.unwrap_or_default()),
        }
    }
}

/// The watched ConfigMaps; a clone is another handle to the same.
#[derive(Clone)]
pub(crate) struct ConfigMaps {
    watches: OnDemand<CatalogContent>,
    /// By CatalogSource.
    watched: Arc<Mutex<BTreeMap<NamespacedName, Watched>>>,
    listeners: Arc<RwLock<Vec<Listener>>>,
}

type Listener = Arc<dyn Fn(&NamespacedName) + Send + Sync>;

/// The watch of a CatalogSource's ConfigMap.
struct Watched {
    name: String,
    user: Arc<WatchUser<CatalogContent>>,
    since: Instant,
    /// Reports the end of the first look, as no change reports a ConfigMap that does not exist. It ends when this is dropped.
    _first_look: JoinSet<()>,
}

impl ConfigMaps {
    /// No watch begins before a CatalogSource asks.
    pub(crate) fn register(set: &StoreSet, client: &Client) -> Self {
        Self {
            watches: set.on_demand(client),
            watched: Arc::default(),
            listeners: Arc::default(),
        }
    }

    /// Calls `listener` with namespace and name of a watched ConfigMap that changed, or was looked for the first time.
    pub(crate) fn on_change(&self, listener: impl Fn(&NamespacedName) + Send + Sync + 'static) {
        let listener: Listener = Arc::new(listener);
        let mut listeners = self.listeners.write();
        listeners.push(Arc::clone(&listener));
        self.watches
            .on_change(move |_, change: &Change<Projected<CatalogContent>>| listener(&change.object().key()));
    }

    /// What is known of the ConfigMap `name` beside the CatalogSource `source`, which is watched from now on.
    ///
    /// Nothing is waited for: a reconcile that did would keep others from theirs. Listeners hear when the first look is over.
    pub(crate) fn of_source(&self, source: &NamespacedName, name: &str) -> ConfigMapState {
        let namespace = &source.namespace;
        let Some((user, since)) = self.watch(source, name) else {
            let cause = format!("namespace {namespace} has more than {MOST_WATCHED} catalogs in ConfigMaps");
            return ConfigMapState::Unread(Some(cause));
        };
        if !user.is_ready() {
            return match since.elapsed() < PATIENCE {
                true => ConfigMapState::Asked,
                false => ConfigMapState::Unread(user.interruption()),
            };
        }
        let found = user
            .store()
            .get_key(&NamespacedName::new(&*source.namespace, name));
        found.map_or(ConfigMapState::Missing, |found| {
            ConfigMapState::Found(Version {
                uid: found.uid().unwrap_or_default(),
                resource_version: found.resource_version().unwrap_or_default(),
                content_hash: found.hash.clone(),
                owners: found.owners.clone(),
            })
        })
    }

    /// The CatalogSource is gone, or is not made of a ConfigMap any more.
    pub(crate) fn forget(&self, source: &NamespacedName) {
        self.watched.lock().remove(source);
    }

    /// The watch of a source's ConfigMap and its beginning; `None` if its namespace has too many.
    fn watch(
        &self,
        source: &NamespacedName,
        name: &str,
    ) -> Option<(Arc<WatchUser<CatalogContent>>, Instant)> {
        let mut watched = self.watched.lock();
        if let Some(known) = watched.get(source).filter(|known| known.name == name) {
            return Some((Arc::clone(&known.user), known.since));
        }
        let others = watched
            .keys()
            .filter(|other| other.namespace == source.namespace && *other != source);
        if others.count() >= MOST_WATCHED {
            return None;
        }
        let user = Arc::new(self.watches.user(&scope(&source.namespace, name)));
        let since = Instant::now();
        let new = Watched {
            name: name.to_owned(),
            since,
            _first_look: self.first_look(&user, NamespacedName::new(&*source.namespace, name)),
            user: Arc::clone(&user),
        };
        watched.insert(source.clone(), new);
        Some((user, since))
    }

    fn first_look(&self, user: &Arc<WatchUser<CatalogContent>>, config_map: NamespacedName) -> JoinSet<()> {
        let (user, listeners) = (Arc::clone(user), Arc::clone(&self.listeners));
        let mut task = JoinSet::new();
        task.spawn(async move {
            user.ready().await;
            let listeners = listeners.read().clone();
            listeners.iter().for_each(|listener| listener(&config_map));
        });
        task
    }
}

fn scope(namespace: &str, name: &str) -> Scope {
    Scope {
        api: ApiResource::erase::<ConfigMap>(&()),
        namespace: Some(namespace.to_owned()),
        name: Some(name.to_owned()),
        label: None,
    }
}

#[cfg(test)]
mod tests;
