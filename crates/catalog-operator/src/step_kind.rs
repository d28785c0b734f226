//! The kinds a plan may contain, and what is particular about carrying each of them out.

use k8s_openapi::api::core::v1::{ConfigMap, Secret, Service, ServiceAccount};
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::core::ApiResource;
use olm_api::v1alpha1::{ClusterServiceVersion, Subscription};
use olm_fbc::manifest::OPTIONAL_KINDS;

/// OpenShift's older name for the group of Roles and bindings.
const RBAC_OF_OPENSHIFT: &str = "authorization.openshift.io";

/// A kind of plan step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum StepKind {
    /// Created, never changed.
    ClusterServiceVersion,
    /// A dependency's Subscription: created, never changed.
    Subscription,
    /// Checked for safety, then merged; always in the operator's own name.
    CustomResourceDefinition,
    /// A bundle's Secret.
    BundleSecret,
    /// A pull secret, copied from the global namespace.
    Secret,
    /// Merged, never taken away from.
    ServiceAccount,
    /// Namespaced permissions.
    Role,
    /// Namespaced permissions.
    RoleBinding,
    /// Cluster permissions; tied to the ClusterServiceVersion by labels.
    ClusterRole,
    /// Cluster permissions; tied to the ClusterServiceVersion by labels.
    ClusterRoleBinding,
    /// Server-side applied: the API server adds much of its own.
    Service,
    /// Data as in the bundle.
    ConfigMap,
    /// One of [`OPTIONAL_KINDS`], applied as it comes.
    Dynamic,
}

impl StepKind {
    /// The kind of a step; none when plans may not contain it.
    pub(crate) fn of(kind: &str) -> Option<Self> {
        Some(match kind {
            "ClusterServiceVersion" => Self::ClusterServiceVersion,
            "Subscription" => Self::Subscription,
            "CustomResourceDefinition" => Self::CustomResourceDefinition,
            "BundleSecret" => Self::BundleSecret,
            "Secret" => Self::Secret,
            "ServiceAccount" => Self::ServiceAccount,
            "Role" => Self::Role,
            "RoleBinding" => Self::RoleBinding,
            "ClusterRole" => Self::ClusterRole,
            "ClusterRoleBinding" => Self::ClusterRoleBinding,
            "Service" => Self::Service,
            "ConfigMap" => Self::ConfigMap,
            other if OPTIONAL_KINDS.contains(&other) => Self::Dynamic,
            _ => return None,
        })
    }

    /// The API resource, none for kinds that discovery has to find.
    pub(crate) fn api_resource(self) -> Option<ApiResource> {
        Some(match self {
            Self::ClusterServiceVersion => ApiResource::erase::<ClusterServiceVersion>(&()),
            Self::Subscription => ApiResource::erase::<Subscription>(&()),
            Self::CustomResourceDefinition => ApiResource::erase::<CustomResourceDefinition>(&()),
            Self::BundleSecret | Self::Secret => ApiResource::erase::<Secret>(&()),
            Self::ServiceAccount => ApiResource::erase::<ServiceAccount>(&()),
            Self::Role => ApiResource::erase::<Role>(&()),
            Self::RoleBinding => ApiResource::erase::<RoleBinding>(&()),
            Self::ClusterRole => ApiResource::erase::<ClusterRole>(&()),
            Self::ClusterRoleBinding => ApiResource::erase::<ClusterRoleBinding>(&()),
            Self::Service => ApiResource::erase::<Service>(&()),
            Self::ConfigMap => ApiResource::erase::<ConfigMap>(&()),
            Self::Dynamic => return None,
        })
    }

    /// Whether an object of this kind and group is what the kind says: other APIs have a Role or a Secret, too. Who leaves the group
    /// out means the one that is known; that of kinds which discovery has to find is not in doubt.
    pub(crate) fn is_of_group(self, group: &str) -> bool {
        let is_rbac = self.is_account_or_rbac() && self != Self::ServiceAccount;
        group.is_empty()
            || is_rbac && group == RBAC_OF_OPENSHIFT
            || self.api_resource().is_none_or(|api| api.group == group)
    }

    /// Whether objects of this kind have no namespace; none for kinds that discovery has to find.
    pub(crate) fn is_cluster_scoped(self) -> Option<bool> {
        match self {
            Self::CustomResourceDefinition | Self::ClusterRole | Self::ClusterRoleBinding => Some(true),
            Self::Dynamic => None,
            _ => Some(false),
        }
    }

    /// Whether carrying the step out needs to know the object in the cluster. ClusterServiceVersions and Subscriptions are
    /// created or left alone, so their step needs no read.
    pub(crate) fn reads_current(self) -> bool {
        !matches!(self, Self::ClusterServiceVersion | Self::Subscription)
    }

    /// Whether the object is tied to the ClusterServiceVersion it came with.
    ///
    /// Upstream leaves bundle-supplied ServiceAccounts and RBAC without any owner; here they go with their operator like
    /// everything else (decision record 0004).
    pub(crate) fn has_owner(self) -> bool {
        !matches!(
            self,
            Self::ClusterServiceVersion | Self::Subscription | Self::CustomResourceDefinition | Self::Secret
        )
    }

    /// Whether the object is a component of its package's Operator.
    pub(crate) fn is_component(self) -> bool {
        !matches!(self, Self::Secret | Self::Dynamic)
    }

    /// ServiceAccounts and RBAC: what a plan restores when it is missing, and hence carries whole in its steps.
    pub(crate) fn is_account_or_rbac(self) -> bool {
        matches!(
            self,
            Self::ServiceAccount
                | Self::Role
                | Self::RoleBinding
                | Self::ClusterRole
                | Self::ClusterRoleBinding
        )
    }

    /// The words upstream puts before the cause when creating (or else updating) `name` fails.
    pub(crate) fn error_prefix(self, name: &str, creating: bool) -> String {
        let verb = if creating { "creating" } else { "updating" };
        match self {
            Self::ClusterServiceVersion => format!("error creating csv {name}"),
            Self::Subscription => format!("error creating subscription {name}"),
            Self::BundleSecret => format!("error updating secret: {name}"),
            Self::Secret => format!("error creating secret {name}"),
            Self::ServiceAccount => format!("error {verb} service account: {name}"),
            Self::Role => format!("error {verb} role {name}"),
            Self::RoleBinding => format!("error {verb} rolebinding {name}"),
            Self::ClusterRole => format!("error {verb} clusterrole {name}"),
            Self::ClusterRoleBinding => format!("error {verb} clusterrolebinding {name}"),
            Self::Service => format!("error updating service: {name}"),
            Self::ConfigMap => format!("error updating configmap: {name}"),
            Self::CustomResourceDefinition => format!("error {verb} CRD \"{name}\""),
            Self::Dynamic => format!("error {verb} unstructured object {name}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_of_another_group_is_another_kind() {
        let rows = [
            (StepKind::Role, "rbac.authorization.k8s.io", true),
            (StepKind::Role, "", true),
            (StepKind::Role, "authorization.openshift.io", true),
            (StepKind::Role, "iam.services.k8s.aws", false),
            (StepKind::Service, "", true),
            (StepKind::Service, "ecs.services.k8s.aws", false),
            (StepKind::Service, "authorization.openshift.io", false),
            (StepKind::BundleSecret, "secretsmanager.services.k8s.aws", false),
            (StepKind::Subscription, "messaging.knative.dev", false),
            (StepKind::Dynamic, "monitoring.rhobs", true),
        ];
        for (kind, group, expected) in rows {
            assert_eq!(kind.is_of_group(group), expected, "{kind:?} {group}");
        }
    }

    #[test]
    fn every_kind_of_the_allow_list_is_supported_and_others_are_not() {
        for kind in OPTIONAL_KINDS {
            assert_eq!(StepKind::of(kind), Some(StepKind::Dynamic), "{kind}");
        }
        for kind in ["Deployment", "Pod", "Namespace", "configmap", ""] {
            assert_eq!(StepKind::of(kind), None, "{kind}");
        }
    }
}
