//! Requests for unpack Jobs.
//!
//! A request names a bundle, its image and catalog, and a deadline. [`UnpackJobs::register`] chooses the ConfigMap for the
//! result: the one with upstream's name for the image, or, if another catalog or owner uses that, one with a name
//! for this catalog alone. A second request for the same ConfigMap is refused as `Unreachable`, so it is retried. While the
//! [`Registration`] lives, the reconciler of that key keeps the ConfigMap, its rights and one Job in place. Jobs that ended
//! before the request do not count.
//!
//! When the registration is dropped, a running Job goes on for ten minutes, since the subscriber may return. A Job that has
//! ended expires after five. Then the reconciler deletes the ConfigMap, and with it what it owns. A ConfigMap that was not
//! made here stays.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, Client};
use olm_api::v1alpha1::CatalogSource;
use olm_oci::Reference;
use olm_runtime::NamespacedName;
use olm_runtime::discovery::deadline;
use olm_runtime::error::ObserveError;
use olm_runtime::store::Store;
use olm_runtime::sync::Mutex;
use serde_json::Value;
use tokio::sync::Notify;

use super::super::error::{UnpackClass, UnpackError};
use super::objects::pod_spec;
use super::progress::{is_over, uid};
use super::result::is_usable;
use super::{JobRequest, name_for_catalog, name_of_image};
use crate::catalog_source::pod::PodSettings;
use crate::stores::unpacks::{Programs, UnpackJob, UnpackStores};

/// Unpacks by Jobs; clones share the state.
#[derive(Clone)]
pub(crate) struct UnpackJobs {
    pub(super) shared: Arc<Shared>,
}

pub(super) struct Shared {
    client: Client,
    sources: Store<CatalogSource>,
    /// Jobs and their pods.
    pub(super) unpacks: UnpackStores,
    settings: PodSettings,
    /// True when no image is pulled in this process.
    only: bool,
    wake: Box<dyn Fn(&NamespacedName) + Send + Sync>,
    requests: Mutex<BTreeMap<NamespacedName, Registered>>,
}

#[derive(Clone)]
struct Registered {
    request: Arc<JobRequest>,
    /// Notified when the Jobs, pods or catalog of the request have changed.
    changed: Arc<Notify>,
}

/// A request that ends when this is dropped.
pub(super) struct Registration {
    jobs: UnpackJobs,
    /// Key of the ConfigMap for the result.
    pub(super) key: NamespacedName,
    pub(super) request: Arc<JobRequest>,
    pub(super) changed: Arc<Notify>,
}

impl Drop for Registration {
    fn drop(&mut self) {
        self.jobs.shared.requests.lock().remove(&self.key);
        // Triggers the cleanup of its objects.
        (self.jobs.shared.wake)(&self.key);
    }
}

impl UnpackJobs {
    /// Creates the unpacks; `wake` triggers the reconciler of a key. With `only` every bundle is unpacked by
    /// a Job.
    pub(crate) fn new(
        client: Client,
        (sources, unpacks): (Store<CatalogSource>, UnpackStores),
        settings: PodSettings,
        only: bool,
        wake: impl Fn(&NamespacedName) + Send + Sync + 'static,
    ) -> Self {
        Self {
            shared: Arc::new(Shared {
                client,
                sources,
                unpacks,
                settings,
                only,
                wake: Box::new(wake),
                requests: Mutex::default(),
            }),
        }
    }

    /// True when no image is pulled in this process.
    pub(crate) fn is_only_way(&self) -> bool {
        self.shared.only
    }

    pub(crate) fn sources(&self) -> &Store<CatalogSource> {
        &self.shared.sources
    }

    pub(crate) fn settings(&self) -> &PodSettings {
        &self.shared.settings
    }

    /// Returns the request of a key.
    pub(crate) fn request(&self, key: &NamespacedName) -> Option<Arc<JobRequest>> {
        let requests = self.shared.requests.lock();
        requests
            .get(key)
            .map(|registered| Arc::clone(&registered.request))
    }

    /// Returns Jobs labelled with a key's name.
    pub(crate) fn jobs_of(&self, key: &NamespacedName) -> Vec<Arc<UnpackJob>> {
        self.shared.unpacks.jobs_of(key)
    }

    /// Wakes the task that waits for a key after a change.
    pub(crate) fn changed(&self, key: &NamespacedName) {
        if let Some(registered) = self.shared.requests.lock().get(key) {
            registered.changed.notify_one();
        }
    }

    /// Triggers all requests of a changed catalog, because their Jobs may need other settings.
    pub(crate) fn catalog_changed(&self, catalog: &NamespacedName) {
        let mut keys = Vec::new();
        for (key, registered) in &*self.shared.requests.lock() {
            if registered.request.catalog == *catalog {
                registered.changed.notify_one();
                keys.push(key.clone());
            }
        }
        keys.iter().for_each(|key| (self.shared.wake)(key));
    }

    /// Returns the programs in pods of a key's Jobs.
    pub(super) fn programs(&self, key: &NamespacedName, image: &str, source: &CatalogSource) -> Programs {
        Programs::of(&pod_spec(key, image, source, self.settings()))
    }

    /// Registers a request, until the result is dropped.
    ///
    /// # Errors
    /// The image reference is invalid, the ConfigMap cannot be read, or another request uses it.
    pub(super) async fn register(&self, mut request: JobRequest) -> Result<Registration, UnpackError> {
        // An invalid image reference is invalid for a pod, too.
        if let Err(error) = request.image.parse::<Reference>() {
            return Err(UnpackError::new(UnpackClass::Malformed, error));
        }
        let key = self.choose_config_map(&request).await?;
        let jobs = self.jobs_of(&key).into_iter();
        let passed_over = jobs.filter(|job| is_over(job));
        request.passed_over = passed_over.map(|job| uid(&job)).collect();
        let registered = Registered {
            request: Arc::new(request),
            changed: Arc::default(),
        };
        match self.shared.requests.lock().entry(key.clone()) {
            Entry::Vacant(entry) => {
                entry.insert(registered.clone());
            }
            // A catalog that uses two names for one image: the requests run one after the other.
            Entry::Occupied(_) => {
                let cause = format!("ConfigMap {key} is in use by another request");
                return Err(UnpackError::new(UnpackClass::Unreachable, cause));
            }
        }
        (self.shared.wake)(&key);
        Ok(Registration {
            jobs: self.clone(),
            key,
            request: registered.request,
            changed: registered.changed,
        })
    }

    /// Returns the key of the ConfigMap for the result.
    async fn choose_config_map(&self, request: &JobRequest) -> Result<NamespacedName, UnpackError> {
        let namespace = &*request.catalog.namespace;
        let usual = NamespacedName::new(namespace, name_of_image(&request.image));
        let is_anothers = self
            .request(&usual)
            .is_some_and(|other| other.catalog != request.catalog);
        let found = self.read(&usual).await?;
        let source = self.sources().get_key(&request.catalog);
        let is_usable = found
            .zip(source)
            .is_none_or(|(found, source)| is_usable(&found, &source));
        if is_usable && !is_anothers {
            return Ok(usual);
        }
        let name = name_for_catalog(&request.image, &request.catalog.name);
        Ok(NamespacedName::new(namespace, name))
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
}
