//! The reflectors of this program, each without unused fields.

mod custom_resource_definition;
pub(crate) mod deployment;
mod proxy;
mod serving_secret;

use std::{collections::BTreeMap, sync::Arc};

use k8s_openapi::{
    api::{
        admissionregistration::v1::{MutatingWebhookConfiguration, ValidatingWebhookConfiguration},
        apps::v1::{Deployment, ReplicaSet},
        core::v1::{ConfigMap, Namespace, Service, ServiceAccount},
        rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding},
    },
    kube_aggregator::pkg::apis::apiregistration::v1::APIService,
};
use kube::{Client, core::PartialObjectMeta};
use olm_api::{
    labels,
    v1::{OLMConfig, OperatorGroup},
    v1alpha1::{ClusterServiceVersion, InstallPlan, InstallPlanSpec, Subscription},
    v2::OperatorCondition,
};
use olm_runtime::{
    NamespacedName,
    store::{Store, StoreSet, Watch},
};

use crate::{
    component,
    csv::observe::accounts::{AccountSketch, KeptAccount},
    csv_sketch::{CsvSketch, Sketch},
    operator_sketch::{KeptOperator, OperatorSketch},
};

pub(crate) use custom_resource_definition::CustomResourceDefinition;
pub(crate) use proxy::{ClusterProxy, ProxyVariables};
pub(crate) use serving_secret::ServingSecret;

/// All watches of this program. By default the stores have no watches, for models of a cluster.
#[derive(Clone, Default)]
pub struct Stores {
    /// ClusterServiceVersions, without copies.
    pub csvs: Store<ClusterServiceVersion>,
    /// Summaries of all ClusterServiceVersions and copies, to keep copies equal to their originals.
    pub(crate) csv_sketches: Store<Sketch>,
    /// OperatorGroups.
    pub groups: Store<OperatorGroup>,
    /// OperatorConditions.
    pub conditions: Store<OperatorCondition>,
    /// Subscriptions.
    pub subscriptions: Store<Subscription>,
    /// InstallPlans, as components of Operators.
    pub(crate) install_plans: Store<InstallPlan>,
    /// Deployments that OLM created.
    pub deployments: Store<Deployment>,
    /// ReplicaSets that OLM marked: remains of replaced Deployments.
    pub(crate) replica_sets: Store<PartialObjectMeta<ReplicaSet>>,
    /// ServiceAccounts that OLM created, as components of Operators.
    pub(crate) accounts: Store<PartialObjectMeta<ServiceAccount>>,
    /// Summaries of all ServiceAccounts, because those that OperatorGroups name have no label of OLM's.
    pub(crate) account_sketches: Store<AccountSketch>,
    pub(crate) roles: Store<Role>,
    /// RoleBindings that OLM created.
    pub(crate) role_bindings: Store<RoleBinding>,
    /// ClusterRoles that OLM created.
    pub(crate) cluster_roles: Store<ClusterRole>,
    /// ClusterRoleBindings that OLM created.
    pub(crate) cluster_role_bindings: Store<ClusterRoleBinding>,
    /// CustomResourceDefinitions, without their schemas.
    pub(crate) crds: Store<CustomResourceDefinition>,
    pub(crate) api_services: Store<APIService>,
    /// Services that OLM created.
    pub(crate) services: Store<Service>,
    /// Secrets that OLM created, without private keys.
    pub(crate) secrets: Store<ServingSecret>,
    /// ConfigMaps that OLM created, for their labels alone.
    pub(crate) config_maps: Store<PartialObjectMeta<ConfigMap>>,
    /// Validating webhook configurations that OLM created.
    pub(crate) validating_webhooks: Store<ValidatingWebhookConfiguration>,
    /// Mutating webhook configurations that OLM created.
    pub(crate) mutating_webhooks: Store<MutatingWebhookConfiguration>,
    pub(crate) namespaces: Store<PartialObjectMeta<Namespace>>,
    /// Settings; only the one named `cluster` has an effect.
    pub(crate) olm_configs: Store<OLMConfig>,
    /// The cluster's Proxy.
    pub(crate) proxy: ClusterProxy,
    /// Summaries of Operators: the creator, and a hash of the status.
    pub(crate) operators: Store<OperatorSketch>,
}

impl Stores {
    /// Registers all watches in `set`; they start with the set.
    pub(crate) fn register(set: &mut StoreSet, client: &Client) -> Self {
        Self {
            csvs: set.add(
                Watch::new(client)
                    .label_absent(labels::COPIED_FROM)
                    .prune(prune_csv),
            ),
            csv_sketches: set.add_projected::<CsvSketch>(Watch::new(client)),
            groups: set.add(Watch::new(client).prune(prune_group)),
            conditions: set.add(Watch::new(client)),
            subscriptions: set.add(Watch::new(client).prune(prune_subscription)),
            install_plans: set.add(Watch::new(client).prune(prune_install_plan)),
            deployments: set.add(managed(client).prune(deployment::prune)),
            replica_sets: set.add_metadata(managed(client)),
            accounts: set.add_metadata(managed(client)),
            account_sketches: set.add_projected::<KeptAccount>(Watch::new(client)),
            roles: set.add(managed(client)),
            role_bindings: set.add(managed(client)),
            cluster_roles: set.add(managed(client)),
            cluster_role_bindings: set.add(managed(client)),
            crds: set.add(Watch::new(client).prune(CustomResourceDefinition::prune)),
            api_services: set.add(Watch::new(client).prune(prune_api_service)),
            services: set.add(managed(client).prune(prune_service)),
            secrets: set.add(managed(client).prune(ServingSecret::prune)),
            config_maps: set.add_metadata(managed(client)),
            validating_webhooks: set.add(managed(client)),
            mutating_webhooks: set.add(managed(client)),
            namespaces: set.add_metadata(Watch::new(client)),
            olm_configs: set.add(Watch::new(client)),
            proxy: ClusterProxy::register(set, client),
            operators: set.add_projected::<KeptOperator>(Watch::new(client)),
        }
    }
}

impl Stores {
    /// Returns OLM's ClusterRoles with one of these names, by name.
    pub(crate) fn cluster_roles_called(
        &self,
        names: impl IntoIterator<Item = String>,
    ) -> BTreeMap<String, Arc<ClusterRole>> {
        let found = names.into_iter().filter_map(|name| {
            let role = self
                .cluster_roles
                .get_key(&NamespacedName::cluster(name.as_str()))?;
            Some((name, role))
        });
        found.collect()
    }
}

/// Watches only objects with OLM's label, which all objects of OLM have from their creation.
fn managed<K: olm_runtime::store::Stored>(client: &Client) -> Watch<K> {
    Watch::new(client).label_equals(labels::MANAGED, labels::TRUE)
}

/// Removes unused fields of a ClusterServiceVersion.
pub fn prune_csv(csv: &mut ClusterServiceVersion) {
    if let Some(annotations) = &mut csv.metadata.annotations {
        annotations.remove(labels::LAST_APPLIED_CONFIGURATION);
    }
    let spec = &mut csv.spec;
    spec.display_name.clear();
    spec.description = None;
    spec.keywords = Vec::new().into();
    spec.maintainers = Vec::new().into();
    spec.provider = None;
    spec.links = Vec::new().into();
    spec.icon = Vec::new().into();
    spec.labels = Default::default();
    spec.annotations = Default::default();
    spec.selector = None;
    spec.related_images = Vec::new().into();
    spec.extra.clear();
    spec.drop_descriptions();
}

/// Removes unused fields of an OperatorGroup.
pub fn prune_group(group: &mut OperatorGroup) {
    if let Some(annotations) = &mut group.metadata.annotations {
        annotations.retain(|key, _| key == labels::PROVIDED_APIS);
    }
    group.metadata.labels = None;
}

/// Removes unused fields of a Subscription.
pub fn prune_subscription(subscription: &mut Subscription) {
    subscription.metadata.annotations = None;
    component::keep_labels(&mut subscription.metadata);
    if let Some(status) = &mut subscription.status {
        status.catalog_health = Vec::new().into();
        status.install_plan = None;
    }
}

/// Removes fields of an InstallPlan that an Operator does not report.
pub(crate) fn prune_install_plan(plan: &mut InstallPlan) {
    plan.metadata.annotations = None;
    component::keep_labels(&mut plan.metadata);
    plan.metadata.owner_references = None;
    plan.spec = InstallPlanSpec {
        generation: plan.spec.generation,
        ..InstallPlanSpec::default()
    };
    let Some(status) = plan.status.take() else {
        return;
    };
    plan.status = Some(olm_api::v1alpha1::InstallPlanStatus {
        phase: status.phase,
        conditions: status.conditions,
        ..Default::default()
    });
}

/// Removes unused fields of a Service. Services of catalogs are in the store, too, but not used here.
pub(crate) fn prune_service(service: &mut Service) {
    service.status = None;
    service.metadata.annotations = None;
}

/// Removes all fields except availability, unless OLM created the APIService.
pub(crate) fn prune_api_service(service: &mut APIService) {
    let labels = service.metadata.labels.iter().flatten();
    if labels.into_iter().all(|(key, _)| key != labels::OWNER) {
        service.metadata.annotations = None;
        component::keep_labels(&mut service.metadata);
        service.spec = None;
    }
}
