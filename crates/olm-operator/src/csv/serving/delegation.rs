//! Rights with which an API server extension authenticates and authorizes its callers through the API server:
//! two bindings to roles of Kubernetes. Their shape is fixed, and they grant no access to objects of the
//! cluster.

use std::collections::BTreeMap;

use k8s_openapi::api::rbac::v1::{ClusterRoleBinding, RoleBinding};
use kube::Resource;
use olm_api::{permission, v1alpha1::ClusterServiceVersion};
use olm_runtime::plan::Target;
use serde_json::{Value, json};

use crate::{
    csv::serving::{component::Component, endpoint::Endpoint},
    owner,
};

/// Namespace in which the API server publishes the CA of its client certificates.
pub(crate) const READER_NAMESPACE: &str = "kube-system";
const DELEGATOR_ROLE: &str = "system:auth-delegator";
const READER_ROLE: &str = "extension-apiserver-authentication-reader";
/// Suffix of the name of the binding in `kube-system`.
pub(crate) const READER_SUFFIX: &str = "-service-auth-reader";
/// Suffix of the name of the cluster-wide binding.
pub(crate) const DELEGATOR_SUFFIX: &str = "-service-system:auth-delegator";

/// Names of the two bindings. Neither is in the ClusterServiceVersion's namespace, so an existing one of
/// another namespace is not taken over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Names {
    pub(crate) delegator: String,
    pub(crate) reader: String,
}

impl Names {
    /// Returns the names that upstream uses for an endpoint.
    pub(crate) fn of(endpoint: &Endpoint) -> Self {
        let service = endpoint.service();
        Self {
            delegator: format!("{service}-{DELEGATOR_ROLE}"),
            reader: format!("{service}-auth-reader"),
        }
    }
}

/// Returns the fallback name if the first one is taken. No other part contains a colon, so the names of two
/// namespaces never collide.
pub(crate) fn within(namespace: &str, name: &str) -> String {
    format!("{namespace}:{name}")
}

/// Returns both bindings. The one in `kube-system` is no component of the Operator, as in upstream.
pub(crate) fn bindings(csv: &ClusterServiceVersion, endpoint: &Endpoint, names: &Names) -> [Component; 2] {
    let delegator = Target::cluster::<ClusterRoleBinding>(&names.delegator);
    let reader = Target::of::<RoleBinding>(READER_NAMESPACE, &names.reader);
    [
        binding::<ClusterRoleBinding>(
            csv,
            endpoint,
            delegator,
            ("ClusterRole", DELEGATOR_ROLE),
            &owner::marks(csv),
        ),
        binding::<RoleBinding>(csv, endpoint, reader, ("Role", READER_ROLE), &owner::labels(csv)),
    ]
}

/// Builds a binding; `marks` contain the owner labels, by which the finalizer finds it.
fn binding<K: Resource<DynamicType = ()>>(
    csv: &ClusterServiceVersion,
    endpoint: &Endpoint,
    target: Target,
    (kind, role): (&str, &str),
    marks: &BTreeMap<String, String>,
) -> Component {
    let namespace = csv.metadata.namespace.as_deref().unwrap_or_default();
    let subject = permission::service_account_subject(namespace, &endpoint.account);
    let object: Value = json!({
        "apiVersion": K::api_version(&()), "kind": K::kind(&()),
        "metadata": {"name": target.name, "namespace": target.namespace, "labels": marks},
        "roleRef": permission::role_ref(kind, role), "subjects": [subject],
    });
    Component::new(target, object)
}
