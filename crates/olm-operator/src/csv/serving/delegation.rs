//! What a server of an API needs to ask the API server who calls it and whether he may: two bindings to roles that Kubernetes
//! has. Of fixed shape, they give nothing of the cluster's objects.

use std::collections::BTreeMap;

use k8s_openapi::api::rbac::v1::{ClusterRoleBinding, RoleBinding, Subject};
use kube::Resource;
use olm_api::{permission, v1alpha1::ClusterServiceVersion};
use olm_runtime::plan::Target;
use serde_json::{Value, json};

use crate::{
    csv::serving::{component::Component, endpoint::Endpoint},
    owner,
};

/// Where the API server tells whose certificates speak for it.
pub(crate) const READER_NAMESPACE: &str = "kube-system";
const DELEGATOR_ROLE: &str = "system:auth-delegator";
const READER_ROLE: &str = "extension-apiserver-authentication-reader";
/// How the name of the one in `kube-system` ends.
pub(crate) const READER_SUFFIX: &str = "-service-auth-reader";
/// How the name of the cluster-wide one ends.
pub(crate) const DELEGATOR_SUFFIX: &str = "-service-system:auth-delegator";

/// Names of the two bindings. They stand in no namespace of their own, so another's of the same name is not taken over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Names {
    pub(crate) delegator: String,
    pub(crate) reader: String,
}

impl Names {
    /// The names for an endpoint of `namespace`; `is_taken` tells of ones that serve another namespace.
    pub(crate) fn choose(
        endpoint: &Endpoint,
        namespace: &str,
        is_delegator_taken: impl Fn(&str) -> bool,
        is_reader_taken: impl Fn(&str) -> bool,
    ) -> Self {
        let service = endpoint.service();
        let choose = |name: String, is_taken: &dyn Fn(&str) -> bool| {
            if is_taken(&name) {
                within(namespace, &name)
            } else {
                name
            }
        };
        Self {
            delegator: choose(format!("{service}-{DELEGATOR_ROLE}"), &is_delegator_taken),
            reader: choose(format!("{service}-auth-reader"), &is_reader_taken),
        }
    }
}

/// The name for one whose first choice is taken. A colon is in no other part, so no two namespaces make one name of it.
pub(crate) fn within(namespace: &str, name: &str) -> String {
    format!("{namespace}:{name}")
}

/// True when a binding is for accounts of other namespaces.
pub(crate) fn is_of_another(subjects: Option<&[Subject]>, namespace: &str) -> bool {
    let mut subjects = subjects.into_iter().flatten();
    subjects.any(|subject| subject.namespace.as_deref() != Some(namespace))
}

/// Both bindings. The one in a namespace that is not the operator's is no component of its Operator, as upstream.
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

/// `marks` have the owner labels, by which the finalizer finds it.
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
