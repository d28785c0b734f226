//! Kinds that a fake API server serves.

use serde_json::Value;

/// A kind with all its versions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kind {
    /// API group, empty for the core group.
    pub group: String,
    /// Served versions; all contain the same objects.
    pub versions: Vec<String>,
    /// CamelCase name.
    pub kind: String,
    /// Name in paths.
    pub plural: String,
    /// True for namespaced kinds.
    pub namespaced: bool,
    /// True if the status is a subresource.
    pub status: bool,
    /// True for kinds of a CustomResourceDefinition: their lists repeat the type in each item, and server-side apply replaces their list
    /// fields as a whole.
    pub custom: bool,
}

impl Kind {
    /// Returns the kind that operators of an OpenShift cluster report to.
    pub fn cluster_operator() -> Self {
        Self {
            group: "config.openshift.io".into(),
            versions: vec!["v1".into()],
            kind: "ClusterOperator".into(),
            plural: "clusteroperators".into(),
            namespaced: false,
            status: true,
            custom: true,
        }
    }
}

/// Kind used for leader election. It is written regularly, even if there is nothing to do.
pub const LEASE: &str = "Lease";

/// Kind with which a client asks what it may do. Reviews are answered and not stored.
pub(super) const SELF_REVIEW: &str = "SelfSubjectAccessReview";

/// Group, versions, kind, plural, namespaced, status.
type Row = (&'static str, &'static str, &'static str, &'static str, bool, bool);

const BUILT_IN: &[Row] = &[
    ("", "v1", "Namespace", "namespaces", false, true),
    ("events.k8s.io", "v1", "Event", "events", true, false),
    ("", "v1", "Pod", "pods", true, true),
    ("", "v1", "Service", "services", true, true),
    ("", "v1", "ServiceAccount", "serviceaccounts", true, false),
    ("", "v1", "Secret", "secrets", true, false),
    ("", "v1", "ConfigMap", "configmaps", true, false),
    ("apps", "v1", "Deployment", "deployments", true, true),
    ("apps", "v1", "ReplicaSet", "replicasets", true, true),
    ("batch", "v1", "Job", "jobs", true, true),
    ("rbac.authorization.k8s.io", "v1", "Role", "roles", true, false),
    (
        "rbac.authorization.k8s.io",
        "v1",
        "RoleBinding",
        "rolebindings",
        true,
        false,
    ),
    (
        "rbac.authorization.k8s.io",
        "v1",
        "ClusterRole",
        "clusterroles",
        false,
        false,
    ),
    (
        "rbac.authorization.k8s.io",
        "v1",
        "ClusterRoleBinding",
        "clusterrolebindings",
        false,
        false,
    ),
    (
        "apiextensions.k8s.io",
        "v1",
        "CustomResourceDefinition",
        "customresourcedefinitions",
        false,
        true,
    ),
    (
        "apiregistration.k8s.io",
        "v1",
        "APIService",
        "apiservices",
        false,
        true,
    ),
    (
        "networking.k8s.io",
        "v1",
        "NetworkPolicy",
        "networkpolicies",
        true,
        false,
    ),
    ("coordination.k8s.io", "v1", LEASE, "leases", true, false),
    (
        "authorization.k8s.io",
        "v1",
        SELF_REVIEW,
        "selfsubjectaccessreviews",
        false,
        false,
    ),
    (
        "policy",
        "v1",
        "PodDisruptionBudget",
        "poddisruptionbudgets",
        true,
        true,
    ),
    (
        "scheduling.k8s.io",
        "v1",
        "PriorityClass",
        "priorityclasses",
        false,
        false,
    ),
    (
        "admissionregistration.k8s.io",
        "v1",
        "MutatingWebhookConfiguration",
        "mutatingwebhookconfigurations",
        false,
        false,
    ),
    (
        "admissionregistration.k8s.io",
        "v1",
        "ValidatingWebhookConfiguration",
        "validatingwebhookconfigurations",
        false,
        false,
    ),
];

/// Kinds of OLM's own CustomResourceDefinitions; a test need not create them.
const OLM: &[Row] = &[
    (
        "operators.coreos.com",
        "v1alpha1",
        "CatalogSource",
        "catalogsources",
        true,
        true,
    ),
    (
        "operators.coreos.com",
        "v1alpha1",
        "ClusterServiceVersion",
        "clusterserviceversions",
        true,
        true,
    ),
    (
        "operators.coreos.com",
        "v1alpha1",
        "InstallPlan",
        "installplans",
        true,
        true,
    ),
    (
        "operators.coreos.com",
        "v1alpha1",
        "Subscription",
        "subscriptions",
        true,
        true,
    ),
    (
        "operators.coreos.com",
        "v1 v1alpha2",
        "OperatorGroup",
        "operatorgroups",
        true,
        true,
    ),
    (
        "operators.coreos.com",
        "v2 v1",
        "OperatorCondition",
        "operatorconditions",
        true,
        true,
    ),
    ("operators.coreos.com", "v1", "Operator", "operators", false, true),
    (
        "operators.coreos.com",
        "v1",
        "OLMConfig",
        "olmconfigs",
        false,
        true,
    ),
];

/// Returns the kinds that every fake API server serves from its start.
pub(super) fn built_in() -> Vec<Kind> {
    let kind = |(group, versions, kind, plural, namespaced, status): &Row, custom| Kind {
        group: (*group).to_owned(),
        versions: versions.split(' ').map(str::to_owned).collect(),
        kind: (*kind).to_owned(),
        plural: (*plural).to_owned(),
        namespaced: *namespaced,
        status: *status,
        custom,
    };
    let native = BUILT_IN.iter().map(|row| kind(row, false));
    native.chain(OLM.iter().map(|row| kind(row, true))).collect()
}

/// Returns the kind that a CustomResourceDefinition defines, if it is complete and established.
pub(super) fn defined_by(crd: &Value) -> Option<Kind> {
    let conditions = crd["status"]["conditions"].as_array()?;
    let established = |condition: &Value| condition["type"] == "Established" && condition["status"] == "True";
    if !conditions.iter().any(established) {
        return None;
    }
    let spec = &crd["spec"];
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let served = |version: &&Value| version["served"] == true;
    let versions = spec["versions"].as_array()?;
    Some(Kind {
        group: text(&spec["group"])?,
        versions: versions
            .iter()
            .filter(served)
            .filter_map(|version| text(&version["name"]))
            .collect(),
        kind: text(&spec["names"]["kind"])?,
        plural: text(&spec["names"]["plural"])?,
        namespaced: spec["scope"] != "Cluster",
        status: versions
            .iter()
            .any(|version| version["subresources"]["status"].is_object()),
        custom: true,
    })
}
