//! The reflectors of this binary, each pruned of unused fields.

pub(crate) mod config_maps;
pub(crate) mod unpacks;

use k8s_openapi::api::core::v1::{Container, Namespace, Pod, PodSpec, Service, ServiceAccount};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Client;
use kube::core::PartialObjectMeta;
use olm_api::cause::csv_cause;
use olm_api::v1::OperatorGroup;
use olm_api::v1alpha1::{
    CatalogSource, ClusterServiceVersion, InstallPlan, Subscription, WebhookDescription, WebhookType,
};
use olm_api::{List, labels};
use olm_resolver::explain::{EVENT_LIMIT, cut};
use olm_runtime::store::{Presence, Projected, Store, StoreSet, Stored, Watch};

use self::config_maps::ConfigMaps;
use self::unpacks::UnpackStores;
use crate::pruning;
use crate::upgrade_policy::{MAX_KEPT, is_about_upgrades};

/// Everything this binary watches.
#[derive(Clone)]
pub(crate) struct Stores {
    /// CatalogSources.
    pub sources: Store<CatalogSource>,
    /// Subscriptions.
    pub subscriptions: Store<Subscription>,
    /// InstallPlans.
    pub plans: Store<InstallPlan>,
    /// ClusterServiceVersions, copies left out.
    pub csvs: Store<ClusterServiceVersion>,
    /// OperatorGroups.
    pub groups: Store<OperatorGroup>,
    /// Namespaces.
    pub namespaces: Store<PartialObjectMeta<Namespace>>,
    /// Pods of catalogs.
    pub pods: Store<Pod>,
    /// Jobs that unpack bundles, and their pods; none where there are to be none.
    pub unpacks: Option<UnpackStores>,
    /// Services that OLM made.
    pub services: Store<Service>,
    /// ConfigMaps that catalogs are made of.
    pub config_maps: ConfigMaps,
    /// ServiceAccounts that OLM made.
    pub accounts: Store<ServiceAccount>,
    /// NetworkPolicies that OLM made.
    pub policies: Store<NetworkPolicy>,
    /// RBAC that OLM made.
    pub roles: Store<Role>,
    /// RBAC that OLM made.
    pub role_bindings: Store<RoleBinding>,
    /// RBAC that OLM made.
    pub cluster_roles: Store<ClusterRole>,
    /// RBAC that OLM made.
    pub cluster_role_bindings: Store<ClusterRoleBinding>,
    /// That a CustomResourceDefinition is there; clusters have hundreds, and only their changes matter.
    pub crds: Store<Projected<Presence<CustomResourceDefinition>>>,
}

impl Stores {
    /// Registers all watches in `set`; they start with the set. Jobs are watched only `with_jobs`: without unpack Jobs this process
    /// needs no permission to see them.
    pub(crate) fn register(set: &mut StoreSet, client: &Client, with_jobs: bool) -> Self {
        Self {
            sources: set.add(Watch::new(client).prune(prune_source)),
            subscriptions: set.add(Watch::new(client).prune(prune_subscription)),
            plans: set.add(Watch::new(client).prune(pruning::prune)),
            csvs: set.add(
                Watch::new(client)
                    .label_absent(labels::COPIED_FROM)
                    .prune(prune_csv),
            ),
            groups: set.add(Watch::new(client)),
            namespaces: set.add_metadata(Watch::new(client)),
            pods: set.add(
                Watch::new(client)
                    .label_exists(labels::CATALOG_SOURCE)
                    .prune(prune_pod),
            ),
            unpacks: with_jobs.then(|| UnpackStores::register(set, client)),
            services: set.add(managed(client).prune(prune_service)),
            config_maps: ConfigMaps::register(set, client),
            accounts: set.add(managed(client).prune(pruning::prune_account)),
            policies: set.add(managed(client)),
            roles: set.add(managed(client).prune(pruning::prune_role)),
            role_bindings: set.add(managed(client).prune(pruning::prune_role_binding)),
            cluster_roles: set.add(managed(client).prune(pruning::prune_cluster_role)),
            cluster_role_bindings: set.add(managed(client).prune(pruning::prune_cluster_role_binding)),
            crds: set.add_projected(Watch::new(client)),
        }
    }
}

/// Only objects with OLM's label: every object that OLM creates has it from its creation.
fn managed<K: Stored>(client: &Client) -> Watch<K> {
    Watch::new(client).label_equals(labels::MANAGED, labels::TRUE)
}

fn prune_source(source: &mut CatalogSource) {
    if let Some(annotations) = &mut source.metadata.annotations {
        annotations.remove(labels::LAST_APPLIED_CONFIGURATION);
    }
    source.spec.icon = None;
    source.spec.description = None;
}

/// The operator's configuration is the concern of olm-operator.
fn prune_subscription(subscription: &mut Subscription) {
    if let Some(annotations) = &mut subscription.metadata.annotations {
        annotations.retain(|key, _| key == labels::GENERATED_BY || is_about_upgrades(key));
        // Nothing longer is read, and an object may have as much as the API server takes.
        for value in annotations.values_mut() {
            *value = cut(value, MAX_KEPT);
        }
    }
    subscription.metadata.labels = None;
    subscription.spec.config = None;
}

/// Resolution reads names, versions, APIs and the projected properties; plans read which operator converts which definition;
/// Subscriptions report the phase and its cause, which is kept as the message.
fn prune_csv(csv: &mut ClusterServiceVersion) {
    let cause = csv_cause(csv);
    if let Some(annotations) = &mut csv.metadata.annotations {
        annotations.retain(|key, _| key == labels::PROPERTIES || key == labels::OPERATOR_NAMESPACE);
    }
    csv.metadata.labels = None;
    let spec = std::mem::take(&mut csv.spec);
    csv.spec.version = spec.version;
    csv.spec.replaces = spec.replaces;
    csv.spec.custom_resource_definitions = spec.custom_resource_definitions;
    csv.spec.api_service_definitions = spec.api_service_definitions;
    csv.spec.webhook_definitions = conversions(&spec.webhook_definitions);
    csv.spec.drop_descriptions();
    if let Some(status) = &mut csv.status {
        let old = std::mem::take(status);
        status.phase = old.phase;
        status.message = cause.map(|cause| cut(&cause, EVENT_LIMIT));
        status.last_transition_time = old.last_transition_time;
    }
}

fn conversions(webhooks: &List<WebhookDescription>) -> List<WebhookDescription> {
    let conversions = webhooks
        .iter()
        .filter(|webhook| webhook.type_ == WebhookType::Conversion && !webhook.conversion_crds.is_empty())
        .map(|webhook| WebhookDescription {
            type_: WebhookType::Conversion,
            conversion_crds: webhook.conversion_crds.clone(),
            ..WebhookDescription::default()
        });
    conversions.collect::<Vec<_>>().into()
}

/// Images, labels and state are read; what the rest of the spec should be is in the hash.
fn prune_pod(pod: &mut Pod) {
    if let Some(annotations) = &mut pod.metadata.annotations {
        annotations.retain(|key, _| key == labels::IMAGE_DIGEST);
    }
    if let Some(spec) = pod.spec.take() {
        let bare = |containers: Vec<Container>| -> Vec<Container> {
            let bare = |container: Container| Container {
                name: container.name,
                image: container.image,
                ..Container::default()
            };
            containers.into_iter().map(bare).collect()
        };
        pod.spec = Some(PodSpec {
            init_containers: spec.init_containers.map(bare),
            containers: bare(spec.containers),
            ..PodSpec::default()
        });
    }
}

fn prune_service(service: &mut Service) {
    service.metadata.annotations = None;
    service.status = None;
}

#[cfg(test)]
mod tests {
    use olm_api::labels::UPGRADE_HOLD;
    use serde_json::json;

    use super::*;

    /// A user who can write a Subscription controls the memory for it, so only a part of an object is kept.
    #[test]
    fn only_the_part_of_an_annotation_that_is_read_is_kept() {
        let annotations = json!({UPGRADE_HOLD: "é".repeat(100_000), "other": "x"});
        let object = json!({
            "apiVersion": "operators.coreos.com/v1alpha1", "kind": "Subscription",
            "metadata": {"name": "demo", "namespace": "ns", "annotations": annotations},
            "spec": {"name": "demo", "source": "cat", "sourceNamespace": "ns"}});
        let mut object: Subscription = serde_json::from_value(object).unwrap();
        prune_subscription(&mut object);
        let kept = object.metadata.annotations.unwrap();
        assert_eq!(kept.len(), 1);
        let length = kept[UPGRADE_HOLD].len();
        assert!(length > 256 && length <= MAX_KEPT, "{length}");
    }

    /// Of the status, the cause is kept in place of reason, message and requirements.
    #[test]
    fn the_cause_of_a_csv_survives_pruning() {
        let time = "2026-01-01T00:00:00Z";
        let rows = json!([{"kind": "Role", "name": "r", "status": "NotPresent"}]);
        for (phase, rest, cause) in [
            (
                "Pending",
                json!({"message": "m", "requirementStatus": rows}),
                Some("waiting for Role r"),
            ),
            (
                "Installing",
                json!({"message": "m", "reason": "InstallWaiting"}),
                Some("m"),
            ),
            (
                "Failed",
                json!({"message": "m", "reason": "NoOperatorGroup"}),
                Some("NoOperatorGroup: m"),
            ),
            (
                "Succeeded",
                json!({"message": "m", "requirementStatus": rows}),
                None,
            ),
        ] {
            let mut status = rest;
            status["phase"] = json!(phase);
            status["lastTransitionTime"] = json!(time);
            let object = json!({"metadata": {"name": "demo.v1"}, "spec": {}, "status": status});
            let mut object: ClusterServiceVersion = serde_json::from_value(object).unwrap();
            prune_csv(&mut object);
            assert_eq!(csv_cause(&object).as_deref(), cause, "{phase}");
            let kept = serde_json::to_value(&object.status).unwrap();
            let mut expected = json!({"phase": phase, "lastTransitionTime": time});
            if let Some(cause) = cause {
                expected["message"] = json!(cause);
            }
            assert_eq!(kept, expected);
        }
    }
}
