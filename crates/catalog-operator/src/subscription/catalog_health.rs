//! `status.catalogHealth` and the condition `CatalogSourcesUnhealthy` (`docs/reference/resolution.md`).
//!
//! A catalog is healthy when its status says that it is served and connected, or that it only starts. Upstream asks the
//! cluster for the catalog's objects instead, and so calls a catalog healthy whose image cannot be pulled.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::ObjectReference;
use kube::ResourceExt;
use olm_api::condition::{catalog_source as catalog_reasons, subscription as reasons};
use olm_api::v1alpha1::{
    API_VERSION, CatalogSource, SubscriptionCatalogHealth, SubscriptionCondition, SubscriptionSpec,
    SubscriptionStatus,
};
use olm_resolver::explain::{EVENT_LIMIT, cut};
use olm_runtime::condition::stored_time;

use super::conditions::{condition_false, condition_true};

/// A catalog as Subscriptions see it.
#[derive(Debug, Clone, PartialEq)]
pub struct CatalogFact {
    /// The object.
    pub reference: ObjectReference,
    /// Why it is not healthy; `None` when it is, or when it only starts.
    pub unhealthy_reason: Option<String>,
}

impl CatalogFact {
    /// What `source`'s own status says.
    pub fn of(source: &CatalogSource) -> Self {
        Self {
            reference: ObjectReference {
                api_version: Some(API_VERSION.to_owned()),
                kind: Some("CatalogSource".to_owned()),
                name: source.metadata.name.clone(),
                namespace: source.metadata.namespace.clone(),
                uid: source.metadata.uid.clone(),
                resource_version: source.metadata.resource_version.clone(),
                ..ObjectReference::default()
            },
            unhealthy_reason: unhealthy_reason(source).filter(|_| !is_starting(source)),
        }
    }

    /// The same with what went wrong when its content was last read, if an earlier content stands in for it: otherwise nobody
    /// would know that what is new in it does not count.
    #[must_use]
    pub fn with_unread(mut self, trouble: Option<String>) -> Self {
        if self.unhealthy_reason.is_none() {
            let text = |trouble| {
                format!("what it serves now cannot be read, what was read before is used: {trouble}")
            };
            self.unhealthy_reason = trouble.map(text);
        }
        self
    }

    /// Whether this is the catalog a Subscription names.
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

/// Why a catalog cannot be used, in the words of its own status; none when it can.
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
            "" => "its registry server is not set up yet".to_owned(),
            state => format!("its connection is {state}"),
        }),
    )
}

/// Whether a catalog has merely not come up yet: nothing is known to be wrong with it.
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

/// Puts the health of `catalogs` into `status`: the list when a catalog came, went or changed its health, and the condition.
///
/// Upstream first writes a reason that names the change (`CatalogSourcesAdded`, `…Updated`, `…Deleted`) and the lasting
/// one in a second write. Here the lasting one is written at once.
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

/// The condition. It is true only for the catalog that the Subscription names; the trouble of others is named in its message.
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

/// Upstream's message, and the catalogs that are not available, without their causes: each change would be a write to
/// every Subscription.
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

/// Catalogs in the order in which upstream lists them: by namespace and name written together.
pub(crate) fn sort(catalogs: &mut [std::sync::Arc<CatalogSource>]) {
    catalogs.sort_by_key(|source| format!("{}{}", source.namespace().unwrap_or_default(), source.name_any()));
}
