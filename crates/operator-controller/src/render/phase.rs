//! Phases, in which the objects of an extension are applied one after the other.

/// Group of webhook configurations.
pub(super) const ADMISSION: &str = "admissionregistration.k8s.io";
/// Group of Issuers and Certificates.
pub(super) const CERT_MANAGER: &str = "cert-manager.io";
const EXTENSIONS: &str = "apiextensions.k8s.io";
const RBAC: &str = olm_api::permission::API_GROUP;
const CONSOLE: &str = "console.openshift.io";
const MONITORING: &str = "monitoring.coreos.com";

/// A step of applying; variants are in the order in which they are applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Phase {
    /// Namespaces.
    Namespaces,
    /// Limits for what follows: network policies, disruption budgets, priority classes.
    Policies,
    /// ServiceAccounts.
    Identity,
    /// Secrets and ConfigMaps.
    Configuration,
    /// Volumes, claims and storage classes.
    Storage,
    /// CustomResourceDefinitions.
    Crds,
    /// Roles and ClusterRoles.
    Roles,
    /// RoleBindings and ClusterRoleBindings.
    Bindings,
    /// Services, and cert-manager's Issuers and Certificates.
    Infrastructure,
    /// Deployments, and every kind without another phase.
    Deploy,
    /// Autoscalers.
    Scaling,
    /// Monitoring, routes and objects of OpenShift's console.
    Publish,
    /// Webhook configurations, which need their server.
    Admission,
}

impl Phase {
    /// All phases, in order.
    pub const ALL: [Self; 13] = [
        Self::Namespaces,
        Self::Policies,
        Self::Identity,
        Self::Configuration,
        Self::Storage,
        Self::Crds,
        Self::Roles,
        Self::Bindings,
        Self::Infrastructure,
        Self::Deploy,
        Self::Scaling,
        Self::Publish,
        Self::Admission,
    ];

    /// Returns the name of the phase in a ClusterObjectSet.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Namespaces => "namespaces",
            Self::Policies => "policies",
            Self::Identity => "identity",
            Self::Configuration => "configuration",
            Self::Storage => "storage",
            Self::Crds => "crds",
            Self::Roles => "roles",
            Self::Bindings => "bindings",
            Self::Infrastructure => "infrastructure",
            Self::Deploy => "deploy",
            Self::Scaling => "scaling",
            Self::Publish => "publish",
            Self::Admission => "admission",
        }
    }

    /// Returns the phase of objects of a group (empty for the core group) and kind.
    pub fn of(group: &str, kind: &str) -> Self {
        match (group, kind) {
            ("", "Namespace") => Self::Namespaces,
            ("networking.k8s.io", "NetworkPolicy")
            | ("policy", "PodDisruptionBudget")
            | ("scheduling.k8s.io", "PriorityClass") => Self::Policies,
            ("", "ServiceAccount") => Self::Identity,
            ("", "Secret" | "ConfigMap") => Self::Configuration,
            ("", "PersistentVolume" | "PersistentVolumeClaim") | ("storage.k8s.io", "StorageClass") => {
                Self::Storage
            }
            (EXTENSIONS, "CustomResourceDefinition") => Self::Crds,
            (RBAC, "ClusterRole" | "Role") => Self::Roles,
            (RBAC, "ClusterRoleBinding" | "RoleBinding") => Self::Bindings,
            ("", "Service") | (CERT_MANAGER, "Issuer" | "Certificate") => Self::Infrastructure,
            ("autoscaling.k8s.io", "VerticalPodAutoscaler") => Self::Scaling,
            (MONITORING, "PrometheusRule" | "ServiceMonitor" | "PodMonitor")
            | ("networking.k8s.io", "Ingress")
            | ("route.openshift.io", "Route")
            | (
                CONSOLE,
                "ConsoleYAMLSample" | "ConsoleQuickStart" | "ConsoleCLIDownload" | "ConsoleLink"
                | "ConsolePlugin",
            ) => Self::Publish,
            (ADMISSION, "ValidatingWebhookConfiguration" | "MutatingWebhookConfiguration") => Self::Admission,
            _ => Self::Deploy,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_order_are_upstreams() {
        assert!(Phase::ALL.is_sorted());
        assert_eq!(
            Phase::ALL.map(Phase::as_str),
            [
                "namespaces",
                "policies",
                "identity",
                "configuration",
                "storage",
                "crds",
                "roles",
                "bindings",
                "infrastructure",
                "deploy",
                "scaling",
                "publish",
                "admission"
            ]
        );
    }

    #[test]
    fn group_and_kind_decide() {
        for (group, kind, phase) in [
            ("", "Namespace", Phase::Namespaces),
            ("policy", "PodDisruptionBudget", Phase::Policies),
            ("", "ServiceAccount", Phase::Identity),
            ("", "ConfigMap", Phase::Configuration),
            ("storage.k8s.io", "StorageClass", Phase::Storage),
            ("apiextensions.k8s.io", "CustomResourceDefinition", Phase::Crds),
            ("rbac.authorization.k8s.io", "Role", Phase::Roles),
            ("rbac.authorization.k8s.io", "ClusterRoleBinding", Phase::Bindings),
            ("cert-manager.io", "Issuer", Phase::Infrastructure),
            ("apps", "Deployment", Phase::Deploy),
            ("autoscaling.k8s.io", "VerticalPodAutoscaler", Phase::Scaling),
            ("monitoring.coreos.com", "PodMonitor", Phase::Publish),
            ("console.openshift.io", "ConsolePlugin", Phase::Publish),
            (
                "admissionregistration.k8s.io",
                "MutatingWebhookConfiguration",
                Phase::Admission,
            ),
            // A kind of another group has only its name in common.
            ("example.com", "Role", Phase::Deploy),
            ("example.com", "Secret", Phase::Deploy),
        ] {
            assert_eq!(Phase::of(group, kind), phase, "{group} {kind}");
        }
    }
}
