//! Who waits for which Job, and what it came to.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::{Api, Client, ResourceExt};
use olm_api::labels;
use olm_api::v1alpha1::CatalogSource;
use olm_oci::Reference;
use olm_runtime::NamespacedName;
use olm_runtime::discovery::deadline;
use olm_runtime::error::ObserveError;
use olm_runtime::store::Store;
use serde_json::Value;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::super::content::UnpackedBundle;
use super::super::error::{UnpackClass, UnpackError};
use super::objects::{JobSettings, pod_spec};
use super::progress::{Progress, is_failed, is_over, progress, uid};
use super::result::{self, Evidence, is_of_source};
use super::{JOBS, JOBS_OF_A_NAMESPACE, JobWish, name_for_catalog, name_of_image};
use crate::fair_permits::FairPermits;

/// How often it is looked whether somebody still waits, whatever changes.
const LOOK_EVERY: Duration = Duration::from_secs(30);
/// How long there may be no Job before that is told, and before it is a failure.
const NO_JOB_TOLD: Duration = Duration::from_secs(10);
const NO_JOB_FOR: Duration = Duration::from_secs(120);
/// How long the word of a Job's pod may come after that of the Job, which another watch brings.
const PROOF_WITHIN: Duration = Duration::from_secs(10);
const LAST_WORDS_WITHIN: Duration = Duration::from_secs(2);
/// How soon it is looked for.
const SOON: Duration = Duration::from_secs(1);

/// The stores that tell of Jobs.
#[derive(Clone)]
pub(crate) struct JobStores {
    /// Catalogs.
    pub sources: Store<CatalogSource>,
    /// Jobs that bear the label of an unpack.
    pub jobs: Store<Job>,
    /// Pods that do.
    pub pods: Store<Pod>,
}

/// Unpacks by Jobs; a clone is another handle to the same.
#[derive(Clone)]
pub(crate) struct UnpackJobs {
    shared: Arc<Shared>,
}

struct Shared {
    client: Client,
    stores: JobStores,
    settings: JobSettings,
    /// Whether nothing is pulled in this process.
    only: bool,
    permits: FairPermits,
    wake: Box<dyn Fn(&NamespacedName) + Send + Sync>,
    wishes: Mutex<BTreeMap<NamespacedName, Registered>>,
}

#[derive(Clone)]
struct Registered {
    wish: Arc<JobWish>,
    changed: Arc<Notify>,
}

/// A wish that ends when this is dropped.
struct Waiting {
    jobs: UnpackJobs,
    key: NamespacedName,
    registered: Registered,
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.jobs.lock().remove(&self.key);
        // What is left behind is looked at.
        (self.jobs.shared.wake)(&self.key);
    }
}

impl fmt::Debug for UnpackJobs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UnpackJobs").finish_non_exhaustive()
    }
}

impl UnpackJobs {
    /// Unpacks whose keys `wake` brings to the reconciler. With `only` every bundle is unpacked so.
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
                permits: FairPermits::with_share(JOBS, JOBS_OF_A_NAMESPACE),
                wake: Box::new(wake),
                wishes: Mutex::default(),
            }),
        }
    }

    /// Whether nothing is pulled in this process.
    pub(crate) fn is_only_way(&self) -> bool {
        self.shared.only
    }

    /// The catalogs.
    pub(crate) fn sources(&self) -> &Store<CatalogSource> {
        &self.shared.stores.sources
    }

    /// What Jobs depend on.
    pub(crate) fn settings(&self) -> &JobSettings {
        &self.shared.settings
    }

    /// What somebody waits for under a key.
    pub(crate) fn wish(&self, key: &NamespacedName) -> Option<Arc<JobWish>> {
        let wishes = self.lock();
        wishes.get(key).map(|registered| Arc::clone(&registered.wish))
    }

    /// Jobs that bear a key's name as their label.
    pub(crate) fn jobs_of(&self, key: &NamespacedName) -> Vec<Arc<Job>> {
        let jobs = self.shared.stores.jobs.list_in(&key.namespace).into_iter();
        jobs.filter(|job| job.labels().get(labels::BUNDLE_UNPACK_REF) == Some(&key.name))
            .collect()
    }

    /// Something of a key has changed: who waits looks again.
    pub(crate) fn changed(&self, key: &NamespacedName) {
        if let Some(registered) = self.lock().get(key) {
            registered.changed.notify_one();
        }
    }

    /// The bundle, once a Job has unpacked it. `refused` is why this process could not have it. `pending` is told why there is
    /// none yet, and says whether it is still wanted; none is returned when it is not.
    pub(crate) async fn unpack(
        &self,
        wish: JobWish,
        refused: Option<&UnpackError>,
        mut pending: impl FnMut(UnpackError) -> bool + Send,
    ) -> Option<Result<UnpackedBundle, UnpackError>> {
        let with_refusal = |text: String| match refused {
            Some(refused) => format!("{text}; this process: {}: {refused}", refused.class.reason()),
            None => text,
        };
        let _permit = self.shared.permits.acquire(&wish.catalog.namespace).await;
        let waiting = match self.register(wish).await {
            Ok(waiting) => waiting,
            Err(error) => return Some(Err(error)),
        };
        let started = Instant::now();
        let (mut over_since, mut told) = (None, String::new());
        loop {
            match self.look(&waiting, started.elapsed(), &mut over_since).await {
                Ok(Look::Done(bundle)) => return Some(Ok(*bundle)),
                Ok(Look::Soon) => {}
                Ok(Look::Pending(text)) => {
                    // A node that cannot pull tells of its tries and of its pauses in turns.
                    if !(is_of_pull(&told) && is_of_pull(&text)) {
                        told.clone_from(&text);
                    }
                    let text = told.clone();
                    let trouble = UnpackError::new(UnpackClass::JobIncomplete, with_refusal(text));
                    if !pending(trouble) {
                        return None;
                    }
                }
                Err(error) => {
                    let cause = with_refusal(error.cause);
                    return Some(Err(UnpackError { cause, ..error }));
                }
            }
            let next = match over_since {
                Some(_) => SOON,
                None if started.elapsed() < NO_JOB_FOR => NO_JOB_TOLD,
                None => LOOK_EVERY,
            };
            let changed = waiting.registered.changed.notified();
            // Nothing depends on which of them it was.
            let _ = tokio::time::timeout(next, changed).await;
        }
    }

    async fn register(&self, mut wish: JobWish) -> Result<Waiting, UnpackError> {
        // What is no image is no name for a pod's, either.
        let parsed = wish.image.parse::<Reference>();
        let image = parsed.map_err(|error| UnpackError::new(UnpackClass::Malformed, error))?;
        let key = self.free_key(&wish).await?;
        let is_fixed = image.digest().is_some();
        let source = self.sources().get_key(&wish.catalog);
        let runs = source
            .as_ref()
            .map(|source| pod_spec(&key, &wish.image, source, self.settings()));
        let pods = self.shared.stores.pods.list_in(&key.namespace);
        let is_passed_over = |job: &Job| {
            let evidence = source.as_ref().zip(runs.as_ref()).map(|(source, runs)| Evidence {
                key: &key,
                source,
                runs,
                job,
                pods: &pods,
            });
            // Behind a tag there may be something else by now.
            let counts = is_fixed && evidence.is_some_and(|evidence| evidence.proof().is_some());
            is_failed(job) || (is_over(job) && !counts)
        };
        let jobs = self.jobs_of(&key);
        let passed_over = jobs.iter().filter(|job| is_passed_over(job));
        wish.passed_over = passed_over
            .map(|job| uid(job).to_owned())
            .collect::<BTreeSet<_>>();
        let registered = Registered {
            wish: Arc::new(wish),
            changed: Arc::default(),
        };
        match self.lock().entry(key.clone()) {
            Entry::Vacant(place) => {
                place.insert(registered.clone());
            }
            // A catalog that calls one image by two names: one after the other.
            Entry::Occupied(_) => {
                let cause = format!("ConfigMap {key} is being filled for another request");
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

    /// The name of the image, unless another catalog of the namespace or somebody else has it.
    async fn free_key(&self, wish: &JobWish) -> Result<NamespacedName, UnpackError> {
        let usual = NamespacedName::new(&*wish.catalog.namespace, name_of_image(&wish.image));
        let is_anothers = self
            .wish(&usual)
            .is_some_and(|other| other.catalog != wish.catalog);
        let source = self.sources().get_key(&wish.catalog);
        let found = self.read(&usual).await?;
        let is_free = found.is_none_or(|found| source.is_none_or(|source| is_of_source(&found, &source)));
        if is_free && !is_anothers {
            return Ok(usual);
        }
        let name = name_for_catalog(&wish.image, &wish.catalog.name);
        Ok(NamespacedName::new(&*wish.catalog.namespace, name))
    }

    async fn look(
        &self,
        waiting: &Waiting,
        elapsed: Duration,
        over_since: &mut Option<Instant>,
    ) -> Result<Look, UnpackError> {
        let (key, wish) = (&waiting.key, &waiting.registered.wish);
        let failed = |class, cause: String| Err(UnpackError::new(class, cause));
        let Some(source) = self.sources().get_key(&wish.catalog) else {
            // Upstream's words.
            let cause = format!("referenced catalogsource not found: {}", wish.catalog);
            return failed(UnpackClass::NotFound, cause);
        };
        let runs = pod_spec(key, &wish.image, &source, self.settings());
        let jobs = self.jobs_of(key);
        let pods = self.shared.stores.pods.list_in(&key.namespace);
        match progress(key, wish, &runs, &jobs, &pods) {
            Progress::Failed {
                class,
                message,
                is_explained,
            } => {
                let since = *over_since.get_or_insert_with(Instant::now);
                if !is_explained && since.elapsed() < LAST_WORDS_WITHIN {
                    return Ok(Look::Soon);
                }
                failed(class, message)
            }
            Progress::Pending(text) => Ok(Look::Pending(text)),
            Progress::NoJob if elapsed < NO_JOB_TOLD => {
                Ok(Look::Pending("unpack job not yet started".to_owned()))
            }
            Progress::NoJob => {
                let found = self.read(key).await?;
                if found.is_some_and(|found| !is_of_source(&found, &source)) {
                    let cause = format!(
                        "ConfigMap {key} belongs to somebody else than CatalogSource {}",
                        wish.catalog
                    );
                    return failed(UnpackClass::JobFailed, cause);
                }
                let cause = format!(
                    "there is no unpack Job {key}; events of CatalogSource {} tell why",
                    wish.catalog
                );
                if elapsed < NO_JOB_FOR {
                    return Ok(Look::Pending(cause));
                }
                failed(UnpackClass::JobFailed, cause)
            }
            Progress::Complete(job) => {
                let evidence = Evidence {
                    key,
                    source: &source,
                    runs: &runs,
                    job: &job,
                    pods: &pods,
                };
                let since = *over_since.get_or_insert_with(Instant::now);
                if evidence.proof().is_none() && since.elapsed() < PROOF_WITHIN {
                    return Ok(Look::Soon);
                }
                let Some(config_map) = self.read(key).await? else {
                    return failed(UnpackClass::JobFailed, format!("ConfigMap {key} was deleted"));
                };
                let bundle = result::read(&config_map, wish, &evidence)?;
                Ok(Look::Done(Box::new(bundle)))
            }
        }
    }

    /// The ConfigMap, live: it is read once or twice in its life.
    async fn read(&self, key: &NamespacedName) -> Result<Option<Value>, UnpackError> {
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
        // Every critical section leaves the map consistent, so a panic elsewhere cannot spoil it.
        self.shared.wishes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn is_of_pull(text: &str) -> bool {
    ["ErrImagePull", "ImagePullBackOff"]
        .iter()
        .any(|word| text.contains(word))
}

/// What a look showed.
enum Look {
    Done(Box<UnpackedBundle>),
    /// Why there is nothing yet.
    Pending(String),
    /// The Job is over, and what became of it will be known at once.
    Soon,
}
