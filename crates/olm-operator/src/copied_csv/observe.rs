//! Reads the input of one decision about a copy.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use jiff::Timestamp;
use olm_api::v1::OLM_CONFIG_NAME;
use olm_runtime::{NamespacedName, clock, error::ObserveError};

use crate::{
    copied_csv::{
        CopiedCsvs, CopyKey, Observed,
        decide::{Deed, deed},
    },
    csv_sketch::{Sketch, Stage},
    stores::Stores,
};

/// Time that an original may spend in a transient phase before copies show it. An install passes five such
/// phases, and each would cost one write for every namespace.
const PATIENCE: Duration = Duration::from_secs(5);

/// Reads the stores, and the content of the original if the copy must be written, because no store keeps it.
///
/// # Errors
/// When that read fails.
pub(crate) async fn observe(copies: &CopiedCsvs, key: &CopyKey) -> Result<Option<Observed>, ObserveError> {
    let mut observed = from_stores(&copies.stores, &copies.protected, key, clock::now());
    let Some(original) = observed.original.clone() else {
        return Ok(Some(observed));
    };
    let writes = matches!(deed(&observed), Deed::Create | Deed::Content | Deed::Status);
    if !writes || observed.settles_in.is_some() {
        return Ok(Some(observed));
    }
    let Some(content) = copies.contents.of(&original).await? else {
        // The original was deleted meanwhile; its watch triggers another reconcile.
        return Ok(None);
    };
    observed.settles_in = settles_in(&content.sketch, clock::now());
    observed.original = Some(Arc::clone(&content.sketch));
    observed.content = Some(content);
    Ok(Some(observed))
}

/// Observes the stores only.
pub(crate) fn from_stores(
    stores: &Stores,
    protected: &BTreeSet<String>,
    key: &CopyKey,
    now: Timestamp,
) -> Observed {
    let original = stores.csv_sketches.get_key(&key.original());
    let namespace = stores.namespaces.get_key(&NamespacedName::cluster(&*key.to));
    let config = stores
        .olm_configs
        .get_key(&NamespacedName::cluster(OLM_CONFIG_NAME));
    let is_off = config.is_some_and(|config| config.spec.copied_csvs_are_disabled());
    Observed {
        settles_in: original.as_ref().and_then(|original| settles_in(original, now)),
        original,
        groups: stores.groups.list_in(&key.from),
        namespace_takes: namespace.is_some_and(|it| it.metadata.deletion_timestamp.is_none()),
        there: stores.csv_sketches.get_key(&key.copy()),
        is_switched_off: is_off && !protected.contains(&*key.to),
        content: None,
        key: key.clone(),
    }
}

/// Returns the delay after which copies may show the current phase of this original; `None` if they may show
/// it now.
pub(crate) fn settles_in(sketch: &Sketch, now: Timestamp) -> Option<Duration> {
    let original = sketch
        .original()
        .filter(|original| original.stage == Stage::Moving)?;
    let since = original.since?;
    // A clock that is slightly behind yields a negative age, which counts as zero. Times far in the future
    // are ignored.
    if Duration::try_from(since.duration_since(now)).is_ok_and(|ahead| ahead > PATIENCE) {
        return None;
    }
    let passed = Duration::try_from(now.duration_since(since)).unwrap_or_default();
    PATIENCE.checked_sub(passed).filter(|left| !left.is_zero())
}
