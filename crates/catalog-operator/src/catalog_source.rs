//! CatalogSources: the pod that serves a catalog image, the objects around it, and the connection to it.
//!
//! # Expected flow
//! An image source gets two NetworkPolicies, a ServiceAccount, a Service and a pod. One that is made of a ConfigMap gets
//! the same, with a pod that serves what is mounted (`pod.rs`). When the pod is ready a connection
//! is made ([`connection`]); its state, and what keeps the pod from being ready, are the status. Sources with an
//! address only have a connection and nothing else. Pods, policies and the rest are put right whenever a watch shows
//! them different. A catalog that is polled gets a pod beside its own when there is something new behind its tag ([`update`]).
//!
//! # Guarantees
//! Nothing that does not belong to the very CatalogSource (by uid, or left by a deleted one of its name) is changed or
//! removed. The objects go with their owner by garbage collection. A catalog that is replaced serves until its
//! successor is ready.
//!
//! # Errors
//! A wrong spec is a status, not an error, and is not tried again. What the API server refuses is told in the status and
//! tried again with backoff.
//!
//! Rules: `docs/reference/catalogs.md`.

mod account;
pub(crate) mod address;
mod config_map_owner;
pub(crate) mod connection;
pub(crate) mod decide;
pub(crate) mod image_polls;
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

use async_trait::async_trait;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Namespace, ObjectReference, Pod};
use kube::ResourceExt;
use kube::core::PartialObjectMeta;
use olm_api::labels;
use olm_api::v1alpha1::CatalogSource;
use olm_runtime::discovery::Discovery;
use olm_runtime::driver::{Reconciler, StatusUpdate};
use olm_runtime::error::ObserveError;
use olm_runtime::event::regarding;
use olm_runtime::outcome::Outcomes;
use olm_runtime::plan::{Plan, Target, status_patch};
use olm_runtime::{NamespacedName, clock};

use self::connection::Connections;
use self::decide::Verdict;
use self::image_polls::ImagePolls;
use self::image_template::ImageTemplate;
use self::observed::Observed;
use self::pod::PodSettings;
use self::polling::Poll;
use crate::stores::Stores;
use crate::stores::config_maps::ConfigMapState;

/// Reconciles CatalogSources.
pub(crate) struct CatalogSourceReconciler {
    stores: Stores,
    connections: Connections,
    polls: ImagePolls,
    discovery: Discovery,
    settings: PodSettings,
}

impl CatalogSourceReconciler {
    /// `settings.namespace_restricted` is looked up for each source; its value here does not matter.
    pub(crate) fn new(
        stores: Stores,
        (connections, polls): (Connections, ImagePolls),
        discovery: Discovery,
        settings: PodSettings,
    ) -> Self {
        Self {
            stores,
            connections,
            polls,
            discovery,
            settings,
        }
    }

    /// What the catalog's annotation says its image is. That the version is not to be had is no reason to do nothing.
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

    fn observe_config_map(&self, key: &NamespacedName, parsed: &source::Source) -> ConfigMapState {
        let config_maps = &self.stores.config_maps;
        let source::Source::ConfigMap { name, .. } = parsed else {
            config_maps.forget(key);
            return ConfigMapState::NotNamed;
        };
        config_maps.of_source(key, name)
    }

    /// What is known of newer content. The catalog is not polled before it is known what its pods run.
    fn observe_poll(
        &self,
        key: &NamespacedName,
        source: &CatalogSource,
        parsed: &source::Source,
        pods: &[Arc<Pod>],
    ) -> Option<Poll> {
        let now = clock::now();
        let Some(poll) = polling::schedule(source, parsed, self.polls.started(), now) else {
            self.polls.forget(key);
            return None;
        };
        let is_known = pods.iter().any(|pod| pod_state::image_id(pod).is_some());
        let check = is_known.then(|| self.polls.look(key, &poll, now)).flatten();
        Some(Poll { check, ..poll })
    }

    /// The catalog's pods: those that serve it, and those that look for a newer image or were relabelled by somebody.
    fn pods_of(&self, source: &CatalogSource) -> (Vec<Arc<Pod>>, Vec<Arc<Pod>>) {
        let uid = source.metadata.uid.as_deref();
        let name = source.name_any();
        let pods = self
            .stores
            .pods
            .list_in(&source.namespace().unwrap_or_default())
            .into_iter();
        pods.filter(|pod| decide::is_owned_by(&pod.metadata, uid))
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
        // In a namespace that is being deleted nothing can be made, and everything goes by itself.
        let terminating = namespace_object
            .as_ref()
            .is_some_and(|found| is_terminating(found));
        let Some(source) =
            source.filter(|source| !terminating && source.metadata.deletion_timestamp.is_none())
        else {
            self.connections.forget(key);
            self.polls.forget(key);
            self.stores.config_maps.forget(key);
            return Ok(None);
        };
        let template = self.observe_template(&source).await;
        let parsed = source::parse_with_image(&source, template.image(&source));
        let config_map = self.observe_config_map(key, &parsed);
        let namespace = &key.namespace;
        let service = self
            .stores
            .services
            .get(namespace, &objects::service_name(&source));
        let (pods, update_pods) = self.pods_of(&source);
        let poll = self.observe_poll(key, &source, &parsed, &pods);
        // Asking for the connection's state also tells its task where to connect, which is known only here.
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
        let target = Target::of::<CatalogSource>(&source.namespace().unwrap_or_default(), &source.name_any());
        let old = source.status.clone().unwrap_or_default();
        StatusUpdate {
            patches: Vec::from_iter(status_patch(target, source.metadata.uid.as_deref(), &old, &next)),
            ..StatusUpdate::default()
        }
    }
}

/// Whether a namespace is being deleted.
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
