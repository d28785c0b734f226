//! Waits for a Job: for its end, and for its result.
//!
//! A request is registered, and checked whenever its Jobs, pods or catalog change. Without a change it is checked every
//! 30 s, every 10 s if there is no Job or no pod, and every second after the end of the Job. Each check
//! ([`UnpackJobs::check`]) maps the progress of the Job to a result, an error, or a reason of the delay. States that
//! are usually over in a moment (no Job, no pod, no report of a finished pod) are reported only after they have lasted.

use std::time::Duration;

use olm_api::labels;
use olm_runtime::NamespacedName;
use serde_json::Value;
use tokio::time::Instant;

use super::super::error::{UnpackClass, UnpackError};
use super::JobRequest;
use super::progress::{INCOMPLETE, Progress, Trouble, progress, uid};
use super::requests::{Registration, UnpackJobs};
use super::result::{Evidence, VouchedBundle, is_leaving, is_of_source, vouched_image};

/// Interval of the checks, independent of changes.
const CHECK_EVERY: Duration = Duration::from_secs(30);
/// Time without a Job, or without a pod of it, before that is reported; and time without a Job before it is a
/// failure.
const NONE_REPORTED: Duration = Duration::from_secs(10);
const NO_JOB_FOR: Duration = Duration::from_secs(120);
/// Time in which the report of a Job's pod may arrive after the Job's end, because it comes from another
/// watch.
const PROOF_WITHIN: Duration = Duration::from_secs(10);
const LAST_WORDS_WITHIN: Duration = Duration::from_secs(2);
/// Interval of the checks for it.
const SOON: Duration = Duration::from_secs(1);

/// Start times of states.
#[derive(Default)]
struct Since {
    no_job: Option<Instant>,
    no_pod: Option<Instant>,
    over: Option<Instant>,
}

impl UnpackJobs {
    /// Returns the bundle, once a Job has unpacked it. `refused` is the error of this process;
    /// `pending` is called with the reason of each delay.
    pub(crate) async fn unpack(
        &self,
        request: JobRequest,
        refused: Option<&UnpackError>,
        pending: impl Fn(UnpackError) + Sync,
    ) -> Result<VouchedBundle, UnpackError> {
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
        let pending = |class, text: &str| pending(with_refusal(UnpackError::new(class, text)));
        let registration = self.register(request).await?;
        let (mut since, mut reported) = (Since::default(), (Trouble::Other, String::new()));
        loop {
            match self
                .check(&registration, &mut since)
                .await
                .map_err(with_refusal)?
            {
                Check::Done(bundle) => return Ok(*bundle),
                Check::Soon => {}
                Check::Pending(class, trouble, text) => {
                    if !trouble.is_same(reported.0) {
                        reported = (trouble, text);
                    }
                    pending(class, &reported.1);
                }
            }
            let next = match since {
                Since { over: Some(_), .. } => SOON,
                Since {
                    no_job: None,
                    no_pod: None,
                    ..
                } => CHECK_EVERY,
                _ => NONE_REPORTED,
            };
            // The loop continues after a change and after a timeout.
            let _ = tokio::time::timeout(next, registration.changed.notified()).await;
        }
    }

    async fn check(&self, registration: &Registration, since: &mut Since) -> Result<Check, UnpackError> {
        let (key, request) = (&registration.key, &registration.request);
        let failed = |class, cause: String| Err(UnpackError::new(class, cause));
        let Some(source) = self.sources().get_key(&request.catalog) else {
            // Upstream's text.
            let cause = format!("referenced catalogsource not found: {}", request.catalog);
            return failed(UnpackClass::NotFound, cause);
        };
        let runs = self.programs(key, &request.image, &source);
        let pods = self.shared.unpacks.pods_of(key);
        let progress = progress(request, &runs, &self.jobs_of(key), &pods);
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
                    return Ok(Check::Soon);
                }
                failed(class, message)
            }
            Progress::Pending {
                class,
                trouble,
                message,
            } => Ok(Check::Pending(class, trouble, message)),
            Progress::NoPod => {
                let since = *since.no_pod.get_or_insert_with(Instant::now);
                if since.elapsed() < NONE_REPORTED {
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
                self.without_job(registration, since.elapsed()).await
            }
            Progress::Complete(job) => {
                let evidence = Evidence {
                    key,
                    source: &source,
                    runs: &runs,
                    job: &job,
                    pods: &pods,
                };
                let since = *since.over.get_or_insert_with(Instant::now);
                if !evidence.has_proof() && since.elapsed() < PROOF_WITHIN {
                    return Ok(Check::Soon);
                }
                let Some(config_map) = self.read(key).await? else {
                    return failed(UnpackClass::JobFailed, format!("ConfigMap {key} was deleted"));
                };
                let image = vouched_image(&config_map, request, &evidence)?;
                Ok(Check::Done(Box::new(VouchedBundle { image, config_map })))
            }
        }
    }

    /// Returns a Job that replaced ours, created since the wait began.
    fn altered_job(&self, registration: &Registration) -> Option<NamespacedName> {
        let passed_over = &registration.request.passed_over;
        let jobs = self.jobs_of(&registration.key).into_iter();
        let mut others = jobs.filter(|job| job.config_map.is_some() && !passed_over.contains(&uid(job)));
        others.next().map(|job| job.key())
    }

    /// Returns the message after this time without a Job.
    async fn without_job(
        &self,
        registration: &Registration,
        elapsed: Duration,
    ) -> Result<Check, UnpackError> {
        if elapsed < NONE_REPORTED {
            let text = "unpack job not yet started".to_owned();
            return Ok(other(UnpackClass::JobIncomplete, text));
        }
        let (key, catalog) = (&registration.key, &registration.request.catalog);
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
        } else if let Some(job) = self.altered_job(registration) {
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

fn other(class: UnpackClass, text: String) -> Check {
    Check::Pending(class, Trouble::Other, text)
}

/// Result of one check.
enum Check {
    Done(Box<VouchedBundle>),
    /// Reason why there is no result yet.
    Pending(UnpackClass, Trouble, String),
    /// The Job has ended, and its result will be known in a moment.
    Soon,
}
