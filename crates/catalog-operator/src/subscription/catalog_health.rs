//! `status.catalogHealth` and the condition `CatalogSourcesUnhealthy` (`docs/reference/resolution.md`).
//!
//! A catalog is healthy when its status shows that it is served and connected, or just starting. Upstream
//! checks the existence of the catalog's objects instead, so a catalog whose image cannot be pulled counts as
//! healthy there.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::ObjectReference;
use kube::{Resource, ResourceExt};
use olm_api::condition::{catalog_source as catalog_reasons, subscription as reasons};
use olm_api::v1alpha1::{
    CatalogSource, SubscriptionCatalogHealth, SubscriptionCondition, SubscriptionSpec, SubscriptionStatus,
};
use olm_resolver::explain::{EVENT_LIMIT, cut};
use olm_runtime::condition::stored_time;

use super::conditions::{condition_false, condition_true};

/// A catalog as Subscriptions see it.
#[derive(Debug, Clone, PartialEq)]
pub struct CatalogFact {
    /// Reference to the object.
    pub reference: ObjectReference,
    /// Reason why it is not healthy; `None` when it is, or is just starting.
    pub unhealthy_reason: Option<String>,
}

impl CatalogFact {
    /// Reads the health from the status of `source`.
    pub fn of(source: &CatalogSource) -> Self {
        Self {
            reference: ObjectReference {
                resource_version: source.resource_version(),
                ..source.object_ref(&())
            },
            unhealthy_reason: unhealthy_reason(source).filter(|_| !is_starting(source)),
        }
    }

    /// Adds the error of the last read of its content, if earlier content is used instead. Otherwise users
    /// would not see that newer content is missing.
    #[must_use]
    pub fn with_unread(mut self, trouble: Option<String>) -> Self {
        if self.unhealthy_reason.is_none() {
            let text =
                |trouble| format!("cannot read its new content, using its previous content: {trouble}");
            self.unhealthy_reason = trouble.map(text);
        }
        self
    }

    /// True for the catalog that a Subscription names.
    pub fn is_target_of(&self, spec: &SubscriptionSpec) -> bool {
        self.reference.name.as_ref() == Some(&spec.source)
            && self.reference.namespace.as_ref() == Some(&spec.source_namespace)
    }

    fn name(&self) -> String {
        let text = |part: &Option<String>| part.clone().unwrap_or_default();
        format!(
            "{}/{}",
            text(&self.reference.namespace),
            text(&self.reference.name)
        )
    }

    fn is_same_as(&self, entry: &SubscriptionCatalogHealth) -> bool {
        entry.catalog_source_ref.uid == self.reference.uid && entry.healthy == self.unhealthy_reason.is_none()
    }
}

/// Returns the reason why a catalog cannot be used, from its own status; `None` when it can.
pub(crate) fn unhealthy_reason(source: &CatalogSource) -> Option<String> {
    let status = source.status.clone().unwrap_or_default();
    let connection = status.connection_state.unwrap_or_default();
    let invalid = status.reason.as_deref() == Some(catalog_reasons::SPEC_INVALID_ERROR);
    if !invalid
        && status.registry_service.is_some()
        && connection.last_observed_state == catalog_reasons::READY
    {
        return None;
    }
    if source.metadata.deletion_timestamp.is_some() {
        return Some("it is being deleted".to_owned());
    }
    // One text for the whole start: each further one would be a write to every Subscription.
    if is_starting(source) {
        return Some("its registry server is starting".to_owned());
    }
    let message = status.message.filter(|message| !message.is_empty());
    Some(
        message.unwrap_or_else(|| match connection.last_observed_state.as_str() {
            "" => "its registry server has not been created yet".to_owned(),
            state => format!("its connection is {state}"),
        }),
    )
}

/// True when a catalog is just starting, without a known problem.
pub(crate) fn is_starting(source: &CatalogSource) -> bool {
    let Some(status) = &source.status else { return true };
    let state = status
        .connection_state
        .as_ref()
        .map(|state| state.last_observed_state.as_str());
    status.reason.as_deref().unwrap_or_default().is_empty()
        && matches!(
            state,
            None | Some("" | catalog_reasons::IDLE | catalog_reasons::CONNECTING)
        )
        && source.metadata.deletion_timestamp.is_none()
}

/// Sets the health of `catalogs` in `status`: the list, if a catalog was added, removed or changed its
/// health, and the condition.
///
/// Upstream first writes a reason for the change (`CatalogSourcesAdded`, `…Updated`, `…Deleted`) and the
/// lasting one in a second write. Here the lasting one is written at once.
pub(crate) fn put(
    status: &mut SubscriptionStatus,
    spec: &SubscriptionSpec,
    catalogs: &[CatalogFact],
    now: Timestamp,
) {
    let known = &status.catalog_health;
    let changed = known.len() != catalogs.len()
        || !catalogs
            .iter()
            .all(|catalog| known.iter().any(|entry| catalog.is_same_as(entry)));
    super::conditions::set(&mut status.conditions, condition(spec, catalogs), now);
    if changed {
        status.catalog_health = catalogs
            .iter()
            .map(|catalog| SubscriptionCatalogHealth {
                catalog_source_ref: catalog.reference.clone(),
                last_updated: Some(stored_time(now)),
                healthy: catalog.unhealthy_reason.is_none(),
                ..SubscriptionCatalogHealth::default()
            })
            .collect();
    }
}

/// Returns the condition. It is only true for the catalog that the Subscription names; problems of others are
/// in its message.
fn condition(spec: &SubscriptionSpec, catalogs: &[CatalogFact]) -> SubscriptionCondition {
    if catalogs.is_empty() {
        return condition_true(
            reasons::CATALOG_SOURCES_UNHEALTHY,
            reasons::NO_CATALOG_SOURCES_FOUND,
            "dependency resolution requires at least one catalogsource",
        );
    }
    let ailment = match catalogs.iter().find(|catalog| catalog.is_target_of(spec)) {
        None => "missing",
        Some(target) if target.unhealthy_reason.is_some() => "unhealthy",
        Some(_) => {
            return condition_false(
                reasons::CATALOG_SOURCES_UNHEALTHY,
                reasons::ALL_CATALOG_SOURCES_HEALTHY,
                &message_of_healthy(catalogs),
            );
        }
    };
    condition_true(
        reasons::CATALOG_SOURCES_UNHEALTHY,
        reasons::UNHEALTHY_CATALOG_SOURCE_FOUND,
        &format!(
            "targeted catalogsource {}/{} {ailment}",
            spec.source_namespace, spec.source
        ),
    )
}

/// Returns upstream's message, and the unavailable catalogs without their causes, because each change would
/// be a write to every Subscription.
fn message_of_healthy(catalogs: &[CatalogFact]) -> String {
    let text = "all available catalogsources are healthy";
    let broken = catalogs
        .iter()
        .filter(|catalog| catalog.unhealthy_reason.is_some());
    let names: Vec<String> = broken.map(CatalogFact::name).collect();
    match names.is_empty() {
        true => text.to_owned(),
        false => cut(&format!("{text}; unavailable: {}", names.join(", ")), EVENT_LIMIT),
    }
}

/// Sorts catalogs as upstream lists them: by the concatenation of namespace and name.
pub(crate) fn sort(catalogs: &mut [std::sync::Arc<CatalogSource>]) {
    catalogs.sort_by_key(|source| format!("{}{}", source.namespace().unwrap_or_default(), source.name_any()));
}
