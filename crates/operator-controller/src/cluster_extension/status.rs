//! Reports the state of an extension. Pure.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::ResourceExt as _;
use olm_api::condition::{FALSE, TRUE, cluster_extension as words, cluster_object_set as of_set};
use olm_api::extension_v1::{
    ClusterExtension, ClusterExtensionInstallStatus, ClusterExtensionStatus, ClusterObjectSet, RevisionStatus,
};
use olm_runtime::Timestamp;
use olm_runtime::condition::{condition_of, remove_condition, set_condition};
use olm_runtime::driver::{StatusUpdate, backoff};
use olm_runtime::outcome::Outcomes;
use olm_runtime::plan::{Action, Requeue, status_of};

use super::choose::active;
use super::revision::{newest, renewed_at};
use super::{Observed, Refusal, Step};
use crate::apply::revisions::ActiveRevisions;
use crate::reads::FAILURE_LASTS;
use crate::resolve::{Chosen, deprecation_conditions};

/// Longest delay between two attempts.
const LONGEST_BACKOFF: Duration = Duration::from_secs(300);
/// Seconds in which most new revisions get their first conditions.
const FIRST_CONDITIONS: i64 = 3;

/// Returns the patch of the status if it changes, and when to try again. `failures` are those since the last success, less one.
pub(super) fn status(
    observed: &Observed,
    failures: Option<u32>,
    outcomes: &Outcomes,
    now: Timestamp,
) -> StatusUpdate<u32> {
    let mut report = Report::new(&observed.extension, now);
    let active = active(&observed.extension, &observed.revisions);
    if matches!(observed.step, Step::Deleted | Step::Reading) {
        if matches!(observed.step, Step::Reading) && !observed.revisions.is_empty() {
            report.revisions(&active);
        }
        return StatusUpdate {
            patches: Vec::from_iter(report.patch()),
            memory: failures,
            ..StatusUpdate::default()
        };
    }
    report.revisions(&active);
    report.deprecations(observed, &active);
    let refusal = match &observed.step {
        Step::Refused(refusal) => Some(refusal.clone()),
        // The driver repeats a write that failed.
        _ => outcomes.failure().map(|(_, failure)| Refusal {
            text: format!("{}: {}", failure.action, failure.message),
            is_configuration: false,
            is_repeated: false,
        }),
    };
    // A revision that was made just now is reported together with its first conditions, which wake the extension.
    let awaited = awaited(observed, now).filter(|_| refusal.is_none());
    let is_new = refusal.is_none()
        && matches!(&observed.step, Step::Revision(decision) if awaited.is_some() || !decision.phases.is_empty());
    match &refusal {
        Some(refusal) if refusal.is_configuration => {
            report.set(
                words::PROGRESSING,
                FALSE,
                words::INVALID_CONFIGURATION,
                &refusal.text,
            );
        }
        Some(refusal) => report.set(words::PROGRESSING, TRUE, words::RETRYING, &refusal.text),
        None => report.progress(&active),
    }
    let failures = refusal
        .filter(|refusal| refusal.is_repeated)
        .map(|_| failures.map_or(0, |count| count.saturating_add(1)));
    StatusUpdate {
        patches: Vec::from_iter(report.patch().filter(|_| !is_new)),
        requeue: failures
            .map_or(Requeue::AwaitChange, requeue)
            .sooner(renewal(observed, now))
            .sooner(Requeue::after_seconds(
                awaited,
                "the revision has no conditions yet",
            )),
        memory: failures,
        ..StatusUpdate::default()
    }
}

/// Returns the patch that reports an error of reading, unless it is reported already.
pub(super) fn unobserved(extension: &ClusterExtension, error: &str, now: Timestamp) -> Option<Action> {
    let mut report = Report::new(extension, now);
    report.set(words::PROGRESSING, TRUE, words::RETRYING, error);
    report.patch()
}

/// The delay doubles with each failure.
fn requeue(failures: u32) -> Requeue {
    Requeue::after(backoff(FAILURE_LASTS, LONGEST_BACKOFF, failures), "retry")
}

/// Returns the requeue at which certificates of the newest revision are due. If they are due already, what keeps them from being renewed
/// has a requeue of its own, or ends with a change.
fn renewal(observed: &Observed, now: Timestamp) -> Requeue {
    let at = newest(&observed.revisions).and_then(|revision| renewed_at(revision));
    let seconds = at.map(|at| at.as_second().saturating_sub(now.as_second()));
    Requeue::after_seconds(seconds, "renewal of certificates is due")
}

/// Returns the seconds in which a new revision probably gets its first conditions; `None` if it has them, or is slow.
fn awaited(observed: &Observed, now: Timestamp) -> Option<i64> {
    let revision = newest(&observed.revisions).filter(|newest| newest.status.is_none())?;
    let Time(created) = revision.metadata.creation_timestamp.as_ref()?;
    let age = now.as_second().saturating_sub(created.as_second()).max(0);
    Some(FIRST_CONDITIONS.saturating_sub(age)).filter(|left| *left > 0)
}

/// A status that is being computed.
struct Report<'a> {
    extension: &'a ClusterExtension,
    status: ClusterExtensionStatus,
    now: Timestamp,
}

impl<'a> Report<'a> {
    fn new(extension: &'a ClusterExtension, now: Timestamp) -> Self {
        Self {
            extension,
            status: extension.status.clone().unwrap_or_default(),
            now,
        }
    }

    fn patch(&self) -> Option<Action> {
        let old = self.extension.status.clone().unwrap_or_default();
        status_of(self.extension, &old, &self.status)
    }

    fn set(&mut self, type_: &str, status: &str, reason: &str, message: &str) {
        let texts = [type_, status, reason, message];
        let condition = condition_of(&self.extension.metadata, texts, self.now);
        set_condition(&mut self.status.conditions, condition);
    }

    /// Reports the installed bundle, and the revisions.
    fn revisions(&mut self, active: &ActiveRevisions<'_>) {
        let installed = active.installed.map(|revision| Chosen::of_revision(revision));
        match &installed {
            Some(bundle) => {
                let message = words::installed_message(&bundle.image);
                self.set(words::INSTALLED, TRUE, words::SUCCEEDED, &message);
            }
            None => {
                let newest = active.rolling_out.last();
                let progressing = newest.and_then(|revision| revision.condition(of_set::PROGRESSING));
                let is_retrying = progressing.is_some_and(|found| found.reason == of_set::RETRYING);
                let reason = if newest.is_some() && !is_retrying {
                    words::ABSENT
                } else {
                    words::FAILED
                };
                self.set(words::INSTALLED, FALSE, reason, words::NOT_INSTALLED_MESSAGE);
            }
        }
        match active
            .installed
            .and_then(|revision| revision.condition(of_set::AVAILABLE))
        {
            Some(available) => self.mirror(available),
            None => remove_condition(&mut self.status.conditions, of_set::AVAILABLE),
        }
        self.status.install = installed.map(|bundle| ClusterExtensionInstallStatus {
            bundle: bundle.metadata(),
            ..ClusterExtensionInstallStatus::default()
        });
        let installed = active.installed.map(|revision| revision_status(revision, &[]));
        let types = [of_set::AVAILABLE, of_set::PROGRESSING];
        let rolling_out = active.rolling_out.iter().map(|revision| {
            let generation = self.extension.metadata.generation;
            let mut status = revision_status(revision, &types);
            for condition in status.conditions.iter_mut() {
                condition.observed_generation = generation;
            }
            status
        });
        let all: Vec<RevisionStatus> = installed.into_iter().chain(rolling_out).collect();
        self.status.active_revisions = all.into();
    }

    /// Reports the progress of the newest revision.
    fn progress(&mut self, active: &ActiveRevisions<'_>) {
        let newest = active.rolling_out.last().or(active.installed.as_ref());
        let progressing = newest.and_then(|revision| revision.condition(of_set::PROGRESSING));
        match progressing {
            Some(found) if found.reason != of_set::REASON_SUCCEEDED => self.mirror(found),
            Some(_) => self.set(
                words::PROGRESSING,
                TRUE,
                words::SUCCEEDED,
                words::SUCCEEDED_MESSAGE,
            ),
            // The revision was created just now.
            None => {}
        }
    }

    fn mirror(&mut self, condition: &Condition) {
        let Condition {
            type_,
            status,
            reason,
            message,
            ..
        } = condition;
        self.set(type_, status, reason, message);
    }

    fn deprecations(&mut self, observed: &Observed, active: &ActiveRevisions<'_>) {
        let catalog = observed.extension.spec.source.catalog.as_ref();
        let channels = catalog
            .map(|catalog| catalog.channels.as_slice())
            .unwrap_or_default();
        let installed = active
            .installed
            .map(|revision| Chosen::of_revision(revision).name);
        let conditions =
            deprecation_conditions(channels, installed.as_deref(), observed.deprecations.as_deref());
        for (type_, status, reason, message) in conditions {
            self.set(type_, status, reason, &message);
        }
    }
}

/// Returns the entry of a revision with its conditions of these types.
fn revision_status(revision: &Arc<ClusterObjectSet>, types: &[&str]) -> RevisionStatus {
    let conditions = types
        .iter()
        .filter_map(|type_| revision.condition(type_).cloned());
    RevisionStatus {
        name: revision.name_any(),
        conditions: conditions.collect::<Vec<_>>().into(),
        ..RevisionStatus::default()
    }
}
