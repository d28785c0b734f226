//! CatalogSources: the pod that serves a catalog image, the related objects, and the connection to it.
//!
//! # Expected flow
//! An image source gets two NetworkPolicies, a ServiceAccount, a Service and a pod. A ConfigMap source gets
//! the same, with a pod that serves the mounted content (`pod.rs`). When the pod is ready a connection is
//! made ([`connection`]). Its state, and the reason why a pod is not ready, are the status. A source with an
//! address only has a connection.
//!
//! Changed pods, policies and other objects are corrected when a watch reports a difference. A catalog that
//! is polled gets a second pod when there is newer content behind its tag ([`update`]).
//!
//! # Guarantees
//! - Only objects that belong to exactly this CatalogSource are changed or removed: by uid, left by a deleted
//!   one of its name, or without any owner and with its labels, because a webhook removes owners.
//! - Garbage collection deletes the objects with their owner.
//! - A catalog that is replaced serves until its successor is ready.
//!
//! # Errors
//! An invalid spec is a status, not an error, and is not retried. Refusals of the API server are reported in
//! the status and retried with backoff.
//!
//! Rules: `docs/reference/catalogs.md`.

mod account;
pub(crate) mod address;
mod config_map_owner;
pub(crate) mod connection;
pub(crate) mod decide;
pub(crate) mod image_template;
pub(crate) mod objects;
pub(crate) mod observed;
pub(crate) mod pod;
pub(crate) mod pod_state;
pub(crate) mod polling;
pub(crate) mod source;
pub(crate) mod status;
pub(crate) mod triggers;
pub(crate) mod update;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Namespace, ObjectReference, Pod};
use kube::ResourceExt;
use kube::core::PartialObjectMeta;
use olm_api::labels;
use olm_api::v1alpha1::CatalogSource;
use olm_runtime::condition::whole_seconds;
use olm_runtime::discovery::Discovery;
use olm_runtime::driver::{Reconciler, StatusUpdate};
use olm_runtime::error::ObserveError;
use olm_runtime::event::regarding;
use olm_runtime::outcome::Outcomes;
use olm_runtime::plan::{Plan, status_of};
use olm_runtime::{NamespacedName, clock};
use tokio::time::timeout;

use self::connection::Connections;
use self::decide::Verdict;
use self::image_template::ImageTemplate;
use self::observed::Observed;
use self::pod::PodSettings;
use self::polling::{Check, Poll};
use crate::registry_tags::ImageTags;
use crate::stores::Stores;
use crate::stores::config_maps::ConfigMapState;

/// Time limit of a poll. A registry that takes longer counts as one that does not answer.
const POLL_DEADLINE: Duration = Duration::from_secs(10);

/// Reconciles CatalogSources.
pub(crate) struct CatalogSourceReconciler {
    pub stores: Stores,
    pub connections: Connections,
    /// Reads the digests behind the tags of catalogs that are polled.
    pub tags: Arc<dyn ImageTags>,
    /// Start time of this process.
    pub started: Timestamp,
    pub discovery: Discovery,
    /// `namespace_restricted` is read for each source; its value here does not matter.
    pub settings: PodSettings,
}

impl CatalogSourceReconciler {
    /// Reads the image from the catalog's template annotation. A failure to read the version does not stop
    /// the reconcile.
    async fn observe_template(&self, source: &CatalogSource) -> ImageTemplate {
        if !image_template::needs_version(source) {
            return ImageTemplate::Absent;
        }
        let version = self.discovery.server_version().await;
        if let Err(error) = &version {
            tracing::debug!(%error, "no version for an image template");
        }
        image_template::resolve_template(source, version.ok().as_deref())
    }

    async fn observe_config_map(&self, namespace: &str, parsed: &source::Source) -> ConfigMapState {
        let source::Source::ConfigMap { name, .. } = parsed else {
            return ConfigMapState::NotNamed;
        };
        let key = NamespacedName::new(namespace, name.as_str());
        self.stores.config_maps.find(&key).await
    }

    /// Returns the poll state of the catalog, which is polled now if that is due. It is not polled before the
    /// image of its pods is known.
    async fn observe_poll(
        &self,
        key: &NamespacedName,
        source: &CatalogSource,
        parsed: &source::Source,
    ) -> Option<Poll> {
        let now = clock::now();
        let poll = polling::schedule(source, parsed, self.started, now)?;
        let (pods, _) = self.pods_of(source);
        if !poll.is_due(now) || pods.iter().all(|pod| pod_state::image_id(pod).is_none()) {
            return Some(poll);
        }
        let answer = timeout(POLL_DEADLINE, self.tags.digest(&poll.image, key)).await;
        let digest =
            answer.unwrap_or_else(|_| Err(format!("no answer within {} s", POLL_DEADLINE.as_secs())));
        if let Err(error) = &digest {
            tracing::debug!(catalog = %key, image = %poll.image, error, "cannot read the digest of the catalog image");
        }
        let check = Check {
            at: whole_seconds(clock::now()),
            digest: digest.ok(),
        };
        Some(Poll {
            check: Some(check),
            ..poll
        })
    }

    /// Returns the catalog's pods: those that serve it, and those that look for a newer image or were
    /// relabelled by others.
    fn pods_of(&self, source: &CatalogSource) -> (Vec<Arc<Pod>>, Vec<Arc<Pod>>) {
        let name = source.name_any();
        let pods = self
            .stores
            .pods
            .list_in(&source.namespace().unwrap_or_default())
            .into_iter();
        pods.filter(|pod| decide::is_pod_of(pod, source))
            .partition(|pod| pod.labels().get(labels::CATALOG_SOURCE) == Some(&name))
    }
}

#[async_trait]
impl Reconciler for CatalogSourceReconciler {
    type Key = NamespacedName;
    type Observed = Observed;
    type Verdict = Verdict;
    type Memory = ();

    const NAME: &'static str = "catalogsource";

    fn regarding(&self, key: &NamespacedName) -> Option<ObjectReference> {
        regarding(&self.stores.sources, key)
    }

    async fn observe(&self, key: &NamespacedName) -> Result<Option<Observed>, ObserveError> {
        let source = self.stores.sources.get_key(key);
        let namespace_object = self.stores.namespaces.get("", &key.namespace);
        // Nothing can be created in a namespace that is being deleted, and everything in it is deleted.
        let terminating = namespace_object
            .as_ref()
            .is_some_and(|found| is_terminating(found));
        let Some(source) =
            source.filter(|source| !terminating && source.metadata.deletion_timestamp.is_none())
        else {
            self.connections.forget(key);
            return Ok(None);
        };
        let template = self.observe_template(&source).await;
        let parsed = source::parse_with_image(&source, template.image(&source));
        let namespace = &key.namespace;
        let config_map = self.observe_config_map(namespace, &parsed).await;
        // First, because it may take some time, in which the rest changes.
        let poll = self.observe_poll(key, &source, &parsed).await;
        let service = self
            .stores
            .services
            .get(namespace, &objects::service_name(&source));
        let (pods, update_pods) = self.pods_of(&source);
        // This call also sets the address to connect to, which is only known here.
        let endpoint = address::find_endpoint(&source, &parsed, service.as_deref(), &pods)
            .or_else(|| address::still_good(self.connections.endpoint(key), &parsed, &pods));
        let connection = self.connections.set_endpoint(key, endpoint);
        let policy = |suffix: &str| {
            self.stores
                .policies
                .get(namespace, &format!("{}-{suffix}", key.name))
        };
        Ok(Some(Observed {
            settings: PodSettings {
                namespace_restricted: namespace_object.is_some_and(|found| is_restricted(&found)),
                ..self.settings.clone()
            },
            service_account: self
                .stores
                .accounts
                .get(namespace, &objects::service_account_name(&source)),
            server_policy: policy(objects::SERVER_POLICY_SUFFIX),
            unpack_policy: policy(objects::UNPACK_POLICY_SUFFIX),
            update_pods,
            poll,
            source,
            template,
            parsed,
            service,
            pods,
            connection,
            config_map,
        }))
    }

    fn decide(observed: &Observed, _: Option<&()>, now: Timestamp) -> (Plan, Verdict) {
        decide::decide(observed, now)
    }

    fn status(observed: &Observed, verdict: Verdict, outcomes: &Outcomes, now: Timestamp) -> StatusUpdate {
        let source = &observed.source;
        let next = status::compose(observed, &verdict, outcomes, now);
        let old = source.status.clone().unwrap_or_default();
        StatusUpdate {
            patches: Vec::from_iter(status_of(&**source, &old, &next)),
            ..StatusUpdate::default()
        }
    }
}

/// True when a namespace is being deleted.
pub(crate) fn is_terminating(namespace: &PartialObjectMeta<Namespace>) -> bool {
    namespace.metadata.deletion_timestamp.is_some()
}

fn is_restricted(namespace: &PartialObjectMeta<Namespace>) -> bool {
    namespace
        .labels()
        .get(labels::POD_SECURITY_ENFORCE)
        .is_some_and(|level| level == "restricted")
}

#[cfg(test)]
mod tests;
