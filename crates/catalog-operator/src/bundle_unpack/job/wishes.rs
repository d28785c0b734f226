//! Requests for Jobs, and the ConfigMaps for their results.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, Client};
use olm_api::v1alpha1::CatalogSource;
use olm_oci::Reference;
use olm_runtime::NamespacedName;
use olm_runtime::discovery::deadline;
use olm_runtime::error::ObserveError;
use olm_runtime::store::Store;
use serde_json::Value;
use tokio::sync::Notify;

use super::super::error::{UnpackClass, UnpackError};
use super::objects::{JobSettings, pod_spec};
use super::occupant::{Occupant, occupant};
use super::progress::{is_failed, is_ours, is_over, uid};
use super::result::{Evidence, vouched_image};
use super::{
    JOBS, JOBS_OF_A_CATALOG_NAMESPACE, JOBS_OF_A_NAMESPACE, JobWish, name_for_catalog, name_of_image,
};
use crate::fair_permits::FairPermits;
use crate::object;
use crate::stores::unpacks::{JobSketch, Programs, UnpackStores};

/// The stores with Jobs and catalogs.
#[derive(Clone)]
pub(crate) struct JobStores {
    pub sources: Store<CatalogSource>,
    /// Jobs and their pods.
    pub unpacks: UnpackStores,
}

/// Unpacks by Jobs; clones share the state.
#[derive(Clone)]
pub(crate) struct UnpackJobs {
    pub(super) shared: Arc<Shared>,
}

pub(super) struct Shared {
    client: Client,
    pub(super) stores: JobStores,
    settings: JobSettings,
    /// True when no image is pulled in this process.
    only: bool,
    /// Permits by subscriber namespace, so that no namespace waits for another's requests.
    pub(super) turns: FairPermits,
    /// Permits by the namespace of the Jobs.
    pub(super) places: FairPermits,
    wake: Box<dyn Fn(&NamespacedName) + Send + Sync>,
    wishes: Mutex<BTreeMap<NamespacedName, Registered>>,
}

#[derive(Clone)]
pub(super) struct Registered {
    pub(super) wish: Arc<JobWish>,
    pub(super) changed: Arc<Notify>,
}

/// ConfigMap for a bundle.
struct Place {
    key: NamespacedName,
    /// The existing ConfigMap.
    found: Option<Value>,
    /// Uids of Jobs that produced its current content, so that it is trusted.
    vouched: BTreeSet<String>,
    occupant: Occupant,
}

/// A request that ends when this is dropped.
pub(super) struct Waiting {
    jobs: UnpackJobs,
    pub(super) key: NamespacedName,
    pub(super) registered: Registered,
}

impl Waiting {
    /// Sets the deadline of the Job.
    pub(super) fn set_deadline(&mut self, deadline: Duration) {
        if self.registered.wish.deadline == deadline {
            return;
        }
        self.registered.wish = Arc::new(JobWish {
            deadline,
            ..JobWish::clone(&self.registered.wish)
        });
        let changed = self.registered.clone();
        self.jobs.lock().insert(self.key.clone(), changed);
        (self.jobs.shared.wake)(&self.key);
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.jobs.lock().remove(&self.key);
        // Triggers the cleanup of its objects.
        (self.jobs.shared.wake)(&self.key);
    }
}

impl fmt::Debug for UnpackJobs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UnpackJobs").finish_non_exhaustive()
    }
}

impl UnpackJobs {
    /// Creates the unpacks; `wake` triggers the reconciler of a key. With `only` every bundle is unpacked by
    /// a Job.
    pub(crate) fn new(
        client: Client,
        stores: JobStores,
        settings: JobSettings,
        only: bool,
        wake: impl Fn(&NamespacedName) + Send + Sync + 'static,
    ) -> Self {
        Self {
            shared: Arc::new(Shared {
                client,
                stores,
                settings,
                only,
                turns: FairPermits::with_share(JOBS, JOBS_OF_A_NAMESPACE),
                places: FairPermits::with_share(JOBS, JOBS_OF_A_CATALOG_NAMESPACE),
                wake: Box::new(wake),
                wishes: Mutex::default(),
            }),
        }
    }

    /// True when no image is pulled in this process.
    pub(crate) fn is_only_way(&self) -> bool {
        self.shared.only
    }

    pub(crate) fn sources(&self) -> &Store<CatalogSource> {
        &self.shared.stores.sources
    }

    pub(crate) fn settings(&self) -> &JobSettings {
        &self.shared.settings
    }

    /// Returns the request of a key.
    pub(crate) fn wish(&self, key: &NamespacedName) -> Option<Arc<JobWish>> {
        let wishes = self.lock();
        wishes.get(key).map(|registered| Arc::clone(&registered.wish))
    }

    /// Returns Jobs labelled with a key's name.
    pub(crate) fn jobs_of(&self, key: &NamespacedName) -> Vec<Arc<JobSketch>> {
        self.shared.stores.unpacks.jobs_of(key)
    }

    /// Wakes the subscribers of a key after a change.
    pub(crate) fn changed(&self, key: &NamespacedName) {
        if let Some(registered) = self.lock().get(key) {
            registered.changed.notify_one();
        }
    }

    /// Triggers all requests of a changed catalog, because their Jobs may need other settings.
    pub(crate) fn catalog_changed(&self, catalog: &NamespacedName) {
        let mut keys = Vec::new();
        for (key, registered) in &*self.lock() {
            if registered.wish.catalog == *catalog {
                registered.changed.notify_one();
                keys.push(key.clone());
            }
        }
        keys.iter().for_each(|key| (self.shared.wake)(key));
    }

    /// Returns the programs in pods of a key's Jobs.
    pub(super) fn programs(&self, key: &NamespacedName, wish: &JobWish, source: &CatalogSource) -> Programs {
        Programs::of(&pod_spec(key, &wish.image, source, self.settings()))
    }

    pub(super) async fn register(&self, mut wish: JobWish) -> Result<Waiting, UnpackError> {
        // An invalid image reference is invalid for a pod, too.
        let parsed = wish.image.parse::<Reference>();
        let image = parsed.map_err(|error| UnpackError::new(UnpackClass::Malformed, error))?;
        let source = self.sources().get_key(&wish.catalog);
        let place = self.place(&wish, source.as_deref()).await?;
        let is_fixed = image.digest().is_some();
        let is_passed_over = |job: &JobSketch| {
            // The tag may have moved.
            let counts = is_fixed && place.vouched.contains(&uid(job));
            is_failed(job) || (is_over(job) && !counts)
        };
        let Place {
            key, found, occupant, ..
        } = &place;
        let jobs = self.jobs_of(key);
        let passed_over = jobs.iter().filter(|job| is_passed_over(job));
        wish.passed_over = passed_over.map(|job| uid(job)).collect();
        wish.discarded = found
            .as_ref()
            .filter(|_| *occupant != Occupant::Usable)
            .and_then(|found| object::metadata_text(found, "uid").map(str::to_owned));
        let key = key.clone();
        let registered = Registered {
            wish: Arc::new(wish),
            changed: Arc::default(),
        };
        match self.lock().entry(key.clone()) {
            Entry::Vacant(place) => {
                place.insert(registered.clone());
            }
            // A catalog that uses two names for one image: the requests run one after the other.
            Entry::Occupied(_) => {
                let cause = format!("ConfigMap {key} is in use by another request");
                return Err(UnpackError::new(UnpackClass::Unreachable, cause));
            }
        }
        (self.shared.wake)(&key);
        Ok(Waiting {
            jobs: self.clone(),
            key,
            registered,
        })
    }

    /// Returns the ConfigMap for the image, unless another catalog of the namespace or another owner uses its
    /// name. The fallback name is for this catalog alone, so an object that blocks it has no right to the
    /// name.
    async fn place(&self, wish: &JobWish, source: Option<&CatalogSource>) -> Result<Place, UnpackError> {
        let usual = NamespacedName::new(&*wish.catalog.namespace, name_of_image(&wish.image));
        let is_anothers = self
            .wish(&usual)
            .is_some_and(|other| other.catalog != wish.catalog);
        let found = self.read(&usual).await?;
        let place = self.look_at(usual, wish, source, found);
        if place.occupant != Occupant::Foreign && !is_anothers {
            return Ok(place);
        }
        let name = name_for_catalog(&wish.image, &wish.catalog.name);
        let own = NamespacedName::new(&*wish.catalog.namespace, name);
        let found = self.read(&own).await?;
        Ok(self.look_at(own, wish, source, found))
    }

    /// Returns the usability of an existing ConfigMap `found`, and the Jobs it is from. Users may create many
    /// Jobs and pods, so each is visited once.
    fn look_at(
        &self,
        key: NamespacedName,
        wish: &JobWish,
        source: Option<&CatalogSource>,
        found: Option<Value>,
    ) -> Place {
        let (Some(source), Some(config_map)) = (source, &found) else {
            return Place {
                key,
                found,
                vouched: BTreeSet::new(),
                occupant: Occupant::Usable,
            };
        };
        let runs = self.programs(&key, wish, source);
        let (jobs, pods) = (self.jobs_of(&key), self.shared.stores.unpacks.pods_of(&key));
        let hash = OnceLock::new();
        let is_vouched = |job: &&Arc<JobSketch>| {
            let evidence = Evidence {
                key: &key,
                source,
                runs: &runs,
                job,
                pods: &pods,
                hash: &hash,
            };
            is_over(job) && !is_failed(job) && vouched_image(config_map, wish, &evidence).is_ok()
        };
        let vouched: BTreeSet<String> = jobs.iter().filter(is_vouched).map(|job| uid(job)).collect();
        let goes_on = |job: &Arc<JobSketch>| is_ours(&runs, job) && !is_over(job) && !job.is_deleting();
        let is_filled_now = jobs.iter().any(goes_on);
        let occupant = occupant(config_map, source, !vouched.is_empty(), is_filled_now);
        Place {
            key,
            found,
            vouched,
            occupant,
        }
    }

    /// Reads the ConfigMap live, because it is only read once or twice.
    pub(super) async fn read(&self, key: &NamespacedName) -> Result<Option<Value>, UnpackError> {
        let unreadable = |error: ObserveError| UnpackError::new(UnpackClass::Unreachable, error);
        let api: Api<ConfigMap> = Api::namespaced(self.shared.client.clone(), &key.namespace);
        let what = format!("ConfigMap {key}");
        let found = deadline(&what, api.get_opt(&key.name))
            .await
            .map_err(unreadable)?;
        let read = found.map(serde_json::to_value).transpose();
        read.map_err(|error| UnpackError::new(UnpackClass::InvalidManifest, format!("{what}: {error}")))
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<NamespacedName, Registered>> {
        // Every critical section keeps the map consistent, so a panic elsewhere cannot corrupt it.
        self.shared.wishes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
