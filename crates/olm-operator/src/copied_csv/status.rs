//! Reports refused copies. No I/O. The status of a copy itself is written by its plan.

use olm_api::{condition::csv as reason, v1alpha1::ClusterServiceVersion};
use olm_runtime::{
    driver::StatusUpdate,
    key::reference,
    outcome::{Failure, FailureClass, Outcomes},
    plan::EventDraft,
};

use crate::copied_csv::Observed;

/// Returns a warning event on the original when its copy is refused, once for each status code; `told` is the
/// code reported last.
pub(crate) fn status(observed: &Observed, told: Option<u16>, outcomes: &Outcomes) -> StatusUpdate<u16> {
    let Some((_, failure)) = outcomes.failure() else {
        return StatusUpdate::default();
    };
    let is_news = is_refusal(failure) && told != Some(failure.code);
    let event = is_news.then(|| refused(observed, failure));
    StatusUpdate {
        events: event.into_iter().collect(),
        memory: if is_news { Some(failure.code) } else { told },
        ..StatusUpdate::default()
    }
}

/// True for failures that neither a retry nor the deletion of the namespace resolves.
fn is_refusal(failure: &Failure) -> bool {
    failure.is_refusal() && failure.class != FailureClass::Terminating
}

fn refused(observed: &Observed, failure: &Failure) -> EventDraft {
    let key = &observed.key;
    let uid = observed.original.as_ref().and_then(|original| original.uid());
    let regarding = reference::<ClusterServiceVersion>(&key.original(), uid);
    let message = format!(
        "Cannot write the copy in namespace {}: {}. Check the quotas of that namespace and the admission webhooks for ClusterServiceVersions; OLM retries.",
        key.to, failure.message
    );
    EventDraft::warning(regarding, reason::COPY_REFUSED, message)
}
