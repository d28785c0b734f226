//! Waits for a Job: for its turn, for its end, and for its result.

use std::pin::pin;
use std::sync::OnceLock;
use std::time::Duration;

use olm_api::labels;
use olm_runtime::NamespacedName;
use serde_json::Value;
use tokio::time::Instant;

use super::super::error::{UnpackClass, UnpackError};
use super::occupant::is_leaving;
use super::progress::{INCOMPLETE, Progress, Trouble, progress, uid};
use super::result::{Evidence, VouchedBundle, is_of_source, vouched_image};
use super::wishes::{UnpackJobs, Waiting};
use super::{JOBS_OF_A_CATALOG_NAMESPACE, JOBS_OF_A_NAMESPACE, JobWish};
use crate::fair_permits::{FairPermits, Permit, Ticket};

/// Interval of the checks for subscribers, independent of changes.
const LOOK_EVERY: Duration = Duration::from_secs(30);
/// Time without a Job, or without a pod of it, before that is reported; and time without a Job before it is a
/// failure.
const NONE_TOLD: Duration = Duration::from_secs(10);
const NO_JOB_FOR: Duration = Duration::from_secs(120);
/// Time in which the report of a Job's pod may arrive after the Job's end, because it comes from another
/// watch.
const PROOF_WITHIN: Duration = Duration::from_secs(10);
const LAST_WORDS_WITHIN: Duration = Duration::from_secs(2);
/// Interval of the checks for it.
const SOON: Duration = Duration::from_secs(1);

/// Subscribers of a bundle.
pub(crate) trait Waiters: Send + Sync {
    /// Reports the reason of the delay; returns false when there are no subscribers any more.
    fn pending(&self, trouble: UnpackError) -> bool;

    /// Returns the longest of their deadlines; zero for none.
    fn deadline(&self) -> Duration;

    /// Returns a slot in the queues of all their namespaces; later subscribers join it.
    fn ticket(&self, permits: &FairPermits) -> Ticket;
}

/// Start times of states.
#[derive(Default)]
struct Since {
    no_job: Option<Instant>,
    no_pod: Option<Instant>,
    over: Option<Instant>,
}

impl UnpackJobs {
    /// Returns the bundle, once a Job has unpacked it. `refused` is the error of this process. `None` when
    /// there are no subscribers any more.
    pub(crate) async fn unpack<W: Waiters>(
        &self,
        wish: JobWish,
        refused: Option<&UnpackError>,
        waiters: &W,
    ) -> Option<Result<VouchedBundle, UnpackError>> {
        let with_refusal = |error: UnpackError| match refused {
            Some(refused) => UnpackError {
                cause: format!(
                    "{}; this process: {}: {refused}",
                    error.cause,
                    refused.class.reason()
                ),
                ..error
            },
            None => error,
        };
        let pending = |class, text: &str| waiters.pending(with_refusal(UnpackError::new(class, text)));
        let _permits = self.turn(&wish.catalog.namespace, waiters, pending).await?;
        let mut waiting = match self.register(wish).await {
            Ok(waiting) => waiting,
            Err(error) => return Some(Err(error)),
        };
        let (mut since, mut told) = (Since::default(), (Trouble::Other, String::new()));
        loop {
            waiting.set_deadline(waiters.deadline());
            match self.look(&waiting, &mut since).await {
                Ok(Look::Done(bundle)) => return Some(Ok(*bundle)),
                Ok(Look::Soon) => {}
                Ok(Look::Pending(class, trouble, text)) => {
                    if !trouble.is_same(told.0) {
                        told = (trouble, text);
                    }
                    if !pending(class, &told.1) {
                        return None;
                    }
                }
                Err(error) => return Some(Err(with_refusal(error))),
            }
            let next = match since {
                Since { over: Some(_), .. } => SOON,
                Since {
                    no_job: None,
                    no_pod: None,
                    ..
                } => LOOK_EVERY,
                _ => NONE_TOLD,
            };
            let changed = waiting.registered.changed.notified();
            // The loop continues after a change and after a timeout.
            let _ = tokio::time::timeout(next, changed).await;
        }
    }

    /// Waits until another Job may run. `None` when there are no subscribers any more.
    async fn turn<W: Waiters>(
        &self,
        of_catalog: &str,
        waiters: &W,
        pending: impl Fn(UnpackClass, &str) -> bool,
    ) -> Option<[Permit; 2]> {
        let permits = async {
            let turn = waiters.ticket(&self.shared.turns).permit().await;
            [turn, self.shared.places.acquire(of_catalog).await]
        };
        let mut permits = pin!(permits);
        let mut next = SOON;
        loop {
            tokio::select! {
                permits = &mut permits => return Some(permits),
                () = tokio::time::sleep(next) => {}
            }
            let text = format!(
                "unpack job not yet started: waiting for other unpack Jobs, which run {JOBS_OF_A_NAMESPACE} at a time for one namespace and {JOBS_OF_A_CATALOG_NAMESPACE} in one namespace"
            );
            if !pending(UnpackClass::JobHeldUp, &text) {
                return None;
            }
            next = LOOK_EVERY;
        }
    }

    async fn look(&self, waiting: &Waiting, since: &mut Since) -> Result<Look, UnpackError> {
        let (key, wish) = (&waiting.key, &waiting.registered.wish);
        let failed = |class, cause: String| Err(UnpackError::new(class, cause));
        let Some(source) = self.sources().get_key(&wish.catalog) else {
            // Upstream's text.
            let cause = format!("referenced catalogsource not found: {}", wish.catalog);
            return failed(UnpackClass::NotFound, cause);
        };
        let runs = self.programs(key, wish, &source);
        let pods = self.shared.stores.unpacks.pods_of(key);
        let progress = progress(wish, &runs, &self.jobs_of(key), &pods);
        if !matches!(progress, Progress::NoJob) {
            since.no_job = None;
        }
        if !matches!(progress, Progress::NoPod) {
            since.no_pod = None;
        }
        match progress {
            Progress::Failed {
                class,
                message,
                is_explained,
            } => {
                let since = *since.over.get_or_insert_with(Instant::now);
                if !is_explained && since.elapsed() < LAST_WORDS_WITHIN {
                    return Ok(Look::Soon);
                }
                failed(class, message)
            }
            Progress::Pending {
                class,
                trouble,
                message,
            } => Ok(Look::Pending(class, trouble, message)),
            Progress::NoPod => {
                let since = *since.no_pod.get_or_insert_with(Instant::now);
                if since.elapsed() < NONE_TOLD {
                    return Ok(other(UnpackClass::JobIncomplete, INCOMPLETE.to_owned()));
                }
                let namespace = &key.namespace;
                let text = format!(
                    "{INCOMPLETE}: it has created no pod; quotas, pod security or webhooks of namespace {namespace} may reject it"
                );
                Ok(other(UnpackClass::JobHeldUp, text))
            }
            Progress::NoJob => {
                let since = *since.no_job.get_or_insert_with(Instant::now);
                self.without_job(waiting, since.elapsed()).await
            }
            Progress::Complete(job) => {
                let evidence = Evidence {
                    key,
                    source: &source,
                    runs: &runs,
                    job: &job,
                    pods: &pods,
                    hash: &OnceLock::new(),
                };
                let since = *since.over.get_or_insert_with(Instant::now);
                if !evidence.has_proof() && since.elapsed() < PROOF_WITHIN {
                    return Ok(Look::Soon);
                }
                let Some(config_map) = self.read(key).await? else {
                    return failed(UnpackClass::JobFailed, format!("ConfigMap {key} was deleted"));
                };
                let image = vouched_image(&config_map, wish, &evidence)?;
                Ok(Look::Done(Box::new(VouchedBundle { image, config_map })))
            }
        }
    }

    /// Returns a Job that replaced ours, created since the wait began.
    fn altered_job(&self, waiting: &Waiting) -> Option<NamespacedName> {
        let passed_over = &waiting.registered.wish.passed_over;
        let jobs = self.jobs_of(&waiting.key).into_iter();
        let mut others = jobs.filter(|job| job.config_map.is_some() && !passed_over.contains(&uid(job)));
        others.next().map(|job| job.key())
    }

    /// Returns the message after this time without a Job.
    async fn without_job(&self, waiting: &Waiting, elapsed: Duration) -> Result<Look, UnpackError> {
        if elapsed < NONE_TOLD {
            let text = "unpack job not yet started".to_owned();
            return Ok(other(UnpackClass::JobIncomplete, text));
        }
        let (key, catalog) = (&waiting.key, &waiting.registered.wish.catalog);
        let found = self.read(key).await?;
        let source = self.sources().get_key(catalog);
        let is_others = |found: &Value| source.as_ref().is_some_and(|source| !is_of_source(found, source));
        let cause = if found.as_ref().is_some_and(is_leaving) {
            format!(
                "ConfigMap {key} is stuck in deletion: see its metadata.finalizers; OLM creates the Job once it is gone"
            )
        } else if found.as_ref().is_some_and(is_others) {
            let cause = format!("ConfigMap {key} does not belong to CatalogSource {catalog}");
            return Err(UnpackError::new(UnpackClass::JobFailed, cause));
        } else if let Some(job) = self.altered_job(waiting) {
            format!(
                "unpack Job {job} differs from the one that OLM created; exempt Jobs with label {}={} from webhooks that change them",
                labels::MANAGED,
                labels::TRUE
            )
        } else {
            format!("unpack Job {key} does not exist; see the events of CatalogSource {catalog}")
        };
        if elapsed < NO_JOB_FOR {
            return Ok(other(UnpackClass::JobHeldUp, cause));
        }
        Err(UnpackError::new(UnpackClass::JobFailed, cause))
    }
}

fn other(class: UnpackClass, text: String) -> Look {
    Look::Pending(class, Trouble::Other, text)
}

/// Result of one check.
enum Look {
    Done(Box<VouchedBundle>),
    /// Reason why there is no result yet.
    Pending(UnpackClass, Trouble, String),
    /// The Job has ended, and its result will be known in a moment.
    Soon,
}
