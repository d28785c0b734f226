//! Times of the polls of a catalog's image. No I/O.
//!
//! Rules: `docs/reference/catalogs.md`.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::time::Duration;

use go_compat::duration::{Signed, parse_signed};
use jiff::Timestamp;
use olm_api::v1alpha1::{CatalogSource, RegistryPoll};
use olm_oci::Reference;
use olm_runtime::condition::whole_seconds;
use olm_runtime::plan::Requeue;

use super::source::Source;
use crate::timing::elapsed;

/// Interval of a catalog with an invalid one.
const DEFAULT_INTERVAL: Duration = Duration::from_secs(15 * 60);
/// Shortest interval, because each poll sends requests to a registry, and may create a pod.
pub(crate) const SHORTEST_INTERVAL: Duration = Duration::from_secs(30);
/// Longest interval: a hundred years, which is never.
const LONGEST_INTERVAL: Duration = Duration::from_secs(100 * 365 * 24 * 3600);
/// Limit of the random addition to an interval, so that catalogs that were created together are not polled
/// together.
const LONGEST_SPREAD: Duration = Duration::from_secs(300);
/// Longest time until the next check whether a poll is due.
const LONGEST_WAIT: Duration = Duration::from_secs(24 * 3600);
/// Interval of the checks while a due poll has no result yet.
const OVERDUE_PAUSE: Duration = Duration::from_secs(60);

/// Poll state of a catalog.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Poll {
    /// The image to poll.
    pub image: String,
    /// Time of the next poll, in whole seconds.
    pub due: Timestamp,
    /// Result of the poll, if it was made just now: its consequences happen once.
    pub check: Option<Check>,
}

/// Result of a poll.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Check {
    /// Time, in whole seconds.
    pub at: Timestamp,
    /// The digest behind the tag; `None` if the registry did not return it.
    pub digest: Option<String>,
}

/// Returns the next poll of a catalog; `None` if it is not polled. `started` is the start time of this
/// process: overdue polls are spread from then on.
pub fn schedule(source: &CatalogSource, parsed: &Source, started: Timestamp, now: Timestamp) -> Option<Poll> {
    let Source::Image { image, .. } = parsed else {
        return None;
    };
    let poll = registry_poll(source)?;
    // The content behind a digest never changes.
    image
        .parse::<Reference>()
        .ok()
        .filter(|reference| reference.digest().is_none())?;
    let interval = interval(poll);
    let created = source.metadata.creation_timestamp.as_ref().map(|time| time.0);
    let status = source.status.as_ref();
    // A clock that was wrong once must not end polling.
    let latest = status
        .and_then(|status| status.latest_image_registry_poll.as_ref())
        .map(|time| time.0)
        .filter(|time| *time <= later(now, interval));
    let after = later(latest.or(created).unwrap_or(now), interval);
    let due = later(after.max(whole_seconds(started)), spread(source, interval));
    Some(Poll {
        image: image.clone(),
        due,
        check: None,
    })
}

/// Returns the error in the interval of a catalog, with upstream's text.
pub(crate) fn interval_error(source: &CatalogSource) -> Option<String> {
    let error = parse_signed(text(registry_poll(source)?)).err()?;
    Some(format!(
        "error parsing spec.updateStrategy.registryPoll.interval. Using the default value of 15m0s instead. Error: {error}"
    ))
}

impl Poll {
    /// True when the poll is due.
    pub(crate) fn is_due(&self, now: Timestamp) -> bool {
        self.due <= now
    }

    /// Returns the time of the next check.
    pub(crate) fn requeue(&self, now: Timestamp) -> Requeue {
        // From now until then.
        let left = elapsed(now, self.due);
        let delay = if left.is_zero() {
            OVERDUE_PAUSE
        } else {
            left.min(LONGEST_WAIT)
        };
        Requeue::after(delay, "poll of the catalog's image")
    }
}

fn registry_poll(source: &CatalogSource) -> Option<&RegistryPoll> {
    source.spec.update_strategy.as_ref()?.registry_poll.as_ref()
}

fn text(poll: &RegistryPoll) -> &str {
    poll.interval.as_deref().unwrap_or_default()
}

/// Returns the interval in whole seconds.
fn interval(poll: &RegistryPoll) -> Duration {
    let interval = match parse_signed(text(poll)) {
        Ok(Signed::Forward(interval)) => interval,
        Ok(Signed::Backward(_)) => Duration::ZERO,
        Err(_) => DEFAULT_INTERVAL,
    };
    let bounded = interval.clamp(SHORTEST_INTERVAL, LONGEST_INTERVAL);
    Duration::from_secs(bounded.as_secs())
}

/// Up to a tenth of the interval, constant for a catalog.
fn spread(source: &CatalogSource, interval: Duration) -> Duration {
    let mut hasher = DefaultHasher::new();
    source.metadata.uid.hash(&mut hasher);
    let longest = (interval / 10).min(LONGEST_SPREAD).as_secs();
    Duration::from_secs(
        hasher
            .finish()
            .checked_rem(longest.saturating_add(1))
            .unwrap_or(0),
    )
}

fn later(time: Timestamp, by: Duration) -> Timestamp {
    whole_seconds(time.saturating_add(by).unwrap_or(time))
}
