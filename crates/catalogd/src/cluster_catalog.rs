//! The ClusterCatalog controller: requests the content of each catalog, and reports it in the status.
//!
//! # Expected flow
//! `observe` requests the content from [`Unpacking`], whose tasks requeue the catalog. [`decide`](decide()) keeps the finalizer and the
//! label, and [`status`](status()) reports the last attempt.
//!
//! # Guarantees
//! - A failed attempt changes the condition `Progressing` only while an older content is served.
//! - The content of a catalog that is deleted or switched off is gone before the finalizer is.

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt;
use olm_api::condition::{FALSE, TRUE, cluster_catalog as words};
use olm_api::extension_v1::{
    CatalogSourceType, ClusterCatalog, ClusterCatalogSource, ClusterCatalogStatus, ClusterCatalogUrls,
    METADATA_NAME_LABEL, ResolvedCatalogSource, ResolvedImageSource,
};
use olm_runtime::condition::{condition_of, set_condition};
use olm_runtime::driver::{Reconciler, StatusUpdate};
use olm_runtime::error::ObserveError;
use olm_runtime::event::regarding;
use olm_runtime::outcome::Outcomes;
use olm_runtime::plan::{Action, Guard, Plan, Target, status_of};
use olm_runtime::store::Store;
use olm_runtime::{NamespacedName, Timestamp};
use serde_json::{Map, Value, json};

use crate::unpacking::{Attempt, Request, UnpackError, Unpacking};

/// Finalizer of catalogs with content.
pub(crate) const FINALIZER: &str = "olm.operatorframework.io/delete-server-cache";
/// Longest value of a label, in bytes. Names of objects may be longer.
const LONGEST_LABEL: usize = 63;

pub(crate) struct ClusterCatalogs {
    pub(crate) catalogs: Store<ClusterCatalog>,
    pub(crate) unpacking: Unpacking,
    /// URL of all catalogs, without a slash at its end.
    pub(crate) base_url: Arc<str>,
}

/// A catalog, and the input of decisions about it.
#[derive(Debug, Clone)]
pub(crate) struct Observed {
    pub(crate) catalog: Arc<ClusterCatalog>,
    pub(crate) content: ContentState,
    /// True if a content is stored, whichever its image is.
    pub(crate) is_stored: bool,
    pub(crate) base_url: Arc<str>,
}

/// State of a catalog's content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ContentState {
    /// The catalog is being deleted, and its content is removed.
    Deleted,
    /// The catalog is switched off, and its content is removed.
    SwitchedOff,
    /// Result of the last attempt for this spec; `None` before the first.
    Wanted(Option<Attempt>),
}

#[async_trait]
impl Reconciler for ClusterCatalogs {
    type Key = NamespacedName;
    type Observed = Observed;
    type Verdict = ();
    type Memory = ();

    const NAME: &'static str = "cluster-catalog";

    fn regarding(&self, key: &NamespacedName) -> Option<ObjectReference> {
        regarding(&self.catalogs, key)
    }

    async fn observe(&self, key: &NamespacedName) -> Result<Option<Observed>, ObserveError> {
        let Some(catalog) = self.catalogs.get_key(key) else {
            self.unpacking.remove(&key.name);
            return Ok(None);
        };
        let content = if catalog.metadata.deletion_timestamp.is_some() {
            self.unpacking.remove(&key.name);
            ContentState::Deleted
        } else if catalog.spec.is_switched_off() {
            self.unpacking.remove(&key.name);
            ContentState::SwitchedOff
        } else {
            let attempt = match request(&key.name, &catalog.spec.source) {
                Ok(request) => self.unpacking.want(&key.name, &request),
                Err(error) => Some(Err(error)),
            };
            ContentState::Wanted(attempt)
        };
        Ok(Some(Observed {
            is_stored: self.unpacking.has_content(&key.name),
            catalog,
            content,
            base_url: Arc::clone(&self.base_url),
        }))
    }

    fn decide(observed: &Observed, _memory: Option<&()>, _now: Timestamp) -> (Plan, ()) {
        (decide(observed), ())
    }

    fn status(observed: &Observed, (): (), _outcomes: &Outcomes, now: Timestamp) -> StatusUpdate {
        StatusUpdate {
            patches: Vec::from_iter(status(observed, now)),
            ..StatusUpdate::default()
        }
    }
}

/// Returns the request for the content of a source. The API server accepts no other sources; older ones may.
fn request(catalog: &str, source: &ClusterCatalogSource) -> Result<Request, UnpackError> {
    const MINUTE: u64 = 60;
    if source.type_ != CatalogSourceType::Image {
        let text = format!("terminal error: unknown source type {:?}", source.type_.as_str());
        return Err(UnpackError::terminal(text));
    }
    let Some(image) = &source.image else {
        let text = format!("terminal error: error parsing ClusterCatalog {catalog:?}, image source is nil");
        return Err(UnpackError::terminal(text));
    };
    let minutes = image
        .poll_interval_minutes
        .and_then(|minutes| u64::try_from(minutes).ok());
    let minutes = minutes.filter(|minutes| *minutes > 0);
    Ok(Request {
        image: image.reference.clone(),
        poll: minutes.map(|minutes| Duration::from_secs(minutes.saturating_mul(MINUTE))),
    })
}

/// Returns the write that gives the catalog its finalizer and its label, if it needs one.
pub(crate) fn decide(observed: &Observed) -> Plan {
    let metadata = &observed.catalog.metadata;
    let name = observed.catalog.name_any();
    let mut change = Map::new();
    let mut finalizers = metadata.finalizers.clone().unwrap_or_default();
    let has_one = finalizers.iter().any(|finalizer| finalizer == FINALIZER);
    let needs_one = matches!(observed.content, ContentState::Wanted(_));
    if needs_one != has_one {
        finalizers.retain(|finalizer| finalizer != FINALIZER);
        finalizers.extend(needs_one.then(|| FINALIZER.to_owned()));
        change.insert("finalizers".to_owned(), finalizers.into());
    }
    let labels = metadata.labels.as_ref();
    let label = labels.and_then(|labels| labels.get(METADATA_NAME_LABEL));
    let is_labelled = label == Some(&name) || name.len() > LONGEST_LABEL;
    if observed.content != ContentState::Deleted && !is_labelled {
        change.insert("labels".to_owned(), json!({METADATA_NAME_LABEL: name}));
    }
    let mut plan = Plan::default();
    if !change.is_empty() {
        // The list of finalizers is replaced as a whole, so those of others must be known.
        let guard = Guard::of(metadata);
        let target = Target::cluster::<ClusterCatalog>(&name);
        let patch = json!({"metadata": Value::Object(change)});
        plan.actions.push(Action::patch(target, patch, guard));
    }
    plan
}

/// Returns the patch of the status, if it changes.
pub(crate) fn status(observed: &Observed, now: Timestamp) -> Option<Action> {
    let catalog = &observed.catalog;
    let old = catalog.status.clone().unwrap_or_default();
    let mut new = old.clone();
    let condition = |texts: [&str; 4]| condition_of(&catalog.metadata, texts, now);
    let progressing =
        |status, reason, message: &str| condition([words::PROGRESSING, status, reason, message]);
    let serving = |status, reason, message: &str| condition([words::SERVING, status, reason, message]);
    match &observed.content {
        ContentState::Deleted => {
            let mut finalizers = catalog.metadata.finalizers.iter().flatten();
            // The last finalizer took the object with it.
            if finalizers.all(|finalizer| finalizer == FINALIZER) {
                return None;
            }
            serves_nothing(&mut new);
            set_condition(&mut new.conditions, serving(FALSE, words::UNAVAILABLE, ""));
        }
        ContentState::SwitchedOff => {
            let (reason, message) = (words::USER_SPECIFIED_UNAVAILABLE, words::SWITCHED_OFF_MESSAGE);
            serves_nothing(&mut new);
            set_condition(&mut new.conditions, progressing(TRUE, words::SUCCEEDED, message));
            set_condition(&mut new.conditions, serving(FALSE, reason, message));
        }
        ContentState::Wanted(None) => {}
        ContentState::Wanted(Some(Err(error))) => {
            let (status, reason) = if error.is_terminal {
                (FALSE, words::BLOCKED)
            } else {
                (TRUE, words::RETRYING)
            };
            set_condition(&mut new.conditions, progressing(status, reason, &error.text));
            let mut conditions = new.conditions.iter();
            if !observed.is_stored && conditions.any(|condition| condition.type_ == words::SERVING) {
                serves_nothing(&mut new);
                set_condition(&mut new.conditions, serving(FALSE, words::UNAVAILABLE, ""));
            }
        }
        ContentState::Wanted(Some(Ok(unpacked))) => {
            new.resolved_source = Some(ResolvedCatalogSource {
                type_: CatalogSourceType::Image,
                image: ResolvedImageSource {
                    reference: unpacked.image.clone(),
                    ..ResolvedImageSource::default()
                },
                ..ResolvedCatalogSource::default()
            });
            new.urls = Some(ClusterCatalogUrls {
                base: format!("{}/{}", observed.base_url, catalog.name_any()),
                ..ClusterCatalogUrls::default()
            });
            new.last_unpacked = Some(Time(unpacked.stored));
            let message = words::SUCCEEDED_MESSAGE;
            set_condition(&mut new.conditions, progressing(TRUE, words::SUCCEEDED, message));
            let message = words::AVAILABLE_MESSAGE;
            set_condition(&mut new.conditions, serving(TRUE, words::AVAILABLE, message));
        }
    }
    status_of(&**catalog, &old, &new)
}

fn serves_nothing(status: &mut ClusterCatalogStatus) {
    status.resolved_source = None;
    status.urls = None;
    status.last_unpacked = None;
}
