//! The reflectors of this binary, each pruned of what nobody reads.

mod custom_resource_definition;

use k8s_openapi::{
    api::{
        apps::v1::{Deployment, ReplicaSet},
        core::v1::{Namespace, ServiceAccount},
        rbac::v1::{ClusterRole, ClusterRoleBinding, PolicyRule, Role, RoleBinding, RoleRef, Subject},
    },
    kube_aggregator::pkg::apis::apiregistration::v1::APIService,
};
use kube::{Client, core::PartialObjectMeta};
use olm_api::{
    labels, permission,
    v1::OperatorGroup,
    v1alpha1::{ClusterServiceVersion, InstallPlan, InstallPlanPhase, Step, StepStatus, Subscription},
    v2::OperatorCondition,
};
use olm_runtime::store::{News, Store, StoreSet, Watch};

pub(crate) use custom_resource_definition::CustomResourceDefinition;

/// Everything this binary watches.
#[derive(Clone)]
pub struct Stores {
    /// ClusterServiceVersions, copies left out.
    pub csvs: Store<ClusterServiceVersion>,
    /// ClusterServiceVersions with the label of copies and with the finalizer that no copy has.
    pub(crate) mislabelled_csvs: Store<PartialObjectMeta<ClusterServiceVersion>>,
    /// OperatorGroups.
    pub groups: Store<OperatorGroup>,
    /// OperatorConditions.
    pub conditions: Store<OperatorCondition>,
    /// Subscriptions.
    pub subscriptions: Store<Subscription>,
    /// InstallPlans: of Complete ones the steps for Roles and RoleBindings, nothing of others.
    pub(crate) install_plans: Store<InstallPlan>,
    /// Deployments that OLM made.
    pub deployments: Store<Deployment>,
    /// ReplicaSets that OLM marked: what Deployments that made way for others left behind.
    pub(crate) replica_sets: Store<PartialObjectMeta<ReplicaSet>>,
    /// ServiceAccounts that OLM made.
    pub(crate) accounts: Store<PartialObjectMeta<ServiceAccount>>,
    /// News of all ServiceAccounts: those that OperatorGroups name carry no mark of OLM's.
    pub(crate) account_news: News<ServiceAccount>,
    pub(crate) roles: Store<Role>,
    /// RoleBindings that OLM made.
    pub(crate) role_bindings: Store<RoleBinding>,
    /// ClusterRoles that OLM made.
    pub(crate) cluster_roles: Store<ClusterRole>,
    /// ClusterRoleBindings that OLM made.
    pub(crate) cluster_role_bindings: Store<ClusterRoleBinding>,
    /// CustomResourceDefinitions, without their schemas.
    pub(crate) crds: Store<CustomResourceDefinition>,
    pub(crate) api_services: Store<APIService>,
    pub(crate) namespaces: Store<PartialObjectMeta<Namespace>>,
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
            mislabelled_csvs: set.add_metadata(
                Watch::new(client)
                    .label_exists(labels::COPIED_FROM)
                    .with_finalizer(labels::FINALIZER_CSV_CLEANUP),
            ),
            groups: set.add(Watch::new(client).prune(prune_group)),
            conditions: set.add(Watch::new(client)),
            subscriptions: set.add(Watch::new(client).prune(prune_subscription)),
            install_plans: set.add(Watch::new(client).prune(prune_install_plan)),
            deployments: set.add(managed(client).prune(prune_deployment)),
            replica_sets: set.add_metadata(managed(client)),
            accounts: set.add_metadata(managed(client)),
            account_news: set.add_news(Watch::new(client)),
            roles: set.add(managed(client)),
            role_bindings: set.add(managed(client)),
            cluster_roles: set.add(managed(client)),
            cluster_role_bindings: set.add(managed(client)),
            crds: set.add(Watch::new(client).prune(CustomResourceDefinition::prune)),
            api_services: set.add(Watch::new(client).prune(prune_api_service)),
            namespaces: set.add_metadata(Watch::new(client)),
        }
    }
}

impl Stores {
    /// Stores that nothing feeds, for models of a cluster.
    #[doc(hidden)]
    pub fn empty() -> Self {
        Self {
            csvs: Store::new(),
            mislabelled_csvs: Store::new(),
            groups: Store::new(),
            conditions: Store::new(),
            subscriptions: Store::new(),
            install_plans: Store::new(),
            deployments: Store::new(),
            replica_sets: Store::new(),
            accounts: Store::new(),
            account_news: News::default(),
            roles: Store::new(),
            role_bindings: Store::new(),
            cluster_roles: Store::new(),
            cluster_role_bindings: Store::new(),
            crds: Store::new(),
            api_services: Store::new(),
            namespaces: Store::new(),
        }
    }
}

/// Only what carries OLM's mark: everything OLM makes does, from its creation.
fn managed<K>(client: &Client) -> Watch<K>
where
    K: olm_runtime::store::Stored,
{
    Watch::new(client).label_equals(labels::MANAGED, labels::TRUE)
}

/// Takes out of a ClusterServiceVersion what nobody reads.
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
    if let Some(crds) = &mut spec.custom_resource_definitions {
        for crd in crds.owned.iter_mut().chain(crds.required.iter_mut()) {
            crd.display_name = None;
            crd.description = None;
            crd.resources = Vec::new().into();
            crd.spec_descriptors = Vec::new().into();
            crd.status_descriptors = Vec::new().into();
            crd.action_descriptors = Vec::new().into();
        }
    }
    if let Some(services) = &mut spec.api_service_definitions {
        for service in services.owned.iter_mut().chain(services.required.iter_mut()) {
            service.display_name = None;
            service.description = None;
            service.resources = Vec::new().into();
            service.spec_descriptors = Vec::new().into();
            service.status_descriptors = Vec::new().into();
            service.action_descriptors = Vec::new().into();
        }
    }
}

/// Takes out of an OperatorGroup what nobody reads.
pub fn prune_group(group: &mut OperatorGroup) {
    if let Some(annotations) = &mut group.metadata.annotations {
        annotations.retain(|key, _| key == labels::PROVIDED_APIS);
    }
    group.metadata.labels = None;
}

/// Takes out of a Subscription what nobody reads.
pub fn prune_subscription(subscription: &mut Subscription) {
    subscription.metadata.annotations = None;
    subscription.metadata.labels = None;
    if let Some(status) = &mut subscription.status {
        status.conditions = Vec::new().into();
        status.catalog_health = Vec::new().into();
        status.install_plan_ref = None;
        status.install_plan = None;
    }
}

/// What a plan proves: that its steps made Roles and RoleBindings. A step's manifest becomes the permissions hash of the object it
/// carries, or nothing when it refers to an object elsewhere.
pub(crate) fn prune_install_plan(plan: &mut InstallPlan) {
    plan.metadata.annotations = None;
    plan.metadata.labels = None;
    plan.metadata.owner_references = None;
    plan.spec = Default::default();
    let Some(status) = plan.status.take() else {
        return;
    };
    let mut kept = olm_api::v1alpha1::InstallPlanStatus {
        phase: status.phase,
        conditions: status.conditions,
        ..Default::default()
    };
    if kept.phase == InstallPlanPhase::Complete {
        let steps = status.plan.into_iter().filter(is_role_made);
        let steps = steps.map(|mut step| {
            step.resource.manifest = permissions_hash(&step);
            step
        });
        kept.plan = steps.collect::<Vec<_>>().into();
    }
    plan.status = Some(kept);
}

fn is_role_made(step: &Step) -> bool {
    step.resource.group == permission::API_GROUP
        && matches!(step.resource.kind.as_str(), "Role" | "RoleBinding")
        && matches!(step.status, StepStatus::Created | StepStatus::Present)
}

/// The permissions hash of the Role or RoleBinding that a step carries. A manifest of another kind is a reference; one that cannot
/// be read has a hash that no object has.
fn permissions_hash(step: &Step) -> Option<String> {
    #[derive(serde::Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Carried {
        kind: String,
        rules: Option<Vec<PolicyRule>>,
        role_ref: Option<RoleRef>,
        subjects: Option<Vec<Subject>>,
    }
    let text = step.resource.manifest.as_deref().unwrap_or_default();
    let Ok(carried) = serde_json::from_str::<Carried>(text) else {
        return Some(String::new());
    };
    match carried.kind.as_str() {
        "Role" => permission::rules_hash(&carried.rules.unwrap_or_default()).ok(),
        "RoleBinding" => permission::binding_hash(
            &carried.role_ref.unwrap_or_default(),
            &carried.subjects.unwrap_or_default(),
        )
        .ok(),
        "BundleImage" | "ConfigMap" => None,
        _ => Some(String::new()),
    }
}

/// Of the spec only the annotations of the pods and the selector are read; what the rest should be is in the hash.
pub(crate) fn prune_deployment(deployment: &mut Deployment) {
    deployment.metadata.annotations = None;
    if let Some(spec) = &mut deployment.spec {
        spec.template.spec = None;
        if let Some(metadata) = &mut spec.template.metadata {
            metadata.labels = None;
        }
    }
}

pub(crate) fn prune_api_service(service: &mut APIService) {
    service.metadata.annotations = None;
    service.metadata.labels = None;
    service.spec = None;
}
