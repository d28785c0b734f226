//! Copies of ClusterServiceVersions, which show users of each namespace the operators that work there
//! (`docs/reference/operator-groups.md`).
//!
//! # Expected flow
//! A key is one copy: an original and a target namespace. `observe` reads stores. It reads the content of the
//! original only when a copy must be written. [`decide`] compares hashes and makes at most one write.
//!
//! # Guarantees
//! - A new copy costs two requests, and a change of the original costs one for each copy. Nothing else costs
//!   a request.
//! - A refusal in one namespace delays no other copy, and a namespace with many copies delays no other
//!   namespace.
//! - An object is deleted as a copy only if more than its label identifies it as one.
//! - Changes of copies trigger only this controller.

pub(crate) mod content;
pub(crate) mod decide;
pub(crate) mod observe;
pub(crate) mod status;
pub(crate) mod triggers;

#[cfg(test)]
mod tests;

use std::{collections::BTreeSet, fmt, sync::Arc, time::Duration};

use async_trait::async_trait;
use k8s_openapi::api::core::v1::ObjectReference;
use olm_api::{v1::OperatorGroup, v1alpha1::ClusterServiceVersion};
use olm_runtime::{
    NamespacedName, Timestamp,
    driver::{Reconciler, StatusUpdate},
    error::ObserveError,
    key::reference,
    outcome::Outcomes,
    plan::Plan,
};

use crate::{
    copied_csv::content::{Content, Contents},
    csv_sketch::Sketch,
    stores::Stores,
};

/// First backoff of a refused copy; it doubles up to a minute. One cause, such as a webhook for all
/// namespaces, may refuse ten thousand copies.
const REFUSED_BACKOFF: Duration = Duration::from_secs(5);

/// Key of one copy. Tens of thousands may be queued at once, each in several tables, so they share their
/// texts.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct CopyKey {
    /// Namespace of the original; namespaces take turns by it.
    pub(crate) from: Arc<str>,
    /// Name of original and copy.
    pub(crate) name: Arc<str>,
    /// Namespace of the copy; differs from `from`.
    pub(crate) to: Arc<str>,
}

impl CopyKey {
    /// Key of the original.
    pub(crate) fn original(&self) -> NamespacedName {
        NamespacedName::new(&*self.from, &*self.name)
    }

    /// Key of the copy.
    pub(crate) fn copy(&self) -> NamespacedName {
        NamespacedName::new(&*self.to, &*self.name)
    }
}

impl fmt::Display for CopyKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{} in {}", self.from, self.name, self.to)
    }
}

/// A copy, and the input of decisions about it.
#[derive(Debug, Clone)]
pub(crate) struct Observed {
    pub(crate) key: CopyKey,
    /// Object with the name of the copy in the namespace of the original.
    pub(crate) original: Option<Arc<Sketch>>,
    /// The OperatorGroups in the namespace of the original.
    pub(crate) groups: Vec<Arc<OperatorGroup>>,
    /// True when the namespace of the copy exists and is not being deleted.
    pub(crate) namespace_takes: bool,
    /// Object with the name of the copy in the target namespace.
    pub(crate) there: Option<Arc<Sketch>>,
    /// True when OLMConfig disables copies of operators for all namespaces, and the namespace is not
    /// protected.
    pub(crate) is_switched_off: bool,
    /// Time until the original has been in its phase for long enough; `None` when copies may show it.
    pub(crate) settles_in: Option<Duration>,
    /// Content for the copy; only present when the copy must be written.
    pub(crate) content: Option<Arc<Content>>,
}

pub(crate) struct CopiedCsvs {
    pub(crate) stores: Stores,
    pub(crate) contents: Contents,
    /// Namespaces that keep copies of operators for all namespaces although copying is disabled.
    pub(crate) protected: Arc<BTreeSet<String>>,
}

#[async_trait]
impl Reconciler for CopiedCsvs {
    type Key = CopyKey;
    type Observed = Observed;
    type Verdict = Option<u16>;
    /// Status code of the last refusal that was reported. The code is compared instead of the text, because
    /// the text may contain a counter.
    type Memory = u16;

    const NAME: &'static str = "copied-csv";
    const FIRST_BACKOFF_OF_REFUSED: Duration = REFUSED_BACKOFF;

    fn regarding(&self, key: &CopyKey) -> Option<ObjectReference> {
        let original = self.stores.csv_sketches.get_key(&key.original())?;
        Some(reference::<ClusterServiceVersion>(
            &key.original(),
            original.uid(),
        ))
    }

    async fn observe(&self, key: &CopyKey) -> Result<Option<Observed>, ObserveError> {
        observe::observe(self, key).await
    }

    fn decide(observed: &Observed, told: Option<&u16>, _now: Timestamp) -> (Plan, Option<u16>) {
        (decide::decide(observed), told.copied())
    }

    fn status(
        observed: &Observed,
        told: Option<u16>,
        outcomes: &Outcomes,
        _now: Timestamp,
    ) -> StatusUpdate<u16> {
        status::status(observed, told, outcomes)
    }
}
